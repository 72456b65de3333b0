.PHONY: all test adversity demo agreement conformance interop parity bench-gateway bench-workers bench-relay bench-sim check no-std fuzz-build fuzz deny bench-tcp bench-plan harmless harmless-live bench-noise bench-scale bench-network bench-network-costs bench-page attack siege soak outlive miri deb test-deb dist docs python reference
# One step after the other: each is cargo's, which uses all processors itself.
.NOTPARALLEL:

all: test

# The main job: kernel TCP across emulated bad paths, directly and through the gateway. The links have 32 Mbit/s at most:
# the build that the tests use is fast enough, and there sooner.
demo:
	@scripts/needs.sh demo
	cargo run --quiet --bin shorthaul -- demo

# Everything that must hold: format, lints, documentation, tests, and the protocol crates without std.
# What the tests start, `scripts/needs.sh` installs first, or says how to.
test:
	@scripts/needs.sh test
	@mkdir -p target && { nice scripts/python.sh --prepare >target/python-prepare.log 2>&1 & }
	@$(MAKE) --no-print-directory check no-std deny
	cargo test --workspace
	@$(MAKE) --no-print-directory python

check:
	@scripts/docs.sh links
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items --quiet

no-std:
	cargo build --quiet --manifest-path tests/no-std/Cargo.toml --target-dir target/no-std

# A Debian package of the program with units, manual pages and completions: target/dist/*.deb
deb:
	cargo build --release --bin shorthaul
	@scripts/deb.sh target/release/shorthaul

# Installs that in a root of its own, checks units and program there, and purges it. Needs root and debootstrap.
test-deb:
	@scripts/test-deb.sh

# Static programs for everything else (musl; needs musl-gcc): all of it, and one without what studies and proves, for routers.
dist:
	@scripts/dist.sh

# The site, where mdbook is: target/site. The links of all documents, which `make check` looks at, too.
docs:
	@scripts/docs.sh

# The Python package in an environment of its own, and its tests. docs/python.md
python:
	@scripts/python.sh

# docs/reference, from the program: every command, the keys of files, metrics. A test says when it is not current.
reference:
	cargo run --quiet --bin shorthaul -- generate target/made
	cp target/made/reference/*.md docs/reference/

# Licences and sources of crates, and known vulnerabilities. Says what it did not check.
deny:
	@scripts/deny.sh

# Random scenarios of a gateway in adversity: SEEDS=0..1000 says which. A quarter of a minute for a thousand.
SEEDS ?= 0..1000
adversity:
	SEEDS=$(SEEDS) cargo test -p shorthaul-proxy --test suite adversity::whatever

# A host attacks a gateway with raw packets: ten attacks, each undisturbed and attacked by turns. Some minutes.
attack:
	cargo run -p shorthaul -- bench attack --turns 6

# A host attacks a relay, eleven ways, each undisturbed and attacked by turns: until it is told, 17 to 45 minutes.
siege:
	cargo run -p shorthaul -- bench siege

# A thousand downloads through relays that are killed ten times a minute. Some minutes.
outlive:
	cargo run -p shorthaul -- bench outlive

# Connections come and go in all manners, and the gateway's memory must not grow.
soak: MINUTES = 15
soak:
	cargo run -p shorthaul -- bench soak --time "$(MINUTES) min"

# The fuzz targets, as programs without instrumentation: that they build.
fuzz-build:
	@scripts/needs.sh fuzz-build
	cargo build --manifest-path fuzz/Cargo.toml --target-dir target/fuzz

# All fuzz targets for MINUTES together, by libFuzzer, with a report of what was reached and found; without a C++ compiler with seeded
# random inputs.
MINUTES ?= 10
fuzz:
	@scripts/fuzz.sh $(MINUTES)

# The tests of wire, tcp and proxy in Miri. It says what it needs.
miri:
	@scripts/miri.sh

# The simulator against kernels on six scenarios, with the ratios as a table: a quarter of an hour.
# docs/agreement.md explains the difference that is excused.
agreement:
	cargo run --release --quiet --bin shorthaul -- agreement scenarios/agreement/*.toml \
		--explained direct-loss/cubic

# Does a gateway of which nothing is configured harm anybody? Paths, servers and work, with and without it, simulated: minutes.
# It goes on where it was interrupted. docs/harmless.md
harmless:
	cargo run --release --quiet --bin shorthaul -- harmless

# Eight of these cells between kernels, with and without the gateway by turns: half an hour.
harmless-live:
	cargo run --release --quiet --bin shorthaul -- harmless --live

# Every promise of the gateway, live against the kernel's TCP on both sides.
conformance:
	cargo run --release --quiet --bin shorthaul -- conformance --gateway shorthaul

# Our endpoint against the kernel: 500 transfers over every option and trouble, two minutes.
interop:
	cargo run --release --quiet --bin shorthaul -- endpoint interop

# Our sender against the kernel's own over the same paths: half an hour, on a machine with nothing else to do.
parity:
	cargo run --release --quiet --bin shorthaul -- endpoint parity

# Two workers of a gateway against one: what passes, and what a megabyte costs their threads.
bench-workers:
	cargo build --release --quiet --bin shorthaul
	bench/workers.py target/release/shorthaul 20

# Forwarding, a raw TUN forwarder, HAProxy and the gateway, in one run; what crash custody and `traffic = "all"` cost, in pairs; and what
# is added to a round trip at half load.
bench-gateway:
	cargo build --release --quiet --bin shorthaul
	cargo build --release --quiet -p shorthaul-lab --example connections
	bench/gateway.sh target/release/shorthaul target/release/examples/connections
	bench/cost.py target/release/shorthaul 50 50
	bench/latency.py target/release/shorthaul

# Ours, HAProxy, socat and tokio's copy_bidirectional as relays on loopback, in one run.
bench-relay:
	bench/relay.sh

# How good the planner's forecasts, decisions and placements are; goes on where it was interrupted.
bench-plan:
	cargo run --release --quiet --bin shorthaul -- bench plan

# What idle connections take of a gateway's memory, and how soon it answers questions about them: FLOWS of them, a minute for 50,000; with
# HOSTS=1000 of so many hosts, made of packets and not of sockets, of which a million take 8 GB.
FLOWS ?= 50000
bench-scale:
	cargo run --release --quiet --bin shorthaul -- bench scale --flows $(FLOWS) $(if $(HOSTS),--hosts $(HOSTS))

# A relay network of 10,000 nodes and a million clients, simulated with the clients' and nodes' own tables and limits, and what breaks first where it grows: some
# minutes, one client of ten. What messages cost here, `make bench-network-costs` measures before. docs/scale.md
bench-network:
	cargo run --release --quiet --bin shorthaul -- bench network --thin 10 --beside-thin 20 --sweep

bench-network-costs:
	cargo run --release --quiet --bin shorthaul -- bench network-costs

# What it takes of the thread with the packets that two browsers have the page open and `top` runs, beside FLOWS idle connections, and how
# soon each is drawn: four minutes. With Chromium, if it is here.
bench-page:
	cargo run --release --quiet --bin shorthaul -- bench page --flows $(FLOWS)

# What a gateway passes that is stopped 10 ms ten times a second, and on a busy machine: half an hour.
bench-noise:
	cargo run --release --quiet --bin shorthaul -- bench noise

# What the simulator costs: the chain of the papers, the same at 1 Gbit/s, a thousand and ten thousand flows.
bench-sim:
	bench/sim.sh

# What an acknowledgment costs a sender and a receiver, with windows of 1, 10 and 100 MB at 1 % loss.
bench-tcp:
	cargo run --release --quiet -p shorthaul-tcp --example ack_cost
