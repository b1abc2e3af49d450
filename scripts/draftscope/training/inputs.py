"""What a training reads: the target's texts of training prompts, and the types of their tokens."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from draftscope import records
from draftscope.errors import UserError
from draftscope.tokens.names import NO_TRIGGER
from draftscope.training.examples import Example, examples
from draftscope.training.teacher import Teacher
from draftscope.training.weights import position_weights

log = logging.getLogger(__name__)

# By domain, prompt and sample: which generated positions stand in a trigger, bool [positions].
Marks = dict[tuple[str, str, int], np.ndarray]


def read_texts(
    prompts: Sequence[str], trajectories: Sequence[str]
) -> tuple[list[Example], dict[str, Any]]:
    """Texts to learn from, and the condition that all of them share.

    Raises:
        UserError: files that do not belong together, or a prompt that is no training prompt.
    """
    if len(prompts) != len(trajectories):
        raise UserError(f"--prompts: {len(prompts)} files for {len(trajectories)} files of texts")
    found, conditions = [], {}
    for asked, path in zip(prompts, trajectories, strict=True):
        rows = records.read(asked, "prompts").to_pylist()
        for row in rows:
            if row["split"] != "training":
                raise UserError(
                    f"prompt {row['prompt_id']} of domain {row['domain']} in {asked} is an "
                    f"{row['split']} prompt; a draft is trained on training prompts only"
                )
        table = records.read(path, "trajectories", [row["prompt_id"] for row in rows])
        conditions[path] = records.condition(table)
        found += examples(conditions[path].get("domain", ""), table.to_pylist())
    differ = ("domain", "template")
    return found, records.require_same_condition(conditions, differ)


def require_own_texts(generated: Mapping[str, Any], target: Mapping[str, Any], path: str) -> None:
    """Raises UserError unless the texts are this target's, at this revision."""
    keys = ("target", "target_revision", "tokenizer_sha256")
    sides = {path: generated, "the target": target}
    records.require_same_condition({k: {key: s.get(key) for key in keys} for k, s in sides.items()})


def weigh(
    row: Mapping[str, Any], texts: Sequence[Example], teacher: Teacher, marks: Marks | None
) -> list[np.ndarray]:
    """The weight of every position of the training texts."""
    weighting = row.get("weighting", "uniform")
    given: dict[str, Any] = {}
    if weighting == "entropy":
        given["entropies"] = [teacher.entropy(text) for text in texts]
    if weighting == "reflection":
        if marks is None:
            raise UserError("weighting reflection needs the types of the texts' tokens (--marks)")
        given |= {"marked": [marks[_key(text)] for text in texts], "emphasis": row["emphasis"]}
        count = sum(int(each.sum()) for each in given["marked"])
        log.info("%d of %d training positions stand in a trigger", count,
                 sum(len(text.emitted) for text in texts))  # fmt: skip
        if not count:
            log.warning("no trigger in the training texts: this arm is the uniform one")
    return position_weights(weighting, [len(text.emitted) for text in texts], **given)


def _key(text: Example) -> tuple[str, str, int]:
    return text.domain, text.prompt_id, text.sample


def read_marks(paths: Sequence[str]) -> Marks:
    """By text: which generated positions stand in a reflection trigger.

    Args:
        paths: files of schema token_types, of one domain each.
    """
    import draftscope.tokens.schemas  # noqa: F401  (registers their schema)

    found = {}
    for path in paths:
        table = records.read(path, "token_types")
        domain = records.condition(table)["domain"]
        for row in table.select(["prompt_id", "sample", "trigger"]).to_pylist():
            key = (domain, row["prompt_id"], row["sample"])
            # Not by type: a part of a character of a trigger is of a type of its own.
            found[key] = np.asarray(row["trigger"]) != NO_TRIGGER
    return found
