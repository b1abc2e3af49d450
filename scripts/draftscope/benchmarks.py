"""This project's speed against transformers' own assisted generation, as ratios in one run.

Each function times both sides in turns in one process, on the same models, prompts and draft
lengths, so that the machine's mood meets both alike; loading is outside the clock on both sides.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from draftscope.drafters.model import ModelDraft
from draftscope.live.loop import decode
from draftscope.live.model import open_decoder
from draftscope.models import LoadedModel
from draftscope.models.vocabulary import Alignment
from draftscope.replay import replay_trajectory
from draftscope.scoring import DECODING, score
from draftscope.trajectories import RenderedPrompt, generate

GREEDY = {"temperature": 0.0, "top_k": 0, "top_p": 1.0}
Prompts = Sequence[tuple[str, RenderedPrompt]]


@dataclass(frozen=True)
class Comparison:
    """Seconds of both sides, a pair a repetition, and what was compared."""

    ours: list[float]
    theirs: list[float]
    detail: str

    @property
    def ratio(self) -> float:
        """Median over repetitions of their seconds / ours."""
        return statistics.median(b / a for a, b in zip(self.ours, self.theirs, strict=True))


def in_turns(
    ours: Callable[[], Any],
    theirs: Callable[[], Any],
    repeats: int,
    clock: Callable[[], float] = time.perf_counter,
    warm_up: int = 1,
) -> tuple[list[float], list[float]]:
    """Seconds of both, run in turns, the first turn of each alternating; warm-up is dropped."""
    spent: dict[Callable, list[float]] = {ours: [], theirs: []}
    for turn in range(-warm_up, repeats):
        for work in (ours, theirs) if turn % 2 == 0 else (theirs, ours):
            start = clock()
            work()
            if turn >= 0:
                spent[work].append(clock() - start)
    return spent[ours], spent[theirs]


@contextmanager
def constant_drafts(draft: Any, gamma: int) -> Iterator[None]:
    """Make transformers draft exactly gamma tokens in every round, as our loop does.

    Its defaults adapt the number to the acceptance so far and stop early on low confidence.
    """
    settings = draft.generation_config
    wanted = {
        "num_assistant_tokens": gamma,
        "num_assistant_tokens_schedule": "constant",
        "assistant_confidence_threshold": 0.0,
    }
    before = {name: getattr(settings, name, None) for name in wanted}
    try:
        for name, value in wanted.items():
            setattr(settings, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(settings, name, value)


def assisted(
    target: LoadedModel, draft: LoadedModel, token_ids: Sequence[int], gamma: int, budget: int
) -> list[int]:
    """Greedy text of transformers' assisted generation."""
    ids = torch.tensor([list(token_ids)], device=target.device)
    with torch.inference_mode(), constant_drafts(draft.model, gamma):
        out = target.model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            assistant_model=draft.model,
            do_sample=False,
            max_new_tokens=budget,
            eos_token_id=sorted(target.eos_ids) or None,
            pad_token_id=target.pad_id,
        )
    return out[0, ids.shape[1] :].tolist()


def live_against_assisted(
    target: LoadedModel,
    draft: LoadedModel,
    prompts: Prompts,
    gamma: int,
    budget: int,
    repeats: int,
) -> Comparison:
    """The live loop against assisted generation, greedy, one prompt after another."""
    decoder, drafter = open_decoder(target), ModelDraft(open_decoder(draft), GREEDY)
    texts: dict[str, list[list[int]]] = {"ours": [], "theirs": []}

    def ours() -> None:
        texts["ours"] = [
            decode(
                decoder,
                drafter,
                prompt.token_ids,
                gamma=gamma,
                law=GREEDY,
                budget=budget,
                eos_ids=target.eos_ids,
                rng=np.random.default_rng(0),
            ).token_ids
            for _, prompt in prompts
        ]

    def theirs() -> None:
        texts["theirs"] = [
            assisted(target, draft, prompt.token_ids, gamma, budget) for _, prompt in prompts
        ]

    spent = in_turns(ours, theirs, repeats)
    tokens = {side: sum(map(len, text)) for side, text in texts.items()}
    same = sum(a == b for a, b in zip(texts["ours"], texts["theirs"], strict=True))
    # Texts that a near-tie parts may differ in length: compare seconds a token.
    return Comparison(
        [seconds / tokens["ours"] for seconds in spent[0]],
        [seconds / tokens["theirs"] for seconds in spent[1]],
        f"{len(prompts)} prompts, {tokens['ours']} tokens, draft length {gamma}, {repeats} turns; "
        f"{same} of {len(prompts)} texts identical; seconds a token "
        f"{statistics.median(spent[0]) / tokens['ours']:.4f} against "
        f"{statistics.median(spent[1]) / tokens['theirs']:.4f}",
    )


