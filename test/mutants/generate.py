"""Makes faults from the source as it is: candidates(tree) has all that there can be.

Each is one small change inside the body of one function: a condition is negated or never
true or loses an operand, a statement is dropped, an operator or a constant is swapped, or
the function returns early.
Nothing is changed in comments, strings, messages, costs, pauses and the release of
memory, where no test could notice it.

README.md beside this file says how they are chosen and tried.
"""
import hashlib
import os
import re

# No test can notice what these compute: costs, progress, times, names and texts in messages.
UNSEEN_FILES = r"prefetch\.h$|(?:interrupt|progress)\.[ch]$|_table\.h$|sql/compare/figures\.sql$"
UNSEEN_FUNCTIONS = r"cost|prefetch|pause|progress|hint|warn|patience|capacity_for|room|_ms$|refuse_|^warn_|_message$|_cause$|_show$|_titles?$|^sample_size$"
# Statements that only release, report, wait or measure.
UNSEEN_CALLS = (r"p?free|Assert\w*|StaticAssert\w*|CHECK_FOR_INTERRUPTS|iblt_check_interrupts\w*|pg_sleep|progress\w*|\w*prefetch\w*|"
                r"MemoryContext(?:Delete|Reset|SwitchTo)|Release\w+|(?:table|relation|index|systable|heap)_(?:close|endscan|freetuple)|"
                r"list_free\w*|bms_free|Unregister\w+|FreeTupleDesc|ExecDropSingleTupleTableSlot|pgstat_\w+|va_(?:start|end)|\w+_(?:free|release|end|close)|"
                r"err\w+|elog|warn_\w+|DecrTupleDescRefCount|UnlockRelation\w*|set_config|iblt_traffic_\w+")
UNSEEN_TARGETS = r"(?:\w+(?:\.|->))*(?:\w*(?:hint|detail|message|_ms|_at|started|progress|pause|paused|label|cost|sqlstate))|figures\.\w+"
# Nor what such a value is.
UNSEEN_VALUES = r"(?:\w+(?:\.|->))*\w*(?:hint|detail|message|_ms|pause|paused|label|cost)\s"
# What these compare is never equal, or is so for the first object of a cluster and at one microsecond: no column has the
# number 0, and a sign is 1 or -1.  Or either side will do then: it is the larger or smaller one of both, or the size of a copy.
UNEQUAL = (r"\battnum > 0|\bsign [<>] 0|(?:>=|<) (?:16384|FirstNormalObjectId)\b|clock_timestamp\(\)[^<>;]*[<>]=?|"
           r"[<>]=? clock_timestamp\(\)|([\w.>*-]+) [<>]=? ([\w.>*-]+) \? (?:\1 : \2|\2 : \1)\b|"
           r"if \(([\w.>*-]+) [<>]=? ([\w.>*-]+)\)\s+(?:\3 = \4|\4 = \3);|if \(([\w.>-]+) > 0\)\s+memcpy\([^;]*,\s+\5\);")
# An allocation of no bytes is one, too, and the value beside the mark of a null has no meaning.
MEANINGLESS = r"alloc\w*\([^;]*?\bMax\([^;]*?, 1\)|null\w*(?:\[\w+\])? \? \(Datum\) 0|\(Datum\) 0(?=, true\b)"
# A function that only releases memory, looks for an interrupt or adds to a message.
RELEASES = re.compile(r"\s*(?:(?:if \([^;{}]*\)\s*)?(?:p?free|list_free\w*|bms_free|CHECK_FOR_INTERRUPTS|errcontext)\([^;]*;\s*)+")
# A branch that only looks for an interrupt, pauses, shows progress or asserts.
SHOWS = r"\bIF\s(?:(?!\bIF\b)[^;])*?\bTHEN\s+(?:PERFORM (?:progress\w*|pg_sleep)\([^;]*;\s+)+END IF"
PAUSES = re.compile(r"\s*(\{\s*)?(?:(?:Assert\w*|CHECK_FOR_INTERRUPTS|iblt_check_interrupts\w*)\s*\([^;]*;\s*)+(?(1)\})")
REPORTS = r"\b(?:ereport|elog|errmsg\w*|errhint|errdetail\w*|Assert\w*|StaticAssert\w*)\s*\("

C_SWAPS = {"&&": "||", "||": "&&", "<=": "<", ">=": ">", "<": "<=", ">": ">=", "==": "!=", "!=": "==",
           "+": "-", "-": "+"}
