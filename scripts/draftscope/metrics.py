"""Every published measure of draft acceptance, from one table of rounds.

All of them are ratios of two sums over rounds. Micro is the ratio of the sums over all rounds;
macro is the mean over prompts of each prompt's own ratio. Both are always given, with counts.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from draftscope.errors import UserError
from draftscope.round_counts import as_table, count_rounds


@dataclass(frozen=True)
class Ratio:
    """A measure pooled over rounds (micro) and as the mean of prompts (macro).

    None where nothing was counted. `prompts` is how many prompts have a ratio of their own.
    """

    micro: float | None
    macro: float | None
    numerator: int
    denominator: int
    prompts: int


@dataclass(frozen=True)
class AcceptanceMetrics:
    """All measures of one loop.

    Attributes:
        full_rounds: rounds with offered = draft length; the others are cut_rounds.
        def1: accepted / draft length, full rounds only.
        draft_acceptance_rate: accepted / offered drafts.
        accepted_per_emitted: accepted / emitted tokens.
        verify_rate: emitted / (offered + 1), the share of verified positions that was used.
        accepted_length: accepted tokens a round, without bonus or correction.
        acceptance_length: emitted tokens a round, with it.
        acceptance_length_where_offered: the same over rounds that offered a draft at all, as
            engines report it that count only those.
        position_rate: [draft length]; accepted at draft position i / rounds, unconditional.
        conditional_rate: [draft length]; accepted at i / rounds that accepted the i - 1 before
            it and offered an i-th.
    """

    draft_length: int
    rule: str | None
    rounds: int
    full_rounds: int
    cut_rounds: int
    prompts: int
    offered: int
    accepted: int
    emitted: int
    def1: Ratio
    draft_acceptance_rate: Ratio
    accepted_per_emitted: Ratio
    verify_rate: Ratio
    accepted_length: Ratio
    acceptance_length: Ratio
    acceptance_length_where_offered: Ratio
    position_rate: tuple[Ratio, ...]
    conditional_rate: tuple[Ratio, ...]

    @property
    def accepted_length_under_independence(self) -> float | None:
        """What `accepted_length` would be if every draft were accepted with the pooled rate.

        It is not: acceptance clusters in prompts and in easy passages. Never a headline.
        """
        rate = self.draft_acceptance_rate.micro
        return None if rate is None else iid_tokens_per_round(rate, self.draft_length) - 1

    def label(self, name: str) -> str:
        """A measure's name with its draft length, without which it cannot be compared."""
        if not hasattr(self, name):
            raise AttributeError(f"no measure {name}")
        return f"{name} (gamma {self.draft_length})"

    def as_dict(self) -> dict[str, Any]:
        """Nested plain values, ready for JSON."""
        return asdict(self)

    def as_rows(self) -> Iterator[dict[str, Any]]:
        """One flat row a measure, draft position (from 1, else None) and pooling."""
        for name, value in vars(self).items():
            if not isinstance(value, Ratio | tuple):
                continue
            several = isinstance(value, tuple)
            for position, ratio in enumerate(value if several else (value,), 1):
                for pooling in ("micro", "macro"):
                    yield {
                        "metric": name,
                        "position": position if several else None,
                        "pooling": pooling,
                        "value": getattr(ratio, pooling),
                        "numerator": ratio.numerator,
                        "denominator": ratio.denominator,
                        "prompts": ratio.prompts,
                        "draft_length": self.draft_length,
                    }


def acceptance_metrics(rounds: pa.Table | Mapping[str, np.ndarray]) -> AcceptanceMetrics:
    """Every measure of one loop's rounds.

    Args:
        rounds: columns draft_length, offered, accepted, emitted; prompt_id (and domain) for the
            macro means, without which all rounds are one prompt's; rule, lossless, source.

    Raises:
        UserError: rounds of several loops (`grouped_metrics` keeps them apart), or none.
        ValueError: a row that no round can have.
    """
    counts = count_rounds(rounds)
    prompt, times, prompts = counts.prompt, counts.times, counts.prompts
    offered, accepted, emitted = counts.offered, counts.accepted, counts.emitted

    def ratio(numerator: np.ndarray, denominator: np.ndarray) -> Ratio:
        numerator, denominator = numerator * times, denominator * times
        above = np.bincount(prompt, numerator, prompts)
        below = np.bincount(prompt, denominator, prompts)
        own = above[below > 0] / below[below > 0]
        top, bottom = int(numerator.sum()), int(denominator.sum())
        return Ratio(
            top / bottom if bottom else None,
            float(own.mean()) if len(own) else None,
            top,
            bottom,
            len(own),
        )

    found: dict[str, Any] = {"position_rate": (), "conditional_rate": ()}
    for name, position, above, below in terms(accepted, counts.draft_length, offered, emitted):
        one = ratio(above, below)
        found[name] = one if position is None else (*found[name], one)
    full = offered == counts.draft_length
    return AcceptanceMetrics(
        draft_length=counts.draft_length,
        rule=counts.rule,
        rounds=int(times.sum()),
        full_rounds=int(times[full].sum()),
        cut_rounds=int(times[~full].sum()),
        prompts=prompts,
        offered=int(offered @ times),
        accepted=int(accepted @ times),
        emitted=int(emitted @ times),
        **found,
    )


