"""The one way in which a script fails: a clear line for bad input, a trace for a fault of ours."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


class UserError(Exception):
    """Bad input. The message is one line: what is wrong, where, and the nearest right value."""


def command(main: Callable[[], None]) -> None:
    """Run a script's main function and turn a `UserError` into one line and exit status 2.

    Any other exception keeps its traceback, so that the log of the rule shows where it came from.
    """
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S"
    )
    # Client libraries log every request at INFO; the log of a rule is for our own lines.
    for name in ("httpx", "httpx2", "urllib3", "filelock", "matplotlib"):
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        main()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def json_argument(text: str) -> Any:
    """Read a command-line value that is JSON text or the path of a JSON file.

    Raises:
        UserError: neither JSON nor an existing file that holds JSON.
    """
    source, where = text, "the value given on the command line"
    if text[:1] not in '{["':
        path = Path(text)
        if not path.is_file():
            raise UserError(f"{text!r} is neither JSON text nor an existing JSON file")
        source, where = path.read_text(encoding="utf-8"), str(path)
    try:
        return json.loads(source)
    except json.JSONDecodeError as error:
        raise UserError(f"{where} is not valid JSON: {error}") from error
