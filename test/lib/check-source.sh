#!/usr/bin/env bash
# check-source.sh
#	The rules that the source keeps, as TAP:
#	- src/core includes C99's headers, xxHash's and its own, nothing else;
#	- src/core takes no memory and reports nothing by itself;
#	- no function in C is longer than 60 lines, no body in SQL longer than 120, and no
#	  file longer than 500;
#	- each extension's script sets its path first, and names the schema that users call only where it makes what is there;
#	- what is parsed when an extension is created has no backslash in its constants;
#	- no line of SQL is longer than 100 columns, and all SQL is ASCII;
#	- every function of iblt_internal has a comment above it;
#	- handlers in SQL for all errors are written by assemble.awk;
#	- rooms of SQL call the rooms below them only, and doc/internals/protocol.md lists the questions;
#	- messages in SQL that are not errors are sent by iblt_tell;
#	- the settings of iblt, at most four, are in a table of doc/internals/walk.md;
#	- the faults of test/mutants quote lines that the source has.

set -euo pipefail
# shellcheck source=test/lib/tap.sh
. "$(dirname "$0")/tap.sh"
cd "$(dirname "$0")/../.."

shopt -s nullglob
MAX_FUNCTION=60
MAX_BODY=120
MAX_FILE=500
MAX_LINE=100

# result TEXT PROBLEMS: one test, passed if there are no problems.
result() { verdict "$1" ${#2} "$2"; }

# Includes that have no place in the core.
foreign_includes() {
	local file line name
	for file in src/core/*.[ch]; do
		while read -r line; do
			name=$(sed -E 's/.*[<"]([^">]*)[">].*/\1/' <<<"$line")
			case "$line" in
			*'"'*) if [ -e "src/core/${name#core/}" ]; then continue; fi ;;
			*) case "$name" in
				assert.h | inttypes.h | limits.h | math.h | stdbool.h | stddef.h | stdint.h | string.h | xxhash.h | immintrin.h) continue ;;
				esac ;;
			esac
			echo "$file: $line"
		done < <(grep -E '^[[:space:]]*#[[:space:]]*include' "$file" || true)
	done
}

# Calls that have no place in the core; comments do not count.
foreign_calls() {
	local file
	for file in src/core/*.[ch]; do
		gcc -fpreprocessed -dD -E -P "$file" 2>/dev/null |
			grep -nE '\b(palloc|palloc0|repalloc|pfree|malloc|calloc|realloc|free|alloca|ereport|elog|errmsg|printf|fprintf|exit|abort|PG_[A-Z_]+)[[:space:]]*\(' |
			sed "s|^|$file: |" || true
	done
}

# Functions over the limit: from a "{" in the first column after a line that
# ends a parameter list, to the next "}" there.
long_functions() {
	awk -v max="$MAX_FUNCTION" '
		FNR == 1 { inside = 0; previous = "" }
		/^\{/ && previous ~ /\)[ \t]*$/ { inside = FNR; name = previous }
		/^\}/ && inside {
			if (FNR - inside - 1 > max)
				printf "%s:%d: %d lines: %s\n", FILENAME, inside, FNR - inside - 1, name
			inside = 0
		}
		/[^ \t]/ { previous = $0 }' "$@"
}

# Bodies of functions in SQL over the limit: from "AS $$" to "$$;".
long_bodies() {
	awk -v max="$MAX_BODY" '
		/^CREATE FUNCTION / { name = $3 }
		/^AS \$\$$/ { inside = FNR }
		/^\$\$;/ && inside {
			if (FNR - inside - 1 > max)
				printf "%s:%d: %d lines: %s\n", FILENAME, inside, FNR - inside - 1, name
			inside = 0
		}' "$@"
}

# Functions without a COMMENT ON, which only users' functions have, and without a line
# above them.
uncommented() {
	awk '
		FNR == 1 { previous = "" }
		/^CREATE FUNCTION / && $3 !~ /^@extschema@/ && previous !~ /^--/ { printf "%s:%d: %s\n", FILENAME, FNR, $3 }
		{ previous = $0 }' "$@"
}

# The first part of each extension's script.
heads() {
	local control
	for control in *.control; do
		sed -nE "s|^SQL_PARTS_${control%.control} = ([a-z_/]+).*|sql/\\1.sql|p" Makefile
	done
}

# Everything before the path of a script is set, which is set once, and bodies that name the schema
# that users call.
trusts_names() {
	awk -v heads="$(heads | xargs)" '
		BEGIN { n = split(heads, names, " "); for (i = 1; i <= n; i++) head[names[i]] }
		FNR == 1 { inside = 0 }
		(FILENAME in head) && !(FILENAME in set) && /^[A-Z]/ && !/^SET LOCAL search_path = [a-z]+_internal, pg_temp;$/ {
			printf "%s:%d: before the path is set: %s\n", FILENAME, FNR, $0
		}
		/^SET LOCAL search_path/ { if (FILENAME in set || !(FILENAME in head)) printf "%s:%d: another path\n", FILENAME, FNR; set[FILENAME] }
		/^(AS|DO) \$[a-z]*\$$/ { inside = 1 }
		inside && /@extschema@/ { printf "%s:%d: names the schema that users call: %s\n", FILENAME, FNR, $0 }
		/\$[a-z]*\$;$/ { inside = 0 }
		END { for (name in head) if (!(name in set)) print name ": the path is not set" }' "$@"
}

# Bodies that are bound when the extension is created, with a backslash in a constant.  Where
# standard_conforming_strings is off, it would mean something else.
bound_backslashes() {
	awk '
		/^\t(RETURN |BEGIN ATOMIC)/ { inside = 1 }
		inside { line = $0; gsub(/E\047[^\047]*\047/, "", line); if (line ~ /\\/) printf "%s:%d: %s\n", FILENAME, FNR, $0 }
		/;$/ { inside = 0 }' "$@"
}

# Lines over the limit, where a tab stands for four columns.
long_lines() {
	awk -v max="$MAX_LINE" '
		{ line = $0; gsub(/\t/, "    ", line) }
		length(line) > max { printf "%s:%d: %d columns\n", FILENAME, FNR, length(line) }' "$@"
}

# Messages of RAISE: the log would show the statement with them, in which a connection string may be.
raised_messages() {
	grep -nE '^[^-]*\bRAISE (DEBUG|LOG|INFO|NOTICE|WARNING)\b' "$@" || true
}

# Handlers for all errors that assemble.awk does not write: each would forget a condition of its own.
handmade_handlers() {
	grep -nE 'WHEN .*\b(OTHERS|query_canceled|assert_failure)\b|^[^-]*\bOR (OTHERS|query_canceled|assert_failure)\b' "$@" || true
}

# Settings that are global variables: those of the source and those of the table, and any above four.
settings() {
	local used
	used=$(grep -ohE "['\"]iblt\.[a-z_]+['\"]" "$@" | tr -d "'\"" | grep -vx 'iblt\.h' | sort -u)
	diff <(echo "$used") <(sed -nE 's/^\| `(iblt\.[a-z_]+)` \|.*/\1/p' doc/internals/walk.md | sort -u) || true
	sed -n '5,$p' <<<"$used"
}

