"""One data frame, three files: CSV at full precision, Markdown and LaTeX rounded for reading.

The CSV is the record: every text is quoted, numbers carry all their digits, and it is read back
as text (`read_table`), so that tokens such as `NA`, `null`, `007` or a line break survive. The
Markdown file is what people and the report show: caption, table, notes. No file ever says NaN:
a missing value needs either a text from the caller or a reason in the row.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from draftscope.errors import UserError
from draftscope.writing import atomic

DASH = "–"
REASON = "reason"
Format = str | Callable[[Any], str]


@dataclass(frozen=True)
class ShownTable:
    """A table as it is shown: rounded text, with its caption and notes."""

    caption: str
    columns: list[str]
    numeric: list[bool]
    rows: list[list[str]]
    notes: list[str]


def write_table(
    frame: pd.DataFrame,
    stem: str | Path,
    *,
    caption: str,
    notes: Sequence[str] = (),
    formats: Mapping[str, Format] | None = None,
    headers: Mapping[str, str] | None = None,
    missing: str | None = None,
) -> list[Path]:
    """Write `stem`.csv, `stem`.md and `stem`.tex; the same frame gives the same bytes.

    Args:
        frame: one row a table row; the index is not written. Cells are text, numbers, booleans
            or missing (None, NaN, NA).
        stem: path without suffix; dots in it are kept.
        caption: one line, plain text.
        notes: lines below the table, plain text.
        formats: column -> format specification (".3f", "+.3f", ".2g") or a function of the
            value, for Markdown and LaTeX; real numbers default to ".3f". Not for the CSV.
        headers: column -> heading in Markdown and LaTeX; the CSV keeps the frame's names.
        missing: text of a missing value. Without it a row with a missing value must say why in
            a column `reason`, and the value is an empty cell in the CSV and an en dash elsewhere.

    Returns:
        The three paths.

    Raises:
        ValueError: repeated column names, a format for a column that is not there, or a missing
            value without a text or a reason.
    """
    formats, headers = dict(formats or {}), dict(headers or {})
    columns = [str(name) for name in frame.columns]
    if len(set(columns)) != len(columns):
        raise ValueError(f"repeated column names in {stem}: {columns}")
    for name in (*formats, *headers):
        if name not in columns:
            raise ValueError(f"{stem} has no column {name!r} to format, only {columns}")
    rows = _values(frame, stem, missing)
    # A column of reasons that nothing needs would only take room where people read.
    places = [
        place
        for place, name in enumerate(columns)
        if name != REASON or any(row[place] for row in rows)
    ]
    shown = ShownTable(
        caption=_one_line(caption),
        columns=[headers.get(columns[place], columns[place]) for place in places],
        numeric=[_is_numeric(row[place] for row in rows) for place in places],
        rows=[
            [show(row[place], formats.get(columns[place]), missing) for place in places]
            for row in rows
        ],
        notes=[_one_line(note) for note in notes],
    )
    paths = [Path(f"{stem}.{suffix}") for suffix in ("csv", "md", "tex")]
    write_csv(paths[0], columns, rows, "" if missing is None else missing)
    for path, text in ((paths[1], as_markdown(shown)), (paths[2], as_latex(shown))):
        with atomic(path) as file:
            file.write(text)
    return paths


def write_csv(
    path: str | Path, columns: Sequence[str], rows: Sequence[Sequence[Any]], missing: str = ""
) -> None:
    """Write one CSV: texts quoted, numbers with all their digits, missing values as `missing`."""
    with atomic(path) as file:
        writer = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
        writer.writerow(columns)
        for row in rows:
            plain = [_plain(value) for value in row]
            writer.writerow([missing if value is None else value for value in plain])


def read_table(path: str | Path) -> pd.DataFrame:
    """Read a CSV written by `write_table`; every cell is text, a missing one is empty text.

    Raises:
        UserError: no such file, or not a CSV table.
    """
    try:
        return pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{path} does not exist") from None
    except (pd.errors.EmptyDataError, pd.errors.ParserError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not a CSV table: {error}") from error


def _values(frame: pd.DataFrame, stem: str | Path, missing: str | None) -> list[list[Any]]:
    names = [str(name) for name in frame.columns]
    # pandas holds numpy scalars, nullable scalars and objects; plain Python values print alike.
    lists = [[_plain(value) for value in frame.iloc[:, place]] for place in range(len(names))]
    rows = [list(row) for row in zip(*lists, strict=True)]
    if missing is None:
        reason = names.index(REASON) if REASON in names else None
        for number, row in enumerate(rows):
            absent = [n for n, v in zip(names, row, strict=True) if v is None and n != REASON]
            if absent and (reason is None or not row[reason]):
                raise ValueError(
                    f"row {number} of {stem} has no value for {absent[0]!r} and gives no reason"
                )
        if reason is not None:
            for row in rows:
                row[reason] = row[reason] or ""
    return rows


def _plain(value: Any) -> Any:
    if hasattr(value, "item") and not hasattr(value, "__len__"):
        value = value.item()
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, int) else str(value)


def _is_numeric(values) -> bool:
    present = [value for value in values if value is not None]
    return bool(present) and all(isinstance(value, int | float) for value in present)


def show(value: Any, style: Format | None = None, missing: str | None = None) -> str:
    """One value as people read it: rounded, a missing one as its text or an en dash."""
    value = _plain(value)
    if value is None:
        return DASH if missing is None else missing
    if callable(style):
        return style(value)
    if isinstance(value, str):
        return value
    if isinstance(value, float) and math.isinf(value):
        return "unbounded" if value > 0 else "-unbounded"
    if style is None:
        style = ".3f" if isinstance(value, float) else "d"
    text = format(value, style)
    # A rounded -0.000 claims a direction that the digits do not show.
    return text.replace("-", "", 1) if re.fullmatch(r"-0(\.0*)?%?", text) else text


def _one_line(text: str) -> str:
    return " ".join(str(text).split())


# ------------------------------------------------------------------------------- Markdown

_MARKDOWN = re.compile(r"([\\|`*_<>\[\]$&])")
_BREAKS = str.maketrans({"\n": "↵", "\r": "␍", "\t": "⇥"})


def as_markdown(table: ShownTable) -> str:
    """Caption in bold, a pipe table, notes as a list; special characters escaped."""

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(_escape_markdown(cell) for cell in cells) + " |"

    lines = [f"**{_escape_markdown(table.caption)}**", "", line(table.columns)]
    lines.append("| " + " | ".join("---:" if right else ":---" for right in table.numeric) + " |")
    lines += [line(row) for row in table.rows]
    if table.notes:
        lines += ["", *(f"- {_escape_markdown(note)}" for note in table.notes)]
    return "\n".join(lines) + "\n"


def _escape_markdown(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", text.translate(_BREAKS))


def read_markdown(path: str | Path) -> ShownTable:
    """Read back a table written by `write_table`, as it is shown.

    Raises:
        UserError: no such file, or not written by `write_table`.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        raise UserError(f"{path} does not exist") from None
    if len(lines) < 4 or not lines[0].startswith("**") or not lines[2].startswith("| "):
        raise UserError(f"{path} is not a table of this program (caption, blank line, pipe table)")
    body = [line for line in lines[2:] if line.startswith("| ")]
    return ShownTable(
        caption=_unescape(lines[0][2:-2]),
        columns=_cells(body[0]),
        numeric=[cell.endswith(":") for cell in _cells(body[1])],
        rows=[_cells(line) for line in body[2:]],
        notes=[_unescape(line[2:]) for line in lines if line.startswith("- ")],
    )


