#!/usr/bin/env bash
# check-harness.sh
#	The tests of harness.pl, as TAP: it gets programs that fail in all the ways we
#	know of, and must say so in the last line and in the exit status.

set -euo pipefail
# shellcheck source=test/lib/tap.sh
. "$(dirname "$0")/tap.sh"

harness=$(cd "$(dirname "$0")" && pwd)/harness.pl
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
unset IBLT_TEST_VERBOSE IBLT_TEST_JOBS

# result TEXT OUTPUT COMMAND ...: passed if the command succeeds.
result() {
	local text=$1 output=$2 rc=0
	shift 2
	"$@" || rc=$?
	verdict "$text" $rc "$output"
}

# ends TEXT STATUS LAST-LINE ARGUMENT ...: how the harness ends.
ends() {
	local text=$1 status=$2 last=$3 output rc=0
	shift 3
	output=$("$harness" --exec sh "$@" 2>&1) || rc=$?
	result "$text" "status $rc: $output" test "$rc: ${output##*$'\n'}" = "$status: $last"
}

# shows TEXT PATTERN ARGUMENT ...: what it prints, in which \n ends a line.
shows() {
	local text=$1 pattern=$2 output
	shift 2
	output=$("$harness" --exec sh "$@" 2>&1) || :
	result "$text" "$output" grep -qzP "$pattern" <<<"$output"
}

# one NAME TEXT STATUS LAST-LINE LINE ...: a program that prints lines, or runs those that begin with "$",
# and how it ends.
one() {
	local name=$1 text=$2 status=$3 last=$4 line
	shift 4
	for line in "$@"; do
		case $line in '$ '*) echo "${line#'$ '}" ;; *) echo "echo '$line'" ;; esac
	done >"$name"
	ends "$text" "$status" "$last" "$name"
}

one good "tests that pass" 0 "2 passed, 0 failed" "# seed 42" "ok 1 - first" "    not ok 1 - a subtest has numbers of its own" "ok 2 - second" 1..2
one failing "a test that fails" 1 "2 passed, 1 failed" "ok 1 - first" "not ok 2 - second" "# the reason" "ok 3 - third" 1..3
one dies "a death without a plan" 1 "1 passed, 1 failed" "ok 1 - first" '$ echo "I die" >&2; exit 3'
one no-plan "no plan" 1 "1 passed, 1 failed" "ok 1 - first"
# shellcheck disable=SC2016 # the program's own
one killed "a death by a signal" 1 "1 passed, 1 failed" "ok 1 - first" 1..1 '$ kill -KILL $$'
one bad-status "an exit status without a failed test" 1 "1 passed, 1 failed" "ok 1 - first" 1..1 '$ exit 1'
one too-few "fewer tests than planned" 1 "1 passed, 1 failed" 1..2 "ok 1 - first"
one too-many "more tests than planned" 1 "1 passed, 1 failed" 1..1 "ok 1 - first" "ok 2 - second"
one twice "one number twice" 1 "2 passed, 1 failed" "ok 1 - first" "ok 1 - first" 1..2
one runs-nothing "a plan of no tests" 1 "0 passed, 1 failed" 1..0
one silent "no output" 1 "0 passed, 1 failed" '$ exit 0'
one skips "tests that are skipped are not counted" 0 "1 passed, 0 failed" "ok 1 - first" "ok 2 - second # SKIP a reason" "not ok 3 - third # TODO one day" 1..3
one skips-all "a program that skips all its tests is not a success" 1 "0 passed, 0 failed" "1..0 # SKIP another reason"
one bails-out "a program that bails out" 1 "1 passed, 1 failed" "ok 1 - first" "Bail out!  no server" '$ exit 255'

ends "a program that does not exist" 1 "0 passed, 1 failed" "$dir/nothing"
ends "skipped tests do not make others fail" 0 "2 passed, 0 failed" skips-all good
ends "bailing out ends no other program" 1 "3 passed, 1 failed" --jobs 1 bails-out good
ends "one failure among many, in parallel" 1 "5 passed, 1 failed" --jobs 3 good failing skips
ends "no test at all" 2 "harness.pl: no test was given"
shows "a seed is shown" '^    # seed 42\n  good: 2 passed' good
shows "a failure is shown with its reason" '\| not ok 2 - second\n    \| # the reason\n(?s:.*)failing: 2 passed, 1 FAILED' failing
shows "the status and the output of a death are shown" 'dies: exit status 3.*\n.*\| ok 1 - first\n.*\| I die\n' dies
shows "skipped tests are shown" '    ok 2 - second # SKIP a reason\n.*\nATTENTION: 2 tests were SKIPPED' skips
shows "a command is run after a failure" '1 FAILED .*\n    \| failing\n' --failed echo failing
IBLT_TEST_VERBOSE=1 shows "IBLT_TEST_VERBOSE shows every line" '    ok 1 - first\n' good

# As test/run calls it: once for each suite, and once more for the sum.
add() { "$harness" --totals totals --exec sh "$@" >/dev/null || true; }
add good skips
ends "the sum of tests that passed" 0 "3 passed, 0 failed" --sum totals
add dies
add good
ends "the sum with a failure in the middle" 1 "6 passed, 1 failed" --sum totals
: >totals
ends "the sum of nothing is not a success" 1 "0 passed, 0 failed" --sum totals
add dies
add failing good
shows "what failed is shown again at the end, with the start of its reason" \
	'^FAILED: dies: exit status 3.*\nFAILED:   ok 1 - first\nFAILED:   I die\nFAILED: failing.*\nFAILED:   not ok 2 - second\nFAILED:   # the reason\n5 passed, 2 failed\n$' --sum totals
ends "totals that are missing" 2 "harness.pl: none: No such file or directory" --sum none

done_testing
