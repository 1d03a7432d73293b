#!/usr/bin/env bash
# check-build.sh DIRECTORY
#	Building as packagers do, as TAP, in a new DIRECTORY:
#	- a build outside the source directory, with clang and warnings as errors,
#	  installs the same files as one inside, and removes them again;
#	- the files of src do not use one another in a circle, by the objects of that
#	  build;
#	- the installed documentation is complete, and its links lead somewhere;
#	- SQL tests run from there, if PGHOST names a server, and so do TAP tests;
#	- "make dist" makes an archive of the sources.
#	PG_CONFIG chooses the server.

# shellcheck disable=SC2317 # "passed" calls the functions

set -euo pipefail
# shellcheck source=test/lib/tap.sh
. "$(dirname "$0")/tap.sh"
top=$(cd "$(dirname "$0")/../.." && pwd)
dir=$1
source=$dir/source

# make in the build directory, of the sources elsewhere.  Nothing runs what this
# build makes, and clang's warnings do not depend on optimization.  Assertions are on,
# because only then does the compiler see them.
outside() {
	make -s -C "$dir/build" -f ../source/Makefile PG_CONFIG="$PG_CONFIG" CC=clang WERROR=1 \
		COPT='-O0 -DUSE_ASSERT_CHECKING' BITCODE_CFLAGS=-O0 "$@"
}

# The build inside takes over the bitcode of the build outside, for it takes as long as
# all other files together.  One file is left to make.
lend_bitcode() {
	local file
	(cd "$dir/build" && find src -name '*.bc' | sort | tail -n +2) | while read -r file; do
		cp "$dir/build/$file" "$top/$file"
	done
}

nothing_in() {
	local found
	found=$(find "$@" 2>&1) || true
	echo "$found"
	[ -z "$found" ]
}

files_of() { (cd "$1" && find . -type f | sort); }

same_files() {
	files_of "$1" >"$dir/files"
	files_of "$2" | diff "$dir/files" -
}

# Every page and figure is beside the installed README.
documentation_whole() {
	local readme
	readme=$(find "$1" -name README.md)
	[ -n "$readme" ] && diff -r "$source/doc" "$(dirname "$readme")/doc"
}

# Prints the relative links in the installed pages that lead nowhere.
links_lead_somewhere() {
	local page link rc=0
	while read -r page; do
		while read -r link; do
			case $link in '' | http*:* | \#*) continue ;; esac
			if [ ! -e "$(dirname "$page")/${link%%#*}" ]; then
				echo "$page: $link"
				rc=1
			fi
		done <<<"$(grep -oE '\]\([^) ]+\)' "$page" | sed -E 's/^..(.*).$/\1/')"
	done <<<"$(find "$1" -name '*.md')"
	return $rc
}

# The targets of make and the files that CONTRIBUTING.md names exist.
contributing_is_current() {
	local page=$source/CONTRIBUTING.md word rc=0
	[ -s "$page" ] || return
	# shellcheck disable=SC2013 # words are meant
	for word in $(grep -oE '\bmake [a-z][a-z-]*' "$page" | sed 's/.* //' | sort -u); do
		make -s -n -C "$source" PG_CONFIG="$PG_CONFIG" "$word" >/dev/null || rc=1
	done
	for word in $(grep -oE '\b(test|doc|sql|src|bin|expected)/[A-Za-z0-9_./-]*[a-z]' "$page" | grep -vE 'NAME|OLD' | sort -u); do
		if [ ! -e "$source/$word" ]; then echo "$word is missing"; rc=1; fi
	done
	return $rc
}

# The installation below $1 has the program $2 where pg_config says.
is_program() { [ -x "$1$("$PG_CONFIG" --bindir)/$2" ]; }

