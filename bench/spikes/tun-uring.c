// A forwarder between two TUN devices whose reads and writes are all asked for by io_uring, without liburing.
//
// `multishot`: one read a device that stays armed and takes a buffer of a ring for each packet (Linux 6.7); each packet is written from
// that buffer, and all writes of a round are submitted by the call that waits for the next packets.
// `fixed`: registered buffers and files. A device that has packets (a multishot poll) is asked for BATCH of them at once by READ_FIXED,
// and what came is written by WRITE_FIXED.
//
// A read is not linked to its write: a link is submitted with the write's length in it, and that is known when the read is done.
// (A splitting gateway could not link them either: it has to see the packet, and rewrites it.)
// Usage: tun-uring multishot|fixed ACCESS-DEVICE WAN-DEVICE
#include "tun.h"
#include <linux/io_uring.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>

// This machine's headers are of 6.1, its kernel is not.
enum { OP_READ_MULTISHOT = 49 };
// Few: a ring of buffers gives the one that has lain longest, and 128 of them (9 MB) are in no cache (0.7 times the throughput of 32, in two
// turns on a busy machine).
enum { ENTRIES = 512, BUFFERS = 32, BATCH = 16 };
enum { READ, WRITE, POLL };  // what an operation was, in its user_data with device and buffer

static int ring;
static unsigned *sq_tail, *cq_head, *cq_tail, sq_mask, cq_mask, unsubmitted;
static struct io_uring_sqe *sqes;
static struct io_uring_cqe *cqes;
static char *memory;
static int devices[2];

static long enter(unsigned submit, unsigned wait) {
    return syscall(SYS_io_uring_enter, ring, submit, wait, IORING_ENTER_GETEVENTS, NULL, 0);
}
static void set_up(void) {
    // One thread asks and waits, so completions are made when it waits, all together, and it is not interrupted for each.
    struct io_uring_params p = {.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE, .cq_entries = 4 * ENTRIES};
    ring = syscall(SYS_io_uring_setup, ENTRIES, &p);
    if (ring < 0) err(1, "io_uring_setup");
    size_t size = p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe);
    char *rings = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQ_RING);
    sqes = mmap(NULL, p.sq_entries * sizeof *sqes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQES);
    if (rings == MAP_FAILED || sqes == MAP_FAILED) err(1, "mmap");
    unsigned *array = (void *)(rings + p.sq_off.array);
    for (unsigned i = 0; i < p.sq_entries; i++) array[i] = i;
    sq_tail = (void *)(rings + p.sq_off.tail), sq_mask = *(unsigned *)(rings + p.sq_off.ring_mask);
    cq_head = (void *)(rings + p.cq_off.head), cq_tail = (void *)(rings + p.cq_off.tail);
    cq_mask = *(unsigned *)(rings + p.cq_off.ring_mask), cqes = (void *)(rings + p.cq_off.cqes);
}
static void submit(unsigned wait) {
    while (enter(unsubmitted, wait) < 0)
        if (errno != EINTR && errno != EAGAIN && errno != EBUSY) err(1, "io_uring_enter");
    unsubmitted = 0;
}
static struct io_uring_sqe *ask(int kind, int opcode, int device, unsigned buffer) {
    if (unsubmitted == ENTRIES) submit(0);
    struct io_uring_sqe *sqe = &sqes[*sq_tail & sq_mask];
    memset(sqe, 0, sizeof *sqe);
    sqe->opcode = opcode, sqe->fd = device, sqe->flags = IOSQE_FIXED_FILE;
    sqe->user_data = kind | device << 4 | buffer << 8;
    atomic_store_explicit((_Atomic unsigned *)sq_tail, *sq_tail + 1, memory_order_release);
    unsubmitted++;
    return sqe;
}
static char *at(unsigned buffer) { return memory + (size_t)buffer * BUFFER; }
static long sys_register(unsigned what, void *with, unsigned count) { return syscall(SYS_io_uring_register, ring, what, with, count); }

