"""The one way in which a script fails: a clear line for bad input, a trace for a fault of ours."""

from __future__ import annotations

import difflib
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


class Settings(dict):
    """An object of a script's settings; a key that it lacks is bad input, not a fault of ours."""

    def __missing__(self, key: str) -> Any:
        close = difflib.get_close_matches(str(key), [str(name) for name in self], 1)
        instead = f"; it has {close[0]!r}" if close else ""
        raise UserError(f"the settings lack {key!r}{instead}")


def _no_constant(name: str) -> None:
    raise UserError(f"{name} is no JSON number; leave the key out, or give a number")


def json_argument(text: str) -> Settings:
    """Read a command-line value that is a JSON object or the path of a JSON file with one.

    Raises:
        UserError: neither JSON nor an existing file that holds JSON, or no object.
    """
    source, where = text, "the value given on the command line"
    if text[:1] not in '{["':
        path = Path(text)
        if not path.is_file():
            raise UserError(f"{text!r} is neither JSON text nor an existing JSON file")
        source, where = path.read_text(encoding="utf-8"), str(path)
    try:
        settings = json.loads(source, object_hook=Settings, parse_constant=_no_constant)
        json.dumps(settings, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError as error:
        raise UserError(
            f"{where} holds half of a surrogate pair ({error.object[error.start]!a}); write the "
            "character itself"
        ) from error
    except ValueError as error:
        raise UserError(f"{where} is not valid JSON: {error}") from error
    if not isinstance(settings, Settings):
        raise UserError(f'{where} is no JSON object, such as {{"threads": 1}}')
    return settings
