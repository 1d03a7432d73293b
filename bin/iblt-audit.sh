#!/bin/sh
# iblt-audit.sh [--json | --tsv] [--run | --resume RUN] [--jobs N] NAME=VALUE ...
#	An audit for cron. The arguments are those of iblt_audit:
#
#	iblt-audit.sh subscription=shop
#	iblt-audit.sh peer=node_b schema=shop
#	iblt-audit.sh --tsv peer=node_b tables='{shop.items,shop.stock}' max_differences=1000
#
#	With --run, they are those of iblt_audit_run, and with --resume 17 those of
#	iblt_audit_resume for run 17. --jobs 4 lets four sessions work on it. The answer
#	is of all tables of the run. One that max_time ended could not tell, unless a table
#	differs.
#
#	iblt-audit.sh --run --jobs 2 peer=node_b schema=shop max_time='4 hours'
#	iblt-audit.sh --resume 17 --jobs 2
#
#	status 0  every table is equal
#	       1  at least one table differs
#	       2  could not tell: anything else, whatever the reason
#
#	stdout has the answer, as a JSON document with a table on each line, or as
#	tab-separated values as COPY would write them, with a header; stderr has messages.
#	This side is found as by any client of libpq: PGSERVICE, PGHOST, PGDATABASE,
#	~/.pgpass. Names of tables need their schema. Columns that one side lacks are
#	an error unless extra_columns=warn or extra_columns=ignore is given.

set -u
trap '' PIPE
newline='
'
form=json

could_not_tell() {
	printf '%s: %s\n' "${0##*/}" "$1" >&2
	if [ "$form" = json ]; then printf '{"verdict": "unknown", "tables": []}\n'; fi
	exit 2
}

unknown_name() {
	could_not_tell "argument $((n + 1)) has an unknown name; names are those of $function's arguments, in lower case"
}

function=iblt_audit
run=
jobs=1
case ${1-} in
--json) shift ;;
--tsv) form=tsv; shift ;;
esac
case ${1-} in
--run) function=iblt_audit_run; shift ;;
--resume)
	function=iblt_audit_resume
	run=${2-}
	case $run in
	'' | *[!0-9]* | ???????????????????*) could_not_tell '--resume needs the number of a run' ;;
	esac
	shift 2 ;;
esac
case $function:${1-} in
iblt_audit_*:--jobs)
	jobs=${2-}
	case $jobs in
	'' | 0* | *[!0-9]* | ???*) could_not_tell '--jobs needs a number up to 99' ;;
	esac
	shift 2 ;;
esac

# The arguments go to the server as named arguments, each quoted by psql. A server
# may log what it is sent, so that nothing goes there that holds a password, and no
# name that is not known: it may be a connection string in a wrong place. For the
# same reason, these messages show no argument.
call="extra_columns => 'error'"
resume=
given=$#
n=0
[ "$given" -gt 0 ] || [ -n "$run" ] || could_not_tell 'usage: iblt-audit.sh [--json | --tsv] [--run | --resume RUN] [--jobs N] NAME=VALUE ...'
for argument in "$@"; do
	case $argument in
	*=*) ;;
	*) could_not_tell 'arguments are NAME=VALUE' ;;
	esac
	case $function:${argument%%=*} in
	*:peer | *:progress) ;;
	iblt_audit_r*:max_time | iblt_audit_r*:max_load | iblt_audit_r*:max_rate | iblt_audit_r*:max_lag) ;;
	iblt_audit_run:slice_ms | iblt_audit_run:slice_by | iblt_audit_run:rows | iblt_audit_run:check_indexes) ;;
	iblt_audit_resume:* | iblt_audit_run:live | iblt_audit_run:by_index) unknown_name ;;
	*:subscription | *:tables | *:schema | *:publication | *:max_differences | *:cast_types) ;;
	*:extra_columns | *:recheck | *:timeout | *:seed | *:trust_filters | *:live | *:method) ;;
	*:by_index) ;;
	*) unknown_name ;;
	esac
	case $argument in
	*[Pp][Aa][Ss][Ss][Ww]*=* | *[Pp][Ww][Dd]*=* | *_[Ss][Ee][Cc][Rr][Ee][Tt]*=* | *[Ss][Cc][Rr][Aa][Mm]_*_[Kk][Ee][Yy]*=* | *://*:*@*)
		could_not_tell 'a password on a command line is seen by everybody on this machine: use a foreign server' ;;
	esac
	case $argument in
	extra_columns=*) call=${call#extra_columns => \'error\'} ;;
	esac
	n=$((n + 1))
	set -- "$@" -v "name$n=${argument%%=*}" -v "value$n=${argument#*=}"
	value=":\"name$n\" => :'value$n'"
	case $function:$argument in
	iblt_audit_run:max_time=* | iblt_audit_run:progress=* | iblt_audit_resume:*) resume="$resume, $value" ;;
	iblt_audit_run:peer=*) call="$call, $value" resume="$resume, $value" ;;
	*) call="$call, $value" ;;
	esac
