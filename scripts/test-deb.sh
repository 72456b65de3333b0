#!/bin/sh
# Installs the package in a root of its own, checks what it brought, and purges it: scripts/test-deb.sh [PACKAGE [ROOT]]
# Without a root, debootstrap makes one (Debian's, a minute). Nothing of this host is changed.
set -eu
package=${1:-$(ls -t target/dist/shorthaul_*.deb | head -1)}
[ "$(id -u)" = 0 ] || {
	echo "this takes root: it installs a package in a root of its own" >&2
	exit 1
}
root=${2:-}
if [ -z "$root" ]; then
	command -v debootstrap >/dev/null || {
		echo "this takes debootstrap: apt-get install debootstrap" >&2
		exit 1
	}
	root=$(mktemp -d)
	# Its users are not all root.
	chmod 755 "$root"
	trap 'rm -rf "$root"' EXIT
	debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus,procps,iproute2,curl,tmux,bash-completion,zsh,fish bookworm "$root" >/dev/null
fi
inside() {
	chroot "$root" "$@"
}
# What a purge must leave as it was: every file outside of dpkg's own books, users and groups.
dump() {
	(cd "$root" && find . -xdev \( -path ./proc -o -path ./sys -o -path ./dev -o -path ./var/lib/dpkg -o -path ./var/log -o -path ./var/cache -o -path ./var/lib/systemd -o -path ./tmp -o -path ./run/systemd \) -prune \
		-o -printf '%p %m %u %g %y\n' | grep -v -e '^\./etc/\(passwd\|group\|shadow\|gshadow\)-\? ' -e '^\./etc/\.pwd\.lock ' | sort)
	cut -d: -f1 "$root/etc/passwd" "$root/etc/group" | sort
}
dump >"$root/tmp/before"
cp "$package" "$root/tmp/package.deb"
inside dpkg --install /tmp/package.deb >/dev/null
echo "installed: $(inside dpkg-query --show --showformat='${Package} ${Version}, ${Installed-Size} kB' shorthaul)"

inside shorthaul --version
inside getent passwd shorthaul >/dev/null
[ "$(stat -c '%a' "$root/etc/shorthaul")" = 2750 ]
[ "$(stat -c '%a %g' "$root/etc/shorthaul/node.toml")" = "640 $(stat -c '%g' "$root/etc/shorthaul")" ]
# A key of the user's alone is so after an upgrade, too.
inside install -o shorthaul -g shorthaul -m 600 /dev/null /etc/shorthaul/own.key
inside dpkg --install /tmp/package.deb >/dev/null
[ "$(inside stat -c '%U:%G %a' /etc/shorthaul/own.key)" = "shorthaul:shorthaul 600" ]
rm "$root/etc/shorthaul/own.key"
inside shorthaul config >"$root/tmp/config"
cmp "$root/tmp/config" "$root/etc/shorthaul/gateway.toml.example"
for page in gateway install troubleshooting monitoring whole-link reference/gateway; do
	[ -s "$root/usr/share/doc/shorthaul/docs/$page.md" ]
done
for page in shorthaul shorthaul-gateway shorthaul-top; do
	zcat "$root/usr/share/man/man1/$page.1.gz" | grep -q '^\.TH'
done
inside bash -n /usr/share/bash-completion/completions/shorthaul
inside bash -c '. /usr/share/bash-completion/completions/shorthaul; COMP_WORDS=(shorthaul gat); COMP_CWORD=1
	_shorthaul shorthaul gat shorthaul; [ "${COMPREPLY[*]}" = gateway ]'
inside zsh -n /usr/share/zsh/vendor-completions/_shorthaul
inside fish --no-execute /usr/share/fish/vendor_completions.d/shorthaul.fish
echo "manual pages and completions (bash, zsh, fish) are there and whole"

# Units: that they are right, and how much a breach of one could do (0 nothing, 10 everything).
units="shorthaul-gateway@gw.service shorthaul-gateway@gw.socket shorthaul-node.service shorthaul-node.socket"
for unit in $units; do
	inside systemd-analyze verify --man=no "$unit"
done
for unit in shorthaul-gateway@.service shorthaul-node.service; do
	inside systemd-analyze security --offline=true --threshold=${THRESHOLD:-45} "$unit" >"$root/tmp/score" || {
		cat "$root/tmp/score" >&2
		exit 1
	}
	tail -1 "$root/tmp/score"
done

inside dpkg --purge shorthaul >/dev/null
dump >"$root/tmp/after"
diff "$root/tmp/before" "$root/tmp/after" || {
	echo "a purge leaves something" >&2
	exit 1
}
echo "purged: nothing is left"

# The same on a machine that runs: booted, between a phone and a server.
if command -v systemd-nspawn >/dev/null; then
	"$(dirname "$0")/test-systemd.sh" "$package" "$root"
else
	echo "not tried under a running systemd: that takes systemd-nspawn (apt-get install systemd-container)"
fi
