#!/usr/bin/env bash
# aggregate.sh
#	What the aggregate costs next to count(*) and to hashing rows as text, and
#	what the core does alone.  One throwaway server, one table of 5 million rows
#	of four columns, one of 20 million rows of two integers, and some of other types,
#	every query several times in turn, medians.
#
#	agg_compare is the sketch that a comparison takes of one side.  Where another aggregate
#	stands beside iblt_agg, the executor gives it all rows (src/sketch/page.c).
#
#	The bars are ratios, so that they hold on other machines, too.  A missed bar
#	is marked; with BENCH_STRICT=1 it also makes the exit status 1.
#
#	The server's memory is configured as it is installed: a large table is then
#	read from the operating system's cache through a few shared buffers, as
#	large tables are.  jit is off, for each parallel worker would load LLVM
#	first, which is a tenth of these runs.  What changes when the whole table is in shared buffers, which makes
#	count(*) cheaper than one access to a column, has a bar of its own.
#
#	BENCH_ROWS          rows (5,000,000)
#	BENCH_NARROW_ROWS   rows of two integers (20,000,000)
#	BENCH_REPEAT        repetitions of each query after one to warm up (5)
#	BENCH_GROWTH        measures only how times grow up to a table of so many rows of two
#	                    integers, from a hundredth and a tenth of them (200,000,000 need 30 GB)

set -euo pipefail

# shellcheck source=test/bench/lib.sh
. "$(dirname "$0")/lib.sh"

PORT=54323
ROWS=${BENCH_ROWS:-5000000}
NARROW_ROWS=${BENCH_NARROW_ROWS:-20000000}
REPEAT=${BENCH_REPEAT:-5}

# The queries: name, workers, SQL.
queries() {
	cat <<-'QUERIES'
		count|0|SELECT count(*) FROM t
		agg_ready|0|SELECT iblt_agg(id, a) FROM t
		agg_columns|0|SELECT iblt_agg(id, iblt_checksum(id, a, b, c)) FROM t
		agg_row|0|SELECT iblt_agg(id, iblt_checksum(t.*)) FROM t
		agg_compare|0|SELECT iblt_agg(id, iblt_internal.iblt_checksum_seeded('5', id, a, b, c), iblt_internal.iblt_compare_template(60000, 8, '5')) FROM t
		agg_executor|0|SELECT iblt_agg(id, iblt_checksum(t.*)), count(*) FROM t
		md5|0|SELECT count(md5(t::text)) FROM t
		hashtext|0|SELECT sum(hashtextextended(t::text, 0)) FROM t
		hashrecord|0|SELECT sum(hash_record_extended(t, 0)) FROM t
		count_2|2|SELECT count(*) FROM t
		agg_ready_2|2|SELECT iblt_agg(id, a) FROM t
		agg_columns_2|2|SELECT iblt_agg(id, iblt_checksum(id, a, b, c)) FROM t
		agg_row_2|2|SELECT iblt_agg(id, iblt_checksum(t.*)) FROM t
		agg_compare_2|2|SELECT iblt_agg(id, iblt_internal.iblt_checksum_seeded('5', id, a, b, c), iblt_internal.iblt_compare_template(60000, 8, '5')) FROM t
		md5_2|2|SELECT count(md5(t::text)) FROM t
	QUERIES
}

# The same of the narrow table.
narrow_queries() { queries | grep -E '^(count|agg_ready|agg_row|agg_compare)(_2)?[|]' | sed 's/id, a, b, c/id, a/; s/t\.\*/n.*/; s/FROM t/FROM n/'; }

# A million rows of other types: the name, and the columns that follow the key.
TYPES=(numeric timestamptz uuid jsonb text_array columns_40)
type_columns() {
	case $1 in
		numeric) echo "(g * 1.37)::numeric AS v, (g / 7.0)::numeric AS w" ;;
		timestamptz) echo "timestamptz '2000-01-01' + g * interval '1 s' AS v" ;;
		uuid) echo "md5(g::text)::uuid AS v" ;;
		jsonb) echo "jsonb_build_object('id', g, 'name', md5(g::text), 'tags', ARRAY[g, g + 1]) AS v" ;;
		text_array) echo "ARRAY[md5(g::text), g::text, NULL] AS v" ;;
		columns_40) seq -s ', ' -f 'g AS c%g' 30; seq -s '' -f ', left(md5(g::text), 8) AS d%g' 9 ;;
	esac
}

