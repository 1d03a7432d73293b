#!/bin/sh
# iblt-audit.sh [OPTION ...] NAME=VALUE ...
#	An audit for cron and for people.  The arguments are those of iblt_audit:
#
#	iblt-audit.sh subscription=shop
#	iblt-audit.sh peer=node_b
#	iblt-audit.sh peer=node_b schema=shop
#	iblt-audit.sh --tsv peer=node_b tables='{shop.items,shop.stock}' max_differences=1000
#	iblt-audit.sh from='host=old dbname=shop user=auditor' to=new_server
#
#	from and to are connection strings or names of services (pg_service.conf): the server
#	that has the rows, and the one that is to have them. "Here" is to. Neither needs iblt with
#	method=auto. A server of its own conducts, which this script starts in a temporary
#	directory and removes at the end, or the database that via=CONNECTION leads to.
#
#	--text            the answer is a table for people (the default)
#	--json            a JSON document with a table on each line
#	--tsv             tab-separated values, as COPY would write them, with a header
#	--nagios          one line with figures, and the exit statuses of Nagios
#	--prometheus FILE also write series in the text format of Prometheus to FILE
#	--html FILE       also write a page to look at and to hand on to FILE
#	--accept FILE     differences that are meant to be, which do not count
#	--all             compare structure and sequences, too; for a schema or a whole database.
#	                  rights=false leaves owners and rights out
#	--watch SECONDS   again, with so long a pause, until all is equal
#	--run             begin a run: the arguments are those of iblt_audit_run
#	--resume RUN      go on with a run: those of iblt_audit_resume
#	--jobs N          let that many sessions work on the run
#	--save FILE       make a baseline in FILE of tables=..., schema=... or all tables
#	--against FILE    compare the tables of a baseline with what they were
#	--help            show this
#
#	status 0  every table is equal
#	       1  at least one table differs (with --nagios 2, CRITICAL)
#	       2  could not tell: anything else, whatever the reason (with --nagios 3, UNKNOWN)
#
#	stdout has the answer, or nothing. stderr has messages, and unless all is equal, the
#	verdict and the tables concerned, so that cron mails them. This side is found as by any
#	client of libpq: PGSERVICE, PGHOST, PGDATABASE, ~/.pgpass. So are from and to, by a server
#	of this script's own. Names of tables need their schema. A run that max_time ended could
#	not tell, unless a table differs.

set -u
trap '' PIPE
newline='
'
form=
metrics=
page=
baseline=
all=
unset IBLT_ACCEPTED
one_pass=${IBLT_AUDIT_PASS-}		# of --watch, which tells no answer by a status of its own
unset IBLT_AUDIT_PASS

# leave STATUS: ends with it, or with that of Nagios which means the same.
leave() {
	case $form:$1 in
	nagios:1) exit 2 ;;
	nagios:2) exit 3 ;;
	*) exit "$1" ;;
	esac
}

# Without an answer, yesterday's "equal" must not stay where monitoring reads it.
could_not_tell() {
	printf '%s: %s\n' "${0##*/}" "$1" >&2
	case $form in
	json) printf '{"verdict": "unknown", "tables": []}\n' ;;
	nagios) printf 'IBLT UNKNOWN - %s\n' "$1" ;;
	esac
	[ -z "$page" ] || rm -f "$page.$$"
	if [ -n "$metrics" ]; then
		{
			printf '# HELP iblt_audit_verdict Verdict of the last audit: 1 for the one that holds, 0 for the others.\n'
			printf '# TYPE iblt_audit_verdict gauge\n'
			printf 'iblt_audit_verdict{audit="%s",verdict="%s"} %s\n' "$label" differs 0 "$label" equal 0 "$label" unknown 1
			printf '# HELP iblt_audit_finished_timestamp_seconds When the last audit ended.\n'
			printf '# TYPE iblt_audit_finished_timestamp_seconds gauge\n'
			printf 'iblt_audit_finished_timestamp_seconds{audit="%s"} %s\n' "$label" "$(date +%s)"
		} > "$metrics.$$" && mv -f "$metrics.$$" "$metrics" || rm -f "$metrics.$$" "$metrics"
	fi
	[ -z "$one_pass" ] || exit 4
	leave 2
}

