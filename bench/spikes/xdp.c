// A forwarder between two devices with AF_XDP sockets in copy mode (the only one that veth has): TCP over IPv4 is taken from each device
// by a program, its frames land in memory that both sockets share, get the hardware addresses of the other side, and are sent from where
// they lie. Everything else, ARP above all, is the kernel's.
//
// A frame has no virtio header here: what the kernel had not finished (checksums, segmentation) would stay so. The ends have to finish
// it (`ethtool -K … tx off tso off gso off`).
//
// `count` only says what arrives: frames, of how many parts, and the longest; `parts` sends frames of several parts on, too. So it can be
// tried whether super-segments pass.
// Usage: xdp native|generic DEVICE OWN-MAC NEXT-MAC DEVICE OWN-MAC NEXT-MAC [count|parts]
#include "bpf.h"
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/if_xdp.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/socket.h>

// Not in this machine's headers: frames of several parts (Linux 6.6).
enum { USE_SG = 1 << 4, CONTINUED = 1 << 0, HAS_FRAGMENTS = 1 << 5 };
enum { FRAME = 4096, FRAMES = 8192, RING = 2048, BATCH = 64 };

struct ring { unsigned *producer, *consumer, mask; void *entries; };
struct side {
    int socket, index;
    struct ring rx, tx, fill, done;
    unsigned char header[12];  // what frames that leave here begin with: to, from
    unsigned outstanding;
};
static struct side sides[2];
static char *memory;
static uint64_t free_frames[FRAMES];
static unsigned free_count, longest;
static unsigned long frames, parts;

static unsigned load(unsigned *at) { return atomic_load_explicit((_Atomic unsigned *)at, memory_order_acquire); }
static void store(unsigned *at, unsigned value) { atomic_store_explicit((_Atomic unsigned *)at, value, memory_order_release); }

static struct ring map_ring(int socket, int option, off_t place, struct xdp_ring_offset *at, size_t entry) {
    int count = RING;
    if (setsockopt(socket, SOL_XDP, option, &count, sizeof count)) err(1, "a ring");
    struct xdp_mmap_offsets offsets;
    socklen_t size = sizeof offsets;
    if (getsockopt(socket, SOL_XDP, XDP_MMAP_OFFSETS, &offsets, &size)) err(1, "offsets");
    struct xdp_ring_offset o = *(struct xdp_ring_offset *)((char *)&offsets + (size_t)at);
    char *ring = mmap(NULL, o.desc + RING * entry, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, socket, place);
    if (ring == MAP_FAILED) err(1, "mmap");
    return (struct ring){(void *)(ring + o.producer), (void *)(ring + o.consumer), RING - 1, ring + o.desc};
}
#define AT(field) ((struct xdp_ring_offset *)__builtin_offsetof(struct xdp_mmap_offsets, field))

static void open_side(struct side *side, const char *device, int sg) {
    side->index = if_nametoindex(device);
    side->socket = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (side->socket < 0) err(1, "AF_XDP");
    if (side == sides) {
        struct xdp_umem_reg reg = {.addr = (uintptr_t)memory, .len = (uint64_t)FRAME * FRAMES, .chunk_size = FRAME};
        if (setsockopt(side->socket, SOL_XDP, XDP_UMEM_REG, &reg, sizeof reg)) err(1, "XDP_UMEM_REG");
    }
    side->rx = map_ring(side->socket, XDP_RX_RING, XDP_PGOFF_RX_RING, AT(rx), sizeof(struct xdp_desc));
    side->tx = map_ring(side->socket, XDP_TX_RING, XDP_PGOFF_TX_RING, AT(tx), sizeof(struct xdp_desc));
    side->fill = map_ring(side->socket, XDP_UMEM_FILL_RING, XDP_UMEM_PGOFF_FILL_RING, AT(fr), sizeof(uint64_t));
    side->done = map_ring(side->socket, XDP_UMEM_COMPLETION_RING, XDP_UMEM_PGOFF_COMPLETION_RING, AT(cr), sizeof(uint64_t));
    struct sockaddr_xdp address = {.sxdp_family = AF_XDP, .sxdp_ifindex = side->index, .sxdp_flags = XDP_COPY | (sg ? USE_SG : 0)};
    // Both take frames from and send frames of the same memory: what came in at one leaves by the other without a copy of ours.
    if (side != sides) address.sxdp_flags = XDP_SHARED_UMEM, address.sxdp_shared_umem_fd = sides[0].socket;
    if (bind(side->socket, (void *)&address, sizeof address)) err(1, "bind %s", device);
}

