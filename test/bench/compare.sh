#!/usr/bin/env bash
# compare.sh
#	What iblt_compare costs from end to end: two throwaway servers on this
#	machine with the same large table, of which 100 rows differ, against what
#	each side's own digest takes and against what people use otherwise
#	(pg_comparator, EXCEPT over postgres_fdw); bytes on the connection; a
#	smaller table of which 5 % differ; the memory where half of the rows
#	differ; a peer that is 50 ms away; live digests; and both sides elsewhere.
#	Medians of several runs, in turn.
#
#	Both servers share this machine's processors, so a digest with parallel
#	workers that has the machine for itself is no measure of what two servers
#	can do at once.  So the digest is taken in two ways: without parallel workers,
#	where each server has a processor; and as installed, with both servers
#	working at the same time, and the slower one counts.
#
#	BENCH_ROWS            rows (5,000,000), of the second part a fifth
#	BENCH_COMPARE_REPEAT  repetitions after one to warm up (5); of the slow tools 3

set -euo pipefail

# shellcheck source=test/bench/lib.sh
. "$(dirname "$0")/lib.sh"

HERE_PORT=54324
THERE_PORT=54325
PROXY_PORT=54326
ROWS=${BENCH_ROWS:-5000000}
SMALL=$((ROWS / 5))
DIFFERING=100
MANY=$((SMALL / 20))
REPEAT=${BENCH_COMPARE_REPEAT:-5}
DIGEST="iblt_agg(id, iblt_checksum(id, a, b, c))"
SERIAL="SET max_parallel_workers_per_gather = 0"

both() {
	sql $HERE_PORT "$@"
	sql $THERE_PORT "$@"
}

# --- the servers and what differs --------------------------------------------------

make_server() {
	local table
	start_server "$1" "$2" "autovacuum = off" "wal_level = minimal" "max_wal_senders = 0" "maintenance_work_mem = 512MB"
	sql "$2" -c "CREATE EXTENSION iblt_audit CASCADE; CREATE EXTENSION iblt_live" -c "CREATE EXTENSION postgres_fdw"
	table_sql "$ROWS" | sql "$2"
	for table in few many; do
		sql "$2" -c "CREATE UNLOGGED TABLE $table AS SELECT * FROM t WHERE id <= $SMALL" -c "ALTER TABLE $table ADD PRIMARY KEY (id)"
	done
}

# differ TABLE ROWS DIFFERENCES: makes that many keys differ. Of five, three are
# changed, one is deleted and one inserted.
differ() {
	local step=$(($2 / $3))
	sql $THERE_PORT -c "UPDATE $1 SET a = a + 1 WHERE id % $step = 7 AND id / $step % 5 < 3" \
		-c "DELETE FROM $1 WHERE id % $step = 7 AND id / $step % 5 = 3" \
		-c "INSERT INTO $1 SELECT id + $2, a, b, c FROM $1 WHERE id % $step = 7 AND id / $step % 5 = 4"
	both -c "VACUUM (FREEZE, ANALYZE) $1"
}

make_peer() {
	sql $HERE_PORT <<-SQL
		CREATE SERVER there FOREIGN DATA WRAPPER postgres_fdw
			OPTIONS (host '$WORK/s', port '$THERE_PORT', dbname 'postgres', fetch_size '10000');
		CREATE USER MAPPING FOR postgres SERVER there OPTIONS (user 'postgres');
		CREATE FOREIGN TABLE t_there (id bigint, a bigint, b text, c text) SERVER there OPTIONS (table_name 't');
	SQL
}

# --- measuring -------------------------------------------------------------------------

digest_query() { echo "SELECT (iblt_info(d)).capacity FROM (SELECT $DIGEST FROM $1 OFFSET 0) AS x(d)"; }

# digest_both NAME REPETITION SETTING: both servers at the same time; the slower one.
digest_both() {
	local query there
	query=$(digest_query t)
	time_sql $THERE_PORT postgres 100 "$3" "$query" >"$WORK/there.ms" &
	there=$!
	time_sql $HERE_PORT postgres 100 "$3" "$query" >"$WORK/here.ms"
	wait $there
	note "$1" "$2" "$(sort -n "$WORK/here.ms" "$WORK/there.ms" | tail -n 1)"
}

compare_query() { echo "SELECT count(*) FROM iblt_compare('$1', $2)"; }

