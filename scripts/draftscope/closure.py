"""What a script's numbers depend on: its own source and the library modules it imports.

Snakemake notices a changed `script:` file but not a changed module imported by it. Cheap rules
therefore list these files as inputs (small files are compared by content, so a new modification
time alone reruns nothing), and GPU rules carry a digest of what the code *means* in their
parameters, so that a comment or a docstring reruns no expensive job.
"""

from __future__ import annotations

import ast
import functools
import hashlib
from collections.abc import Iterable
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[1]
PACKAGE = "draftscope"
# They word messages, look for packages and draw progress bars; no number passes through them.
WITHOUT_NUMBERS = {f"{PACKAGE}/{name}.py" for name in ("errors", "extras", "progress")}


def sources(script: str, also: Iterable[str] = (), scripts: Path = SCRIPTS) -> list[Path]:
    """The script and every library file that importing it can execute, sorted.

    Args:
        script: file name of the script, relative to the folder of scripts.
        also: further library files, relative to the same folder, that the script loads by name
            at run time (the loader of a model kind, a template).
        scripts: the folder that holds scripts and library.
    """
    found: dict[Path, None] = {}
    queue = [scripts / name for name in (script, *also)]
    while queue:
        path = queue.pop()
        if path not in found:
            found[path] = None
            if path.suffix == ".py":
                queue.extend(_imports(path, scripts))
    return sorted(found)


def digest(script: str, also: Iterable[str] = (), scripts: Path = SCRIPTS) -> str:
    """SHA-256 of the syntax trees of `sources`, without comments, docstrings and layout."""
    total = hashlib.sha256()
    for path in sources(script, also, scripts):
        name = path.relative_to(scripts).as_posix()
        if name not in WITHOUT_NUMBERS:
            total.update(f"{name}\0{_meaning(path)}\0".encode())
    return total.hexdigest()[:16]


@functools.cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


@functools.cache
def _meaning(path: Path) -> str:
    if path.suffix != ".py":
        return hashlib.sha256(path.read_bytes()).hexdigest()
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.dump(tree)


@functools.cache
def _imports(path: Path, scripts: Path) -> tuple[Path, ...]:
    package = path.relative_to(scripts).parent.parts
    files: list[Path] = []
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parts = list(package[: len(package) - node.level + 1]) if node.level else []
            module = ".".join([*parts, *([node.module] if node.module else [])])
            names = [module, *(f"{module}.{alias.name}" for alias in node.names)]
        else:
            continue
        for name in names:
            files.extend(_files(name, scripts))
    return tuple(files)


def _files(module: str, scripts: Path) -> list[Path]:
    """The files that importing a dotted library name executes: its packages and itself."""
    parts = module.split(".")
    if parts[0] != PACKAGE:
        return []
    files = []
    for depth in range(1, len(parts) + 1):
        folder = scripts.joinpath(*parts[:depth])
        if (folder / "__init__.py").is_file():
            files.append(folder / "__init__.py")
        elif folder.with_suffix(".py").is_file():
            files.append(folder.with_suffix(".py"))
    return files
