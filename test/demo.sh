#!/usr/bin/env bash
# demo.sh
#	What the extension is for, shown from beginning to end: a publisher and a
#	subscriber with real logical replication, an audit under load, drift that
#	replication does not see, the rows that differ, their repair, what
#	happened underneath, live digests that find drift within a second, and
#	servers without the extension that are compared from a third.
#	Whatever is said is checked, against what was injected and against a full
#	comparison of both tables; the demo fails (exit status 1) unless all agree
#	to the row.
#
#	DEMO_SEED     seed of the drift (default: random, and printed)
#	DEMO_SCALE    pgbench's scale (10: 1,000,000 accounts)
#	DEMO_INSTALLED=1   takes the iblt that is installed for the programs in PATH, and
#	                   works in the directory IBLT_WORK, as a test of the demo does

set -euo pipefail

# shellcheck source=test/lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=test/lib/shop.sh
. "$(dirname "$0")/lib/shop.sh"

WIDTH=96

# Accounts that drift, of the 100,000 that pgbench has at scale 1.
CHANGED=40
DELETED=30
INSERTED=30
DRIFT=$((CHANGED + DELETED + INSERTED))

read_settings() {
	SCALE=${DEMO_SCALE:-10}
	[[ $SCALE =~ ^[1-9][0-9]{0,5}$ ]] || die "DEMO_SCALE=$SCALE is not a number from 1 on, of up to 6 digits"
	SEED=${DEMO_SEED:-$((RANDOM * 32768 + RANDOM))}
	[[ $SEED =~ ^-?[0-9]{1,18}$ ]] || die "DEMO_SEED=$SEED is not a whole number of up to 18 digits"
}

# --- output -------------------------------------------------------------------

heading() { printf '\n%s\n' "$*"; }
show() { printf '    %s\n' "$*"; }
indent() { sed -E '/^$/d; s/^/    /; s/ +$//'; }

# Break long lines of stdin, and indent what follows.
wrap() {
	local line
	while IFS= read -r line; do fold -s -w $((WIDTH - 8)) <<<"$line" | sed '2,$s/^/    /' | indent; done
}

# 1234567 -> 1,234,567
commas() { sed -E ':a; s/^([0-9]+)([0-9]{3})/\1,\2/; ta' <<<"$1"; }

# SQL as it would be typed; its own line breaks are kept.
show_sql() { sed "1s/^/    $1> /; 2,\$s/^/        /" <<<"$2;"; }

# ask TABLE SQL [SQL]: show the first SQL and run it on the subscriber.  Its answer
# is kept in a table, to be looked at and to be checked.
ask() {
	show_sql subscriber "$2"
	timed on subscriber <<-SQL
		SET client_min_messages = warning;
		DROP TABLE IF EXISTS $1;
		CREATE TABLE $1 AS $2;
		${3-}
	SQL
}

show_answer() { run_psql subscriber -P footer=off -c "$1" | indent; }

# check_answer SQL EXPECTED WHAT: the answers that were kept must say what is expected.
check_answer() {
	local got
	got=$(on subscriber "$1")
	[ "$got" = "$2" ] || die "$3: expected \"$2\", got \"$got\""
}

# same_keys FILE FILE WHAT
same_keys() {
	if ! diff "$1" "$2" >"$WORK/wrong.txt"; then
		head -n 20 "$WORK/wrong.txt" >&2
		die "$3"
	fi
}

# --- audits -------------------------------------------------------------------

