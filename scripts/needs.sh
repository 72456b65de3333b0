#!/bin/sh
# Sees to it, before anything is compiled, that `make test`, `make demo` or `make fuzz-build` finds what it
# starts.
# Missing programs are installed where that is allowed: by apt-get, as root or by sudo without a password.
# Elsewhere this prints the line that installs them, and fails.
set -eu
goal=${1:?demo, test or fuzz-build}

# program | goals that need it | Debian, Ubuntu | Fedora | Arch | what for
table='
cc      | demo test fuzz-build | gcc libc6-dev  | gcc glibc-devel | gcc        | linking, and the C parts of ring
c++     | fuzz-build           | g++            | gcc-c++         | gcc        | libFuzzer
unshare | test                 | util-linux     | util-linux      | util-linux | labs of ordinary users
kill    | test                 | procps         | util-linux      | util-linux | signals to gateways and nodes
perl    | test                 | perl-base      | perl            | perl       | small servers in labs
ip      | test                 | iproute2       | iproute         | iproute2   | routes inside labs
nft     | test                 | nftables       | nftables        | nftables   | redirected connections, clusters of gateways
etcd    | test                 | etcd-server    | etcd            | etcd       | the relay directory
curl    | test                 | curl           | curl            | curl       | fetches through relays
wget    | test                 | wget           | wget            | wget       | plain pages through relays
git     | test                 | git            | git             | git        | clones through relays
rsync   | test                 | rsync          | rsync           | rsync      | copies through relays
ssh     | test                 | openssh-client | openssh-clients | openssh    | what git and rsync run over
sshd    | test                 | openssh-server | openssh-server  | openssh    | the other end of ssh
promtool | test                | prometheus     | golang-github-prometheus | prometheus | metrics as Prometheus reads them
tmux    | test                 | tmux           | tmux            | tmux       | `shorthaul top` in a terminal
setpriv | test                 | util-linux     | util-linux      | util-linux | gateways without a capability
iperf3  | test                 | iperf3         | iperf3          | iperf3     | streams through relays
'

say() {
	printf '%s\n' "$*" >&2
}

fail() {
	say "$*"
	exit 1
}

# Is there a program of this name? Words that only the shell knows do not count.
has() (
	IFS=:
	for folder in $PATH /usr/sbin /sbin; do
		[ ! -x "$folder/$1" ] || exit 0
	done
	exit 1
)

# The rows whose programs are not here, without the goals.
missing() {
	printf '%s' "$table" | while IFS='|' read -r program goals row; do
		case $goals in
		*"$goal"*) has "${program%% *}" || printf '%s|%s\n' "$program" "$row" ;;
		esac
	done
}

# Column $1 of these rows, in one line.
column() {
	# shellcheck disable=SC2005,SC2046 # one space between words
	echo $(missing | cut -d '|' -f "$1")
}

as_root() {
	if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

install_with_apt() {
	as_root apt-get update -qq || return
	# shellcheck disable=SC2086 # several packages
	as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $1 >&2 || return
	# The programs are wanted, not the services that come with them.
	if [ -d /run/systemd/system ]; then
		for unit in etcd-server:etcd.service prometheus:prometheus.service prometheus:prometheus-node-exporter.service openssh-server:ssh.socket openssh-server:ssh.service; do
			case $1 in *"${unit%:*}"*) as_root systemctl disable --quiet --now "${unit#*:}" 2>/dev/null || true ;; esac
		done
	fi
}

has cargo || fail "\`make $goal\` needs Rust. This line installs it:
  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh"

if [ -n "$(missing)" ]; then
	say "\`make $goal\` starts programs that are not here:"
	missing | while IFS='|' read -r program _ _ _ purpose; do say "  $program for$purpose"; done
	root=
	[ "$(id -u)" = 0 ] || root='sudo '
	if has apt-get && as_root true 2>/dev/null; then
		say "Installing: $(column 2)"
		install_with_apt "$(column 2)" || fail "That has failed. When its cause is mended, this line installs them:
  ${root}apt-get install -y $(column 2)"
		[ -z "$(missing)" ] || fail "Still not here: $(column 1)"
	elif has apt-get; then
		fail "This line installs them:
  ${root}apt-get install -y $(column 2)"
	elif has dnf; then
		fail "This line installs them:
  ${root}dnf install -y $(column 3)"
	elif has pacman; then
		fail "This line installs them:
  ${root}pacman -S --needed $(column 4)"
	else
		fail "Install them with this system's package manager."
	fi
fi

[ "$goal" != fuzz-build ] || exit 0

# Emulated networks are namespaces with TUN devices between them.
(: <>/dev/net/tun) 2>/dev/null || fail "\`make $goal\` emulates networks: it must open /dev/net/tun. This line allows it:
  sudo sh -c 'modprobe tun; mkdir -p /dev/net; [ -e /dev/net/tun ] || mknod /dev/net/tun c 10 200; chmod 666 /dev/net/tun'"

if has unshare && ! unshare --net true 2>/dev/null && ! unshare --map-root-user --net true 2>/dev/null; then
	say "\`make $goal\` emulates networks, and may not make namespaces here."
	[ "$(id -u)" != 0 ] || fail "Start this container with --privileged, or --cap-add=NET_ADMIN,SYS_ADMIN."
	# What distributions forbid ordinary users, and how: file, forbidding value, remedy.
	while read -r file forbids remedy; do
		[ "$(cat "/proc/sys/$file" 2>/dev/null)" != "$forbids" ] || fail "This line allows it:
  sudo sysctl $remedy"
	done <<-END
		kernel/apparmor_restrict_unprivileged_userns 1 kernel.apparmor_restrict_unprivileged_userns=0
		kernel/unprivileged_userns_clone 0 kernel.unprivileged_userns_clone=1
		user/max_user_namespaces 0 user.max_user_namespaces=15000
	END
	fail "Root may: run \`make $goal\` as root."
fi
