#!/bin/sh
# All fuzz targets for so many minutes together, by libFuzzer, with a report: what each one tried, what of the code it reached, what it
# found. The instrumentation is the compiler's own (SanitizerCoverage), so that no nightly compiler and no cargo-fuzz is needed; libFuzzer
# needs a C++ compiler. Without one the same bodies run in the ordinary tests with seeded random inputs that were not tried before.
set -eu
cd "$(dirname "$0")/.."
minutes=${1:-10}
case $minutes in
'' | *[!0-9]* | 0*)
	echo "error: MINUTES is \"$minutes\": write a number of minutes such as 30" >&2
	exit 2
	;;
esac
place=target/fuzz
host=$(rustc -vV | sed -n 's/^host: //p')
targets=$(sed -n 's/^path = "fuzz_targets\/\(.*\)\.rs"/\1/p' fuzz/Cargo.toml)

with_libfuzzer() {
	# What has been built with these flags is of no use to anything else: it lies in a folder of its own, named after the target.
	RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares" \
		cargo build --quiet --manifest-path fuzz/Cargo.toml --target-dir "$place" --target "$host"
}

# The number behind a word in the last line of a log that has it.
said() {
	sed -n "s/.*$2 \([0-9][0-9]*\).*/\1/p" "$1" | tail -n 1
}

if command -v c++ >/dev/null 2>&1 && with_libfuzzer; then
	each=$((minutes * 60 / $(echo "$targets" | wc -w)))
	[ "$each" -gt 0 ] || each=1
	report=$place/report.txt
	printf '%-16s %10s %8s %9s %9s %8s %7s %6s\n' target inputs /s edges 'of' features corpus found >"$report"
	status=0
	for target in $targets; do
		echo "== $target, $each s"
		log=$place/$target.log
		mkdir -p "$place/found/$target" "fuzz/artifacts/$target" "fuzz/corpus/$target"
		before=$(find "fuzz/artifacts/$target" -type f | wc -l)
		# What is found worth trying again goes to the first folder; the second one is read.
		"$place/$host/debug/$target" "$place/found/$target" "fuzz/corpus/$target" -max_total_time="$each" -print_final_stats=1 \
			-artifact_prefix="fuzz/artifacts/$target/" -timeout=25 -rss_limit_mb=2048 >"$log" 2>&1 || status=1
		after=$(find "fuzz/artifacts/$target" -type f | wc -l)
		inputs=$(said "$log" 'stat::number_of_executed_units:')
		rate=$(said "$log" 'stat::average_exec_per_sec:')
		printf '%-16s %10s %8s %9s %9s %8s %7s %6s\n' "$target" "${inputs:--}" "${rate:--}" "$(said "$log" 'cov:')" \
			"$(sed -n 's/.*Loaded [0-9]* PC tables (\([0-9]*\) PCs).*/\1/p' "$log" | head -n 1)" \
			"$(said "$log" 'ft:')" "$(said "$log" 'corp:')" "$((after - before))" >>"$report"
		[ "$after" = "$before" ] || tail -n 30 "$log"
	done
	cat "$report"
	echo "edges are branches of the code that a program is made of, libraries included; logs are in $place, what was found in fuzz/artifacts"
	exit $status
fi

echo "there is no C++ compiler here, or libFuzzer cannot be built: seeded random inputs, without guidance and without a report of coverage"
start=$(date +%s)
end=$((start + minutes * 60))
first=$((start % 1000000000))
echo "seeds begin at $first"
while [ "$(date +%s)" -lt "$end" ]; do
	last=$((first + 2000))
	export SEEDS="$first..$last" PROPTEST_CASES=2000
	cargo test --quiet -p shorthaul-proxy --test suite -- fuzz_corpus:: adversity::whatever
	cargo test --quiet -p shorthaul-dataplane --test fuzz_corpus
	cargo test --quiet -p shorthaul-wire --test suite fuzz_corpus
	cargo test --quiet -p shorthaul-tcp --test suite fuzz_corpus
	cargo test --quiet -p shorthaul-relay --test suite fuzz_corpus
	first=$last
done
echo "nothing was found with the seeds from $((start % 1000000000)) to $first"
