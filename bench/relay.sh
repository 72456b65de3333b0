#!/usr/bin/env bash
# Relays on loopback, in one run: ours, HAProxy, socat and tokio's copy_bidirectional; then TLS that ours, HAProxy and stunnel end. Minutes,
# on a machine with nothing else to do. `quick` takes two minutes; `plain` and `tls` choose one half, names (`direct shorthaul`) some of them. The
# last line is JSON. PROFILE=dev takes what cargo builds by default.
set -euo pipefail
cd "$(dirname "$0")/.."
# A relay has two descriptors for each session. Where they are few, idle sessions take more processes.
ulimit -n 250000 2>/dev/null || ulimit -n "$(ulimit -Hn)"
profile=${PROFILE:-release}
cargo build --profile "$profile" --quiet -p shorthaul-relay --example relay_bench
# In a network of its own, where every connection of everybody has the same congestion control.
inside='ip link set lo up && echo reno > /proc/sys/net/ipv4/tcp_congestion_control && exec "$@"'
[ "$(id -u)" = 0 ] && own=(unshare --net) || own=(unshare --user --map-root-user --net)
exec "${own[@]}" sh -c "$inside" sh "target/${profile/#dev/debug}/examples/relay_bench" "$@"
