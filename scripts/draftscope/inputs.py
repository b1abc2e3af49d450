"""Files that a user names as input."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from draftscope.errors import UserError

STANDARD_INPUT = "-"
_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/(\d+)")


def regular(path: str | Path) -> Path:
    """The path of a file that can be read more than once; "-" names the standard input.

    What a pipe gives that this process began with (`-`, `<(command)` of a shell) is kept in a file
    without a name, which from then on is what stands behind the pipe's own name.

    Raises:
        UserError: nothing there, a folder, or another pipe or device.
    """
    given, path = path, Path("/dev/stdin" if str(path) == STANDARD_INPUT else path)
    if path.is_dir():
        raise UserError(f"{given} is a folder; name a file in it")
    if not path.exists():
        raise UserError(f"{given} does not exist")
    if not path.is_file():
        descriptor = _descriptor(path)
        if descriptor is None:
            raise UserError(f"{given} is no regular file; save what it gives to a file first")
        _keep(descriptor, str(given))
    return path


def _descriptor(path: Path) -> int | None:
    """Which of our own open files a path stands for, where the system opens it anew by that name."""
    if sys.platform != "linux":  # elsewhere a second reader goes on where the first one stopped
        return None
    if str(path) == "/dev/stdin":
        return 0
    found = _DESCRIPTOR.fullmatch(str(path))
    return int(found[1]) if found else None


def _keep(descriptor: int, name: str) -> None:
    try:
        with (
            tempfile.TemporaryFile() as kept,
            open(descriptor, "rb", closefd=False) as stream,
        ):
            shutil.copyfileobj(stream, kept)
            kept.flush()
            os.dup2(kept.fileno(), descriptor)
    except OSError as error:
        raise UserError(
            f"{name} could not be kept in {tempfile.gettempdir()} to be read: "
            f"{(error.strerror or str(error)).lower()}; save what it gives to a file first"
        ) from error


def apart(output: str | Path, inputs: Iterable[str | Path]) -> None:
    """Check that writing a file destroys none of those that are read.

    Raises:
        UserError: it is one of them.
    """
    for path in inputs:
        if Path(path).exists() and Path(output).exists() and os.path.samefile(output, path):
            raise UserError(f"{output} is to be read and cannot be the output too; name another")