SQL_SWAPS = {"AND": "OR", "OR": "AND", "<=": "<", ">=": ">", "<": "<=", ">": ">=", "=": "<>", "<>": "=",
             "+": "-", "-": "+", "IS NULL": "IS NOT NULL", "IS NOT NULL": "IS NULL",
             "IS DISTINCT FROM": "IS NOT DISTINCT FROM", "IS NOT DISTINCT FROM": "IS DISTINCT FROM",
             "NOT EXISTS": "EXISTS", "bool_and": "bool_or", "bool_or": "bool_and"}
# Where an operand of AND or OR begins, and where it ends beside the next one.
C_OPERAND, C_OPERAND_ENDS = r"[(?,]\s*|(?<![=!<>])=\s|\breturn\s", r"[?:;,]|(?<![=!<>])=\s"
SQL_OPERAND = r"(?:[(,]|:=|\b(?:IF|WHEN|THEN|ELSE|RETURN|SELECT|ON|WHERE|HAVING|WHILE)\b)(?!\s*(?:IF|SELECT|RETURN)\b)\s*"
SQL_OPERAND_ENDS = (r"\b(?:THEN|ELSE|WHEN|ORDER BY|GROUP BY|HAVING|LIMIT|UNION|EXCEPT|INTERSECT|RETURNING|LOOP|FOR UPDATE|AS|WHERE|"
                    r"(?<!DISTINCT )FROM|(?:(?:LEFT|RIGHT|FULL|CROSS) )?JOIN)\b|[;,]|:=")
CONSTANTS = {"true": "false", "false": "true", "0": "1", "1": "0"}


class Generated:
    """One fault.  Its identifier does not change if its function moves."""
    def __init__(self, file, function, kind, span, new, text):
        self.file, self.function, self.kind, self.span, self.new = file, function, kind, span, new
        first = text.rfind("\n", 0, span[0]) + 1
        last = text.find("\n", span[1])
        self.line = text.count("\n", 0, span[0]) + 1
        self.before = " ".join(text[first:last].split())
        self.after = " ".join((text[first:span[0]] + new + text[span[1]:last]).split())
        self.key = (function, kind, self.before, self.after)

    def number(self, nth):
        self.id = hashlib.sha1(repr(self.key + (nth,)).encode()).hexdigest()[:10]
        self.name = f"{self.file}:{self.line} {self.function} {self.kind} {self.id}"

    def mutate(self, text):
        return text[:self.span[0]] + self.new + text[self.span[1]:]

    def matches(self, words):
        return not words or any(word in self.name for word in words)

    def __str__(self):
        return self.name


def blank(text):
    return re.sub(r"[^\n]", " ", text)


def bare(text, pattern):
    """The text with what the pattern matches made blank: comments, strings, messages."""
    return re.sub(pattern, lambda found: blank(found.group()), text, flags=re.DOTALL | re.MULTILINE)


def bare_c(text):
    code = bare(text, r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])'|^[ \t]*#(?:\\\n|[^\n])*")
    for found in re.finditer(REPORTS, code):
        begin, end = found.end(), closing(code, found.end() - 1)
        if code[begin - 1] == "(":	# not inside another one
            code = code[:begin] + blank(code[begin:end]) + code[end:]
    return code


def bare_sql(text):
    return bare(text, r"--[^\n]*|/\*.*?\*/|\bE'(?:\\.|[^'\\])*'|'[^']*'|\"[^\"]*\"|\$q\$.*?\$q\$")


def closing(code, opening):
    """The place of the bracket that closes one."""
    depth = 0
    for found in re.compile(r"[()\[\]{}]").finditer(code, opening):
        depth += 1 if found.group() in "([{" else -1
        if depth == 0:
            return found.start()
    return len(code)


def end_at(code, start, limit, stop):
    """Where the pattern first matches on the level of the start, or the level ends."""
    at = start
    cases = 0
    token = re.compile(r"[(\[{]|[)\]}]|\bCASE\b|\bEND\b|" + stop)
    while found := token.search(code, at, limit):
        text = found.group()
        if text in "([{":
            at = closing(code, found.start()) + 1
            continue
        if text == "CASE":
            cases += 1
        elif text in ")]}" or cases == 0:
            return found.start()
        elif text == "END":
            cases -= 1
        at = found.end()
    return limit


# --- C ---------------------------------------------------------------------------------

def functions_c(text, code):
    for body in re.finditer(r"^\{\n(.*?)^\}", code, re.DOTALL | re.MULTILINE):
        head = code[:body.start()].rstrip()
        if not head.endswith(")"):
            continue
        head = head[max(head.rfind(mark) for mark in (";", "}")) + 1:]
        name = re.search(r"(\w+)\s*\(", head)
        if name:
            yield name.group(1), head[:name.start()].split(), body.start(1), body.end(1)


