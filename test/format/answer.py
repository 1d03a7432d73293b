#!/usr/bin/python3
"""Run a reader many times in one process, because to start one takes longer than most of its work.

The argument is the module of the reader.  A line of standard input is a JSON array of the reader's
input and its arguments.  The answer is a line, too: an array of exit status, output and errors.
Each character of these strings is a byte."""

import importlib
import io
import json
import os
import sys
import traceback


def stream(data=b""):
    return io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", errors="surrogateescape", write_through=True)


def run(reader, given, *arguments):
    sys.argv = [reader.__file__, *(os.fsdecode(argument.encode("latin-1")) for argument in arguments)]
    sys.stdin, sys.stdout, sys.stderr = stream(given.encode("latin-1")), stream(), stream()
    try:
        status = reader.main()
    except SystemExit as leaving:
        status = leaving.code
    except Exception:
        traceback.print_exc()
        status = 1
    return status or 0, *(text.buffer.getvalue().decode("latin-1") for text in (sys.stdout, sys.stderr))


def main():
    questions, answers = sys.stdin, sys.stdout
    reader = importlib.import_module(sys.argv[1])
    for line in questions:
        print(json.dumps(run(reader, *json.loads(line))), file=answers, flush=True)


main()
