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
#	BENCH_STRICT            1: missed bars fail

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

# sql PORT ARGUMENT ...
sql() { asked "$1" postgres -F ' ' "${@:2}"; }

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

peer() { echo "'host=$WORK/s port=${1:-$THERE_PORT} user=postgres dbname=postgres'"; }

# timed_in NAME REPETITION FILE: the time that psql wrote to the file.
timed_in() { note "$1" "$2" "$(sed -n 's/^Time: \([0-9.]*\).*/\1/p' "$3")"; }

run_sql() { echo "CALL iblt_audit_run($(peer), '{$1}', progress => false${2:+, $2})"; }

last_run() { sql $HERE_PORT -c "SELECT $1 FROM iblt_audit_table_stats ORDER BY run DESC LIMIT 1"; }

measure() {
	local table r
	for table in t u; do
		for r in $(seq 0 "$REPEAT"); do
			sql $HERE_PORT -c '\timing on' -c "SELECT changed FROM iblt_audit($(peer), '{$table}')" >"$WORK/out"
			timed_in "audit_$table" "$r" "$WORK/out"
			[ "$(head -n 1 "$WORK/out")" = 100 ] || die "an audit found $(head -n 1 "$WORK/out")"
			sql $HERE_PORT -c '\timing on' -c "$(run_sql $table)" >"$WORK/out"
			timed_in "run_$table" "$r" "$WORK/out"
			[ "$(last_run changed)" = 100 ] || die "a run found $(last_run "concat_ws(' ', changed, status, detail)")"
		done
		SLICES[$table]=$(last_run slices)
	done
}

