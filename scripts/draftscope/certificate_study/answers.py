"""Are the answers of decoded texts right? Scored where the prompts name a checker.

A text of a small model seldom keeps to a format, so the answer is looked for: the last number of
a text whose reference is a number, the last sentence otherwise. The checker then decides.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from draftscope.errors import UserError

_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
CHECKERS = ("reasoning_gym", "math")


class Answers:
    """Scores texts of one domain by prompt.

    Args:
        prompts: rows of schema prompts.
        options: of the tasks of reasoning-gym, task -> parameters, as in the registry of domains.
    """

    def __init__(
        self,
        prompts: Iterable[Mapping[str, Any]] = (),
        options: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self._prompts = {row["prompt_id"]: row for row in prompts}
        self._options = options or {}

    def score(self, prompt_id: str, text: str) -> float | None:
        """1 for a right answer, 0 for a wrong one; None where nothing can be checked here.

        Raises:
            UserError: the package generates another problem than the prompt holds.
        """
        row = self._prompts.get(prompt_id)
        if row is None or row["checker"] not in CHECKERS:
            return None
        if row["checker"] == "math" and row["answer"] is None:
            return None
        given = answer_of(text, row["answer"] or "")
        if given is None:
            return 0.0
        if row["checker"] == "reasoning_gym":
            return float(self._reasoning_gym(row, given))
        return float(_same_number(given, row["answer"]))

    def _reasoning_gym(self, row: Mapping[str, Any], given: str) -> bool:
        """The package's own scorer, which wants the item: it is generated again from its seed."""
        # Imported here: the package takes seconds.
        import reasoning_gym

        where = json.loads(row["source_row"])
        task, seed = where["task"], where["seed"]
        tasks = reasoning_gym.create_dataset(task, seed=seed, size=1, **self._options.get(task, {}))
        entry = tasks[0]
        if entry["question"] not in row["text"]:
            raise UserError(
                f"prompt {row['prompt_id']}: reasoning-gym now generates another problem for task "
                f"{task}, seed {seed}; its answers cannot be checked with this version"
            )
        # Partial credit, which some tasks give for a formatted attempt, is no right answer.
        return tasks.score_answer(given, entry) >= 1.0


def answer_of(text: str, reference: str) -> str | None:
    """What a text says the answer is; None where it says nothing of the kind.

    Args:
        reference: the reference answer, which tells whether a number is wanted.
    """
    if _NUMBER.fullmatch(reference.strip()):
        found = _NUMBER.findall(text)
        return found[-1].replace(",", "") if found else None
    sentences = [part.strip() for part in re.split(r"(?<=[.!?])\s+|\n+", text) if part.strip()]
    return sentences[-1].rstrip(".!?") if sentences else None


def _same_number(given: str, reference: str) -> bool:
    try:
        return float(given) == float(reference.replace(",", ""))
    except ValueError:
        return given.strip() == reference.strip()
