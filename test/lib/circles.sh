#!/usr/bin/env bash
# circles.sh OBJECTS [directories]
#	Which .c files use one another in a circle?  Prints a line for each circle
#	that it finds, such as "core/cell.c -> core/meter.c -> core/cell.c", and fails
#	if there is one.  Reads the symbols of the object files below OBJECTS: a file
#	uses another one if that defines a symbol which it leaves undefined.  With
#	"directories" the same between the directories of the files.

set -euo pipefail
cd "$1"
unit=${2:-files}

# One line "user used" for each pair of files.
uses() {
	find . -name '*.o' -print0 | xargs -0 nm -A -g | sed -E 's|^\./||; s|\.o:| |' | awk '
		{ file = $1 ".c"; kind = $(NF - 1); symbol = $NF }
		kind == "U" { needs[file, symbol] = 1; next }
		{ home[symbol] = file }
		END {
			for (pair in needs) {
				split(pair, part, SUBSEP)
				if (part[2] in home && home[part[2]] != part[1])
					print part[1], home[part[2]]
			}
		}' | sort -u
}

# The same lines for directories; "." is where OBJECTS are themselves.
directories() {
	awk '
		{ for (i = 1; i <= 2; i++) if (!sub(/\/[^\/]*$/, "", $i)) $i = "." }
		$1 != $2' | sort -u
}

# Walks along the uses; a file that is met again on the way to itself closes a circle.
circles() {
	awk '
		function visit(file,   i, used, names) {
			state[file] = "on the way"
			way[++depth] = file
			names = split(uses_of[file], used, " ")
			for (i = 1; i <= names; i++) {
				if (state[used[i]] == "on the way")
					show(used[i])
				else if (state[used[i]] == "")
					visit(used[i])
			}
			depth--
			state[file] = "done"
		}
		function show(file,   i, line) {
			for (i = depth; way[i] != file; i--)
				line = " -> " way[i] line
			print file line " -> " file
			found = 1
		}
		{ uses_of[$1] = uses_of[$1] " " $2; order[NR] = $1 }
		END {
			for (n = 1; n <= NR; n++)
				if (state[order[n]] == "")
					visit(order[n])
			if (NR == 0)
				print "no file uses another one: are these the objects?"
			exit NR == 0 || found
		}'
}

case $unit in
files) uses | circles ;;
directories) uses | directories | circles ;;
*) echo "usage: circles.sh OBJECTS [directories]" >&2; exit 2 ;;
esac
