// What both TUN spikes share: devices as `shorthaul gateway --forward-only` makes them (crates/os/src/tun.rs).
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

// A virtio header and the longest packet. Rounded to pages, so that registered buffers do not share one.
#define BUFFER (68 * 1024)

static int tun(const char *name, int flags) {
    int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC | flags);
    if (fd < 0) err(1, "/dev/net/tun");
    struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR};
    strncpy(request.ifr_name, name, IFNAMSIZ - 1);
    if (ioctl(fd, TUNSETIFF, &request)) err(1, "TUNSETIFF %s", name);
    if (ioctl(fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN)) err(1, "TUNSETOFFLOAD");
    return fd;
}