def lines(text, a, b):
    """As many lines of nothing, so that the numbers of those below stay."""
    return "\n" * text.count("\n", a, b)


def is_in(code, at, pattern):
    """Is the place in what the pattern matches from the beginning of its line on?"""
    first = code.rfind("\n", 0, at) + 1
    return any(found.start() <= at - first < found.end() for found in re.finditer(pattern, code[first:code.find(";", at) + 1]))


def swaps(code, begin, end, table, skip):
    words = "|".join(sorted(map(re.escape, table), key=len, reverse=True))
    for found in re.finditer(rf"(?<= )(?:{words})(?=[ \n])", code[begin:end]):
        at = begin + found.start()
        bound = found.group().rstrip("=") == table[found.group()].rstrip("=")
        if not skip(at) and not (bound and is_in(code, at, UNEQUAL)):
            yield "swap", (at, at + len(found.group())), table[found.group()]


def constants(code, begin, end, skip):
    for found in re.finditer(r"(?<![\w.'\[-])(?:true|false|0|1)(?![\w.\]])", code[begin:end]):
        at = begin + found.start()
        if not skip(at) and not is_in(code, at, MEANINGLESS):
            yield "constant", (at, at + len(found.group())), CONSTANTS[found.group()]


def operands(code, begin, end, starts, words, stops):
    """One operand of an AND or OR is left out, with its word: the first one of each, and any other."""
    for word, others in words:
        for found in re.compile(starts).finditer(code, begin, end):
            if left := re.compile(word + r"\s").match(code, end_at(code, found.end(), end, rf"{others}|{stops}")):
                yield found.end(), left.end()
        for found in re.compile(word + r"\s").finditer(code, begin, end):
            yield found.start(), end_at(code, found.end(), end, rf"{others}|{stops}")


def drops_c(text, code, begin, end, loops, heads):
    """Where the statements are that can be left out."""
    statement = re.compile(r"(?<=[;{})])(\s*(?:else\b)?\s*)(?:([\w.>\[\]()*+-]+)\s(?:[-+|&^]|>>|<<)?=\s|(\w+)\(|[\w.>-]+(?:\+\+|--);)")
    for found in statement.finditer(code, begin - 2, end):
        target, call = found.group(2), found.group(3)
        a, b = found.end(1), code.find(";", found.end() - 1)
        before = found.start() - 1
        # a cast, or the third part of a for
        if code[before] == ")" and before not in heads or any(low < a < high for low, high in loops):
            continue
        if call in ("if", "for", "while", "switch", "return", "foreach") or any(a < low < b for low, _ in loops):
            continue
        if call and re.fullmatch(UNSEEN_CALLS, call) or target and re.fullmatch(UNSEEN_TARGETS, target):
            continue
        if call != "ereport" or text.startswith("ereport(ERROR", a):
            yield a, b


def changes_c(text, code, head, begin, end):
    loops = [(found.start(), closing(code, found.end() - 1))
             for found in re.compile(r"\b(?:for|while)\s*\(").finditer(code, begin, end)]
    conditions = [(found.end(), closing(code, found.end() - 1)) for found in re.compile(r"\bif\s*\(").finditer(code, begin, end)]
    heads = {b for _, b in loops + conditions} | {closing(code, found.end() - 1)
                                                  for found in re.compile(r"\bforeach\w*\s*\(").finditer(code, begin, end)}
    initial = [found.span() for found in re.compile(r"= *\{[^}]*\}|(?<=[;{}\s])" + UNSEEN_VALUES + r"=\s[^;]*;").finditer(code, begin, end)]

    def skip(at):
        return any(a <= at < b for a, b in loops + initial + pauses)
    pauses = [(a, b) for a, b in conditions if PAUSES.match(code, b + 1)]
    for a, b in conditions:
        if (a, b) not in pauses:
            yield "negate", (a, b), f"!({text[a:b]})"
    for a, b in operands(code, begin, end, C_OPERAND, (("&&", r"&&|\|\|"), (r"\|\|", r"\|\|")), C_OPERAND_ENDS):
        if not skip(a):
            yield "operand", (a, b), lines(text, a, b)
    for a, b in loops:
        less = re.compile(r"< ").search(code, a, b)
        if code.startswith("for", a) and less and "++" in code[less.end():b]:
            yield "last", less.span(), "+ 1 < "
    yield from swaps(code, begin, end, C_SWAPS, skip)
    yield from constants(code, begin, end, skip)
    drops = list(drops_c(text, code, begin, end, loops, heads))
    for a, b in drops:
        yield "drop", (a, b), lines(text, a, b)
    # a branch that is one statement without an else goes with it
    single = {a for a, b in drops if not re.match(r";\s*else\b", code[b:])}
    for a, b in conditions:
        branch = re.compile(r"\s*((\w*).)", re.DOTALL).match(code, b + 1)
        unseen = branch.group(1).endswith("(") and re.fullmatch(UNSEEN_CALLS, branch.group(2))
        if (a, b) not in pauses and branch.start(1) not in single and not unseen:
            yield "never", (a, b), "false" + lines(text, a, b)
    if "bool" in head:
        yield "return", (begin - 1, begin - 1), " return true;"
        yield "return", (begin - 1, begin - 1), " return false;"
    elif head[-1:] == ["void"] and not RELEASES.fullmatch(code, begin, end):
        yield "return", (begin - 1, begin - 1), " return;"


