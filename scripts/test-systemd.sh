#!/bin/bash
# A machine with Debian and nothing else, and the package on it as its operator would: scripts/test-systemd.sh PACKAGE ROOT
#
# ROOT, as debootstrap makes it, is booted by systemd-nspawn between a phone and a server, which are namespaces. The six commands of
# docs/install.md are run there as they stand, then the gateway is killed, stopped, started by its sockets, and the package is purged while
# all runs. Rules, routes, devices and sysctls must be as before. Needs root; everything is gone afterwards but ROOT.
set -eu
package=$(realpath "$1") root=$(realpath "$2")
document=$(dirname "$0")/../docs/install.md
[ "$(id -u)" = 0 ] || { echo "this takes root: it boots a machine of its own" >&2; exit 1; }
command -v systemd-nspawn >/dev/null || { echo "this takes systemd-nspawn: apt-get install systemd-container" >&2; exit 1; }
phone=sh-phone-$$ server=sh-server-$$ folder=$(mktemp -d)
machine= ends= nspawn=
clean_up() {
	for end in $ends; do kill "$end" 2>/dev/null || true; done
	for own in $machine $nspawn; do kill -KILL "$own" 2>/dev/null || true; done
	ip netns delete "$phone" 2>/dev/null || true
	ip netns delete "$server" 2>/dev/null || true
	rm -rf "$folder"
}
trap clean_up EXIT
within() { # seconds, what is waited for, command...
	local until=$((SECONDS + $1)) what=$2
	shift 2
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $until ] || { echo "it never came: $what" >&2; tail -20 "$folder/boot" >&2; inside journalctl -b --no-pager -n 30 -o cat >&2; exit 1; }
		sleep 0.2
	done
}
inside() { nsenter -t "$machine" -m -u -i -n -p -C "$@"; }

# The machine. Without Landlock its filter would not be that of a real one.
SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=${UNIFIED:-0} systemd-nspawn -q -D "$root" -M "shorthaul-$$" --boot --private-network --register=no --keep-unit \
	--bind=/dev/net/tun --system-call-filter="landlock_create_ruleset landlock_add_rule landlock_restrict_self" \
	--console=pipe </dev/null >"$folder/boot" 2>&1 &
nspawn=$!
first() { machine=$(pgrep -P "$nspawn" | head -1) && [ -n "$machine" ] && inside timeout 60 systemctl is-system-running --wait; }
within 60 "a systemd that runs" first
echo "booted: $(inside systemctl --version | head -1)"
ip netns add "$phone"
ip netns add "$server"
ip link add wlan0 netns "$machine" type veth peer name eth0 netns "$phone"
ip link add eth0 netns "$machine" type veth peer name eth0 netns "$server"
address() { "$@" && return; echo "cannot: $*" >&2; exit 1; }
for end in "$phone 10.1.0.7 10.1.0.1" "$server 10.9.0.2 10.9.0.1"; do
	read -r name own router <<<"$end"
	address ip -n "$name" addr add "$own/24" dev eth0
	address ip -n "$name" link set eth0 up
	address ip -n "$name" route add default via "$router"
done
inside sh -c 'ip addr add 10.1.0.1/24 dev wlan0; ip addr add 10.9.0.1/24 dev eth0; ip link set wlan0 up; ip link set eth0 up; ip link set lo up
	sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1'
state() {
	inside sh -c 'ip rule; ip -6 rule; ip -o link | cut -d: -f2; ip route show table all
		sysctl -a 2>/dev/null | grep -E "rp_filter|forwarding" | sort'
}
is_as_before() {
	state >"$folder/after"
	diff "$folder/before" "$folder/after" || { echo "$1 leaves something" >&2; exit 1; }
	echo "$1: as before"
}
# Addresses and what the kernel enters for them take a moment.
within 20 "addresses of the links" sh -c "nsenter -t $machine -n ip -6 addr show eth0 | grep -q 'inet6 fe80.*link *\$\|scope link' && ! nsenter -t $machine -n ip addr | grep -q tentative"
state >"$folder/before"

# Somebody downloads all the while, slowly, and notices every end.
# shellcheck disable=SC2016
ip netns exec "$server" perl -MIO::Socket::INET -e '
	my $all = IO::Socket::INET->new(LocalPort => 8000, Listen => 9, ReuseAddr => 1) or die;
	$SIG{PIPE} = $SIG{CHLD} = "IGNORE";
	while (my $one = $all->accept) { next if fork; while (syswrite $one, "x" x 20000) { select undef, undef, undef, 0.05 } exit }' &