measure_compare() {
	local r none="SET jit = off"
	for r in $(seq 0 "$REPEAT"); do
		timed count "$r" $HERE_PORT postgres "$ROWS" "$SERIAL; $none" "SELECT count(*) FROM t"
		timed agg_row "$r" $HERE_PORT postgres 100 "$SERIAL; $none" \
			"SELECT (iblt_info(d)).capacity FROM (SELECT iblt_agg(id, iblt_checksum(t.*)) FROM t OFFSET 0) AS x(d)"
		timed digest_alone "$r" $HERE_PORT postgres 100 "$none" "$(digest_query t)"
		digest_both digest "$r" "$none"
		timed compare "$r" $HERE_PORT postgres "$DIFFERING" "$none" "$(compare_query t "$(peer $THERE_PORT)")"
		digest_both digest_serial "$r" "$SERIAL; $none"
		timed compare_serial "$r" $HERE_PORT postgres "$DIFFERING" "$SERIAL; $none" \
			"$(compare_query t "$(peer $THERE_PORT max_parallel_workers_per_gather=0)")"
	done
}

measure_small() {
	local r
	for r in $(seq 0 "$REPEAT"); do
		timed few "$r" $HERE_PORT postgres $DIFFERING "SET jit = off" "$(compare_query few "$(peer $THERE_PORT)")"
		timed many "$r" $HERE_PORT postgres $MANY "SET jit = off" "$(compare_query many "$(peer $THERE_PORT)")"
	done
}

# comparator PORT OPTION ...: pg_comparator on t, the second server behind PORT; it
# reports a line for each key.
comparator() {
	local port=$1
	shift
	PGUSER=postgres pg_comparator "$@" \
		--source-1="dbi:Pg:dbname=postgres;host=$WORK/s;port=$HERE_PORT" \
		--source-2="dbi:Pg:dbname=postgres;host=$WORK/s;port=$port" \
		'pgsql://postgres@localhost/postgres/t?id:a,b,c' 'pgsql://postgres@localhost/postgres/t?id:a,b,c' \
		>"$WORK/comparator.out" 2>&1 || true
	[ "$(grep -cE '^(INSERT|UPDATE|DELETE) ' "$WORK/comparator.out")" -eq $DIFFERING ] ||
		{ tail -n 20 "$WORK/comparator.out"; die "pg_comparator failed"; }
}

has_comparator() { [ -e "$("$PG_CONFIG" --pkglibdir)/pgcmp.so" ] && command -v pg_comparator >/dev/null; }

# time_comparator NAME REPETITION OPTION ...
time_comparator() {
	local start=${EPOCHREALTIME/[.,]/} name=$1 repetition=$2
	shift 2
	comparator $THERE_PORT "$@"
	note "$name" "$repetition" "$(((${EPOCHREALTIME/[.,]/} - start) / 1000))"
}

# Plain queries, without iblt on the peer, as iblt_compare counts their bytes.
measure_plain() {
	PLAIN_BYTES=$(sql $HERE_PORT -c "$(compare_query t "$(peer $THERE_PORT), method => 'plain'")" \
		-c "SELECT bytes_sent + bytes_received FROM iblt_compare_stats()" | tail -n 1)
}

measure_others() {
	local r
	for r in 1 2 3; do
		timed md5 "$r" $HERE_PORT postgres "$ROWS" "$SERIAL; SET jit = off" "SELECT count(md5(t::text)) FROM t"
		timed plain "$r" $HERE_PORT postgres $DIFFERING "SET jit = off" "$(compare_query t "$(peer $THERE_PORT), method => 'plain'")"
		timed except "$r" $HERE_PORT postgres $((DIFFERING * 4 / 5)) "SET jit = off" \
			"SELECT count(*) FROM (SELECT * FROM t_there EXCEPT SELECT * FROM t) AS x"
		if has_comparator; then
			time_comparator comparator "$r"
			time_comparator comparator_in_turn "$r" --no-asynchronous
			time_comparator comparator_md5 "$r" --checksum-function=md5
		fi
	done
}

# --- bytes -------------------------------------------------------------------------------

# through_proxy COMMAND ...: runs it; prints bytes to the server, from it, of sketches, and
# the number of questions. DELAY is the time in one direction, in ms.
through_proxy() {
	delayed $PROXY_PORT $THERE_PORT "${DELAY-0}"
	"$@" >/dev/null
	end_delays
	rm -f "$WORK/s/.s.PGSQL.$PROXY_PORT"
	cat "$WORK/bytes.$PROXY_PORT"
}

