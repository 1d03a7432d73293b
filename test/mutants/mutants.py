"""Applies faults to copies of the source and runs the tests that should notice.

mutants.py check LIST ...              do the entries fit the source?
mutants.py run WORK JOBS LIST ...      run them, in the directories that "run" made

README.md beside this file says how a list is written.  generate.py makes more faults.
"""
import filecmp
import glob
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import generate

# A fault may make a test hang.  A test that has run without one has a limit of its own.
LIMIT = {"unit": 180, "sql": 180, "catalog": 60, "tap": 600}
WAIT_IN_TAP = "90"  # seconds that a test waits for something at most
# What a fault that the compiler warns of in this way does depends on the compiler.
UNDEFINED = "-Werror=return-type -Werror=uninitialized -Werror=maybe-uninitialized"
LINE = 150


class ListError(Exception):
    """An entry is wrong: it is stale, unreadable, or does not compile."""


# --- the lists -------------------------------------------------------------------

class Fault:
    def __init__(self, name, where, file, tests):
        self.name, self.where, self.file, self.tests = name, where, file, tests
        self.after = None
        self.notes, self.old, self.new = [], [], []

    def add(self, word, rest):
        """A line of the entry; is it one?"""
        if word == "tests":
            self.tests = rest.split()
        elif word == "after":
            self.after = rest
        elif word in ("note", "-", "+"):
            {"note": self.notes, "-": self.old, "+": self.new}[word].append(rest)
        else:
            return False
        return True

    def matches(self, words):
        """Is a word in the list's name and its own ("core/fold-forgets-rows")?"""
        area = os.path.basename(self.where).partition(".")[0]
        return not words or any(word in f"{area}/{self.name}" for word in words)

    def __str__(self):
        return self.name

    def wrong(self, what):
        return ListError(f"{self.where}: {self.name}: {what}")

    def mutate(self, text):
        """The text of the file with the fault in it."""
        old, new = "\n".join(self.old), "\n".join(self.new)
        start = 0
        if self.after is not None:
            if text.count(self.after) != 1:
                raise self.wrong(f"'after' is in {self.file} {text.count(self.after)} times, not once")
            start = text.index(self.after)
            if old not in text[start:]:
                raise self.wrong(f"the old text is not in {self.file} there")
        elif text.count(old) != 1:
            raise self.wrong(f"the old text is in {self.file} {text.count(old)} times, not once")
        at = text.index(old, start)
        return text[:at] + new + text[at + len(old):]

    def check(self, tree):
        if not self.file or not self.tests or not self.old or self.old == self.new:
            raise self.wrong("needs file, tests, and old text that differs from the new")
        with open(os.path.join(tree, self.file), encoding="utf-8") as source:
            self.mutate(source.read())
        for test in self.tests:
            check_test(tree, test)


def check_test(tree, test):
    kind, _, names = test.partition(":")
    for name in names.split(","):
        there = {"unit": f"test/unit/{name}.c", "sql": f"test/sql/{name}.sql", "catalog": "test/lib/check-catalog.sh"}
        if kind == "tap":
            tap_file(tree, name)
        elif kind not in there or not os.path.exists(os.path.join(tree, there[kind])):
            raise ListError(f"there is no test {test}")


def tap_file(tree, name):
    files = [f for f in sorted(os.listdir(os.path.join(tree, "test/t"))) if f.startswith(name) and f.endswith(".pl")]
    if len(files) != 1:
        raise ListError(f"tap:{name} means {len(files)} files")
    return os.path.join("test/t", files[0])


def read_list(path):
    faults, file, tests, fault = [], None, [], None
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            word, _, rest = line.rstrip("\n").partition(" ")
            if word == "" or word.startswith("#"):
                continue
            if word == "file":
                file, tests, fault = rest, [], None
            elif word == "tests" and fault is None:
                tests = rest.split()
            elif word == "fault":
                fault = Fault(rest, f"{path}:{number}", file, tests)
                faults.append(fault)
            elif fault is None or not fault.add(word, rest):
                raise ListError(f"{path}:{number}: '{word}' cannot be understood here")
    return faults


def read_lists(tree, paths):
    faults = [fault for path in paths for fault in read_list(path)]
    problems = []
    names = [fault.name for fault in faults]
    problems += [f"two faults are named {name}" for name in sorted(set(names)) if names.count(name) > 1]
    for fault in faults:
        try:
            fault.check(tree)
        except (ListError, OSError) as problem:
            problems.append(str(problem))
    if problems:
        raise ListError("\n".join(problems))
    return faults