def replay_against_assisted(
    target: LoadedModel,
    drafts: Sequence[tuple[LoadedModel, Alignment]],
    prompts: Prompts,
    draft_lengths: Sequence[int],
    budget: int,
    batch_size: int,
) -> Comparison:
    """Every draft and draft length measured by generate, score and replay, or each run live.

    The assisted side takes minutes, so it runs once, after one short text of both that warms up.
    Ours runs before it, after it and between any two of its drafts, and the median counts: a machine
    that is busy for a moment would otherwise meet one side alone.
    """

    def ours(some: Prompts, most: int) -> list[dict[str, Any]]:
        rows = generate(
            target, some, law=GREEDY, budget=most, batch_size=batch_size, samples=1,
            run_seed=0, domain="bench",
        )  # fmt: skip
        scored = score(target, drafts, rows, {DECODING: GREEDY})
        texts = {row["prompt_id"]: row for row in rows}
        return [
            replay_trajectory(texts[row["prompt_id"]], row, draft_lengths, "greedy")
            for row in scored
        ]

    def theirs(draft: LoadedModel, some: Prompts, most: int) -> None:
        for gamma in draft_lengths:
            for _, prompt in some:
                assisted(target, draft, prompt.token_ids, gamma, most)

    ours(prompts[:1], 4)
    for draft, _ in drafts:
        theirs(draft, prompts[:1], 4)
    spent, seconds = [], 0.0
    for draft in (*(draft for draft, _ in drafts), None):
        start = time.perf_counter()
        replayed = ours(prompts, budget)
        middle = time.perf_counter()
        spent.append(middle - start)
        if draft is not None:
            theirs(draft, prompts, budget)
            seconds += time.perf_counter() - middle
    tokens = sum(replay.tokens for replay in replayed) // len(drafts)
    return Comparison(
        [statistics.median(spent)],
        [seconds],
        f"{len(drafts)} drafts x {len(draft_lengths)} draft lengths "
        f"({', '.join(map(str, draft_lengths))}), {len(prompts)} prompts, {tokens} tokens; "
        f"{statistics.median(spent):.1f} s (median of {len(spent)} runs, "
        f"{min(spent):.1f} to {max(spent):.1f}) against {seconds:.1f} s",
    )


def scoring_against_forward(
    target: LoadedModel,
    draft: tuple[LoadedModel, Alignment],
    trajectories: Sequence[Mapping[str, Any]],
    repeats: int,
) -> Comparison:
    """Scoring under one law against the bare forward passes of the same models and texts."""

    def ours() -> None:
        score(target, [draft], trajectories, {DECODING: GREEDY})

    @torch.inference_mode()
    def theirs() -> None:
        for row in trajectories:
            ids = torch.tensor([[*row["prompt_token_ids"], *row["token_ids"]]])
            for model in (target, draft[0]):
                model.model(input_ids=ids.to(model.device), use_cache=False)

    spent = in_turns(ours, theirs, repeats)
    tokens = sum(len(row["prompt_token_ids"]) + len(row["token_ids"]) for row in trajectories)
    return Comparison(
        *spent,
        f"{len(trajectories)} texts, {tokens} tokens with their prompts, 2 models, one law, "
        f"{repeats} turns; {statistics.median(spent[0]):.2f} s against "
        f"{statistics.median(spent[1]):.2f} s",
    )
