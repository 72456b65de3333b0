#!/usr/bin/env bash
# Throughput of a gateway between two namespaces, one and eight iperf3 flows: plain forwarding, a raw TUN
# forwarder, HAProxy (transparent, splice) and shorthaul, in one run. Ends with one line of JSON.
# Usage: bench/gateway.sh PATH-TO-SHORTHAUL [SECONDS]
set -euo pipefail
shorthaul=$(realpath "$1")
seconds=${2:-3}
for tool in ip iperf3 python3; do
    command -v "$tool" >/dev/null || { echo "this needs $tool (apt-get install iproute2 iperf3 python3)" >&2; exit 1; }
done
tag=shb$$
work=$(mktemp -d)
pids=()
cleanup() {
    for pid in "${pids[@]}"; do { kill "$pid" && wait "$pid"; } 2>/dev/null || true; done
    for host in c g s; do ip netns del "$tag$host" 2>/dev/null || true; done
    rm -rf "$work"
}
trap cleanup EXIT
on() { local host=$1; shift; ip netns exec "$tag$host" "$@"; }
# Not a function call in the background: its process would be a shell, which a signal would not get past.
start() { local host=$1 log=$2; shift 2; ip netns exec "$tag$host" "$@" >"$log" 2>&1 & started=$!; pids+=("$started"); }
for host in c g s; do ip netns add "$tag$host"; ip -n "$tag$host" link set lo up; done
ip link add c0 netns "${tag}c" type veth peer name to-client netns "${tag}g"
ip link add s0 netns "${tag}s" type veth peer name to-server netns "${tag}g"
ip -n "${tag}c" addr add 10.77.1.2/24 dev c0
ip -n "${tag}g" addr add 10.77.1.1/24 dev to-client
ip -n "${tag}s" addr add 10.77.2.2/24 dev s0
ip -n "${tag}g" addr add 10.77.2.1/24 dev to-server
for pair in "c c0" "g to-client" "g to-server" "s s0"; do
    read -r host device <<<"$pair"
    ip -n "$tag$host" link set "$device" up
done
ip -n "${tag}c" route add default via 10.77.1.1
ip -n "${tag}s" route add default via 10.77.2.1
on g sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'
start s "$work/iperf.log" iperf3 -s
until on s ss -ltn 2>/dev/null | grep -q 5201; do sleep 0.1; done

measure() { # FLOWS -> Gbit/s, or null
    on c timeout $((seconds + 20)) iperf3 -c 10.77.2.2 -t "$seconds" -P "$1" -C cubic -J 2>/dev/null |
        python3 -c 'import json,sys
try: print(round(json.load(sys.stdin)["end"]["sum_received"]["bits_per_second"]/1e9, 2))
except Exception: print("null")' || echo null
}
declare -A result
row() { result[$1]=$(measure 1); result[${1}_8]=$(measure 8); printf '%-22s %8s %8s\n' "$2" "${result[$1]}" "${result[${1}_8]}"; }
ours() { # KEY LABEL FLAGS…
    local key=$1 label=$2; shift 2
    start g "$work/$key" "$shorthaul" gateway --edge to-client --wan to-server --run-dir "$work" "$@"
    for _ in $(seq 50); do grep -q ready "$work/$key" && break; sleep 0.1; done
    grep -q ready "$work/$key" || { echo "$label did not start:" >&2; cat "$work/$key" >&2; exit 1; }
    row "$key" "$label"
    kill "$started"; wait "$started" || true
}
haproxy() {
    cat >"$work/haproxy.cfg" <<CFG
global
    maxconn 1000
defaults
    mode tcp
    timeout connect 5s
    timeout client 60s
    timeout server 60s
    option splice-auto
listen all
    bind 0.0.0.0:7000 transparent
    source 0.0.0.0 usesrc clientip
    server target 10.77.2.2:5201
CFG
    on g nft -f - <<NFT
table ip bench {
    chain pre {
        type filter hook prerouting priority mangle;
        meta l4proto tcp socket transparent 1 meta mark set 1 accept
        iifname "to-client" tcp dport 5201 tproxy to :7000 meta mark set 1 accept
    }
}
NFT
    ip -n "${tag}g" rule add fwmark 1 lookup 100
    ip -n "${tag}g" route add local default dev lo table 100
    start g "$work/haproxy.log" /usr/sbin/haproxy -db -f "$work/haproxy.cfg"
    for _ in $(seq 50); do on g ss -ltn | grep -q 7000 && break; sleep 0.1; done
    row haproxy "HAProxy, splice"
    kill "$started"; wait "$started" 2>/dev/null || true
    on g nft delete table ip bench
}
printf '%-22s %8s %8s   (Gbit/s)\n' "" "1 flow" "8 flows"
row forwarding "plain forwarding"
ours raw_tun "raw TUN forwarder" --forward-only
if [ -x /usr/sbin/haproxy ] && command -v nft >/dev/null; then haproxy; else
    echo "HAProxy is not measured: apt-get install haproxy nftables"; result[haproxy]=null; result[haproxy_8]=null
fi
ours shorthaul "shorthaul gateway"
printf '{"forwarding_gbit_s": %s, "raw_tun_gbit_s": %s, "haproxy_gbit_s": %s, "shorthaul_gbit_s": %s, ' \
    "${result[forwarding]}" "${result[raw_tun]}" "${result[haproxy]}" "${result[shorthaul]}"
printf '"forwarding_8_gbit_s": %s, "raw_tun_8_gbit_s": %s, "haproxy_8_gbit_s": %s, "shorthaul_8_gbit_s": %s}\n' \
    "${result[forwarding_8]}" "${result[raw_tun_8]}" "${result[haproxy_8]}" "${result[shorthaul_8]}"
