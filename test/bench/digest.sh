#!/usr/bin/env bash
# digest.sh
#	What live digests cost, on a throwaway server with fsync off, so that the
#	processor counts: pgbench with and without tracked tables; processor time and WAL
#	of a transaction with one change; UPDATE and COPY of many rows; reading and
#	merging; processor time of apply workers.  Ratios are of medians.
#
#	The machine's speed changes more within a second than what pgbench is to show.  So
#	there is one pgbench for each side, all of them connected and warm, and each of
#	them in turn goes on for 30 milliseconds while the others are stopped.  The sides
#	begin as copies of one database, because a table that has been updated more often
#	is slower or faster.  Two sides are for comparison: one is not tracked either,
#	which shows how exact the figures are, and one has triggers that do nothing
#	(floor.c), which shows what PostgreSQL itself takes for any row triggers.
#
#	Of the 15,700 instructions (valgrind) that tracking adds to the 75,300 of a transaction
#	with one UPDATE of one row, PostgreSQL takes 7,600 for its row triggers, 3,100 to insert
#	the row of changes and 1,900 to open, lock and unlock the store. iblt takes 2,500 for keys
#	and checksums, and 600 at the commit.
#
#	BENCH_DIGEST_ROWS     rows of the large statements (1,000,000); apply workers get a
#	                      fifth of them
#	BENCH_DIGEST_SECONDS  of each pgbench (15)
#	BENCH_DIGEST_REPEAT   repetitions of all else (5)

set -euo pipefail

# shellcheck source=test/bench/lib.sh
. "$(dirname "$0")/lib.sh"

PORT=54327
ROWS=${BENCH_DIGEST_ROWS:-1000000}
SECONDS_EACH=${BENCH_DIGEST_SECONDS:-15}
REPEAT=${BENCH_DIGEST_REPEAT:-5}
SCALE=10
SINGLE=50000

# Nanoseconds of the processor, up to the last timer interrupt.
cpu_sql() { echo "split_part(pg_read_file('/proc/$1/schedstat', 0, 100), ' ', 1)::bigint"; }

# sql DATABASE ARGUMENT ...
sql() { asked $PORT "$@"; }

# The databases of pgbench, and the transactions per second in each.
SIDES=(plain control floor tracked)
declare -A TPS

# Becomes pgbench.  Whether it reads small tables sequentially would depend on how well
# they are vacuumed.
exec_pgbench() {
	PGOPTIONS="-c enable_seqscan=off" exec pgbench -n -h "$WORK/s" -p $PORT -U postgres -c 2 -j 1 "$@"
}

# Without background workers, nobody merges while something else is measured.
make_databases() {
	local side
	start_server track $PORT "autovacuum = off" "shared_buffers = 1GB" "max_wal_senders = 0" "wal_level = minimal" "max_worker_processes = 0"
	sql postgres -c "CREATE DATABASE plain"
	pgbench -i -q -s $SCALE -h "$WORK/s" -p $PORT -U postgres plain >"$WORK/pgbench.log" 2>&1
	table_sql "$ROWS" | sed 's/UNLOGGED//' | sql plain
	sql plain -c "CREATE EXTENSION iblt_audit CASCADE; CREATE EXTENSION iblt_live" -c "COPY t TO '$WORK/data/t.copy'" -c "VACUUM ANALYZE"
	# until most pages have room for another version of a row
	(exec_pgbench -t 50000 -M prepared plain) >"$WORK/pgbench.log" 2>&1
	sql plain -c "VACUUM ANALYZE"
	for side in "${SIDES[@]:1}"; do sql postgres -c "CREATE DATABASE $side TEMPLATE plain"; done
	sql tracked -c "CALL iblt_track('t')" -c "CALL iblt_track('pgbench_accounts')" -c "CALL iblt_track('pgbench_tellers')" \
		-c "CALL iblt_track('pgbench_branches')" \
		-c "CALL iblt_track('pgbench_history', key_columns => '{tid,bid,aid,mtime}')"
	make_floor
}