# --- the faults that are made from the source -----------------------------------------

def read_tests(tree):
    """The tests for each beginning of a file's name: one of src/core alone, the SQL tests at once."""
    table = {}
    with open(os.path.join(tree, "test/mutants/tests"), encoding="utf-8") as lines:
        rows = [line.split() for line in lines if line.strip() and not line.startswith("#")]
    for begin, *tests in rows:
        table[begin] = []
        for test in tests:
            kind, _, names = test.partition(":")
            unit = "test_" if kind == "unit" else ""
            table[begin] += [test] if kind == "sql" else [f"{kind}:{unit}{name}" for name in names.split(",")]
    return table


def generated(tree):
    """All faults that can be made, by file, with their tests."""
    table = read_tests(tree)
    found = generate.candidates(tree)
    for test in {test for tests in table.values() for test in tests}:
        check_test(tree, test)
    for begin in table:
        if not any(file.startswith(begin) for file in found):
            raise ListError(f"test/mutants/tests: no file begins with {begin}")
    for file, faults in found.items():
        begin = max((begin for begin in table if file.startswith(begin)), key=len, default=None)
        if begin is None:
            raise ListError(f"test/mutants/tests has no tests for {file}")
        for fault in faults:
            fault.tests = table[begin]
    return found


def choose_generated(tree, words):
    """Those that MUTANTS_GENERATED and MUTANTS_SEED choose."""
    found = {file: [fault for fault in faults if fault.matches(words)] for file, faults in generated(tree).items()}
    found = {file: faults for file, faults in found.items() if faults}
    return generate.choose(found, int(os.environ["MUTANTS_GENERATED"]), os.environ["MUTANTS_SEED"])


# --- one tree and one server --------------------------------------------------------