done
shift "$given"

export PGCLIENTENCODING=UTF8 PGCONNECT_TIMEOUT="${PGCONNECT_TIMEOUT:-10}" PGAPPNAME="${PGAPPNAME:-iblt-audit}"

# ask STATEMENT ARGUMENT ...: in a subshell, which becomes psql.
ask() {
	statement=$1
	shift
	exec psql -X -q -A -t -w -v ON_ERROR_STOP=1 -v SHOW_CONTEXT=never -v form="$form" -v run="$run" "$@" -f - <<SQL
SET search_path = pg_catalog, pg_temp;
SET standard_conforming_strings = on;
SET default_transaction_isolation = 'read committed';
-- if this script is killed, the server shall not go on for hours
SELECT set_config('client_connection_check_interval', '10s', false)
WHERE current_setting('server_version_num')::integer >= 140000 AND version() LIKE '%linux%' \g /dev/null
SELECT count(*) AS installed, max(quote_ident(n.nspname)) AS schema
FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'iblt' \gset
\if :installed
$statement;
\else
\warn extension iblt is not installed in this database
\endif
SQL
}

# A run gets its number before anybody works on it.
case $function in
iblt_audit) audit=":schema.iblt_audit(${call#, })" ;;
*) audit="(SELECT * FROM :schema.iblt_audit_tables WHERE run = :'run' ORDER BY number)" ;;
esac
if [ "$function" = iblt_audit_run ]; then
	run=$(ask "CALL :schema.iblt_audit_run(${call#, }, max_time => '0', progress => false)" "$@") ||
		could_not_tell "psql ended with status $?"
	case $run in
	'' | *[!0-9]*) could_not_tell 'psql gave no complete answer' ;;
	esac
	printf '%s: run %s\n' "${0##*/}" "$run" >&2
fi
if [ -n "$run" ]; then
	sessions=
	trap 'kill $sessions; exit 129' HUP
	trap 'kill $sessions; exit 130' INT
	trap 'kill $sessions; exit 143' TERM
	n=0
	while [ "$n" -lt "$jobs" ]; do
		n=$((n + 1))
		(ask "CALL :schema.iblt_audit_resume(:'run'$resume)" "$@") >&2 &
		sessions="$sessions $!"
	done
	failed=0
	for session in $sessions; do
		wait "$session" || failed=$((failed + 1))
	done
	trap - HUP INT TERM
	# what the others did not end, its verdict shows
	[ "$failed" -lt "$n" ] || could_not_tell "no session has ended without an error; see --resume $run"
fi

# One statement gives the whole answer, between a first and a last line that
# nothing else could write; without both, there is none.
answer=$(ask "WITH audit AS MATERIALIZED (
	SELECT row_number() OVER () AS n, t.status, row_to_json(t) AS line FROM $audit AS t
), verdict AS (
	SELECT CASE WHEN bool_or(status = 'differs') THEN 'differs'
		WHEN bool_and(status IS NOT DISTINCT FROM 'equal') THEN 'equal' ELSE 'unknown' END AS verdict
	FROM audit
), tsv AS (
	SELECT n, string_agg(name, chr(9) ORDER BY position) AS header,
		string_agg(coalesce(replace(replace(replace(replace(value, chr(92), chr(92) || chr(92)), chr(9), chr(92) || 't'),
			chr(10), chr(92) || 'n'), chr(13), chr(92) || 'r'), chr(92) || 'N'), chr(9) ORDER BY position) AS line
	FROM audit, json_each_text(line) WITH ORDINALITY AS f(name, value, position) GROUP BY n
)
SELECT concat_ws(chr(10), 'verdict ' || verdict, CASE :'form'
		WHEN 'tsv' THEN (SELECT concat_ws(chr(10), min(header), string_agg(line, chr(10) ORDER BY n)) FROM tsv)
		ELSE format(concat_ws(chr(10), '{\"verdict\": \"%s\",' || coalesce(' \"run\": ' || nullif(:'run', '') || ',', '') || ' \"tables\": [', '%s', '], \"finished\": \"%s\"}'), verdict,
			(SELECT string_agg(line::text, ',' || chr(10) ORDER BY n) FROM audit),
			to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')) END, 'end of answer')
FROM verdict" "$@") || could_not_tell "psql ended with status $?"

case $answer in
"verdict equal$newline"*"${newline}end of answer") status=0 ;;
"verdict differs$newline"*"${newline}end of answer") status=1 ;;
"verdict unknown$newline"*"${newline}end of answer") status=2 ;;
*) could_not_tell 'psql gave no complete answer' ;;
esac
answer=${answer#*"$newline"}
printf '%s\n' "${answer%"$newline"*}" || exit 2
exit "$status"
