"""Files that a user names as input."""

from __future__ import annotations

from pathlib import Path

from draftscope.errors import UserError


def regular(path: str | Path) -> Path:
    """The path of a file that can be read more than once.

    Raises:
        UserError: nothing there, a folder, or a pipe or device.
    """
    path = Path(path)
    if path.is_dir():
        raise UserError(f"{path} is a folder; name a file in it")
    if not path.exists():
        raise UserError(f"{path} does not exist")
    if not path.is_file():
        raise UserError(f"{path} is no regular file; save what it gives to a file first")
    return path
