#!/usr/bin/env bash
# kbf.sh
#	What the filter's aggregate costs next to count(*), and a look-up in a stored
#	filter.  One throwaway server, the table of aggregate.sh, every query several
#	times in turn, medians.
#
#	The filters have room for the keys that they get: all rows, and groups of
#	10,000 rows.  A look-up is one of 100,000 in a statement, in a filter of 1 MB
#	and in one of 10 MB.
#
#	BENCH_ROWS      rows (5,000,000)
#	BENCH_REPEAT    repetitions of each query after one to warm up (5)

set -euo pipefail

# shellcheck source=test/bench/lib.sh
. "$(dirname "$0")/lib.sh"

PORT=54327
ROWS=${BENCH_ROWS:-5000000}
REPEAT=${BENCH_REPEAT:-5}
LOOKUPS=100000

# The queries: name, workers and SQL.
queries() {
	cat <<-QUERIES
		count|0|SELECT count(*) FROM t
		agg|0|SELECT kbf_agg(id, 1 + (id & 127)::int, $ROWS) FROM t
		agg_value|0|SELECT kbf_agg(id, v, $ROWS) FROM t
		agg_small|0|SELECT kbf_agg(id, v, 10000) FROM t WHERE id <= 10000
		count_small|0|SELECT count(*) FROM t WHERE id <= 10000
		get_1|0|SELECT sum(kbf_get(s, g, 0)) FROM f, generate_series(1, $LOOKUPS) g WHERE mb = 1
		get_10|0|SELECT sum(kbf_get(s, g, 0)) FROM f, generate_series(1, $LOOKUPS) g WHERE mb = 10
		series|0|SELECT sum(g) FROM f, generate_series(1, $LOOKUPS) g WHERE mb = 1
	QUERIES
}

sql() { asked $PORT postgres "$@"; }

# Filters of at least so many MB, full to their capacity.
make_tables() {
	sql -c "CREATE EXTENSION kbf"
	table_sql "$ROWS" | sed 's/a bigint/a bigint, v int/; s/hashint8extended(g, 1)/&, 1 + (g % 255)::int/' | sql
	sql -c "VACUUM (FREEZE, ANALYZE) t"
	sql -c "CREATE TABLE f AS SELECT mb, kbf_agg(g, 1 + g % 255, mb * 95000) AS s
		FROM unnest(ARRAY[1, 10]) mb, generate_series(1, 950000) g WHERE g <= mb * 95000 GROUP BY mb"
}

# look_up TEXT NAME: microseconds a call, against the bar of 50.
look_up() {
	local each
	each=$(awk -v all="${MEDIAN[$2]}" -v without="${MEDIAN[series]}" -v n=$LOOKUPS \
		'BEGIN { printf "%.1f", (all - without) * 1000 / n }')
	bar "$1 ($(sql -c "SELECT length(s::bytea) FROM f WHERE mb = $3") bytes), µs" "${MEDIAN[$2]}" "$each" at-most 50
}

report() {
	say ""
	row "SQL" "ms" "ratio" "bar" ""
	row "count(*)" "${MEDIAN[count]}" "1.00" "-" ""
	than "kbf_agg(id, v, $ROWS) / count(*)" agg_value count 2.0
	than "kbf_agg(id, 1 + (id & 127)::int, $ROWS)" agg count
	than "kbf_agg of 10,000 rows / count(*) of them" agg_small count_small
	look_up "kbf_get, stored" get_1 1
	look_up "kbf_get, stored" get_10 10
	row "Bits a key, $ROWS keys" "$(sql -c "SELECT round(bits_per_key::numeric, 1) FROM
		(SELECT kbf_agg(id, v, $ROWS) FROM t) x(s), kbf_info(s)")" "-" "-" ""
	say_busy
}

inner() {
	begin_bench
	start_server bench $PORT "autovacuum = off" "jit = off" "wal_level = minimal" "max_wal_senders = 0" \
		"maintenance_work_mem = 512MB" "max_parallel_workers_per_gather = 0" "enable_indexonlyscan = off"
	say "Filling a table with $ROWS rows ..."
	make_tables
	describe_cpus
	say "Table:   $ROWS rows, medians of $REPEAT runs, in turn"
	measure queries
	report
	stop_server bench
	finish_bars
}

if [ -n "${IBLT_WORK-}" ]; then inner; else supervise bench test/bench/kbf.sh; fi
