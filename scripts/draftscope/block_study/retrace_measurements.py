"""Our value for each published cell of ReTrace and of its base DFlash, or why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from draftscope.block_study.beside import SETTING, Modes, drafters, first, none, value, widest
from draftscope.exhibits.measurement import measurement

STUDY = "retrace"
VARIANT = {
    "DFlash (no conditioning)": None,
    "raw conditioning, overwrite": "overwrite",
    "raw conditioning, gated": "gated",
    "corrected conditioning, gated": "corrected_gated",
    "DFlash": None,
    "ReTrace": "corrected_gated",
    "DFlash (16)": None,
    "ReTrace (16)": "corrected_gated",
}
RANK = {"1": 1, "2": 2, "3": 3, "4": 4, "5": 5, "6-10": 10, "11-250": 250, "251-5K": 5000}
COSINE = {"True trajectory": "cosine_true", "Random": "cosine_random", "Gap": "cosine_gap"}
AVERAGES = ("Avg", "Overall")
OTHER = "no such drafter in this experiment"


class RetraceMeasurements:
    """Looks the statistics of the retrace study up by published cell.

    Args:
        frames: lengths, differences, speed, speed_differences, probes.
        variants: label of an arm -> its variant; None of the backbone.
        benchmarks: published benchmark -> domain of this run that stands beside it.
        run, published: the condition of this run and the published one: target, block_size,
            drafter (settings of its network), training_data; data, prompts, max_new_tokens by domain
            (benchmark); laws (modes).
    """

    def __init__(
        self,
        frames: Mapping[str, pd.DataFrame],
        variants: Mapping[str, str | None],
        benchmarks: Mapping[str, str],
        run: Mapping[str, Any],
        published: Mapping[str, Any],
    ) -> None:
        self.frames, self.benchmarks = frames, benchmarks
        self.arm = {variant: label for label, variant in variants.items()}
        self.run, self.published = run, published
        self.modes = Modes(run["laws"], published["modes"])

    def rows(self, cells: Mapping[tuple[str, str, str], Any]) -> list[dict[str, Any]]:
        """One row of schema `measurements` a published cell."""
        found = []
        for (exhibit, row, column), cell in cells.items():
            label = "T=1" if row.startswith("T=1") else "T=0"
            note = "; ".join(self._differences(label, _benchmark(exhibit, column)))
            ours = self._find(exhibit, row, column)
            found.append(measurement(STUDY, (exhibit, row, column), cell.unit, note, ours))
        return found

    def _differences(self, label: str, benchmark: str | None) -> list[str]:
        notes = [
            f"{key.replace('_', ' ')} {self.run[key]}, published {self.published[key]}"
            for key in ("target", "block_size")
            if self.run[key] != self.published[key]
        ]
        notes += drafters(self.run, self.published)
        wanted = [benchmark] if benchmark in self.published["data"] else []
        if not wanted and set(self.benchmarks) != set(self.published["prompts"]):
            notes.append(f"domains {', '.join(self.run['data'])}")
        for name in wanted or self.benchmarks:
            domain = self.benchmarks.get(name)
            if domain is None:
                continue
            for key, theirs in (
                ("data", self.published["data"].get(name)),
                ("prompts", self.published["prompts"].get(name)),
                ("max_new_tokens", self.published["max_new_tokens"]),
            ):
                if theirs is not None and self.run[key][domain] != theirs:
                    words = key.replace("_", " ")
                    notes.append(f"{words} of {name} {self.run[key][domain]}, published {theirs}")
        return notes + self.modes.differences(label)

    def _find(self, exhibit: str, row: str, column: str) -> dict[str, Any]:
        if exhibit in ("Table 6", "Table 7", "DFlash Appendix A.1") or exhibit.startswith(
            "Appendix"
        ):
            return none(SETTING)
        if exhibit in ("Table 2", "DFlash Table 1"):
            label, size, name = row.split("/")
            if size != "4B":
                return none("of another target than the one of this experiment")
            return self._cell(VARIANT.get(name, OTHER), label, column)
        if exhibit == "Table 3":
            return self._cell(VARIANT.get(row, OTHER), "T=0", column)
        if exhibit == "Table 4":
            return self._latency(row, column)
        if exhibit == "Table 1":
            domain = self._domain(column.split()[0])
            return self._probe(domain, measure=COSINE[row])
        if exhibit == "Figure 2":
            rank = RANK.get(row.removeprefix("target-token rank "))
            if rank is None:
                return none("every rank is covered")
            return self._probe(widest(self.frames["probes"]), 100.0, measure="coverage", rank=rank)
        if exhibit == "Section Main Results":
            return self._gains("speed" if column.endswith("speedup") else "tau")
        if exhibit == "Table 8":
            return none("no serving engine is part of this experiment")
        if exhibit == "Table 5":
            return none(OTHER)
        return none("outside what this experiment measures")

    def _domain(self, benchmark: str) -> str | None:
        if benchmark in AVERAGES:
            return widest(self.frames["lengths"])
        return self.benchmarks.get(benchmark)

    def _cell(self, variant: str | None, label: str, column: str) -> dict[str, Any]:
        """tau or speedup of a benchmark: columns such as "GSM8K tau"."""
        benchmark, _, what = column.rpartition(" ")
        if variant == OTHER or variant not in self.arm:
            return none(OTHER)
        mode, domain = self.modes.find(label), self._domain(benchmark)
        if mode is None or domain is None:
            return none(f"no domain beside {benchmark} at {label} in this experiment")
        key = {"arm": self.arm[variant], "mode": mode, "domain": domain}
        if what == "tau":
            found = first(self.frames["lengths"], **key, subset="all", pooling="macro")
            return value(found, "length", ("lower", "upper"), "no prompt")
        found = first(self.frames["speed"], **key, subset="all")
        return value(found, "speedup", ("lower", "upper"), "not timed")

    def _latency(self, row: str, column: str) -> dict[str, Any]:
        if column in ("speedup", "tau"):
            return self._cell(VARIANT[row], "T=0", f"GSM8K {column}")
        name = {"verify latency": "verify", "draft latency": "draft"}.get(column)
        if name is None:
            return none("not timed apart")
        mode, domain = self.modes.find("T=0"), self._domain("GSM8K")
        found = first(
            self.frames["speed"],
            arm=self.arm.get(VARIANT[row]),
            mode=mode,
            domain=domain,
            subset="all",
        )
        if found is None or pd.isna(found[name]):
            return none("no domain beside GSM8K at T=0 in this experiment")
        return {"value": 1000 * float(found[name]), "n": int(found["prompts"])}

    def _probe(self, domain: str | None, scale: float = 1.0, **key: Any) -> dict[str, Any]:
        mode = self.modes.find("T=0")
        if domain is None or mode is None:
            return none("no domain beside it, or no greedy mode, in this experiment")
        found = first(self.frames["probes"], domain=domain, mode=mode, **key)
        return value(found, "value", ("lower", "upper"), "no place behind a rejection", scale)

    def _gains(self, what: str) -> dict[str, Any]:
        """Gain of ReTrace on its backbone, mean over modes; so are the ends, since modes share trainings."""
        own, other = self.arm.get("corrected_gated"), self.arm.get(None)
        if own is None or other is None:
            return none(OTHER)
        frame = self.frames["differences" if what == "tau" else "speed_differences"]
        frame = frame[(frame["arm"] == own) & (frame["against"] == other)]
        frame = frame[frame["domain"] == widest(self.frames["lengths"])]
        frame = frame[frame["subset"] == "all"]
        names = ("gain", "gain_lower", "gain_upper")
        if what == "tau":
            frame = frame[frame["pooling"] == "macro"]
        else:
            ends = ("ratio", "lower", "upper")
            frame = frame.assign(
                **{n: 100 * (frame[e] - 1) for n, e in zip(names, ends, strict=True)}
            )
        if frame.empty or frame["gain"].isna().any():
            return none("no prompt")
        middle, low, high = (
            None if frame[name].isna().any() else float(frame[name].mean()) for name in names
        )
        return {"value": middle, "lower": low, "upper": high, "n": int(frame["prompts"].max())}


def _benchmark(exhibit: str, column: str) -> str | None:
    """The benchmark that a cell is about, if it is about one."""
    if exhibit in ("Table 1", "Table 2", "Table 3", "DFlash Table 1"):
        return column.split()[0]
    return "GSM8K" if exhibit == "Table 4" else None
