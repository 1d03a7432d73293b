# lib.sh
#	What the benchmarks share: a table, medians, and rows with a bar and a verdict.
#
#	MEDIAN[name]    milliseconds, filled by read_medians
#	MISSED          bars that were missed

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

# note NAME REPETITION MILLISECONDS: for read_medians.
note() { printf '@ %s %s\nTime: %s ms\n' "$1" "$2" "$3" >>"$WORK/timing.out"; }

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
