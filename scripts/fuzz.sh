#!/bin/sh
# All fuzz targets for so many minutes together. With a nightly compiler and cargo-fuzz by libFuzzer, with a report of coverage; otherwise
# their bodies in the ordinary tests with seeded random inputs that were not tried before.
set -eu
cd "$(dirname "$0")/.."
minutes=${1:-10}
case $minutes in
'' | *[!0-9]* | 0*)
	echo "error: MINUTES is \"$minutes\": write a number of minutes such as 30" >&2
	exit 2
	;;
esac

if cargo +nightly fuzz --version >/dev/null 2>&1; then
	targets=$(cargo +nightly fuzz list)
	each=$((minutes * 60 / $(echo "$targets" | wc -l)))
	for target in $targets; do
		echo "== $target, $each s"
		cargo +nightly fuzz run "$target" -- -max_total_time="$each" -print_final_stats=1
	done
	for target in $targets; do
		echo "== coverage of $target"
		cargo +nightly fuzz coverage "$target" && ls "fuzz/coverage/$target"
	done
	exit
fi

echo "no nightly compiler with cargo-fuzz is here: seeded random inputs, without guidance and without a report of coverage"
start=$(date +%s)
end=$((start + minutes * 60))
first=$((start % 1000000000))
echo "seeds begin at $first"
while [ "$(date +%s)" -lt "$end" ]; do
	last=$((first + 2000))
	export SEEDS="$first..$last" PROPTEST_CASES=2000
	cargo test --quiet -p shorthaul-proxy --test suite -- fuzz_corpus::random adversity::whatever
	cargo test --quiet -p shorthaul-dataplane --test fuzz_corpus
	cargo test --quiet -p shorthaul-wire --test suite fuzz_corpus
	cargo test --quiet -p shorthaul-tcp --test suite fuzz_corpus
	cargo test --quiet -p shorthaul-relay --test suite fuzz_corpus
	first=$last
done
echo "nothing was found with the seeds from $((start % 1000000000)) to $first"