compare_through_proxy() { sql $HERE_PORT -c "$(compare_query "$1" "$(peer $PROXY_PORT)")"; }

# most_sketch_bytes TABLE: of several comparisons, whose estimates and so sketches differ.
most_sketch_bytes() {
	local bytes most=0
	for _ in $(seq $((4 * REPEAT))); do
		read -r _ _ bytes _ < <(through_proxy compare_through_proxy "$1")
		if [ "$bytes" -gt $most ]; then most=$bytes; fi
	done
	echo $most
}

measure_bytes() {
	read -r SENT RECEIVED _ < <(through_proxy compare_through_proxy t)
	SKETCHES=$(most_sketch_bytes few)
	if has_comparator; then
		read -r COMPARATOR_SENT COMPARATOR_RECEIVED _ < <(through_proxy comparator $PROXY_PORT)
	fi
}

# --- memory ------------------------------------------------------------------------------

# half_differs DATABASE APPLICATION ARGUMENTS: compares a table of which half of the rows differ, and prints
# the memory of the session of this name and of its session there, if there is one.
half_differs() {
	local rows=$((SMALL * 4)) run
	PGAPPNAME=$2 sql $HERE_PORT -d "$1" -c "SELECT count(*) FROM iblt_compare($3, max_differences => $rows)" >"$WORK/half.out" &
	run=$!
	watch_memory $run $HERE_PORT "$2" $THERE_PORT 'iblt_%'
	wait $run
	[ "$(cat "$WORK/half.out")" -eq $((rows / 2)) ] || die "$(cat "$WORK/half.out") differences"
}

measure_memory() {
	both -c "CREATE UNLOGGED TABLE half AS SELECT id, hashint8extended(id, 1) AS a FROM generate_series(1::bigint, $((SMALL * 4))) AS id" -c "ALTER TABLE half ADD PRIMARY KEY (id)"
	sql $THERE_PORT -c "UPDATE half SET a = a + 1 WHERE id % 2 = 0"
	both -c "VACUUM (FREEZE, ANALYZE) half"
	half_differs postgres memory "'half', $(peer $THERE_PORT)" >"$WORK/memory"
	{ read -r MEMORY_HERE; read -r MEMORY_THERE; } <"$WORK/memory"
}

# --- a peer that is far away ---------------------------------------------------------------

FAR=200

make_far() {
	both -c "CREATE SCHEMA far" -c "DO \$\$ BEGIN FOR i IN 1 .. $FAR LOOP
		EXECUTE format('CREATE TABLE far.t%s AS SELECT id, id AS a, md5(id::text) AS b FROM generate_series(1, 500) AS id', i);
		EXECUTE format('ALTER TABLE far.t%s ADD PRIMARY KEY (id)', i); END LOOP; END \$\$"
}

# far_sql NAME REPETITION ANSWER QUERY
far_sql() { timed "$1" "$2" $HERE_PORT postgres "$3" "SET jit = off" "$4"; }

# measure_far: comparing takes what it takes with the peer next door, and the turns.
measure_far() {
	local r far
	far=$(peer $PROXY_PORT)
	for r in $(seq 0 "$REPEAT"); do
		DELAY=25 through_proxy far_sql far_equal "$r" 0 "SELECT count(*) FROM iblt_compare('far.t1', $far)" >/dev/null
		DELAY=25 through_proxy far_sql far_few "$r" $DIFFERING "$(compare_query few "$far")" >/dev/null
		read -r FAR_SENT FAR_RECEIVED _ FAR_QUESTIONS < <(DELAY=25 through_proxy far_sql far_audit "$r" $FAR \
			"SELECT count(*) FROM iblt_audit($far, schema => 'far') WHERE status = 'equal'")
	done
}

# --- live digests ----------------------------------------------------------------------------

LIVE_SMALL=100000
declare -A MESSAGES

# Unlogged tables are not tracked.  Those that differ in t are among every so many rows.
make_live() {
	local table
	both -c "CREATE TABLE live_small AS SELECT * FROM t WHERE id % $((ROWS / LIVE_SMALL)) = $((7 % (ROWS / LIVE_SMALL)))" \
		-c "CREATE TABLE live_large AS SELECT * FROM t" -c "CREATE TABLE live_equal AS SELECT g AS id, 7 * g AS v FROM generate_series(1::bigint, $ROWS) g" \
		-c "CREATE TABLE few_rows AS SELECT * FROM live_equal WHERE id <= 1000" -c "ALTER TABLE few_rows ADD PRIMARY KEY (id)"
	for table in live_small live_large live_equal; do
		both -c "ALTER TABLE $table ADD PRIMARY KEY (id)" -c "VACUUM (FREEZE, ANALYZE) $table"
		sql $THERE_PORT -c "CALL iblt_track('$table')"
		sql $HERE_PORT -c "CALL iblt_track('$table', peer => $(peer $THERE_PORT))"
	done
}

