"""Sentences about results that say no more than the intervals do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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
    "domain", "mode", "text", "draft", "draft_length", "acceptance_length",
    "acceptance_length_lower", "acceptance_length_upper", "speedup", "speedup_lower",
    "speedup_upper", "runner_up", "runner_up_length", "difference", "difference_lower",
    "difference_upper", "separation",
)  # fmt: skip
ALL_TEXT = "all"


def plural(number: int, noun: str) -> str:
    """A count with its noun: 1 prompt, 2 prompts."""
    several = f"{noun[:-1]}ies" if noun.endswith("ry") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else several}"


def direction(value: float, lower: float | None, upper: float | None, turn: float = 0.0) -> str:
    """What an interval says about the side of `turn` that a number lies on."""
    if lower is None or upper is None:
        return "has no interval, so it shows no direction"
    if lower > turn:
        return f"lies above {turn:g}"
    if upper < turn:
        return f"lies below {turn:g}"
    return f"cannot be told from {turn:g} at this size"


def coverage(rows: Sequence[Mapping[str, Any]], skipped: Sequence[Mapping[str, Any]] = ()) -> str:
    """What was generated and what was skipped: the rows that `coverage.counts` makes."""
    total = {key: sum(int(row[key]) for row in rows) for key in ("trajectories", "tokens")}
    domains = len({row["domain"] for row in rows})
    modes = len({row["mode"] for row in rows})
    text = (
        f"{plural(total['trajectories'], 'trajectory')} with "
        f"{plural(total['tokens'], 'generated token')} in {plural(domains, 'domain')} and "
        f"{plural(modes, 'decoding mode')}"
    )
    if not skipped:
        return f"{text}; no prompt was skipped."
    prompts, trajectories = (sum(r[key] for r in skipped) for key in ("prompts", "trajectories"))
    reasons = "; ".join(dict.fromkeys(row["reason"] for row in skipped))
    return (
        f"{text}; {plural(prompts, 'prompt')} skipped ({plural(trajectories, 'trajectory')}): "
        f"{reasons}."
    )


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
    # "table1", the name of our file, means the published "Table 1".
    names = card["exhibit"].str.replace(" ", "").str.lower()
    chosen = (card["study"] == study) & (names == exhibit.replace(" ", "").lower())
    part = card[chosen & (card["measured"] != "")]
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
    """The draft and draft length with the highest predicted speedup in each domain and mode.

    Args:
        table: the table of the best candidates (texts), one row a domain, mode and kind of text;
            only rows on all text are told. A table without the columns of `CHOICE` gives nothing.
    """
    if not set(CHOICE) <= set(table.columns):
        return []
    rows = table[table["text"] == ALL_TEXT].to_dict("records")
    several = len({row.get("target") for row in rows}) > 1
    return [
        (f"{row['target']}, " if several else "") + f"{row['domain']}, {row['mode']}: {_best(row)}"
        for row in rows
    ]


def _best(row: Mapping[str, str]) -> str:
    if not row["speedup"]:
        return f"no prediction ({row.get('reason') or 'no reason given'})."
    lower, upper = (float(row[f"speedup_{e}"] or "nan") for e in ("lower", "upper"))
    known = lower <= upper  # false as well where there is no interval
    plain = direction(float(row["speedup"]), lower if known else None, upper if known else None, 1)
    text = (
        f"{row['draft']} at draft length {row['draft_length']} is predicted fastest: speedup "
        f"{_bracket(row, 'speedup', '.2f')}, which {plain}, with "
        f"{_bracket(row, 'acceptance_length', '.2f')} tokens a round"
    )
    if not (row["runner_up"] and row["difference"]):
        return f"{text}; there is no comparison with a runner-up."
    second = f"{row['runner_up']} at {row['runner_up_length']}"
    gap = f"(difference {_bracket(row, 'difference', '+.3f')})"
    if row["separation"] == "clear":
        return f"{text}; clearly ahead of {second} {gap}."
    if row["separation"] == "negligible":
        return f"{text}; the gap to {second} is negligible {gap}."
    return f"{text}; these prompts do not separate it from {second} {gap}."


def _bracket(row: Mapping[str, str], name: str, style: str) -> str:
    """A number of the table with its interval, where it has one."""
    if not row[name]:
        return "an unknown number of"
    text = format(float(row[name]), style)
    ends = [row[f"{name}_lower"], row[f"{name}_upper"]]
    return f"{text} [{', '.join(format(float(e), style) for e in ends)}]" if all(ends) else text
