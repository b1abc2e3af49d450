"""Texts and scores with planted acceptance, of the size of the published position study.

A draft accepts position i of an ordinary text of n tokens with the mean probability

    acceptance + change (i / n - 1/2) + shift of the prompt,

so that the second half of every text accepts change / 2 more than the first, whatever its length;
repeated spans accept nearly everything. Under sampling the probability varies from token to token
around that mean, under greedy decoding it is 0 or 1, as in real scores.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

import numpy as np

from draftscope import seeds

LOOP_ACCEPTANCE, PERIOD = 0.995, 40
Scores = dict[str, np.ndarray]


@dataclass(frozen=True)
class Draft:
    """A draft and what is planted in its scores; `spread` is the deviation of prompts' shifts."""

    label: str
    acceptance: float
    change: float
    spread: float

    @property
    def name(self) -> str:
        return f"synthetic-{self.label}"


@dataclass(frozen=True)
class Size:
    """How many texts of which lengths.

    Lengths are quantiles of a lognormal law, so that their sum hardly depends on the seed.

    Attributes:
        prompts: of each mode; every prompt has one text a mode.
        budget: most tokens of a text.
        median, deviation: of a text's tokens, and of their logarithm.
        looping: mode -> share of its texts that run to the budget in a repetition.
        shard_size: prompts of one file.
    """

    prompts: int
    budget: int = 16_384
    median: int = 2_400
    deviation: float = 0.75
    looping: Mapping[str, float] = field(
        default_factory=lambda: {"greedy": 0.092, "sample": 0.01}  # greedy: 46 of 500 published
    )
    shard_size: int = 16


# Differences between halves as published for sampling: +.010 and +.030.
DRAFTS = (Draft("same", 0.90, 0.02, 0.02), Draft("xfam", 0.80, 0.06, 0.03))
VOCABULARY, END_OF_TEXT = 151_936, 151_643
TEMPERATURES = {"greedy": 0.0, "sample": 0.6}


@dataclass(frozen=True)
class Text:
    """One trajectory: its ids, where its repetition starts (None without one), and its seed."""

    prompt_id: str
    token_ids: np.ndarray
    onset: int | None
    budget: int
    shift: float
    seed: tuple[Any, ...]

    @property
    def tokens(self) -> int:
        return len(self.token_ids)

    def trajectory(self) -> dict[str, Any]:
        """Row of schema trajectories. The text itself is left empty."""
        looped = self.onset is not None
        return {
            "prompt_id": self.prompt_id,
            "sample": 0,
            "status": "ok",
            "reason": None,
            "prompt_token_ids": np.arange(100),
            "token_ids": self.token_ids,
            "budget": self.budget,
            "stop_reason": "budget" if looped else "eos",
            "stop_token_id": None if looped else END_OF_TEXT,
            "rendered_sha256": "0" * 64,
            "text": "",
        }

    def loop(self) -> dict[str, Any]:
        """Row of schema loops."""
        looped = self.onset is not None
        return {
            "prompt_id": self.prompt_id,
            "sample": 0,
            "tokens": self.tokens,
            "looped": looped,
            "onset": self.onset,
            "period": PERIOD if looped else None,
            "repeats": (self.tokens - self.onset) / PERIOD if looped else None,
            "kind": "text" if looped else None,
            "loop_problem": looped,
        }


def texts(size: Size, mode: str, seed: int) -> Iterator[Text]:
    """The texts of a mode, prompt by prompt."""
    rng = seeds.generator("synthetic", seed, mode)
    law = NormalDist()
    quantiles = [law.inv_cdf((place + 0.5) / size.prompts) for place in range(size.prompts)]
    lengths = size.median * np.exp(size.deviation * np.array(quantiles))
    # A text that ends by itself is shorter than the budget.
    lengths = rng.permutation(np.clip(np.rint(lengths), 2, size.budget - 1).astype(int))
    looping = np.zeros(size.prompts, dtype=bool)
    looping[: round(size.prompts * size.looping[mode])] = True
    looping = rng.permutation(looping)
    for place in range(size.prompts):
        prompt_id = f"synthetic-{place:06d}"
        key = ("synthetic", seed, mode, prompt_id)
        rng = seeds.generator(*key)
        tokens, onset = int(lengths[place]), None
        if looping[place]:
            tokens = size.budget
            onset = int(tokens * rng.uniform(0.2, 0.6))
        ids = rng.integers(0, END_OF_TEXT, tokens, dtype=np.int32)
        if onset is None:
            ids[-1] = END_OF_TEXT
        else:
            # The repetition starts at the onset: the token before it breaks the period.
            span = ids[onset : onset + PERIOD].copy()
            ids[onset:] = np.resize(span, tokens - onset)
            ids[onset - 1] = (span[-1] + 1) % END_OF_TEXT
        yield Text(prompt_id, ids, onset, size.budget, float(rng.standard_normal()), key)


def scores(text: Text, draft: Draft, mode: str) -> Scores:
    """What a draft and the target think of a text under the mode's law, float32, each [tokens].

    log_p, log_q, log_q_target_argmax, and the draft's own choice as draft_argmax (int32).
    """
    rng = seeds.generator(*text.seed, draft.name)
    tokens = text.tokens
    mean = draft.acceptance + draft.change * (np.arange(tokens) / tokens - 0.5)
    mean = np.clip(mean + draft.spread * text.shift, 0.5, 1.0)
    if text.onset is not None:
        mean[text.onset :] = LOOP_ACCEPTANCE
    if TEMPERATURES[mode] == 0:
        matches = rng.random(tokens) < mean
        log_q = np.where(matches, 0.0, -np.inf)
        log_p, at_argmax = np.zeros(tokens), log_q
        argmax = np.where(matches, text.token_ids, (text.token_ids + 1) % VOCABULARY)
    else:
        # Accepted for sure, or with a probability that is uniform: the mean is that of both.
        sure = rng.random(tokens) < 2 * mean - 1
        log_p = -rng.exponential(0.4, tokens)
        lower = np.log1p(-rng.random(tokens))
        log_q = log_p * rng.random(tokens) * sure + (log_p + lower) * ~sure
        at_argmax, argmax = np.minimum(log_q, log_p), text.token_ids
    return {
        "log_p": log_p.astype(np.float32),
        "log_q": log_q.astype(np.float32),
        "log_q_target_argmax": at_argmax.astype(np.float32),
        "draft_argmax": np.asarray(argmax, dtype=np.int32),
    }
