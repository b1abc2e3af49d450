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
from torch import Tensor

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


NOTHING = Block(torch.zeros(0, dtype=torch.long))


class RunningText:
    """One text while it is decoded: what it offers, what of it stands, and where it ends.

    A round that starts with `left` tokens of the budget may offer that many drafts. An accepted
    end-of-text token ends the text: nothing after it counts as offered, and there is no bonus. One
    that is the correction or the bonus leaves the offer as it was. A block accepted in full up to
    the budget has no bonus.

    Args and errors as `decode`.
    """

    def __init__(
        self,
        target: Decoder,
        prompt_ids: Sequence[int],
        *,
        law: Mapping[str, float],
        budget: int,
        eos_ids: frozenset[int],
        rng: np.random.Generator,
        rule: Rule | None = None,
        where: str = "",
    ) -> None:
        if budget < 1:
            raise ValueError(f"{budget=} must be at least 1")
        if not prompt_ids:
            raise UserError(f"{where}: the prompt is empty")
        self.ids, self._first = list(map(int, prompt_ids)), len(prompt_ids)
        self._room = budget
        if target.max_positions is not None:
            self._room = min(budget, target.max_positions - self._first)
        if self._room < 1:
            raise UserError(
                f"{where}: a prompt of {self._first} tokens fills the context of {target.name}, "
                f"{target.max_positions}"
            )
        self._target, self._law, self._rng = target, law, rng
        self._budget, self._eos_ids, self._where = budget, eos_ids, where
        self._rule = rule or rule_of(law)
        self.rounds: list[Round] = []
        self._counts: Counter = Counter()
        self.stop: tuple[str, int | None] | None = None

    @property
    def left(self) -> int:
        """Tokens of the budget that are left."""
        return self._room - (len(self.ids) - self._first)

    def feed(self, block: Block, read: int) -> Tensor:
        """What the target's next pass reads after its first `read` tokens: the text, the block."""
        device, width = self._target.device, self._target.width
        feed = torch.tensor(self.ids[read:], device=device)
        if not len(block.ids):
            return feed
        # An id that the target does not know is rejected, but first it is read.
        return torch.cat((feed, block.ids.to(device).clamp(max=width - 1)))

    def judge(self, block: Block, logits: Tensor, drafter: str) -> tuple[int, int]:
        """How many drafted tokens stand, and the token that follows them; logits [k + 1, V]."""
        if block.peaks is not None:
            with self.locating(drafter):
                _check(block.peaks)
        with self.locating(self._target.name):
            return self._rule.test(block, logits, self._law, self._rng, self._counts)

    def settle(self, block: Block, accepted: int, next_id: int) -> tuple[int, int, int, int, str]:
        """Append what the round emits; the first five fields of its `Round`."""
        start, left, offered = len(self.ids) - self._first, self.left, len(block.ids)
        tokens = block.ids[:accepted].tolist()
        eos_at = next((i for i, token in enumerate(tokens) if token in self._eos_ids), None)
        if eos_at is not None:
            tokens = tokens[: eos_at + 1]
            offered = accepted = len(tokens)
        elif accepted < left:
            tokens.append(next_id)
        self.ids += tokens
        end = "continue"
        if tokens[-1] in self._eos_ids:
            self.stop, end = ("eos", tokens[-1]), "eos"
        elif len(tokens) == left:
            self.stop, end = ("budget" if self._room == self._budget else "context", None), "budget"
        return start, offered, accepted, len(tokens), end

    @property
    def decoded(self) -> Decoded:
        """The text once it has stopped."""
        return Decoded(self.ids[self._first :], *self.stop, self._room, self.rounds, self._counts)

    @contextlib.contextmanager
    def locating(self, name: str) -> Iterator[None]:
        """Say where in which text the logits of a model are no numbers."""
        try:
            yield
        except BadLogits as error:
            row = error.index[0] if len(error.index) > 1 else 0
            start = len(self.ids) - self._first
            raise UserError(
                f"{self._where}, round {len(self.rounds)}, position {start}: the logits of {name} "
                f"hold {error.what} for draft position {row}; a narrow data type may have "
                "overflowed, try float32"
            ) from error


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
    """Decode one prompt; each round offers gamma drafts, fewer where budget or drafter have fewer.

    How a round and a text end: see `RunningText`.

    Args:
        drafter: not used when gamma is 0.
        law: temperature, top_k and top_p of the target.
        budget: most tokens to emit, an end-of-text token included; less where the target's
            context ends (stop reason "context").
        rng: the only source of chance, for draft and target; greedy decoding takes nothing.
        rule: how tokens are accepted; by default the lossless rule of the law and the drafter.
        where: names the prompt in errors.

    Raises:
        UserError: the prompt is empty or fills the context, or logits are NaN.
        ValueError: gamma < 0 or budget < 1.
    """
    if gamma < 0:
        raise ValueError(f"{gamma=} must be at least 0")
    text = RunningText(
        target,
        prompt_ids,
        law=law,
        budget=budget,
        eos_ids=eos_ids,
        rng=rng,
        rule=rule or rule_of(law, drafter if gamma else None),
        where=where,
    )
    name = drafter.name if gamma else ""
    now = clock(target.device)
    lap = now()
    target.reset()
    if gamma:
        drafter.start(text.ids, rng)
    # A drafter that reads the target's states has it read the prompt first: that is no drafting.
    prompt_read, reading = target.length, now() - lap if target.length else 0.0
    while text.stop is None:
        block = NOTHING
        if gamma:
            with text.locating(name):
                block = drafter.propose(min(gamma, text.left))
        proposed = now()
        feed = text.feed(block, target.length)
        logits = target.extend(feed, len(block.ids) + 1)
        verified = now()
        judged = text.judge(block, logits, name)
        tested = now()
        settled = text.settle(block, *judged)
        if text.stop is None:
            target.crop(len(text.ids) - 1)  # the last token has not been read
            if gamma:
                drafter.extend(text.ids[-settled[3] :])
        finished = now()
        drafting, verifying = proposed - lap - reading, verified - proposed + reading
        spent = (drafting, verifying, tested - verified, finished - tested)
        text.rounds.append(Round(*settled, prompt_read + len(feed), *spent))
        lap, prompt_read, reading = finished, 0, 0.0
    return text.decoded


def _check(peaks: Tensor) -> None:
    for position, peak in enumerate(peaks.tolist()):
        if not math.isfinite(peak):
            raise BadLogits("NaN or infinity", (position, -1))


def clock(device: torch.device) -> Callable[[], float]:
    """A clock that waits for the device before it is read."""
    if device.type == "cpu":
        return time.perf_counter
    everywhere = torch.cuda.device_count() if device.type == "cuda" else 0

    def read() -> float:
        for index in range(everywhere):  # the draft may be on another one
            torch.cuda.synchronize(index)
        if device.type == "mps":
            torch.mps.synchronize()
        return time.perf_counter()

    return read
