"""Files that appear whole or not at all, whatever happens to the one who writes them."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from draftscope.errors import UserError

# What a killed writer leaves behind; nothing reads it, and `clear_stale_lock.py` removes it.
UNFINISHED = ".part"
# A full disk, a used-up quota, a limit on the size of a file.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextlib.contextmanager
def atomic(path: str | os.PathLike, mode: str = "w") -> Iterator[IO]:
    """Open a file that appears under `path` only when the block ends without an exception.

    The bytes go to a temporary name in the same folder, are synced to disk and renamed, so a
    killed job leaves no half file and two writers of one output are harmless. A link stays a
    link: what it points at is written.

    Raises:
        UserError: there is no room for the file, or no file can be under that name.
    """
    path = Path(path)
    if path.is_dir():
        raise UserError(f"{path} is a folder; name a file in it")
    if path.exists() and not path.is_file():
        raise UserError(f"{path} is a pipe or a device, which a file would replace; name a file")
    final, temporary = Path(os.path.realpath(path)) if path.is_symlink() else path, None
    try:
        descriptor, temporary = _begin(final)
        encoding = None if "b" in mode else "utf-8"
        with os.fdopen(descriptor, mode, encoding=encoding) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, final)
    except BaseException as error:
        if temporary is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            raise UserError(
                f"{path} could not be written: {os.strerror(error.errno).lower()}; make room and "
                "run again (nothing was left half-written)"
            ) from error
        raise


def _begin(path: Path) -> tuple[int, str]:
    """A new file beside `path`, open, and its name."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=UNFINISHED)
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise
        raise UserError(
            f"{path} cannot be written: {os.strerror(error.errno).lower()} ({error.filename}); "
            "name another file"
        ) from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextlib.contextmanager
def whole_folder(final: str | os.PathLike) -> Iterator[Path]:
    """A name for a folder to make, which takes the place of `final` when the block ends well.

    The folder is not there yet. The one around it is the block's own, for whatever else it
    writes, and is removed at the end; what a killed run left of it is removed first. Files get the
    modes of ordinary new ones: some libraries make theirs private to their owner.
    """
    final = Path(final)
    prefix = f".{final.name}.making-"
    for stale in final.parent.glob(f"{prefix}*"):
        shutil.rmtree(stale)
    around = Path(tempfile.mkdtemp(dir=final.parent, prefix=prefix))
    try:
        made = around / final.name
        yield made
        mask = _umask()
        for path in made.rglob("*"):
            if path.is_file():
                path.chmod(0o666 & ~mask)
        if final.exists():
            shutil.rmtree(final)
        made.rename(final)
    finally:
        shutil.rmtree(around, ignore_errors=True)


def write_json(path: str | os.PathLike, value: Any) -> None:
    """Write `value` as indented JSON, atomically; NaN and infinities are refused."""
    with atomic(path) as file:
        json.dump(value, file, indent=1, ensure_ascii=False, allow_nan=False)
        file.write("\n")
