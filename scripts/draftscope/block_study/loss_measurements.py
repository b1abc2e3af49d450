"""Our value for each published cell of D-PACE and D-PAL, or why there is none."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pandas as pd

from draftscope.block_study.beside import SETTING, Modes, drafters, first, none, value, widest
from draftscope.block_training.rows import DECAYING, PUBLISHED_DECAY
from draftscope.exhibits.measurement import measurement

STUDY = "losses"
LOSS = {"D-PACE": "dpace", "D-PAL": "dpal"}
GAIN = "D-PACE's gain on the decayed cross-entropy"
PAL_SMOOTHING = "smoothing: that of D-PAL is not known"


def published_arms(
    losses: Mapping[str, Mapping[str, Any]], smoothing: float, block_size: int
) -> dict[str, str]:
    """Name of a loss -> label of the arm that has it as published; losses without such an arm are left out.

    Args:
        losses: label of an arm -> name, smoothing and decay of its loss.
        smoothing: the published one of D-PACE; that of D-PAL is not known.
        block_size: of this run's drafters; the published decay goes by it.
    """
    fitting: dict[str, dict[float, str]] = {}
    for label, loss in losses.items():
        decays = loss["name"] in DECAYING
        # A loss has both options and uses one.
        option = loss["decay" if decays else "smoothing"]
        wanted = PUBLISHED_DECAY.get(block_size) if decays else smoothing
        if loss["name"] == LOSS["D-PAL"]:
            wanted = None
        if wanted in (None, option):
            fitting.setdefault(loss["name"], {}).setdefault(option, label)
    # Where what is published is not known, of several arms none is the published one.
    return {
        name: next(iter(labels.values())) for name, labels in fitting.items() if len(labels) == 1
    }


class LossMeasurements:
    """Looks the statistics of the losses study up by published cell.

    Args:
        lengths, differences, speed: schemas block_lengths, block_differences and
            block_speed_differences (None where nothing was timed).
        losses: label of an arm -> its loss: name, smoothing and decay.
        run, published: the condition of this run and the published one: target, data, drafter
            (settings of its network), training_data; laws (of this run), modes and smoothing
            (published).
    """

    def __init__(
        self,
        lengths: pd.DataFrame,
        differences: pd.DataFrame,
        speed: pd.DataFrame | None,
        losses: Mapping[str, Mapping[str, Any]],
        run: Mapping[str, Any],
        published: Mapping[str, Any],
    ) -> None:
        self.lengths, self.differences, self.speed = lengths, differences, speed
        self.arm = published_arms(losses, published["smoothing"], run["drafter"]["block_size"])
        self.run, self.published = run, published
        self.modes = Modes(run["laws"], published["modes"])

    def rows(self, cells: Mapping[tuple[str, str, str], Any]) -> list[dict[str, Any]]:
        """One row of schema `measurements` a published cell."""
        found = []
        for (exhibit, row, column), cell in cells.items():
            label = re.search(r"T=\d$", column)
            note = "; ".join(
                [
                    f"target {self.run['target']}, published {self.published['target']}",
                    f"domains {', '.join(self.run['data'])}, published: {self.published['data']}",
                    *drafters(self.run, self.published),
                    *(self.modes.differences(label[0]) if label else []),
                    *([PAL_SMOOTHING] if label and row == "D-PAL" else []),
                ][self.run["target"] == self.published["target"] :]
            )
            ours = self._find(exhibit, row, column)
            found.append(measurement(STUDY, (exhibit, row, column), cell.unit, note, ours))
        return found

    def _find(self, exhibit: str, row: str, column: str) -> dict[str, Any]:
        if match := re.fullmatch(r"acceptance length (T=\d)", column):
            return self._length(row, match[1])
        if row == "Qwen3-4B main settings":
            if column.startswith("emitted length gain"):
                return self._gain(self.differences, "gain", ("gain_lower", "gain_upper"), column)
            if column.startswith("speedup gain"):
                return self._speed_gain(column)
        if row in ("Llama-3.1-8B-Instruct", "Qwen3-8B"):
            return none("of another target than the one of this experiment")
        if column == "training-time overhead":
            return none("trainings are not timed against each other")
        if column == "MATH-500 speedup, maximum":
            return none("the largest of several speedups, of five layers on MATH-500")
        return none(SETTING)

    def _length(self, row: str, label: str) -> dict[str, Any]:
        arm, mode = self.arm.get(LOSS[row]), self.modes.find(label)
        if mode is None:
            return none(f"no mode at {label} in this experiment")
        if arm is None:
            return none(f"no {row} arm is known to be the published one in this experiment")
        key = {"arm": arm, "mode": mode, "domain": widest(self.lengths)}
        found = first(self.lengths, **key, subset="all", pooling="macro")
        return value(found, "length", ("lower", "upper"), "no prompt")

    def _gain(
        self, frame: pd.DataFrame | None, name: str, ends: tuple[str, str], column: str
    ) -> dict[str, Any]:
        """The smallest (largest) of the gains in the modes for the low (high) end that is published."""
        if frame is None:
            return none("no speed is measured in this experiment")
        known = {self.arm.get("dpace"), self.arm.get("ce_decay")}
        if None in known:
            return none(f"{GAIN}: one of the arms is not, as published, in this experiment")
        own = frame[frame["domain"] == widest(frame)]
        own = own[own["subset"] == "all"]
        if "pooling" in own:
            own = own[own["pooling"] == "macro"]
        # The reference may be either of the two.
        ahead = own[(own["arm"] == self.arm["dpace"]) & (own["against"] == self.arm["ce_decay"])]
        behind = own[(own["arm"] == self.arm["ce_decay"]) & (own["against"] == self.arm["dpace"])]
        found = [value(row, name, ends, "") for _, row in ahead.iterrows()]
        found += [_turned(value(row, name, ends, "")) for _, row in behind.iterrows()]
        found = [each for each in found if "value" in each]
        if not found:
            return none(f"{GAIN}: the two arms are not compared")
        pick = min if column.endswith("low end") else max
        return pick(found, key=lambda each: each["value"])

    def _speed_gain(self, column: str) -> dict[str, Any]:
        frame = self.speed
        if frame is not None:
            frame = frame.copy()
            for name in ("ratio", "lower", "upper"):
                frame[name] = 100 * (frame[name] - 1)
        return self._gain(frame, "ratio", ("lower", "upper"), column)


def _turned(found: dict[str, Any]) -> dict[str, Any]:
    """The gain of the other arm, in percent: of a ratio r - 1 the other is 1 / r - 1."""

    def other(percent: float | None) -> float | None:
        return None if percent is None else 100 * (1 / (1 + percent / 100) - 1)

    if "value" not in found:
        return found
    return found | {
        "value": other(found["value"]),
        "lower": other(found["upper"]),
        "upper": other(found["lower"]),
    }