make_floor() {
	local name
	$("$PG_CONFIG" --cc) -shared -fPIC -O2 -Wall -Wextra -Werror -isystem "$("$PG_CONFIG" --includedir-server)" -o "$WORK/data/floor.so" test/bench/floor.c ||
		die "floor.c does not compile"
	sql floor -c "CREATE FUNCTION floor_row() RETURNS trigger AS '$WORK/data/floor.so' LANGUAGE C"
	for name in t pgbench_accounts pgbench_tellers pgbench_branches pgbench_history; do
		sql floor -c "CREATE TRIGGER floor AFTER INSERT OR UPDATE OR DELETE ON $name FOR EACH ROW EXECUTE FUNCTION floor_row()"
	done
}

# The median of numbers, one a line.
median() { sort -g | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }

# sides NUMBER: both databases, each of them first in turn
sides() { if (($1 % 2)); then echo tracked plain; else echo plain tracked; fi; }

# One row for each transaction of either kind.
transactions() { sql "$1" -c "SELECT count(*) FROM pgbench_history"; }

# turns NAME OPTION ...: transactions per second of each side, and their ratios to those
# of the side that is not tracked
turns() {
	local name=$1 side turn begun
	local -A pid first micro
	shift
	for side in "${SIDES[@]}"; do
		sql "$side" -c "VACUUM pgbench_branches, pgbench_tellers, pgbench_accounts"
		exec_pgbench -T 3600 "$@" "$side" >"$WORK/pgbench.$side.log" 2>&1 &
		pid[$side]=$!
		sleep 2
		kill -STOP "${pid[$side]}" || { cat "$WORK/pgbench.$side.log" >&2; die "pgbench has ended"; }
		sleep 0.1
		first[$side]=$(transactions "$side")
		micro[$side]=0
	done
	for ((turn = 0; turn < SECONDS_EACH * 1000 / 30; turn++)); do
		for side in $(printf '%s\n' "${SIDES[@]}" | shuf); do
			begun=${EPOCHREALTIME/./}
			kill -CONT "${pid[$side]}"
			pause 0.03
			kill -STOP "${pid[$side]}"
			micro[$side]=$((micro[$side] + ${EPOCHREALTIME/./} - begun))
			pause 0.002
		done
	done
	for side in "${SIDES[@]}"; do
		kill -KILL "${pid[$side]}"
		wait "${pid[$side]}" 2>"$WORK/null" || true
		TPS[$name.$side]=$((($(transactions "$side") - first[$side]) * 1000000 / micro[$side]))
	done
}

# Waits without a new process, which would take processor time from what is measured.
pause() { read -r -t "$1" -u "$SILENCE" || true; }

# Nanoseconds of the processor, then bytes of WAL, of one transaction for each of many rows.
one_change() {
	sql "$1" <<-SQL
		CREATE TEMP TABLE m AS SELECT pg_current_wal_insert_lsn() AS lsn, $(cpu_sql self) AS ns;
		DO \$\$ BEGIN FOR i IN 1 .. $SINGLE LOOP UPDATE t SET a = a + 1 WHERE id = i; COMMIT; END LOOP; END \$\$;
		SELECT $(cpu_sql self) - ns, pg_current_wal_insert_lsn() - lsn FROM m
	SQL
}

# As autovacuum would, so that what is measured does not make files longer.
vacuum_stores() { sql tracked -c "VACUUM iblt_internal.base" -c "VACUUM iblt_internal.changes_1"; }

measure_single() {
	local i database
	for ((i = 0; i < REPEAT; i++)); do
		for database in $(sides $i) floor; do one_change "$database" >>"$WORK/single.$database"; done
		sql tracked -c "SELECT iblt_live_merge('t')" >"$WORK/null"
		vacuum_stores
	done
	for database in plain tracked floor; do
		MEDIAN[cpu.$database]=$(cut -d'|' -f1 "$WORK/single.$database" | median | awk -v n=$SINGLE '{ printf "%.2f", $1 / 1000 / n }')
		MEDIAN[wal.$database]=$(cut -d'|' -f2 "$WORK/single.$database" | median | awk -v n=$SINGLE '{ printf "%.0f", $1 / n }')
	done
}

