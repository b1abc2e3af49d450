"""Our value for one published cell, as a study hands it to the scorecard."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from draftscope.schemas import field, register

register(
    "measurements",
    [
        field("study", pa.string(), "name of the study, as the file of its published cells"),
        field("exhibit", pa.string(), "exhibit of the published cell"),
        field("row", pa.string(), "row of the published cell"),
        field("column", pa.string(), "column of the published cell"),
        field("value", pa.float64(), "our value, in the published unit", nullable=True),
        field("lower", pa.float64(), "lower end of our interval", nullable=True),
        field("upper", pa.float64(), "upper end of our interval", nullable=True),
        field("unit", pa.string(), "unit of the value, that of the published cell"),
        field("n", pa.int64(), "prompts behind the value", "prompts", nullable=True),
        field("condition_matches", pa.bool_(), "measured under the published condition"),
        field("condition_note", pa.string(), "what differs from the published condition"),
        field("missing_reason", pa.string(), "why there is no value", nullable=True),
    ],
)


def measurement(
    study: str, key: tuple[str, str, str], unit: str, note: str, found: dict[str, Any]
) -> dict[str, Any]:
    """A row of schema measurements.

    Args:
        key: exhibit, row and column of the published cell.
        note: what of the published condition this run does not share; empty if nothing.
        found: what was measured (value, lower, upper, n) or the missing_reason.
    """
    return {
        "study": study,
        **dict(zip(("exhibit", "row", "column"), key, strict=True)),
        **dict.fromkeys(("value", "lower", "upper", "n", "missing_reason")),
        "unit": unit,
        "condition_matches": not note,
        "condition_note": note,
        **found,
    }
