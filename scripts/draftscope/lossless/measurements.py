"""Our value for each published cell of the lossless study, or why there is none."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from draftscope.exhibits.measurement import measurement

STUDY = "lossless"
SETTING = "a setting of the published run, not a result"
METAL = "no quantized verifier in llama.cpp is part of this experiment"
_SCALE = {"percent": 100.0, "ms": 1000.0}
_SPEED = {
    "throughput": "tokens_per_second",
    "speculative throughput": "tokens_per_second",
    "speedup": "speedup",
    "acceptance": "acceptance",
    "speculative TTFT": "first_token",
    "peak RSS": "peak_memory",
    "per-token speedup": "speedup",
    "draft step": "draft_step",
    "verify round": "verify_pass",
    "target baseline step": "baseline_step",
    "target step": "baseline_step",
    "tokens": "tokens",
    "rounds": "rounds",
    "tokens per round, measured": "acceptance_length",
    "tokens per round, i.i.d. formula": "yield_iid",
    "pooled acceptance": "acceptance",
}
_PLAIN = {"baseline throughput": "tokens_per_second", "baseline TTFT": "first_token"}
_PHASE = {
    "speculative total per token": "total",
    "draft per token": "draft",
    "verify per token": "verify",
    "sampling per token": "sample",
    "other per token": "other",
}
_SHARE = {"sampling share": "sample", "draft share": "draft"}


class Measurements:
    """Looks the study's statistics up by published cell.

    Args:
        frames: schema name without its prefix (speed, positions, phases, latency, greedy,
            equivalence) -> frame.
        run, published: the condition of this run and the published one: `data`, `prompts`,
            `max_new_tokens`, `draft_length`, `temperature`, `device`; `configurations`: label ->
            what target and draft are.
        draft_length: of the table of configurations.
    """

    def __init__(
        self,
        frames: Mapping[str, pd.DataFrame],
        run: Mapping[str, Any],
        published: Mapping[str, Any],
        draft_length: int,
    ) -> None:
        self.frames, self.run, self.published = frames, run, published
        self.draft_length = draft_length
        speed = frames["speed"]
        # The first configuration of a label is its own: the tables are of one mode.
        named = speed[speed["published"].notna()].drop_duplicates("published")
        self.configurations = {
            row["published"]: {"pair": row["pair"], "mode": row["mode"]}
            for row in named.to_dict("records")
        }

    def rows(self, cells: Mapping[tuple[str, str, str], Any]) -> list[dict[str, Any]]:
        """One row of schema `measurements` a published cell.

        Args:
            cells: (exhibit, row, column) -> an object with the published `unit`.
        """
        return [self._row(*key, unit=cell.unit) for key, cell in cells.items()]

    def _row(self, exhibit: str, row: str, column: str, unit: str) -> dict[str, Any]:
        note = self.differences(_label(exhibit, row))
        found = self._find(exhibit, row, column)
        for name in ("value", "lower", "upper"):
            if found.get(name) is not None:
                found[name] = float(found[name]) * _SCALE.get(unit, 1.0)
        return measurement(STUDY, (exhibit, row, column), unit, note, found)

    def differences(self, label: str | None) -> str:
        """What of the published condition this run does not share, in words; empty if nothing."""
        keys = ("data", "prompts", "max_new_tokens", "draft_length", "temperature", "device")
        notes = [
            f"{key.replace('_', ' ')} {_say(self.run.get(key))}, published {self.published[key]}"
            for key in keys
            if key in self.published and self.run.get(key) != self.published[key]
        ]
        theirs = self.published.get("configurations", {})
        for name in theirs if label is None else [label]:
            ours = self.run.get("configurations", {}).get(name)
            if name in theirs and ours != theirs[name]:
                notes.append(f"{name} is {_say(ours)}, published {theirs[name]}")
        return "; ".join(notes)

    def _find(self, exhibit: str, row: str, column: str) -> dict[str, Any]:
        if exhibit in ("Section 5", "Table 2"):
            return _none(SETTING)
        if exhibit.startswith("Level "):
            return self._level(int(exhibit[6:]), row, column)
        if exhibit == "Abstract":
            return self._abstract(column)
        if exhibit == "Table 4":
            length = 0 if row == "baseline" else int(row.removeprefix("K="))
            return self._speed("mixed_3b", length, column)
        if row in ("7B Metal", "metal-verifier configurations") or column.startswith(
            "verify pass in single"
        ):
            return _none(METAL)
        if row == "Transformers-MPS":
            return self._latency(column)
        if column.startswith("rejection-sampling time"):
            return self._largest_sampling()
        label, length = _label(exhibit, row), self.draft_length
        if match := re.search(r" K=(\d+)$", row):
            length = int(match[1])
        if match := re.fullmatch(r"positional acceptance (\d+)", column):
            return self._position(label, int(match[1]))
        if column in _PHASE or column in _SHARE or column == "baseline total per token":
            return self._phase(label, column)
        return self._speed(label, length, column)

    def _one(self, frame: str, label: str | None, **key: Any) -> pd.Series | None:
        if label not in self.configurations:
            return None
        return _first(self.frames[frame], **self.configurations[label], **key)

    def _speed(self, label: str | None, length: int, column: str) -> dict[str, Any]:
        name = _SPEED.get(column)
        if column in _PLAIN:
            name, length = _PLAIN[column], 0
        row = self._one("speed", label, draft_length=length)
        if row is None:
            return _none(self._why(label, f"draft length {length}"))
        if name is None:
            return _none(SETTING)
        return _value(row, name, int(row["prompts"]))

    def _position(self, label: str | None, position: int) -> dict[str, Any]:
        row = self._one("positions", label, draft_length=self.draft_length, position=position)
        if row is None:
            return _none(self._why(label, f"draft position {position}"))
        return _value(row, "position_rate", None)

    def _phase(self, label: str | None, column: str) -> dict[str, Any]:
        length = 0 if column.startswith("baseline") else self.draft_length
        phase = _PHASE.get(column) or _SHARE.get(column) or "total"
        row = self._one("phases", label, draft_length=length, phase=phase)
        if row is None:
            return _none(self._why(label, f"phase {phase}"))
        return _value(row, "share" if column in _SHARE else "per_token", None)

    def _latency(self, column: str) -> dict[str, Any]:
        frame = self.frames["latency"]
        if not {"mixed", "mixed_3b"} & self.configurations.keys():
            return _none("no configuration stands beside those of a transformers target")
        frame = frame[frame["target"] == frame["target"].iloc[0]] if len(frame) else frame
        single, five = _first(frame, tokens=1), _first(frame, tokens=5)
        if single is None or five is None:
            return _none("passes of 1 and of 5 tokens are not both timed")
        value = {
            "verify pass, 5 tokens": five["median"],
            "verify pass, 1 token": single["median"],
            "ratio 5 tokens to 1": five["median"] / single["median"],
        }[column]
        return {"value": float(value)}

    def _largest_sampling(self) -> dict[str, Any]:
        phases = self.frames["phases"]
        own = phases[(phases["phase"] == "sample") & (phases["draft_length"] == self.draft_length)]
        return {"value": float(own["per_token"].max())} if len(own) else _none("no phase was timed")

    def _level(self, level: int, row: str, column: str) -> dict[str, Any]:
        if column in ("gate", "smallest expected count") or row == "quantized Metal":
            return _none(SETTING if row != "quantized Metal" else METAL)
        if row == "greedy":
            return self._greedy(level, column)
        frame = self.frames["equivalence"]
        frame = frame[(frame["level"] == level) & frame["correct"]]
        test = frame[frame["test"].str.contains("goodness" if level == 1 else "pooled")]
        if level == 1 and row != "all":
            test = test[test["subject"] == row]
        if test.empty:
            return _none(f"no such test of level {level}")
        first = test.iloc[0]
        if level == 1 and column == "largest KL(empirical || p)":
            return _none("the total variation is reported instead")
        known: dict[str, Callable[[], Any]] = {
            "goodness-of-fit p": lambda: first["p"],
            "chi2": lambda: first["statistic"],
            "dof": lambda: first["freedom"],
            "p": lambda: first["p"],
            "bins": lambda: first["freedom"] + 1,
            "trials per family": lambda: first["texts"],
            "generations per method": lambda: first["texts"],
            "tokens per method": lambda: first["tokens"],
            "speculative tokens": lambda: first["tokens"],
            "baseline tokens": lambda: first["tokens"],
        }
        if column not in known:
            absent = column == "symmetric smoothed KL"
            return _none("an artefact of its smoothing; not computed" if absent else SETTING)
        value = known[column]()
        if pd.isna(value):
            return _none(f"not part of the test: {first['reason']}")
        return {"value": float(value), "n": None}

    def _greedy(self, level: int, column: str) -> dict[str, Any]:
        if level == 2:
            length = int(column.split()[0].removeprefix("K="))
            frame = self.frames["equivalence"]
            own = frame[(frame["level"] == 2) & (frame["test"] == f"greedy, K={length}")]
            if own.empty:
                return _none(f"draft length {length} is not tested")
            return {"value": float(not own["rejected"].any())}
        greedy = self.frames["greedy"]
        exact = (greedy["dtype"] == "float32") & (greedy["draft_length"] == self.draft_length)
        greedy = greedy[exact]
        if greedy.empty:
            return _none("no greedy configuration in float32 in this experiment")
        first = greedy.iloc[0]
        own = greedy[(greedy["pair"] == first["pair"]) & (greedy["mode"] == first["mode"])]
        if column == "identical prompts":
            return {"value": float(own["identical"].sum()), "n": len(own)}
        number = int(column.split()[1])
        if number > len(own):
            return _none(f"only {len(own)} prompts")
        return {"value": float(own["tokens"].iloc[number - 1]), "n": 1}

    def _abstract(self, column: str) -> dict[str, Any]:
        if column in ("chi2", "dof", "p", "tokens per method"):
            name = "speculative tokens" if column == "tokens per method" else column
            return self._level(3, "two-sample test", name)
        speed = self.frames["speed"]
        spec = speed[speed["draft_length"] > 0]
        main = spec[spec["draft_length"] == self.draft_length]
        if column == "configurations":
            return {"value": float(len(main))}
        if column == "configurations that decelerate":
            return {"value": float((main["speedup"] < 1).sum()), "n": int(main["prompts"].max())}
        if "mixed_3b" not in self.configurations:
            return _none(self._why("mixed_3b", ""))
        own = spec
        for name, value in self.configurations["mixed_3b"].items():
            own = own[own[name] == value]
        # The largest of several noisy speedups has no honest interval of its own: none is given.
        best = own.loc[own["speedup"].idxmax()]
        if column == "acceptance at K=1":
            return self._speed("mixed_3b", 1, "acceptance")
        value = {
            "best speedup": best["speedup"],
            "best K": best["draft_length"],
            "acceptance at the optimum": best["acceptance"],
        }[column]
        return {"value": float(value), "n": int(best["prompts"])}

    def _why(self, label: str | None, what: str) -> str:
        if label not in self.configurations:
            return f"no configuration stands beside {label}"
        return f"no {what} in the configuration that stands beside {label}"


def _label(exhibit: str, row: str) -> str | None:
    """The published configuration that a cell is about; None for one about all of them."""
    if exhibit == "Table 4":
        return "mixed_3b"
    name = row.split(" K=")[0]
    return name if re.fullmatch(r"primary|all_gguf|stretch_7b|mixed|mixed_3b", name) else None


def _first(frame: pd.DataFrame, **key: Any) -> pd.Series | None:
    for name, value in key.items():
        frame = frame[frame[name] == value]
    return frame.iloc[0] if len(frame) else None


def _value(row: pd.Series, name: str, prompts: int | None) -> dict[str, Any]:
    if pd.isna(row[name]):
        return _none(str(row["reason"]))
    ends = {
        end: float(row[f"{name}_{end}"])
        for end in ("lower", "upper")
        if f"{name}_{end}" in row and pd.notna(row[f"{name}_{end}"])
    }
    return {"value": float(row[name]), "n": prompts, **ends}


def _none(reason: str) -> dict[str, Any]:
    return {"missing_reason": reason}


def _say(value: Any) -> str:
    return "not stated" if value is None else str(value)
