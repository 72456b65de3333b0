#!/bin/sh
# Licences, bans and sources of crates, and advisories about them, by cargo-deny. What could not be checked is said: silence would look
# like an answer. With --strict it fails, too.
set -eu
cd "$(dirname "$0")/.."
strict=${1:-}

unchecked() {
	printf 'NOT CHECKED: %s\n' "$*" >&2
	[ "$strict" != --strict ] || exit 1
}

if ! cargo deny --version >/dev/null 2>&1; then
	unchecked "licences, bans, sources and advisories of crates: there is no cargo-deny (cargo install --locked cargo-deny)"
	exit 0
fi
cargo deny --log-level warn check licenses bans sources
# The database is fetched from the network. That it cannot be had is no finding, and no clean bill either.
if cargo deny fetch db >/dev/null 2>&1 || [ -n "$(ls -A "${CARGO_HOME:-$HOME/.cargo}/advisory-dbs" 2>/dev/null)" ]; then
	cargo deny --offline --log-level warn check advisories
else
	unchecked "advisories: their database is not here and cannot be fetched"
fi
