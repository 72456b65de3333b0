#!/bin/sh
# What the simulator costs, as one line of JSON: wall time, events, nanoseconds per packet and hop.
#   bench/sim.sh [runs]      each scenario is run so often (default 3), and the fastest counts
set -eu
cd "$(dirname "$0")/.."
cargo build --release --quiet -p shorthaul-sim --example bench
"${CARGO_TARGET_DIR:-target}/release/examples/bench" "${1:-3}" bench/sim/pts-chain.toml \
    bench/sim/pts-chain-1g.toml bench/sim/thousand.toml bench/sim/ten-thousand.toml
