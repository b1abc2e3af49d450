"""Is a prompt that is measured among those that a draft was trained on, under whatever name?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from draftscope.errors import UserError

# A shorter text stands inside others by chance ("Why?"), so it counts only as a whole.
SHORTEST_INSIDE = 30


def shared_prompts(
    training: Sequence[Mapping[str, Any]],
    measured: Sequence[Mapping[str, Any]],
    instructions: Mapping[str, str | None] | None = None,
) -> list[tuple[str, str]]:
    """Pairs (training prompt id, measured prompt id) that ask the same thing.

    Equal up to case and white space, or the item of one inside the other: each domain may put an
    instruction of its own around an item that both have.

    Args:
        training, measured: rows of schema prompts.
        instructions: of each domain, as its row of the registry has it.
    """
    taught = [(row["prompt_id"], *_texts(row, instructions or {})) for row in training]
    by_text: dict[str, str] = {}
    for prompt_id, text, _ in taught:
        by_text.setdefault(text, prompt_id)
    found = []
    for row in measured:
        own, asked = _texts(row, instructions or {})
        if not own:
            continue
        if own in by_text:
            found.append((by_text[own], row["prompt_id"]))
            continue
        for prompt_id, text, item in taught:
            if _inside(asked, text) or _inside(item, own):
                found.append((prompt_id, row["prompt_id"]))
                break
    return found


def refuse_leaks(
    model: str,
    training: Sequence[Mapping[str, Any]],
    measured: Sequence[Mapping[str, Any]],
    instructions: Mapping[str, str | None] | None = None,
) -> dict[str, Any]:
    """What was compared, as JSON values; arguments as of `shared_prompts`.

    Raises:
        UserError: a measured prompt is a training prompt of the model; names the first.
    """
    shared = shared_prompts(training, measured, instructions)
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


def _texts(row: Mapping[str, Any], instructions: Mapping[str, str | None]) -> tuple[str, str]:
    """A prompt, and the item in it without its domain's instruction."""
    text = item = row["text"]
    parts = (instructions.get(row.get("domain", "")) or "").split("{problem}")
    before, after = parts[0], parts[-1]
    if len(parts) > 1 and text.startswith(before) and text.endswith(after):
        item = text[len(before) : len(text) - len(after)]
    return _plain(text), _plain(item)


def _inside(part: str, whole: str) -> bool:
    return len(part) >= SHORTEST_INSIDE and part in whole


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()
