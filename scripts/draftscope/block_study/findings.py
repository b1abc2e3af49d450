"""What the studies of block drafters found, in sentences that say no more than the intervals do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from draftscope.block_study.lengths import domains_of
from draftscope.exhibits.captioned import Table
from draftscope.exhibits.figures import where

SEEDS = (
    "Brackets of block drafters count the seeds of their trainings beside prompts. All prompts count in "
    "these sentences, and each interval stands alone; tables have lengths and differences also with loop "
    "problems removed."
)


def _table(sentences: Sequence[str], study: str) -> Table:
    frame = pd.DataFrame({"statement": list(sentences)}, dtype=object)
    return Table(frame, f"The {study} study in words", [], {}, {"statement": "finding"})


def _main(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows of all prompts, macro, of all domains together (of the only one)."""
    domain = domains_of(frame)[-1]
    return where(frame, domain=domain, subset="all", pooling="macro")


def losses(
    lengths: pd.DataFrame,
    differences: pd.DataFrame,
    needed: pd.DataFrame,
    speed: pd.DataFrame | None,
) -> Table:
    """Findings of the losses study.

    Args:
        lengths, differences, needed, speed: schemas block_lengths, block_differences, block_needed and
            block_speed; speed is None where nothing was timed.
    """
    said = []
    for row in _records(_main(lengths)):
        if row["trainings"] and row["length"] is not None:
            said.append(
                f"{row['arm']} emits {_with_ends(row, 'length', '.2f')} tokens a round in mode "
                f"{row['mode']}, over {row['trainings']} trainings and {row['prompts']} prompts."
            )
    own = _main(differences)
    said += [
        _compared(row, where(needed, mode=row["mode"]))
        for row in _records(where(own, role="reference"))
    ]
    for against in dict.fromkeys(where(own, role="baseline")["against"]):
        said += _baseline(_records(where(own, against=against)), against)
    return _table([*said, *_speeds(speed), SEEDS], "losses")


def retrace(
    differences: pd.DataFrame, needed: pd.DataFrame, speed: pd.DataFrame, probes: pd.DataFrame
) -> Table:
    """Findings of the retrace study; frames as in `losses`, probes of schema retrace_probes."""
    said = [_compared(row, where(needed, mode=row["mode"])) for row in _records(_main(differences))]
    said += _speeds(speed)
    domain = domains_of(probes)[-1] if len(probes) else None
    for row in _records(where(probes, domain=domain, measure="coverage", rank=5)):
        if row["value"] is not None:
            share = {name: _times(row[name], 100) for name in ("value", "lower", "upper")}
            said.append(
                "Behind the first rejection the target's token is among the draft's five best in "
                f"{_with_ends(share, 'value', '.0f')}% of {row['places']} places (mode {row['mode']})."
            )
    for row in _records(where(probes, domain=domain, measure="cosine_gap")):
        if row["value"] is not None:
            shown = f"by {_with_ends(row, 'value', '+.3f')} (mode {row['mode']})."
            if row["lower"] is None or row["lower"] <= 0 <= row["upper"]:
                said.append(
                    "There the draft's state is not told to point the way of the target's own state rather "
                    f"than of one of another prompt's text: the cosines differ {shown}"
                )
                continue
            more = "more" if row["value"] > 0 else "less"
            said.append(
                f"There the draft's state points {more} the way of the target's own state than of one of "
                f"another prompt's text: the cosines differ {shown}"
            )
    return _table([*said, SEEDS], "retrace")


def _compared(row: dict[str, Any], needed: pd.DataFrame) -> str:
    names = f"{row['arm']} and {row['against']}"
    if row["lower"] is None:
        return f"{names} cannot be told apart in mode {row['mode']}: {row['reason']}."
    shown = _with_ends(row, "difference", "+.3f")
    if row["separated"]:
        more = "more" if row["difference"] > 0 else "fewer"
        return (
            f"{row['arm']} emits {more} tokens a round than {row['against']} in mode {row['mode']}: by "
            f"{shown}."
        )
    found = (
        f"{names} are not separated in mode {row['mode']}: they differ by {shown} tokens a round"
    )
    own = _records(where(needed, arm=row["arm"], against=row["against"], domain=row["domain"]))
    if not own or own[0]["smallest"] is None:
        return f"{found}."
    text = f"{found}. These data would find a difference of {own[0]['smallest']:.2f}"
    by = {each["target"]: each for each in own}
    ways = []
    for target, name in (("seen", "the one seen"), ("asked", f"one of {by['asked']['effect']:g}")):
        factor = by[target]["factor_needed"]
        if factor is not None and factor > 1:
            ways.append(f"{name} takes about {factor:.0f} times as many trainings and prompts")
    return f"{text}; {'; '.join(ways)}." if ways else f"{text}."


def _baseline(rows: Sequence[dict[str, Any]], against: str) -> list[str]:
    """One sentence for each verdict on the arms beside a baseline."""
    verdicts: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        verdict = "is not separated from"
        if row["lower"] is None:
            verdict = f"has no interval ({row['reason']}) beside"
        elif row["separated"]:
            verdict = (
                "emits more tokens a round than" if row["difference"] > 0 else "emits fewer than"
            )
        shown = f"{row['mode']} {_with_ends(row, 'difference', '+.2f')}"
        verdicts.setdefault(verdict, {}).setdefault(row["arm"], []).append(shown)
    return [
        "; ".join(f"{arm} {verdict} {against} ({', '.join(modes)})" for arm, modes in arms.items())
        + "."
        for verdict, arms in verdicts.items()
    ]


def _speeds(speed: pd.DataFrame | None) -> list[str]:
    """One sentence a mode."""
    if speed is None or speed.empty:
        return []
    own = where(speed, domain=domains_of(speed)[-1], subset="all")
    said = []
    for mode in dict.fromkeys(own["mode"]):
        parts = []
        for row in _records(where(own, mode=mode)):
            if row["lower"] is None:
                verdict = "no interval"
            elif row["lower"] > 1:
                verdict = "faster"
            else:
                verdict = "slower" if row["upper"] < 1 else "not told apart"
            parts.append(f"{row['arm']} {_with_ends(row, 'speedup', '.2f')} ({verdict})")
        said.append(f"Speed over plain decoding on this machine, mode {mode}: {'; '.join(parts)}.")
    return said


def _with_ends(row: dict[str, Any], name: str, style: str) -> str:
    if row["lower"] is None:
        return f"{row[name]:{style}}" if row[name] is not None else "an unknown number of"
    return f"{row[name]:{style}} [{row['lower']:{style}}, {row['upper']:{style}}]"


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else factor * value


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [
        {name: None if pd.isna(value) else value for name, value in row.items()}
        for row in frame.to_dict("records")
    ]