# meant WORD NAME ...: which name is meant, if one is nearly the word. Only the name is shown.
meant() {
	word=$(printf '%s' "$1" | tr '\n' ' ')
	shift
	printf '%s\n' "$word" "$@" | awk '
		NR == 1 { word = substr($0, 1, 30); m = length(word); next }
		{
			n = length($0)
			for (j = 0; j <= n; j++) last[j] = j
			for (i = 1; i <= m; i++) {
				row[0] = i
				for (j = 1; j <= n; j++) {
					row[j] = last[j - 1] + (substr(word, i, 1) != substr($0, j, 1))
					if (last[j] + 1 < row[j]) row[j] = last[j] + 1
					if (row[j - 1] + 1 < row[j]) row[j] = row[j - 1] + 1
				}
				for (j = 0; j <= n; j++) last[j] = row[j]
			}
			if (last[n] == 0) { best = ""; exit }
			if (last[n] < 3 && last[n] * 2 < n && (best == "" || last[n] < least)) { best = $0; least = last[n] }
		}
		END { if (best != "") print "; perhaps " best " is meant" }'
}

# shellcheck disable=SC2086 # each name is a word
unknown_name() {
	could_not_tell "argument $((n + 1)) has an unknown name; names are those of $function's arguments, in lower case$(meant "${argument%%=*}" $names)"
}

# psql has said why on stderr.
no_answer() {
	case $1 in
	2) could_not_tell 'no connection to the server that conducts' ;;
	3) could_not_tell 'no answer, because of the error above' ;;
	*) could_not_tell "psql ended with status $1" ;;
	esac
}

# file_of OPTION FILE: the name of a file that can be written, which psql takes for no command.
file_of() {
	file=$2
	case $file in
	'' | */) could_not_tell "$1 needs the name of a file" ;;
	/*) ;;
	*) file=./$file ;;
	esac
	[ -d "${file%/*}/" ] && [ -w "${file%/*}/" ] && [ ! -d "$file" ] || could_not_tell "$1: no file can be written there"
}

# A server of this script's own
#
# It listens on a socket alone, in a directory that nobody else can look into. It runs as the
# user who calls, and for root as postgres, but not as nobody, who may be many.

# find_server: puts its programs into PATH: those that are there, or of the newest release with iblt.
find_server() {
	for programs in '' $(printf '%s:\n' /usr/lib/postgresql/*/bin /usr/pgsql-*/bin | sort -Vr); do
		share=$(PATH=$programs$PATH && command -v initdb > /dev/null && command -v pg_ctl > /dev/null && pg_config --sharedir) 2> /dev/null
		if [ -f "$share/extension/iblt_audit.control" ]; then
			PATH=$programs$PATH
			return 0
		fi
	done
	printf '%s: no PostgreSQL server with iblt on this machine: install one, or give via=CONNECTION\n' "${0##*/}" >&2
	return 1
}

as_owner() {
	if [ -n "$owner" ]; then
		setpriv --reuid "$owner" --regid "$(id -g "$owner")" --init-groups "$@"
	else
		"$@"
	fi
}

# lend VARIABLE FILE: a copy of a file that may hold passwords, for the owner of the server.
lend() {
	if [ -n "$owner" ] && [ -r "$2" ]; then
		install -m 600 -o "$owner" "$2" "$directory/$1" && export "$1=$directory/$1"
	fi
}

# quoted TEXT: for the inside of a string of a connection or of postgresql.conf.
quoted() {
	printf '%s\n' "$1" | sed "s/['\\\\]/\\\\&/g"
}

# Another signal would leave the directory, which may have copies of passwords.
stop_server() {
	trap - EXIT
	trap '' HUP INT TERM
	as_owner pg_ctl -D "$directory/data" -m immediate -s stop > /dev/null 2>&1
	rm -rf "$directory"
}

