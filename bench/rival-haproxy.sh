#!/usr/bin/env bash
# HAProxy as a transparent proxy (TPROXY) between the interfaces $ACCESS and $WAN, for IPv4 and IPv6, until it is killed: a rival for
#   shorthaul conformance --gateway bench/rival-haproxy.sh --ready-line ready
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
listen() { # name, where it listens, the source that it speaks from, the target that stands for the connection's own
    cat <<CFG
listen $1
    bind $2 transparent
    source $3 usesrc clientip
    server target $4
CFG
}
{
    cat <<CFG
global
    maxconn 2000
defaults
    mode tcp
    timeout connect 30s
    timeout client 1h
    timeout server 1h
    option splice-auto
CFG
    listen v4 0.0.0.0:7000 0.0.0.0 0.0.0.0
    listen v6 [::]:7001 [::] [::]
} >"$work/haproxy.cfg"
sed -i 's/bind \[::\]:7001 transparent/bind [::]:7001 transparent v6only/' "$work/haproxy.cfg"
nft delete table inet rival 2>/dev/null || true
nft -f - <<NFT
table inet rival {
    chain pre {
        type filter hook prerouting priority mangle;
        meta l4proto tcp socket transparent 1 meta mark set 1 accept
        iifname "$ACCESS" meta nfproto ipv4 meta l4proto tcp tproxy ip to :7000 meta mark set 1 accept
        iifname "$ACCESS" meta nfproto ipv6 meta l4proto tcp tproxy ip6 to :7001 meta mark set 1 accept
    }
}
NFT
for family in -4 -6; do
    ip "$family" rule del fwmark 1 lookup 100 2>/dev/null || true
    ip "$family" rule add fwmark 1 lookup 100
    ip "$family" route replace local default dev lo table 100
done
haproxy=$(command -v haproxy || echo /usr/sbin/haproxy)
"$haproxy" -db -f "$work/haproxy.cfg" &
sleep 1
echo ready
wait