# --- SQL ---------------------------------------------------------------------------------

def functions_sql(text, code):
    function = re.compile(r"^CREATE (?:FUNCTION|PROCEDURE) ([\w@.]+)(\([^;]*?)^AS \$\$\n(.*?)^\$\$;", re.DOTALL | re.MULTILINE)
    for found in function.finditer(code):
        yield found.group(1).rpartition(".")[2], found.group(2), found.start(3), found.end(3)


def changes_sql(text, code, head, begin, end):
    plpgsql = "plpgsql" in head
    silent = [found.span() for found in re.compile(SHOWS + r"|\bRAISE\b[^;]*;|\bPERFORM (?:progress\w*|pg_sleep|warn_\w+|iblt_traffic_\w+)\([^;]*;|"
                                                   r"\bGET STACKED DIAGNOSTICS\s[^;]*;|(?<=\s)" + UNSEEN_VALUES + r":=[^;]*;").finditer(code, begin, end)]

    def skip(at):
        return any(a <= at < b for a, b in silent)
    for found in re.compile(r"(?<!END )\b(IF|ELSIF|EXIT WHEN|CONTINUE WHEN|CASE WHEN)\s").finditer(code, begin, end):
        a = found.end()
        b = end_at(code, a, end, r"\bTHEN\b|;")
        if not skip(a):
            yield "negate", (a, b), f"({text[a:b].rstrip()}) IS NOT TRUE" + (" " if code[b] != ";" else "")
    terms = set()
    for found in re.compile(r"\b(?:WHERE|AND)\s").finditer(code, begin, end):
        line = code[max(code.rfind(";", begin, found.start()), begin):found.start()]
        if "WHERE" not in line + found.group() or re.search(r"BETWEEN\s+\S+\s*$", line):
            continue
        a = found.end()
        b = end_at(code, a, end, r"\b(?:AND|OR|THEN|ELSE|ORDER BY|GROUP BY|LIMIT|UNION|EXCEPT|INTERSECT|RETURNING|LOOP|FOR UPDATE|WHEN)\b|[;,]")
        terms.add(a)
        yield "term", (a, b), "true" + re.sub(r"\S", "", text[a:b])[-1:]

    yield from nevers_sql(text, code, begin, end, skip)
    # the words between the bounds of a BETWEEN and between the errors of a handler are none
    words = bare(code[:end], r"(?<=\bBETWEEN )[^;]*?\bAND\b|\bEXCEPTION\s+WHEN\b[^;]*?\bTHEN\b")
    for a, b in operands(words, begin, end, SQL_OPERAND, ((r"\bAND", r"\b(?:AND|OR)\b"), (r"\bOR", r"\bOR\b")), SQL_OPERAND_ENDS):
        if not skip(a) and not terms & {a, a + 4}:
            yield "operand", (a, b), lines(text, a, b)

    def no_swap(at):
        line = code[code.rfind("\n", 0, at) + 1:at]
        return skip(at) or re.search(r"BETWEEN\s+(?:\S+|\S+ [-+*] \S+)\s*$|\bSET\b[^;]*$|\bDEFAULT\s*$", line)
    yield from swaps(code, begin, end, SQL_SWAPS, no_swap)
    yield from constants(code, begin, end, no_swap)
    if plpgsql:
        yield from drops_sql(text, code, begin, end, skip)
    first = code.find("BEGIN\n", begin, end) + 5 if plpgsql else begin
    returns = re.search(r"RETURNS (\w+)", head)
    answer = returns.group(1) if returns else "void"
    if answer == "boolean":
        for value in ("true", "false"):
            yield "return", (first, first if plpgsql else end), f" RETURN {value};" if plpgsql else f"SELECT {value}\n"
    elif plpgsql and answer in ("void", "SETOF", "TABLE"):
        yield "return", (first, first), " RETURN;"


