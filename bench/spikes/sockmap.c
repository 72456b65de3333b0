// A transparent relay (TPROXY, as HAProxy is in bench/gateway.sh) whose two established sockets are joined in the kernel: a verdict program
// sends each segment that arrives at one out of the other, and this process sees only how connections begin and end.
//
// `splice` moves the same bytes through a pipe in this process instead (splice(2)): what the join gives is the difference.
// Usage: sockmap join|splice PORT
#define _GNU_SOURCE
#include "bpf.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <linux/sockios.h>
#include <sys/resource.h>
#include <sys/socket.h>

enum { LEGS = 1 << 14 };
struct key { uint32_t remote_ip, local_ip, remote_port, local_port; };
struct leg {
    int socket, pipe[2], is_over, is_shut;  // over: its end has finished; shut: and has been told so
    size_t in_pipe;
    uint64_t acknowledged_before;
    struct leg *peer;
    int is_connected, is_joined;  // joined: what comes from it goes on in the kernel
};
static struct leg *waiting[LEGS];  // legs that are over, while what came is on its way to the other
static int waits;
static struct leg *ended[LEGS];  // freed when a round's events have been looked at: another of them may be of the same
static int ends;
static int joins, targets, sources, listener, events;

static struct key key_of(int socket) {
    struct sockaddr_in local, remote;
    socklen_t size = sizeof local;
    getsockname(socket, (void *)&local, &size);
    size = sizeof remote;
    getpeername(socket, (void *)&remote, &size);
    // As the program reads them: the remote port in network order, the local one in the host's.
    return (struct key){remote.sin_addr.s_addr, local.sin_addr.s_addr, htonl(ntohs(remote.sin_port)), ntohs(local.sin_port)};
}
// Two maps: a socket in `sources` has the program called, one in `targets` is found by it. With one map for both, what came between the
// first socket's turn and the second's would find no target, and be dropped.
static void attach(void) {
    targets = bpf_map(BPF_MAP_TYPE_SOCKHASH, sizeof(struct key), 4, LEGS);
    sources = bpf_map(BPF_MAP_TYPE_SOCKHASH, sizeof(struct key), 4, LEGS);
    struct bpf_insn program[] = {
        MOVE(6, 1),
        // A FIN comes by as an empty segment, and sending nothing out of a socket that was shut meanwhile is EPIPE: for both directions.
        LOAD(BPF_W, 2, 6, __builtin_offsetof(struct __sk_buff, len)), JUMP_K(BPF_JNE, 2, 0, 2), SET(0, SK_DROP), EXIT,
#define FIELD(name, at) LOAD(BPF_W, 2, 6, __builtin_offsetof(struct __sk_buff, name)), STORE(BPF_W, 10, at, 2)
        FIELD(remote_ip4, -16), FIELD(local_ip4, -12), FIELD(remote_port, -8), FIELD(local_port, -4),
        MOVE(1, 6), MAP(2, targets), MOVE(3, 10), ADD(3, -16), SET(4, 0),  // out of the socket that stands at the key of this one
        CALL(BPF_FUNC_sk_redirect_hash), EXIT,
    };
    union bpf_attr a = {.target_fd = sources, .attach_bpf_fd = bpf_load(BPF_PROG_TYPE_SK_SKB, 0, program, sizeof program / sizeof *program),
                        .attach_type = BPF_SK_SKB_STREAM_VERDICT};
    if (bpf(BPF_PROG_ATTACH, &a)) err(1, "attaching to the map");
}

