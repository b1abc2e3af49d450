"""The numbers that the studies printed, with the digits they printed."""

from __future__ import annotations

import csv
import fnmatch
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path

from draftscope.errors import UserError

COLUMNS = (
    "paper", "exhibit", "row", "column", "value", "lower", "upper", "spread", "unit", "protocol",
    "source", "note",
)  # fmt: skip
NUMBERS = ("value", "lower", "upper", "spread")
REQUIRED = ("paper", "exhibit", "row", "column", "unit", "source")
READING_COLUMNS = ("study", "exhibit", "row", "column", "reading", "ground")
READINGS = "readings"
BOUND = "bound only"
Key = tuple[str, str, str]
# "printed as about 1.78M", "printed as 0-8K": the digits that were printed, and their magnitude.
_MAGNITUDE = re.compile(r"printed as [^;]*?(\d+(?:\.\d+)?)([KM])\b")
_POWERS = {"K": 3, "M": 6}
# Two-sided 95% of a normal law, for cells that print only a standard error.
NORMAL_95 = 1.959963984540054


@dataclass(frozen=True)
class Span:
    """A closed interval of real numbers, with interval arithmetic."""

    low: float
    high: float

    @staticmethod
    def of(value: Span | float) -> Span:
        return value if isinstance(value, Span) else Span(float(value), float(value))

    def _combine(self, other: Span | float, operation) -> Span:
        other = Span.of(other)
        corners = [operation(a, b) for a in (self.low, self.high) for b in (other.low, other.high)]
        return Span(min(corners), max(corners))

    def __add__(self, other: Span | float) -> Span:
        return self._combine(other, lambda a, b: a + b)

    def __sub__(self, other: Span | float) -> Span:
        return self._combine(other, lambda a, b: a - b)

    def __mul__(self, other: Span | float) -> Span:
        return self._combine(other, lambda a, b: a * b)

    def __truediv__(self, other: Span | float) -> Span:
        return self._combine(other, lambda a, b: a / b)

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other: float) -> Span:
        return Span.of(other) - self

    def __rtruediv__(self, other: float) -> Span:
        return Span.of(other) / self

    def meets(self, other: Span | float) -> bool:
        """Whether the two have a number in common (up to floating-point dust)."""
        other = Span.of(other)
        dust = 1e-9 * max(abs(other.low), abs(other.high), 1e-300)
        return self.low <= other.high + dust and other.low <= self.high + dust

    def contains(self, value: float) -> bool:
        return self.low <= value <= self.high

    def __str__(self) -> str:
        if self.low == self.high:
            return f"{self.low:.5g}"
        return f"{self.low:.5g} to {self.high:.5g}"


@dataclass(frozen=True)
class Cell:
    """One published number. Text fields are as printed; see config/published/README.md."""

    study: str
    paper: str
    exhibit: str
    row: str
    column: str
    value: str
    lower: str
    upper: str
    spread: str
    unit: str
    protocol: str
    source: str
    note: str

    @property
    def key(self) -> Key:
        return self.exhibit, self.row, self.column

    @property
    def number(self) -> float | None:
        """The printed value; None where only a bound is printed."""
        return float(self.value) if self.value else None

    def rounding(self, field: str = "value") -> Span | None:
        """All numbers that round to the printed one; None where nothing is printed.

        Counts are exact unless the note says how they were rounded ("printed as about 1.78M").
        """
        text = getattr(self, field)
        if not text:
            return None
        value = Decimal(text)
        magnitude = _MAGNITUDE.search(self.note) if field == "value" else None
        if magnitude:
            places = -Decimal(magnitude[1]).as_tuple().exponent
            half = Decimal(5).scaleb(_POWERS[magnitude[2]] - places - 1)
        elif self.unit == "count":
            half = Decimal(0)
        else:
            half = Decimal(5).scaleb(value.as_tuple().exponent - 1)
        return Span(float(value - half), float(value + half))

    def interval(self) -> Span | None:
        """The uncertainty the paper states: its interval, a 95% one from its standard error,
        or, where it states none, the rounding of the value. None for a bound."""
        if not self.value:
            return None
        if self.lower and self.upper:
            return Span(float(self.lower), float(self.upper))
        if self.spread and "standard error" in self.note:
            reach = NORMAL_95 * float(self.spread)
            return Span(float(self.value) - reach, float(self.value) + reach)
        return self.rounding()