class Worker:
    def __init__(self, work, number):
        self.pristine = os.path.join(work, "tree")
        self.top = os.path.join(work, f"w{number}")
        self.tree = os.path.join(self.top, "tree")
        self.log = os.path.join(self.top, "log")
        self.env = dict(os.environ)
        self.env.pop("IBLT_WORK", None)
        with open(os.path.join(self.top, "environment"), encoding="utf-8") as lines:
            self.env.update(line.rstrip("\n").split("=", 1) for line in lines)
        self.installed = False
        self.has_check = False

    def run(self, command, limit, env=None, stop=None):
        """Its status and the first line that matches stop, at which it is ended; None for the status if it hung."""
        process = subprocess.Popen(command, cwd=self.tree, env=env or self.env, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        hung = []

        def end():
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

        def too_long():
            hung.append(True)
            end()
        timer = threading.Timer(limit, too_long)
        timer.start()
        found = None
        with open(self.log, "ab") as log:
            for line in process.stdout:
                log.write(line)
                line = line.decode("utf-8", "replace").rstrip("\n")
                if stop and re.match(stop, line):
                    found = line
                    break
        if found:
            end()
        status = process.wait()
        timer.cancel()
        end()
        return (None if hung else status), found

    def sync(self):
        """Makes the tree as it was built, times of files included."""
        def files(top):
            for directory, _, names in os.walk(top):
                for name in names:
                    path = os.path.join(directory, name)
                    status = os.stat(path)
                    yield os.path.relpath(path, top), (status.st_mtime_ns, status.st_size)
        before, now = dict(files(self.pristine)), dict(files(self.tree))
        for name in now.keys() - before.keys():
            os.remove(os.path.join(self.tree, name))
        for name, status in before.items():
            if now.get(name) != status:
                shutil.copy2(os.path.join(self.pristine, name), os.path.join(self.tree, name))
        self.installed = False

    def make(self, *targets):
        status, _ = self.run(["make", "-s", "with_llvm=no", f"PG_CONFIG={self.env['PG_CONFIG']}", f"WERROR_FLAG={UNDEFINED}",
                              *targets], 600)
        if status != 0:
            with open(self.log, encoding="utf-8", errors="replace") as log:
                raise ListError("it does not compile:\n" + "".join(log.readlines()[-8:]))

    def discard(self, fault):
        """Why a generated fault is not one: it does not compile, or it changes nothing."""
        open(self.log, "w").close()
        try:
            self.make("all")
        except ListError:
            return "does not compile"
        if fault.file.endswith(".sql"):
            return None if self.can_load(fault) else "does not compile"
        return "changes nothing" if self.same_objects() else None

    def first_that_fails(self, tests):
        return next(((test, failed) for test in tests if (failed := self.test(test))), None)

    def try_generated(self, fault):
        """The test that fails and what it says, and why the fault is discarded.  Programs of unit tests are built in
        a moment, and what they notice is a fault."""
        units = [test for test in fault.tests if test.startswith("unit:")]
        try:
            by = self.first_that_fails(units)
        except ListError:
            return None, "does not compile"
        reason = None if by else self.discard(fault)
        if not by and not reason:
            by = self.first_that_fails(fault.tests[len(units):])
        return by, reason

    def same_objects(self):
        """Has the compiler made the same of the fault?"""
        for path in glob.glob(os.path.join(self.tree, "src/**/*.o"), recursive=True):
            pristine = os.path.join(self.pristine, os.path.relpath(path, self.tree))
            if filecmp.cmp(pristine, path, shallow=False):
                continue
            stripped = [os.path.join(self.top, name) for name in ("before", "after")]
            for file, copy in zip((pristine, path), stripped):
                subprocess.run(["strip", "-g", "-o", copy, file], check=True)
            if not filecmp.cmp(*stripped, shallow=False):
                return False
        return True

    def spare(self, header):
        """Make compiles every source after a change in a header: only those that include it are to be."""
        def names(path):
            with open(path, encoding="utf-8") as source:
                return set(re.findall(r'^#include ".*?([^/"]+)"', source.read(), re.MULTILINE))
        files = {path: names(path) for path in glob.glob(os.path.join(self.tree, "src/**/*.[ch]"), recursive=True)}
        changed, size = {os.path.basename(header)}, 0
        while size < len(changed):
            size = len(changed)
            changed |= {os.path.basename(path) for path, included in files.items() if included & changed}
        for path in files:
            if path.endswith(".c") and os.path.basename(path) not in changed:
                os.utime(path[:-1] + "o")

    def can_load(self, fault):
        """Does the function have no error that its first call would show, whatever it is called with?"""
        scripts = ""
        for built in glob.glob(os.path.join(self.tree, "sql/*--*.sql")):
            with open(built, encoding="utf-8") as script:
                scripts += script.read()
        text = "\n".join("CREATE OR REPLACE " + found for found in re.findall(
            rf"^CREATE ((?:FUNCTION|PROCEDURE) (?:\S+\.)?{fault.function}\(.*?^\$\$;$)", scripts, re.MULTILINE | re.DOTALL))
        text = text.replace("@extschema@", "public")
        if not self.has_check:
            self.install()
            self.psql("DROP DATABASE IF EXISTS mutants")
            self.psql("CREATE DATABASE mutants")
            for extension in [os.path.basename(path)[:-len(".control")] for path in glob.glob(os.path.join(self.tree, "*.control"))] + ["plpgsql_check"]:
                self.psql(f"CREATE EXTENSION IF NOT EXISTS {extension} CASCADE", "mutants")
            self.has_check = True
        errors = f"""SELECT 'errors: ' || count(*) FROM pg_proc AS p JOIN pg_language AS l ON l.oid = p.prolang,
            LATERAL plpgsql_check_function_tb(p.oid, fatal_errors => false) AS f
            WHERE p.proname = '{fault.function}' AND l.lanname = 'plpgsql' AND f.level = 'error'
            AND p.prorettype <> ALL ('{{trigger, event_trigger}}'::regtype[]);"""
        script = f"BEGIN; SET LOCAL search_path = iblt_internal, public; {errors} {text} {errors} ROLLBACK"
        status, _ = self.run(["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-d", "mutants", "-c", script], 30)
        with open(self.log, encoding="utf-8", errors="replace") as log:
            counts = re.findall(r"^errors: (\d+)$", log.read(), re.MULTILINE)
        return status == 0 and counts[-1:] == counts[-2:-1]

    def install(self):
        if not self.installed:
            self.make("all")
            self.make("install", "docdir=")
            self.installed = True

    def test(self, test):
        """Nothing if it passes, otherwise what failed."""
        open(self.log, "w").close()
        kind, _, name = test.partition(":")
        self.limit = LIMIT.get(test, LIMIT[kind])
        return getattr(self, f"test_{kind}")(name)

    def last_line(self):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return ([""] + [line.strip() for line in log if line.strip()])[-1]

    def verdict(self, status, found):
        """Nothing if a test passed, otherwise what it says."""
        if status is None:
            return "it hung"
        return found or (f"status {status}: {self.last_line()}" if status else None)

    def test_unit(self, name):
        program = f"build/plain/{name}"
        self.make(program)
        status, found = self.run([program], self.limit, stop=r"not ok ")
        return self.verdict(status, found)

    def test_sql(self, name):
        self.install()
        self.wake_server()
        names = name.replace(",", " ")
        status, found = self.run(["make", "-s", "installcheck", f"REGRESS={names}", f"PG_CONFIG={self.env['PG_CONFIG']}"],
                                 self.limit, stop=r"not ok |test .* FAILED")
        if status:
            found = first_difference(os.path.join(self.tree, "regression.diffs")) or found
        if status != 0 and not self.clean():
            self.restart_server()
            self.clean()
        return self.verdict(status, found)

    def clean(self):
        """Removes what a test that did not end leaves, so that the next one does not fail by it."""
        roles = """DO $$ DECLARE r name; BEGIN FOR r IN SELECT rolname FROM pg_roles WHERE oid >= 16384 LOOP
            EXECUTE format('DROP ROLE %I', r); END LOOP; END $$"""
        return all(self.psql(sql) == 0 for sql in ("DROP DATABASE IF EXISTS contrib_regression WITH (FORCE)", roles))

    def test_catalog(self, _name):
        self.install()
        self.wake_server()
        self.psql("DROP DATABASE IF EXISTS check_catalog")
        status, found = self.run(["test/lib/check-catalog.sh"], self.limit, stop=r"not ok ")
        return self.verdict(status, found)

    def test_tap(self, name):
        self.install()
        work = os.path.join(self.top, "tap")
        for directory in ("data", "log"):
            os.makedirs(os.path.join(work, directory))
        test = self.env["PGXS_TEST"]
        env = dict(self.env, PG_REGRESS=f"{test}/regress/pg_regress", TESTDIR=work, TESTDATADIR=f"{work}/data",
                   TESTLOGDIR=f"{work}/log", PG_TEST_TIMEOUT_DEFAULT=WAIT_IN_TAP, TMPDIR=work)
        del env["PGHOST"], env["PGPORT"], env["PGUSER"]
        try:
            status, found = self.run(["perl", "-I", f"{test}/perl", "-I", "test/t", tap_file(self.tree, name)],
                                     self.limit, env, stop=r"not ok (?!.*# TODO)|1\.\.0")
        finally:
            self.end_servers(work)
            shutil.rmtree(work, ignore_errors=True)
        return self.verdict(status, found)

    def end_servers(self, below):
        """The servers of a test that was ended; they end their own children."""
        pids = []
        for directory, _, names in os.walk(below):
            if "postmaster.pid" in names:
                try:
                    with open(os.path.join(directory, "postmaster.pid"), encoding="utf-8") as file:
                        pid = int(file.readline())
                    if os.readlink(f"/proc/{pid}/exe").startswith(self.top):
                        os.kill(pid, signal.SIGQUIT)
                        pids.append(pid)
                except (OSError, ValueError):
                    continue
        for _ in range(100):
            if not any(os.path.exists(f"/proc/{pid}") for pid in pids):
                return
            time.sleep(0.1)

    def psql(self, sql, database="postgres"):
        return self.run(["psql", "-XAtq", "-d", database, "-c", sql], 30)[0]

    # A fault in C can bring the server down; it then starts again by itself.
    def wake_server(self):
        for _ in range(60):
            if self.psql("SELECT 1") == 0:
                return
            time.sleep(0.5)
        self.restart_server()

    def restart_server(self):
        self.run(["pg_ctl", "-D", f"{self.top}/sql", "-l", f"{self.top}/sql.log", "-m", "immediate", "-w", "-s", "restart"], 120)


def first_difference(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as diffs:
            for line in diffs:
                if re.match(r"[+-](?![+-])", line):
                    return line.rstrip("\n")
    except OSError:
        pass
    return None


# --- all of them -------------------------------------------------------------------

class Run:
    def __init__(self, work, jobs, faults):
        self.faults, self.caught, self.survivors, self.errors, self.discarded = faults, [], [], [], []
        self.workers = [Worker(work, n + 1) for n in range(jobs)]
        self.lock = threading.Lock()
        self.number = 0

    def say(self, text):
        with self.lock:
            print(text, flush=True)

    def parallel(self, function, jobs):
        """function(worker, job) for all jobs, one at a time on each worker."""
        waiting = queue.Queue()
        for job in jobs:
            waiting.put(job)

        def work(worker):
            while True:
                try:
                    job = waiting.get_nowait()
                except queue.Empty:
                    return
                try:
                    function(worker, job)
                except Exception as problem:  # pylint: disable=broad-except
                    self.errors.append(f"{job}: {problem}")
                    self.say(f"ERROR     {job}: {problem}")
        threads = [threading.Thread(target=work, args=(worker,)) for worker in self.workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def baseline(self):
        def one(worker, test):
            start = time.time()
            failed = worker.test(test)
            if failed:
                raise ListError(f"fails without a fault: {failed[:LINE]}")
            took = time.time() - start
            LIMIT[test] = 60 + 4 * took
            self.say(f"passes    {test} ({took:.0f} s)")
        # the longest first
        order = {"tap": 0, "sql": 1}
        tests = {test for fault in self.faults for test in fault.tests}
        self.parallel(one, sorted(tests, key=lambda test: (order.get(test.partition(":")[0], 2), test)))
        return not self.errors

    def try_fault(self, worker, fault):
        start = time.time()
        path = os.path.join(worker.tree, fault.file)
        try:
            worker.sync()
            with open(path, encoding="utf-8") as source:
                text = source.read()
            with open(path, "w", encoding="utf-8") as source:
                source.write(fault.mutate(text))
            if fault.file.endswith(".h"):
                worker.spare(fault.file)
            made = isinstance(fault, generate.Generated)
            by, reason = worker.try_generated(fault) if made else (worker.first_that_fails(fault.tests), None)
            if reason:
                self.discarded.append(fault)
                self.say(f"discarded {fault}: {reason}")
                return
        finally:
            worker.sync()
        took = f"({time.time() - start:.0f} s)"
        if by:
            self.caught.append(fault)
            line = f"caught    {fault}: {by[0]} {took} {by[1]}"
        else:
            self.survivors.append(fault)
            line = f"SURVIVED  {fault}: {' '.join(fault.tests)} {took}"
        self.say(line[:LINE])

    def result(self, what, made):
        """A line with the numbers of the faults in the lists, or of those made from the source."""
        def count(faults):
            return sum(isinstance(fault, generate.Generated) == made for fault in faults)
        caught, survived = count(self.caught), count(self.survivors)
        if caught + survived:
            self.say(f"{what}: {caught} caught, {survived} survived: {100 * caught / (caught + survived):.1f} % caught")

    def finish(self):
        for fault in sorted(self.survivors, key=str):
            if isinstance(fault, generate.Generated):
                self.say(f"survivor  {fault} ({fault.file})\n          - {fault.before}\n          + {fault.after}")
            else:
                self.say(f"survivor  {fault} ({fault.file}): {' '.join(fault.notes) or 'NOT EXPLAINED'}")
        listed = [fault for fault in self.caught + self.survivors if not isinstance(fault, generate.Generated)]
        for fault in self.caught:
            if fault in listed and fault.notes:
                self.say(f"the note of {fault} is out of date: it was caught")
        for error in self.errors:
            self.say(f"error     {error}")
        self.result("in the lists", False)
        self.result("generated", True)
        self.say(f"{len(self.caught)} caught, {len(self.survivors)} survived, {len(self.discarded)} discarded, "
                 f"{len(self.errors)} errors, {len(self.faults)} faults")
        return not self.errors and (self.caught or self.survivors) and all(fault in self.caught or fault.notes for fault in listed)


def main():
    command, *rest = sys.argv[1:]
    if command == "check":
        faults = read_lists(".", rest)
        print(f"{len(faults)} faults fit the source, and {sum(map(len, generated('.').values()))} can be made from it")
        return True
    work, jobs, *paths = rest
    faults = read_lists(".", paths)
    words = os.environ.get("MUTANTS", "").split()
    faults = [fault for fault in faults if fault.matches(words)] + choose_generated(".", words)
    run = Run(work, int(jobs), faults)
    if os.environ.get("MUTANTS_BASELINE") != "0":
        run.say(f"The tests of {len(faults)} faults, without a fault:")
        if not run.baseline():
            return False
    run.say(f"{len(faults)} faults, one at a time (SEED={os.environ['MUTANTS_SEED']} for those that are generated):")
    run.parallel(run.try_fault, faults)
    return run.finish()


if __name__ == "__main__":
    try:
        sys.exit(0 if main() else 1)
    except ListError as problem:
        sys.exit(f"error: {problem}")
