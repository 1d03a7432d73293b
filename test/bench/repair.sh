#!/usr/bin/env bash
# repair.sh
#	What a repair of many rows costs: of a table of 1,000,000 rows, 400,000 differ.
#	They are pulled, against COPY into a temporary table and three statements over
#	all rows on the same server.  Both count as CPU time of the servers' sessions,
#	the repair with both sides, without parallel workers; medians of several runs,
#	in turn.  Memory is the most of a backend, without shared memory.
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
	local r what run before
	for r in $(seq 1 "$REPEAT"); do
		for what in by_hand repair; do
			reset
			before=$(sessions_ms here there)
			$what &
			run=$!
			watch_memory $run $HERE_PORT psql $THERE_PORT 'iblt_%' >>"$WORK/memory"
			wait $run
			note "$what" "$r" "$(($(sessions_ms here there) - before))"
		done
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
	bar "memory of the largest backend, MB" "" "$(sort -n "$WORK/memory" | tail -n 1)" at-most 400
	say_busy
	stop_server here
	stop_server there
	finish_bars
}

if [ -n "${IBLT_WORK-}" ]; then inner; else supervise bench test/bench/repair.sh; fi
