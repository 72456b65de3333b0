#!/usr/bin/env bash
# Throughput of a gateway between two namespaces, one and eight iperf3 flows, and how many connections a second it carries, fifty
# at once: plain forwarding, a raw TUN forwarder, HAProxy (transparent, splice), and shorthaul with nothing configured and with
# each connection by itself. All by turns, three times; the medians count. Says how much of the processors was stolen, and how busy they
# were before. Ends with one line of JSON. What the gateway's parts cost is measured by cost.py.
# Usage: bench/gateway.sh PATH-TO-SHORTHAUL PATH-TO-CONNECTIONS [SECONDS [TURNS]]
set -euo pipefail
shorthaul=$(realpath "$1")
connections=$(realpath "$2")
seconds=${3:-2}
turns=${4:-3}
for tool in ip iperf3 python3; do
    command -v "$tool" >/dev/null || { echo "this needs $tool (apt-get install iproute2 iperf3 python3)" >&2; exit 1; }
done
tag=shb$$
work=$(mktemp -d)
pids=()
tear_down() {
    for pid in "${pids[@]}"; do { kill "$pid" && wait "$pid"; } 2>/dev/null || true; done
    pids=()
    for host in c g s; do ip netns del "$tag$host" 2>/dev/null || true; done
}
cleanup() { tear_down; rm -rf "$work"; }
trap cleanup EXIT
on() { local host=$1; shift; ip netns exec "$tag$host" "$@"; }
# Not a function call in the background: its process would be a shell, which a signal would not get past.
start() { local host=$1 log=$2; shift 2; ip netns exec "$tag$host" "$@" >"$log" 2>&1 & started=$!; pids+=("$started"); }
# Each row has a network of its own: what a proxy leaves behind, connections in TIME-WAIT above all, would be the next one's.
network() {
    tear_down
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
    start s "$work/connections.log" "$connections" serve 10.77.2.2:5202
    until on s ss -ltn 2>/dev/null | grep -q 5201; do sleep 0.1; done
}

measure() { # FLOWS -> Gbit/s, or null
    on c timeout $((seconds + 20)) iperf3 -c 10.77.2.2 -t "$seconds" -P "$1" -C cubic -J 2>/dev/null |
        python3 -c 'import json,sys
try: print(round(json.load(sys.stdin)["end"]["sum_received"]["bits_per_second"]/1e9, 2))
except Exception: print("null")' || echo null
}
per_second() { on c timeout $((seconds + 20)) "$connections" ask 10.77.2.2:5202 50 "$seconds" 2>>"$work/failed" || echo null; }
declare -A label
names=()
row() { # KEY LABEL
    label[$1]=$2
    [[ " ${names[*]} " == *" $1 "* ]] || names+=("$1")
    echo "$1 $(measure 1) $(measure 8) $(per_second)" >>"$work/figures"
    echo "$turn/$turns  $2" >&2
}
ours() { # KEY LABEL FLAGS…
    local key=$1 text=$2; shift 2
    network
    start g "$work/$key" "$shorthaul" gateway --access to-client --wan to-server --run-dir "$work" "$@"
    for _ in $(seq 50); do grep -q ready "$work/$key" && break; sleep 0.1; done
    grep -q ready "$work/$key" || { echo "$text did not start:" >&2; cat "$work/$key" >&2; exit 1; }
    row "$key" "$text"
}
haproxy() {
    network
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
    server target 10.77.2.2
CFG
    on g nft -f - <<NFT
table ip bench {
    chain pre {
        type filter hook prerouting priority mangle;
        meta l4proto tcp socket transparent 1 meta mark set 1 accept
        iifname "to-client" tcp dport { 5201, 5202 } tproxy to :7000 meta mark set 1 accept
    }
}
NFT
    ip -n "${tag}g" rule add fwmark 1 lookup 100
    ip -n "${tag}g" route add local default dev lo table 100
    start g "$work/haproxy.log" /usr/sbin/haproxy -db -f "$work/haproxy.cfg"
    for _ in $(seq 50); do on g ss -ltn | grep -q 7000 && break; sleep 0.1; done
    row haproxy "HAProxy, splice"
}
# Jiffies of all processors: all together, stolen, and idle.
jiffies() { awk '/^cpu /{print $2+$3+$4+$5+$6+$7+$8+$9, $9, $5}' /proc/stat; }
read -r all0 stolen0 idle0 < <(jiffies); sleep 2; read -r all1 _ idle1 < <(jiffies)
busy=$(awk -v a="$((all1 - all0))" -v i="$((idle1 - idle0))" 'BEGIN{printf "%.2f", 1 - i / a}')
has_haproxy=false
if [ -x /usr/sbin/haproxy ] && command -v nft >/dev/null; then has_haproxy=true; else
    echo "HAProxy is not measured: apt-get install haproxy nftables" >&2
fi
for turn in $(seq "$turns"); do
    network
    row forwarding "plain forwarding"
    ours raw_tun "raw TUN forwarder" --forward-only
    if "$has_haproxy"; then haproxy; fi
    ours shorthaul "shorthaul gateway"
    ours split "the same, --mode split" --mode split
done
read -r all2 stolen2 _ < <(jiffies)
stolen=$(awk -v a="$((all2 - all0))" -v s="$((stolen2 - stolen0))" 'BEGIN{printf "%.3f", s / a}')
{ for name in "${names[@]}"; do echo "$name ${label[$name]}"; done; } >"$work/labels"
python3 - "$work/labels" "$work/figures" "$busy" "$stolen" <<'TABLE'
import json, statistics, sys
labels = dict(line.rstrip("\n").split(" ", 1) for line in open(sys.argv[1]))
figures = {name: [] for name in labels}
for line in open(sys.argv[2]):
    name, *values = line.split()
    figures[name].append([float(value) if value != "null" else None for value in values])
def of(name, column):
    values = [row[column] for row in figures.get(name, []) if row[column] is not None]
    return round(statistics.median(values), 2) if values else None
def shown(value, digits):
    return "-" if value is None else f"{value:.{digits}f}"
print(f"{'':24} {'1 flow':>8} {'8 flows':>8}  {'connections':>11}\n{'':24} {'Gbit/s':>8} {'Gbit/s':>8}  {'a second':>11}")
result = {}
for name, text in labels.items():
    one, eight, connections = (of(name, column) for column in range(3))
    print(f"{text:24} {shown(one, 2):>8} {shown(eight, 2):>8}  {shown(connections, 0):>11}")
    result |= {f"{name}_gbit_s": one, f"{name}_8_gbit_s": eight, f"{name}_connections_s": connections}
def ratio(one, other, column):
    pairs = [a[column] / b[column] for a, b in zip(figures[one], figures[other]) if a[column] and b[column]]
    return round(statistics.median(pairs), 3) if pairs else None
for column, what in enumerate(["1_flow", "8_flows", "connections"]):
    result[f"default_over_split_{what}"] = ratio("shorthaul", "split", column)
result |= {"busy_before": float(sys.argv[3]), "steal": float(sys.argv[4])}
print(f"processors busy before: {result['busy_before']:.0%}, stolen meanwhile: {result['steal']:.1%}")
print(json.dumps(result))
TABLE
