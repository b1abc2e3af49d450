"""What the two studies of block drafters share when they stand beside published numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from draftscope.block_study.lengths import domains_of

SETTING = "a setting of the published run, not a result"
# What the draft layers of a drafter start from, by its setting `init`.
START = {"target": "copies of the target's layers", "random": "random weights"}


def none(reason: str) -> dict[str, Any]:
    """No value, and why."""
    return {"missing_reason": reason}


def first(frame: pd.DataFrame | None, **key: Any) -> pd.Series | None:
    """The first row with these values."""
    if frame is None:
        return None
    for name, value in key.items():
        frame = frame[frame[name] == value]
    return frame.iloc[0] if len(frame) else None


def value(
    row: pd.Series | None, name: str, ends: tuple[str, str], absent: str, scale: float = 1.0
) -> dict[str, Any]:
    """Value, interval and number of prompts of a row, or the missing_reason."""
    if row is None:
        return none(absent)
    if pd.isna(row[name]):
        return none(str(row["reason"]))
    low, high = (None if pd.isna(row[end]) else scale * float(row[end]) for end in ends)
    return {
        "value": scale * float(row[name]),
        "lower": low,
        "upper": high,
        "n": int(row["prompts"]),
    }


class Modes:
    """Which decoding mode of the run stands for a published temperature.

    Args:
        laws: mode -> law of the run.
        published: T=0, T=1 -> what is known of the published law.
    """

    def __init__(
        self, laws: Mapping[str, Mapping[str, float]], published: Mapping[str, Mapping[str, float]]
    ) -> None:
        self._laws, self._published = laws, published

    def find(self, label: str) -> str | None:
        """The mode with the published temperature; else, of a sampled one, the first that samples."""
        wanted = self._published[label]["temperature"]
        exact = [mode for mode, law in self._laws.items() if law["temperature"] == wanted]
        if exact or wanted == 0:
            return exact[0] if exact else None
        return next((mode for mode, law in self._laws.items() if law["temperature"] > 0), None)

    def differences(self, label: str) -> list[str]:
        """In words what of the law of that mode is not published."""
        mode = self.find(label)
        if mode is None:
            return []
        law = self._laws[mode]
        return [
            f"{key.replace('_', '-')} {law[key]:g}, published {theirs:g}"
            for key, theirs in self._published[label].items()
            if law[key] != theirs
        ]


def in_words(setting: Any) -> str:
    """A setting of a drafter's network; the one that may be left out is the vocabulary, then whole."""
    return "whole" if setting is None else str(setting).lower()


def drafters(run: Mapping[str, Any], published: Mapping[str, Any]) -> list[str]:
    """In words what of the drafter's network and of its training texts is not as published."""
    found = [
        f"drafter with {key.replace('_', ' ')} {in_words(run['drafter'][key])}, "
        f"published {in_words(theirs)}"
        for key, theirs in published["drafter"].items()
        if run["drafter"][key] != theirs
    ]
    if run["training_data"] != published["training_data"]:
        found.append(f"trained on {run['training_data']}, published {published['training_data']}")
    if "init" not in published["drafter"]:
        start = START[run["drafter"]["init"]]
        found.append(f"drafter starts from {start}; of the published one that is not known")
    return found


def widest(frame: pd.DataFrame) -> str:
    """All domains together, or the only one."""
    return domains_of(frame)[-1]
