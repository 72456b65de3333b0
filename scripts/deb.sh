#!/bin/sh
# Builds target/dist/shorthaul_<version>_<architecture>.deb of a program: scripts/deb.sh [target/release/shorthaul]
set -eu
program=${1:-target/release/shorthaul}
[ -x "$program" ] || {
	echo "there is no $program: cargo build --release --bin shorthaul makes it" >&2
	exit 1
}
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -1)
architecture=$(dpkg --print-architecture)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
put() { # mode, file, place
	install -D -m "$1" "$2" "$root/$3"
}

"$program" generate "$root/made"
put 755 "$program" usr/bin/shorthaul
strip --strip-unneeded "$root/usr/bin/shorthaul"
for page in "$root"/made/man/*.1; do
	gzip -9n "$page"
	put 644 "$page.gz" "usr/share/man/man1/$(basename "$page").gz"
done
put 644 "$root/made/completions/shorthaul.bash" usr/share/bash-completion/completions/shorthaul
put 644 "$root/made/completions/_shorthaul" usr/share/zsh/vendor-completions/_shorthaul
put 644 "$root/made/completions/shorthaul.fish" usr/share/fish/vendor_completions.d/shorthaul.fish
# Configurations are for root and the system user alone: they name who may use what.
put 640 "$root/made/etc/gateway.toml" etc/shorthaul/gateway.toml.example
put 640 packaging/node.toml etc/shorthaul/node.toml
rm -r "$root/made"
for unit in shorthaul-gateway@.service shorthaul-gateway@.socket shorthaul-node.service shorthaul-node.socket; do
	put 644 "packaging/systemd/$unit" "usr/lib/systemd/system/$unit"
done
put 644 packaging/systemd/shorthaul.sysusers usr/lib/sysusers.d/shorthaul.conf
put 644 packaging/prometheus/shorthaul.rules.yml usr/share/shorthaul/shorthaul.rules.yml
put 644 packaging/grafana/shorthaul-gateway.json usr/share/shorthaul/shorthaul-gateway.grafana.json
put 644 topologies/first-gateway.toml usr/share/shorthaul/first-gateway.toml
for file in README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE SECURITY.md; do
	put 644 "$file" "usr/share/doc/shorthaul/$(basename "$file")"
done
# By the names that messages and these pages themselves have for them.
for page in gateway install troubleshooting monitoring gain whole-link relay reference/commands reference/gateway reference/metrics; do
	put 644 "docs/$page.md" "usr/share/doc/shorthaul/docs/$page.md"
done
printf 'shorthaul is free software, under the MIT or the Apache-2.0 licence, as you like: LICENSE-MIT and LICENSE-APACHE.\n' \
	>"$root/usr/share/doc/shorthaul/copyright"

mkdir "$root/DEBIAN"
for script in postinst prerm postrm; do
	install -m 755 "packaging/debian/$script" "$root/DEBIAN/$script"
done
printf '/etc/shorthaul/gateway.toml.example\n/etc/shorthaul/node.toml\n' >"$root/DEBIAN/conffiles"
# What the program is linked with decides which C library it needs.
libc=$(objdump -T "$root/usr/bin/shorthaul" 2>/dev/null | sed -n 's/.*GLIBC_\([0-9.]*\)).*/\1/p' | sort -V | tail -1)
cat >"$root/DEBIAN/control" <<END
Package: shorthaul
Version: $version
Architecture: $architecture
Maintainer: shorthaul <shorthaul@localhost>
Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f1)
Depends: libc6${libc:+ (>= $libc)}, libgcc-s1
Recommends: systemd | systemd-standalone-sysusers, nftables
Section: net
Priority: optional
Homepage: https://github.com/shorthaul/shorthaul
Description: TCP made fast where distance or a bad link makes it slow
 A transparent gateway beside a bad link splits the TCP connections that pass,
 and can step out of each again; relays do the same across long ways. With
 metrics, a page that shows what it gives, and tools to study and to prove it.
END
mkdir -p target/dist
deb="target/dist/shorthaul_${version}_${architecture}.deb"
dpkg-deb --root-owner-group --build "$root" "$deb" >/dev/null
echo "$deb: $(du -k "$deb" | cut -f1) kB, installed $(sed -n 's/^Installed-Size: //p' "$root/DEBIAN/control") kB"
