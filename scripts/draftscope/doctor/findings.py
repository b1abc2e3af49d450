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
    def asking(self, check: str, subject: str, verdict: str = PROBLEM) -> Iterator[None]:
        """Turn a failure of the block into a finding, and go on.

        Args:
            verdict: a note where no study that is asked for needs the subject.
        """
        try:
            yield
        except UserError as error:
            said = str(error)
        except Exception as error:  # noqa: BLE001  what a library trips over stops no other check
            said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        else:
            return
        unasked = "; no study that is asked for needs it" if verdict == NOTE else ""
        self.add(check, subject, verdict, said + unasked)

    @property
    def problems(self) -> list[Finding]:
        return [row for row in self.rows if row.verdict == PROBLEM]
