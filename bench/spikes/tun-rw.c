// The control of tun-uring.c: the same two devices with poll, read and write, in C. What io_uring gives is the difference to this one,
// and what C instead of the project's loop gives is the difference between this one and the raw TUN forwarder.
//
// `soon` writes each packet before the next is read, out of one buffer; `held` reads a batch first, as a gateway's round does.
// That up to 2 MB lie between a packet's two copies then was thought to cost; it did not (1.0 to 1.2 times the throughput of `soon`).
// Usage: tun-rw soon|held ACCESS-DEVICE WAN-DEVICE
#include "tun.h"
#include <poll.h>

enum { BATCH = 32 };

int main(int argc, char **argv) {
    if (argc != 4) errx(2, "usage: tun-rw soon|held ACCESS-DEVICE WAN-DEVICE");
    int holds = !strcmp(argv[1], "held");
    struct pollfd devices[2];
    for (int i = 0; i < 2; i++) devices[i] = (struct pollfd){tun(argv[2 + i], O_NONBLOCK), POLLIN, 0};
    static char buffers[BATCH][BUFFER];
    ssize_t lengths[BATCH];
    puts("ready");
    fflush(stdout);
    for (;;) {
        if (poll(devices, 2, -1) < 0) err(1, "poll");
        for (int i = 0; i < 2; i++) {
            int more = devices[i].revents != 0;
            for (int done = 0; more && done < BATCH;) {
                int n = 0;
                for (; n < (holds ? BATCH : 1) && more; n += more) more = (lengths[n] = read(devices[i].fd, buffers[n], BUFFER)) > 0;
                // What the kernel does not take is lost, as a router's full queue would lose it.
                for (int k = 0; k < n; k++)
                    if (write(devices[!i].fd, buffers[k], lengths[k]) < 0 && errno != EAGAIN) warn("write");
                done += n;
            }
        }
    }
}
