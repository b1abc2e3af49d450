"""Sentences about results that say no more than the intervals do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from draftscope.exhibits.scorecard import (
    AS_PUBLISHED,
    VERDICTS,
    count,
    shown_ours,
    shown_published,
    zero_of,
)

# Columns of the draft-choice table that the sentences are made from.
CHOICE = (
    "domain", "mode", "pair", "draft_length", "acceptance_length", "lower", "upper",
    "runner_up", "difference", "difference_lower", "difference_upper",
)  # fmt: skip


def plural(number: int, noun: str) -> str:
    """A count with its noun: 1 prompt, 2 prompts."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def direction(value: float, lower: float | None, upper: float | None, turn: float = 0.0) -> str:
    """What an interval says about the side of `turn` that a number lies on."""
    if lower is None or upper is None:
        return "has no interval, so it shows no direction"
    if lower > turn:
        return f"lies above {turn:g}"
    if upper < turn:
        return f"lies below {turn:g}"
    return f"cannot be told from {turn:g} at this size"


def coverage(rows: Sequence[Mapping[str, object]]) -> str:
    """What was generated: rows are counts a target, domain and mode, as `report.counts` makes."""
    total = {key: sum(int(row[key]) for row in rows) for key in ("prompts", "skipped", "tokens")}
    domains = len({row["domain"] for row in rows})
    modes = len({row["mode"] for row in rows})
    text = (
        f"{plural(total['prompts'], 'trajectory').replace('trajectorys', 'trajectories')} with "
        f"{plural(total['tokens'], 'generated token')} in {plural(domains, 'domain')} and "
        f"{plural(modes, 'decoding mode')}"
    )
    if total["skipped"]:
        return f"{text}; {plural(total['skipped'], 'prompt')} skipped."
    return f"{text}; no prompt was skipped."


def verdicts(card: pd.DataFrame) -> list[str]:
    """What the scorecard says of each study, as counts, with the limits of the run."""
    sentences = []
    for study, part in card.groupby("study", sort=False):
        counts = count(part)
        measured = len(part) - counts["not measured"]
        if not measured:
            sentences.append(
                f"{study}: none of the {plural(len(part), 'published number')} was measured."
            )
            continue
        listed = ", ".join(f"{counts[v]} {v}" for v in VERDICTS[:-1] if counts[v])
        text = f"{study}: {measured} of {plural(len(part), 'published number')} measured: {listed}."
        if not (part["condition"] == AS_PUBLISHED).any():
            text += (
                " No number was measured under the published condition, so none can confirm or refute "
                "a published value."
            )
        sentences.append(text)
    return sentences


def headline(card: pd.DataFrame, study: str, exhibit: str) -> list[str]:
    """A sentence for each measured number of an exhibit that has a direction.

    Args:
        card: the scorecard as read back (texts).
    """
    part = card[(card["study"] == study) & (card["exhibit"] == exhibit) & (card["measured"] != "")]
    sentences = []
    for row in part.to_dict("records"):
        turn = zero_of(row["unit"], row["column"])
        if turn is None:
            continue
        lower, upper = (float(row[end]) if row[end] else None for end in ("lower", "upper"))
        said = direction(float(row["measured"]), lower, upper, turn)
        people = f" over {plural(int(row['n']), 'prompt')}" if row["n"] else ""
        sentences.append(
            f"{row['row']}, {row['column']}: {shown_ours(row)}{people} {said} "
            f"(published {shown_published(row)}; {row['verdict']})."
        )
    return sentences


def choice(table: pd.DataFrame) -> list[str]:
    """The draft and draft length that come first in each domain and mode, and by how much.

    Args:
        table: the draft-choice table (texts), best first within each domain and mode. A table
            without the columns of `CHOICE` gives no sentences.
    """
    if not set(CHOICE) <= set(table.columns):
        return []
    sentences = []
    for (domain, mode), part in table.groupby(["domain", "mode"], sort=False):
        best = part.iloc[0]
        text = f"{domain}, {mode}: {best['pair']} with draft length {best['draft_length']}"
        length = f"{float(best['acceptance_length']):.2f}"
        if best["lower"] and best["upper"]:
            length += f" [{float(best['lower']):.2f}, {float(best['upper']):.2f}]"
        text += f" gives {length} tokens a round"
        if not (best["runner_up"] and best["difference_lower"] and best["difference_upper"]):
            sentences.append(f"{text}; there is no comparison with a runner-up.")
            continue
        low, high = float(best["difference_lower"]), float(best["difference_upper"])
        against = (
            f"{best['runner_up']} ({float(best['difference']):+.2f} [{low:+.2f}, {high:+.2f}])"
        )
        if low > 0:
            sentences.append(f"{text}, ahead of the runner-up {against}.")
        elif high < 0:
            sentences.append(f"{text}, behind {against} in this measure.")
        else:
            sentences.append(f"{text}, but cannot be told from the runner-up {against}.")
    return sentences
