"""Our value for each published cell of the interventions, for the scorecard of the position study."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

# Published name of an arm -> the weighting that it has.
ARMS = {"uniform": "uniform", "reflection-marked": "reflection", "entropy-weighted": "entropy"}
DECODING = {"sampling": "sample", "greedy": "greedy"}
CELLS = (
    ("Table 4", None),
    ("Figure 8", None),
    ("Abstract", "LoRA arms"),
)


def holds(exhibit: str, column: str) -> bool:
    """Whether a published cell is one of the interventions'."""
    return any(exhibit == e and c in (None, column) for e, c in CELLS)


class Interventions:
    """Looks the statistics of the interventions up by published cell.

    Args:
        frames: lengths, differences, diagnostics, accuracy, as `interventions.schemas` has them.
        weightings: label of an arm -> its weighting.
        modes: decoding (greedy, sample) -> the mode that stands for it.
    """

    def __init__(
        self,
        frames: Mapping[str, pd.DataFrame],
        weightings: Mapping[str, str],
        modes: Mapping[str, str],
    ) -> None:
        self.frames, self.modes = frames, modes
        self.labels = {weighting: label for label, weighting in weightings.items()}

    def find(self, exhibit: str, row: str, column: str) -> dict[str, Any]:
        """Value, interval and number of prompts, or the missing_reason."""
        if exhibit == "Abstract":
            return _value(float(len(self.labels)), self._prompts())
        if exhibit == "Figure 8":
            rows = self.frames["diagnostics"]
            prompts = int(rows["prompts"].max()) if len(rows) else 0
            return _value(float(prompts), prompts)
        if column == "McNemar chi2":
            return self._chi2()
        kind, _, decoding = column.partition(" ")
        mode = self.modes.get(DECODING.get(decoding, ""))
        arm = "base" if row == "base" else self.labels.get(ARMS.get(row, ""))
        if mode is None or arm is None:
            return {"missing_reason": f"no {row} arm in {decoding} decoding in this experiment"}
        chosen = {"arm": arm, "mode": mode, "subset": "all", "estimator": "rounds"}
        if kind == "MAL":
            found = _chosen(self.frames["lengths"], **chosen)
            return _cell(found, "mean", "mean_lower", "mean_upper")
        found = _chosen(self.frames["differences"], **chosen, against=self.labels.get("uniform"))
        return _cell(found, "difference", "t_lower", "t_upper")

    def _chi2(self) -> dict[str, Any]:
        """The largest of the arms: that all are about 0 is what was published."""
        rows = self.frames["accuracy"]
        rows = rows[rows["arm"].isin(self.labels.values()) & rows["chi2"].notna()]
        domains = set(self.frames["lengths"]["domain"])
        rows = rows[rows["domain"].isin(domains)]
        if rows.empty:
            return {"missing_reason": "no answers of this domain are checked in this experiment"}
        return _value(float(rows["chi2"].max()), int(rows["prompts"].max()))

    def _prompts(self) -> int:
        rows = self.frames["lengths"]
        return int(rows["prompts"].max()) if len(rows) else 0


def _chosen(frame: pd.DataFrame, **values: Any) -> pd.DataFrame:
    for name, value in values.items():
        frame = frame[frame[name] == value]
    return frame


def _cell(rows: pd.DataFrame, value: str, low: str, high: str) -> dict[str, Any]:
    if rows.empty or pd.isna(rows.iloc[0][value]):
        return {"missing_reason": "no prompt with text"}
    row = rows.iloc[0]
    lower, upper = (None if pd.isna(row[name]) else float(row[name]) for name in (low, high))
    return {"value": float(row[value]), "lower": lower, "upper": upper, "n": int(row["prompts"])}


def _value(value: float, n: int) -> dict[str, Any]:
    return {"value": value, "n": n}