# start_server: makes it, and sets "via".
start_server() {
	owner=
	[ "$(id -u)" != 0 ] || owner=postgres
	directory=$(mktemp -d "${TMPDIR:-/tmp}/iblt-audit.XXXXXX") || return 1
	trap stop_server EXIT
	trap 'exit 129' HUP
	trap 'exit 130' INT
	trap 'exit 143' TERM
	find_server || return 1
	[ -z "$owner" ] || chown "$owner" "$directory" || return 1
	lend PGPASSFILE "${PGPASSFILE-${HOME-}/.pgpass}"
	lend PGSERVICEFILE "${PGSERVICEFILE-${HOME-}/.pg_service.conf}"
	(
		cd "$directory" &&
			as_owner initdb -D "$directory/data" -U iblt -A trust -E UTF8 --no-locale --no-sync &&
			cat >> data/postgresql.conf <<CONF &&
listen_addresses = ''
port = 5432
unix_socket_directories = '$(quoted "$directory")'
max_connections = 120
shared_buffers = 16MB
fsync = off
wal_level = minimal
max_wal_senders = 0
log_min_error_statement = panic
CONF
			as_owner pg_ctl -D "$directory/data" -l "$directory/log" -s -w start
	) < /dev/null > "$directory/made" 2>&1 || {
		cat "$directory/made" "$directory/log" 2> /dev/null | tail -n 5 >&2
		return 1
	}
	# the settings of from and to are not for this server
	unset PGSERVICE PGHOSTADDR PGSSLMODE PGREQUIRESSL PGCHANNELBINDING PGREQUIREAUTH PGTARGETSESSIONATTRS PGGSSENCMODE PGOPTIONS
	via="host='$(quoted "$directory")' port=5432 dbname=postgres user=iblt"
	psql -X -q -w -d "$via" -v ON_ERROR_STOP=1 -c 'SET client_min_messages = warning' -c 'CREATE EXTENSION iblt_audit CASCADE' >&2
}

# conduct ARGUMENT ...: this script with those arguments and a server of its own.
# A shell that waits for a program takes no signal, but one that waits for a job does. Without a
# server, the other one cannot tell, in its form.
conduct() {
	for argument in "$@"; do
		case $argument in
		from= | to= | from=*=* | to=*=* | from=*://* | to=*://*) ;;
		from=* | to=*) argument="${argument%%=*}=service='$(quoted "${argument#*=}")'" ;;
		esac
		set -- "$@" "$argument"
		shift
	done
	start_server || via="host=/nonexistent hostaddr=''"
	sh "$0" "$@" "via=$via" &
	conductor=$!
	trap 'kill $conductor; exit 129' HUP
	trap 'kill $conductor; exit 130' INT
	trap 'kill $conductor; exit 143' TERM
	wait "$conductor"
	exit
}

own=
far=
again=
for argument in "$@"; do
	case $argument in
	via=*) own=no ;;
	from=* | to=*) own=${own:-yes} far=here_ ;;
	--watch) again=yes ;;
	esac
done
# these again, as words for eval
words=
case $own:$again in
yes:* | *:yes)
	words=$(for argument in "$@"; do
		argument=$(printf '%sx' "$argument" | sed "s/'/'\\\\''/g")
		printf "'%s' " "${argument%x}"
	done) ;;
esac

# what may be meant
names='peer from to via subscription tables schema publication peer_schema here_peer here_tables mappings rows rights live method
	by_index max_differences cast_types extra_columns recheck timeout seed trust_filters max_time max_load max_rate max_lag slice_ms
	check_indexes capacity progress'
options='--text --json --tsv --nagios --prometheus --html --accept --all --watch --run --resume --jobs --save --against --help'

