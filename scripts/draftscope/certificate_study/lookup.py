"""Rows of the study's statistics, as its tables, figures and measurements need them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import draftscope.lossless.schemas  # noqa: F401  (registers the schema of equivalence tests)
from draftscope import records
from draftscope.certificate_study.schemas import FILES
from draftscope.criteria import Criterion
from draftscope.errors import UserError

Row = dict[str, Any]


class Statistics:
    """The study's rows by file name.

    Args:
        rows: file name -> rows of its schema.
        settings: what the statistics were made with.
    """

    def __init__(self, rows: Mapping[str, Sequence[Row]], settings: Mapping[str, Any]) -> None:
        self._rows, self.settings = rows, settings

    def rows(self, file: str, **key: Any) -> list[Row]:
        """The rows whose columns hold these values, in order."""
        return [
            row
            for row in self._rows[file]
            if all(row[name] == value for name, value in key.items())
        ]

    def distinct(self, file: str, column: str) -> list[Any]:
        """The values of a column, in order of appearance."""
        return list(dict.fromkeys(row[column] for row in self._rows[file]))

    @property
    def targets(self) -> list[str]:
        return self.distinct("values", "target")

    def labels(self) -> list[str]:
        """Labels of the main criteria, in their order."""
        return [Criterion.of(row).label for row in self.settings["criteria"]]


def read(paths: Sequence[str | Path]) -> Statistics:
    """The statistics from their files, each named after its content (values.parquet, ...).

    Raises:
        UserError: a file is missing or not of its schema.
    """
    by_name = {Path(path).stem: path for path in paths}
    if missing := [name for name in FILES if name not in by_name]:
        raise UserError(f"--statistics lacks {missing[0]}.parquet")
    rows = {}
    for name in FILES:
        schema = "lossless_equivalence" if name == "equivalence" else f"certificates_{name}"
        rows[name] = records.read(by_name[name], schema).to_pylist()
    return Statistics(rows, records.condition(by_name["values"])["statistics"])


def number(row: Mapping[str, Any], column: str, name: str | None = None) -> Row:
    """A number of a row with the ends of its interval, under another name if wanted."""
    return {f"{name or column}{end}": row[f"{column}{end}"] for end in ("", "_lower", "_upper")}