def _cells(line: str) -> list[str]:
    # The separators are " | "; a bar inside a cell is escaped, so it follows a backslash.
    inner, cells, current, place = line[2:-2], [], "", 0
    while place < len(inner):
        if inner[place] == "\\":
            current += inner[place : place + 2]
            place += 2
        elif inner.startswith(" | ", place):
            cells.append(_unescape(current))
            current, place = "", place + 3
        else:
            current += inner[place]
            place += 1
    return [*cells, _unescape(current)]


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


# ---------------------------------------------------------------------------------- LaTeX

_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\textquotedbl{}",
    "–": "--", "—": "---", "−": "$-$", "±": r"$\pm$", "×": r"$\times$", "≤": r"$\leq$",
    "≥": r"$\geq$", "→": r"$\rightarrow$", "γ": r"$\gamma$", "α": r"$\alpha$",
    "τ": r"$\tau$", "≈": r"$\approx$", "∞": r"$\infty$", "↵": r"$\hookleftarrow$",
    "⇥": r"$\mapsto$",
}  # fmt: skip


def as_latex(table: ShownTable) -> str:
    """A `table` environment with a booktabs `tabular`, caption above and notes below."""

    def line(cells: Sequence[str]) -> str:
        return " & ".join(escape_latex(cell) for cell in cells) + r" \\"

    body = [_minus(row, table.numeric) for row in table.rows]
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escape_latex(table.caption)}}}",
        rf"\begin{{tabular}}{{{''.join('r' if right else 'l' for right in table.numeric)}}}",
        r"\toprule",
        line(table.columns),
        r"\midrule",
        *(line(row) for row in body),
        r"\bottomrule",
        r"\end{tabular}",
        *(rf"\par\smallskip\footnotesize {escape_latex(note)}" for note in table.notes),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _minus(row: Sequence[str], numeric: Sequence[bool]) -> list[str]:
    return [
        re.sub(r"^-(?=\d)", "−", cell) if right else cell
        for cell, right in zip(row, numeric, strict=True)
    ]


def escape_latex(text: str) -> str:
    """Text whose characters LaTeX would read as commands, made safe; common symbols as math."""
    return "".join(_LATEX.get(character, character) for character in text.translate(_BREAKS))