function=iblt_audit
run=
jobs=
watch=
while :; do
	case ${1-} in
	--help)
		sed -n '2,/^$/s/^#[	 ]\{0,1\}//p' "$0"
		exit 0 ;;
	--json | --tsv | --text | --nagios)
		[ -z "$form" ] || break
		form=${1#--} ;;
	--prometheus)
		[ -z "$metrics" ] || break
		file_of --prometheus "${2-}"
		label=${file##*/}
		label=${label%.prom}
		case $label in
		*[!A-Za-z0-9_.-]*) could_not_tell '--prometheus: the name of the file is a label, and has letters, digits and _.- only' ;;
		esac
		metrics=$file
		shift ;;
	--html)
		[ -z "$page" ] || break
		file_of --html "${2-}"
		page=$file
		shift ;;
	--accept)
		[ -z "${IBLT_ACCEPTED-}" ] || break
		[ -f "${2-}" ] && [ -r "${2-}" ] || could_not_tell '--accept: there is no such file'
		export IBLT_ACCEPTED="$2"
		shift ;;
	--all)
		[ -z "$all" ] || break
		all=yes ;;
	--save | --against)
		[ "$function" = iblt_audit ] || break
		case $1 in
		--save)
			function=iblt_baseline
			file_of --save "${2-}" ;;
		--against)
			function=iblt_audit_baseline
			file=${2-}
			[ -f "$file" ] && [ -r "$file" ] || could_not_tell '--against: there is no such file' ;;
		esac
		baseline=$file
		shift ;;
	--watch)
		[ -z "$watch" ] || break
		watch=${2-}
		case $watch in
		'' | *[!0-9]* | ??????*) could_not_tell '--watch needs a number of seconds' ;;
		esac
		shift ;;
	--run)
		[ "$function" = iblt_audit ] || break
		function=iblt_audit_run ;;
	--resume)
		[ "$function" = iblt_audit ] || break
		function=iblt_audit_resume
		run=${2-}
		case $run in
		'' | *[!0-9]* | ???????????????????*) could_not_tell '--resume needs the number of a run' ;;
		esac
		shift ;;
	--jobs)
		[ -z "$jobs" ] || break
		case $function in iblt_audit_r*) ;; *) break ;; esac
		jobs=${2-}
		case $jobs in
		'' | 0* | *[!0-9]* | ???*) could_not_tell '--jobs needs a number up to 99' ;;
		esac
		shift ;;
	*) break ;;
	esac
	shift
done
[ "$function" != iblt_baseline ] || [ -z "$form$metrics$page${IBLT_ACCEPTED-}" ] || could_not_tell '--save makes no report'
case $watch:$function in
:* | *:iblt_audit | *:iblt_audit_baseline) ;;
*) could_not_tell '--watch makes audits, and no runs' ;;
esac
form=${form:-text}
jobs=${jobs:-1}

# The arguments go to the server as named arguments, each quoted by psql. A server
# may log what it is sent, so that nothing goes there that holds a password, and no
# name that is not known: it may be a connection string in a wrong place. For the
# same reason, these messages show no argument.
call=
resume=
name=
via=
peer=
here=
subscription=
schema=
peer_schema=
rows=
rights=
given=$#
n=0
[ "$given" -gt 0 ] || [ -n "$run" ] || [ "$function" != "${function%baseline}" ] || could_not_tell 'usage: iblt-audit.sh [OPTION ...] NAME=VALUE ...; see iblt-audit.sh --help'
for argument in "$@"; do
	case $argument in
	*=*) ;;
	# shellcheck disable=SC2086 # each option is a word
	-*) could_not_tell "argument $((n + 1)) is no option; options come first, each once, and one of --text, --json, --tsv and --nagios$(meant "$argument" $options)" ;;
	*) could_not_tell "argument $((n + 1)) is not NAME=VALUE" ;;
	esac
	case $function:${argument%%=*} in
	iblt_baseline:tables | iblt_baseline:schema | iblt_baseline:capacity) ;;
	*baseline:*) unknown_name ;;
	*:peer | *:here_peer | *:progress | *:from | *:to | *:via) ;;
	iblt_audit_r*:max_time | iblt_audit_r*:max_load | iblt_audit_r*:max_rate | iblt_audit_r*:max_lag) ;;
	iblt_audit_run:slice_ms | iblt_audit_run:check_indexes) ;;
	iblt_audit_resume:* | iblt_audit_run:live | iblt_audit_run:by_index) unknown_name ;;
	*:subscription | *:tables | *:schema | *:peer_schema | *:publication | *:max_differences | *:cast_types) ;;
	*:extra_columns | *:recheck | *:timeout | *:seed | *:trust_filters | *:live | *:method) ;;
	*:by_index | *:here_tables | *:mappings | *:rows | *:rights) ;;
	*) unknown_name ;;
	esac
	case $argument in
	*[Pp][Aa][Ss][Ss][Ww]*=* | *[Pp][Ww][Dd]*=* | *_[Ss][Ee][Cc][Rr][Ee][Tt]*=* | *[Ss][Cc][Rr][Aa][Mm]_*_[Kk][Ee][Yy]*=* | *://*:*@*)
		could_not_tell 'a password on a command line is seen by everybody on this machine: put it into ~/.pgpass, or use a service or a foreign server' ;;
	esac
	case $argument in
	via=*) via=${argument#*=} n=$((n + 1)) && continue ;;
	rights=*) rights=${argument#*=} n=$((n + 1)) && continue ;;
	from=*) argument=peer=${argument#*=} ;;
	to=*) argument=here_peer=${argument#*=} ;;
	esac
	case $argument in
	peer=*) peer=${argument#*=} ;;
	rows=*) rows=${argument#*=} ;;
	here_peer=*) here=${argument#*=} ;;
	subscription=*) subscription=${argument#*=} name=$argument ;;
	peer_schema=*) peer_schema=${argument#*=} ;;
	schema=*) schema=${argument#*=} name=$argument ;;
	tables=*) name=$argument argument=$far$argument ;;
	here_tables=*) name=$argument ;;
	publication=*) name=$argument ;;
	esac
	n=$((n + 1))
	set -- "$@" -v "name$n=${argument%%=*}" -v "value$n=${argument#*=}"
	value=":\"name$n\" => :'value$n'"
	case $function:$argument in
	iblt_audit_run:max_time=* | iblt_audit_run:progress=* | iblt_audit_resume:*) resume="$resume, $value" ;;
	iblt_audit_run:peer=* | iblt_audit_run:here_peer=*) call="$call, $value" resume="$resume, $value" ;;
	*) call="$call, $value" ;;
	esac
