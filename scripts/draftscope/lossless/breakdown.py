"""Where acceptance and time go: by draft position, by phase, by tokens of a pass."""

from __future__ import annotations

from typing import Any

import pandas as pd

from draftscope.lossless.speed import PHASES, Configuration, Settings, ends, text_times
from draftscope.statistics import bootstrap


def position_rows(configuration: Configuration, settings: Settings) -> list[dict[str, Any]]:
    """Rows of schema lossless_positions: acceptance at each draft position.

    `position_rate` is unconditional (what studies publish), `conditional_rate` is given that the
    positions before it were accepted and it was offered at all.
    """
    rows = []
    for gamma in sorted(set(configuration.timings["draft_length"])):
        if not gamma:
            continue
        rounds = configuration.rounds_of(gamma)
        prompts = rounds["prompt_id"].to_numpy(zero_copy_only=False)
        accepted, offered = (rounds[name].to_numpy() for name in ("accepted", "offered"))
        for position in range(1, int(gamma) + 1):
            key = (configuration.pair, configuration.mode, int(gamma), position)
            hit = (accepted >= position).astype(float)
            reached = ((accepted >= position - 1) & (offered >= position)).astype(float)
            rate = bootstrap(hit, prompts, **settings.options(*key))
            conditional = bootstrap(
                hit * reached,
                prompts,
                denominators=reached,
                statistic="ratio",
                **settings.options(*key),
            )
            rows.append(
                configuration.key(int(gamma))
                | {"position": position, "rounds": len(hit), "reached": int(reached.sum())}
                | ends("position_rate", rate.within(most=1.0))
                | ends("conditional_rate", conditional.within(most=1.0))
                | {"reason": conditional.reason or rate.reason}
            )
    return rows


def phase_rows(configuration: Configuration) -> list[dict[str, Any]]:
    """Rows of schema lossless_phases: where the time of a token goes."""
    rows = []
    for gamma, own in text_times(configuration.timings).groupby("draft_length"):
        tokens = int(own["later_tokens"].sum())
        spent = {phase: float(own[f"later_{phase}"].sum()) for phase in PHASES}
        everything = sum(spent.values())
        for phase, seconds in spent.items():
            if tokens:
                rows.append(
                    configuration.key(int(gamma))
                    | {
                        "phase": phase,
                        "per_token": seconds / tokens,
                        "share": seconds / everything if everything else None,
                        "tokens": tokens,
                        "reason": None if everything else "no time passed",
                    }
                )
        rows.append(
            configuration.key(int(gamma))
            | {
                "phase": "total",
                "per_token": float(own["total"].sum() / own["tokens"].sum()),
                "share": None,
                "tokens": int(own["tokens"].sum()),
                "reason": "the whole text, prompt reading included; no share",
            }
        )
    return rows


def latency_rows(times: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows of schema lossless_latency from those of verify_latency."""
    rows = []
    for (target, context), own in times.groupby(["target", "context"], sort=False):
        shortest = int(own["tokens"].min())
        base = float(own.loc[own["tokens"] == shortest, "seconds"].median())
        for tokens, passes in own.groupby("tokens"):
            lower, median, upper = passes["seconds"].quantile([0.25, 0.5, 0.75])
            rows.append(
                {
                    "target": target,
                    "tokens": int(tokens),
                    "context": int(context),
                    "repeats": len(passes),
                    "median": float(median),
                    "lower": float(lower),
                    "upper": float(upper),
                    "ratio": float(median) / base,
                    "shortest": shortest,
                }
            )
    return rows
