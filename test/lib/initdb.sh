#!/usr/bin/env bash
# initdb.sh OPTION ...
#	What test files with servers of their own find as initdb in PATH.  It copies a
#	data directory that initdb has made before with the same options, which takes
#	a tenth of the time.  INITDB_COPIES has these directories.  The first server of
#	a test file (TESTDIR) gets the first copy, the second server another one, and so
#	on: no two servers of a test have the same system identifier, by which the
#	extension recognizes a standby.

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
template=$INITDB_COPIES/${options//[^A-Za-z0-9]/_}-$number
mkdir -p "$INITDB_COPIES"
# The files that start together wait for the one that makes the copy.
exec 9>"$template.lock"
flock 9
if [ ! -d "$template" ]; then
	"$initdb" "$@" 9>&-
	rm -rf "$template.new"
	cp -Rp "$data" "$template.new"
	mv "$template.new" "$template"
	exit
fi
exec 9>&-
mkdir -p -m 700 "$data"
cp -Rp "$template/." "$data/"
