"""A study's table with what is printed around it, and how intervals are called in print."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from draftscope.exhibits.tables import Format, write_table
from draftscope.statistics.resampling import FEWEST

METHODS = {
    "studentized": f"bootstrap-t, Student t below {FEWEST} prompts",
    "bca": "BCa bootstrap",
    "percentile": "percentile bootstrap",
    "student": "Student t",
}


@dataclass(frozen=True)
class Table:
    """A frame, one row a table row, with caption, notes, number formats and headings."""

    frame: pd.DataFrame
    caption: str
    notes: list[str]
    formats: Mapping[str, Format]
    headers: Mapping[str, str]

    def write(self, stem: str | Path) -> None:
        """Write `stem`.csv, .md and .tex; see `exhibits.tables.write_table`."""
        write_table(
            self.frame,
            stem,
            caption=self.caption,
            notes=self.notes,
            formats=self.formats,
            headers=self.headers,
        )
