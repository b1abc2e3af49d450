"""The speculative loop over a batch: every text has its own drafts, acceptance and cache length.

Each text goes through the rounds it goes through alone: the books are those of `loop.decode`, the
chance that of its own generator. What differs is that passes are shared, and their rounding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from draftscope.live.batched_draft import BadRow, BatchedDrafter
from draftscope.live.batched_model import BatchedModel
from draftscope.live.loop import NOTHING, Decoded, Round, RunningText, clock
from draftscope.live.rules import Rule


@torch.inference_mode()
def decode_batch(
    target: BatchedModel,
    drafter: BatchedDrafter | None,
    prompts: Sequence[Sequence[int]],
    *,
    gamma: int,
    law: Mapping[str, float],
    budget: int,
    eos_ids: frozenset[int],
    rngs: Sequence[np.random.Generator],
    rule: Rule | None = None,
    where: Sequence[str] | None = None,
) -> list[Decoded]:
    """Decode prompts together; what stops leaves the batch.

    Args:
        drafter: not used when gamma is 0.
        rngs: a generator a prompt, used as `loop.decode` uses it.
        where: names each prompt in errors.
        law, budget, eos_ids, rule: as for `loop.decode`.

    Returns:
        As `loop.decode` gives for each prompt, except for the times: those of a round are the
        times of the phases of the whole batch, so that a text's times add up to the time until
        it stopped, and those of the text that stopped last to the time of the batch.

    Raises:
        UserError: as `loop.decode`.
        ValueError: gamma < 0, budget < 1, or not a generator a prompt.
    """
    if gamma < 0:
        raise ValueError(f"{gamma=} must be at least 0")
    names = where if where is not None else [f"prompt {n}" for n in range(len(prompts))]
    texts = [
        RunningText(
            target, prompt, law=law, budget=budget, eos_ids=eos_ids, rng=rng, rule=rule, where=name
        )
        for prompt, rng, name in zip(prompts, rngs, names, strict=True)
    ]
    if not texts:
        return []
    draft_name = drafter.name if gamma else ""
    now = clock(target.device)
    lap = now()
    target.start(len(texts))
    if gamma:
        drafter.start([text.ids for text in texts], rngs)
    live = texts
    while live:
        blocks = [NOTHING] * len(live)
        if gamma:
            try:
                blocks = drafter.propose([min(gamma, text.left) for text in live])
            except BadRow as error:
                with live[error.row].locating(draft_name):
                    raise error.error from error
        proposed = now()
        feeds = [
            text.feed(block, read)
            for text, block, read in zip(live, blocks, target.lengths, strict=True)
        ]
        logits = target.extend(feeds, [len(block.ids) + 1 for block in blocks])
        verified = now()
        judged = [
            text.judge(block, own, draft_name)
            for text, block, own in zip(live, blocks, logits, strict=True)
        ]
        tested = now()
        settled = [
            text.settle(block, *verdict)
            for text, block, verdict in zip(live, blocks, judged, strict=True)
        ]
        staying = [row for row, text in enumerate(live) if text.stop is None]
        for row in staying:
            target.crop(row, len(live[row].ids) - 1)  # the last token has not been read
        if staying and len(staying) < len(live):
            target.select(staying)
            if gamma:
                drafter.select(staying)
        if gamma and staying:
            drafter.extend([live[row].ids[-settled[row][3] :] for row in staying])
        finished = now()
        spent = (proposed - lap, verified - proposed, tested - verified, finished - tested)
        for text, fields, feed in zip(live, settled, feeds, strict=True):
            text.rounds.append(Round(*fields, len(feed), *spent))
        lap = finished
        live = [live[row] for row in staying]
    return [text.decoded for text in texts]