tells_no_directory() { [ -n "$(ls "$dir"/build/*.so)" ] && ! grep -c "$dir" "$dir"/build/*.so; }

refuses_built_source() {
	local rc=0
	touch "$dir/other/src/sketch/agg.o"
	mkdir "$dir/refused"
	make -s -C "$dir/refused" -f ../other/Makefile PG_CONFIG="$PG_CONFIG" >"$dir/refused.log" 2>&1 || rc=$?
	cat "$dir/refused.log"
	[ $rc -ne 0 ] && grep -q 'run "make clean" there first' "$dir/refused.log"
}

# With an "id" that says root, "make installcheck" ends with one sentence.
refuses_root() {
	local rc=0
	mkdir "$dir/root"
	printf '#!/bin/sh\necho 0\n' >"$dir/root/id"
	chmod +x "$dir/root/id"
	PATH=$dir/root:$PATH outside installcheck >"$dir/root/log" 2>&1 || rc=$?
	cat "$dir/root/log"
	[ $rc -ne 0 ] && [ "$(grep -vc '^make' "$dir/root/log")" -eq 1 ] &&
		grep -q 'run them as another user, or run the SQL tests alone with' "$dir/root/log"
}

# The archive has every file of the repository except .gitignore and the like.
archive_holds_sources() {
	local git=(git -c user.name=iblt -c user.email=iblt@localhost -c commit.gpgsign=false)
	(
		cd "$dir/other"
		"${git[@]}" init -q
		"${git[@]}" add -A
		"${git[@]}" commit -q -m all
		make -s dist PG_CONFIG="$PG_CONFIG"
		diff <(git ls-files | grep -vE '^\.(ci/|git)' | sort) \
			<(python3 -m zipfile -l build/iblt-*.zip | sed -nE 's|^iblt-[0-9.]+/([^ ]*[^ /]) .*|\1|p' | sort)
	)
}

mkdir "$dir" "$dir/build"
cp -r "$top" "$source"
make -s -C "$source" clean PG_CONFIG="$PG_CONFIG"
cp -r "$source" "$dir/other"
chmod -R a-w "$source"

passed "a build outside the source directory, with clang, without warnings" outside -j2 all
passed "its library does not tell in which directory it was built" tells_no_directory
passed "xxHash compiles with -Og, as developers of PostgreSQL build it" \
	outside CC=gcc COPT=-Og -B src/codec/checksum.o
passed "no files use one another in a circle" "$top/test/lib/circles.sh" "$dir/build/src"
passed "nor do the directories of src" "$top/test/lib/circles.sh" "$dir/build/src" directories
passed "it installs" outside install DESTDIR="$dir/outside"
lend_bitcode
make -s -C "$top" install PG_CONFIG="$PG_CONFIG" DESTDIR="$dir/inside"
passed "the same files as a build inside" same_files "$dir/inside" "$dir/outside"
passed "the documentation is complete" documentation_whole "$dir/outside"
passed "its links lead somewhere" links_lead_somewhere "$dir/outside"
passed "what CONTRIBUTING.md names exists" contributing_is_current
passed "iblt-audit is a program beside the server's own" is_program "$dir/outside" iblt-audit
passed "it uninstalls" outside uninstall DESTDIR="$dir/outside"
passed "no file is left" nothing_in "$dir/outside" -type f
passed "no directory of iblt is left" nothing_in "$dir/outside" -name iblt
if [ -n "${PGHOST-}" ]; then
	passed "SQL tests run outside the source directory" outside installcheck REGRESS=type
else
	skipped "SQL tests run outside the source directory" "no server"
fi
if [ "$(id -u)" -ne 0 ] && [ -d "$(dirname "$("$PG_CONFIG" --pgxs)")/../test/perl/PostgreSQL" ]; then
	passed "TAP tests run outside the source directory" outside installcheck PROVE_TESTS=test/t/148_floors.pl
else
	skipped "TAP tests run outside the source directory" "they need PostgreSQL's Perl modules and a user other than root"
fi
passed "root is told that TAP tests do not run as root" refuses_root
passed "it cleans up" outside clean
passed "no file or directory is left" nothing_in "$dir/build" -mindepth 1
passed "sources that were built in are refused" refuses_built_source
rm "$dir/other/src/sketch/agg.o"
if command -v git >/dev/null; then
	passed "the archive has the sources and nothing else" archive_holds_sources
else
	skipped "the archive has the sources and nothing else" "git is missing"
fi
chmod -R u+w "$source"
done_testing
