#!/usr/bin/env bash
# fuzz.sh SECONDS FINDINGS PROGRAM ...
#	Run each fuzzer for so many seconds, two at a time, with a temporary corpus
#	that starts from test/unit/corpus/NAME if there is one.  Inputs that crash
#	are kept in the directory FINDINGS.  Prints TAP: one test a fuzzer.

set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=test/lib/sanitizer.sh
. "$here/sanitizer.sh"

seconds=$1
findings=$2
shift 2
corpora=$(mktemp -d)
trap 'rm -rf "$corpora"' EXIT
mkdir -p "$findings"

# One fuzzer with its corpus; its output goes to a log.
fuzz_one() {
	local program=$1 name=${1##*/} seeds=() seed_option=()
	mkdir "$corpora/$name"
	if [ -d "$here/../unit/corpus/$name" ]; then seeds=("$here/../unit/corpus/$name"); fi
	if [ -n "${IBLT_TEST_SEED-}" ]; then seed_option=("-seed=$((IBLT_TEST_SEED & 0x7fffffff))"); fi
	run_sanitized "$program" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
		-artifact_prefix="$findings/$name-" -print_final_stats=1 "${seed_option[@]}" \
		"$corpora/$name" "${seeds[@]}" >"$corpora/$name.log" 2>&1
}

# Report one fuzzer that has ended with status $2 as test $3.
report_one() {
	local name=${1##*/} log=$corpora/${1##*/}.log runs seed
	seed=$(sed -n 's/^INFO: Seed: //p' "$log" | head -n 1)
	runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | head -n 1)
	if [ "$2" -eq 0 ] && [ "${runs:-0}" -gt 0 ]; then
		echo "ok $3 - $name: $runs inputs in $seconds s"
	else
		echo "not ok $3 - $name"
		tail -n 40 "$log" | sed 's/^/# /'
	fi
	echo "# seed $seed ($name)"
}

number=0
failed=0
while [ $# -gt 0 ]; do
	pair=("$1")
	if [ $# -gt 1 ]; then pair+=("$2"); fi
	shift ${#pair[@]}
	jobs=()
	for program in "${pair[@]}"; do
		fuzz_one "$program" &
		jobs+=($!)
	done
	for i in "${!pair[@]}"; do
		rc=0
		wait "${jobs[$i]}" || rc=$?
		number=$((number + 1))
		report_one "${pair[$i]}" $rc $number
		if [ $rc -ne 0 ]; then failed=1; fi
	done
done
echo "1..$number"
exit $failed
