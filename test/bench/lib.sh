# lib.sh
#	What the benchmarks share: a table, medians, and rows with a bar and a verdict.
#
#	MEDIAN[name]    milliseconds, filled by read_medians
#	MISSED          bars that were missed; with BENCH_STRICT=1 they fail

# shellcheck shell=bash
# shellcheck source=test/lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/common.sh"

MISSED=0
declare -A MEDIAN

# Every benchmark begins its inner half with this.
begin_bench() {
	enter_work
	say "Building for $("$PG_CONFIG" --version) ..."
	# shellcheck disable=SC2119 # no further arguments
	build_and_install || { tail -n 40 "$WORK/build.log" >&2; die "the build failed"; }
}

# asked PORT DATABASE ARGUMENT ...: psql, whose output is rows alone.
asked() { psql -X -q -At -v ON_ERROR_STOP=1 -h "$WORK/s" -p "$1" -U postgres -d "$2" "${@:3}"; }

# sql PORT ARGUMENT ...: the same in the database postgres, with blanks between columns.
sql() { asked "$1" postgres -F ' ' "${@:2}"; }

# peer PORT [SETTING]: a connection string as a literal.
peer() { printf "'host=%s port=%s user=postgres dbname=postgres%s'" "$WORK/s" "$1" "${2:+ options=''-c $2''}"; }

# time_sql PORT DATABASE ANSWER SETTING QUERY: milliseconds of the query.  Dies unless it answers so.
time_sql() {
	asked "$1" "$2" -F ' ' ${4:+-c "$4"} -c '\timing on' -c "$5" >"$WORK/answer.$1" || die "failed: $5"
	[ -z "$3" ] || [ "$(head -n 1 "$WORK/answer.$1")" = "$3" ] || die "$(head -n 1 "$WORK/answer.$1") instead of $3: $5"
	sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' "$WORK/answer.$1"
}

# timed NAME REPETITION ARGUMENT ...: the time of time_sql, for read_medians.
timed() {
	local ms
	ms=$(time_sql "${@:3}") || exit 1
	note "$1" "$2" "$ms"
}

# note NAME REPETITION MILLISECONDS: for read_medians.
note() { printf '@ %s %s\nTime: %s ms\n' "$1" "$2" "$3" >>"$WORK/timing.out"; }

# timed_sql NAME REPETITION QUERY: what psql has to run for a time that read_medians finds in its output.
timed_sql() { printf '%s\n' "\\echo @ $1 $2" '\timing on' "$3" '\timing off'; }

# delayed PORT TARGET [MS]: until "end_delays", a port on which a server is 50 ms away, or twice so many.
# Then the file bytes.PORT tells what has passed.
PROXIES=()
delayed() {
	perl test/bench/proxy.pl "$WORK/s/.s.PGSQL.$1" "$WORK/s/.s.PGSQL.$2" "${3-25}" >"$WORK/bytes.$1" &
	PROXIES+=($!)
	until [ -S "$WORK/s/.s.PGSQL.$1" ]; do
		kill -0 $! || die "the proxy does not start"
		sleep 0.05
	done
}

end_delays() {
	kill -TERM "${PROXIES[@]}"
	wait "${PROXIES[@]}" || die "a proxy failed"
	PROXIES=()
}

# table_sql ROWS: a table of four columns that take 8 + 8 + 33 + 79 = 128 bytes.
table_sql() {
	cat <<-SQL
		CREATE UNLOGGED TABLE t (id bigint, a bigint, b text, c text);
		INSERT INTO t SELECT g, hashint8extended(g, 1), md5(g::text),
			left(md5((g + 1)::text) || md5((g + 2)::text) || md5((g + 3)::text), 78)
			FROM generate_series(1::bigint, $1) g;
		ALTER TABLE t ADD PRIMARY KEY (id);
	SQL
}

