"""Our value for each published cell of the certificates study, or why there is none."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from draftscope.certificate_study.lookup import Statistics
from draftscope.certificates import bounds
from draftscope.exhibits.measurement import measurement

STUDY = "certificates"
SETTING = "a setting of the published run, not a result"
NOT_SAID = "which probability counts as near 1 is not published"
_SHARED = ("temperature", "data", "prompts", "min_prompt_tokens", "max_new_tokens", "chat_template")
_MEDUSA = re.compile(r"Medusa e0=([\d.]+) d0=([\d.]+)")
_QUANTILE = re.compile(r"(mean|median|p5|p25)$")
Found = dict[str, Any]


class Measurements:
    """Looks the study's statistics up by published cell.

    Args:
        found: the statistics.
        targets: published target -> target of this run that stands beside it.
        domain: the domain that stands beside the published one.
        run, published: the condition of this run and the published one in the same keys: targets
            (published target -> model), temperature, data, prompts, min_prompt_tokens, max_new_tokens,
            chat_template.
    """

    def __init__(
        self,
        found: Statistics,
        targets: Mapping[str, str],
        domain: str,
        run: Mapping[str, Any],
        published: Mapping[str, Any],
    ) -> None:
        self.found, self.targets, self.domain = found, targets, domain
        self.run, self.published = run, published

    def rows(self, cells: Mapping[tuple[str, str, str], Any]) -> list[Found]:
        """One row of schema `measurements` a published cell.

        Args:
            cells: (exhibit, row, column) -> an object with the published `unit`.
        """
        return [self._row(*key, unit=cell.unit) for key, cell in cells.items()]

    def _row(self, exhibit: str, row: str, column: str, unit: str) -> Found:
        if exhibit.startswith("Theorem"):
            return measurement(STUDY, (exhibit, row, column), unit, "", _ceiling(row))
        target = next((name for name in self.published["targets"] if name in column), None)
        note = self.differences([target] if target else list(self.published["targets"]))
        if exhibit in ("Section 6.1", "Section 6.4"):
            found = _none(SETTING)
        elif exhibit == "Figure 1":
            found = _none(NOT_SAID)
        elif target is None:
            found = self._both(row, column)
        elif target not in self.targets:
            found = _none(f"no target stands beside {target}")
        else:
            found = self._find(exhibit, row, column.removeprefix(target).strip(), target)
        return measurement(STUDY, (exhibit, row, column), unit, note, found)

    def differences(self, targets: list[str]) -> str:
        """What of the published condition this run does not share, in words; empty if nothing."""
        notes = []
        for name in targets:
            ours = self.run["targets"].get(name)
            if ours != self.published["targets"][name]:
                notes.append(f"target {_say(ours)}, published {self.published['targets'][name]}")
        for key in _SHARED:
            if self.run[key] != self.published[key]:
                words = key.replace("_", " ")
                ours, theirs = _say(self.run[key]), _say(self.published[key])
                notes.append(f"{words} {ours}, published {theirs}")
        return "; ".join(notes)

    def _find(self, exhibit: str, row: str, column: str, target: str) -> Found:
        """A number of one target; `column` without the target's name."""
        key = {"target": self.targets[target], "domain": self.domain}
        if row.endswith("mass"):
            name = "median" if "median" in column else "mean"
            if match := _QUANTILE.search(column):
                name = match[0]
            k = int(re.search(r"\d+", row)[0])
            return _value(self.found.rows("mass", **key, k=k), name)
        if exhibit in ("Table 5", "Table 6"):
            kl = float(column.removeprefix("eps="))
            rows = self.found.rows("runs", **key, criterion=ours(row))
            return _value([r for r in rows if math.isclose(r["kl"], kl)], "uncut")
        label = ours(row)
        if exhibit == "Table 4":
            m, column = column.removeprefix("m=").split()
            label = ours(row).replace("top-m additive", f"top-m additive m={m}")
        return _value(self.found.rows("values", **key, criterion=label), column)

    def _both(self, row: str, column: str) -> Found:
        """Numbers that the running text gives for both models."""
        missing = [name for name in self.published["targets"] if name not in self.targets]
        if missing:
            return _none(f"no target stands beside {', '.join(missing)}")
        if column.startswith("ratio of median"):
            ratios = []
            for target in self.targets:
                tree, strict = (
                    self._find("Table 2", name, "median", target).get("value")
                    for name in (row, "strict greedy")
                )
                if tree is None or not strict or not math.isfinite(tree):
                    return _none("a median is missing, infinite or 0")
                ratios.append(tree / strict)
            return {"value": sum(ratios) / len(ratios)}
        name = column.split()[2]
        values = [self._find("Table 2", row, name, target).get("value") for target in self.targets]
        if None in values:
            return _none("one of the models has no value")
        return {"value": min(values)}


def ours(row: str) -> str:
    """Our label of a published criterion."""
    if match := _MEDUSA.fullmatch(row):
        return f"typical epsilon={float(match[1]):g} delta={float(match[2]):g}"
    return row


def _ceiling(row: str) -> Found:
    """The ceilings of Theorems 4.6 and 5.3, from our own bounds."""
    found = re.fullmatch(r"tree m=(\d+)", row)
    value = bounds.tree_ceiling(int(found[1])) if found else float(bounds.ceiling(2))
    return {"value": value, "lower": value, "upper": value}


def _value(rows: list[Found], name: str) -> Found:
    if not rows:
        return _none("this experiment does not evaluate that")
    (row,) = rows
    value = row[name]
    if value is None:
        return _none(row["reason"] or "no value, reason not given")
    if math.isinf(value):
        return _none("infinite here: no draft can be rejected")
    ends = {end: row[f"{name}_{end}"] for end in ("lower", "upper")}
    if any(end is not None and math.isinf(end) for end in ends.values()):
        ends = dict.fromkeys(ends)
    return {"value": value, "n": row["prompts"], **ends}


def _none(reason: str) -> Found:
    return {"missing_reason": reason}


def _say(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    return str(value)