# The largest RssAnon that the backends of an application have, in kB, until it ends.
watch_memory() {
	local pid rss most=0
	while kill -0 "$1" 2>/dev/null; do
		for pid in $(sql "$2" -c "SELECT pid FROM pg_stat_activity WHERE application_name LIKE '$3'"); do
			rss=$(sed -n 's/^RssAnon:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$pid/status" 2>/dev/null || true)
			if [ "${rss:-0}" -gt "$most" ]; then most=$rss; fi
		done
		sleep 0.1
	done
	echo "$most"
}

measure_memory() {
	local run
	PGAPPNAME=measured sql $HERE_PORT -c "$(run_sql t)" >/dev/null &
	run=$!
	watch_memory $run $THERE_PORT 'iblt%' >"$WORK/there.kb" &
	watch_memory $run $HERE_PORT measured >"$WORK/here.kb"
	wait
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
		sql $HERE_PORT -c '\timing on' \
			-c "SELECT count(*) FROM iblt_audit($(peer), schema => 'small') WHERE status = 'equal'" >"$WORK/out"
		timed_in audit_small "$r" "$WORK/out"
		[ "$(head -n 1 "$WORK/out")" = "$SMALL_TABLES" ] || die "small tables are not equal"
		sql $HERE_PORT -c '\timing on' -c "CALL iblt_audit_run($(peer), schema => 'small', progress => false)" >"$WORK/out"
		timed_in run_small "$r" "$WORK/out"
	done
}

# timed NAME REPETITION DATABASE QUERY
timed() {
	asked $HERE_PORT "$3" -c '\timing on' -c "$4" >"$WORK/out"
	timed_in "$1" "$2" "$WORK/out"
}

# The same audit by here, and by a database that has neither table, in turn; far, with a delay of
# 25 ms in each direction.
measure_elsewhere() {
	local r proxies=() arguments far near
	sql $HERE_PORT -c "CREATE DATABASE conductor"
	asked $HERE_PORT conductor -c "CREATE EXTENSION iblt_audit CASCADE; CREATE EXTENSION iblt_live"
	for r in "$NEAR_PORT $HERE_PORT" "$FAR_PORT $THERE_PORT"; do
		perl test/bench/proxy.pl "$WORK/s/.s.PGSQL.${r% *}" "$WORK/s/.s.PGSQL.${r#* }" 25 >/dev/null &
		proxies+=($!)
	done
	until [ -S "$WORK/s/.s.PGSQL.$NEAR_PORT" ] && [ -S "$WORK/s/.s.PGSQL.$FAR_PORT" ]; do sleep 0.1; done
	for r in $(seq 0 "$REPEAT"); do
		for arguments in "t schema => 'public'" "small schema => 'small'"; do
			for far in "" far_; do
				near=$(peer "$([ -n "$far" ] && echo $NEAR_PORT || echo $HERE_PORT)")
				timed "${far}direct_${arguments%% *}" "$r" postgres "SELECT count(*) FROM iblt_audit($(peer ${far:+$FAR_PORT}), ${arguments#* })"
				timed "${far}elsewhere_${arguments%% *}" "$r" conductor "SELECT count(*) FROM iblt_audit($(peer ${far:+$FAR_PORT}), ${arguments#* }, here_peer => $near)"
			done
		done
		timed direct_run "$r" postgres "$(run_sql t)"
		timed elsewhere_run "$r" conductor "CALL iblt_audit_run($(peer), here_tables => '{public.t}', here_peer => $(peer $HERE_PORT), progress => false)"
	done
	kill "${proxies[@]}"
}

report_elsewhere() {
	local far what
	for what in t small; do
		for far in "" far_; do
			bar "iblt_audit of $([ $what = t ] && echo "t and u" || echo "the small tables") from a third database${far:+, 50 ms}" \
				"${MEDIAN[${far}elsewhere_$what]}" "$(ratio "${MEDIAN[${far}elsewhere_$what]}" "${MEDIAN[${far}direct_$what]}")" at-most 1.15
		done
	done
	bar "a run from a third database" "${MEDIAN[elsewhere_run]}" "$(ratio "${MEDIAN[elsewhere_run]}" "${MEDIAN[direct_run]}")" at-most 1.15
}

# Pins both servers, and the backends that they start from now on, to processors.
pin_servers() {
	local port
	for port in $HERE_PORT $THERE_PORT; do
		taskset -pc "$1" "$(head -n 1 "$WORK/run$port/postmaster.pid")" >/dev/null
	done
}

# Milliseconds of processor time of the backends of both servers that have ended.
backend_ms() {
	local port
	for port in $HERE_PORT $THERE_PORT; do
		sed 's/.*) //' "/proc/$(head -n 1 "$WORK/run$port/postmaster.pid")/stat"
	done | awk -v hz="$(getconf CLK_TCK)" '{ sum += $14 + $15 } END { print sum * 1000 / hz }'
}

# One run of table t, by so many sessions on as many processors.
run_by() {
	local run started cpu session
	run=$(sql $HERE_PORT -c "$(run_sql t "slice_ms => 100, max_time => '0'")")
	pin_servers "0-$(($1 - 1))"
	cpu=$(backend_ms)
	started=$(date +%s%N)
	for session in $(seq "$1"); do
		sql $HERE_PORT -c "CALL iblt_audit_resume($run, $(peer), progress => false)" >"$WORK/session$session" &
	done
	wait
	note "sessions_$1" "$2" "$((($(date +%s%N) - started) / 1000000))"
	sleep 0.5
	note "sessions_cpu_$1" "$2" "$(awk -v after="$(backend_ms)" -v before="$cpu" 'BEGIN { print after - before }')"
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
	local table load kb
	row "" "ms" "ratio" "bar" ""
	for table in t u; do
		row "iblt_audit, $([ $table = t ] && echo serial key || echo random uuids)" "${MEDIAN[audit_$table]}" "" "" ""
	done
	bar "a run, serial key, ${SLICES[t]} slices" "${MEDIAN[run_t]}" "$(ratio "${MEDIAN[run_t]}" "${MEDIAN[audit_t]}")" at-most 1.6
	row "a run, random uuids, ${SLICES[u]} slices" "${MEDIAN[run_u]}" "$(ratio "${MEDIAN[run_u]}" "${MEDIAN[audit_u]}")" "" ""
	bar "iblt_audit of $SMALL_TABLES tables of 20 rows, in ms" "" "${MEDIAN[audit_small]}" at-most 10000
	bar "a run over them / that" "${MEDIAN[run_small]}" "$(ratio "${MEDIAN[run_small]}" "${MEDIAN[audit_small]}")" at-most 1.5
	if [ -n "${MEDIAN[sessions_2]-}" ]; then
		bar "one session on one processor / two on two" "${MEDIAN[sessions_2]}" \
			"$(ratio "${MEDIAN[sessions_1]}" "${MEDIAN[sessions_2]}")" at-least 1.7
		row "processor time of two sessions / of one" "${MEDIAN[sessions_cpu_2]}" \
			"$(ratio "${MEDIAN[sessions_cpu_2]}" "${MEDIAN[sessions_cpu_1]}")" "" ""
	fi
	load=$(last_run 'round((work_ms / wall_ms)::numeric, 3)')
	bar "share of the time at work, max_load => 0.25" "" "$load" at-least 0.2
	bar "" "" "$load" at-most 0.3
	for kb in here there; do
		bar "memory of a run, MB, $kb" "" "$(ratio "$(cat "$WORK/$kb.kb")" 1024)" at-most 50
	done
}

inner() {
	begin_bench
	declare -gA SLICES
	: >"$WORK/timing.out"
	make_servers
	describe_cpus
	say "Runs over $ROWS rows"
	measure
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
