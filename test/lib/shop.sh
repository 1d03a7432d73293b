# shop.sh
#	The demo's shop: a publisher and a subscriber with pgbench's tables and
#	real logical replication, load, drift that replication does not see, and
#	a full comparison that moves the whole table.
#
# Source it after common.sh, in the inner half.  The keys that differ are in files
# with sorted lines "aid side".  The side is "here" for the subscriber, "there" for
# the publisher, or "both".

# shellcheck shell=bash

PUB_PORT=54321
SUB_PORT=54322
TABLES="pgbench_accounts, pgbench_branches, pgbench_tellers, pgbench_history"

# --- SQL ----------------------------------------------------------------------

# run_psql publisher|subscriber [ARGUMENT ...]
run_psql() {
	local port=$PUB_PORT
	if [ "$1" = subscriber ]; then port=$SUB_PORT; fi
	shift
	psql -X -q -v ON_ERROR_STOP=1 -v VERBOSITY=verbose -h "$WORK/s" -p "$port" -U postgres -d shop "$@"
}

# on publisher|subscriber [SQL]: run the SQL, or a script from stdin.
on() {
	local server=$1
	shift
	if [ $# -gt 0 ]; then set -- -c "$1"; fi
	run_psql "$server" -At -F ' ' "$@"
}

# Run a command, set TOOK to its time in milliseconds, and return its status.
timed() {
	local start=${EPOCHREALTIME/[.,]/} rc=0
	"$@" || rc=$?
	# shellcheck disable=SC2034 # for the caller
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

# --- replication and load -----------------------------------------------------

create_shop() {
	local server
	for server in publisher subscriber; do
		createdb -h "$WORK/s" -p "$([ $server = publisher ] && echo $PUB_PORT || echo $SUB_PORT)" -U postgres shop
		on $server "CREATE EXTENSION iblt; CREATE EXTENSION iblt_audit; CREATE EXTENSION iblt_live"
	done
	pgbench -q -i -s "$1" -h "$WORK/s" -p $PUB_PORT -U postgres shop >"$WORK/pgbench-init.log" 2>&1
	pgbench -q -i -I dtp -h "$WORK/s" -p $SUB_PORT -U postgres shop >>"$WORK/pgbench-init.log" 2>&1
	on publisher "CREATE PUBLICATION shop_pub FOR TABLE $TABLES"
}

subscribe() {
	on subscriber "CREATE SUBSCRIPTION shop_sub CONNECTION
		'host=$WORK/s port=$PUB_PORT user=postgres dbname=shop' PUBLICATION shop_pub" 2>/dev/null
	wait_until subscriber "SELECT count(*) = 4 AND bool_and(srsubstate = 'r') FROM pg_subscription_rel"
}

# The foreign servers through which iblt_compare and the full comparison reach the
# publisher.
create_foreign_servers() {
	on subscriber <<-SQL
		CREATE SERVER publisher FOREIGN DATA WRAPPER iblt_fdw
			OPTIONS (host '$WORK/s', port '$PUB_PORT', dbname 'shop');
		CREATE USER MAPPING FOR postgres SERVER publisher OPTIONS (user 'postgres');
		CREATE EXTENSION postgres_fdw;
		CREATE SERVER pub FOREIGN DATA WRAPPER postgres_fdw
			OPTIONS (host '$WORK/s', port '$PUB_PORT', dbname 'shop', fetch_size '20000');
		CREATE USER MAPPING FOR postgres SERVER pub OPTIONS (user 'postgres');
		CREATE SCHEMA pub;
		IMPORT FOREIGN SCHEMA public LIMIT TO (pgbench_accounts) FROM SERVER pub INTO pub;
	SQL
}

caught_up() {
	local lsn
	lsn=$(on publisher "SELECT pg_current_wal_lsn()")
	wait_until publisher "SELECT count(*) > 0 AND bool_and(replay_lsn >= '$lsn')
		FROM pg_stat_replication WHERE application_name = 'shop_sub'"
}

# start_load RATE: run RATE transactions a second on the publisher until stop_load.
start_load() {
	pgbench -n -c 2 -T 3600 -R "$1" -h "$WORK/s" -p $PUB_PORT -U postgres shop >"$WORK/pgbench-load.log" 2>&1 &
	LOAD=$!
}

stop_load() {
	kill -0 "$LOAD" 2>/dev/null || { cat "$WORK/pgbench-load.log" >&2; die "the load ended too early"; }
	kill -TERM "$LOAD"
	wait "$LOAD" 2>/dev/null || true
	# its last transactions may still commit
	wait_until publisher "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'pgbench'"
	caught_up
}

# --- drift and the truth --------------------------------------------------------

# let_drift SEED SCALE CHANGED DELETED INSERTED: make changes that replication does
# not see.  The seed chooses the rows.  One change sets a filler to a no-break space,
# and one sets a balance to NULL.
let_drift() {
	local seed=$1 scale=$2 changed=$3 deleted=$4 inserted=$5
	on subscriber <<-SQL
		SELECT setseed(($seed % 1000000) / 1000000.0) \\g /dev/null
		CREATE TABLE drift AS
			SELECT row_number() OVER (ORDER BY md5(aid::text)) AS n, aid FROM (
				SELECT DISTINCT 1 + floor(random() * 100000 * $scale)::int AS aid
				FROM generate_series(1, 3 * ($changed + $deleted) + 100)) x;
		DELETE FROM drift WHERE n > $changed + $deleted;
		BEGIN;
		UPDATE pgbench_accounts t SET abalance = abalance + 1 + n
			FROM drift WHERE t.aid = drift.aid AND n BETWEEN 3 AND $changed;
		UPDATE pgbench_accounts t SET abalance = NULL
			FROM drift WHERE t.aid = drift.aid AND n = 2 AND n <= $changed;
		UPDATE pgbench_accounts t SET filler = U&'\\00A0'
			FROM drift WHERE t.aid = drift.aid AND n = 1 AND n <= $changed;
		DELETE FROM pgbench_accounts t
			USING drift WHERE t.aid = drift.aid AND n > $changed;
		INSERT INTO pgbench_accounts
			SELECT 100000 * $scale + n * 7, 1 + n % $scale, 0, 'new'
			FROM generate_series(1, $inserted) n;
		COMMIT;
	SQL
}

# full_comparison FILE: write the keys that differ, found by EXCEPT in both
# directions over the whole table.
full_comparison() {
	on subscriber >"$1.raw" <<-SQL || return
		SET work_mem = '256MB';
		CREATE TEMP TABLE p AS SELECT * FROM pub.pgbench_accounts;
		CREATE TEMP TABLE l AS SELECT * FROM p EXCEPT SELECT * FROM pgbench_accounts;
		CREATE TEMP TABLE r AS SELECT * FROM pgbench_accounts EXCEPT SELECT * FROM p;
		SELECT aid, CASE WHEN r.aid IS NULL THEN 'there' WHEN l.aid IS NULL THEN 'here' ELSE 'both' END
		FROM l FULL JOIN r USING (aid);
	SQL
	sort "$1.raw" >"$1"
}

# The number of bytes of all rows, as a dump sends them over the wire.
table_bytes() { on publisher "SELECT sum(length(t::text)) FROM pgbench_accounts t"; }
