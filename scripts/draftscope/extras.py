"""Packages that only some models need: which ones, which versions, and whether they are here.

Asked when the workflow is read, before any job waits in a queue, and again by the job that loads
the model. Nothing is imported to find out: the packages are large, and some start threads.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from draftscope.errors import UserError


@dataclass(frozen=True)
class Package:
    """One package of an extra.

    Attributes:
        name: on the package index.
        module: what Python imports.
        version: the version that was tried with the pinned environment; an older one is refused.
    """

    name: str
    module: str
    version: str


EXTRAS: dict[str, tuple[Package, ...]] = {
    "gptq": (
        Package("gptqmodel", "gptqmodel", "7.5.0"),
        Package("optimum", "optimum", "2.3.0"),
    ),
    "llama_cpp": (Package("llama-cpp-python", "llama_cpp", "0.3.36"),),
}

# What installs an extra into the project's own environment.
MAKE = {"gptq": "make gptq"}


def extra_of(row: Mapping[str, Any]) -> str | None:
    """The extra that a model needs, as far as its registry row tells without a network.

    A hub model says it by `quantization`; a local folder by its config.json.

    Returns:
        A key of `EXTRAS`, or None.
    """
    for told in (row.get("kind"), row.get("quantization")):
        if told in EXTRAS:
            return told
    if row.get("kind") == "local":
        method = method_of(Path(row["path"]) / "config.json")
        return method if method in EXTRAS else None
    return None


def method_of(config: Path) -> str | None:
    """`quant_method` of a checkpoint's config.json; None for plain weights or no such file."""
    try:
        content = json.loads(config.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None  # what is wrong with the file is said by what reads the model
    found = content.get("quantization_config") if isinstance(content, dict) else None
    return found.get("quant_method") if isinstance(found, dict) else None


def lacking(extra: str) -> str | None:
    """What of an extra is not installed or too old, and the command that installs it.

    Returns:
        For example "needs gptqmodel 7.5.0, which is not installed: pip install ..."; None when
        all of it is there.
    """
    from packaging.version import InvalidVersion, Version

    faults = []
    for package in EXTRAS[extra]:
        if importlib.util.find_spec(package.module) is None:
            faults.append(f"{package.name} {package.version}, which is not installed")
            continue
        try:
            found = importlib.metadata.version(package.name)
            old = Version(found) < Version(package.version)
        except (importlib.metadata.PackageNotFoundError, InvalidVersion):
            continue  # installed without its metadata: loading it will tell
        if old:
            faults.append(f"{package.name} {package.version} or newer (installed: {found})")
    if not faults:
        return None
    return f"needs {', and '.join(faults)}: {install_command(extra)}"


def install_command(extra: str) -> str:
    """The commands that install all packages of an extra, at the versions that were tried."""
    packages = " ".join(f"{package.name}=={package.version}" for package in EXTRAS[extra])
    made = f"{MAKE[extra]}, or " if extra in MAKE else ""
    return f"{made}pip install {packages}"


def missing(models: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """One line for every model that cannot run here for want of a package.

    Args:
        models: name -> registry row.
    """
    lines = []
    for name, row in models.items():
        extra = extra_of(row)
        fault = lacking(extra) if extra else None
        if fault:
            lines.append(f"model {name} ({extra}) {fault}")
    return lines


def require(extra: str, name: str) -> None:
    """Refuse to go on without the packages of an extra.

    Args:
        extra: a key of `EXTRAS`.
        name: the model, for the message.

    Raises:
        UserError: one line with the packages, their versions and the command that installs them.
    """
    fault = lacking(extra)
    if fault:
        raise UserError(f"model {name} ({extra}) {fault}")
