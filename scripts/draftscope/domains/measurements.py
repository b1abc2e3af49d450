"""Our value for each published cell of the domains study, or why there is none."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from draftscope.domains.lookup import Statistics
from draftscope.domains.schemas import ALL
from draftscope.exhibits.measurement import measurement

STUDY = "domains"
SETTING = "a setting of the published run, not a result"
MACHINE = "time and memory of the published machine; this workflow times no trees"
LABELS = ("chat", "code", "math", "reasoning")
_SHARED = ("target", "draft", "temperature", "prompt_tokens", "dtype", "shape", "position_edge")
_BY_DOMAIN = ("data", "prompts", "max_new_tokens", "chat_template")
_TABLE_1 = {"mean alpha": "alpha", "mean target entropy": "target_entropy"}
_POSITION = {"early": "early", "late": "late", "delta": "pooled"}


class Measurements:
    """Looks the study's statistics up by published cell, all by the protocol as published.

    Args:
        found: the statistics.
        labels: published domain -> domain of this run that stands beside it.
        run, published: the condition of this run and the published one in the same keys: target,
            draft, temperature, prompt_tokens, dtype, shape (a mapping), position_edge; and data,
            prompts, max_new_tokens, chat_template: published domain -> value.
    """

    def __init__(
        self,
        found: Statistics,
        labels: Mapping[str, str],
        run: Mapping[str, Any],
        published: Mapping[str, Any],
    ) -> None:
        self.found, self.labels, self.run, self.published = found, labels, run, published

    def rows(self, cells: Mapping[tuple[str, str, str], Any]) -> list[dict[str, Any]]:
        """One row of schema `measurements` a published cell.

        Args:
            cells: (exhibit, row, column) -> an object with the published `unit`.
        """
        return [self._row(*key, unit=cell.unit) for key, cell in cells.items()]

    def _row(self, exhibit: str, row: str, column: str, unit: str) -> dict[str, Any]:
        note = self.differences([row] if row in LABELS else LABELS)
        found = self._find(exhibit, row, column)
        return measurement(STUDY, (exhibit, row, column), unit, note, found)

    def differences(self, labels: Sequence[str]) -> str:
        """What of the published condition this run does not share, in words; empty if nothing."""
        notes = [
            f"{key.replace('_', ' ')} {_say(self.run.get(key))}, published {_say(theirs)}"
            for key in _SHARED
            if (theirs := self.published.get(key)) != self.run.get(key)
        ]
        for key in _BY_DOMAIN:
            differing: dict[str, list[str]] = {}
            for label in labels:
                ours, theirs = self.run.get(key, {}).get(label), self.published[key][label]
                if ours != theirs:
                    text = f"{_say(ours)}, published {_say(theirs)}"
                    differing.setdefault(text, []).append(label)
            words = key.replace("_", " ")
            notes += [f"{words} of {', '.join(names)} {text}" for text, names in differing.items()]
        return "; ".join(notes)

    def _find(self, exhibit: str, row: str, column: str) -> dict[str, Any]:
        if exhibit in ("Section III-D", "Section III-E") or column == "seed":
            return _none(SETTING)
        if exhibit in ("Section IV", "Repository log") and re.match("memory|run time", column):
            return _none(MACHINE)
        known: dict[str, Callable[[str, str], dict[str, Any]]] = {
            "Table I": self._table_1,
            "Table II": self._length,
            "Table III": self._chain,
            "Table IV": self._depth,
            "Table V": self._position,
            "Table VI": self._rho,
            "Repository results": self._repository,
            "Repository log": self._table_1,
        }
        if exhibit in known:
            if row in LABELS and row not in self.labels:
                return _none(f"no domain stands beside {row}")
            return known[exhibit](row, column)
        return self._text(column)

    def _domain(self, row: str) -> str:
        return self.labels.get(row, ALL)

    def _table_1(self, row: str, column: str) -> dict[str, Any]:
        key = {"domain": self._domain(row), "measure": _TABLE_1.get(column, "alpha")}
        found = self.found.row("rates", **key)
        return _count(found, "nodes") if column == "nodes" else _value(found, "value")

    def _length(self, row: str, _column: str) -> dict[str, Any]:
        return _value(self.found.row("lengths", domain=self._domain(row), measure="product"))

    def _chain(self, row: str, column: str) -> dict[str, Any]:
        key = {"domain": self._domain(row), "depth": _integer(column)}
        return _value(self.found.row("depths", **key, measure="chain_product"))

    def _depth(self, row: str, column: str) -> dict[str, Any]:
        domain = self._domain(row)
        if column.startswith("delta"):
            depth = int(column.split()[-1])
            key = {"domain": domain, "depth": depth, "measure": "alpha", "comparison": "prompt"}
            return _value(self.found.row("changes", **key), "pooled")
        key = {"domain": domain, "depth": _integer(column), "measure": "alpha"}
        found = self.found.row("depths", **key)
        return _count(found, "nodes") if column.endswith("nodes") else _value(found, "value")

    def _position(self, row: str, column: str) -> dict[str, Any]:
        found = self.found.row("positions", domain=ALL, depth=_integer(row), measure="alpha")
        part = column.split()[0]
        if column.endswith("nodes"):
            return _count(found, f"{part}_nodes")
        return _value(found, _POSITION[part])

    def _rho(self, row: str, _column: str) -> dict[str, Any]:
        return _value(self._correlation(self._domain(row)), "rho")

    def _correlation(self, domain: str) -> Mapping[str, Any]:
        key = {"measure": "pooled", "outcome": "alpha", "entropy": "target"}
        return self.found.row("correlations", domain=domain, **key)

    def _repository(self, row: str, column: str) -> dict[str, Any]:
        if row.startswith("depth"):
            return self._position(row, column)
        return self._length(row, column) if column == "E[L]" else self._depth(row, column)

    def _text(self, column: str) -> dict[str, Any]:
        """Numbers that the running text makes of the tables."""
        everything = self.found.row("rates", domain=ALL, measure="alpha")
        if column in ("nodes", "prompts"):
            return _count(everything, column)
        missing = [label for label in LABELS if label not in self.labels]
        if missing:
            return _none(f"no domain stands beside {', '.join(missing)}")
        if column.startswith("relative gap"):
            chat, math = (self._table_1(label, "mean alpha") for label in ("chat", "math"))
            values = (chat.get("value"), math.get("value"))
            if None in values or not values[1]:
                return _none(chat.get("missing_reason") or math.get("missing_reason") or "0")
            return {"value": 100 * (values[0] / values[1] - 1)}
        if column.startswith("observations per depth cell"):
            rows = [row for label in LABELS for row in self._by_depth(label)]
            return _extreme([row["nodes"] for row in rows], column)
        rho = [self._correlation(self._domain(label)).get("rho") for label in LABELS]
        if None in rho:
            return _none("a correlation is undefined")
        if column.startswith("largest |rho|"):
            return {"value": max(map(abs, rho))}
        return _extreme(rho, column)

    def _by_depth(self, label: str) -> list[Mapping[str, Any]]:
        return self.found.rows("depths", domain=self._domain(label), measure="alpha")


def _extreme(values: Sequence[float], column: str) -> dict[str, Any]:
    """The least or the greatest of several; neither has an honest interval of its own."""
    if not values:
        return _none("no node at any depth")
    return {"value": float(min(values) if column.endswith("low end") else max(values))}


def _integer(text: str) -> int:
    return int(re.search(r"\d+", text)[0])


def _value(row: Mapping[str, Any], name: str = "value") -> dict[str, Any]:
    if row.get(name) is None:
        return _none(row.get("reason") or "no value, reason not given")
    ends = {end: row.get(f"{name}_{end}") for end in ("lower", "upper")}
    return {"value": float(row[name]), "n": row.get("prompts"), **ends}


def _count(row: Mapping[str, Any], name: str) -> dict[str, Any]:
    if row.get(name) is None:
        return _none(row.get("reason") or "no value, reason not given")
    return {"value": float(row[name]), "n": row.get("prompts")}


def _none(reason: str) -> dict[str, Any]:
    return {"missing_reason": reason}


def _say(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_say(item)}" for key, item in value.items())
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    return str(value)
