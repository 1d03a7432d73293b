#!/usr/bin/env bash
# demo.sh
#	What the extension is for, shown from beginning to end: a publisher and a
#	subscriber with real logical replication, drift that replication does not
#	see, and the rows that differ found by sending one value of a few kilobytes.
#	The answer is checked against a full comparison of both tables; the demo
#	fails (exit status 1) unless both agree to the row.
#
#	DEMO_SEED     seed of the drift (default: random, and printed)
#	DEMO_SCALE    pgbench's scale (10: 1,000,000 accounts)
#	DEMO_CHANGED, DEMO_DELETED, DEMO_INSERTED   how much drift (40, 30, 30)

set -euo pipefail

# shellcheck source=test/lib/common.sh
. "$(dirname "$0")/lib/common.sh"

PUB_PORT=54321
SUB_PORT=54322
SCALE=${DEMO_SCALE:-10}
CHANGED=${DEMO_CHANGED:-40}
DELETED=${DEMO_DELETED:-30}
INSERTED=${DEMO_INSERTED:-30}
SENT=0 # bytes that went from the publisher to the subscriber
TRIES=0
DRIFT=$((CHANGED + DELETED + INSERTED))
TABLES="pgbench_accounts, pgbench_branches, pgbench_tellers, pgbench_history"
SKETCH="SELECT iblt_agg(aid, iblt_checksum(t)) FROM pgbench_accounts t"

heading() { printf '\n%s\n' "$*"; }
show() { printf '    %s\n' "$*"; }
show_sql() { printf '    %s> %s\n' "$1" "$2"; }

# 1234567 -> 1,234,567
commas() { sed -E ':a; s/^([0-9]+)([0-9]{3})/\1,\2/; ta' <<<"$1"; }

