"""Rows of the domains study's statistics by name, as tables, figures and the scorecard need them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from draftscope import records
from draftscope.domains.files import FILES
from draftscope.domains.schemas import ALL
from draftscope.errors import UserError

ABSENT = "not computed"
Row = dict[str, Any]


class Statistics:
    """The study's frames by file name (`files.FILES`); missing numbers come out as None.

    Args:
        frames: file name -> frame of schema domains_<file name>.
        settings: what the statistics were made with: confidence, resamples, method and others.
    """

    def __init__(self, frames: Mapping[str, pd.DataFrame], settings: Mapping[str, Any]) -> None:
        self.settings = settings
        self._rows = {name: [_plain(row) for row in frame.to_dict("records")]
                      for name, frame in frames.items()}  # fmt: skip

    @property
    def domains(self) -> list[str]:
        """Domains in the order of the study, the domains pooled last."""
        names = dict.fromkeys(row["domain"] for row in self._rows["rates"])
        return [*(name for name in names if name != ALL), *([ALL] if ALL in names else [])]

    def rows(self, file: str, **key: Any) -> list[Row]:
        """The rows whose columns hold these values, in order."""
        return [
            row
            for row in self._rows[file]
            if all(row[name] == value for name, value in key.items())
        ]

    def row(self, file: str, **key: Any) -> Row:
        """The one row of this key; without one, a row that says so.

        Raises:
            ValueError: several rows.
        """
        found = self.rows(file, **key)
        if len(found) > 1:
            raise ValueError(f"{len(found)} rows of {file} for {key}")
        return found[0] if found else {**key, "reason": ABSENT}

    def depths(self) -> list[int]:
        return sorted({row["depth"] for row in self._rows["depths"]})


def number(row: Mapping[str, Any], column: str, name: str) -> Row:
    """A number of a row under another name, with the ends of its interval."""
    return {f"{name}{end}": row.get(f"{column}{end}") for end in ("", "_lower", "_upper")}


def reasons(**rows: Mapping[str, Any]) -> str | None:
    """Why values of these rows are missing or degenerate, each said once under its label."""
    by_reason: dict[str, list[str]] = {}
    for label, row in rows.items():
        if row.get("reason"):
            by_reason.setdefault(row["reason"], []).append(label.replace("_", " "))
    return "; ".join(f"{', '.join(names)}: {why}" for why, names in by_reason.items()) or None


def _plain(row: Mapping[str, Any]) -> Row:
    return {str(name): None if _missing(value) else value for name, value in row.items()}


def _missing(value: Any) -> bool:
    return not isinstance(value, str | Iterable) and bool(pd.isna(value))


def read(paths: Sequence[str | Path]) -> Statistics:
    """The statistics from their files, each named after its content (rates.parquet, ...).

    Raises:
        UserError: a file is missing or not of its schema.
    """
    by_name = {Path(path).stem: path for path in paths}
    if missing := [name for name in FILES if name not in by_name]:
        raise UserError(f"--statistics lacks {missing[0]}.parquet")
    frames = {name: records.read(by_name[name], f"domains_{name}").to_pandas() for name in FILES}
    return Statistics(frames, records.condition(by_name["rates"])["statistics"])
