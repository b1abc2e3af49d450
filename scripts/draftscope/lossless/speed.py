"""What was gained and why: speed, acceptance and cost of each draft length, measured and predicted.

Times are those of the loop's own phases, so that plain decoding and speculation are timed by the
same clock in the same places. The unit of every interval is the prompt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd
import pyarrow as pa

from draftscope.errors import UserError
from draftscope.metrics import (
    acceptance_metrics,
    iid_tokens_per_round,
    predicted_speedup,
    tokens_per_round_from_positions,
)
from draftscope.statistics import Interval, bootstrap

PHASES = ("draft", "verify", "sample", "other")
TEXT = ["prompt_id", "sample", "draft_length"]


@dataclass(frozen=True)
class Settings:
    """How intervals are made: confidence, resamples, bootstrap method and seed."""

    confidence: float
    resamples: int
    method: str
    seed: int

    def options(self, *key: Any) -> dict[str, Any]:
        """Keyword arguments of `statistics.bootstrap`, with a stream of its own for this key."""
        # This checksum is the same in every process, unlike Python's own hash of text.
        stream = [self.seed, crc32(repr(key).encode())]
        return {
            "confidence": self.confidence,
            "resamples": self.resamples,
            "method": self.method,
            "rng": np.random.default_rng(stream),
        }


def text_times(timings: pd.DataFrame) -> pd.DataFrame:
    """One row a text (prompt, sample, draft length): its time, and that of its phases.

    Args:
        timings: schema live_timings, as a frame.

    Returns:
        Columns tokens, rounds, repeats; total and first (the first round, which reads the
        prompt) in seconds; and of the rounds after the first: later_tokens, later_rounds,
        later_draft, later_verify, later_sample, later_other. Every time is the median over the
        repeated passes of the sum within a pass.
    """
    frame = timings.copy()
    names = [f"{phase}_seconds" for phase in PHASES]
    frame["total"] = frame[names].sum(axis=1)
    frame["first"] = frame["total"].where(frame["round"] == 0, 0.0)
    later = frame["round"] > 0
    for phase, name in zip(PHASES, names, strict=True):
        frame[f"later_{phase}"] = frame[name].where(later, 0.0)
    frame["later_tokens"] = frame["emitted"].where(later, 0)
    frame["later_rounds"] = later.astype(int)
    summed = ["total", "first", *(f"later_{phase}" for phase in PHASES)]
    counted = ["emitted", "later_tokens", "later_rounds"]
    passes = frame.groupby([*TEXT, "repeat"], as_index=False).agg(
        {**{name: "sum" for name in (*summed, *counted)}, "round": "count"}
    )
    texts = passes.groupby(TEXT, as_index=False).agg(
        {
            **{name: "median" for name in summed},
            **{name: "first" for name in counted},
            "round": "first",
            "repeat": "count",
        }
    )
    return texts.rename(columns={"emitted": "tokens", "round": "rounds", "repeat": "repeats"})


@dataclass(frozen=True)
class Configuration:
    """A target-draft pair in a mode, with what the live loop gave."""

    pair: str
    domain: str
    mode: str
    published: str | None
    timings: pd.DataFrame
    rounds: pa.Table
    peak_memory: float | None

    def __post_init__(self) -> None:
        if 0 not in set(self.timings["draft_length"]):
            raise UserError(f"{self.pair}/{self.mode} was not decoded plainly: no draft length 0")

    def key(self, draft_length: int) -> dict[str, Any]:
        """The columns that name a row."""
        return {
            "pair": self.pair,
            "domain": self.domain,
            "mode": self.mode,
            "draft_length": draft_length,
        }

    def rounds_of(self, draft_length: int) -> pa.Table:
        """Rounds of one draft length."""
        return self.rounds.filter(pa.compute.equal(self.rounds["draft_length"], draft_length))


def ends(name: str, interval: Interval | None) -> dict[str, float | None]:
    if interval is None:
        return {name: None, f"{name}_lower": None, f"{name}_upper": None}
    return {
        name: interval.estimate,
        f"{name}_lower": interval.low,
        f"{name}_upper": interval.high,
    }


def _ratio(texts: pd.DataFrame, above: str, below: str) -> float | None:
    total = float(texts[below].sum())
    return float(texts[above].sum()) / total if total else None


def speed_rows(configuration: Configuration, settings: Settings) -> list[dict[str, Any]]:
    """Rows of schema lossless_speed: plain decoding first, then every draft length."""
    texts = text_times(configuration.timings)
    plain = texts[texts["draft_length"] == 0]
    step = _ratio(plain, "later_verify", "later_rounds")
    rows = []
    for gamma in sorted(set(texts["draft_length"])):
        own = texts[texts["draft_length"] == gamma]
        options = settings.options(configuration.pair, configuration.mode, int(gamma))
        row = configuration.key(int(gamma)) | {
            "published": configuration.published,
            "prompts": int(own["prompt_id"].nunique()),
            "repeats": int(own["repeats"].min()),
            "tokens": int(own["tokens"].sum()),
            "rounds": int(own["rounds"].sum()),
            "first_token": float(own["first"].mean()),
            "baseline_step": step,
            "verify_pass": _ratio(own, "later_verify", "later_rounds"),
            "peak_memory": configuration.peak_memory,
            "method": settings.method,
        }
        row |= _rates(own, plain, options)
        row |= _acceptance(configuration, int(gamma), own, step, options)
        rows.append(row | {"reason": _reason(row)})
    return rows


def _rates(own: pd.DataFrame, plain: pd.DataFrame, options: dict[str, Any]) -> dict[str, Any]:
    prompts = own["prompt_id"].to_numpy()
    rate = bootstrap(
        own["tokens"], prompts, denominators=own["total"], statistic="ratio", **options
    )
    by_prompt = own.groupby("prompt_id")[["tokens", "total"]].sum()
    base = plain.groupby("prompt_id")[["tokens", "total"]].sum().loc[by_prompt.index]
    rates, base_rates = by_prompt["tokens"] / by_prompt["total"], base["tokens"] / base["total"]
    # Mean seconds a token over prompts, paired: a prompt is slow in both, which cancels.
    speedup = bootstrap(
        1 / base_rates.to_numpy(),
        denominators=1 / rates.to_numpy(),
        statistic="ratio",
        **options,
    )
    return {
        **ends("tokens_per_second", rate.within()),
        "tokens_per_second_sd": float(rates.std(ddof=1)) if len(rates) > 1 else None,
        **ends("speedup", speedup.within()),
        "speedup_of_rates": float(rates.mean() / base_rates.mean()),
    }


def _acceptance(
    configuration: Configuration,
    gamma: int,
    own: pd.DataFrame,
    step: float | None,
    options: dict[str, Any],
) -> dict[str, Any]:
    rounds = configuration.rounds_of(gamma)
    prompts = rounds["prompt_id"].to_numpy(zero_copy_only=False)
    count = {name: rounds[name].to_numpy() for name in ("offered", "accepted", "emitted")}
    length = bootstrap(count["emitted"], prompts, **options).within(1.0, gamma + 1.0)
    none = {name: None for name in _PREDICTED}
    if not gamma or not count["offered"].sum():
        return {**ends("acceptance", None), **ends("acceptance_length", length), **none}
    metrics = acceptance_metrics(rounds)
    acceptance = bootstrap(
        count["accepted"], prompts, denominators=count["offered"], statistic="ratio", **options
    )
    later = rounds.filter(pa.compute.greater(rounds["round"], 0))
    offered_later = int(pa.compute.sum(later["offered"]).as_py() or 0)
    draft_step = float(own["later_draft"].sum()) / offered_later if offered_later else None
    verify = _ratio(own, "later_verify", "later_rounds")
    offered = float(count["offered"].mean())
    tau, pooled = length.estimate, metrics.draft_acceptance_rate.micro
    iid = iid_tokens_per_round(pooled, gamma)
    out = none | {
        "offered": offered,
        "draft_step": draft_step,
        "yield_positions": tokens_per_round_from_positions(
            [ratio.micro for ratio in metrics.position_rate]
        ),
        "yield_iid": iid,
    }
    if step and draft_step is not None and verify is not None:
        cost, ratio = draft_step / step, verify / step
        out |= {
            "cost_ratio": cost,
            "verify_ratio": ratio,
            "predicted": predicted_speedup(tau, offered, cost).speedup,
            "predicted_iid": predicted_speedup(iid, gamma, cost).speedup,
            "predicted_with_verify": tau / (offered * cost + ratio),
        }
    return {
        **ends("acceptance", acceptance.within(most=1.0)),
        **ends("acceptance_length", length),
        **out,
    }


_PREDICTED = (
    "offered", "draft_step", "yield_positions", "yield_iid", "cost_ratio", "verify_ratio",
    "predicted", "predicted_iid", "predicted_with_verify",
)  # fmt: skip


def _reason(row: Mapping[str, Any]) -> str | None:
    if not row["draft_length"]:
        return "plain decoding drafts nothing"
    if row["acceptance"] is None:
        return "the draft never offered a token"
    if row["cost_ratio"] is None:
        return "no text has a second round, so no step was timed"
    missing = [name for name, value in row.items() if value is None and name != "published"]
    return f"no interval: {row['prompts']} prompts" if missing else None
