#!/usr/bin/env bash
# Relays on loopback, in one run: ours, HAProxy, socat and tokio's copy_bidirectional. Minutes, on a machine
# with nothing else to do. `quick` takes less than one; names (`direct shorthaul`) choose some of them. The
# last line is JSON.
set -euo pipefail
cd "$(dirname "$0")/.."
# Both ends of 50,000 idle sessions are in one process.
ulimit -n 250000 2>/dev/null || ulimit -n "$(ulimit -Hn)"
cargo build --release --quiet -p shorthaul-relay --example relay_bench
# In a network of its own, where every connection of everybody has the same congestion control.
inside='ip link set lo up && echo reno > /proc/sys/net/ipv4/tcp_congestion_control && exec "$@"'
[ "$(id -u)" = 0 ] && own=(unshare --net) || own=(unshare --user --map-root-user --net)
exec "${own[@]}" sh -c "$inside" sh target/release/examples/relay_bench "$@"