long_files() {
	awk -v max="$MAX_FILE" '
		FNR > max && !(FILENAME in seen) { seen[FILENAME] = 1; print FILENAME }' "$@"
}

if ! compgen -G 'src/core/*.c' >/dev/null; then
	echo "not ok 1 - there is a src/core"
	echo "1..1"
	exit 1
fi
sources=(src/*.[ch] src/*/*.[ch])
scripts=(sql/*[a-z].sql sql/*/*.sql)	# not those that are built
result "src/core includes only C99 headers, xxhash.h and its own" "$(foreign_includes)"
result "src/core takes no memory and reports nothing" "$(foreign_calls)"
result "no function is longer than $MAX_FUNCTION lines" "$(long_functions "${sources[@]}")"
result "no source file is longer than $MAX_FILE lines" "$(long_files "${sources[@]}")"
result "no body of a function in SQL is longer than $MAX_BODY lines" "$(long_bodies "${scripts[@]}")"
result "every extension has a script of its own" "$(diff <(ls ./*.control | wc -l) <(heads | wc -l))"
result "the scripts and bodies take no name from the schema that users call" "$(trusts_names "${scripts[@]}")"
result "no body that is bound has a backslash" "$(bound_backslashes "${scripts[@]}")"
result "no line of SQL is longer than $MAX_LINE columns" "$(long_lines "${scripts[@]}")"
result "the settings of iblt, at most four, are those of doc/internals/walk.md" "$(settings "${sources[@]}" "${scripts[@]}")"
# CREATE EXTENSION would fail in a database whose encoding lacks the character
result "all SQL is ASCII" "$(LC_ALL=C grep -nP '[^\x00-\x7F]' "${scripts[@]}" || true)"
# standard_conforming_strings is the session's there, and may be off
result "no body that CREATE EXTENSION reads has a backslash" \
	"$(awk '/^\tRETURN / { on = 1 } on && /\\/ && !/E\047/ { print FILENAME ":" FNR ": " $0 } /;$/ { on = 0 }' "${scripts[@]}")"
internal_scripts=()
for script in "${scripts[@]}"; do
	case $script in sql/sketch/* | sql/kbf/*) ;; *) internal_scripts+=("$script") ;; esac
done
result "every function of iblt_internal has a comment above it" "$(uncommented "${internal_scripts[@]}")"
result "no handler for all errors is written by hand" "$(handmade_handlers "${scripts[@]}")"
result "iblt_tell sends all messages below errors" "$(raised_messages "${scripts[@]}")"
result "rooms of sql call downwards only, and protocol.md lists the questions" "$(perl test/lib/rooms.pl 2>&1)"
result "no file of SQL is longer than $MAX_FILE lines" "$(long_files "${scripts[@]}")"
result "the faults that tests must notice fit the source" "$(test/mutants/run --check 2>&1 >/dev/null)"
done_testing
