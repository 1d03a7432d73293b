"""Makes faults from the source as it is: candidates(tree) has all that there can be.

Each is one small change inside the body of one function: a condition is negated, a statement
that is one line is dropped, or an operator or a constant is swapped.  Nothing is changed in
comments, strings, messages, costs, pauses and the release of memory, where no test could
notice it.

README.md beside this file says how they are chosen and tried.
"""
import hashlib
import os
import re

UNSEEN_FILES = r"prefetch\.h$|(?:interrupt|progress)\.[ch]$|_table\.h$|sql/compare/figures\.sql$"
UNSEEN_FUNCTIONS = r"cost|prefetch|pause|progress|hint|warn|patience|_ms$|refuse_|_message$|_cause$|_show$|_titles?$"
UNSEEN_LINES = (r"^\s*(?:PERFORM )?(?:p?free|Assert|CHECK_FOR_INTERRUPTS|iblt_check_interrupts|pg_sleep|progress|MemoryContext|Release|err|elog|"
                r"set_config|\w+_(?:close|free|release|end)\b)|hint|detail|message|_ms\b|cost|^\s*return\b")
C_SWAPS = {"&&": "||", "||": "&&", "<=": "<", ">=": ">", "<": "<=", ">": ">=", "==": "!=", "!=": "==", "+": "-", "-": "+"}
SQL_SWAPS = {"AND": "OR", "OR": "AND", "<=": "<", ">=": ">", "<": "<=", ">": ">=", "=": "<>", "<>": "=", "+": "-", "-": "+",
             "IS NULL": "IS NOT NULL", "IS NOT NULL": "IS NULL", "IS DISTINCT FROM": "IS NOT DISTINCT FROM",
             "IS NOT DISTINCT FROM": "IS DISTINCT FROM", "NOT EXISTS": "EXISTS"}
CONSTANTS = {"true": "false", "false": "true", "0": "1", "1": "0"}
FUNCTIONS_C = r"^(\w+)\([^;{}]*\)\n\{\n(.*?)^\}"
FUNCTIONS_SQL = r"^CREATE (?:FUNCTION|PROCEDURE) (?:[\w@]+\.)?(\w+)\([^;]*?^AS \$\$\n(.*?)^\$\$;"
NOT_CODE_C = r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])'|^[ \t]*#(?:\\\n|[^\n])*|\b(?:ereport|elog)\(.*?\);"
NOT_CODE_SQL = r"--[^\n]*|/\*.*?\*/|\bE'(?:\\.|[^'\\])*'|'[^']*'|\"[^\"]*\"|\$q\$.*?\$q\$|\bRAISE\b[^;]*;|\bBETWEEN\s+\S+\s+AND\b"
MULTILINE = re.DOTALL | re.MULTILINE


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


def changes(code, begin, end, c):
    """The kind, the place and the new text of each change of a body.  What is no code is blank in it."""
    table = C_SWAPS if c else SQL_SWAPS
    words = "|".join(sorted(map(re.escape, table), key=len, reverse=True))
    condition = r"\bif \((.*)\)$" if c else r"\b(?:IF|ELSIF|EXIT WHEN|CONTINUE WHEN) (.*?)(?: THEN$|;$)"
    statement = (r"(?<=[;{}])\n\t+((?:[\w.\[\]>-]+ [-+|&]?= .*|\w+\(.*\)));$" if c else
                 r"(?:;|THEN|ELSE|LOOP|BEGIN)\n\t+((?:PERFORM .*|[\w.\[\]]+ := .*|RETURN NEXT.*|EXIT.*|CONTINUE.*|DELETE .*|UPDATE .*|INSERT .*));$")
    for kind, pattern, new in (
            ("negate", condition, lambda found: f"!({found})" if c else f"({found}) IS NOT TRUE"),
            ("drop", statement, lambda found: "" if c else "NULL"),
            ("swap", rf"(?<= )({words})(?=[ \n])", table.get),
            ("constant", r"(?<![\w.'\[-])(true|false|0|1)(?![\w.\]])", CONSTANTS.get)):
        for found in re.compile(pattern, re.MULTILINE).finditer(code, begin, end):
            first = code.rfind("\n", 0, found.start(1)) + 1
            if not re.search(UNSEEN_LINES, code[first:code.find("\n", found.end())], re.IGNORECASE if kind == "drop" else 0):
                yield kind, found.span(1), new(found.group(1))


def of_file(tree, file):
    with open(os.path.join(tree, file), encoding="utf-8") as source:
        text = source.read()
    c = not file.endswith(".sql")
    code = re.sub(NOT_CODE_C if c else NOT_CODE_SQL, lambda found: re.sub(r"[^\n]", " ", found.group()), text, flags=MULTILINE)
    for body in re.finditer(FUNCTIONS_C if c else FUNCTIONS_SQL, code, MULTILINE):
        if not re.search(UNSEEN_FUNCTIONS, body.group(1)):
            for kind, span, new in changes(code, body.start(2), body.end(2), c):
                # what is blank in the code is as it was
                if kind == "negate":
                    new = new.replace(code[span[0]:span[1]], text[span[0]:span[1]])
                yield Generated(file, body.group(1), kind, span, new, text)


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
