#!/usr/bin/env bash
# server-test.sh [--logs] FILE
#	Run one file of test/t for test/run, with a directory of its own below
#	IBLT_WORK, so that neither ports nor sockets of two files are the same.
#	PG_CONFIG chooses the server.  The data is removed, the logs stay, and
#	--logs prints what they have to say of a run that failed.

set -euo pipefail

logs=
if [ "$1" = --logs ]; then
	logs=1
	shift
fi
work=$IBLT_WORK/tap/$(basename "$1" .pl)

if [ -n "$logs" ]; then
	find "$work" -name 'regress_log_*' -o -name '*.log' | sort | while read -r file; do
		echo "${file##*/}:"
		case "$file" in
		*.log) grep -A 1 --no-group-separator -E 'ERROR|FATAL|PANIC|TRAP|signal' "$file" || true ;;
		*) cat "$file" ;;
		esac | cut -c 1-400 | tail -n 20
	done
	exit
fi

pgxs_test=$(dirname "$("$PG_CONFIG" --pgxs)")/../test
rc=0
mkdir -p "$work/data" "$work/log" "$work/bin"
# the C library gives less memory back to the system, only to ask for it again
export MALLOC_TOP_PAD_=2097152 MALLOC_TRIM_THRESHOLD_=67108864 MALLOC_MMAP_THRESHOLD_=33554432
ln -sf "$PWD/test/lib/initdb.sh" "$work/bin/initdb"
env -u PGHOST -u PGPORT PATH="$work/bin:$PATH" PG_REGRESS="$pgxs_test/regress/pg_regress" TESTDIR="$work" \
	TESTDATADIR="$work/data" TESTLOGDIR="$work/log" PG_TEST_TIMEOUT_DEFAULT=180 \
	perl -I "$pgxs_test/perl" -I test/t "$1" || rc=$?
rm -rf "$work/data" "$work"/tmp_check/t_*_data
exit $rc
