#!/bin/sh
# Static programs in target/dist: shorthaul-<version>-<target>.tar.gz, and shorthaul-router-… without what studies and proves.
# With musl where its target and a compiler for it are here (rustup target add x86_64-unknown-linux-musl; apt install musl-tools),
# otherwise with glibc's static library.
set -eu
machine=$(uname -m)
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -1)
target=$machine-unknown-linux-musl
if ! { rustup target list --installed 2>/dev/null | grep -qx "$target" && command -v musl-gcc >/dev/null; }; then
	target=$machine-unknown-linux-gnu
	RUSTFLAGS="${RUSTFLAGS:-} -C target-feature=+crt-static"
	export RUSTFLAGS
	echo "musl is not here (rustup target add $machine-unknown-linux-musl; apt install musl-tools): static glibc instead" >&2
fi
mkdir -p target/dist
# What is to be small is compiled once more for that: of all that the program is made of, only itself differs.
pack() { # name, features...
	name=$1
	shift
	${CARGO:-cargo} build --release --quiet --target "$target" --bin shorthaul "$@"
	folder=$(mktemp -d)
	install -D -m 755 "target/$target/release/shorthaul" "$folder/$name-$version/shorthaul"
	strip "$folder/$name-$version/shorthaul"
	cp LICENSE-MIT LICENSE-APACHE docs/install.md "$folder/$name-$version/"
	archive="target/dist/$name-$version-$target.tar.gz"
	tar -C "$folder" -czf "$archive" "$name-$version"
	if ldd "$folder/$name-$version/shorthaul" 2>&1 | grep -q '=>'; then
		echo "$archive is not static" >&2
		exit 1
	fi
	# It runs where nothing else is. Only root may try that.
	if [ "$(id -u)" = 0 ]; then
		chroot "$folder/$name-$version" /shorthaul config >/dev/null
		echo "$archive: runs in an empty root"
	fi
	echo "$archive: program $(du -k "$folder/$name-$version/shorthaul" | cut -f1) kB, archive $(du -k "$archive" | cut -f1) kB"
	rm -r "$folder"
}
pack shorthaul-router --no-default-features
[ "${1:-}" = router ] || pack shorthaul