# What an exit status says to a script that audits: 0 all equal, 1 some table
# differs, 2 it could not be told.
audit() {
	ask audit "SELECT * FROM iblt_audit(subscription => 'shop_sub')"
	show_answer "SELECT relation::regclass, status, rows_here AS here, rows_there AS there,
		missing, extra, changed, unconfirmed, detail FROM audit"
	VERDICT=$(on subscriber "SELECT CASE WHEN bool_or(status = 'differs') THEN 1
		WHEN bool_and(status = 'equal') THEN 0 ELSE 2 END FROM audit")
	check_answer "SELECT count(*) FROM audit" 4 "tables audited"
}

audit_equal() {
	audit
	[ "$VERDICT" -eq 0 ] || audit_failed "the tables should be equal by now"
	check_answer "SELECT sum(missing + extra + changed) FROM audit" 0 "differences of equal tables"
}

audit_failed() {
	on subscriber "SELECT * FROM audit" >&2
	die "$*"
}

# --- the story's chapters -------------------------------------------------------

build() {
	heading "Building the extension for $("$PG_CONFIG" --version)"
	timed build_and_install || { tail -n 40 "$WORK/build.log" >&2; die "the build failed"; }
	show "done in $TOOK ms; installed into a temporary tree, not into this system"
}

set_up_replication() {
	local server
	heading "1. A publisher and a subscriber"
	for server in "publisher $PUB_PORT" "subscriber $SUB_PORT"; do
		# shellcheck disable=SC2086 # name and port
		start_server $server "wal_level = logical" "shared_buffers = 256MB" "autovacuum = off"
	done
	create_shop "$SCALE"
	timed subscribe
	create_foreign_servers
	show "pgbench's tables at scale $SCALE: $(commas "$(on publisher "SELECT count(*) FROM pgbench_accounts")") accounts," \
		"$(on publisher "SELECT pg_size_pretty(pg_table_size('pgbench_accounts'))")"
	show "CREATE PUBLICATION, CREATE SUBSCRIPTION: initial copy synchronised in $TOOK ms"
}

# A table may be not comparable under load only if its rows kept changing.
business_as_usual() {
	local alarms
	heading "2. Business as usual: an audit while pgbench writes to the publisher"
	# a row of pgbench_branches that never rests could not be told at all
	start_load $((SCALE < 5 ? 100 * SCALE : 500))
	wait_until publisher "SELECT count(*) >= 100 FROM pgbench_history"
	audit
	stop_load
	alarms=$(on subscriber "SELECT count(*) FROM audit WHERE status <> 'equal' AND NOT coalesce(
		status = 'not comparable' AND unconfirmed > 0 AND missing + extra + changed = unconfirmed, false)")
	[ "$alarms" -eq 0 ] || audit_failed "tables seem to differ under load"
	show "rows in flight are not differences: iblt_audit looks at rows that seem to differ again when"
	show "replication has passed"
	if [ "$VERDICT" -ne 0 ]; then
		show "(where a row kept changing, it cannot be told: no false alarm, and no hasty \"equal\")"
	fi
	show "the load has ended: $(commas "$(on publisher "SELECT count(*) FROM pgbench_history")") transactions on the publisher," \
		"$(commas "$(on subscriber "SELECT count(*) FROM pgbench_history")") arrived; once more:"
	audit_equal
}

drift() {
	heading "3. Drift, behind replication's back (DEMO_SEED=$SEED)"
	let_drift "$SEED" "$SCALE" "$CHANGED" "$DELETED" "$INSERTED"
	show "on the subscriber, $CHANGED accounts changed, $DELETED deleted, $INSERTED inserted"
	show "(one change sets a filler to a no-break space, which no eye can see, one a balance to NULL)"
	audit
	[ "$VERDICT" -eq 1 ] || die "the audit's verdict is $VERDICT, not 1"
	check_answer "SELECT count(*) FROM audit WHERE status = 'equal'" 3 "equal tables"
	check_answer "SELECT missing, extra, changed, unconfirmed FROM audit WHERE relation::regclass = 'pgbench_accounts'::regclass" \
		"$DELETED $INSERTED $CHANGED 0" "missing, extra, changed, unconfirmed accounts"
	show "exactly what was done; a script for cron would exit with status $VERDICT"
}

# A few differences, the most instructive first, with long fillers shortened.
show_differences() {
	on subscriber <<-SQL | indent
		SELECT format('%-16s %-5s %-5s %s', CASE line WHEN 'here' THEN key::text END, CASE line WHEN 'here' THEN side END, line,
			coalesce(regexp_replace(replace(r::text, U&'\\00A0', '\\u00a0'), ' {4,}', '..', 'g'), '-'))
		FROM (
			SELECT *, row_number() OVER (PARTITION BY side ORDER BY here ->> 'filler' LIKE U&'\\00A0%' DESC,
				here ->> 'abalance' IS NULL DESC, key) AS n FROM found) AS d,
			LATERAL (VALUES ('here', here), ('there', there)) AS v(line, r)
		WHERE n <= CASE side WHEN 'both' THEN 3 ELSE 1 END
		ORDER BY side, n, line
	SQL
}

which_rows() {
	local ms sketches count
	heading "4. Which rows?  Both sides of each, from one call"
	ask found "SELECT * FROM iblt_compare('pgbench_accounts', 'publisher', rows => true)" \
		"CREATE TABLE stats AS SELECT * FROM iblt_compare_stats();"
	show_differences
	on subscriber "SELECT key ->> 'aid', side FROM found" | sort >"$WORK/found.txt"
	count=$(wc -l <"$WORK/found.txt")
	[ "$count" -eq "$DRIFT" ] || die "$DRIFT keys drifted, but $count were found"
	check_answer "SELECT count(*) FROM found WHERE confirmed" "$DRIFT" "confirmed differences"
	show "keys that differ: $count, as many as drifted; each was looked at again, and confirmed"

	heading "   Is that the truth?  EXCEPT over postgres_fdw, in both directions"
	timed full_comparison "$WORK/truth.txt"
	same_keys "$WORK/truth.txt" "$WORK/found.txt" "the keys found are not those of the full comparison"
	WHOLE=$(table_bytes)
	read -r ms SENT sketches < <(on subscriber "SELECT round(total_ms), bytes_sent + bytes_received, sketch_bytes FROM stats")
	show "the same keys, each with the same side: $count of $count"
	show "$(printf '%-13s%8s ms %14s bytes between the servers (sketches: %s)' \
		iblt_compare "$(commas "$ms")" "$(commas "$SENT")" "$(commas "$sketches")")"
	show "$(printf '%-13s%8s ms %14s bytes, the whole table' EXCEPT "$(commas "$TOOK")" "$(commas "$WHOLE")")"
}

# --- underneath -----------------------------------------------------------------

# One value from each side: a.txt and b.txt, the wire between the servers.
exchange() {
	show_sql publisher "$1"
	show_sql subscriber "$1"
	on publisher "$1" >"$WORK/a.txt"
	on subscriber "$1" >"$WORK/b.txt"
	show "sent to the subscriber: $(commas "$(tr -d '\n' <"$WORK/a.txt" | wc -c)") bytes of text"
}

# by_hand QUERY: run it with the publisher's value as :'a', the subscriber's as :'b'.
by_hand() {
	on subscriber <<-SQL
		\\set a \`cat $WORK/a.txt\`
		\\set b \`cat $WORK/b.txt\`
		$1;
	SQL
}

# subtract SKETCH: the keys that differ by hand, into hand.txt.  A sketch that is
# too small says so, and which capacity to take.
subtract() {
	local sketch=$1 decode="SELECT key, side FROM iblt_decode(:'a'::iblt - :'b'::iblt)" complete recommended
	for _ in 1 2 3 4; do
		exchange "$sketch"
		show_sql subscriber "$decode"
		if by_hand "$decode" >"$WORK/hand.raw" 2>"$WORK/decode.err"; then
			sed 's/ left$/ there/; s/ right$/ here/' "$WORK/hand.raw" | sort >"$WORK/hand.txt"
			return
		fi
		grep -q 'IB001' "$WORK/decode.err" || { cat "$WORK/decode.err" >&2; die "decoding failed"; }
		sed -nE 's/^(psql:[^ ]* )?(ERROR|HINT): */\2: /p' "$WORK/decode.err" | wrap
		read -r complete recommended < <(by_hand "SELECT complete, recommended_capacity
			FROM iblt_decode_status(:'a'::iblt - :'b'::iblt)")
		[ "$complete" = f ] || die "iblt_decode_status contradicts iblt_decode"
		SAW_TOO_SMALL=1
		show "Too small, and it says so.  Again, with the capacity it recommends:"
		sketch="SELECT iblt_agg(aid, iblt_checksum(t.*), $recommended) FROM pgbench_accounts t"
	done
	die "no answer, however large the sketch"
}

show_keys() {
	local side meaning
	while read -r side meaning; do
		show "$(printf '%5d %-35s' "$(grep -c " $side$" "$WORK/hand.txt" || true)" "$meaning")" \
			"$(grep " $side$" "$WORK/hand.txt" | sort -n | awk 'NR <= 5 { printf "%s ", $1 } NR == 6 { printf "..." }')"
	done <<-SIDES | sed 's/ *$//'
		both on both sides, contents differ:
		there only on the publisher ("left"):
		here only on the subscriber ("right"):
	SIDES
}

underneath() {
	heading "5. What happened underneath: one value from each side, and their difference"
	subtract "SELECT iblt_agg(aid, iblt_checksum(t.*)) FROM pgbench_accounts t"
	same_keys "$WORK/truth.txt" "$WORK/hand.txt" "the keys decoded are not those of the full comparison"
	show_keys
	heading "   And a sketch that is too small?"
	SAW_TOO_SMALL=
	subtract "SELECT iblt_agg(aid, iblt_checksum(t.*), 10) FROM pgbench_accounts t"
	same_keys "$WORK/truth.txt" "$WORK/hand.txt" "the keys decoded are not those of the full comparison"
	[ -n "$SAW_TOO_SMALL" ] || die "a sketch of capacity 10 was large enough for $DRIFT differences"
	show "the same keys: $DRIFT"
}

# --- repair ---------------------------------------------------------------------

# One statement of each kind, with long fillers shortened.
show_statements() {
	on subscriber "SELECT DISTINCT ON (action) sql FROM preview WHERE sql IS NOT NULL ORDER BY action, key" |
		sed -E 's/ {4,}/../g' | wrap
}

# The answer's rows by kind must be what drifted, as seen from the publisher.
check_actions() {
	check_answer "SELECT count(*) FILTER (WHERE action = 'update'), count(*) FILTER (WHERE action = 'insert'),
		count(*) FILTER (WHERE action = 'delete'), count(*) FILTER (WHERE status <> '$2') FROM $1" \
		"$CHANGED $DELETED $INSERTED 0" "updates, inserts, deletes, and those that are not $2"
}

repair() {
	local took
	heading "6. Repair: first the statements only, the publisher's rows win"
	ask preview "SELECT * FROM iblt_repair('pgbench_accounts', 'publisher', direction => 'pull')"
	check_actions preview preview
	show_statements
	show "... statements in all: $DRIFT"
	heading "   Then the same, applied in one transaction"
	ask applied "SELECT * FROM iblt_repair('pgbench_accounts', 'publisher', direction => 'pull', apply => true)"
	took=$TOOK
	check_actions applied applied
	check_answer "WITH p AS (SELECT key, action, sql FROM preview), a AS (SELECT key, action, sql FROM applied)
		SELECT count(*) FROM ((TABLE p EXCEPT TABLE a) UNION ALL (TABLE a EXCEPT TABLE p)) AS x" 0 \
		"statements that are not those of the preview"
	REPAIRED=$(on subscriber "SELECT count(*) FROM applied WHERE status = 'applied'")
	show_answer "SELECT action, status, count(*) FROM applied GROUP BY 1, 2 ORDER BY 1, 2"
	show "none skipped; the statements were exactly those of the preview ($(commas "$took") ms)"
}

# A new transaction on the publisher changes all rows that were repaired, and
# inserts an account, whose number was in use on the subscriber if rows were
# inserted there: that would have stopped replication.
replicate_again() {
	local new=$((100000 * SCALE + 7)) changed
	{
		echo "BEGIN; CREATE TEMP TABLE repaired (aid int) ON COMMIT DROP; INSERT INTO repaired VALUES (1)"
		sed -nE 's/^([0-9]+) (both|there)$/, (\1)/p' "$WORK/truth.txt"
		echo "; UPDATE pgbench_accounts SET abalance = 123456789 WHERE aid IN (SELECT aid FROM repaired);"
		echo "INSERT INTO pgbench_accounts VALUES ($new, 1, 123456789, 'new'); COMMIT;"
	} | on publisher
	caught_up
	changed=$(on publisher "SELECT count(*) FROM pgbench_accounts WHERE abalance = 123456789")
	[ "$changed" -gt $((CHANGED + DELETED)) ] || die "the new transaction missed rows"
	check_answer "SELECT count(*) FROM pgbench_accounts WHERE abalance = 123456789" "$changed" "rows of the new transaction that arrived"
	show "replication goes on: a new transaction that changes every row that the repair wrote,"
	show "and inserts one, has arrived ($(commas "$changed") rows)"
}

equal_again() {
	heading "7. Equal again"
	audit_equal
	full_comparison "$WORK/after.txt"
	[ ! -s "$WORK/after.txt" ] || die "a full comparison still finds $(wc -l <"$WORK/after.txt") differences"
	show "EXCEPT over postgres_fdw, in both directions: 0 rows"
	replicate_again
}

# --- live digests ---------------------------------------------------------------

# live_audit EXPECTED: compares by digests alone, and shows a line.  The confirmed keys
# must be those expected.  (A row of pgbench's that changes all the time may stay
# unconfirmed.)
live_audit() {
	local began found line
	printf -v began '%(%s)T' -1
	found=$(on subscriber <<-SQL
		SET client_min_messages = warning;
		SELECT string_agg(concat(key ->> 'aid', ' ', side), ',') FILTER (WHERE confirmed)
			FROM iblt_compare('pgbench_accounts', 'publisher', live => 'require');
		SELECT format('%s %s %s %s', live, rows_here, settled, round(total_ms)) FROM iblt_compare_stats();
	SQL
	)
	read -r -a line <<<"${found#*$'\n'}"
	found=${found%%$'\n'*}
	[ "${line[0]}" = t ] || die "the answer did not come from live digests"
	[ "$found" = "$1" ] || die "the audit should find \"$1\", and found \"$found\""
	show "$(printf '%(%H:%M:%S)T  %9s rows  %2s in flight  %4s ms' "$began" "$(commas "${line[1]}")" "${line[2]}" \
		"$(commas "${line[3]}")")${found:+  DIFFERS: account $found}"
}

# next_second AT: sleeps until that many seconds after the loop began.
next_second() {
	local left=$((LOOP_START + 1000000 * $1 - ${EPOCHREALTIME/[.,]/}))
	if [ $left -gt 0 ]; then sleep "$(awk -v us=$left 'BEGIN { print us / 1e6 }')"; fi
}

# The account that drifts is one that pgbench does not write, because replication would
# overwrite the drift.
live_audits() {
	local second account=$((100000 * SCALE + 7)) expected=
	heading "8. Live digests: an audit every second, while pgbench writes"
	show_sql publisher "CALL iblt_track('pgbench_accounts')"
	timed on publisher "CALL iblt_track('pgbench_accounts')"
	show_sql subscriber "CALL iblt_track('pgbench_accounts', peer => 'publisher')"
	on subscriber "CALL iblt_track('pgbench_accounts', peer => 'publisher')"
	show "triggers keep a digest on each side from now on; to begin with, a scan of $TOOK ms"
	show_sql subscriber "SELECT * FROM iblt_compare('pgbench_accounts', 'publisher', live => 'require')"
	start_load $((SCALE < 5 ? 100 * SCALE : 500))
	LOOP_START=${EPOCHREALTIME/[.,]/}
	for second in 1 2 3 4 5; do
		next_second $second
		live_audit "$expected"
		if [ $second -eq 3 ]; then
			on subscriber "UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = $account"
			expected="$account both"
			show "          (account $account has been changed on the subscriber)"
		fi
	done
	stop_load
	check_answer "UPDATE pgbench_accounts SET abalance = abalance - 1 WHERE aid = $account RETURNING abalance" 123456789 "the balance again"
	live_audit ""
	audit_equal
	show "the audit by scans says the same: no digest has missed a change"
}

# --- two servers from a third -------------------------------------------------------

# at publisher|subscriber DATABASE [ARGUMENT ...]
at() {
	local server=$1 database=$2
	shift 2
	run_psql "$server" -d "$database" -At -F ' ' "$@"
}

# Three databases without iblt, and one with it that has no table.
set_up_desk() {
	local name
	on publisher "CREATE DATABASE old"
	at publisher old <<-SQL
		CREATE TABLE orders (id int PRIMARY KEY, item text, price numeric);
		INSERT INTO orders SELECT g, 'item ' || g, g % 100 FROM generate_series(1, 20000) AS g;
	SQL
	on publisher "CREATE DATABASE spare TEMPLATE old"
	on subscriber "CREATE DATABASE new"
	at publisher old -c "COPY orders TO STDOUT" >"$WORK/orders"
	at subscriber new -c "CREATE TABLE orders (id int PRIMARY KEY, item text, price numeric)" -c "\\copy orders FROM '$WORK/orders'" \
		-c "UPDATE orders SET price = 0 WHERE id = 7; DELETE FROM orders WHERE id = 19000"
	at publisher spare -c "DELETE FROM orders WHERE id = 300"
	on subscriber "CREATE DATABASE desk"
	for name in "old $PUB_PORT" "spare $PUB_PORT" "new $SUB_PORT"; do
		printf "CREATE SERVER %s FOREIGN DATA WRAPPER iblt_fdw OPTIONS (host '%s', port '%s', dbname '%s');
			CREATE USER MAPPING FOR postgres SERVER %s OPTIONS (user 'postgres');\n" "${name% *}" "$WORK/s" "${name#* }" "${name% *}" "${name% *}"
	done | at subscriber desk -c "CREATE EXTENSION iblt" -c "CREATE EXTENSION iblt_audit" -f -
}

# ask_desk SQL EXPECTED: show the SQL and its answer, which must be as expected.
ask_desk() {
	local got
	show_sql desk "$1"
	got=$(run_psql subscriber -d desk -P footer=off -c "SET client_min_messages = warning" -c "$1")
	indent <<<"$got"
	got=$(sed '1,2d; s/|//g; s/  */ /g; s/^ //; s/ $//' <<<"$got")
	[ "$got" = "$2" ] || die "the desk expected \"$2\", got \"$got\""
}

from_a_desk() {
	heading "9. From a desk: servers on which nothing is installed"
	set_up_desk
	show "the databases old, new and spare have no iblt; desk has it, and no table"
	ask_desk "SELECT key, side, differs FROM iblt_compare(here_peer => 'old', here_relation => 'public.orders',
peer => 'new', method => 'auto', rows => 'columns') ORDER BY key" '{"id": 7} both {price}'$'\n''{"id": 19000} here'
	show "one row was changed on the way to the new server, and one was lost"
	ask_desk "SELECT key, verdict, agree, deviate FROM iblt_compare_nodes('public.orders', '{old,new,spare}',
method => 'auto', recheck => 0) ORDER BY key" \
		'{"id": 7} majority {old,spare} {new}'$'\n''{"id": 300} majority {old,new} {spare}'$'\n''{"id": 19000} majority {old,spare} {new}'
	show "three nodes: the majority says which one is wrong"
	ask_desk "SELECT key, action, status FROM iblt_repair(here_peer => 'old', here_relation => 'public.orders',
peer => 'new', method => 'auto', direction => 'push', apply => true) ORDER BY key" '{"id": 7} update applied'$'\n''{"id": 19000} insert applied'
	show "the desk made new like old, in one transaction"
}

sum_up() {
	heading "Result: rows drifted: $DRIFT, found: $(wc -l <"$WORK/found.txt")," \
		"confirmed by a full comparison: $(wc -l <"$WORK/truth.txt"), repaired: $REPAIRED;"
	say "now both sides are equal.  Bytes sent to find them: $(commas "$SENT") instead of $(commas "$WHOLE")."
}

inner() {
	trap '[ $? -eq 0 ] || exit 1' EXIT
	say "iblt: which rows differ between two servers, and how do they become the same?"
	if [ -n "${DEMO_INSTALLED-}" ]; then
		WORK=$IBLT_WORK
	else
		enter_work
		build
	fi
	set_up_replication
	business_as_usual
	drift
	which_rows
	underneath
	repair
	equal_again
	live_audits
	from_a_desk
	sum_up
	stop_server subscriber
	stop_server publisher
}

read_settings
if [ -n "${IBLT_WORK-}" ]; then inner; else supervise demo test/demo.sh; fi