type_queries() {
	local type
	for type in "${TYPES[@]}"; do
		printf '%s|0|SELECT %s FROM %s AS t\n' "count_$type" "count(*)" "$type" "agg_$type" "iblt_agg(id, iblt_checksum(t.*))" "$type" \
			"executor_$type" "iblt_agg(id, iblt_checksum(t.*)), count(*)" "$type"
	done
}

make_types() {
	local type
	for type in "${TYPES[@]}"; do
		sql -c "CREATE UNLOGGED TABLE $type AS SELECT g AS id, $(type_columns "$type") FROM generate_series(1::bigint, $((ROWS / 5))) g" \
			-c "VACUUM (FREEZE, ANALYZE) $type"
	done
}

report_types() {
	local type
	say ""
	row "$((ROWS / 5)) rows of other types: iblt_agg / by the executor" "ms" "ratio" "bar" ""
	for type in "${TYPES[@]}"; do
		than "$type: $(ratio "${MEDIAN[agg_$type]}" "${MEDIAN[count_$type]}") of count(*), $(ratio "${MEDIAN[executor_$type]}" "${MEDIAN[count_$type]}") by the executor" \
			"agg_$type" "executor_$type" 1
	done
}

sql() { asked $PORT postgres "$@"; }

make_table() {
	sql -c "CREATE EXTENSION iblt" -c "CREATE EXTENSION pg_prewarm"
	table_sql "$ROWS" | sql
	sql -c "CREATE UNLOGGED TABLE n AS SELECT g AS id, hashint4(g) AS a FROM generate_series(1, $NARROW_ROWS) g"
	sql -c "ALTER TABLE t SET (parallel_workers = 2)" -c "ALTER TABLE n SET (parallel_workers = 2)"
	sql -c "VACUUM (FREEZE, ANALYZE) t, n"
}

# The first few of them, for the second round.
queries_in_shared_buffers() { queries | head -n 6; }

# faster TEXT NAME BAR: how many times as fast as count(md5(t::text)).
faster() { bar "count(md5(t::text)) / $1" "${MEDIAN[$2]}" "$(ratio "${MEDIAN[md5]}" "${MEDIAN[$2]}")" at-least "$3"; }

# scales TEXT NAME BAR: none against two workers.
scales() { bar "$1, no workers / 2 workers" "${MEDIAN[$2_2]}" "$(ratio "${MEDIAN[$2]}" "${MEDIAN[$2_2]}")" at-least "$3"; }

report_in_shared_buffers() {
	say ""
	row "All of the table in shared buffers" "ms" "/ count" "bar" ""
	than "count(*)" count count
	than "iblt_agg(id, a)" agg_ready count
	than "iblt_agg(id, iblt_checksum(id, a, b, c))" agg_columns count
	than "iblt_agg(id, iblt_checksum(t.*)) / count(*)" agg_row count 1.5
	than "the sketch of a comparison / count(*)" agg_compare count 1.5
	than "iblt_agg(id, iblt_checksum(t.*)), count(*)" agg_executor count
}

# report_narrow WHERE BAR: what narrow_queries took.
report_narrow() {
	local workers
	for workers in '' _2; do
		say ""
		row "$NARROW_ROWS rows of two integers, $1${workers:+, 2 workers}" "ms" "/ count" "" ""
		than "count(*)" "count$workers" "count$workers"
		than "iblt_agg(id, a)" "agg_ready$workers" "count$workers"
		than "iblt_agg(id, iblt_checksum(n.*))" "agg_row$workers" "count$workers"
		if [ -n "$workers" ]; then than "the sketch of a comparison" "agg_compare$workers" "count$workers"
		else than "the sketch of a comparison" agg_compare count "$2"; fi
	done
}

# The three tables of BENCH_GROWTH, and another database with copies of them.
SIZES=()
make_sizes() {
	local rows
	sql -c "CREATE EXTENSION iblt_audit CASCADE"
	for rows in "${SIZES[@]}"; do
		sql -c "CREATE TABLE rows_$rows AS SELECT g AS id, hashint4(g) AS a FROM generate_series(1, $rows) g" \
			-c "ALTER TABLE rows_$rows ADD PRIMARY KEY (id)" -c "VACUUM (FREEZE, ANALYZE) rows_$rows"
	done
	asked $PORT template1 -c "CREATE DATABASE copy TEMPLATE postgres STRATEGY file_copy"
	asked $PORT copy -c "UPDATE rows_${SIZES[0]} SET a = a + 1 WHERE id % 10000 = 0"
	sql -c "CHECKPOINT"
}

