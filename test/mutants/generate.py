"""Makes faults from the source as it is: candidates(tree) has all that there can be.

Each is one small change inside the body of one function: a condition is negated, a
statement is dropped, an operator or a constant is swapped, or the function returns early.
Nothing is changed in comments, strings, messages, costs, pauses and the release of
memory, where no test could notice it.

README.md beside this file says how they are chosen and tried.
"""
import hashlib
import os
import re

# No test can notice what these compute: costs, progress, times, names and texts in messages.
UNSEEN_FILES = r"prefetch\.h$|(?:pause|progress)\.[ch]$|_table\.h$|sql/compare/figures\.sql$"
UNSEEN_FUNCTIONS = r"cost|prefetch|pause|progress|hint|warn|patience|capacity_for|room|_ms$|refuse_|^warn_|_message$|_cause$|_show$|_titles?$|^sample_size$"
# Statements that only release, report, wait or measure.
UNSEEN_CALLS = (r"p?free|Assert\w*|StaticAssert\w*|CHECK_FOR_INTERRUPTS|iblt_pause\w*|pg_sleep|progress|\w*prefetch\w*|"
                r"MemoryContext(?:Delete|Reset|SwitchTo)|Release\w+|(?:table|relation|index|systable|heap)_(?:close|endscan|freetuple)|"
                r"list_free\w*|bms_free|Unregister\w+|FreeTupleDesc|ExecDropSingleTupleTableSlot|pgstat_\w+|va_(?:start|end)|\w+_(?:free|release|end|close)|"
                r"err\w+|elog|warn_\w+|DecrTupleDescRefCount|UnlockRelation\w*|set_config|iblt_traffic_\w+")
UNSEEN_TARGETS = r"(?:\w+(?:\.|->))*(?:\w*(?:hint|detail|message|_ms|_at|started|progress|pause|paused|label|cost|sqlstate))|figures\.\w+"
# Nor what such a value is.
UNSEEN_VALUES = r"(?:\w+(?:\.|->))*\w*(?:hint|detail|message|_ms|pause|paused|label|cost)\s"
# What these compare is never equal, or is so for the first object of a cluster and at one microsecond: no column has the
# number 0, and a sign is 1 or -1.
UNEQUAL = (r"\battnum > 0|\bsign [<>] 0|(?:>=|<) (?:16384|FirstNormalObjectId)\b|clock_timestamp\(\)[^<>;]*[<>]=?|"
           r"[<>]=? clock_timestamp\(\)")
# An allocation of no bytes is one, too.
EMPTY = r"alloc\w*\([^;]*?\bMax\([^;]*?, 1\)"
# A branch that only looks for an interrupt, pauses or asserts.
PAUSES = re.compile(r"\s*(\{\s*)?(?:(?:Assert\w*|CHECK_FOR_INTERRUPTS|iblt_pause\w*)\s*\([^;]*;\s*)+(?(1)\})")
REPORTS = r"\b(?:ereport|elog|errmsg\w*|errhint|errdetail\w*|Assert\w*|StaticAssert\w*)\s*\("

C_SWAPS = {"&&": "||", "||": "&&", "<=": "<", ">=": ">", "<": "<=", ">": ">=", "==": "!=", "!=": "==",
           "+": "-", "-": "+"}
SQL_SWAPS = {"AND": "OR", "OR": "AND", "<=": "<", ">=": ">", "<": "<=", ">": ">=", "=": "<>", "<>": "=",
             "+": "-", "-": "+", "IS NULL": "IS NOT NULL", "IS NOT NULL": "IS NULL",
             "IS DISTINCT FROM": "IS NOT DISTINCT FROM", "IS NOT DISTINCT FROM": "IS DISTINCT FROM",
             "NOT EXISTS": "EXISTS", "bool_and": "bool_or", "bool_or": "bool_and"}
CONSTANTS = {"true": "false", "false": "true", "0": "1", "1": "0"}


class Generated:
    """One fault.  Its identifier does not change if its function moves."""
    statement = None		# in SQL, where the function begins and ends

    def __init__(self, file, function, kind, span, new, text):
        self.file, self.function, self.kind, self.span, self.new = file, function, kind, span, new
        self.old = text[span[0]:span[1]]
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
            yield name.group(1), head[:name.start()].split(), body.start(1), body.end(1), None