def nevers_sql(text, code, begin, end, skip):
    for found in re.compile(r"(?<!END )\b(IF|ELSIF|(?<!EXIT )(?<!CONTINUE )(?<!EXCEPTION )WHEN)\s").finditer(code, begin, end):
        a = found.end()
        b = end_at(code, a, end, r"\bTHEN\b|;")
        condition = code[a:b].strip()
        # a value of a CASE is no condition, and an IF that has only one branch is dropped
        if skip(a) or re.fullmatch(r"[\d{}, ]*|.*\bOTHERS", condition):
            continue
        rest = code[b:code.find("END IF;", b, end)] if found.group(1) == "IF" else "ELSE"
        if re.search(r"\b(?:ELSE|ELSIF|IF)\b", rest):
            yield "never", (a, b), "false" + (lines(text, a, b) or " ")


def drops_sql(text, code, begin, end, skip):
    start = code.find("BEGIN\n", begin, end)
    statement = re.compile(r"(?:(?<=;)|(?<=THEN)|(?<=ELSE)|(?<=LOOP)|(?<=BEGIN))\s+(?:(PERFORM) (\w+)|([\w.\[\]]+) :=|"
                           r"(RETURN NEXT|RETURN QUERY|RAISE EXCEPTION|EXECUTE|INSERT|UPDATE|DELETE|EXIT|CONTINUE)\b|"
                           r"(IF|SELECT)\s)")
    for found in statement.finditer(code, start, end):
        call, target = found.group(2), found.group(3)
        if call and re.fullmatch(UNSEEN_CALLS, call) or target and re.fullmatch(UNSEEN_TARGETS, target):
            continue
        a = found.start() + len(found.group()) - len(found.group().lstrip())
        if found.group(5) == "IF" and skip(a):
            continue
        b = code.find("END IF;", a, end) + 6 if found.group(5) == "IF" else code.find(";", a, end)
        if found.group(5) == "IF" and len(re.findall(r"\bIF\b", code[a:b])) != 2:
            continue
        yield "drop", (a, b), "NULL" + lines(text, a, b)


# --- all ---------------------------------------------------------------------------------

def of_file(tree, file):
    with open(os.path.join(tree, file), encoding="utf-8") as source:
        text = source.read()
    c = not file.endswith(".sql")
    code = bare_c(text) if c else bare_sql(text)
    for function, head, begin, end in (functions_c if c else functions_sql)(text, code):
        if not re.search(UNSEEN_FUNCTIONS, function):
            for kind, span, new in (changes_c if c else changes_sql)(text, code, head, begin, end):
                yield Generated(file, function, kind, span, new, text)


def candidates(tree):
    """All faults that can be made, file by file."""
    found = {}
    seen = {}
    for room in ("src", "sql"):
        for directory, _, names in sorted(os.walk(os.path.join(tree, room))):
            for name in sorted(names):
                file = os.path.relpath(os.path.join(directory, name), tree)
                if not re.search(r"\.(?:c|h|sql)$", file) or re.search(UNSEEN_FILES + r"|--", file):
                    continue
                faults = list(of_file(tree, file))
                for fault in faults:
                    seen[fault.key] = seen.get(fault.key, 0) + 1
                    fault.number(seen[fault.key])
                if faults:
                    found[file] = faults
    return found


def choose(found, number, seed):
    """So many of them: one of each file in turn, and of the kinds of a file alike.  What a change does not touch stays."""
    def chance(*words):
        return hashlib.sha1(repr((seed,) + words).encode()).digest()
    turns = []
    for file, faults in found.items():
        of_kind = {}
        for fault in sorted(faults, key=lambda fault: chance(fault.id)):
            of_kind.setdefault(fault.kind, []).append(fault)
        rounds = [(n, chance(file, kind, n), fault) for kind in of_kind for n, fault in enumerate(of_kind[kind])]
        turns += [(n, chance(file, n), fault) for n, (_, _, fault) in enumerate(sorted(rounds, key=lambda turn: turn[:2]))]
    return [fault for _, _, fault in sorted(turns, key=lambda turn: turn[:2])[:number]]
