# tap.sh
#	Tests in shell, as TAP.

# shellcheck shell=bash

number=0
failed=0

# verdict TEXT RC OUTPUT: one test, passed if RC is 0.  If not, the end of the output tells why.
verdict() {
	number=$((number + 1))
	if [ "$2" -eq 0 ]; then echo "ok $number - $1"; return; fi
	echo "not ok $number - $1"
	printf '%s\n' "$3" | tail -n 40 | sed 's/^/# /'
	failed=$((failed + 1))
}

# passed TEXT COMMAND ...: one test, passed if the command succeeds.
passed() {
	local text=$1 output rc=0
	shift
	output=$("$@" 2>&1) || rc=$?
	verdict "$text" $rc "$output"
}

# same TEXT GOT EXPECTED: one test, passed if they are the same.
same() {
	local rc=0
	[ "$2" = "$3" ] || rc=1
	verdict "$1" $rc "got: $2"$'\n'"expected: $3"
}

skipped() {
	number=$((number + 1))
	echo "ok $number - $1 # SKIP $2"
}

done_testing() {
	echo "1..$number"
	exit $((failed > 0))
}

# The same where no harness counts.
done_counting() {
	echo "$((number - failed)) passed, $failed failed"
	exit $((failed > 0))
}