// TCP over IPv4 goes to the socket of its queue, all else to the kernel.
static void attach(struct side *side, int generic, int sg) {
    int map = bpf_map(BPF_MAP_TYPE_XSKMAP, 4, 4, 1), zero = 0;
    struct bpf_insn program[] = {
        LOAD(BPF_W, 2, 1, 0),                    // data
        LOAD(BPF_W, 3, 1, 4),                    // data_end
        MOVE(4, 2), ADD(4, 34),
        JUMP(BPF_JGT, 4, 3, 0),                  // shorter than a header of IPv4
        LOAD(BPF_H, 4, 2, 12),
        JUMP_K(BPF_JNE, 4, 0x0008, 0),           // ETH_P_IP, as it lies there
        LOAD(BPF_B, 4, 2, 23),
        JUMP_K(BPF_JNE, 4, 6, 0),                // TCP
        MAP(1, map), SET(2, 0), SET(3, XDP_PASS),
        CALL(BPF_FUNC_redirect_map), EXIT,
        SET(0, XDP_PASS), EXIT,
    };
    // The jumps go to the last two instructions.
    for (int i = 4; i <= 8; i += 2) program[i].off = (int)(sizeof program / sizeof *program) - 2 - i - 1;
    int loaded = bpf_load(BPF_PROG_TYPE_XDP, sg ? HAS_FRAGMENTS : 0, program, sizeof program / sizeof *program);
    if (bpf_put(map, &zero, &side->socket)) err(1, "xskmap");
    union bpf_attr a = {.link_create = {.prog_fd = loaded, .target_ifindex = side->index, .attach_type = BPF_XDP,
                                        .flags = generic ? XDP_FLAGS_SKB_MODE : XDP_FLAGS_DRV_MODE}};
    // The link is left open: the program goes with the process.
    if (bpf(BPF_LINK_CREATE, &a) < 0) err(1, "attaching, %s", generic ? "generic" : "native");
}

static void refill(struct side *side) {
    unsigned producer = *side->fill.producer, room = RING - (producer - load(side->fill.consumer));
    // Half of the frames may wait for either side.
    for (; room && free_count; room--) ((uint64_t *)side->fill.entries)[producer++ & side->fill.mask] = free_frames[--free_count];
    store(side->fill.producer, producer);
}
static void reap(struct side *side) {
    unsigned consumer = *side->done.consumer, producer = load(side->done.producer);
    for (; consumer != producer; consumer++, side->outstanding--)
        free_frames[free_count++] = ((uint64_t *)side->done.entries)[consumer & side->done.mask] & ~(uint64_t)(FRAME - 1);
    store(side->done.consumer, consumer);
}
static void pass(struct side *from, struct side *to, int only_count) {
    unsigned consumer = *from->rx.consumer, available = load(from->rx.producer) - consumer;
    unsigned producer = *to->tx.producer, room = RING - (producer - load(to->tx.consumer));
    static unsigned length;
    int begins = 1;
    for (unsigned n = 0; n < available; n++, consumer++) {
        struct xdp_desc d = ((struct xdp_desc *)from->rx.entries)[consumer & from->rx.mask];
            length = begins ? d.len : length + d.len, longest = length > longest ? length : longest;
        parts++, frames += begins;
        if (only_count || !room) {  // a full queue loses what comes
            free_frames[free_count++] = d.addr & ~(uint64_t)(FRAME - 1);
        } else {
            if (begins) memcpy(memory + d.addr, to->header, 12);
            ((struct xdp_desc *)to->tx.entries)[producer++ & to->tx.mask] = d;
            room--, to->outstanding++;
        }
        begins = !(d.options & CONTINUED);
    }
    store(from->rx.consumer, consumer);
    store(to->tx.producer, producer);
    // In copy mode the call sends, at most 32 at a time. EAGAIN: there are more of them.
    while (load(to->tx.consumer) != producer)
        if (sendto(to->socket, NULL, 0, MSG_DONTWAIT, NULL, 0) < 0 && errno != EAGAIN && errno != EBUSY && errno != ENOBUFS) { warn("sendto"); break; }
    reap(to);
    refill(from);
}
static void say(int signal) {
    (void)signal;
    fprintf(stderr, "%lu frames of %lu parts, the longest %u bytes\n", frames, parts, longest);
    for (int i = 0; i < 2; i++) {
        struct xdp_statistics s = {0};
        socklen_t size = sizeof s;
        getsockopt(sides[i].socket, SOL_XDP, XDP_STATISTICS, &s, &size);
        fprintf(stderr, "side %d: dropped %llu, ring full %llu, fill ring empty %llu, invalid to send %llu\n", i, s.rx_dropped, s.rx_ring_full,
                s.rx_fill_ring_empty_descs, s.tx_invalid_descs);
    }
    _exit(0);
}
static void mac(const char *text, unsigned char *to) {
    if (sscanf(text, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", to, to + 1, to + 2, to + 3, to + 4, to + 5) != 6) errx(2, "%s is no MAC", text);
}

int main(int argc, char **argv) {
    if (argc < 8) errx(2, "usage: xdp native|generic DEVICE OWN-MAC NEXT-MAC DEVICE OWN-MAC NEXT-MAC [count|parts]");
    int generic = !strcmp(argv[1], "generic"), sg = argc > 8, only_count = sg && !strcmp(argv[8], "count");
    memory = mmap(NULL, (size_t)FRAME * FRAMES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    for (unsigned i = 0; i < FRAMES; i++) free_frames[free_count++] = (uint64_t)i * FRAME;
    struct pollfd wait[2];
    for (int i = 0; i < 2; i++) {
        open_side(&sides[i], argv[2 + 3 * i], sg);
        mac(argv[4 + 3 * i], sides[i].header), mac(argv[3 + 3 * i], sides[i].header + 6);
        refill(&sides[i]);
        attach(&sides[i], generic, sg);
        wait[i] = (struct pollfd){sides[i].socket, POLLIN, 0};
    }
    signal(SIGTERM, say);
    puts("ready");
    fflush(stdout);
    for (;;) {
        if (poll(wait, 2, -1) < 0 && errno != EINTR) err(1, "poll");
        for (int i = 0; i < 2; i++) pass(&sides[i], &sides[!i], only_count);
    }
}
