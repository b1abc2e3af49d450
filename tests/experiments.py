"""The experiments of config/ as Snakemake reads them, and files to change them with."""

from __future__ import annotations

import copy
from pathlib import Path

from draftscope.strict import load_yaml

ROOT = Path(__file__).resolve().parents[1]
LAPTOP = load_yaml(ROOT / "config/config.yaml")
PAPER = load_yaml(ROOT / "config/paper.yaml")


def merged(base: dict, over: dict) -> dict:
    """What Snakemake makes of two configuration files: mappings merge, all else replaces."""
    result = copy.deepcopy(base)
    for key, value in over.items():
        if isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = merged(result[key], value)
        else:
            result[key] = value
    return result


def registries(tmp_path: Path, **files: str) -> dict:
    paths = {}
    for kind in ("models", "pairs", "domains", "modes"):
        path = tmp_path / f"{kind}.yaml"
        if kind in files:
            path.write_text(files[kind], encoding="utf-8")
        paths[kind] = [f"config/{kind}.yaml"] + ([str(path)] if kind in files else [])
    return paths