measure_bulk() {
	local i database
	for ((i = 0; i < REPEAT; i++)); do
		for database in $(sides $i); do
			time_sql $PORT $database "" "" "UPDATE t SET a = a + 1" >>"$WORK/update.$database"
			sql $database -c "DELETE FROM t" -c "VACUUM t"
			time_sql $PORT $database "" "" "COPY t FROM '$WORK/data/t.copy'" >>"$WORK/copy.$database"
			sql $database -c "VACUUM t"
		done
	done
	for database in plain tracked; do
		MEDIAN[update.$database]=$(median <"$WORK/update.$database")
		MEDIAN[copy.$database]=$(median <"$WORK/copy.$database")
	done
}

# Reads in one session, so that nothing has to be loaded first.
reading() {
	{
		echo '\timing on'
		for ((i = 0; i < 21; i++)); do echo "SELECT pg_column_size(iblt_live('t')) \g /dev/null"; done
	} | sql tracked | sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' | median
}

# change NUMBER: transactions of one change each
change() { sql tracked -c "DO \$\$ BEGIN FOR i IN 1 .. $1 LOOP UPDATE t SET a = a + 1 WHERE id = i; COMMIT; END LOOP; END \$\$"; }

# Merges one table, so that nothing has to be loaded first, then the one with changes.
merging() {
	printf '%s\n' "SELECT iblt_live_merge('pgbench_tellers');" '\timing on' "SELECT iblt_live_merge('t');" |
		sql tracked | sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p'
}

measure_reading() {
	local i number
	sql tracked -c "SELECT iblt_live_merge('t')" >"$WORK/null"
	MEDIAN[read.0]=$(reading)
	change 9999
	MEDIAN[read.10000]=$(reading)
	for ((i = 0; i < REPEAT; i++)); do
		for number in 9999 $SINGLE; do
			sql tracked -c "SELECT iblt_live_merge('t')" >"$WORK/null"
			change "$number"
			vacuum_stores
			merging >>"$WORK/merge.$number"
		done
	done
	for number in 9999 $SINGLE; do
		MEDIAN[merge.$number]=$(median <"$WORK/merge.$number" | awk -v n="$number" '{ printf "%.2f", 1000 * $1 / n }')
	done
}

# One server publishes and subscribes, because only what the apply workers take counts.
# Each of them begins anew with a batch, so its time is that of the batch.
make_subscribers() {
	local database
	stop_server track
	start_server apply $PORT "autovacuum = off" "shared_buffers = 1GB" "wal_level = logical" "wal_retrieve_retry_interval = 100ms"
	for database in source plain tracked; do
		sql postgres -c "CREATE DATABASE $database"
		table_sql $((ROWS / 5)) | sed 's/UNLOGGED//' | sql $database
		sql $database -c "CREATE TABLE marker (id int PRIMARY KEY, n int)" -c "INSERT INTO marker VALUES (1, 0)" -c "VACUUM ANALYZE"
	done
	sql tracked -c "CREATE EXTENSION iblt_audit CASCADE; CREATE EXTENSION iblt_live" -c "CALL iblt_track('t')"
	sql source -c "CREATE PUBLICATION p FOR TABLE t, marker"
	for database in plain tracked; do
		sql source -c "SELECT pg_create_logical_replication_slot('$database', 'pgoutput')" >"$WORK/null"
		sql $database -c "CREATE SUBSCRIPTION $database CONNECTION 'host=$WORK/s port=$PORT user=postgres dbname=source' PUBLICATION p
			WITH (create_slot = false, copy_data = false, enabled = false)"
	done
}

# apply_ns DATABASE NUMBER: nanoseconds of the apply worker, up to the batch with this number
apply_ns() {
	sql "$1" -c "VACUUM t" -c "ALTER SUBSCRIPTION $1 ENABLE"
	until [ "$(sql "$1" -c "SELECT n FROM marker")" = "$2" ]; do sleep 0.1; done
	sql "$1" -c "SELECT $(cpu_sql "' || pid || '") FROM pg_stat_subscription WHERE subname = '$1'" \
		-c "ALTER SUBSCRIPTION $1 DISABLE"
}