def is_in(code, at, pattern):
    """Is the place in what the pattern matches in its line?"""
    first = code.rfind("\n", 0, at) + 1
    return any(found.start() <= at - first < found.end() for found in re.finditer(pattern, code[first:code.find("\n", at)]))


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
        if not skip(at) and not is_in(code, at, EMPTY):
            yield "constant", (at, at + len(found.group())), CONSTANTS[found.group()]


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
    for a, b in loops:
        less = re.compile(r"< ").search(code, a, b)
        if code.startswith("for", a) and less and "++" in code[less.end():b]:
            yield "last", less.span(), "+ 1 < "
    yield from swaps(code, begin, end, C_SWAPS, skip)
    yield from constants(code, begin, end, skip)
    statement = re.compile(r"(?<=[;{})])(\s*(?:else\b)?\s*)(?:([\w.>\[\]()*+-]+)\s(?:[-+|&^]|>>|<<)?=\s|(\w+)\(|[\w.>-]+(?:\+\+|--);)")
    for found in statement.finditer(code, begin - 2, end):
        target, call = found.group(2), found.group(3)
        a, b = found.end(1), code.find(";", found.end() - 1)
        whole = text[a:b]
        before = found.start() - 1
        # a cast, or the third part of a for
        if code[before] == ")" and before not in heads or any(low < a < high for low, high in loops):
            continue
        if call in ("if", "for", "while", "switch", "return", "foreach") or any(a < low < b for low, _ in loops):
            continue
        if call and re.fullmatch(UNSEEN_CALLS, call) or target and re.fullmatch(UNSEEN_TARGETS, target):
            continue
        if call == "ereport" and not re.match(r"ereport\(ERROR", whole):
            continue
        yield "drop", (a, b), "\n" * whole.count("\n")
    if "bool" in head:
        yield "return", (begin - 1, begin - 1), " return true;"
        yield "return", (begin - 1, begin - 1), " return false;"
    elif head[-1:] == ["void"]:
        yield "return", (begin - 1, begin - 1), " return;"


# --- SQL ---------------------------------------------------------------------------------

def functions_sql(text, code):
    function = re.compile(r"^CREATE (?:FUNCTION|PROCEDURE) ([\w@.]+)(\([^;]*?)^AS \$\$\n(.*?)^\$\$;", re.DOTALL | re.MULTILINE)
    for found in function.finditer(code):
        yield found.group(1).rpartition(".")[2], found.group(2), found.start(3), found.end(3), found.span()


def changes_sql(text, code, head, begin, end):
    plpgsql = "plpgsql" in head
    silent = [found.span() for found in re.compile(r"\bRAISE\b[^;]*;|\bPERFORM (?:progress|warn_\w+|iblt_traffic_\w+)\([^;]*;|"
                                                   r"\bGET STACKED DIAGNOSTICS\s[^;]*;|(?<=\s)" + UNSEEN_VALUES + r":=[^;]*;").finditer(code, begin, end)]

    def skip(at):
        return any(a <= at < b for a, b in silent)
    for found in re.compile(r"(?<!END )\b(IF|ELSIF|EXIT WHEN|CONTINUE WHEN|CASE WHEN)\s").finditer(code, begin, end):
        a = found.end()
        b = end_at(code, a, end, r"\bTHEN\b|;")
        if not skip(a):
            yield "negate", (a, b), f"({text[a:b].rstrip()}) IS NOT TRUE" + (" " if code[b] != ";" else "")
    for found in re.compile(r"\b(?:WHERE|AND)\s").finditer(code, begin, end):
        line = code[max(code.rfind(";", begin, found.start()), begin):found.start()]
        if "WHERE" not in line + found.group() or re.search(r"BETWEEN\s+\S+\s*$", line):
            continue
        a = found.end()
        b = end_at(code, a, end, r"\b(?:AND|OR|THEN|ELSE|ORDER BY|GROUP BY|LIMIT|UNION|EXCEPT|INTERSECT|RETURNING|LOOP|FOR UPDATE|WHEN)\b|[;,]")
        yield "term", (a, b), "true" + re.sub(r"\S", "", text[a:b])[-1:]

    def no_swap(at):
        line = code[code.rfind("\n", 0, at) + 1:at]
        return skip(at) or re.search(r"BETWEEN\s+(?:\S+|\S+ [-+*] \S+)\s*$|\bSET\b[^;]*$|\bDEFAULT\s*$", line)
    yield from swaps(code, begin, end, SQL_SWAPS, no_swap)
    yield from constants(code, begin, end, no_swap)
    if plpgsql:
        yield from drops_sql(text, code, begin, end)
    first = code.find("BEGIN\n", begin, end) + 5 if plpgsql else begin
    returns = re.search(r"RETURNS (\w+)", head)
    answer = returns.group(1) if returns else "void"
    if answer == "boolean":
        for value in ("true", "false"):
            yield "return", (first, first if plpgsql else end), f" RETURN {value};" if plpgsql else f"SELECT {value}\n"
    elif plpgsql and answer in ("void", "SETOF", "TABLE"):
        yield "return", (first, first), " RETURN;"


