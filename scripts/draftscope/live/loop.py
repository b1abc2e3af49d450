"""The speculative loop: draft, verify in one pass, accept, step both caches back.

With draft length 0 the same loop is plain decoding, so a baseline differs from what it is
compared with in nothing but the draft.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch

from draftscope.drafters.model import Block, Drafter
from draftscope.errors import UserError
from draftscope.live.model import Decoder
from draftscope.live.rules import Rule, rule_of
from draftscope.sampling import BadLogits


class Round(NamedTuple):
    """One round: what was offered and accepted, and where the time went (seconds).

    `verify_tokens` is how many tokens the target's pass read; in round 0 the prompt is among
    them. Drawing the drafted tokens counts as draft; `sample` is the target's law, the tests and
    the draw of the correction or bonus; `other` is the rest: the ends, and stepping back.
    """

    start: int
    offered: int
    accepted: int
    emitted: int
    end: str
    verify_tokens: int
    draft_seconds: float
    verify_seconds: float
    sample_seconds: float
    other_seconds: float


@dataclass
class Decoded:
    """One generated text with its rounds.

    `budget` is the room there was: the budget asked for, or less where the context ends.
    `counts` holds how often a drafted id was "unmappable" and a residual empty ("empty_residual").
    """

    token_ids: list[int]
    stop_reason: str
    stop_token_id: int | None
    budget: int
    rounds: list[Round]
    counts: Counter = field(default_factory=Counter)


_NOTHING = Block(torch.zeros(0, dtype=torch.long))


@torch.inference_mode()
def decode(
    target: Decoder,
    drafter: Drafter | None,
    prompt_ids: Sequence[int],
    *,
    gamma: int,
    law: Mapping[str, float],
    budget: int,
    eos_ids: frozenset[int],
    rng: np.random.Generator,
    rule: Rule | None = None,
    where: str = "",
) -> Decoded:
    """Decode one prompt.

    A round that starts with `left` tokens of the budget offers min(gamma, left) drafts, fewer
    where the drafter has fewer. An accepted end-of-text token ends the text: nothing after it
    counts as offered, and there is no bonus. One that is the correction or the bonus leaves the
    offer as it was. A block accepted in full up to the budget has no bonus.

    Args:
        drafter: not used when gamma is 0.
        law: temperature, top_k and top_p of the target.
        budget: most tokens to emit, an end-of-text token included; less where the target's
            context ends (stop reason "context").
        rng: the only source of chance, for draft and target; greedy decoding takes nothing.
        rule: how tokens are accepted; by default the lossless rule of the law.
        where: names the prompt in errors.

    Raises:
        UserError: the prompt is empty or fills the context, or logits are NaN.
        ValueError: gamma < 0 or budget < 1.
    """
    if gamma < 0 or budget < 1:
        raise ValueError(f"{gamma=} must be at least 0 and {budget=} at least 1")
    if not prompt_ids:
        raise UserError(f"{where}: the prompt is empty")
    room = budget
    if target.max_positions is not None:
        room = min(budget, target.max_positions - len(prompt_ids))
    if room < 1:
        raise UserError(
            f"{where}: a prompt of {len(prompt_ids)} tokens fills the context of {target.name}, "
            f"{target.max_positions}"
        )
    rule = rule or rule_of(law)
    text, first, device = list(map(int, prompt_ids)), len(prompt_ids), target.device
    rounds: list[Round] = []
    counts: Counter = Counter()
    stop: tuple[str, int | None] | None = None
    now = _clock(device)
    lap = now()
    target.reset()
    if gamma:
        drafter.start(text, rng)
    while stop is None:
        start = len(text) - first
        left = room - start
        here = f"{where}, round {len(rounds)}, position {start}"

        block = _NOTHING
        if gamma:
            with _locating(here, drafter.name):
                block = drafter.propose(min(gamma, left))
        proposed = now()

        feed = torch.tensor(text[target.length :], device=device)
        if offered := len(block.ids):
            ids = block.ids.to(device)
            if drafter.width > target.width:  # such an id is rejected, but first it is read
                ids = ids.clamp(max=target.width - 1)
            feed = torch.cat((feed, ids))
        logits = target.extend(feed, offered + 1)
        verified = now()

        if block.peaks is not None:
            with _locating(here, drafter.name):
                _check(block.peaks)
        with _locating(here, target.name):
            accepted, next_id = rule.test(block, logits, law, rng, counts)
        tested = now()

        tokens = block.ids[:accepted].tolist()
        eos_at = next((i for i, token in enumerate(tokens) if token in eos_ids), None)
        if eos_at is not None:
            tokens = tokens[: eos_at + 1]
            offered = accepted = len(tokens)
        elif accepted < left:
            tokens.append(next_id)
        text += tokens
        if tokens[-1] in eos_ids:
            stop = ("eos", tokens[-1])
        elif len(tokens) == left:
            stop = ("budget" if room == budget else "context", None)
        else:
            target.crop(len(text) - 1)  # the last token has not been read
            if gamma:
                drafter.extend(tokens)
        end = "continue" if stop is None else "eos" if stop[0] == "eos" else "budget"
        finished = now()
        spent = (proposed - lap, verified - proposed, tested - verified, finished - tested)
        rounds.append(Round(start, offered, accepted, len(tokens), end, len(feed), *spent))
        lap = finished
    return Decoded(text[first:], *stop, room, rounds, counts)


@contextlib.contextmanager
def _locating(here: str, name: str) -> Iterator[None]:
    """Say where in which text the logits of a model are no numbers."""
    try:
        yield
    except BadLogits as error:
        row = error.index[0] if len(error.index) > 1 else 0
        raise UserError(
            f"{here}: the logits of {name} hold {error.what} for draft position {row}; a narrow "
            "data type may have overflowed, try float32"
        ) from error


def _check(peaks: torch.Tensor) -> None:
    for position, peak in enumerate(peaks.tolist()):
        if not math.isfinite(peak):
            raise BadLogits("NaN or infinity", (position, -1))


def _clock(device: torch.device) -> Callable[[], float]:
    """A clock that waits for the device before it is read."""
    if device.type == "cpu":
        return time.perf_counter
    synchronize = torch.cuda.synchronize if device.type == "cuda" else torch.mps.synchronize

    def read() -> float:
        synchronize()
        return time.perf_counter()

    return read