done
shift "$given"

# without one of them, "here" would be the database that conducts
if [ -n "$far" ] && [ "$function" != iblt_audit_resume ] && { [ -z "$peer" ] || [ -z "$here" ]; }; then
	could_not_tell 'from= and to= go together'
fi
case $all:$function:$peer:$name in
:* | yes:iblt_audit:?*: | yes:iblt_audit:?*:schema=* | yes:iblt_audit_run:?*: | yes:iblt_audit_run:?*:schema=*) ;;
*) could_not_tell '--all is for a peer, and for a schema or the whole database' ;;
esac
case $all:$rights in
*: | yes:true | yes:false) ;;
*) could_not_tell 'rights=true or rights=false goes with --all' ;;
esac

if [ "$own" = yes ]; then
	eval "set -- $words"
	conduct "$@"
fi

# Each pass is an audit with the same arguments, and says on stderr what is not equal. A shell that
# waits for a job takes signals.
if [ -n "$watch" ] && [ -z "$one_pass" ]; then
	eval "set -- $words"
	kept=$(mktemp) || could_not_tell 'mktemp made no file'
	job=
	trap 'rm -f "$kept"' EXIT
	trap '[ -z "$job" ] || kill "$job"; exit 129' HUP
	trap '[ -z "$job" ] || kill "$job"; exit 130' INT
	trap '[ -z "$job" ] || kill "$job"; exit 143' TERM
	pass=1
	while :; do
		IBLT_AUDIT_PASS=1 sh "$0" "$@" > "$kept" &
		job=$!
		wait "$job"
		status=$?
		[ "$status" != 0 ] || break
		printf '%s: that was pass %s, which ended at %s\n' "${0##*/}" "$pass" "$(date -u '+%Y-%m-%d %H:%M:%S UTC')" >&2
		# what has no answer at first will have none
		[ "$status:$pass" != 4:1 ] || break
		pass=$((pass + 1))
		sleep "$watch" &
		job=$!
		wait "$job"
	done
	cat "$kept"
	[ "$status" = 0 ] || leave 2
	exit 0
fi

export PGCLIENTENCODING=UTF8 PGCONNECT_TIMEOUT="${PGCONNECT_TIMEOUT:-10}" PGAPPNAME="${PGAPPNAME:-iblt-audit}"