def drops_sql(text, code, begin, end):
    start = code.find("BEGIN\n", begin, end)
    statement = re.compile(r"(?:(?<=;)|(?<=THEN)|(?<=ELSE)|(?<=LOOP)|(?<=BEGIN))\s+(?:(PERFORM) (\w+)|([\w.\[\]]+) :=|"
                           r"(RETURN NEXT|RETURN QUERY|RAISE EXCEPTION|EXECUTE|INSERT|UPDATE|DELETE|EXIT|CONTINUE)\b|"
                           r"(IF|SELECT)\s)")
    for found in statement.finditer(code, start, end):
        call, target = found.group(2), found.group(3)
        if call and re.fullmatch(UNSEEN_CALLS, call) or target and re.fullmatch(UNSEEN_TARGETS, target):
            continue
        a = found.start() + len(found.group()) - len(found.group().lstrip())
        b = code.find("END IF;", a, end) + 6 if found.group(5) == "IF" else code.find(";", a, end)
        if found.group(5) == "IF" and len(re.findall(r"\bIF\b", code[a:b])) != 2:
            continue
        yield "drop", (a, b), "NULL" + "\n" * text[a:b].count("\n")


# --- all ---------------------------------------------------------------------------------

def of_file(tree, file):
    with open(os.path.join(tree, file), encoding="utf-8") as source:
        text = source.read()
    c = not file.endswith(".sql")
    code = bare_c(text) if c else bare_sql(text)
    for function, head, begin, end, statement in (functions_c if c else functions_sql)(text, code):
        if not re.search(UNSEEN_FUNCTIONS, function):
            for kind, span, new in (changes_c if c else changes_sql)(text, code, head, begin, end):
                fault = Generated(file, function, kind, span, new, text)
                fault.statement = statement
                yield fault


def candidates(tree):
    """All faults that can be made, file by file."""
    found = {}
    seen = {}
    for room in ("src", "sql"):
        for directory, _, names in sorted(os.walk(os.path.join(tree, room))):
            for name in sorted(names):
                file = os.path.relpath(os.path.join(directory, name), tree)
                if not re.search(r"\.(?:c|h|sql)$", file) or re.search(UNSEEN_FILES + r"|iblt--", file):
                    continue
                faults = list(of_file(tree, file))
                for fault in faults:
                    seen[fault.key] = seen.get(fault.key, 0) + 1
                    fault.number(seen[fault.key])
                if faults:
                    found[file] = faults
    return found


def choose(found, number, random):
    """So many of them: one of each file in turn, and of the kinds of a file alike."""
    chosen = []
    left = {}
    for file, faults in found.items():
        kinds = {}
        for fault in random.sample(faults, len(faults)):
            kinds.setdefault(fault.kind, []).append(fault)
        left[file] = kinds
    while len(chosen) < number and left:
        for file in random.sample(sorted(left), len(left)):
            kind = random.choice(sorted(left[file]))
            chosen.append(left[file][kind].pop())
            if not left[file][kind]:
                del left[file][kind]
            if not left[file]:
                del left[file]
            if len(chosen) == number:
                break
    return chosen
