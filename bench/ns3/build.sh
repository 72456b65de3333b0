#!/bin/sh
# Builds the chain of bench/ns3/chain.cc against the installed ns-3, if it has changed, and says where it is.
set -eu
cd "$(dirname "$0")/../.."
chain="${CARGO_TARGET_DIR:-target}/ns3-chain"
if [ ! -e "$chain" ] || [ bench/ns3/chain.cc -nt "$chain" ]; then
    # By name: Debian's pkg-config also asks for libraries that its packages do not bring.
    g++ -std=c++17 -O2 -o "$chain" bench/ns3/chain.cc -lns3-applications -lns3-internet -lns3-point-to-point \
        -lns3-traffic-control -lns3-network -lns3-stats -lns3-bridge -lns3-core
fi
echo "$chain"
