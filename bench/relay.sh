#!/usr/bin/env bash
# Relays on loopback, in one run: ours, HAProxy, socat and tokio's copy_bidirectional. Minutes, on a machine
# with nothing else to do. `quick` takes less than one. The last line is JSON.
set -euo pipefail
cd "$(dirname "$0")/.."
# Both ends of 50,000 idle sessions are in one process.
ulimit -n 250000 2>/dev/null || ulimit -n "$(ulimit -Hn)"
cargo build --release --quiet -p shorthaul-relay --example relay_bench
exec target/release/examples/relay_bench "$@"
