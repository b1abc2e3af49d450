"""Makes Snakemake's plans quickly: one process imports Snakemake, and a copy of it makes each plan.

Run as a program it reads requests from its standard input, one JSON object a line, and answers
each with another. Nothing of the project is imported before the fork, so a plan sees the library
as it is in the project's folder at that moment.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# What a plan imports besides the project, and takes long.
HEAVY = ("snakemake.cli", "snakemake.workflow", "snakemake.scheduling.job_scheduler", "pydantic")


def plan(folder: Path, arguments: Sequence[str]) -> tuple[int, str]:
    """Exit status and output of `snakemake ARGUMENTS` in a folder; only for runs that change nothing."""
    process = _planner()
    print(json.dumps({"folder": str(folder), "arguments": [*arguments]}), file=process.stdin)
    answer = json.loads(process.stdout.readline())
    return answer["status"], answer["printed"]


@functools.cache
def _planner() -> subprocess.Popen:
    process = subprocess.Popen(
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
        env=os.environ | {"COLUMNS": "200"},
    )
    atexit.register(_end, process)
    return process


def _end(process: subprocess.Popen) -> None:
    process.stdin.close()
    process.wait()
    process.stdout.close()


def serve() -> None:
    for module in HEAVY:
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(module)
    for line in sys.stdin:
        with tempfile.TemporaryFile() as printed:
            child = os.fork()
            if not child:
                os._exit(_snakemake(printed.fileno(), **json.loads(line)))
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            printed.seek(0)
            text = printed.read().decode(errors="replace")
        print(json.dumps({"status": status, "printed": text}), flush=True)


def _snakemake(output: int, folder: str, arguments: list[str]) -> int:
    """In the copy: become `snakemake ARGUMENTS`, its output in one file; the exit status."""
    os.chdir(folder)
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    # As `python -m snakemake` does: the working folder first, and not that of this file.
    sys.path[0] = folder
    sys.argv = ["snakemake", *arguments]
    code: Any = 1
    try:
        importlib.import_module("snakemake.cli").main()
        code = 0
    except SystemExit as end:  # any other exception ends the copy, with its trace in the file
        code = end.code
    if isinstance(code, str):
        print(code, file=sys.stderr)
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code or 0


if __name__ == "__main__":
    serve()
