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
if [ -d "$template" ]; then
	mkdir -p -m 700 "$data"
	cp -Rp "$template/." "$data/"
	exit
fi

"$initdb" "$@"
# If another file was faster, rename fails, and either template will do.
copy=$template.$$
mkdir -p "$INITDB_COPIES"
cp -Rp "$data" "$copy"
perl -e 'exit !rename($ARGV[0], $ARGV[1])' "$copy" "$template" || rm -rf "$copy"
