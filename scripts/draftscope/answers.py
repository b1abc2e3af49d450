"""Is the answer in a text right? Mathematics by math-verify, generated problems by their own scorers.

Programs are not checked: that would run what a model wrote.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from draftscope.errors import UserError

CHECKERS = ("math", "reasoning_gym")
_TAGGED = re.compile(r"<answer>(.*?)</answer>", re.IGNORECASE | re.DOTALL)
# "answer is" or "answer:", with or without marks of bold type; "answers" and "answer to" name none.
_NAMED = re.compile(r"\banswer[ \t*]*(?:is\b[ \t*]*:?|:)\s*(\S.*)", re.IGNORECASE)
LONGEST = 1000  # characters of an answer; the time of scorers grows with its square


@dataclass(frozen=True)
class Judgement:
    """Whether the answer of a text is right, and what was taken for the answer."""

    correct: bool
    given: str | None


def judge(row: Mapping[str, Any], text: str, options: Mapping[str, Any] | None = None) -> Judgement:
    """Judge the answer that a text gives to a prompt.

    Args:
        row: schema prompts: its checker, reference answer and source row count.
        text: without special tokens.
        options: parameters of a generated problem's task, as the domain's row has them, by task.

    Raises:
        UserError: a checker that nothing here is, or a problem that is generated differently now.
    """
    checker = row["checker"]
    if checker == "math":
        return _mathematics(row, text)
    if checker == "reasoning_gym":
        return _generated(row, text, options or {})
    raise UserError(
        f"domain {row['domain']}: checker {checker!r} checks no answers; {', '.join(CHECKERS)} do"
    )


def _mathematics(row: Mapping[str, Any], text: str) -> Judgement:
    """Equal as mathematics: numbers, fractions, expressions, sets, in text or LaTeX."""
    from math_verify import parse, verify

    answer = row["answer"] or ""
    # A worked solution holds its answer in a box; a bare answer is put into one.
    reference = parse(answer if "\\boxed" in answer else f"\\boxed{{{answer}}}")
    if not reference:
        raise UserError(f"prompt {row['prompt_id']}: its answer {answer!r} cannot be read")
    found = parse(text)
    given = str(found[-1]) if found else None
    return Judgement(bool(found) and bool(verify(reference, found)), given)


def _generated(row: Mapping[str, Any], text: str, options: Mapping[str, Any]) -> Judgement:
    """Full marks of the scorer that belongs to the problem's task."""
    import reasoning_gym

    where = json.loads(row["source_row"])
    task = where["task"]
    problem = reasoning_gym.create_dataset(
        task, seed=where["seed"], size=1, **options.get(task, {})
    )
    entry = problem[0]
    expected = entry["answer"]  # None where several answers are right, which only the scorer knows
    same = (None if expected is None else str(expected)) == row["answer"]
    if not same or entry["question"] not in row["text"]:
        raise UserError(
            f"prompt {row['prompt_id']} was made by reasoning-gym {where['reasoning_gym']}; version "
            f"{metadata.version('reasoning-gym')} makes another problem of it"
        )
    given = final_answer(text)
    return Judgement(given is not None and _full_marks(problem, entry, given), given)


def _full_marks(problem: Any, entry: Mapping[str, Any], given: str) -> bool:
    if len(given) > LONGEST:
        return False
    try:
        return problem.score_answer(given, entry) == 1.0
    except Exception:  # noqa: BLE001  (a scorer that stumbles over an answer cannot read it)
        return False


def final_answer(text: str) -> str | None:
    """What a text gives as its answer; None for a text without words.

    The last <answer> element; else what follows the last "answer:" or "answer is", up to the end of
    the line; else the last line that is not empty. Marks of bold type around it are left out.
    """
    tagged = _TAGGED.findall(text)
    if tagged:
        return tagged[-1].strip() or None
    named = _NAMED.findall(text)
    if named:
        return _bare(named[-1]) or None
    lines = [_bare(line) for line in text.splitlines()]
    return next((line for line in reversed(lines) if line), None)


def _bare(line: str) -> str:
    return line.strip().strip("* \t")
