"""What a block drafter held behind its first rejection, where its tokens are thrown away.

The two probes of ReTrace (arXiv:2608.29748, section 2): how high the draft ranked the token that the
target came to write at the same place, and how far its final state points the way of the state that
the target wrote it from, beside that of a state of another prompt's text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from draftscope import seeds
from draftscope.drafters.proposals import TextBlocks
from draftscope.errors import UserError

Round = tuple[int, int, int]


def probe_texts(
    blocks: TextBlocks,
    texts: Sequence[Mapping[str, Any]],
    rounds: Mapping[tuple[str, int], Sequence[Round]],
    *,
    run_seed: int,
    domain: str,
) -> list[dict[str, Any]]:
    """Rows of schema probes.

    The state of a text that a place is compared with at random is one of the text before it (of the
    first text: the last one), at a place drawn by run seed, domain, prompt and sample.

    Args:
        texts: prompt_id, sample, prompt_token_ids and token_ids, not empty.
        rounds: by prompt and sample, the rounds of the drafter on the text: number, start and
            accepted of each that rejected something.

    Raises:
        UserError: texts of one prompt only.
    """
    if len({row["prompt_id"] for row in texts}) < 2:
        raise UserError(
            "probes compare states with those of another prompt's text, and there are texts of fewer "
            "than two prompts"
        )
    # Texts of one prompt would follow one another: take the prompts in turn.
    turns = sorted(enumerate(texts), key=lambda each: (each[1]["sample"], each[0]))
    ordered = [row for _, row in turns]
    other = _final(blocks, ordered[-1])
    found: list[dict[str, Any]] = []
    for row in ordered:
        own = rounds.get((row["prompt_id"], row["sample"]), ())
        rng = seeds.generator("probes", run_seed, domain, row["prompt_id"], row["sample"])
        rows, other = probe_text(blocks, row, own, other, rng)
        found += rows
    return found


def _final(blocks: TextBlocks, row: Mapping[str, Any]) -> Tensor:
    """The target's final states before each generated token of a text, [tokens, width]."""
    read, first = _read(row)
    for _, _, features in blocks.states(read, first):
        return features.final[first:].clone()
    raise ValueError("a text without a token")


def _read(row: Mapping[str, Any]) -> tuple[list[int], int]:
    prompt = list(row["prompt_token_ids"])
    return [*prompt, *row["token_ids"]][:-1], len(prompt) - 1


@torch.inference_mode()
def probe_text(
    blocks: TextBlocks,
    row: Mapping[str, Any],
    rounds: Sequence[Round],
    other: Tensor,
    rng: np.random.Generator,
) -> tuple[list[dict[str, Any]], Tensor]:
    """Rows of one text, and the target's final states on it, for the text that follows.

    Args:
        rounds: (number, start, accepted), each with a rejected token at slot accepted + 1.
        other: [m, width] states that are drawn from at random.
    """
    read, first = _read(row)
    tokens = np.asarray(row["token_ids"])
    ids = blocks.target_ids
    place = torch.full((ids,), -1, dtype=torch.long)
    place[blocks.head.ids.cpu()] = torch.arange(len(blocks.head.ids))
    found, final = [], other
    for rows, states, features in blocks.states(read, first):
        final = features.final[first:]
        for number, start, accepted in rounds:
            if not rows.start <= start < rows.stop:
                continue
            # Slot j drafts generated token start - 1 + j; the first rejected one is slot r.
            r = accepted + 1
            slots = np.arange(r + 1, blocks.most + 1)
            slots = slots[start - 1 + slots < len(tokens)]
            if not len(slots):
                continue
            draft = states[start - rows.start, torch.as_tensor(slots)]
            logits = blocks.logits(draft)
            wrote = start - 1 + slots
            wanted = place[torch.as_tensor(tokens[wrote], dtype=torch.long)].to(logits.device)
            score = logits.gather(1, wanted.clamp(min=0)[:, None])
            rank = (logits >= score).sum(1)
            # An id that cannot be proposed stands behind all others.
            rank = rank.where(wanted >= 0, ids)
            states_true = final[torch.as_tensor(wrote)]
            drawn = rng.integers(len(other), size=len(slots))
            states_random = other[torch.as_tensor(drawn)]
            wide = draft.float()
            true, random = (
                cosine_similarity(wide, each.to(wide.device).float(), dim=-1).tolist()
                for each in (states_true, states_random)
            )
            found += [
                {
                    "prompt_id": row["prompt_id"],
                    "sample": row["sample"],
                    "round": number,
                    "slot": int(slot),
                    "first_rejected": r,
                    "rank": int(one),
                    "cosine_true": a,
                    "cosine_random": b,
                }
                for slot, one, a, b in zip(slots, rank.tolist(), true, random, strict=True)
            ]
    return found, final.clone()
