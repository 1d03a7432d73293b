# assemble.awk
#	awk -f sql/assemble.awk sql/pinned_settings sql/take_failure sql/failed_driver sql/user_trigger sql/replication \
#		sql/value_type sql/moving_aggregate read_only=1 PART ... read_only=0 PART ... > SCRIPT
#
# Puts the parts of a script together.  It reads the first ones for their types and defaults only, as
# they may be in another extension's script.  It writes in place of
#
# @pinned_settings@	that file: the settings that a driver pins, because SET clauses cannot share
#			a list.  Its first statement is a call of iblt_guard, until it ends.
# @driver CONNS; SECRET@
#			the same for a driver that begins nothing again.  Its statements get the handler in
#			the file failed_driver, which closes these connections and tells the error, without
#			the statement if that is secret
# @take_failure@;	that file: what the handler of a driver keeps of an error, which only the
#			handler itself can ask for
# @user_trigger@	that file: the condition that row t of pg_trigger is a trigger of a user, for queries
#			that a server without iblt is asked, too
# @replication@		that file: fields of a JSON object that tell what replicates a relation, whose parts
#			are the members of tree, for both kinds of servers, too
# @value_type TYPE; SCHEMA; SYMBOL; THING@
#			that file: a type whose values are validated bytes, its functions in a schema, its
#			casts and operators.  The functions of the operators have symbols that begin with
#			SYMBOL.  Messages call a value THING.
# @moving_aggregate NAME; SPACE@
#			that file: the parts of an aggregate that can also be a window function
# @own@			nothing, and the statement after it a second time, in the schema of the script
# @on_any_error@	the condition of a handler for all errors.  OTHERS leaves out a cancel and
#			a failed ASSERT, and a peer chooses the SQLSTATE of its errors.
# @on_error@		the same without a cancel of this side, which ends the statement
# @arguments TYPE@	a value of that composite type.  Each field is the argument or variable of
#			the function with the name of the field.  If the function has none, the field is what
#			iblt_compare has by default, or else null.
# @each TYPE: TEXT@	the text for each field of that type, whose name stands for every % in it.
# @FUNCTION: NAME ...@	in the head of a function, on a line of its own: the arguments of these names, with
#			the types and defaults that a function of users before it gives them
#
# A field of such a type, and an argument or variable of such a function, begins a line of its own.

# The text for each field of a type, with the name in place of %, or the value for a driver.
function each(type, text, separator, valued,    field, n, i, value, one, all) {
	n = split(fields[type], field)
	for (i = 1; i <= n; i++) {
		value = field[i]
		if (valued && !(value in named)) {
			if (head ~ ("[(,][ ]*(IN |INOUT )?" value " ")) {
				print "error: argument " value " of " name " does not begin a line" >"/dev/stderr"
				exit 1
			}
			value = value in by_default ? by_default[value] : "NULL"
		}
		one = text
		gsub(/%/, value, one)
		all = all (i > 1 ? separator : "") one
	}
	return all
}

# Writes text, and at the end of a statement that is to be made twice, its second form.
function put_out(text) {
	printf "%s", text
	if (!twice)
		return
	statement = statement text
	if (text ~ /;\n$/) {
		sub(/@extschema@\./, "", statement)
		printf "\n%s", statement
		statement = ""
		twice = 0
	}
}

# The line with a text in place of what match() has found.
function put(text) {
	return substr($0, 1, RSTART - 1) text substr($0, RSTART + RLENGTH)
}

# A shared file, with these values in place of the names that its first line lists.
function filled(file, values,    text, names, name, value, i) {
	text = shared[file]
	names = substr(text, 1, index(text, "\n") - 1)
	text = substr(text, length(names) + 2)
	split(values, value, "; ")
	for (i = split(names, name); i > 0; i--)
		gsub("\\$" name[i], value[i], text)
	return text
}

FILENAME !~ /\.sql$/ {
	file = FILENAME
	sub(/^.*\//, "", file)
	shared[file] = (shared[file] == "" ? "" : shared[file] "\n") $0
	next
}
!read_only && match($0, /^@(value_type|moving_aggregate) /) {
	put_out(filled(substr($0, 2, RLENGTH - 2), substr($0, RLENGTH + 1, length - RLENGTH - 1)) "\n")
	next
}
!read_only && /^@own@$/ { twice = 1; next }
!read_only && /@(pinned_settings|driver [^@]+)@/ {
	print shared["pinned_settings"]
	guarded = 1
	framed = match($0, /@driver [^@]+@/) ? substr($0, RSTART + 8, RLENGTH - 9) : ""
	next
}
!read_only && /@take_failure@;/ { print shared["take_failure"]; next }
!read_only && framed && /^END$/ {
	text = filled("failed_driver", framed)
	sub(/\t@take_failure@;/, shared["take_failure"], text)
	$0 = text "\n" $0
	framed = ""
}
{
	gsub(/@on_any_error@/, "query_canceled OR assert_failure OR OTHERS")
	gsub(/@on_error@/, "assert_failure OR OTHERS")
}

/^CREATE / {
	split("", named)
	head = ""
	name = $3
	in_head = 1
	type = $2 == "TYPE" ? $3 : ""
	delete fields[type]
	model = $3 ~ /^@extschema@\.[a-z_]+\($/ ? substr($3, 13, length($3) - 13) : ""
}

/^(RETURNS|AS|\tLANGUAGE)/ { in_head = 0 }
in_head && /^\t@[a-z_]+: / {
	n = split(substr($0, 3, length - 3), argument, /:? /)
	for (i = 2; i <= n; i++) {
		text = model_of[argument[1], argument[i]]
		if (text == "") {
			print "error: " argument[1] " has no default for " argument[i] >"/dev/stderr"
			exit 1
		}
		model_of[model, argument[i]] = text
		word = text
		sub(/ .*/, "", word)
		named[word]
		if (!read_only)
			print "\t" text ","
	}
	next
}
in_head { head = head $0 }

/^\t"?[a-z_]+"? / {
	named[$1]
	if (type)
		fields[type] = fields[type] " " $1
	if (model && match($0, / DEFAULT .*[^,)]/)) {
		word = $1
		gsub(/"/, "", word)
		model_of[model, word] = substr($0, 2, RSTART + RLENGTH - 2)
		if (model == "iblt_compare")
			by_default[$1] = substr($0, RSTART + 9, RLENGTH - 9)
	}
}

read_only { next }

/^--/ { print; next }

match($0, /@(user_trigger|replication)@/) { $0 = put(shared[substr($0, RSTART + 1, RLENGTH - 2)]) }

match($0, /@arguments [a-z_]+@/) {
	type_of = substr($0, RSTART + 11, RLENGTH - 12)
	$0 = put("ROW(" each(type_of, "%", ", ", 1) ")::iblt_internal." type_of)
}

match($0, /@each [a-z_]+: [^@]+@/) {
	split(substr($0, RSTART + 6, RLENGTH - 7), part, ": ")
	$0 = put(each(part[1], part[2], " "))
}

guarded && /^BEGIN$/ {
	$0 = "BEGIN PERFORM iblt_internal.iblt_guard();" (framed ? " DECLARE e failure; BEGIN" : "")
	guarded = 0
}

{ put_out($0 "\n") }