// Buffers that reads take by themselves.
static struct io_uring_buf_ring *offered;
static void give_back(unsigned buffer) {
    struct io_uring_buf *place = &offered->bufs[offered->tail % BUFFERS];
    place->addr = (uintptr_t)at(buffer), place->len = BUFFER, place->bid = buffer;
    atomic_store_explicit((_Atomic uint16_t *)&offered->tail, offered->tail + 1, memory_order_release);
}
static void read_on(int device) {
    struct io_uring_sqe *sqe = ask(READ, OP_READ_MULTISHOT, device, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT;
}
static void write_out(int opcode, int device, unsigned buffer, unsigned length) {
    struct io_uring_sqe *sqe = ask(WRITE, opcode, device, buffer);
    sqe->addr = (uintptr_t)at(buffer), sqe->len = length;
    if (opcode == IORING_OP_WRITE_FIXED) sqe->buf_index = buffer;
}

int main(int argc, char **argv) {
    int multishot = argc == 4 && !strcmp(argv[1], "multishot"), fixed = argc == 4 && !strcmp(argv[1], "fixed");
    if (!multishot && !fixed) errx(2, "usage: tun-uring multishot|fixed ACCESS-DEVICE WAN-DEVICE");
    // A read of a file that does not block fails at once where nothing waits: so a batch of them ends, but a multishot read would.
    for (int i = 0; i < 2; i++) devices[i] = tun(argv[2 + i], fixed ? O_NONBLOCK : 0);
    set_up();
    if (sys_register(IORING_REGISTER_FILES, devices, 2)) err(1, "registering files");
    memory = mmap(NULL, (size_t)BUFFERS * BUFFER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    unsigned free_buffers[BUFFERS], free_count = 0, asked[2] = {0}, got[2] = {0};
    int readable[2] = {0};
    if (multishot) {
        offered = mmap(NULL, BUFFERS * sizeof(struct io_uring_buf), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        struct io_uring_buf_reg reg = {.ring_addr = (uintptr_t)offered, .ring_entries = BUFFERS};
        if (sys_register(IORING_REGISTER_PBUF_RING, &reg, 1)) err(1, "registering a ring of buffers");
        for (unsigned i = 0; i < BUFFERS; i++) give_back(i);
        for (int i = 0; i < 2; i++) read_on(i);
    } else {
        struct iovec parts[BUFFERS];
        for (unsigned i = 0; i < BUFFERS; i++) parts[i] = (struct iovec){at(i), BUFFER}, free_buffers[free_count++] = i;
        if (sys_register(IORING_REGISTER_BUFFERS, parts, BUFFERS)) err(1, "registering buffers");
        for (int i = 0; i < 2; i++) ask(POLL, IORING_OP_POLL_ADD, i, 0)->poll32_events = 1, sqes[(*sq_tail - 1) & sq_mask].len = IORING_POLL_ADD_MULTI;
    }
    puts("ready");
    fflush(stdout);
    for (;;) {
        submit(1);
        unsigned head = *cq_head, tail = atomic_load_explicit((_Atomic unsigned *)cq_tail, memory_order_acquire);
        int rearm[2] = {0};
        for (; head != tail; head++) {
            struct io_uring_cqe *cqe = &cqes[head & cq_mask];
            int kind = cqe->user_data & 15, device = cqe->user_data >> 4 & 15, result = cqe->res;
            unsigned buffer = cqe->user_data >> 8;
            if (kind == WRITE) {
                if (result < 0 && result != -EAGAIN) warnx("write: %s", strerror(-result));
                if (multishot) give_back(buffer); else free_buffers[free_count++] = buffer;
            } else if (kind == POLL) {
                if (result < 0 || !(cqe->flags & IORING_CQE_F_MORE)) errx(1, "poll: %d", result);
                readable[device] = 1;
            } else if (multishot) {
                if (result > 0) write_out(IORING_OP_WRITE, !device, cqe->flags >> IORING_CQE_BUFFER_SHIFT, result);
                else if (result != -ENOBUFS) errx(1, "read: %s", strerror(-result));
                if (!(cqe->flags & IORING_CQE_F_MORE)) rearm[device] = 1;
            } else {
                asked[device]--;
                if (result > 0) write_out(IORING_OP_WRITE_FIXED, !device, buffer, result), got[device]++;
                else if (result == -EAGAIN) readable[device] = 0, free_buffers[free_count++] = buffer;
                else errx(1, "read: %s", strerror(-result));
            }
        }
        atomic_store_explicit((_Atomic unsigned *)cq_head, head, memory_order_release);
        for (int i = 0; i < 2; i++) {
            if (rearm[i]) read_on(i);
            // As many as the last time and a few more: a read that finds nothing costs, too.
            if (fixed && readable[i] && !asked[i]) {
                for (unsigned n = got[i] + 2 < BATCH ? got[i] + 2 : BATCH; n && free_count; n--, asked[i]++) {
                    unsigned buffer = free_buffers[--free_count];
                    struct io_uring_sqe *sqe = ask(READ, IORING_OP_READ_FIXED, i, buffer);
                    sqe->addr = (uintptr_t)at(buffer), sqe->len = BUFFER, sqe->buf_index = buffer;
                }
                got[i] = 0;
            }
        }
    }
}
