#!/bin/sh
# iblt-audit.sh [--json | --tsv] NAME=VALUE ...
#	An audit for cron. The arguments are those of iblt_audit_subscription, if a
#	subscription is among them, otherwise of iblt_audit:
#
#	iblt-audit.sh subscription=shop
#	iblt-audit.sh peer=node_b schema=shop
#	iblt-audit.sh --tsv peer=node_b tables='{shop.items,shop.stock}' max_differences=1000
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

case ${1-} in
--json) shift ;;
--tsv) form=tsv; shift ;;
esac

# The arguments go to the server as named arguments, each quoted by psql. A server
# may log what it is sent, so that nothing goes there that holds a password, and no
# name that is not known: it may be a connection string in a wrong place. For the
# same reason, these messages show no argument.
function=iblt_audit
call="extra_columns => 'error'"
given=$#
n=0
[ "$given" -gt 0 ] || could_not_tell 'usage: iblt-audit.sh [--json | --tsv] NAME=VALUE ...'
for argument in "$@"; do
	case $argument in
	*=*) ;;
	*) could_not_tell 'arguments are NAME=VALUE' ;;
	esac
	case ${argument%%=*} in
	subscription | peer | tables | schema | publication | max_differences | cast_types) ;;
	extra_columns | recheck | timeout | seed | trust_filters | progress | live) ;;
	*) could_not_tell "argument $((n + 1)) has an unknown name; names are those of iblt_audit's arguments, in lower case" ;;
	esac
	case $argument in
	*[Pp][Aa][Ss][Ss][Ww]*=* | *[Pp][Ww][Dd]*=* | *_[Ss][Ee][Cc][Rr][Ee][Tt]*=* | *[Ss][Cc][Rr][Aa][Mm]_*_[Kk][Ee][Yy]*=* | *://*:*@*)
		could_not_tell 'a password on a command line is seen by everybody on this machine: use a foreign server' ;;
	esac
	case $argument in
	subscription=*) function=iblt_audit_subscription ;;
	extra_columns=*) call=${call#extra_columns => \'error\'} ;;
	esac
	n=$((n + 1))
	set -- "$@" -v "name$n=${argument%%=*}" -v "value$n=${argument#*=}"
	call="$call, :\"name$n\" => :'value$n'"
done
shift "$given"

# One statement gives the whole answer, between a first and a last line that
# nothing else could write; without both, there is none.
answer=$(
	PGCLIENTENCODING=UTF8 PGCONNECT_TIMEOUT=${PGCONNECT_TIMEOUT:-10} PGAPPNAME=${PGAPPNAME:-iblt-audit} \
		psql -X -q -A -t -w -v ON_ERROR_STOP=1 -v SHOW_CONTEXT=never -v form="$form" "$@" -f - <<SQL
SET search_path = pg_catalog, pg_temp;
SET standard_conforming_strings = on;
SET default_transaction_isolation = 'read committed';
-- if this script is killed, the server shall not go on for hours
SELECT set_config('client_connection_check_interval', '10s', false)
WHERE current_setting('server_version_num')::integer >= 140000 AND version() LIKE '%linux%' \g /dev/null
SELECT count(*) AS installed, max(quote_ident(n.nspname)) AS schema
FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'iblt' \gset
\if :installed
WITH audit AS MATERIALIZED (
	SELECT row_number() OVER () AS n, t.status, row_to_json(t) AS line FROM :schema.$function(${call#, }) AS t
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
		ELSE format(concat_ws(chr(10), '{"verdict": "%s", "tables": [', '%s', '], "finished": "%s"}'), verdict,
			(SELECT string_agg(line::text, ',' || chr(10) ORDER BY n) FROM audit),
			to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')) END, 'end of answer')
FROM verdict;
\else
\warn extension iblt is not installed in this database
\endif
SQL
) || could_not_tell "psql ended with status $?"

case $answer in
"verdict equal$newline"*"${newline}end of answer") status=0 ;;
"verdict differs$newline"*"${newline}end of answer") status=1 ;;
"verdict unknown$newline"*"${newline}end of answer") status=2 ;;
*) could_not_tell 'psql gave no complete answer' ;;
esac
answer=${answer#*"$newline"}
printf '%s\n' "${answer%"$newline"*}" || exit 2
exit "$status"
