#!/usr/bin/env bash
# check-harness.sh
#	The tests of harness.pl, as TAP: it gets programs that fail in all the ways we
#	know of, and must say so in the last line and in the exit status.

set -euo pipefail

harness=$(cd "$(dirname "$0")" && pwd)/harness.pl
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
unset IBLT_TEST_VERBOSE IBLT_TEST_JOBS
number=0
failed=0

# program NAME: a shell script from stdin, in the new directory.
program() {
	cat >"$1"
}

# result TEXT OUTPUT COMMAND ...: passed if the command succeeds.
result() {
	local text=$1 output=$2
	shift 2
	number=$((number + 1))
	if "$@"; then
		echo "ok $number - $text"
	else
		echo "not ok $number - $text"
		printf '%s\n' "$output" | sed 's/^/#   /'
		failed=1
	fi
}

# ends TEXT STATUS LAST-LINE ARGUMENT ...: how the harness ends.
ends() {
	local text=$1 status=$2 last=$3 output rc=0
	shift 3
	output=$("$harness" "$@" 2>&1) || rc=$?
	result "$text" "status $rc: $output" test "$rc: ${output##*$'\n'}" = "$status: $last"
}

# shows TEXT PATTERN ARGUMENT ...: what it prints, in which \n ends a line.
shows() {
	local text=$1 pattern=$2 output
	shift 2
	output=$("$harness" "$@" 2>&1) || :
	result "$text" "$output" grep -qzP "$pattern" <<<"$output"
}

program good <<'END'
echo "# seed 42"
echo "ok 1 - first"
echo "    not ok 1 - a subtest has numbers of its own"
echo "ok 2 - second"
echo "1..2"
END
program failing <<'END'
echo "ok 1 - first"
echo "not ok 2 - second"
echo "# the reason"
echo "ok 3 - third"
echo "1..3"
END
program dies <<'END'
echo "ok 1 - first"
echo "I die" >&2
exit 3
END
program no-plan <<'END'
echo "ok 1 - first"
END
program killed <<'END'
echo "ok 1 - first"
echo "1..1"
kill -KILL $$
END
program bad-status <<'END'
echo "ok 1 - first"
echo "1..1"
exit 1
END
program too-few <<'END'
echo "1..2"
echo "ok 1 - first"
END
program too-many <<'END'
echo "1..1"
echo "ok 1 - first"
echo "ok 2 - second"
END
program twice <<'END'
echo "ok 1 - first"
echo "ok 1 - first"
echo "1..2"
END
program runs-nothing <<'END'
echo "1..0"
END
program silent <<'END'
exit 0
END
program skips <<'END'
echo "ok 1 - first"
echo "ok 2 - second # SKIP a reason"
echo "not ok 3 - third # TODO one day"
echo "1..3"
END
program skips-all <<'END'
echo "1..0 # SKIP another reason"
END
program bails-out <<'END'
echo "ok 1 - first"
echo "Bail out!  no server"
exit 255
END
sh=(--exec sh)

ends "tests that pass" 0 "2 passed, 0 failed" "${sh[@]}" good
shows "a seed is shown" '^    # seed 42\n  good: 2 passed' "${sh[@]}" good
ends "a test that fails" 1 "2 passed, 1 failed" "${sh[@]}" failing
shows "it is shown with its reason" '\| not ok 2 - second\n    \| # the reason\n(?s:.*)failing: 2 passed, 1 FAILED' "${sh[@]}" failing
ends "a death without a plan" 1 "1 passed, 1 failed" "${sh[@]}" dies
shows "its status and its output are shown" 'dies: exit status 3.*\n.*\| ok 1 - first\n.*\| I die\n' "${sh[@]}" dies
ends "no plan" 1 "1 passed, 1 failed" "${sh[@]}" no-plan
ends "a death by a signal" 1 "1 passed, 1 failed" "${sh[@]}" killed
ends "an exit status without a failed test" 1 "1 passed, 1 failed" "${sh[@]}" bad-status
ends "fewer tests than planned" 1 "1 passed, 1 failed" "${sh[@]}" too-few
ends "more tests than planned" 1 "1 passed, 1 failed" "${sh[@]}" too-many
ends "one number twice" 1 "2 passed, 1 failed" "${sh[@]}" twice
ends "a plan of no tests" 1 "0 passed, 1 failed" "${sh[@]}" runs-nothing
ends "no output" 1 "0 passed, 1 failed" "${sh[@]}" silent
ends "a program that does not exist" 1 "0 passed, 1 failed" "$dir/nothing"
ends "tests that are skipped are not counted" 0 "1 passed, 0 failed" "${sh[@]}" skips
shows "they are shown" '    ok 2 - second # SKIP a reason\n.*\nATTENTION: 2 tests were SKIPPED' "${sh[@]}" skips
ends "a program that skips all its tests is not a success" 1 "0 passed, 0 failed" "${sh[@]}" skips-all
ends "it does not make others fail" 0 "2 passed, 0 failed" "${sh[@]}" skips-all good
ends "bailing out ends no other program" 1 "3 passed, 1 failed" "${sh[@]}" --jobs 1 bails-out good
ends "one failure among many, in parallel" 1 "5 passed, 1 failed" "${sh[@]}" --jobs 3 good failing skips
ends "no test at all" 2 "harness.pl: no test was given"
shows "a command is run after a failure" '1 FAILED .*\n    \| failing\n' "${sh[@]}" --failed echo failing
export IBLT_TEST_VERBOSE=1
shows "IBLT_TEST_VERBOSE shows every line" '    ok 1 - first\n' "${sh[@]}" good
unset IBLT_TEST_VERBOSE

# As test/run calls it: once for each suite, and once more for the sum.
"$harness" --totals totals "${sh[@]}" good skips >/dev/null
ends "the sum of tests that passed" 0 "3 passed, 0 failed" --sum totals
"$harness" --totals totals "${sh[@]}" dies >/dev/null || true
"$harness" --totals totals "${sh[@]}" good >/dev/null
ends "the sum with a failure in the middle" 1 "6 passed, 1 failed" --sum totals
: >totals
ends "the sum of nothing is not a success" 1 "0 passed, 0 failed" --sum totals
"$harness" --totals totals "${sh[@]}" dies >/dev/null || true
"$harness" --totals totals "${sh[@]}" failing good >/dev/null || true
shows "what failed is shown again at the end, with the start of its reason" \
	'^FAILED: dies: exit status 3.*\nFAILED:   ok 1 - first\nFAILED:   I die\nFAILED: failing.*\nFAILED:   not ok 2 - second\nFAILED:   # the reason\n5 passed, 2 failed\n$' --sum totals
ends "totals that are missing" 2 "harness.pl: none: No such file or directory" --sum none

echo "1..$number"
exit $failed
