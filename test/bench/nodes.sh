#!/usr/bin/env bash
# nodes.sh
#	What iblt_compare_nodes costs for 2, 4 and 8 nodes: processor time, because the nodes are
#	databases of one throwaway server, and share this machine's processors.  On servers of
#	their own they would scan at the same time.  So what counts is the processor time of the
#	session that conducts and of one node, against that of a node's scan alone, into a sketch of
#	the size that a comparison takes.  And what it takes to reach nodes that are far away.
#
#	BENCH_NODES_ROWS    rows of each node (3,000,000), of which 100 differ on one node or another
#	BENCH_NODES_REPEAT  repetitions after one to warm up (5)

set -euo pipefail

# shellcheck source=test/bench/lib.sh
. "$(dirname "$0")/lib.sh"

PORT=54323
ROWS=${BENCH_NODES_ROWS:-3000000}
REPEAT=${BENCH_NODES_REPEAT:-5}
NODES=(2 4 8)
SCAN="SELECT (iblt_info(s)).rows FROM (SELECT iblt_agg(id, iblt_checksum_seeded(1, id, a, b, c), iblt_internal.iblt_compare_template(60000, 9, 1)) FROM t OFFSET 0) AS x(s)"

# sql DATABASE ARGUMENT ...
sql() { asked $PORT "$@"; }

make_nodes() {
	local n
	start_server nodes $PORT "autovacuum = off" "wal_level = minimal" "max_wal_senders = 0" "jit = off" \
		"max_parallel_workers_per_gather = 0" "max_connections = 50" "shared_buffers = 1GB"
	sql postgres -c "CREATE DATABASE n1" -c "CREATE EXTENSION iblt_audit CASCADE; CREATE EXTENSION iblt_live"
	table_sql "$ROWS" | sed 's/UNLOGGED//' | sql n1
	sql n1 -c "CREATE EXTENSION iblt_audit CASCADE; CREATE EXTENSION iblt_live" -c "VACUUM (FREEZE, ANALYZE)"
	for n in 2 3 4 5 6 7 8; do sql postgres -c "CREATE DATABASE n$n TEMPLATE n1"; done
	for n in 1 2 3 4 5 6 7 8; do
		sql "n$n" -c "UPDATE t SET a = a + 1 WHERE id % 8 = $n - 1 AND id <= 100"
		sql postgres -c "CREATE SERVER n$n FOREIGN DATA WRAPPER iblt_fdw OPTIONS (host '$WORK/s', port '$PORT', dbname 'n$n')" \
			-c "CREATE USER MAPPING FOR postgres SERVER n$n OPTIONS (user 'postgres')"
	done
}

# Of a list of so many nodes: the sessions' time, and that of the one that conducts.
measure_nodes() {
	local r n before all own list
	for r in $(seq 0 "$REPEAT"); do
		before=$(sessions_ms nodes)
		[ "$(sql n1 -c "$SCAN")" = "$ROWS" ] || die "no scan"
		note scan "$r" "$(($(sessions_ms nodes) - before))"
		for n in "${NODES[@]}"; do
			list=$(seq -s, -f 'n%.0f' 1 "$n")
			before=$(sessions_ms nodes)
			sql postgres -c "SELECT count(*) FROM iblt_compare_nodes('public.t', '{$list}', recheck => 0)" \
				-c "SELECT round(split_part(pg_read_file('/proc/self/schedstat', 0, 100), ' ', 1)::numeric / 1e6)" >"$WORK/out"
			all=$(($(sessions_ms nodes) - before))
			own=$(sed -n 2p "$WORK/out")
			[ "$(head -n 1 "$WORK/out")" = $((n == 2 ? 25 : n == 4 ? 51 : 100)) ] || die "$(head -n 1 "$WORK/out") keys of $n nodes"
			note "conducts_$n" "$r" "$own"
			note "nodes_$n" "$r" "$((own + (all - own) / n))"
		done
	done
}

# Nodes that are 50 ms away, each behind a proxy of its own: what more of them add.
FAR=16

make_far() {
	local n
	sql postgres -c "CREATE DATABASE f1"
	sql f1 -c "CREATE EXTENSION iblt_audit CASCADE" -c "CREATE TABLE small AS SELECT g AS id FROM generate_series(1, 100) g; ALTER TABLE small ADD PRIMARY KEY (id)"
	for n in $(seq 2 $FAR); do sql postgres -c "CREATE DATABASE f$n TEMPLATE f1"; done
	for n in $(seq 1 $FAR); do
		delayed $((PORT + n)) $PORT
		sql postgres -c "CREATE SERVER f$n FOREIGN DATA WRAPPER iblt_fdw OPTIONS (host '$WORK/s', port '$((PORT + n))', dbname 'f$n')" \
			-c "CREATE USER MAPPING FOR postgres SERVER f$n OPTIONS (user 'postgres')"
	done
}

measure_far() {
	local r n
	for r in $(seq 0 "$REPEAT"); do
		for n in 2 $FAR; do
			timed "far_$n" "$r" $PORT postgres 0 '' "SELECT count(*) FROM iblt_compare_nodes('public.small', '{$(seq -s, -f 'f%.0f' 1 "$n")}')"
		done
	done
	end_delays
}

report_bars() {
	local n
	row "" "ms" "ratio" "bar" ""
	row "a node's scan" "${MEDIAN[scan]}" "1.00" "" ""
	for n in "${NODES[@]}"; do
		than "$n nodes: the session that conducts" "conducts_$n" scan
		than "$n nodes: that session and one node" "nodes_$n" scan 1.3
	done
	row "2 nodes of 100 rows, 50 ms away, new connections" "${MEDIAN[far_2]}" "1.00" "" ""
	than "$FAR such nodes" "far_$FAR" far_2 1.5
}

inner() {
	begin_bench
	: >"$WORK/timing.out"
	make_nodes
	describe_cpus
	say "iblt_compare_nodes over $ROWS rows: processor time, without parallel workers"
	measure_nodes
	make_far
	measure_far
	read_medians "$WORK/timing.out"
	report_bars
	say_busy
	stop_server nodes
	finish_bars
}

if [ -n "${IBLT_WORK-}" ]; then inner; else supervise bench test/bench/nodes.sh; fi