growth_queries() {
	local rows
	for rows in "${SIZES[@]}"; do
		echo "count_$rows|0|SELECT count(*) FROM rows_$rows"
		echo "digest_$rows|0|SELECT iblt_agg(id, iblt_internal.iblt_checksum_seeded('5', id, a), iblt_internal.iblt_compare_template(60000, 8, '5')) FROM rows_$rows"
		echo "compare_$rows|0|SELECT count(*) FROM iblt_compare('rows_$rows', $(peer $PORT | sed 's/dbname=postgres/dbname=copy/'))"
	done
}

# A tenfold table should take ten times as long.
report_growth() {
	local kind i
	say ""
	row "Rows of two integers" "ms" "times" "rows" ""
	for kind in count digest compare; do
		for i in 0 1 2; do
			row "$kind, ${SIZES[i]} rows" "${MEDIAN[${kind}_${SIZES[i]}]}" \
				"$(ratio "${MEDIAN[${kind}_${SIZES[i]}]}" "${MEDIAN[${kind}_${SIZES[i > 0 ? i - 1 : 0]}]}")" "$((i > 0 ? 10 : 1))" ""
		done
	done
	say_busy
}

# That the plans with workers really get them.
workers_launched() {
	sql -c "SET max_parallel_workers_per_gather = 2" -c "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF)
		SELECT iblt_agg(id, a) FROM t" | sed -n 's/.*Workers Launched: //p'
}

describe_machine() {
	describe_cpus
	say "Server:  $("$PG_CONFIG" --version | sed 's/ (.*//'), memory as installed (shared_buffers" \
		"$(sql -c 'SHOW shared_buffers'), jit $(sql -c 'SHOW jit')), sequential scans"
	say "Workers: $(workers_launched) launched, parallel_leader_participation off"
	say "Table:   $ROWS rows, $(sql -c "SELECT pg_size_pretty(pg_table_size('t')) || ', ' ||
		round(avg(pg_column_size(id) + pg_column_size(a) + pg_column_size(b) + pg_column_size(c))) ||
		' bytes of columns a row' FROM (SELECT * FROM t LIMIT 10000) t");" \
		"medians of $REPEAT runs, in turn"
}

report_sql() {
	local reference
	say ""
	row "SQL" "ms" "ratio" "bar" ""
	row "count(*)" "${MEDIAN[count]}" "1.00" "-" ""
	than "iblt_agg(id, a) / count(*)" agg_ready count 1.2
	than "iblt_agg(id, iblt_checksum(id, a, b, c)) / count(*)" agg_columns count 1.2
	than "iblt_agg(id, iblt_checksum(t.*)) / count(*)" agg_row count 1.2
	than "the sketch of a comparison / count(*)" agg_compare count 1.2
	than "iblt_agg(id, iblt_checksum(t.*)), count(*) / count(*)" agg_executor count
	faster "iblt_agg(id, iblt_checksum(id, a, b, c))" agg_columns 12
	faster "iblt_agg(id, iblt_checksum(t.*))" agg_row 12
	scales "iblt_agg(id, a)" agg_ready 1.8
	scales "iblt_agg(id, iblt_checksum(id, a, b, c))" agg_columns 1.8
	scales "iblt_agg(id, iblt_checksum(t.*))" agg_row 1.8
	scales "the sketch of a comparison" agg_compare 1.8
	say ""
	row "For comparison" "ms" "/ count" "" ""
	than "sum(hash_record_extended(t, 0))" hashrecord count
	than "sum(hashtextextended(t::text, 0))" hashtext count
	than "count(md5(t::text))" md5 count
	reference=$(ratio "${MEDIAN[md5]}" "${MEDIAN[md5_2]}")
	row "count(md5(t::text)), no workers / 2 workers" "${MEDIAN[md5_2]}" "$reference" "" ""
	row "count(*), no workers / 2 workers" "${MEDIAN[count_2]}" "$(ratio "${MEDIAN[count]}" "${MEDIAN[count_2]}")" "" ""
	say_busy
	if awk -v r="$reference" 'BEGIN { exit !(r < 1.7) }'; then
		say "  NOTE: md5 does not scale to 1.7 here either: the machine is busy or has too few cores."
	fi
}

