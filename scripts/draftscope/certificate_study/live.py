"""Texts decoded greedily with several acceptance rules, and what the target thinks of them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from draftscope.certificate_study import record_schemas  # noqa: F401  (registers its schemas)
from draftscope.certificate_study.recording import log_likelihoods
from draftscope.live.batched import decode_batch
from draftscope.live.batched_draft import BatchedDrafter
from draftscope.live.batched_model import BatchedModel
from draftscope.live.rules import Rule
from draftscope.live.run import stream, unusable
from draftscope.live.tables import round_rows, trajectory_row
from draftscope.progress import progress

if TYPE_CHECKING:
    from draftscope.models import LoadedModel
    from draftscope.trajectories import RenderedPrompt

log = logging.getLogger(__name__)
GREEDY_LAW = {"temperature": 0.0, "top_k": 0, "top_p": 1.0}
Rows = list[dict[str, Any]]


def decode_rules(
    target: LoadedModel,
    together: tuple[BatchedModel, BatchedDrafter],
    prompts: Sequence[tuple[str, RenderedPrompt]],
    rules: Sequence[Rule],
    *,
    gamma: int,
    budget: int,
    size: int,
    run_seed: int,
    domain: str,
    position_chunk: int,
) -> tuple[Rows, Rows]:
    """Decode every prompt with every rule, under the greedy law.

    Args:
        together: target and draft, for batches.
        rules: names are all different.
        size: texts decoded together.

    Returns:
        Rows of the schemas certificate_texts and rounds. Prompts that cannot be decoded (empty, or
        as long as the context) are in neither, under any rule.

    Raises:
        UserError: as `live.loop.decode` and `recording.log_likelihoods`.
    """
    decoder, drafter = together
    usable = []
    for name, prompt in prompts:
        if reason := unusable(decoder, prompt):
            log.warning("prompt %s skipped: %s", name, reason)
        else:
            usable.append((name, prompt))
    texts: Rows = []
    rounds: Rows = []
    total = len(usable) * len(rules) * budget
    with progress(total, f"decoding {domain} with {len(rules)} rules") as reporter:
        for rule in rules:
            for start in range(0, len(usable), size):
                block = usable[start : start + size]
                decoded = decode_batch(
                    decoder,
                    drafter,
                    [prompt.token_ids for _, prompt in block],
                    gamma=gamma,
                    law=GREEDY_LAW,
                    budget=budget,
                    eos_ids=target.eos_ids,
                    rngs=[
                        stream(run_seed, target.name, drafter.name, gamma, domain, name, 0)
                        for name, _ in block
                    ],
                    rule=rule,
                    where=[f"prompt {name}, rule {rule.name}" for name, _ in block],
                )
                for (name, prompt), text in zip(block, decoded, strict=True):
                    row = trajectory_row(target, name, 0, prompt, text)
                    log_p, greedy = log_likelihoods(target, row, position_chunk)
                    texts.append(
                        {key: row[key] for key in _KEPT}
                        | {"rule": rule.name, "lossless": rule.lossless, "draft_length": gamma}
                        | {"log_p": log_p, "greedy": greedy}
                    )
                    rounds += round_rows(name, 0, gamma, rule, text)
                    reporter.update(len(text.token_ids))
                    reporter.drop(budget - len(text.token_ids))
    return texts, rounds


_KEPT = ("prompt_id", "sample", "token_ids", "stop_reason", "text")
