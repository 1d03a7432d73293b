#!/usr/bin/env bash
# fuzz.sh PROGRAM
#	Run one fuzzer as one test (TAP), for FUZZ_SECONDS (5).  Its corpus is
#	temporary and starts from test/unit/corpus/NAME if there is one.  Inputs that
#	crash are kept in FUZZ_FINDINGS, and the first one is printed, because the
#	directory may not stay.

set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=test/lib/sanitizer.sh
. "$here/sanitizer.sh"

program=$1
name=${program##*/}
seconds=${FUZZ_SECONDS:-5}
findings=${FUZZ_FINDINGS:-build/fuzz/findings}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/corpus" "$findings"

options=(-max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1
	-artifact_prefix="$findings/$name-")
if [ -n "${IBLT_TEST_SEED-}" ]; then options+=(-seed="$((IBLT_TEST_SEED & 0x7fffffff))"); fi
corpora=("$work/corpus")
if [ -d "$here/../unit/corpus/$name" ]; then corpora+=("$here/../unit/corpus/$name"); fi

rc=0
$SANITIZER_COMMAND "$program" "${options[@]}" "${corpora[@]}" >"$work/log" 2>&1 || rc=$?
seed=$(sed -n 's/^INFO: Seed: //p' "$work/log" | head -n 1)
runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$work/log" | head -n 1)
echo "# seed $seed ($name: ${runs:-0} inputs in $seconds s)"
if [ $rc -eq 0 ] && [ "${runs:-0}" -gt 0 ]; then
	echo "ok 1 - $name"
else
	echo "not ok 1 - $name"
	tail -n 40 "$work/log" | sed 's/^/# /'
	finding=$(find "$findings" -name "$name-*" -type f | sort | head -n 1)
	if [ -n "$finding" ]; then
		echo "# ${finding##*/}, base64:"
		base64 "$finding" | head -n 40 | sed 's/^/# /'
	fi
	rc=1
fi
echo "1..1"
exit $rc