def terms(
    accepted: np.ndarray,
    gamma: int | None,
    offered: np.ndarray | None = None,
    emitted: np.ndarray | None = None,
) -> Iterator[tuple[str, int | None, np.ndarray, np.ndarray]]:
    """Name, draft position (from 1, or None), numerator and denominator of every measure.

    Where a log lacks `gamma`, `offered` or `emitted`, the measures that need it are left out.

    Args:
        accepted, offered, emitted: [rounds], integers.
        gamma: draft length; without it positions go as far as a round accepted.
    """
    one = np.ones_like(accepted)
    if offered is not None:
        if gamma is not None:
            full = offered == gamma
            yield "def1", None, accepted * full, gamma * full
        yield "draft_acceptance_rate", None, accepted, offered
    if emitted is not None:
        yield "accepted_per_emitted", None, accepted, emitted
        yield "acceptance_length", None, emitted, one
        if offered is not None:
            yield "verify_rate", None, emitted, offered + 1
            some = offered > 0
            yield "acceptance_length_where_offered", None, emitted * some, one * some
    yield "accepted_length", None, accepted, one
    for i in range(1, (int(accepted.max(initial=0)) if gamma is None else gamma) + 1):
        yield "position_rate", i, 1 * (accepted >= i), one
        if offered is not None:
            reached = (accepted >= i - 1) & (offered >= i)
            yield "conditional_rate", i, 1 * (accepted >= i), 1 * reached


def grouped_metrics(
    rounds: pa.Table | Mapping[str, np.ndarray], by: Sequence[str]
) -> dict[tuple[Any, ...], AcceptanceMetrics]:
    """`acceptance_metrics` of each combination of the values of the columns `by`, sorted."""
    table, groups = as_table(rounds), {}
    kinds = table.select(list(by)).group_by(list(by)).aggregate([]).to_pylist()
    for values in sorted(tuple(kind[name] for name in by) for kind in kinds):
        mine = [pc.equal(table[name], value) for name, value in zip(by, values, strict=True)]
        groups[values] = acceptance_metrics(table.filter(functools.reduce(pc.and_, mine)))
    return groups


def iid_tokens_per_round(alpha: float, gamma: int) -> float:
    """Tokens a full round emits if each draft is accepted with probability alpha, independently.

    (1 - alpha^(gamma + 1)) / (1 - alpha) = sum_{k=0}^{gamma} alpha^k; Leviathan et al. 2023,
    eq. 1. alpha is the acceptance probability at a position that is reached, not accepted /
    offered of measured rounds, in which positions after a rejection count as failures.
    """
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha is a probability, got {alpha}")
    return float(sum(alpha**count for count in range(gamma + 1)))


def tokens_per_round_from_positions(position_rate: Sequence[float]) -> float:
    """1 + sum of the unconditional position rates: the tokens a round emits, for any dependence.

    Exact where every round has its bonus or correction token.
    """
    return 1.0 + float(sum(position_rate))


@dataclass(frozen=True)
class PredictedSpeedup:
    """Speed over plain decoding predicted for one cost ratio; not a measured time."""

    speedup: float
    cost_ratio: float
    label: str


def predicted_speedup(
    acceptance_length: float, gamma: float, cost_ratio: float
) -> PredictedSpeedup:
    """Acceptance length / (gamma c + 1); Leviathan et al. 2023, theorem 3.8.

    Args:
        acceptance_length: tokens emitted a round.
        gamma: draft steps a round (the mean, where rounds differ).
        cost_ratio: c, time of a draft step / time of a target step. It depends on hardware
            and engine, acceptance does not: hence the label. Assumes that verifying gamma + 1
            tokens takes the target as long as one step.
    """
    if cost_ratio < 0:
        raise UserError(f"the cost ratio must be at least 0, got {cost_ratio}")
    return PredictedSpeedup(
        acceptance_length / (gamma * cost_ratio + 1), cost_ratio, f"given c = {cost_ratio:g}"
    )


@dataclass(frozen=True)
class Agreement:
    """`def2` over a named set of positions: all, or those where a draft was tested (reached)."""

    all: float
    reached: float | None


def def2(log_q_target_argmax: np.ndarray, reached: np.ndarray | None = None) -> Agreement:
    """Share of drafted tokens that are the target's argmax, as its expectation q(argmax p).

    Args:
        log_q_target_argmax: [n] nats, under the law the draft is drawn from.
        reached: [n] booleans (`replay.reached_positions`), None for all positions only.
    """
    agreement = np.exp(np.asarray(log_q_target_argmax, np.float64))
    if not len(agreement):
        raise ValueError("no position to measure")
    chosen = agreement[reached] if reached is not None else ()
    return Agreement(float(agreement.mean()), float(np.mean(chosen)) if len(chosen) else None)


@dataclass(frozen=True)
class Throughput:
    """Tokens a second: all tokens / all time, and the mean of the runs' own ratios."""

    total: float
    mean_of_runs: float


def throughput(tokens: Sequence[int], seconds: Sequence[float]) -> Throughput:
    """Speed of several runs, from counts of token ids (never of re-tokenized text).

    Raises:
        ValueError: no run, unequal lengths, or a run that took no time.
    """
    counts, times = np.asarray(tokens, np.float64), np.asarray(seconds, np.float64)
    if counts.shape != times.shape or not len(counts) or not (times > 0).all():
        raise ValueError("throughput needs a positive time for each count")
    return Throughput(float(counts.sum() / times.sum()), float((counts / times).mean()))