report_sizes() {
	local capacity binary text
	say ""
	say "  Bytes of a sketch of bigint keys"
	for capacity in 10 100 1000 10000; do
		read -r binary text < <(sql -F ' ' -c "SELECT octet_length(s::bytea), length(s::text)
			FROM (SELECT iblt_agg(id, a, $capacity) FROM t WHERE id < 1000) AS x(s)")
		printf '  capacity %6d: %8d bytes, %8d as text\n' "$capacity" "$binary" "$text"
	done
}

# Sketches of 50 kB, 5 MB and 46 MB, as they are stored: name and template.
get_templates() {
	cat <<-'TEMPLATES'
		50 kB|iblt_new(1260)
		5 MB|iblt_new(135000)
		46 MB|iblt_new(1300000)
		46 MB for iblt_get|iblt_new(160000, get_success => 0.99)
	TEMPLATES
}

# Looking keys up in stored sketches, 100,000 calls in one statement, a tenth of
# them of keys that are there.  Microseconds a call, with all that the statement does.
report_get() {
	local name template bytes each
	sql -c "CREATE TABLE sketches (name text, s iblt)"
	get_templates | while IFS='|' read -r name template; do
		sql -c "INSERT INTO sketches SELECT '$name', iblt_agg(i, i, $template) FROM generate_series(1, 10000) i"
	done
	sql -c "VACUUM (FREEZE, ANALYZE) sketches"
	say ""
	row "iblt_get on a stored sketch" "bytes" "us" "bar" ""
	while IFS='|' read -r name template; do
		printf '%s\n' '\timing on' >"$WORK/get.sql"
		for each in $(seq 0 "$REPEAT"); do
			printf '%s\n' "\\echo @ get $each" "SELECT count(g.status) FROM sketches, generate_series(1, 100000) k,
				iblt_get(s, k) g WHERE name = '$name' \\g /dev/null"
		done >>"$WORK/get.sql"
		sql -f "$WORK/get.sql" >"$WORK/get.out"
		read_medians "$WORK/get.out"
		bytes=$(sql -c "SELECT octet_length(s::bytea) FROM sketches WHERE name = '$name'")
		bar "$name" "$bytes" "$(awk -v ms="${MEDIAN[get]}" 'BEGIN { printf "%.1f", ms / 100 }')" at-most 25
	done < <(get_templates)
}

# The core without a server prints name, value, unit and bar, separated by tabs.
report_core() {
	local name value unit limit
	say ""
	if ! make -s build/core_bench >"$WORK/core_bench.log" 2>&1 ||
		! build/core_bench >"$WORK/core" 2>>"$WORK/core_bench.log"; then
		tail -n 20 "$WORK/core_bench.log"
		die "test/bench/core_bench.c does not build, or fails"
	fi
	row "Core" "unit" "value" "bar" ""
	while IFS=$'\t' read -r name value unit limit; do bar "$name" "$unit" "$value" at-most "$limit"; done <"$WORK/core"
}

inner() {
	begin_bench
	start_server bench $PORT "autovacuum = off" "jit = off" \
		"wal_level = minimal" "max_wal_senders = 0" "maintenance_work_mem = 512MB" \
		"parallel_setup_cost = 0" "parallel_tuple_cost = 0" "min_parallel_table_scan_size = 0" \
		"enable_indexonlyscan = off" "parallel_leader_participation = off" "max_parallel_workers = 8"
	if [ -n "${BENCH_GROWTH-}" ]; then
		SIZES=($((BENCH_GROWTH / 100)) $((BENCH_GROWTH / 10)) "$BENCH_GROWTH")
		make_sizes
		describe_cpus
		measure growth_queries
		report_growth
		stop_server bench
		return
	fi
	say "Filling a table with $ROWS rows ..."
	make_table
	describe_machine
	measure queries
	report_sql
	report_sizes
	measure narrow_queries
	report_narrow "not in shared buffers" 1.6
	make_types
	measure type_queries
	report_types
	sql -c "ALTER SYSTEM SET shared_buffers = '$((256 + ROWS / 2500 + NARROW_ROWS / 25000))MB'"
	restart_server bench
	sql -c "SELECT pg_prewarm('n')" >/dev/null
	measure narrow_queries
	report_narrow "in shared buffers" 2.0
	sql -c "SELECT pg_prewarm('t')" >/dev/null
	measure queries_in_shared_buffers
	report_in_shared_buffers
	report_get
	report_core
	stop_server bench
	finish_bars
}

if [ -n "${IBLT_WORK-}" ]; then inner; else supervise bench test/bench/aggregate.sh; fi
