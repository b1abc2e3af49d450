"""Our value for each published cell of the position study, or why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from draftscope.exhibits.measurement import measurement
from draftscope.interventions.measurements import Interventions, holds

STUDY = "position"
CURVE_METRIC = "def2"
_DECODING = {"greedy": "greedy", "sampling": "sample"}
_ABSENT = {
    "Table 4": "trained drafts are not part of this experiment",
    "Figure 8": "trained drafts are not part of this experiment",
}
NO_RULE = "no rule for where a curve saturates is published"
NO_SWEEP = "the sweep over temperatures is not part of this experiment"
# Column of Table 3 -> group of positions and quantity. The triggers are those that the study names.
_SWEPT = {
    "MAL": ("all", "mal"),
    "def2": ("all", "def2"),
    "alpha": ("all", "alpha"),
    "reflection def2": ("published", "def2"),
    "reflection alpha": ("published", "alpha"),
}


class Measurements:
    """Looks the study's statistics up by published cell.

    Args:
        frames: schema name without its prefix (paired, pooled, curves, and temperatures where there
            is a sweep) -> frame.
        domain: the domain that stands beside the published one.
        run, published: the condition of this run and the published one, of the same shape:
            `target`, `data` (names); `prompts`, `max_new_tokens`, `draft_length` (numbers);
            `drafts`: label -> name; `modes`: mode -> temperature (published: greedy, sample).
            A key that only the published condition has counts as a difference. `sweep` holds what
            is different of the sweep over temperatures (prompts, max_new_tokens, label).
        interventions: statistics of trained drafts, as `interventions.measurements` takes them, with
            the weighting of each arm; None where there are none.
    """

    def __init__(
        self,
        frames: Mapping[str, pd.DataFrame],
        domain: str,
        run: Mapping[str, Any],
        published: Mapping[str, Any],
        interventions: Mapping[str, pd.DataFrame] | None = None,
        weightings: Mapping[str, str] | None = None,
    ) -> None:
        self.run, self.published = run, published
        self.frames = {name: frame[frame["domain"] == domain] for name, frame in frames.items()}
        self.eligible = self._eligible(self.frames["paired"])
        self.modes = {decoding: modes[0] for decoding, modes in self.eligible.items()}
        self.interventions = None
        if interventions is not None:
            self.interventions = Interventions(interventions, weightings or {}, self.modes)

    def _eligible(self, paired: pd.DataFrame) -> dict[str, list[str]]:
        """Which modes can stand for greedy and which for sampling; the first of them does.

        Those of the published temperature, or all where none has it.
        """
        eligible = {}
        for decoding, rows in paired.groupby("decoding", sort=False):
            wanted = self.published.get("modes", {}).get(decoding)
            modes = list(dict.fromkeys(rows["mode"]))
            fitting = [m for m in modes if self.run.get("modes", {}).get(m) == wanted]
            eligible[decoding] = fitting or modes
        return eligible

    def rows(self, cells: Mapping[tuple[str, str, str], Any]) -> list[dict[str, Any]]:
        """One row of schema `measurements` a published cell.

        Args:
            cells: (exhibit, row, column) -> an object with the published `unit`.
        """
        return [self._row(*key, unit=cell.unit) for key, cell in cells.items()]

    def _row(self, exhibit: str, row: str, column: str, unit: str) -> dict[str, Any]:
        if exhibit == "Table 3":
            found, note = self._table_3(row, column), self._of_the_sweep(row)
            return measurement(STUDY, (exhibit, row, column), unit, note, found)
        found = self._find(exhibit, row, column)
        label, _, decoding = row.rpartition("/")
        decodings = _decodings(row, decoding)
        note = self.differences([label] if label else list(self.published["drafts"]), decodings)
        return measurement(STUDY, (exhibit, row, column), unit, note, found)

    def differences(self, labels: list[str], decodings: list[str]) -> str:
        """What of the published condition this run does not share, in words; empty if nothing."""
        notes = self._sizes(self.run, self.published)
        for label in labels:
            ours = self.run.get("drafts", {}).get(label)
            theirs = self.published.get("drafts", {}).get(label)
            if ours != theirs:
                notes.append(f"{label} draft {_say(ours)}, published {_say(theirs)}")
        for decoding in decodings:
            mode = self.modes.get(decoding)
            ours = self.run.get("modes", {}).get(mode)
            theirs = self.published.get("modes", {}).get(decoding)
            if ours != theirs:
                notes.append(f"{decoding} temperature {_say(ours)}, published {_say(theirs)}")
            several = self.eligible.get(decoding, [])
            if len(several) > 1:
                others = ", ".join(several[1:])
                notes.append(f"of several modes for {decoding} the first, {mode}, not {others}")
        return "; ".join(notes)

    @staticmethod
    def _sizes(run: Mapping[str, Any], published: Mapping[str, Any]) -> list[str]:
        return [
            f"{key.replace('_', ' ')} {_say(run.get(key))}, published {published[key]}"
            for key in ("target", "data", "prompts", "max_new_tokens", "draft_length")
            if published.get(key) is not None and run.get(key) != published[key]
        ]

    def _find(self, exhibit: str, row: str, column: str) -> dict[str, Any]:
        if self.interventions is not None and holds(exhibit, column):
            return self.interventions.find(exhibit, row, column)
        if exhibit in _ABSENT:
            return _none(_ABSENT[exhibit])
        label, _, decoding = row.rpartition("/")
        if exhibit == "Table 1":
            metric, _, name = column.partition(" ")
            return self._table_1(label, decoding, metric, name)
        if exhibit == "Table 2" or (exhibit == "Figure 2" and label):
            kind, _, subset = column.partition(", ")
            subset = "all" if subset == "full" else "loops_removed"
            frame = "pooled" if kind.startswith("pooled") else "paired"
            return self._difference(frame, label, decoding, "def1", subset)
        if exhibit == "Figure 2" and column == "loop problems removed":
            return self._loop_problems()
        if exhibit == "Figure 1" and column.startswith("curve"):
            return self._curve_end(label, decoding, column.split()[1])
        if column == "supported position, upper end":
            return self._support(_DECODING[row])
        if exhibit == "Figure 1":
            return _none(NO_RULE)
        return self._abstract(column)

    def _one(self, frame: str, **key: str) -> pd.Series | None:
        return self._one_of(self.frames[frame], **key)

    @staticmethod
    def _one_of(rows: pd.DataFrame, **key: str) -> pd.Series | None:
        for name, value in key.items():
            rows = rows[rows[name] == value]
        return rows.iloc[0] if len(rows) else None

    def _difference(
        self, frame: str, label: str, decoding: str, metric: str, subset: str
    ) -> dict[str, Any]:
        mode = self.modes.get(decoding, "")
        row = self._one(frame, label=label, mode=mode, metric=metric, subset=subset)
        if row is None or pd.isna(row["difference"]):
            return _none(_why(row, label, decoding))
        return {
            "value": float(row["difference"]),
            "lower": _number(row["difference_lower"]),
            "upper": _number(row["difference_upper"]),
            "n": int(row["prompts"]),
        }

    def _table_1(self, label: str, decoding: str, metric: str, name: str) -> dict[str, Any]:
        if name == "difference":
            return self._difference("paired", label, decoding, metric, "loops_removed")
        row = self._one(
            "paired",
            label=label,
            mode=self.modes.get(decoding, ""),
            metric=metric,
            subset="loops_removed",
        )
        if row is None or not row["prompts"]:
            return _none(_why(row, label, decoding))
        return {
            "value": float(row["p" if name == "sign-test p" else name]),
            "n": int(row["prompts"]),
        }

    def _table_3(self, row: str, column: str) -> dict[str, Any]:
        if "temperatures" not in self.frames:
            return _none(NO_SWEEP)
        temperature = float(row.removeprefix("T="))
        group, quantity = _SWEPT[column]
        frame = self.frames["temperatures"]
        frame = frame[(frame["mode"] == frame["law"]) & (frame["temperature"] == temperature)]
        own = self._one_of(frame, subset="loops_removed", group=group, quantity=quantity)
        if own is None:
            return _none(f"no mode of temperature {temperature:g} in the sweep")
        if pd.isna(own["value"]):
            return _none(own["reason"] or "no value")
        ends = {"lower": _number(own["lower"]), "upper": _number(own["upper"])}
        return {"value": float(own["value"]), "n": int(own["prompts"])} | ends

    def _of_the_sweep(self, row: str) -> str:
        """What of the published sweep this one does not share."""
        ours, theirs = ({**side, **side.get("sweep", {})} for side in (self.run, self.published))
        label = theirs.get("label", "")
        notes = self._sizes(ours, theirs)
        draft = self.run.get("drafts", {}).get(ours.get("label"))
        published = self.published.get("drafts", {}).get(label)
        if draft != published:
            notes.append(f"{label} draft {_say(draft)}, published {_say(published)}")
        return "; ".join(notes)

    def _loop_problems(self) -> dict[str, Any]:
        row = self._one(
            "paired", mode=self.modes.get("greedy", ""), metric="def1", subset="loops_removed"
        )
        if row is None:
            return _none("no greedy mode in this experiment")
        return {"value": float(row["left_out_loops"]), "n": int(row["prompts_total"])}

    def _curve(self, decoding: str, metric: str, label: str | None = None) -> pd.DataFrame:
        rows = self.frames["curves"]
        rows = rows[
            (rows["mode"] == self.modes.get(decoding, ""))
            & (rows["metric"] == metric)
            & (rows["subset"] == "loops_removed")
        ]
        # One text serves every draft, so any pair's curve tells how far it is supported.
        label = label or (rows["label"].iloc[0] if len(rows) else "")
        return rows[(rows["label"] == label) & rows["supported"]].sort_values("start")

    def _curve_end(self, label: str, decoding: str, end: str) -> dict[str, Any]:
        rows = self._curve(decoding, CURVE_METRIC, label)
        if rows.empty:
            return _none(f"no supported bin of {label}/{decoding} has {CURVE_METRIC}")
        # The lowest of many noisy bins has no honest interval of its own bin: none is given.
        row = rows.loc[rows["mean"].idxmin() if end == "low" else rows["mean"].idxmax()]
        return {"value": float(row["mean"]), "n": int(row["prompts"])}

    def _support(self, decoding: str) -> dict[str, Any]:
        rows = self._curve(decoding, "def1")
        if rows.empty:
            return _none(f"no position with enough prompts in {decoding} decoding")
        gap = (rows["start"] != rows["stop"].shift(fill_value=rows["start"].iloc[0])).to_numpy()
        last = rows.iloc[gap.argmax() - 1] if gap.any() else rows.iloc[-1]
        return {"value": float(last["stop"]), "n": int(last["prompts"])}

    def _abstract(self, column: str) -> dict[str, Any]:
        whole = self.frames["paired"]
        whole = whole[(whole["metric"] == "def1") & (whole["subset"] == "all")]
        if whole.empty:
            return _none("no configuration")
        prompts = int(whole["prompts_total"].max())
        values = {
            "problems": prompts,
            "configurations": len(whole),
            "verification rounds": int((whole["full_rounds"] + whole["cut_rounds"]).sum()),
        }
        if column not in values:
            return _none("trained drafts are not part of this experiment")
        return {"value": float(values[column]), "n": prompts}


def _decodings(row: str, decoding: str) -> list[str]:
    if row in _DECODING:
        return [_DECODING[row]]
    return [decoding] if decoding in _DECODING.values() else list(_DECODING.values())


def _none(reason: str) -> dict[str, Any]:
    return {"missing_reason": reason}


def _why(row: pd.Series | None, label: str, decoding: str) -> str:
    if row is None:
        return f"no configuration {label}/{decoding} in this experiment"
    return f"{row['reason'] or 'no value'}"


def _number(value: float | None) -> float | None:
    return None if pd.isna(value) else float(value)


def _say(value: Any) -> str:
    return "not stated" if value is None else str(value)
