#!/usr/bin/env bash
# run.sh
#	What a run (doc/runs.md) costs: two throwaway servers with the same large table,
#	of which 100 rows differ.  A run in slices of a second against one iblt_audit, with
#	a serial key and with random uuids, in turn, as medians; an audit and a run of many
#	small tables; both conducted from a third database, with no delay and with 50 ms; the
#	share of the time at work with max_load => 0.25; the memory of both sessions of a run; and
#	two sessions on one table.
#
#	Both servers are on this machine, so one session keeps two processors busy.  To count
#	the work of both in, one session has one processor for both servers, and two sessions
#	have two.
#
#	BENCH_RUN_ROWS          rows (5,000,000)
#	BENCH_RUN_REPEAT        repetitions after one to warm up (3)
#	BENCH_RUN_SMALL_TABLES  tables of 20 rows (2,000)

set -euo pipefail

# shellcheck source=test/bench/lib.sh
. "$(dirname "$0")/lib.sh"

HERE_PORT=54328
THERE_PORT=54329
NEAR_PORT=54330		# proxies to here and there
FAR_PORT=54331
ROWS=${BENCH_RUN_ROWS:-5000000}
REPEAT=${BENCH_RUN_REPEAT:-3}
SMALL_TABLES=${BENCH_RUN_SMALL_TABLES:-2000}

# The tables t, with a serial key, and u, with the same rows under random uuids.
make_servers() {
	local port
	for port in $HERE_PORT $THERE_PORT; do
		start_server "run$port" "$port" "autovacuum = off" "wal_level = minimal" "max_wal_senders = 0" \
			"maintenance_work_mem = 256MB" "shared_buffers = 256MB" "jit = off"
		table_sql "$ROWS" | sql "$port"
		sql "$port" -c "CREATE EXTENSION iblt_audit CASCADE; CREATE EXTENSION iblt_live" \
			-c "CREATE UNLOGGED TABLE u AS SELECT md5(id::text)::uuid AS id, a, b, c FROM t" -c "ALTER TABLE u ADD PRIMARY KEY (id)"
	done
	sql $THERE_PORT -c "UPDATE t SET a = a + 1 WHERE id % $((ROWS / 100)) = 7" \
		-c "UPDATE u SET a = a + 1 WHERE a IN (SELECT hashint8extended(g, 1) FROM generate_series(7, $ROWS, $((ROWS / 100))) g)"
	for port in $HERE_PORT $THERE_PORT; do sql "$port" -c "VACUUM (FREEZE, ANALYZE)"; done
}

run_sql() { echo "CALL iblt_audit_run($(peer $THERE_PORT), '{$1}', progress => false${2:+, $2})"; }

last_run() { sql $HERE_PORT -c "SELECT $1 FROM iblt_audit_table_stats ORDER BY run DESC LIMIT 1"; }

measure_large() {
	local table r
	for table in t u; do
		for r in $(seq 0 "$REPEAT"); do
			timed "audit_$table" "$r" $HERE_PORT postgres 100 "" "SELECT changed FROM iblt_audit($(peer $THERE_PORT), '{$table}')"
			timed "run_$table" "$r" $HERE_PORT postgres "" "" "$(run_sql $table)"
			[ "$(last_run changed)" = 100 ] || die "a run found $(last_run "concat_ws(' ', changed, status, detail)")"
		done
		SLICES[$table]=$(last_run slices)
	done
}

measure_memory() {
	local run
	PGAPPNAME=measured sql $HERE_PORT -c "$(run_sql t)" >/dev/null &
	run=$!
	read -r -d '' MEMORY_HERE MEMORY_THERE < <(watch_memory $run $HERE_PORT measured $THERE_PORT 'iblt%') || true
	wait $run
}