# ask SCRIPT ARGUMENT ...: in a subshell, which becomes psql.
ask() {
	statement=$1
	shift
	exec psql -X -q -A -t -w ${via:+-d "$via"} -v ON_ERROR_STOP=1 -v SHOW_CONTEXT=never -v form="$form" -v run="$run" "$@" <<SQL
SET search_path = pg_catalog, pg_temp;
SET standard_conforming_strings = on;
SET default_transaction_isolation = 'read committed';
-- if this script is killed, the server shall not go on for hours
SELECT set_config('client_connection_check_interval', '10s', false)
WHERE current_setting('server_version_num')::integer >= 140000 AND version() LIKE '%linux%' \g /dev/null
SELECT count(*) AS installed, max(quote_ident(n.nspname)) AS schema
FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'iblt_audit' \gset
-- a function of somebody else's in the extension's schema could fit a call better
SELECT count(*) > 0 AS lookalikes
FROM pg_proc p JOIN pg_extension e ON e.extnamespace = p.pronamespace AND e.extname = 'iblt_audit'
WHERE starts_with(p.proname, 'iblt_') AND NOT EXISTS (SELECT FROM pg_depend d JOIN pg_extension m ON m.oid = d.refobjid
	WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e' AND m.extname IN ('iblt', 'iblt_live', 'iblt_audit')) \gset
\if :lookalikes
\warn schema :schema has functions with names of iblt that are not of extension iblt
\elif :installed
$statement
\else
\warn extension iblt_audit is not installed in this database
\endif
SQL
}

# put_file FILE END: a file that psql wrote takes the place of the last one, if its last line begins so.
put_file() {
	case $1:$(tail -n 1 "$1.$$") in
	"$1:$2"*) mv -f "$1.$$" "$1" ;;
	*) rm -f "$1.$$" && false ;;
	esac || could_not_tell "$1 could not be written"
}

if [ "$function" = iblt_baseline ]; then
	saved=$(ask "SELECT :schema.iblt_baseline(${call#, }) AS baseline \\gset
\\o :save
\\qecho :baseline
\\o
\\echo saved" -v save="$baseline.$$" "$@") || { status=$?; rm -f "$baseline.$$"; no_answer "$status"; }
	[ "$saved" = saved ] || could_not_tell 'psql gave no complete answer'
	put_file "$baseline" '{"sha256"'
	exit 0
fi

before=
case $function in
iblt_audit_baseline)
	name="against $baseline"
	# the file does not go into a statement that fails, which the server would log
	export IBLT_BASELINE="$baseline"
	before="\\set baseline \`cat -- \"\$IBLT_BASELINE\"\`
SELECT set_config('iblt.baseline', :'baseline', false) \\g /dev/null
"
	audit=":schema.iblt_audit_baseline(current_setting('iblt.baseline'))" ;;
iblt_audit)
	# a page shows the first rows that differ
	[ -z "$page" ] || [ -n "$rows" ] || call="$call, \"rows\" => 'changed'"
	before="SELECT count(*) FROM :schema.iblt_audit(${call#, }) \\g /dev/null
"
	audit=":schema.iblt_audit_stats()" ;;
*) audit="(SELECT * FROM :schema.iblt_audit_table_stats WHERE run = :'run' ORDER BY table_number)" ;;
esac
# A run gets its number before anybody works on it.  The session that begins it works on it, too.
work="CALL :schema.iblt_audit_resume(:'run'$resume);
"
first=$work
[ "$function" != iblt_audit_run ] || first="CALL :schema.iblt_audit_run(${call#, }, max_time => '0', progress => false) \\gset
\\warn :begun :run
\\o :number
\\qecho :run
\\o
$work"

files=
sessions=
failed=0
case $function in
iblt_audit_r*)
	files=$(mktemp -d) || could_not_tell 'mktemp made no directory'
	set -- -v number="$files/number" -v begun="${0##*/}: run" "$@"
	# a signal ends the sessions, too
	trap 'rm -rf "$files"' EXIT
	trap '[ -z "$sessions" ] || kill $sessions; exit 129' HUP
	trap '[ -z "$sessions" ] || kill $sessions; exit 130' INT
	trap '[ -z "$sessions" ] || kill $sessions; exit 143' TERM ;;
