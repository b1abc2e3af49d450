"""The beginnings of texts, as the texts of a smaller budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from draftscope.errors import UserError


def beginnings(
    trajectories: Sequence[Mapping[str, Any]], prompts: int, tokens: int
) -> list[dict[str, Any]]:
    """The first prompts of a shard, each with the first tokens of its text.

    The beginning of a text is the text of a smaller budget, drawn from the same random numbers.

    Args:
        trajectories: rows of the schema `trajectories`, in the order of the prompts.
        prompts, tokens: how many prompts at most, and the budget of the shorter texts.

    Raises:
        UserError: a text had a smaller budget.
    """
    chosen = list(dict.fromkeys(row["prompt_id"] for row in trajectories))[:prompts]
    rows = []
    for row in trajectories:
        if row["prompt_id"] not in chosen:
            continue
        row = dict(row)
        if row["status"] == "ok":
            ended = row["stop_reason"] != "budget"
            if not ended and row["budget"] < tokens:
                raise UserError(
                    f"prompt {row['prompt_id']}, sample {row['sample']} was generated with a "
                    f"budget of {row['budget']} tokens, fewer than the {tokens} wanted of it"
                )
            if len(row["token_ids"]) > tokens or not ended:
                row |= {"stop_reason": "budget", "stop_token_id": None}
            row |= {"token_ids": row["token_ids"][:tokens], "budget": min(row["budget"], tokens)}
        rows.append(row)
    return rows
