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
	failed=1
}

skipped() {
	number=$((number + 1))
	echo "ok $number - $1 # SKIP $2"
}

done_testing() {
	echo "1..$number"
	exit $failed
}
