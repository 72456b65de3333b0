#!/bin/sh
# What the simulator costs, as one line of JSON: wall time, events, nanoseconds per packet and hop.
#   bench/sim.sh [runs]      each scenario is run so often (default 3), and the fastest counts
set -eu
cd "$(dirname "$0")/.."
# The memory of a scenario is the most until then: the largest comes last.
cargo build --release --quiet -p shorthaul-sim --example bench
ours=$("${CARGO_TARGET_DIR:-target}/release/examples/bench" "${1:-3}" bench/sim/pts-chain.toml \
    bench/sim/pts-chain-1g.toml bench/sim/split-500m.toml bench/sim/thousand.toml bench/sim/ten-thousand.toml \
    bench/sim/sixty-thousand.toml)

# The first of them in ns-3 (Debian's libns3-dev), in the same run.
theirs=null
if command -v pkg-config > /dev/null && pkg-config --exists ns3-internet; then
    chain=$(bench/ns3/build.sh)
    theirs=$("$chain" --hops=8 --rate=10Mbps --delay=10ms --queue=50p --segment=1000 --initialWindow=1 --duration=100)
else
    echo "ns-3 is not measured beside ours: its headers are not installed (libns3-dev)" >&2
fi
echo "{\"shorthaul\": $ours, \"ns3\": $theirs}"