# Both in turn, in one session, which keeps its connection.
measure_live() {
	local r table
	for r in 0 $(seq $((6 * REPEAT))); do
		for table in live_small live_large live_equal; do
			timed_sql $table "$r" "SELECT count(*), 'found' FROM iblt_compare('$table', $(peer $THERE_PORT), live => 'require');"
		done
	done | sql $HERE_PORT >"$WORK/compare.out"
	[ "$(grep -c "^$DIFFERING found" "$WORK/compare.out") $(grep -c "^0 found" "$WORK/compare.out")" = "$((12 * REPEAT + 2)) $((6 * REPEAT + 1))" ] || { head -n 20 "$WORK/compare.out"; die "live digests found something else"; }
	grep -v found "$WORK/compare.out" >>"$WORK/timing.out"
	for table in live_equal live_large; do
		MESSAGES[$table]=$(sql $HERE_PORT -c "SELECT count(*) FROM iblt_compare('$table', $(peer $THERE_PORT), live => 'require')" \
			-c "SELECT messages FROM iblt_compare_stats()" | tail -n 1)
	done
}

# A small table by a connection that is kept, and by a new one, in one session.
measure_kept() {
	local r way
	for r in $(seq 0 $((6 * REPEAT))); do
		for way in kept new; do
			[ $way = kept ] || echo 'SELECT iblt_disconnect() \gset'
			timed_sql few_rows_$way "$r" "SELECT count(*) FROM iblt_compare('few_rows', $(peer $THERE_PORT));"
		done
	done | sql $HERE_PORT >"$WORK/kept.out"
	[ "$(grep -c '^0$' "$WORK/kept.out")" = $((12 * REPEAT + 2)) ] || { head -n 20 "$WORK/kept.out"; die "small tables differ"; }
	cat "$WORK/kept.out" >>"$WORK/timing.out"
}

# --- sessions that have not compared before ---------------------------------------------------

# spent DATABASE SQL: milliseconds of the processors that all sessions of both servers take for a
# session that runs this
spent() {
	local before
	before=$(sessions_ms here there)
	printf '%s\n' "$2" | sql $HERE_PORT -d "$1" >"$WORK/spent.out"
	echo $(($(sessions_ms here there) - before))
}

# cpu NAME QUERY: milliseconds of the first call in a session, with its connections, and of a later one
cpu() {
	local many=$((20 * REPEAT)) first=0 r
	for r in $(seq $((4 * REPEAT))); do first=$((first + $(spent postgres "$2;"))); done
	MEDIAN[$1_first]=$(awk -v a=$first -v n=$((4 * REPEAT)) 'BEGIN { printf "%.1f", a / n }')
	MEDIAN[$1_later]=$(awk -v a="$(spent postgres "$(for r in $(seq $many); do echo "$2;"; done)")" -v f="${MEDIAN[$1_first]}" -v n=$many 'BEGIN { printf "%.1f", (a - f) / (n - 1) }')
}

measure_cpu() {
	cpu cpu "SELECT count(*) FROM iblt_compare('few_rows', $(peer $THERE_PORT))"
	cpu cpu_live "SELECT count(*) FROM iblt_compare('live_equal', $(peer $THERE_PORT), live => 'require')"
}

# --- both sides elsewhere ---------------------------------------------------------------------

# conduct NAME DATABASE DIFFERENCES CALL: a comparison, again and again in one session, without
# parallel workers.  Its times go to timing.out, its processors to MEDIAN, and its messages to
# MESSAGES.
conduct() {
	local r n=$((2 * REPEAT + 1)) ms
	ms=$(spent "$2" "$({
		echo "SET max_parallel_workers_per_gather = 0;"
		for r in $(seq 0 $((2 * REPEAT))); do
			timed_sql "$1" "$r" "SELECT count(*), 'found' FROM iblt_compare($4);"
			echo "SELECT 'messages', messages FROM iblt_compare_stats();"
		done
	})")
	[ "$(grep -c "^$3 found" "$WORK/spent.out")" -eq $n ] || { head -n 20 "$WORK/spent.out"; die "found something else"; }
	grep -E '^(@|Time)' "$WORK/spent.out" >>"$WORK/timing.out"
	MEDIAN[cpu_$1]=$(awk -v a="$ms" -v n=$n 'BEGIN { printf "%.1f", a / n }')
	MESSAGES[$1]=$(awk '/^messages/ { n = $2 } END { print n }' "$WORK/spent.out")
}

