#!/usr/bin/env bash
# tree_hashes.sh DIRECTORY
#	Prints one line for COPY for each regular file and symbolic link below DIRECTORY:
#	its path and its contents, both as bytea.  The contents are a file's SHA-256, or
#	"-> " and a link's target.  doc/applications/files.md shows how to compare two trees with it.
#
#	A name may have any bytes.  The exit status is 0 only if everything could be read.
#	Otherwise do not use the output: files are missing from it.

set -euo pipefail
export LC_ALL=C

if [ $# -ne 1 ]; then
	echo "usage: tree_hashes.sh DIRECTORY" >&2
	exit 2
fi
cd -- "$1"

# Paths begin with "./", and all records end with a NUL.
find . -type f -print0 | xargs -0 -r sha256sum -z -- |
	perl -0 -ne 'chomp; print "\\\\x", unpack("H*", substr($_, 68)), "\t\\\\x", substr($_, 0, 64), "\n"'

find . -type l -printf '%P\0-> %l\0' |
	perl -0 -ne 'chomp; print "\\\\x", unpack("H*", $_), $. % 2 ? "\t" : "\n"'
