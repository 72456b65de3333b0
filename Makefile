.PHONY: all test demo conformance bench-gateway bench-plan bench-sim check no-std fuzz-build

all: test

# The main job: kernel TCP across emulated bad paths, directly and through the gateway.
demo:
	cargo run --release --quiet --bin shorthaul -- demo

# Everything that must hold: format, lints, documentation, tests, and the protocol crates without std.
test: check no-std
	cargo test --workspace

check:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items --quiet

no-std:
	cargo build --quiet --manifest-path tests/no-std/Cargo.toml --target-dir target/no-std

# Every promise of the gateway, live against the kernel's TCP on both sides.
conformance:
	cargo run --release --quiet --bin shorthaul -- conformance --gateway shorthaul

# Forwarding, a raw TUN forwarder, HAProxy and the gateway, in one run.
bench-gateway:
	cargo build --release --quiet --bin shorthaul
	bench/gateway.sh target/release/shorthaul

# How good the planner's forecasts, decisions and placements are; goes on where it was interrupted.
bench-plan:
	cargo run --release --quiet --bin shorthaul -- bench plan

# What the simulator costs: the chain of the papers, the same at 1 Gbit/s, a thousand and ten thousand flows.
bench-sim:
	bench/sim.sh