# From one of the two, and from a third database, which has nothing of theirs.  From there, a
# turn is messages to both and back.
measure_elsewhere() {
	local here there name
	sql $HERE_PORT -c "CREATE DATABASE desk"
	sql $HERE_PORT -d desk -c "CREATE EXTENSION iblt_audit CASCADE; CREATE EXTENSION iblt_live"
	delayed $PROXY_PORT $THERE_PORT
	delayed $((PROXY_PORT + 1)) $HERE_PORT
	for name in from far_from; do
		here=$(peer "$([ $name = from ] && echo $HERE_PORT || echo $((PROXY_PORT + 1)))" max_parallel_workers_per_gather=0)
		there=$(peer "$([ $name = from ] && echo $THERE_PORT || echo $PROXY_PORT)" max_parallel_workers_per_gather=0)
		conduct ${name}_one postgres $DIFFERING "'few', $there"
		conduct ${name}_third desk $DIFFERING "here_peer => $here, here_relation => 'public.few', peer => $there"
	done
	end_delays
}

measure_third_memory() {
	half_differs desk third "here_peer => $(peer $HERE_PORT), here_relation => 'public.half', peer => $(peer $THERE_PORT)" >"$WORK/memory"
	read -r MEMORY_THIRD <"$WORK/memory"
}

# --- the report -----------------------------------------------------------------------------

# faster TEXT NAME BAR: iblt_compare is at least BAR times as fast as NAME.
faster() { bar "$1" "${MEDIAN[$2]}" "$(ratio "${MEDIAN[$2]}" "${MEDIAN[compare]}")" at-least "$3"; }

