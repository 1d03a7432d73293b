#!/usr/bin/env bash
# initdb.sh OPTION ...
#	What the files of test/t find as initdb in PATH.  It copies a data directory
#	that initdb has made before with the same options, which takes a tenth of the
#	time.  The first server of a file gets the first copy, the second one another,
#	and so on: two servers of a test never have the same system identifier, by which
#	the extension recognizes a standby.

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
template=$IBLT_WORK/initdb/${options//[^A-Za-z0-9]/_}-$number
if [ -d "$template" ]; then
	cp -Rp "$template" "$data"
	exit
fi

"$initdb" "$@"
# If another file was faster, rename fails, and either template will do.
copy=$template.$$
mkdir -p "$IBLT_WORK/initdb"
cp -Rp "$data" "$copy"
perl -e 'exit !rename($ARGV[0], $ARGV[1])' "$copy" "$template" || rm -rf "$copy"