# From psql's output to MEDIAN[name] in milliseconds; the first repetition is
# for warming up.
read_medians() {
	local name value
	while read -r name value; do
		MEDIAN[$name]=$value
	done < <(awk '
		$1 == "@" { name = $2; repetition = $3; next }
		/^Time: / && name != "" { if (repetition > 0) print name, $2; name = "" }' "$1" |
		sort -k1,1 -k2,2n |
		awk '
			function flush() { if (n) printf "%s %.1f\n", last, n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2 }
			$1 != last { flush(); n = 0; last = $1 }
			{ v[++n] = $2 }
			END { flush() }')
}

# measure LIST: runs the queries of a list (name, workers, SQL) in turn, REPEAT + 1 times in one
# session.  Fills MEDIAN.
measure() {
	local repetition name workers query
	{
		printf '%s\n' '\timing on'
		for repetition in $(seq 0 "$REPEAT"); do
			"$1" | while IFS='|' read -r name workers query; do
				printf '%s\n' "SET max_parallel_workers_per_gather = $workers \\g /dev/null" \
					"\\echo @ $name $repetition" "$query \\g /dev/null"
			done
		done
	} >"$WORK/timing.sql"
	sql -f "$WORK/timing.sql" >"$WORK/timing.out"
	read_medians "$WORK/timing.out"
}

# sessions_ms SERVER ...: milliseconds of processor time of the sessions of these servers, once they have ended.
sessions_ms() {
	local server left
	for server in "$@"; do
		while left=$(pgrep -c -P "$(head -n 1 "$WORK/$server/postmaster.pid")" -f 'postgres: postgres ' || true) && [ "$left" -gt 0 ]; do sleep 0.05; done
	done
	sleep 0.5	# until the servers have noticed
	for server in "$@"; do sed 's/.*) //' "/proc/$(head -n 1 "$WORK/$server/postmaster.pid")/stat"; done |
		awk -v hz="$(getconf CLK_TCK)" '{ sum += $14 + $15 } END { printf "%d\n", sum * 1000 / hz }'
}

# watch_memory PID PORT PATTERN ...: until a program ends, the most memory, in MB, that backends of
# applications of that name do not share, one figure for each port.
watch_memory() {
	local program=$1 most=() i pid kb
	shift
	while kill -0 "$program" 2>/dev/null; do
		for ((i = 1; i < $#; i += 2)); do
			for pid in $(sql "${!i}" -c "SELECT pid FROM pg_stat_activity WHERE application_name LIKE '${*:i+1:1}'"); do
				kb=$(sed -n 's/^RssAnon:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$pid/status" 2>/dev/null || true)
				if [ "${kb:-0}" -gt "${most[i]:-0}" ]; then most[i]=$kb; fi
			done
		done
		sleep 0.05
	done
	for ((i = 1; i < $#; i += 2)); do echo $((${most[i]:-0} / 1024)); done
}

ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", (b > 0 ? a / b : 0) }'; }

row() { printf '  %-64s %10s %8s %10s  %s\n' "$@"; }

# bar TEXT MILLISECONDS RATIO at-most|at-least BAR: one line with its verdict.
bar() {
	local verdict=ok sign='<='
	if [ "$4" = at-least ]; then sign='>='; fi
	if ! awk -v r="$3" -v b="$5" -v kind="$4" \
		'BEGIN { exit !(kind == "at-most" ? r <= b : r >= b) }'; then
		verdict=MISSED
		MISSED=$((MISSED + 1))
	fi
	row "$1" "$2" "$3" "$sign $5" "$verdict"
}

# than TEXT NAME OTHER [BAR]: what NAME takes, by what OTHER takes, and the most that this may be.
than() {
	if [ $# -eq 4 ]; then bar "$1" "${MEDIAN[$2]}" "$(ratio "${MEDIAN[$2]}" "${MEDIAN[$3]}")" at-most "$4"
	else row "$1" "${MEDIAN[$2]}" "$(ratio "${MEDIAN[$2]}" "${MEDIAN[$3]}")" "-" ""; fi
}

# How much of the CPUs others take, in percent, while we do nothing.
others_percent() {
	{
		grep '^cpu ' /proc/stat
		sleep 3
		grep '^cpu ' /proc/stat
	} | awk '
		{ total = 0; for (i = 2; i <= 9; i++) total += $i; idle = $5 + $6 }
		NR == 1 { total1 = total; idle1 = idle }
		END { printf "%.0f\n", 100 * (1 - (idle - idle1) / (total - total1)) }'
}

# What the machine is, and how busy; sets BUSY_BEFORE.
describe_cpus() {
	say "Machine: $(nproc) CPUs, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)," \
		"load $(cut -d' ' -f1-3 /proc/loadavg)"
	BUSY_BEFORE=$(others_percent)
}

say_busy() { say "  Others took $BUSY_BEFORE % of the CPUs before the runs, $(others_percent) % after them."; }

# The last line, and with BENCH_STRICT=1 the exit status.
finish_bars() {
	say ""
	if [ $MISSED -eq 0 ]; then say "All bars are met."; else say "$MISSED bars MISSED."; fi
	[ "${BENCH_STRICT-}" != 1 ] || [ $MISSED -eq 0 ]
}