# on publisher|subscriber: run SQL from the arguments, or a script from stdin.
on() {
	local port=$PUB_PORT
	if [ "$1" = subscriber ]; then port=$SUB_PORT; fi
	shift
	if [ $# -gt 0 ]; then set -- -c "$1"; fi
	psql -X -q -At -F ' ' -v ON_ERROR_STOP=1 -v VERBOSITY=verbose \
		-h "$WORK/s" -p "$port" -U postgres -d shop "$@"
}

# Time a command in milliseconds into TOOK; its status is passed on.
timed() {
	local start=${EPOCHREALTIME/[.,]/} rc=0
	"$@" || rc=$?
	TOOK=$(((${EPOCHREALTIME/[.,]/} - start) / 1000))
	return $rc
}

# Wait until a query on a server answers "t".
wait_until() {
	local server=$1 query=$2 try=0
	for try in $(seq 600); do
		if [ "$(on "$server" "$query")" = t ]; then return; fi
		sleep 0.1
	done
	tail -n 20 "$WORK/$server.log" >&2
	die "waited in vain (try $try) on the $server for: $query"
}

caught_up() {
	local lsn
	lsn=$(on publisher "SELECT pg_current_wal_lsn()")
	wait_until publisher "SELECT count(*) > 0 AND bool_and(replay_lsn >= '$lsn')
		FROM pg_stat_replication WHERE application_name = 'shop_sub'"
}

# --- the story's chapters -------------------------------------------------------

build() {
	heading "Building the extension for $("$PG_CONFIG" --version)"
	timed build_and_install || { tail -n 40 "$WORK/build.log" >&2; die "the build failed"; }
	show "done in $TOOK ms; installed into a temporary tree, not into this system"
}

set_up_replication() {
	local server port
	heading "1. A publisher and a subscriber"
	start_server publisher $PUB_PORT "wal_level = logical" "shared_buffers = 256MB" "autovacuum = off"
	start_server subscriber $SUB_PORT "wal_level = logical" "shared_buffers = 256MB" "autovacuum = off"
	for server in publisher subscriber; do
		port=$PUB_PORT
		if [ $server = subscriber ]; then port=$SUB_PORT; fi
		createdb -h "$WORK/s" -p $port -U postgres shop
		on $server "CREATE EXTENSION iblt"
	done
	pgbench -q -i -s "$SCALE" -h "$WORK/s" -p $PUB_PORT -U postgres shop >"$WORK/pgbench-init.log" 2>&1
	pgbench -q -i -I dtp -h "$WORK/s" -p $SUB_PORT -U postgres shop >>"$WORK/pgbench-init.log" 2>&1
	on publisher "CREATE PUBLICATION shop_pub FOR TABLE $TABLES"
	timed subscribe
	show "pgbench's tables at scale $SCALE: $(commas "$(on publisher "SELECT count(*) FROM pgbench_accounts")") accounts," \
		"$(on publisher "SELECT pg_size_pretty(pg_table_size('pgbench_accounts'))")"
	show "CREATE PUBLICATION, CREATE SUBSCRIPTION: initial copy synchronised in $TOOK ms"
}

subscribe() {
	on subscriber "CREATE SUBSCRIPTION shop_sub CONNECTION
		'host=$WORK/s port=$PUB_PORT user=postgres dbname=shop' PUBLICATION shop_pub" 2>/dev/null
	wait_until subscriber "SELECT count(*) = 4 AND bool_and(srsubstate = 'r') FROM pg_subscription_rel"
}

run_load() {
	heading "2. Business as usual"
	pgbench -n -c 2 -T 3 -h "$WORK/s" -p $PUB_PORT -U postgres shop >"$WORK/pgbench-load.log" 2>&1
	timed caught_up
	show "$(commas "$(on publisher "SELECT count(*) FROM pgbench_history")") transactions on the publisher," \
		"$(commas "$(on subscriber "SELECT count(*) FROM pgbench_history")") arrived on the subscriber"
	exchange
	[ -z "$(decode)" ] || die "both sides should be the same by now"
	show "both sides' sketches: their difference decodes to 0 rows, the tables are the same"
}

# Changes that replication does not see, chosen by the seed.
let_drift() {
	local seed=${DEMO_SEED:-$((RANDOM * 32768 + RANDOM))} report
	heading "3. Drift, behind replication's back (DEMO_SEED=$seed)"
	report=$(on subscriber <<-SQL
		SELECT setseed($((seed % 1000000)) / 1000000.0) \\g /dev/null
		CREATE TABLE drift AS
			SELECT row_number() OVER (ORDER BY md5(aid::text)) AS n, aid FROM (
				SELECT DISTINCT 1 + floor(random() * 100000 * $SCALE)::int AS aid
				FROM generate_series(1, 3 * $DRIFT + 100)) x;
		DELETE FROM drift WHERE n > $CHANGED + $DELETED;
		BEGIN;
		UPDATE pgbench_accounts t SET abalance = abalance + 1 + n
			FROM drift WHERE t.aid = drift.aid AND n BETWEEN 3 AND $CHANGED;
		UPDATE pgbench_accounts t SET abalance = NULL
			FROM drift WHERE t.aid = drift.aid AND n = 2 AND n <= $CHANGED;
		UPDATE pgbench_accounts t SET filler = U&'\\00A0'
			FROM drift WHERE t.aid = drift.aid AND n = 1 AND n <= $CHANGED;
		DELETE FROM pgbench_accounts t
			USING drift WHERE t.aid = drift.aid AND n > $CHANGED;
		INSERT INTO pgbench_accounts
			SELECT 100000 * $SCALE + n * 7, 1 + n % $SCALE, 0, 'new'
			FROM generate_series(1, $INSERTED) n;
		COMMIT;
	SQL
	) || die "the drift failed: $report"
	show "$CHANGED rows changed, $DELETED deleted, $INSERTED inserted: $DRIFT keys differ"
	show "(of the changes, one sets a balance to NULL and one a filler to a no-break space,"
	show "which no eye can see)"
}

# One value from each side: a.txt and b.txt, the wire between the servers.
exchange() {
	timed on publisher "$SKETCH" >"$WORK/a.txt"
	TOOK_A=$TOOK
	timed on subscriber "$SKETCH" >"$WORK/b.txt"
	TOOK_B=$TOOK
}

# Subtract and decode on the subscriber; the publisher's value comes as text.
decode() {
	on subscriber <<-SQL
		\\set a \`cat $WORK/a.txt\`
		\\set b \`cat $WORK/b.txt\`
		SELECT key, side FROM iblt_decode(:'a'::iblt - :'b'::iblt);
	SQL
}

# What a sketch that is too small says, and the capacity it recommends.
status() {
	on subscriber <<-SQL
		\\set a \`cat $WORK/a.txt\`
		\\set b \`cat $WORK/b.txt\`
		SELECT complete, recovered, estimated, recommended_capacity
		FROM iblt_decode_status(:'a'::iblt - :'b'::iblt);
	SQL
}

# Compare with the sketch that SKETCH makes; if it is too small, show what it
# says and take the capacity that it recommends.
compare() {
	local complete recovered estimated recommended size try
	for try in 1 2 3 4; do
		TRIES=$try
		show_sql publisher "$SKETCH"
		show_sql subscriber "$SKETCH"
		exchange
		size=$(tr -d '\n' <"$WORK/a.txt" | wc -c)
		SENT=$((SENT + size))
		show "publisher: $TOOK_A ms, subscriber: $TOOK_B ms; sent as text: $(commas "$size") bytes"
		show_sql subscriber "SELECT * FROM iblt_decode(:'a'::iblt - :'b'::iblt)"
		if timed decode >"$WORK/found.txt" 2>"$WORK/decode.err"; then
			show "decoded in $TOOK ms (psql's start included): $(wc -l <"$WORK/found.txt") keys"
			return
		fi
		grep -q 'IB001' "$WORK/decode.err" || { cat "$WORK/decode.err" >&2; die "decoding failed"; }
		sed -nE 's/^(psql:[^ ]* )?(ERROR|DETAIL|HINT): */\2: /p' "$WORK/decode.err" |
			sed 's/^/    subscriber> /'
		read -r complete recovered estimated recommended < <(status)
		[ "$complete" = f ] || die "iblt_decode_status contradicts iblt_decode"
		show "too small, and it says so ($recovered recovered, about $estimated differ)." \
			"Again, with capacity $(commas "$recommended"):"
		SKETCH="SELECT iblt_agg(aid, iblt_checksum(t), $recommended) FROM pgbench_accounts t"
	done
	die "no answer after $try tries"
}

# If the first sketch was large enough, show one that is not; the answer must
# be the same in the end.
too_small() {
	heading "And a sketch that is too small?"
	cp "$WORK/found.txt" "$WORK/first.txt"
	SKETCH="SELECT iblt_agg(aid, iblt_checksum(t), 10) FROM pgbench_accounts t"
	compare
	diff <(sort "$WORK/first.txt") <(sort "$WORK/found.txt") >/dev/null || die "two answers differ"
}

# The truth by moving the whole table: EXCEPT in both directions.
full_comparison() {
	on subscriber <<-SQL
		SET client_min_messages = error;
		CREATE EXTENSION IF NOT EXISTS postgres_fdw;
		CREATE SERVER pub FOREIGN DATA WRAPPER postgres_fdw
			OPTIONS (host '$WORK/s', port '$PUB_PORT', dbname 'shop', fetch_size '20000');
		CREATE USER MAPPING FOR postgres SERVER pub OPTIONS (user 'postgres');
		CREATE SCHEMA pub;
		IMPORT FOREIGN SCHEMA public LIMIT TO (pgbench_accounts) FROM SERVER pub INTO pub;
		SET work_mem = '256MB';
		CREATE TEMP TABLE p AS SELECT * FROM pub.pgbench_accounts;
		CREATE TEMP TABLE l AS SELECT * FROM p EXCEPT SELECT * FROM pgbench_accounts;
		CREATE TEMP TABLE r AS SELECT * FROM pgbench_accounts EXCEPT SELECT * FROM p;
		SELECT aid, CASE WHEN r.aid IS NULL THEN 'left' WHEN l.aid IS NULL THEN 'right' ELSE 'both' END
		FROM l FULL JOIN r USING (aid);
	SQL
}

# The bytes of the rows themselves, as they go over the wire in a dump.
table_bytes() { on publisher "SELECT sum(length(t::text)) FROM pgbench_accounts t"; }

show_answer() {
	local side meaning count line
	while read -r side meaning; do
		count=$(grep -c " $side$" "$WORK/found.txt" || true)
		show "$(printf '%-6s %4d  %s' "$side" "$count" "$meaning")"
		grep " $side$" "$WORK/found.txt" | sort -n | cut -d' ' -f1 | tr '\n' ' ' | fold -s -w 72 |
			while IFS= read -r line || [ -n "$line" ]; do show "             $line"; done
	done <<-SIDES
		both   on both sides, contents differ; aid:
		left   only on the publisher; aid:
		right  only on the subscriber; aid:
	SIDES
}

check() {
	local expected found table
	heading "Is that the truth?  EXCEPT over postgres_fdw, in both directions"
	timed full_comparison >"$WORK/truth.txt"
	table=$(table_bytes)
	show "$(wc -l <"$WORK/truth.txt") keys in $TOOK ms, for which the whole table travelled: $(commas "$table") bytes"
	sort "$WORK/found.txt" >"$WORK/found.sorted"
	sort "$WORK/truth.txt" >"$WORK/truth.sorted"
	if ! diff "$WORK/truth.sorted" "$WORK/found.sorted" >"$WORK/wrong.txt"; then
		head -n 20 "$WORK/wrong.txt" >&2
		die "the keys found are not those of the full comparison"
	fi
	expected=$DRIFT
	found=$(wc -l <"$WORK/found.txt")
	[ "$found" -eq "$expected" ] || die "$expected keys drifted, but $found were found"
	show "the same keys, each with the same side: $found of $found"
	heading "Result: $expected rows drifted, $found found, $found confirmed;" \
		"$(commas "$WIRE") bytes sent instead of $(commas "$table")."
}

inner() {
	say "iblt: which rows differ between two servers?"
	enter_work
	build
	set_up_replication
	run_load
	let_drift
	heading "4. One value from each side, and their difference"
	compare
	show_answer
	WIRE=$SENT
	if [ "$TRIES" -eq 1 ] && [ "$DRIFT" -ge 20 ]; then too_small; fi
	check
	stop_server subscriber
	stop_server publisher
}

if [ -n "${IBLT_WORK-}" ]; then inner; else supervise demo test/demo.sh; fi
