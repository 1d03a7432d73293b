# assemble.awk
#	awk -f sql/assemble.awk sql/pinned_settings sql/take_failure PART ... > SCRIPT
#
# Puts the parts of the script together, and writes in place of
#
# @pinned_settings@	that file: the settings that a driver pins, because SET clauses cannot share
#			a list
# @take_failure@;	that file: what the handler of a driver keeps of an error, which only the
#			handler itself can ask for
# @arguments TYPE@	a value of that composite type.  Each field is the argument or variable of
#			the function with the name of the field.  If the function has none, the field is what
#			iblt_compare has by default, or else null.
#
# A field of such a type, and an argument or variable of such a function, begins a line of its own.

function row_of(type,    field, n, i, row, value) {
	n = split(fields[type], field)
	for (i = 1; i <= n; i++) {
		value = field[i] in named ? field[i] : by_default[field[i]]
		row = row (i > 1 ? ", " : "") (value != "" ? value : "NULL")
	}
	return "ROW(" row ")::iblt_internal." type
}

FILENAME ~ /pinned_settings$/ { pinned = pinned $0 "\n"; next }
FILENAME ~ /take_failure$/ { failure = failure $0 "\n"; next }
/@pinned_settings@/ { printf "%s", pinned; next }
/@take_failure@;/ { printf "%s", failure; next }

/^CREATE / {
	split("", named)
	type = $2 == "TYPE" ? $3 : ""
	model = $3 ~ /\.iblt_compare\($/
}

/^\t"?[a-z_]+"? / {
	named[$1]
	if (type)
		fields[type] = fields[type] " " $1
	if (model && match($0, / DEFAULT .*[^,)]/))
		by_default[$1] = substr($0, RSTART + 9, RLENGTH - 9)
}

!/^--/ && match($0, /@arguments [a-z_]+@/) {
	$0 = substr($0, 1, RSTART - 1) row_of(substr($0, RSTART + 11, RLENGTH - 12)) \
		substr($0, RSTART + RLENGTH)
}

{ print }
