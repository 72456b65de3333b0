#!/bin/sh
# The tests of the protocol crates in Miri, which finds undefined behaviour, and panics on overflow as any debug build: wire, tcp and proxy.
# It interprets, and is some hundred times slower: tests that draw many seeds draw few of them here (SEEDS), and those that play long
# simulations are left out. What it needs: a nightly compiler with the components miri and rust-src.
set -eu
cd "$(dirname "$0")/.."
if ! cargo +nightly miri --version >/dev/null 2>&1; then
	echo "Miri is not here. These lines install it, if this toolchain's server has a nightly with it:
  rustup toolchain install nightly --profile minimal
  rustup component add --toolchain nightly miri rust-src" >&2
	exit 1
fi
# Tests read the clock, the environment and files of the repository.
export MIRIFLAGS="${MIRIFLAGS:--Zmiri-disable-isolation}" SEEDS="${SEEDS:-0..2}" PROPTEST_CASES="${PROPTEST_CASES:-2}"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target/miri}"
run() {
	echo "== $*"
	# The compiler of the repository is another one.
	cargo +nightly miri test --quiet "$@"
}
run -p shorthaul-wire --lib
run -p shorthaul-wire --test suite
run -p shorthaul-tcp --lib
run -p shorthaul-tcp --test suite -- scripts:: receiver:: scoreboard:: half::
run -p shorthaul-proxy --lib
run -p shorthaul-proxy --test suite -- crash::what_was_acknowledged crash::nothing_is_kept opaque::
