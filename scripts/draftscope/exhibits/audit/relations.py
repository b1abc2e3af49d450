"""What a relation between published numbers is, and what the scorecard says about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from draftscope.exhibits.published import Cell, Key, Published, Span


@dataclass(frozen=True)
class Finding:
    """One relation that was checked.

    `cells` are those that the scorecard marks: with what does not add up if the relation fails,
    otherwise as consistent.
    """

    study: str
    name: str
    holds: bool
    detail: str
    cells: tuple[Key, ...]


@dataclass
class Audit:
    """Collects the findings of one study; the checks ask it for numbers and state relations."""

    published: Published
    findings: list[Finding] = field(default_factory=list)

    def cell(self, *key: str) -> Cell:
        """The cell of a key; KeyError when the file lacks it."""
        return self.published[key]

    def value(self, *key: str) -> float:
        """The printed number."""
        number = self.published[key].number
        if number is None:
            raise ValueError(f"{key} prints only a bound")
        return number

    def span(self, *key: str, field: str = "value") -> Span:
        """All numbers that round to the printed one."""
        span = self.published[key].rounding(field)
        if span is None:
            raise ValueError(f"{key} has no {field}")
        return span

    def rows(self, exhibit: str) -> list[str]:
        """The rows of an exhibit, in file order."""
        return list(dict.fromkeys(row for name, row, _ in self.published if name == exhibit))

    def columns(self, exhibit: str, row: str) -> list[str]:
        """The columns of a row, in file order."""
        return [key[2] for key in self.published if key[:2] == (exhibit, row)]

    def state(self, name: str, holds: bool, detail: str, *cells: Key) -> None:
        """Record a relation between cells."""
        finding = Finding(self.published.study, name, bool(holds), detail, cells)
        if any(other.name == name for other in self.findings):
            raise ValueError(f"two findings of {self.published.study} are named {name!r}")
        self.findings.append(finding)

    def derive(self, name: str, derived: Span | float, how: str, *key: str) -> None:
        """Record whether a derived number can be the printed one."""
        derived = Span.of(derived)
        printed = self.span(*key)
        detail = f"{how} gives {derived}, printed {self.cell(*key).value}"
        self.state(name, derived.meets(printed), detail, key)


def average(spans: Sequence[Span]) -> Span:
    """The mean of spans."""
    return Span(
        sum(span.low for span in spans) / len(spans), sum(span.high for span in spans) / len(spans)
    )


def remarks(findings: Sequence[Finding]) -> dict[Key, str]:
    """What the scorecard says of each audited cell.

    A cell of a failed finding "does not add up", with the relation; relations that do hold for
    the same cell are named after it, since one number may fit one reading and not another.
    """
    failed: dict[Key, list[str]] = {}
    held: dict[Key, list[str]] = {}
    for finding in findings:
        for key in finding.cells:
            if finding.holds:
                held.setdefault(key, []).append(finding.name)
            else:
                failed.setdefault(key, []).append(finding.detail)
    texts = {key: "consistent with the paper's other numbers" for key in held}
    for key, details in failed.items():
        rest = f" (but holds: {', '.join(held[key])})" if key in held else ""
        texts[key] = f"does not add up: {'; '.join(details)}{rest}"
    return texts
