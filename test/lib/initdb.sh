#!/usr/bin/env bash
# initdb.sh OPTION ...
#	What test files with servers of their own find as initdb in PATH.  It copies a
#	data directory that initdb has made before with the same options, which takes
#	a tenth of the time.  INITDB_COPIES has these directories.  The first server of
#	a test file (TESTDIR) gets the first copy, the second server another one, and so
#	on: no two servers of a test have the same system identifier, by which the
#	extension recognizes a standby.  In copies for INITDB_SQL, the database postgres
#	has what that SQL makes, and the file "prepared" says so.

set -euo pipefail

initdb=$("$PG_CONFIG" --bindir)/initdb
data=
options=
previous=
for argument in "$@"; do
	case $previous:$argument in
	-D:* | --pgdata:*) data=$argument ;;
	*:--pgdata=*) data=${argument#*=} ;;
	*) options+=" $argument" ;;
	esac
	previous=$argument
done
[ -n "$data" ] || exec "$initdb" "$@"

number=1
until mkdir "$TESTDIR/server-$number" 2>/dev/null; do number=$((number + 1)); done
mkdir -p "$INITDB_COPIES"

# make TEMPLATE COMMAND ...: the command makes TEMPLATE.new, if there is no TEMPLATE yet.
# The files that start together wait for the one that does.
make() {
	local template=$1
	shift
	exec 9>"$template.lock"
	flock 9
	if [ ! -d "$template" ]; then
		rm -rf "$template.new"
		"$@" "$template.new" 9>&-
		mv "$template.new" "$template"
	fi
	exec 9>&-
}

new() {
	"$initdb" "${@:1:$#-1}"
	mv "$data" "${!#}"
}

prepared() {
	cp -Rp "$1" "$2"
	# A standalone backend would take OIDs of system objects, which are not dumped.
	"${initdb%/*}/pg_resetwal" -o 16384 -D "$2"
	echo "$INITDB_SQL" | "${initdb%/*}/postgres" --single -j -D "$2" -c fsync=off -c exit_on_error=on postgres
	touch "$2/prepared"
}

template=$INITDB_COPIES/${options//[^A-Za-z0-9]/_}-$number
make "$template" new "$@"
if [ -n "${INITDB_SQL-}" ]; then
	plain=$template
	template+=-$(echo "$INITDB_SQL" | md5sum | cut -c 1-8)
	make "$template" prepared "$plain"
fi
mkdir -p -m 700 "$data"
cp -Rp "$template/." "$data/"
