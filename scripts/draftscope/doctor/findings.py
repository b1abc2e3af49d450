"""What the doctor found: every problem, not the first."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from draftscope.errors import UserError

OK, NOTE, PROBLEM = "ok", "note", "problem"


@dataclass(frozen=True)
class Finding:
    """One check of one subject. A note is what could not be checked here, or is worth knowing."""

    check: str
    subject: str
    verdict: str
    detail: str


@dataclass
class Findings:
    """Findings in the order in which they were made."""

    rows: list[Finding] = field(default_factory=list)

    def add(self, check: str, subject: str, verdict: str, detail: str) -> None:
        self.rows.append(Finding(check, subject, verdict, detail))

    @contextlib.contextmanager
    def asking(self, check: str, subject: str) -> Iterator[None]:
        """Turn a `UserError` inside the block into a problem, and go on."""
        try:
            yield
        except UserError as error:
            self.add(check, subject, PROBLEM, str(error))

    @property
    def problems(self) -> list[Finding]:
        return [row for row in self.rows if row.verdict == PROBLEM]
