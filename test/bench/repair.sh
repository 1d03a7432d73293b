#!/usr/bin/env bash
# repair.sh
#	What a repair of many rows costs: of a table of 1,000,000 rows, 400,000 differ.
#	They are pulled, against COPY into a temporary table and three statements over
#	all rows on the same server.  Both count as CPU time of the servers' processes,
#	the repair with both sides, without parallel workers; medians of several runs,
#	in turn.  Memory is the most of the backend that repairs, without shared memory.
#
#	BENCH_REPAIR_ROWS     rows (1,000,000)
#	BENCH_REPAIR_REPEAT   repetitions (3)

set -euo pipefail

# shellcheck source=test/bench/lib.sh
. "$(dirname "$0")/lib.sh"

HERE_PORT=54324
THERE_PORT=54325
ROWS=${BENCH_REPAIR_ROWS:-1000000}
REPEAT=${BENCH_REPAIR_REPEAT:-3}
DIFFERING=$((ROWS * 2 / 5))

make_server() {
	start_server "$1" "$2" "autovacuum = off" "max_wal_size = 8GB" "checkpoint_timeout = 1d" "max_parallel_workers_per_gather = 0"
	sql "$2" -c "CREATE EXTENSION iblt_audit CASCADE; CREATE EXTENSION iblt_live"
	table_sql "$ROWS" | sed 's/UNLOGGED //' | sql "$2"
}

# A fifth of the rows is changed there, a tenth deleted, and as many are inserted.
make_difference() {
	sql $HERE_PORT -c "CREATE TABLE t0 AS TABLE t"
	sql $THERE_PORT -c "CREATE TABLE old AS TABLE t" \
		-c "UPDATE t SET a = a + 1 WHERE id % 5 = 0" -c "DELETE FROM t WHERE id % 10 = 1" \
		-c "INSERT INTO t SELECT id + $ROWS, a, b, c FROM t WHERE id % 10 = 6" -c "VACUUM (FREEZE, ANALYZE) t" \
		-c "COPY (SELECT CASE WHEN old.id IS NULL THEN 'i' WHEN t.id IS NULL THEN 'd' ELSE 'u' END, coalesce(t.id, old.id), t.a, t.b, t.c
			FROM t FULL JOIN old USING (id) WHERE t.a IS DISTINCT FROM old.a) TO STDOUT" >"$WORK/steps"
}

reset() {
	sql $HERE_PORT -c "DROP TABLE t" -c "CREATE TABLE t AS TABLE t0" -c "ALTER TABLE t ADD PRIMARY KEY (id)" -c "VACUUM (FREEZE, ANALYZE) t" -c CHECKPOINT
}

# CPU time in milliseconds of the processes of both servers that were not there before, as long as
# a program runs; at its end in CPU, and the memory of the largest in MB in MEMORY.
watch_cpu() {
	local pid file now
	declare -A spent=()
	MEMORY=0
	while kill -0 "$1" 2>/dev/null; do
		for pid in $(pgrep -P "$(head -n 1 "$WORK/here/postmaster.pid"),$(head -n 1 "$WORK/there/postmaster.pid")"); do
			file=/proc/$pid
			[[ " $2 " == *" $pid "* ]] && continue
			now=$(awk '{ printf "%d\n", $1 / 1e6 }' "$file/schedstat" 2>/dev/null) || continue
			spent[$pid]=${now:-${spent[$pid]:-0}}
			now=$(awk '/^RssAnon/ { printf "%d\n", $2 / 1024 }' "$file/status" 2>/dev/null) || continue
			if [ "${now:-0}" -gt $MEMORY ]; then MEMORY=$now; fi
		done
		sleep 0.02
	done
	wait "$1"
	CPU=0
	for pid in "${!spent[@]}"; do CPU=$((CPU + spent[$pid])); done
}

servers() { pgrep -P "$(head -n 1 "$WORK/here/postmaster.pid"),$(head -n 1 "$WORK/there/postmaster.pid")" | tr '\n' ' '; }

by_hand() {
	sql $HERE_PORT <<-SQL
		BEGIN;
		CREATE TEMP TABLE step (action text, id bigint, a bigint, b text, c text);
		\copy step FROM '$WORK/steps'
		DELETE FROM t USING step AS s WHERE s.action = 'd' AND t.id = s.id;
		UPDATE t SET a = s.a, b = s.b, c = s.c FROM step AS s WHERE s.action = 'u' AND t.id = s.id;
		INSERT INTO t SELECT id, a, b, c FROM step WHERE action = 'i';
		COMMIT;
	SQL
}

repair() {
	sql $HERE_PORT -c "SELECT count(*) FILTER (WHERE status = 'applied') FROM iblt_repair('t', $(peer $THERE_PORT),
		direction => 'pull', apply => true, max_differences => $ROWS)" >"$WORK/repair.out"
	[ "$(cat "$WORK/repair.out")" -eq $DIFFERING ] || die "$(cat "$WORK/repair.out") rows"
}

measure_repairs() {
	local r before
	MOST=0
	for r in $(seq 1 "$REPEAT"); do
		for what in by_hand repair; do
			reset
			before=$(servers)
			$what &
			watch_cpu $! "$before"
			note "$what" "$r" "$CPU"
		done
		if [ "$MEMORY" -gt $MOST ]; then MOST=$MEMORY; fi
	done
	read_medians "$WORK/timing.out"
}

inner() {
	begin_bench
	say "Filling two servers with $ROWS rows each ..."
	make_server here $HERE_PORT
	make_server there $THERE_PORT
	make_difference
	describe_cpus
	measure_repairs
	row "$DIFFERING of $ROWS rows, pulled" "CPU ms" "ratio" "bar" ""
	row "COPY into a temporary table and three statements" "${MEDIAN[by_hand]}" "" "" ""
	than "iblt_repair, both sides" repair by_hand 3
	bar "memory of the largest backend, MB" "" "$MOST" at-most 400
	say_busy
	stop_server here
	stop_server there
	finish_bars
}

if [ -n "${IBLT_WORK-}" ]; then inner; else supervise bench test/bench/repair.sh; fi