class Published(Mapping[Key, Cell]):
    """The cells of one study by (exhibit, row, column), in file order."""

    def __init__(self, study: str, cells: list[Cell]) -> None:
        self.study = study
        self._cells = {cell.key: cell for cell in cells}

    def __getitem__(self, key: Key) -> Cell:
        return self._cells[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._cells)

    def __len__(self) -> int:
        return len(self._cells)


def load(path: str | Path, study: str | None = None) -> Published:
    """Read the published cells of a study; its name is the file's, unless given.

    Raises:
        UserError: no such file, another header, a repeated cell, a missing name, a value that is
            not a finite number, a lower bound above the upper, or a cell without value or bound.
    """
    path = Path(path)
    study = study or path.stem
    cells: list[Cell] = []
    seen: set[Key] = set()
    for line, row in _rows(path, COLUMNS):
        where = f"{path}, line {line}"
        cell = Cell(study, **row)
        for name in REQUIRED:
            if not row[name]:
                raise UserError(f"{where}: {name} is empty")
        for name in NUMBERS:
            if row[name] and not _is_finite(row[name]):
                raise UserError(f"{where}: {name} is {row[name]!r}, not a number")
        if cell.lower and cell.upper and float(cell.lower) > float(cell.upper):
            raise UserError(f"{where}: lower {cell.lower} is above upper {cell.upper}")
        if not cell.value:
            if not (cell.lower or cell.upper):
                raise UserError(f"{where}: neither a value nor a bound")
            if not cell.note.startswith(BOUND):
                raise UserError(f"{where}: no value, so the note must start with {BOUND!r}")
        if cell.key in seen:
            raise UserError(f"{where}: the cell {' / '.join(cell.key)} is there twice")
        seen.add(cell.key)
        cells.append(cell)
    if not cells:
        raise UserError(f"{path} holds no cells")
    return Published(study, cells)


@dataclass(frozen=True)
class Reading:
    """An assumption under which cells are compared; patterns match exhibit, row and column."""

    study: str
    exhibit: str
    row: str
    column: str
    reading: str
    ground: str

    def covers(self, cell: Cell) -> bool:
        return self.study == cell.study and all(
            fnmatch.fnmatchcase(getattr(cell, name), getattr(self, name))
            for name in ("exhibit", "row", "column")
        )


def load_readings(path: str | Path) -> list[Reading]:
    """Read the assumptions.

    Raises:
        UserError: no such file, another header, or an empty cell.
    """
    readings = []
    for line, row in _rows(Path(path), READING_COLUMNS):
        for name, text in row.items():
            if not text:
                raise UserError(f"{path}, line {line}: {name} is empty")
        readings.append(Reading(**row))
    return readings


def _rows(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[int, dict[str, str]]]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.reader(file, strict=True)
            header = tuple(next(reader, ()))
            if header != columns:
                raise UserError(f"{path}: the columns must be {', '.join(columns)}")
            for row in reader:
                if len(row) != len(columns):
                    raise UserError(
                        f"{path}, line {reader.line_num}: {len(row)} fields, not {len(columns)}"
                    )
                yield reader.line_num, dict(zip(columns, row, strict=True))
    except FileNotFoundError:
        raise UserError(f"{path} does not exist") from None
    except csv.Error as error:
        raise UserError(f"{path} is not a CSV table: {error}") from error


def _is_finite(text: str) -> bool:
    try:
        return Decimal(text).is_finite()
    except InvalidOperation:
        return False