ends="$ends $!"
download() { ip netns exec "$phone" perl -MIO::Socket::INET -e '
	$| = 1; my $one; until ($one = IO::Socket::INET->new("10.9.0.2:8000")) { select undef, undef, undef, 0.1 }
	my ($sum, $part) = 0; while (my $got = sysread $one, $part, 65536) { $sum += $got; open my $file, ">", "'"$1"'"; print $file $sum } print "ended: $!\n"' >"$1.end" 2>&1 & }

# The six commands.
cp "$package" "$root/root/$(basename "$package")"
sed -n '/^```sh$/,/^```$/p' "$document" | grep '#  *[1-6]\.' | sed 's/ *# .*//' >"$folder/commands"
[ "$(wc -l <"$folder/commands")" = 6 ] || { echo "docs/install.md has not six commands" >&2; exit 1; }
began=$SECONDS
number=0
while read -r line; do
	number=$((number + 1))
	line=${line//shorthaul_*_amd64.deb/$(basename "$package")}
	case $line in
	*" top") # it stays: in a terminal of its own
		download "$folder/first"
		ends="$ends $!"
		inside tmux -f /dev/null new-session -d -x 80 -y 24 "${line#sudo }"
		seen() { inside tmux capture-pane -p | grep -q '^10.1.0.7 .*Mbit/s'; }
		within 60 "the phone in top" seen
		;;
	*) inside sh -c "cd /root; sudo() { \"\$@\"; }; $line" </dev/null >"$folder/said" 2>&1 || [ $number = 2 ] || { cat "$folder/said" >&2; exit 1; } ;;
	esac
	echo "$((SECONDS - began)) s: $line"
done <"$folder/commands"
listed() { inside curl -s -m 5 "http://127.0.0.1:7090/flows.json?q=10.1.0.7" | grep -q '"state":"\(split\|control\)"'; }
within 20 "the flow on the page" listed
echo "$((SECONDS - began)) s: in top and on the page"
inside tmux kill-server
unit=shorthaul-gateway@gw

# A crash: the next one goes on with the connection.
crash() {
	inside kill -KILL "$(inside systemctl show -p MainPID --value $unit)"
	within 20 "another gateway after a crash" inside shorthaul flows
}
grows() { local before; before=$(cat "$1"); sleep 1; [ "$(cat "$1")" -gt "$before" ]; }
crash
within 20 "what the connection carries after a crash" grows "$folder/first"
echo "killed: $(inside shorthaul flows --counters | grep -c 'flows_resumed') gateway went on, the download, too"
inside systemctl disable --quiet --now $unit
within 20 "what the connection carries without a gateway" grows "$folder/first"
inside shorthaul gateway --config /etc/shorthaul/gw.toml --remove >/dev/null
within 20 "rules that are gone" sh -c "! nsenter -t $machine -n ip rule | grep -q 7001"
is_as_before "stopped"

# By its sockets: whoever asks starts it, and waits while it is started anew.
inside sed -i 's/^metrics = /#&/' /etc/shorthaul/gw.toml
inside systemctl enable --quiet --now $unit.socket shorthaul-node.socket
[ "$(inside systemctl is-active $unit.service)" = inactive ]
asked() { inside curl -s -m 10 http://127.0.0.1:7090/metrics | grep -q '^shorthaul_gateway_build_info'; }
within 20 "an answer at the socket" asked
inside systemctl restart $unit.service &
within 1 "an answer while it is started anew" asked
wait $!
crash
# Without a request there is no answer but that it runs.
inside curl -s -m 10 http://127.0.0.1:7080/ >/dev/null || true
within 10 "a node by its socket" inside systemctl is-active --quiet shorthaul-node.service
echo "started by their sockets: gateway and node"

inside dpkg --purge shorthaul >/dev/null 2>"$folder/purge" || { cat "$folder/purge" >&2; exit 1; }
! inside getent passwd shorthaul || { echo "the user is still there" >&2; exit 1; }
! inside pgrep -x shorthaul || { echo "it still runs" >&2; exit 1; }
left=$(find "$root/etc" "$root/usr" "$root/run" -name '*shorthaul*' -not -path '*/var/lib/dpkg/*')
[ -z "$left" ] || { echo "a purge leaves $left" >&2; exit 1; }
is_as_before "purged while they ran"
within 20 "what the connection carries after the purge" grows "$folder/first"
rm "$root/root/$(basename "$package")"
# It is ended as whoever leaves by an error ends it, for it may take its time.
inside systemctl poweroff --no-block 2>/dev/null || true
for _ in $(seq 50); do kill -0 "$nspawn" 2>/dev/null || break; sleep 0.2; done
