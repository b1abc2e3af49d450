"""Each published number beside ours, with a verdict that claims no more than our interval does.

Verdicts:

* `agrees` / `differs`: only when we measured under the published condition and our interval is
  narrower than the margin configured for the unit. It agrees when it meets the published interval
  (the printed one, else 95% from a printed standard error, else the rounding of the value).
* `same direction` / `opposite direction`: any other run, for numbers with a meaningful zero: our
  interval and the published one both lie on one side of it. The zero is 0 for differences, gains
  and correlations and 1 for speedups. A level (acceptance length, alpha, an entropy) has none:
  another model's level is neither in nor against its direction.
* `unresolved`: measured, and neither of the above can be said; the row says why.
* `not measured`: no value of ours; the row says why.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from draftscope.exhibits import audit, measurement  # noqa: F401  (registers its schema)
from draftscope.exhibits.published import Cell, Published, Reading, Span
from draftscope.exhibits.tables import DASH, ShownTable, as_markdown, show, write_csv
from draftscope.writing import atomic

VERDICTS = (
    "agrees", "differs", "same direction", "opposite direction", "unresolved", "not measured",
)  # fmt: skip
_SIGNED = re.compile(r"\b(difference|delta|gain|relative gap)\b|\brho\b", re.IGNORECASE)
AS_PUBLISHED = "as published"
_RATIO_UNIT, _CORRELATION = "x", "correlation"
_NO_DIRECTION = {
    "p-value": "a p-value depends on the number of problems",
    "count": "a count depends on the number of problems",
}

COLUMNS = {
    "study": "study",
    "exhibit": "published exhibit",
    "row": "its row",
    "column": "its column",
    "unit": "unit",
    "published": "published value as printed",
    "published_lower": "lower end of the published interval (see `published_interval`)",
    "published_upper": "upper end of it",
    "published_interval": "printed, from the standard error, or rounding",
    "rounding_lower": "smallest number that rounds to the published value",
    "rounding_upper": "largest number that does",
    "measured": "our value",
    "lower": "lower end of our interval",
    "upper": "upper end of our interval",
    "n": "prompts behind our value",
    "verdict": ", ".join(VERDICTS),
    "why": "why this verdict",
    "condition": "published condition, or what differs from it",
    "reading": "assumptions about what the paper does not say",
    "audit": "whether the published number re-derives from the paper's own",
}


def zero(cell: Cell) -> float | None:
    """The value at which the number changes direction; None for a level, a count, a p-value."""
    return zero_of(cell.unit, cell.column)


def zero_of(unit: str, column: str) -> float | None:
    """As `zero`, from the unit and the column alone."""
    if unit in _NO_DIRECTION:
        return None
    if unit == _RATIO_UNIT:
        return 1.0
    if unit == _CORRELATION or _SIGNED.search(column):
        return 0.0
    return None


def judge(
    cell: Cell, ours: Mapping[str, object] | None, margins: Mapping[str, float]
) -> tuple[str, str]:
    """The verdict on a published cell and the reason for it.

    Args:
        ours: a row of schema `measurements`, or None.
        margins: unit -> width an interval must stay below for `agrees` or `differs`.
    """
    if ours is None:
        return "not measured", "outside what this experiment measures"
    if ours["value"] is None:
        return "not measured", str(ours["missing_reason"] or "no value, reason not given")
    if ours["lower"] is None or ours["upper"] is None:
        return "unresolved", _NO_DIRECTION.get(cell.unit, "our value has no interval")
    published = cell.interval()
    if published is None:
        return "unresolved", "only a bound is published"
    mine = Span(float(ours["lower"]), float(ours["upper"]))
    width, margin = mine.high - mine.low, margins.get(cell.unit)
    if ours["condition_matches"] and margin is not None and width < margin:
        verdict = "agrees" if mine.meets(published) else "differs"
        word = "meets" if verdict == "agrees" else "lies outside"
        return verdict, f"our interval, narrower than {margin:g}, {word} the published one"
    if ours["condition_matches"]:
        limit = "no margin is configured for this unit"
        if margin is not None:
            limit = f"our interval is {width:.3g} wide, the margin is {margin:g}"
    else:
        limit = "measured under another condition"
    turn = zero(cell)
    if turn is None:
        return "unresolved", f"{limit}; {_NO_DIRECTION.get(cell.unit, 'a level has no direction')}"
    if published.contains(turn):
        return "unresolved", f"{limit}; the published interval includes {turn:g}"
    if mine.contains(turn):
        return "unresolved", f"{limit}; our interval includes {turn:g}"
    same = (mine.low > turn) == (published.low > turn)
    side = "the same side" if same else "opposite sides"
    return (
        "same direction" if same else "opposite direction",
        f"{limit}; both intervals exclude {turn:g}, on {side}",
    )


def compare(
    studies: Sequence[Published],
    measurements: Sequence[Mapping[str, object]],
    margins: Mapping[str, float],
    readings: Sequence[Reading] = (),
) -> pd.DataFrame:
    """One row a published cell, in the order of the files; columns as `COLUMNS`, missing as None.

    Raises:
        ValueError: a measurement without a published cell, two for one cell, or another unit
            than the published one. These are faults of the study that measured.
    """
    ours: dict[tuple[str, ...], Mapping[str, object]] = {}
    cells = {(study.study, *key): cell for study in studies for key, cell in study.items()}
    for row in measurements:
        key = tuple(str(row[name]) for name in ("study", "exhibit", "row", "column"))
        if key not in cells:
            raise ValueError(f"measured {' / '.join(key)}, which is no published cell")
        if key in ours:
            raise ValueError(f"two measurements of {' / '.join(key)}")
        if row["unit"] != cells[key].unit:
            raise ValueError(
                f"{' / '.join(key)} is published in {cells[key].unit}, measured in {row['unit']}"
            )
        ours[key] = row
    remarks = {study.study: audit.remarks(audit.run(study)) for study in studies}
    rows = [
        _row(cell, ours.get(key), margins, readings, remarks[cell.study].get(cell.key, ""))
        for key, cell in cells.items()
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS), dtype=object)


def _row(
    cell: Cell,
    mine: Mapping[str, object] | None,
    margins: Mapping[str, float],
    readings: Sequence[Reading],
    remark: str,
) -> dict[str, object]:
    verdict, why = judge(cell, mine, margins)
    interval, rounding = cell.interval(), cell.rounding()
    kind = "rounding"
    if cell.lower and cell.upper:
        kind = "printed"
    elif interval != rounding:
        kind = "from the standard error"
    # A bound has no interval and no rounding; it is shown as printed.
    bound = f"> {cell.lower}" if cell.lower else f"< {cell.upper}"
    measured = mine is not None and mine["value"] is not None
    condition = ""
    if mine is not None:
        condition = (
            AS_PUBLISHED if mine["condition_matches"] else f"differs: {mine['condition_note']}"
        )
    return {
        "study": cell.study,
        "exhibit": cell.exhibit,
        "row": cell.row,
        "column": cell.column,
        "unit": cell.unit,
        "published": cell.value or bound,
        "published_lower": interval.low if interval else None,
        "published_upper": interval.high if interval else None,
        "published_interval": kind if interval else "bound",
        "rounding_lower": rounding.low if rounding else None,
        "rounding_upper": rounding.high if rounding else None,
        "measured": mine["value"] if measured else None,
        "lower": mine["lower"] if measured else None,
        "upper": mine["upper"] if measured else None,
        "n": mine["n"] if mine is not None else None,
        "verdict": verdict,
        "why": why,
        "condition": condition,
        "reading": "; ".join(r.reading for r in readings if r.covers(cell)),
        "audit": remark,
    }


def count(card: pd.DataFrame) -> dict[str, int]:
    """Cells by verdict, in the order of `VERDICTS`."""
    found = Counter(card["verdict"])
    return {verdict: found[verdict] for verdict in VERDICTS}


def markdown(card: pd.DataFrame, title: str) -> str:
    """The scorecard for reading: counts, then the measured cells and a list of the others."""
    counts = ", ".join(f"{number} {verdict}" for verdict, number in count(card).items() if number)
    lines = [f"# {title}", "", f"{len(card)} published cells: {counts}.", ""]
    lines += [
        "Only a run under the published condition with a narrow interval may agree or differ. Any",
        "other run can at most have the same or the opposite direction.",
        "",
    ]
    for study, part in card.groupby("study", sort=False):
        lines += [f"## {study}", ""]
        measured = part[part["verdict"] != "not measured"]
        if len(measured):
            lines += [as_markdown(_measured(measured)), ""]
        absent = part[part["verdict"] == "not measured"]
        if len(absent):
            lines += [as_markdown(_absent(absent)), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _measured(part: pd.DataFrame) -> ShownTable:
    headings = ["cell", "published", "ours", "n", "verdict", "why", "condition", "remarks"]
    rows = []
    for row in part.to_dict("records"):
        reading = f"assumes: {row['reading']}" if row["reading"] else ""
        rows.append(
            [
                _name(row),
                shown_published(row),
                shown_ours(row),
                show(row["n"]),
                row["verdict"],
                row["why"],
                row["condition"],
                ". ".join(text for text in (reading, row["audit"]) if text),
            ]
        )
    return ShownTable("Measured cells", headings, [False] * len(headings), rows, [])


def _absent(part: pd.DataFrame) -> ShownTable:
    rows = [
        [_name(row), shown_published(row), row["why"], row["audit"]]
        for row in part.to_dict("records")
    ]
    headings = ["cell", "published", "why not measured", "audit"]
    return ShownTable("Cells not measured", headings, [False] * 4, rows, [])


def _name(row: Mapping[str, object]) -> str:
    return f"{row['exhibit']}, {row['row']}, {row['column']}"


def shown_published(row: Mapping[str, object]) -> str:
    """The printed value with its stated interval, or else with half its rounding interval."""
    if row["published_interval"] == "bound":
        return str(row["published"])
    if row["published_interval"] == "rounding":
        half = (float(row["rounding_upper"]) - float(row["rounding_lower"])) / 2
        return f"{row['published']} ± {half:.1g}" if half else str(row["published"])
    return (
        f"{row['published']} [{_short(row['published_lower'])}, {_short(row['published_upper'])}]"
    )


def shown_ours(row: Mapping[str, object]) -> str:
    """Our value with its interval, to two significant digits of the interval's half width."""
    if row["measured"] in (None, ""):
        return DASH
    if row["lower"] in (None, "") or row["upper"] in (None, ""):
        return _short(row["measured"])
    value, lower, upper = (float(row[name]) for name in ("measured", "lower", "upper"))
    if upper <= lower:
        return f"{_short(value)} [{_short(lower)}, {_short(upper)}]"
    places = max(0, 1 - math.floor(math.log10((upper - lower) / 2)))
    return f"{value:.{places}f} [{lower:.{places}f}, {upper:.{places}f}]"


def _short(value: object) -> str:
    number = float(value)
    if number and abs(number) < 1e-4:
        return f"{number:.1e}"
    return f"{number:.4g}" if abs(number) < 1e4 else f"{number:.0f}"


def write(card: pd.DataFrame, csv_path: str | Path, markdown_path: str | Path, title: str) -> None:
    """Write scorecard.csv (full precision, text quoted) and scorecard.md."""
    write_csv(csv_path, list(COLUMNS), card.to_numpy().tolist())
    with atomic(markdown_path) as file:
        file.write(markdown(card, title))
