"""What a draft is trained on: texts of its target, apart by prompt from what stops the training."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from draftscope import seeds
from draftscope.errors import UserError


@dataclass(frozen=True)
class Example:
    """One text of the target after a prompt, as token ids."""

    domain: str
    prompt_id: str
    sample: int
    prompt: tuple[int, ...]
    emitted: tuple[int, ...]


def examples(domain: str, rows: Sequence[Mapping[str, Any]]) -> list[Example]:
    """The texts that can be learnt from: those that were generated and are not empty.

    Args:
        rows: schema trajectories.
    """
    return [
        Example(
            domain,
            row["prompt_id"],
            row["sample"],
            tuple(row["prompt_token_ids"]),
            tuple(row["token_ids"]),
        )
        for row in rows
        if row["status"] == "ok" and row["prompt_token_ids"] and row["token_ids"]
    ]


def split(texts: Sequence[Example], share: float, seed: int) -> tuple[list[Example], list[Example]]:
    """Texts to train on and texts to hold out; all texts of a prompt fall on one side.

    In each domain the held-out prompts are `share` of them, at least one, chosen by `seed` and the
    prompt alone.

    Raises:
        UserError: a domain with texts of one prompt only.
    """
    held: set[tuple[str, str]] = set()
    for domain in dict.fromkeys(text.domain for text in texts):
        prompts = sorted({text.prompt_id for text in texts if text.domain == domain})
        if len(prompts) < 2:
            raise UserError(
                f"domain {domain} has texts of one training prompt; one to train on and one to "
                "hold out are needed"
            )
        prompts.sort(key=lambda name: seeds.generator("held out", seed, domain, name).random())
        count = min(max(math.ceil(share * len(prompts)), 1), len(prompts) - 1)
        held |= {(domain, name) for name in prompts[:count]}
    kept = [text for text in texts if (text.domain, text.prompt_id) not in held]
    return kept, [text for text in texts if (text.domain, text.prompt_id) in held]


def batch(count: int, size: int, step: int, seed: int) -> list[int]:
    """Which of `count` texts a step visits, from step 0: passes over all, each in its own order.

    A function of its arguments, so that a run that was interrupted goes on with the same texts.
    """
    found = []
    for place in range(step * size, (step + 1) * size):
        turn, at = divmod(place, count)
        found.append(int(seeds.generator("training order", seed, turn).permutation(count)[at]))
    return found


def digest(texts: Sequence[Example]) -> str:
    """SHA-256 of the texts, in their order."""
    total = hashlib.sha256()
    for text in texts:
        total.update(json.dumps([text.domain, text.prompt_id, text.sample]).encode())
        total.update(json.dumps([list(text.prompt), list(text.emitted)]).encode())
    return total.hexdigest()