esac
case $function:$jobs in
iblt_audit_r*:1) before=$first ;;
iblt_audit_r*)
	(ask "$first" "$@") >&2 &
	sessions=$!
	while [ -z "$run" ]; do
		sleep 0.1
		run=$(cat "$files/number" 2>/dev/null)
		[ -n "$run" ] || kill -0 "$sessions" 2>/dev/null || break
	done
	case $run in
	'' | *[!0-9]*)
		wait "$sessions"
		no_answer $? ;;
	esac
	n=1
	while [ "$n" -lt "$jobs" ]; do
		n=$((n + 1))
		(ask "$work" "$@") >&2 &
		sessions="$sessions $!"
	done
	for session in $sessions; do
		wait "$session" || failed=$((failed + 1))
	done
	sessions=
	# what the others did not end, its verdict shows
	[ "$failed" -lt "$n" ] || could_not_tell "no session has ended without an error; see --resume $run" ;;
esac

# One statement gives the whole answer, which is shown between a first and a last line that
# nothing else could write; without both, there is none.
report="SELECT :schema.iblt_audit_report(tables, f.form, coalesce(f.name, nullif(:'name', '')), nullif(:'subscription', ''),
	nullif(:'peer', ''), nullif(:'run', '')::bigint, structure, nullif(:'here', ''), nullif(:'accepted', ''))"
structure="NULL::json"
[ -z "$all" ] || structure="(SELECT coalesce(json_agg(row_to_json(s)), '[]') FROM :schema.iblt_audit_structure(:'peer', nullif(:'schema_name', ''), nullif(:'peer_schema', ''), rights => :'rights', here_peer => nullif(:'here', '')) AS s)"
answer() {
	ask "${before}\\set accepted \`cat -- \"\${IBLT_ACCEPTED:-/dev/null}\"\`
WITH audit AS MATERIALIZED (
	SELECT coalesce(json_agg(row_to_json(t)), '[]') AS tables, $structure AS structure FROM $audit AS t
), report AS MATERIALIZED (
	SELECT tables, structure, :schema.iblt_audit_report(tables, 'verdict', structure => structure, accepted => nullif(:'accepted', '')) AS verdict FROM audit
)
SELECT verdict, ($report FROM (VALUES (:'form', NULL)) AS f(form, name)) AS answer,
	CASE WHEN verdict <> 'equal' AND :'form' <> 'nagios' THEN ($report FROM (VALUES ('summary', NULL)) AS f(form, name)) END AS summary,
	CASE WHEN :'metrics' <> '' THEN ($report FROM (VALUES ('prometheus', :'label')) AS f(form, name)) END AS series,
	CASE WHEN :'page' <> '' THEN ($report FROM (VALUES ('html', NULL)) AS f(form, name)) END AS html
FROM report \\gset
\\if :{?series}
	\\o :metrics
	\\qecho :series
	\\o
\\endif
\\if :{?html}
	\\o :page
	\\qecho :html
	\\o
\\endif
\\if :{?summary}
	\\warn :summary
\\endif
\\echo verdict :verdict
\\echo :answer
\\echo end of answer" -v name="$name" -v peer="$peer" -v here="$here" -v subscription="$subscription" -v schema_name="$schema" -v peer_schema="$peer_schema" -v rights="${rights:-true}" -v metrics="${metrics:+$metrics.$$}" -v label="${label-}" \
	-v page="${page:+$page.$$}" "$@"
}
if [ -n "$files" ]; then
	(answer "$@") >"$files/answer" &
	sessions=$!
	wait "$sessions" || no_answer $?
	sessions=
	answer=$(cat "$files/answer")
else
	answer=$(answer "$@") || no_answer $?
fi

case $answer in
"verdict equal$newline"*"${newline}end of answer") status=0 ;;
"verdict differs$newline"*"${newline}end of answer") status=1 ;;
"verdict unknown$newline"*"${newline}end of answer") status=2 ;;
*) could_not_tell 'psql gave no complete answer' ;;
esac
[ -z "$metrics" ] || put_file "$metrics" iblt_audit_tables_left_out
[ -z "$page" ] || put_file "$page" '</body></html>'
answer=${answer#*"$newline"}
printf '%s\n' "${answer%"$newline"*}" || leave 2
leave "$status"