static void watch(struct leg *leg, uint32_t what) {
    struct epoll_event event = {what | EPOLLET, {.ptr = leg}};
    if (epoll_ctl(events, EPOLL_CTL_ADD, leg->socket, &event) && errno == EEXIST) epoll_ctl(events, EPOLL_CTL_MOD, leg->socket, &event);
}
static void end(struct leg *leg) {
    struct leg *both[] = {leg, leg->peer};
    for (int i = 0; i < 2; i++) {
        for (int n = 0; n < waits; n++)
            if (waiting[n] == both[i]) waiting[n--] = waiting[--waits];
        close(both[i]->socket);  // takes it out of the maps, too
        if (both[i]->pipe[1]) close(both[i]->pipe[0]), close(both[i]->pipe[1]);
    }
    for (int i = 0; i < 2; i++) both[i]->socket = -1, ended[ends++] = both[i];
}
static int transparent(void) {
    int s = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;
    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (setsockopt(s, SOL_IP, IP_TRANSPARENT, &one, sizeof one)) err(1, "IP_TRANSPARENT");
    if (setsockopt(s, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5)) err(1, "cubic");
    return s;
}
static void begin(int accepted) {
    struct leg *client = calloc(1, sizeof *client), *server = calloc(1, sizeof *server);
    client->peer = server, server->peer = client;
    client->socket = accepted, server->socket = transparent();
    struct sockaddr_in to, from;
    socklen_t size = sizeof to;
    getsockname(accepted, (void *)&to, &size);
    size = sizeof from;
    getpeername(accepted, (void *)&from, &size);
    // In the client's name, port included, as a gateway would.
    if (bind(server->socket, (void *)&from, sizeof from) || (connect(server->socket, (void *)&to, sizeof to) && errno != EINPROGRESS)) {
        warn("no connection to the server");
        end(client);
        return;
    }
    watch(server, EPOLLOUT);
}
static struct tcp_info info(struct leg *leg) {
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    getsockopt(leg->socket, IPPROTO_TCP, TCP_INFO, &info, &size);
    return info;
}
// Whether all that came from `leg` has been given to the other's socket. What the kernel has taken off one and not yet put to the other is
// in a queue that nobody can ask about, and a FIN that overtakes it cuts the stream: so bytes are counted at both ends.
static int is_passed(struct leg *leg) {
    if (!leg->is_joined) return leg->in_pipe == 0;
    int unacknowledged = 0;
    ioctl(leg->peer->socket, SIOCOUTQ, &unacknowledged);
    uint64_t given = info(leg->peer).tcpi_bytes_acked - leg->peer->acknowledged_before + unacknowledged;
    return given + 1 >= info(leg).tcpi_bytes_received;  // of which the FIN is one
}
static int shut_if_passed(struct leg *leg) {
    if (!is_passed(leg)) return 0;
    leg->is_shut = 1;
    shutdown(leg->peer->socket, SHUT_WR);
    if (leg->peer->is_shut) end(leg);
    return 1;
}
static void over(struct leg *leg) {
    if (leg->is_over) return;
    leg->is_over = 1;
    if (!shut_if_passed(leg)) waiting[waits++] = leg;
}
static void join(struct leg *server) {
    struct leg *both[] = {server, server->peer};
    int found = joins;
    for (int i = 0; i < 2; i++) {
        struct leg *leg = both[i];
        leg->is_connected = 1;
        leg->acknowledged_before = info(leg).tcpi_bytes_acked;
        struct key key = key_of(leg->peer->socket);
        found = found && !bpf_put(targets, &key, &leg->socket);
    }
    for (int i = 0; i < 2; i++) {
        struct leg *leg = both[i];
        struct key key = key_of(leg->peer->socket);
        // EOPNOTSUPP: its end has sent a FIN already. Only what is established both ways is taken; the rest is moved here.
        leg->is_joined = found && !bpf_put(sources, &key, &leg->socket);
        if (!leg->is_joined && pipe2(leg->pipe, O_NONBLOCK)) err(1, "pipe2");
        // What had come before is in the socket's queue, and the program is not called for it until more comes. Read here, it might be
        // overtaken; asked for this, the kernel looks at the queue again.
        int one = 1;
        if (leg->is_joined) setsockopt(leg->socket, SOL_SOCKET, SO_RCVLOWAT, &one, sizeof one);
    }
    for (int i = 0; i < 2; i++) {
        // EPOLLOUT for the other's sake, of which we may hold something in a pipe.
        int moves = !both[i]->is_joined || !both[i]->peer->is_joined;
        watch(both[i], moves ? EPOLLIN | EPOLLOUT | EPOLLRDHUP : EPOLLRDHUP);
    }
}
static void move(struct leg *from) {
    for (;;) {
        ssize_t in = splice(from->socket, NULL, from->pipe[1], NULL, 1 << 20, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
        if (in > 0) from->in_pipe += in;
        ssize_t out = from->in_pipe ? splice(from->pipe[0], NULL, from->peer->socket, NULL, from->in_pipe, SPLICE_F_NONBLOCK | SPLICE_F_MOVE) : 0;
        if (out > 0) from->in_pipe -= out;
        if (in == 0 && !from->in_pipe) { over(from); return; }
        if (in <= 0 && out <= 0) return;
    }
}

int main(int argc, char **argv) {
    if (argc != 3) errx(2, "usage: sockmap join|splice PORT");
    joins = !strcmp(argv[1], "join");
    signal(SIGPIPE, SIG_IGN);
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){1 << 16, 1 << 16});
    if (joins) attach();
    listener = transparent();
    events = epoll_create1(EPOLL_CLOEXEC);
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[2]))};
    if (bind(listener, (void *)&any, sizeof any) || listen(listener, 1024)) err(1, "listening");
    struct epoll_event event = {EPOLLIN, {.ptr = NULL}};
    epoll_ctl(events, EPOLL_CTL_ADD, listener, &event);
    puts("ready");
    fflush(stdout);
    for (;;) {
        struct epoll_event batch[256];
        int count = epoll_wait(events, batch, 256, waits ? 1 : -1);
        for (int i = 0; i < count; i++) {
            struct leg *leg = batch[i].data.ptr;
            uint32_t what = batch[i].events;
            if (!leg) {
                for (int s; (s = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) begin(s);
            } else if (leg->socket < 0) {
                continue;
            } else if (what & EPOLLERR) {
                end(leg);
            } else {
                if (!leg->is_connected) join(leg);
                struct leg *both[] = {leg, leg->peer};
                for (int n = 0; n < 2; n++)
                    if (both[n]->socket >= 0 && !both[n]->is_joined && !both[n]->is_over) move(both[n]);
                if (leg->socket >= 0 && leg->is_joined && what & (EPOLLRDHUP | EPOLLHUP)) over(leg);
            }
        }
        for (int n = 0; n < waits; n++) {
            int before = waits;
            if (shut_if_passed(waiting[n])) { if (waits == before) waiting[n] = waiting[--waits]; n = -1; }
        }
        while (ends) free(ended[--ends]);
    }
}