# Tables of 20 rows, by an audit and a run in turn.
make_small() {
	local port first
	for port in $HERE_PORT $THERE_PORT; do
		sql "$port" -c "CREATE SCHEMA small"
		for first in $(seq 1 100 "$SMALL_TABLES"); do
			sql "$port" -c "DO \$\$ BEGIN FOR i IN $first .. $((first + 99)) LOOP
				EXECUTE format('CREATE TABLE small.t%s (id integer PRIMARY KEY, v text, n numeric);
					INSERT INTO small.t%1\$s SELECT g, md5(g::text), g FROM generate_series(1, 20) AS g', i);
				END LOOP; END \$\$"
		done
	done
}

measure_small() {
	local r
	for r in $(seq 0 "$REPEAT"); do
		timed audit_small "$r" $HERE_PORT postgres "$SMALL_TABLES" "" \
			"SELECT count(*) FROM iblt_audit($(peer $THERE_PORT), schema => 'small') WHERE status = 'equal'"
		timed run_small "$r" $HERE_PORT postgres "" "" "CALL iblt_audit_run($(peer $THERE_PORT), schema => 'small', progress => false)"
	done
}

# The same audit by here, and by a database that has neither table, in turn; far, with a delay of
# 25 ms in each direction.
measure_elsewhere() {
	local r arguments far near there
	sql $HERE_PORT -c "CREATE DATABASE conductor"
	asked $HERE_PORT conductor -c "CREATE EXTENSION iblt_audit CASCADE; CREATE EXTENSION iblt_live"
	delayed $NEAR_PORT $HERE_PORT
	delayed $FAR_PORT $THERE_PORT
	for r in $(seq 0 "$REPEAT"); do
		for arguments in "t schema => 'public'" "small schema => 'small'"; do
			for far in "" far_; do
				near=$(peer "$([ -n "$far" ] && echo $NEAR_PORT || echo $HERE_PORT)")
				there=$(peer "$([ -n "$far" ] && echo $FAR_PORT || echo $THERE_PORT)")
				timed "${far}direct_${arguments%% *}" "$r" $HERE_PORT postgres "" "" "SELECT count(*) FROM iblt_audit($there, ${arguments#* })"
				timed "${far}elsewhere_${arguments%% *}" "$r" $HERE_PORT conductor "" "" "SELECT count(*) FROM iblt_audit($there, ${arguments#* }, here_peer => $near)"
			done
		done
		timed direct_run "$r" $HERE_PORT postgres "" "" "$(run_sql t)"
		timed elsewhere_run "$r" $HERE_PORT conductor "" "" "CALL iblt_audit_run($(peer $THERE_PORT), here_tables => '{public.t}', here_peer => $(peer $HERE_PORT), progress => false)"
	done
	end_delays
}

report_elsewhere() {
	local far what
	for what in t small; do
		for far in "" far_; do
			than "iblt_audit of $([ $what = t ] && echo "t and u" || echo "the small tables") from a third database${far:+, 50 ms}" \
				"${far}elsewhere_$what" "${far}direct_$what" 1.15
		done
	done
	than "a run from a third database" elsewhere_run direct_run 1.15
}

# Pins both servers, and the backends that they start from now on, to processors.
pin_servers() {
	local port
	for port in $HERE_PORT $THERE_PORT; do
		taskset -pc "$1" "$(head -n 1 "$WORK/run$port/postmaster.pid")" >/dev/null
	done
}

# One run of table t, by so many sessions on as many processors.
run_by() {
	local run started cpu session
	run=$(sql $HERE_PORT -c "$(run_sql t "slice_ms => 100, max_time => '0'")")
	pin_servers "0-$(($1 - 1))"
	cpu=$(sessions_ms run$HERE_PORT run$THERE_PORT)
	started=$(date +%s%N)
	for session in $(seq "$1"); do
		sql $HERE_PORT -c "CALL iblt_audit_resume($run, $(peer $THERE_PORT), progress => false)" >"$WORK/session$session" &
	done
	wait
	note "sessions_$1" "$2" "$((($(date +%s%N) - started) / 1000000))"
	note "sessions_cpu_$1" "$2" "$(($(sessions_ms run$HERE_PORT run$THERE_PORT) - cpu))"
	[ "$(last_run changed)" = 100 ] || die "a run of $1 sessions found $(last_run changed)"
}

measure_sessions() {
	local r
	for r in $(seq 0 "$REPEAT"); do
		run_by 1 "$r"
		run_by 2 "$r"
	done
}

report_bars() {
	local table load
	row "" "ms" "ratio" "bar" ""
	for table in t u; do
		row "iblt_audit, $([ $table = t ] && echo serial key || echo random uuids)" "${MEDIAN[audit_$table]}" "" "" ""
	done
	than "a run, serial key, ${SLICES[t]} slices" run_t audit_t 1.6
	than "a run, random uuids, ${SLICES[u]} slices" run_u audit_u
	bar "iblt_audit of $SMALL_TABLES tables of 20 rows, in ms" "" "${MEDIAN[audit_small]}" at-most 10000
	than "a run over them / that" run_small audit_small 1.5
	if [ -n "${MEDIAN[sessions_2]-}" ]; then
		bar "one session on one processor / two on two" "${MEDIAN[sessions_2]}" \
			"$(ratio "${MEDIAN[sessions_1]}" "${MEDIAN[sessions_2]}")" at-least 1.7
		than "processor time of two sessions / of one" sessions_cpu_2 sessions_cpu_1
	fi
	load=$(last_run 'round((work_ms / wall_ms)::numeric, 3)')
	bar "share of the time at work, max_load => 0.25" "" "$load" at-least 0.2
	bar "" "" "$load" at-most 0.3
	bar "memory of a run, MB, here" "" "$MEMORY_HERE" at-most 50
	bar "memory of a run, MB, there" "" "$MEMORY_THERE" at-most 50
}

inner() {
	begin_bench
	declare -gA SLICES
	: >"$WORK/timing.out"
	make_servers
	describe_cpus
	say "Runs over $ROWS rows"
	measure_large
	measure_memory
	make_small
	measure_small
	measure_elsewhere
	if [ "$(nproc)" -ge 2 ]; then measure_sessions; fi
	pin_servers "0-$(($(nproc) - 1))"
	# with many slices, because no pause is behind the last one
	sql $HERE_PORT -c "$(run_sql t "max_load => 0.25, slice_ms => 100")" >/dev/null
	read_medians "$WORK/timing.out"
	report_bars
	report_elsewhere
	say_busy
	stop_server "run$HERE_PORT"
	stop_server "run$THERE_PORT"
	finish_bars
}

if [ -n "${IBLT_WORK-}" ]; then inner; else supervise bench test/bench/run.sh; fi
