"""Decode many prompts live, each with a random stream of its own, and log rounds and times."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from draftscope import seeds
from draftscope.drafters.model import Drafter, ModelDraft
from draftscope.live.loop import Decoded, decode
from draftscope.live.model import Decoder, open_decoder
from draftscope.live.rules import Rule, rule_of
from draftscope.live.tables import round_rows, skipped_row, timing_rows, trajectory_row
from draftscope.progress import progress

if TYPE_CHECKING:
    from draftscope.models import LoadedModel
    from draftscope.models.vocabulary import Alignment
    from draftscope.trajectories import RenderedPrompt

log = logging.getLogger(__name__)


@dataclass
class LiveRun:
    """What a run gives: rows of three schemas, and how often a test met a special case."""

    trajectories: list[dict[str, Any]] = field(default_factory=list)
    rounds: list[dict[str, Any]] = field(default_factory=list)
    timings: list[dict[str, Any]] = field(default_factory=list)
    counts: Counter = field(default_factory=Counter)


def model_draft(draft: LoadedModel, alignment: Alignment, law: Mapping[str, float]) -> ModelDraft:
    """A loaded model as drafter, with the ids masked that its target means otherwise."""
    return ModelDraft(open_decoder(draft), law, alignment.masked_ids)


def stream(
    run_seed: int, target: str, draft: str, gamma: int, domain: str, prompt_id: str, sample: int
) -> np.random.Generator:
    """The source of chance of one text; `draft` is empty where nothing is drafted."""
    return seeds.generator("live", run_seed, target, draft, gamma, domain, prompt_id, sample)


def run(
    target: LoadedModel,
    drafter: Drafter | None,
    prompts: Sequence[tuple[str, RenderedPrompt]],
    *,
    gamma: int,
    law: Mapping[str, float],
    budget: int,
    run_seed: int,
    domain: str,
    samples: int = 1,
    warm_up: int = 0,
    repeats: int = 1,
    rule: Rule | None = None,
    decoder: Decoder | None = None,
) -> LiveRun:
    """Decode every prompt `samples` times.

    The stream of a text is keyed by run seed, target, draft, draft length, domain, prompt and
    sample: it depends on no other prompt, and texts of different draft lengths are
    independent, so that they can be compared by a two-sample test.

    Args:
        drafter: `model_draft`, or a `TextDraft`; None with gamma 0 is plain decoding.
        prompts: pairs of prompt id and rendered prompt.
        warm_up: so many texts are decoded and thrown away before the first one that counts.
        repeats: how often each text is decoded with the same stream; the timings hold all
            passes, the other rows the first.
        decoder: the target's, if it is open already; a drafter that reads the target's states
            brings its own.

    Returns:
        Prompts that are empty or fill the context are rows of status "skipped".

    Raises:
        UserError: as `decode`, or the target's cache cannot be cropped.
        ValueError: gamma > 0 without a drafter.
    """
    if gamma and drafter is None:
        raise ValueError(f"a draft length of {gamma} needs a drafter")
    own = getattr(drafter, "target_decoder", None) if gamma else None
    decoder = own or decoder or open_decoder(target)
    rule = rule or rule_of(law, drafter if gamma else None)
    draft_name = drafter.name if gamma else ""
    out = LiveRun()

    def once(prompt_id: str, sample: int, prompt: RenderedPrompt) -> Decoded:
        return decode(
            decoder,
            drafter,
            prompt.token_ids,
            gamma=gamma,
            law=law,
            budget=budget,
            eos_ids=target.eos_ids,
            rng=stream(run_seed, target.name, draft_name, gamma, domain, prompt_id, sample),
            rule=rule,
            where=f"prompt {prompt_id}, sample {sample}",
        )

    usable = [(name, prompt) for name, prompt in prompts if not unusable(decoder, prompt)]
    for name, prompt in usable[:warm_up]:
        once(name, 0, prompt)
    total = len(usable) * samples * repeats * budget
    with progress(total, f"decoding {domain} live, draft length {gamma}") as reporter:
        for prompt_id, prompt in prompts:
            for sample in range(samples):
                if reason := unusable(decoder, prompt):
                    log.warning("prompt %s skipped: %s", prompt_id, reason)
                    out.trajectories.append(skipped_row(prompt_id, sample, prompt, reason))
                    continue
                passes = [once(prompt_id, sample, prompt) for _ in range(repeats)]
                first = passes[0]
                out.trajectories.append(trajectory_row(target, prompt_id, sample, prompt, first))
                out.rounds += round_rows(prompt_id, sample, gamma, rule, first)
                out.timings += timing_rows(prompt_id, sample, gamma, passes)
                out.counts += first.counts
                done = sum(len(decoded.token_ids) for decoded in passes)
                reporter.update(done)
                reporter.drop(repeats * budget - done)
    return out


def unusable(decoder: Decoder, prompt: RenderedPrompt) -> str | None:
    """Why a prompt cannot be decoded, or None."""
    length = len(prompt.token_ids)
    if not length:
        return "empty prompt"
    if decoder.max_positions is not None and length >= decoder.max_positions:
        return f"its {length} tokens fill the model's context"
    return None
