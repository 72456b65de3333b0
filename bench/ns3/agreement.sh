#!/bin/sh
# ns-3 on the chain of scenarios/ns3-chain.toml, with what its CUBIC has and ours has not switched off in turn.
#   bench/ns3/agreement.sh [seeds]      one line of JSON for each case (default: five seeds)
set -eu
cd "$(dirname "$0")/../.."
chain=$(bench/ns3/build.sh)
seeds=${1:-5}
run() {
    "$chain" --hops=6 --rate=32Mbps --loss=0.001 --duration=100 --warmUp=30 --runs="$seeds" "$@"
}
for relays in "" 3 2,4; do
    run --delay=5333.3us --queue=256kB ${relays:+--relays=$relays}
    run --delay=10666.7us --queue=512kB ${relays:+--relays=$relays}
    run --delay=21333.3us --queue=1024kB ${relays:+--relays=$relays}
    for options in "" --fastConvergence=0 --hystart=0 --recovery=TcpClassicRecovery; do
        echo "CUBIC $options"
        # Unquoted: no option is no argument.
        run --delay=10666.7us --queue=512kB ${relays:+--relays=$relays} --control=TcpCubic $options
    done
done
