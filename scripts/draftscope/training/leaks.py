"""Is a prompt that is measured among those that a draft was trained on, under whatever name?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from draftscope.errors import UserError

# A shorter text stands inside others by chance ("Why?"), so it counts only as a whole.
SHORTEST_INSIDE = 30


def shared_prompts(
    training: Sequence[Mapping[str, Any]], measured: Sequence[Mapping[str, Any]]
) -> list[tuple[str, str]]:
    """Pairs (training prompt id, measured prompt id) that ask the same thing.

    Equal up to case and white space, or one inside the other: a domain may put its own instruction
    around an item that another domain gives alone.

    Args:
        training, measured: rows of schema prompts.
    """
    taught = [(row["prompt_id"], _plain(row["text"])) for row in training]
    by_text: dict[str, str] = {}
    for prompt_id, text in taught:
        by_text.setdefault(text, prompt_id)
    found = []
    for row in measured:
        own = _plain(row["text"])
        if not own:
            continue
        if own in by_text:
            found.append((by_text[own], row["prompt_id"]))
            continue
        for prompt_id, text in taught:
            if min(len(own), len(text)) >= SHORTEST_INSIDE and (own in text or text in own):
                found.append((prompt_id, row["prompt_id"]))
                break
    return found


def refuse_leaks(
    model: str, training: Sequence[Mapping[str, Any]], measured: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """What was compared, as JSON values.

    Raises:
        UserError: a measured prompt is a training prompt of the model; names the first.
    """
    shared = shared_prompts(training, measured)
    if shared:
        taught, asked = shared[0]
        more = f" (and {len(shared) - 1} more)" if shared[1:] else ""
        raise UserError(
            f"model {model} was trained on prompt {taught}, which is measured as prompt {asked}"
            f"{more}; let the training and evaluation rows of the registry of domains differ"
        )
    return {
        "model": model,
        "training_prompts": len(training),
        "measured_prompts": len(measured),
        "shared": 0,
    }


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()