measure_apply() {
	local i number=0 kind database
	local -A batch=([single]="DO \$\$ BEGIN FOR i IN 1 .. $SINGLE LOOP UPDATE t SET a = a + 1 WHERE id = i; COMMIT; END LOOP; END \$\$"
		[many]="UPDATE t SET a = a + 1") rows=([single]=$SINGLE [many]=$((ROWS / 5)))
	for ((i = 0; i < REPEAT; i++)); do
		for kind in single many; do
			number=$((number + 1))
			sql source -c "${batch[$kind]}" -c "UPDATE marker SET n = $number" -c "VACUUM t"
			for database in $(sides $i); do apply_ns $database $number >>"$WORK/apply_$kind.$database"; done
		done
	done
	for kind in single many; do
		for database in plain tracked; do
			MEDIAN[apply_$kind.$database]=$(median <"$WORK/apply_$kind.$database" |
				awk -v n="${rows[$kind]}" '{ printf "%.2f", $1 / 1000 / n }')
		done
	done
}

# both TEXT NAME UNIT BAR: tracked against untracked
both() { bar "$1" "${MEDIAN[$2.tracked]} / ${MEDIAN[$2.plain]}" "$(ratio "${MEDIAN[$2.tracked]}" "${MEDIAN[$2.plain]}")" "$3" "$4"; }

# share NAME SIDE: what a side has of the transactions per second of the one not tracked
share() { awk -v a="${TPS[$1.$2]}" -v b="${TPS[$1.plain]}" 'BEGIN { printf "%.3f", a / b }'; }

# shares TEXT NAME: tracked tables, and the two sides that are for comparison
shares() {
	bar "$1" "${TPS[$2.tracked]} / ${TPS[$2.plain]}" "$(share "$2" tracked)" at-least 0.95
	row "  that with triggers which do nothing" "${TPS[$2.floor]} / ${TPS[$2.plain]}" "$(share "$2" floor)" "-" ""
	row "  that with no triggers, once more" "${TPS[$2.control]} / ${TPS[$2.plain]}" "$(share "$2" control)" "-" ""
}

# more NAME SIDE: the difference from what is not tracked
more() { awk -v a="${MEDIAN[$1.$2]}" -v b="${MEDIAN[$1.plain]}" 'BEGIN { printf "%.2f", a - b }'; }

report() {
	say ""
	row "Tracked against untracked" "" "ratio" "bar" ""
	shares "pgbench -N, transactions per second" simple
	shares "pgbench -N -M prepared" simple_prepared
	shares "pgbench TPC-B with all tables tracked" tpcb
	shares "pgbench TPC-B -M prepared" tpcb_prepared
	both "UPDATE of $ROWS rows, ms" update at-most 1.3
	both "COPY of $ROWS rows, ms" copy at-most 1.45
	both "apply worker, transactions of one change, microseconds a row" apply_single at-most 1.15
	both "apply worker, UPDATE of $((ROWS / 5)) rows, microseconds a row" apply_many at-most 1.15
	say ""
	row "A transaction with one change" "tracked" "more" "bar" ""
	bar "processor, microseconds" "${MEDIAN[cpu.tracked]}" "$(more cpu tracked)" at-most 2
	row "  that with a trigger which does nothing" "${MEDIAN[cpu.floor]}" "$(more cpu floor)" "-" ""
	bar "WAL, bytes" "${MEDIAN[wal.tracked]}" "$(more wal tracked)" at-most 100
	say ""
	row "The digest, capacity 10,000" "" "" "bar" ""
	bar "reading it with nothing unmerged, ms" "" "${MEDIAN[read.0]}" at-most 1
	bar "reading it with 9,999 changes unmerged, ms" "" "${MEDIAN[read.10000]}" at-most 2
	bar "merging $SINGLE changes, microseconds a change" "" "${MEDIAN[merge.$SINGLE]}" at-most 0.5
	row "merging 9,999 changes, of which the new base takes more" "" "${MEDIAN[merge.9999]}" "-" ""
	say_busy
}

inner() {
	begin_bench
	mkdir -p "$WORK/data"
	chmod 777 "$WORK/data"
	say "Filling a database with $ROWS rows, and copying it ..."
	make_databases
	describe_cpus
	exec {SILENCE}<> <(:)
	turns simple -N
	turns simple_prepared -N -M prepared
	turns tpcb
	turns tpcb_prepared -M prepared
	measure_single
	measure_reading
	measure_bulk
	make_subscribers
	measure_apply
	report
	stop_server apply
	finish_bars
}

if [ -n "${IBLT_WORK-}" ]; then inner; else supervise bench test/bench/digest.sh; fi
