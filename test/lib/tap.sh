# tap.sh
#	Running a test program that speaks TAP, counting what it says, and showing
#	what matters of it: failures in full, seeds and skips always, the rest as
#	one line a program (IBLT_TEST_VERBOSE=1 shows everything).  Programs that have
#	nothing in common can run several at a time.
#
# Totals are kept in TAP_PASSED, TAP_FAILED and TAP_SKIPPED.

# shellcheck shell=bash

TAP_PASSED=0
TAP_FAILED=0
TAP_SKIPPED=0

# Read TAP on stdin; print "passed failed skipped problem".  Only tests at the
# top level count.  A plan that is missing or not kept is a problem, and so is
# a program that ran nothing.
tap_count() {
	awk '
		/^ok [0-9]+.*# *[Ss][Kk][Ii][Pp]/ { skipped++; next }
		/^not ok [0-9]+.*# *[Tt][Oo][Dd][Oo]/ { skipped++; next }
		/^ok [0-9]+/ { passed++ }
		/^not ok [0-9]+/ { failed++ }
		/^1\.\.[0-9]+/ { plan = substr($1, 4); planned = 1; if ($0 ~ /# *[Ss][Kk][Ii][Pp]/) all_skipped = 1 }
		END {
			problem = "-"
			if (all_skipped) skipped++
			else if (!planned) problem = "no-plan"
			else if (plan != passed + failed + skipped) problem = "plan-not-kept"
			else if (plan == 0) problem = "no-tests"
			print passed + 0, failed + 0, skipped + 0, problem
		}'
}

# One line on a suite, and on to the totals: LABEL PASSED FAILED SKIPPED.
tap_report() {
	local line="  $1: $2 passed"
	if [ "$3" -gt 0 ]; then line+=", $3 FAILED"; fi
	if [ "$4" -gt 0 ]; then line+=", $4 SKIPPED"; fi
	say "$line"
	TAP_PASSED=$((TAP_PASSED + $2))
	TAP_FAILED=$((TAP_FAILED + $3))
	TAP_SKIPPED=$((TAP_SKIPPED + $4))
}

# tap_result LABEL LOG STATUS: what a program said that has ended.  Returns 1 if it
# failed; a death without a "not ok" counts as one failed test.
tap_result() {
	local label=$1 log=$2 rc=$3 passed failed skipped problem
	read -r passed failed skipped problem < <(tap_count <"$log")
	if [ "$failed" -eq 0 ] && { [ $rc -ne 0 ] || [ "$problem" != - ]; }; then
		failed=1
		say "  $label: exit status $rc, ${problem/#-/plan kept}; the end of its output:"
		tail -n 40 "$log" | sed 's/^/    | /'
	elif [ "$failed" -gt 0 ]; then
		grep -A 40 '^not ok' "$log" | grep -v '^ok ' | head -n 100 | sed 's/^/    | /' || true
	fi
	if [ -n "${IBLT_TEST_VERBOSE-}" ]; then
		sed 's/^/    /' "$log"
	else
		grep -iE '^# *(random )?seed|^(ok|1\.\.0).*# *skip' "$log" | sed 's/^/    /' || true
	fi
	tap_report "$label" "$passed" "$failed" "$skipped"
	[ "$failed" -eq 0 ]
}

# run_tap LABEL LOG COMMAND ...: run one program.
run_tap() {
	local label=$1 log=$2 rc=0
	shift 2
	"$@" >"$log" 2>&1 || rc=$?
	tap_result "$label" "$log" $rc
}

# run_taps DIRECTORY COMMAND FAILED NAME ...: run "COMMAND NAME" for all names, as
# many at a time as IBLT_TEST_JOBS says, or one more than there are processors,
# because servers often wait.  Logs are in DIRECTORY.  Report each, in the order
# given, as soon as those before it have ended; and run "FAILED NAME" for those
# that failed.
run_taps() {
	local directory=$1 command=$2 failed=$3 jobs=${IBLT_TEST_JOBS:-$(($(nproc) + 1))} started=0 reported=0 name file
	shift 3
	local names=("$@") pids=()
	mkdir -p "$directory"
	while [ $reported -lt ${#names[@]} ]; do
		while [ $started -lt ${#names[@]} ] && [ "$(jobs -rp | wc -l)" -lt "$jobs" ]; do
			name=${names[$started]}
			tap_start "$directory/${name//\//-}" "$command" "$name" &
			pids+=($!)
			started=$((started + 1))
		done
		# (of bash 5.3 this waits for process substitutions, too: it counts nothing)
		wait -n || true
		while [ $reported -lt $started ]; do
			name=${names[$reported]}
			file=$directory/${name//\//-}
			if kill -0 "${pids[$reported]}" 2>/dev/null; then break; fi
			# none was written if it was killed
			if [ ! -e "$file.status" ]; then echo 1 >"$file.status"; fi
			tap_result "$name" "$file.log" "$(cat "$file.status")" || "$failed" "$name"
			reported=$((reported + 1))
		done
	done
}

# tap_start FILE COMMAND ...: run it, with a log and at last its status, whole, beside it.
tap_start() {
	local file=$1 rc=0
	shift
	"$@" >"$file.log" 2>&1 </dev/null || rc=$?
	echo $rc >"$file.ended"
	mv "$file.ended" "$file.status"
}

# The last line of a run, and its verdict: nothing run is a failure, too.
tap_finish() {
	if [ $TAP_SKIPPED -gt 0 ]; then say "ATTENTION: $TAP_SKIPPED tests were SKIPPED, see above"; fi
	say "$TAP_PASSED passed, $TAP_FAILED failed"
	[ $TAP_FAILED -eq 0 ] && [ $TAP_PASSED -gt 0 ]
}