report() {
	say ""
	row "One side alone, $ROWS rows, without workers" "ms" "ratio" "bar" ""
	row "count(*)" "${MEDIAN[count]}" "1.00" "-" ""
	than "iblt_agg(id, iblt_checksum(t.*)) / that" agg_row count
	than "count(md5(t::text)) / that" md5 count
	row "iblt_compare, $ROWS rows, $DIFFERING differ" "ms" "ratio" "bar" ""
	row "digest of one side, without workers, both at once: the slower" "${MEDIAN[digest_serial]}" "1.00" "-" ""
	than "iblt_compare without workers / that" compare_serial digest_serial 1.3
	row "digest of one side, as installed, both at once: the slower" "${MEDIAN[digest]}" "1.00" "-" ""
	than "iblt_compare as installed / that" compare digest 1.3
	row "digest of one side, as installed, alone on the machine" "${MEDIAN[digest_alone]}" \
		"$(ratio "${MEDIAN[compare]}" "${MEDIAN[digest_alone]}")" "-" ""
	if has_comparator; then
		faster "pg_comparator as it is installed / iblt_compare" comparator 15
		row "the same, one server after the other (--no-asynchronous)" "${MEDIAN[comparator_in_turn]}" \
			"$(ratio "${MEDIAN[comparator_in_turn]}" "${MEDIAN[compare]}")" "-" ""
		row "the same, with md5 (--checksum-function=md5)" "${MEDIAN[comparator_md5]}" \
			"$(ratio "${MEDIAN[comparator_md5]}" "${MEDIAN[compare]}")" "-" ""
	else
		say "  pg_comparator is not here for this server: not measured"
	fi
	faster "EXCEPT over postgres_fdw, one direction / iblt_compare" except 12
	than "iblt_compare with method => 'plain' / iblt_compare" plain compare 8
	say ""
	row "iblt_compare, $SMALL rows" "ms" "ratio" "bar" ""
	row "$DIFFERING differ" "${MEDIAN[few]}" "1.00" "-" ""
	than "$MANY differ / that" many few 2.5
	say ""
	row "Bytes on the connection" "" "bytes" "bar" ""
	bar "sketches, as they travel, $SMALL rows, at most" "" "$SKETCHES" at-most 14000
	bar "all of iblt_compare with method => 'plain', both directions" "" "$PLAIN_BYTES" at-most 3000000
	row "all of iblt_compare, to the peer and back" "$SENT" "$RECEIVED" "-" ""
	if has_comparator; then
		row "all of pg_comparator, to the second server and back" "$COMPARATOR_SENT" "$COMPARATOR_RECEIVED" "-" ""
	fi
	say ""
	row "Memory, $((SMALL * 4)) rows, half of them differ" "" "MB" "bar" ""
	bar "private memory of the backend here, at most" "" "$MEMORY_HERE" at-most 500
	bar "private memory of the peer's backend, at most" "" "$MEMORY_THERE" at-most 500
	row "A peer that is 50 ms away" "ms" "" "bar" ""
	row "iblt_compare of an equal table of 500 rows" "${MEDIAN[far_equal]}" "" "-" ""
	row "iblt_compare, $SMALL rows, $DIFFERING differ" "${MEDIAN[far_few]}" "" "-" ""
	bar "iblt_audit of $FAR equal tables of 500 rows, in ms" "" "${MEDIAN[far_audit]}" at-most 3000
	row "its questions, and bytes to the peer and back" "$FAR_QUESTIONS" "$((FAR_SENT + FAR_RECEIVED))" "-" ""
	row "Live digests, $DIFFERING rows differ, kept connection" "ms" "ratio" "bar" ""
	bar "iblt_compare (live => 'require') of $LIVE_SMALL rows, ms" "" "${MEDIAN[live_small]}" at-most 25
	than "the same of $ROWS rows / that" live_large live_small 1.2
	bar "the same of $ROWS rows, ms" "" "${MEDIAN[live_large]}" at-most 15
	bar "its messages" "" "${MESSAGES[live_large]}" at-most 4
	bar "$ROWS rows that are equal, ms" "" "${MEDIAN[live_equal]}" at-most 8
	bar "its messages" "" "${MESSAGES[live_equal]}" at-most 2
	row "1,000 equal rows, by a new connection, ms" "${MEDIAN[few_rows_new]}" "1.00" "-" ""
	than "the same by a connection that is kept" few_rows_kept few_rows_new 0.7
	row "Processors of both sides" "first" "later" "bar" ""
	row "iblt_compare of 1,000 equal rows, ms" "${MEDIAN[cpu_first]}" "${MEDIAN[cpu_later]}" "-" ""
	row "live digests that are equal, ms" "${MEDIAN[cpu_live_first]}" "${MEDIAN[cpu_live_later]}" "-" ""
	row "Conducted from a third database, $SMALL rows, $DIFFERING differ" "one" "ratio" "bar" ""
	bar "processors of all sessions, ms, from one of the two" "${MEDIAN[cpu_from_one]}" "$(ratio "${MEDIAN[cpu_from_third]}" "${MEDIAN[cpu_from_one]}")" at-most 1.15
	bar "messages to a server, from one of the two" "${MESSAGES[from_one]}" "$(ratio "$((MESSAGES[from_third] / 2))" "${MESSAGES[from_one]}")" at-most 1
	bar "ms, each server 50 ms away, from one of the two" "${MEDIAN[far_from_one]}" "$(ratio "${MEDIAN[far_from_third]}" "${MEDIAN[far_from_one]}")" at-most 1.15
	bar "private memory, half of $((SMALL * 4)) rows differ, MB, from one" "$MEMORY_HERE" "$(ratio "$MEMORY_THIRD" "$MEMORY_HERE")" at-most 1.15
	say_busy
}

inner() {
	begin_bench
	say "Filling two servers with $ROWS rows each ..."
	make_server here $HERE_PORT
	make_server there $THERE_PORT
	if has_comparator; then both -c "CREATE EXTENSION pgcmp"; fi
	make_peer
	differ t "$ROWS" $DIFFERING
	differ few "$SMALL" $DIFFERING
	differ many "$SMALL" $MANY
	describe_cpus
	measure_compare
	measure_small
	measure_others
	measure_plain
	measure_bytes
	measure_memory
	make_far
	measure_far
	make_live
	measure_live
	measure_kept
	measure_elsewhere
	measure_third_memory
	read_medians "$WORK/timing.out"
	measure_cpu
	report
	stop_server here
	stop_server there
	finish_bars
}

if [ -n "${IBLT_WORK-}" ]; then inner; else supervise bench test/bench/compare.sh; fi
