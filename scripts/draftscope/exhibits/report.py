"""One HTML file that shows an experiment, made from its result files alone.

It needs no network, no other file and no workflow state: styles, script, figures and text are
inside. Figures are embedded as images of their own, so that ids inside two drawings cannot clash
and nothing inside a drawing can run. Every text, prompts included, is escaped by the template.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jinja2

from draftscope import records, schemas
from draftscope.errors import UserError
from draftscope.exhibits import coverage, scorecard, summary, tables, viewer
from draftscope.exhibits.scorecard import AS_PUBLISHED

TEMPLATES = Path(__file__).with_name("templates")
CHOICE = "choice"
_DUBLIN_CORE = "{http://purl.org/dc/elements/1.1/}"
# Who ran it where is recorded in the files; the report tells how it was computed.
_PROVENANCE = ("commit", "python", "packages", "seed", "device", "prompts_differ")
_PROVENANCE += ("texts_cut_to_budget",)
_ROLE_CLASSES = {
    viewer.ACCEPTED: "accepted",
    viewer.CORRECTION: "correction",
    viewer.BONUS: "bonus",
    viewer.NOT_DRAFTED: "plain",
}


@dataclass(frozen=True)
class Exhibit:
    """A table or a figure with the name of its files (without suffix)."""

    name: str
    table: tables.ShownTable | None = None
    image: str = ""
    title: str = ""
    description: str = ""


def exhibits(paths: Sequence[str | Path]) -> dict[str, list[Exhibit]]:
    """Tables (.md) and figures (.svg) by study, the name of their folder; other files are left.

    Raises:
        UserError: a file is missing or not what its suffix says.
    """
    found: dict[str, list[Exhibit]] = {}
    for path in sorted(map(Path, paths), key=_order):
        if path.suffix == ".md":
            exhibit = Exhibit(path.stem, table=with_intervals(tables.read_markdown(path)))
        elif path.suffix == ".svg":
            exhibit = figure(path)
        else:
            continue
        found.setdefault(path.parent.name, []).append(exhibit)
    return found


def with_intervals(table: tables.ShownTable) -> tables.ShownTable:
    """The table with each number's `lower` and `upper` columns in brackets behind it.

    A group of columns may share a prefix: "full: difference", "full: lower", "full: upper".
    """
    names, rows, places = table.columns, [list(row) for row in table.rows], []
    place = 0
    while place < len(names):
        places.append(place)
        prefix = names[place].removesuffix("lower")
        if place and names[place : place + 2] == [f"{prefix}lower", f"{prefix}upper"]:
            places.pop()
            for row in rows:
                if row[place] != tables.DASH or row[place + 1] != tables.DASH:
                    row[place - 1] += f" [{row[place]}, {row[place + 1]}]"
            place += 1
        place += 1
    return tables.ShownTable(
        table.caption,
        [names[p] for p in places],
        [table.numeric[p] for p in places],
        [[row[p] for p in places] for row in rows],
        table.notes,
    )


def _order(path: Path) -> tuple[Any, ...]:
    """Tables before figures, table2 before table10."""
    parts = [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", path.stem)]
    return path.parent.name, path.suffix != ".md", [(isinstance(p, str), p) for p in parts]


def figure(path: Path) -> Exhibit:
    """A figure as an image inside the page; title and description come from its metadata."""
    try:
        data = path.read_bytes()
        root = ElementTree.fromstring(data)
    except FileNotFoundError:
        raise UserError(f"{path} does not exist") from None
    except ElementTree.ParseError as error:
        raise UserError(f"{path} is not an SVG drawing: {error}") from error
    texts = {
        name: " ".join((root.findtext(f".//{_DUBLIN_CORE}{name}") or "").split())
        for name in ("title", "description")
    }
    return Exhibit(
        path.stem,
        image="data:image/svg+xml;base64," + base64.b64encode(data).decode(),
        title=texts["title"] or path.stem,
        description=texts["description"],
    )


def settings_in_common(values: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[str]]]:
    """Each key with its distinct values as text, those with one value first."""
    found: dict[str, dict[str, None]] = {}
    for value in values:
        for key, item in value.items():
            found.setdefault(key, {})[_text(item)] = None
    rows = [(key, list(texts)) for key, texts in found.items()]
    return sorted(rows, key=lambda row: (len(row[1]) > 1, row[0]))


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_text(item)}" for key, item in sorted(value.items()))
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    return str(value)


def build(
    settings: Mapping[str, Any],
    exhibit_paths: Sequence[str | Path],
    scorecard_path: str | Path | None,
    viewer_path: str | Path | None,
    trajectory_paths: Sequence[str | Path],
    rounds_paths: Sequence[str | Path] = (),
) -> str:
    """The report as HTML text.

    Args:
        settings: title, experiment, studies (name -> title, in order), headline (study -> title
            and either exhibit, the published one that the summary speaks of, or statements, the
            study's table whose column `statement` it repeats), not_measured (sentences), command.
            All optional.
        exhibit_paths: .md and .svg are shown, of tables also the .csv of the draft choice read.
        scorecard_path: scorecard.csv.
        viewer_path: JSON of scripts/viewer.py.
        trajectory_paths: Parquet, for counts, condition and provenance.
        rounds_paths: Parquet, for the drafts' conditions; nothing else of them is read.
    """
    shown = exhibits(exhibit_paths)
    titles = dict(settings.get("studies", {}))
    studies = [name for name in titles if name in shown]
    studies += [name for name in shown if name not in titles]
    card = tables.read_table(scorecard_path) if scorecard_path else None
    generated, skipped = coverage.counts(trajectory_paths)
    groups = _viewer_groups(viewer_path) if viewer_path else []
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = lambda value: f"{value:,}"
    environment.filters["plural"] = summary.plural
    conditions = [records.condition(path) for path in (*trajectory_paths, *rounds_paths)]
    provenance = [records.provenance(path) for path in (*trajectory_paths, *rounds_paths)]
    return environment.get_template("report.html.jinja").render(
        title=settings.get("title") or "Draft acceptance",
        experiment=settings.get("experiment", ""),
        command=settings.get("command", ""),
        choice=shown.get(CHOICE, []),
        studies=[(n, titles.get(n, n), shown[n]) for n in studies if n != CHOICE],
        choice_title=titles.get(CHOICE, "Which draft, which draft length"),
        generated=generated,
        skipped=skipped,
        coverage=summary.coverage(generated, skipped) if generated else "",
        headlines=_headlines(card, exhibit_paths, settings.get("headline", {})),
        verdicts=[] if card is None else summary.verdicts(card),
        card=[] if card is None else _card_rows(card),
        differences=[] if card is None else _differences(card),
        verdict_counts={} if card is None else scorecard.count(card),
        absent=[] if card is None else _absent(card),
        not_measured=list(settings.get("not_measured", [])),
        groups=groups,
        roles=[(_ROLE_CLASSES[role], role, meaning) for role, meaning in viewer.ROLES.items()],
        role_class=_ROLE_CLASSES,
        conditions=settings_in_common(conditions),
        provenance=settings_in_common([_selected(value) for value in provenance]),
        dictionary=_dictionary(),
    )


def _selected(provenance: Mapping[str, Any]) -> dict[str, Any]:
    return {key: provenance[key] for key in _PROVENANCE if provenance.get(key) is not None}


def _choices(paths: Sequence[str | Path]) -> list[str]:
    sentences = []
    for path in map(Path, paths):
        if path.parent.name == CHOICE and path.suffix == ".csv":
            sentences += summary.choice(tables.read_table(path))
    return sentences


def _statements(paths: Sequence[str | Path], study: str, name: str) -> list[str]:
    """The sentences in the column `statement` of a study's table."""
    for path in map(Path, paths):
        if (path.parent.name, path.name) == (study, f"{name}.csv"):
            table = tables.read_table(path)
            return [text for text in table.get("statement", []) if text]
    return []


def _headlines(
    card: Any, paths: Sequence[str | Path], wanted: Mapping[str, Mapping[str, str]]
) -> list[tuple[str, list[str]]]:
    """Headings and sentences of the summary: the draft choice first, if it has no other place."""
    choices = _choices(paths)
    found = [] if CHOICE in wanted else [("Which draft", choices)]
    for study, about in wanted.items():
        if study == CHOICE:
            found.append((about["title"], choices))
        elif "statements" in about:
            found.append((about["title"], _statements(paths, study, about["statements"])))
        elif card is not None:
            found.append((about["title"], summary.headline(card, study, about["exhibit"])))
    return found


def _differences(card: Any) -> list[str]:
    """The distinct ways in which rows differ from the published condition, in table order."""
    return [text for text in dict.fromkeys(card["condition"]) if text not in ("", AS_PUBLISHED)]


def _card_rows(card: Any) -> list[dict[str, Any]]:
    numbers = {text: number for number, text in enumerate(_differences(card), start=1)}
    return [
        row
        | {
            "shown_published": scorecard.shown_published(row),
            "shown_ours": scorecard.shown_ours(row),
            "difference": numbers.get(row["condition"]),
        }
        for row in card.to_dict("records")
    ]


def _absent(card: Any) -> list[tuple[str, str, int]]:
    """Study, reason and number of published cells that were not measured."""
    absent = card[card["verdict"] == "not measured"]
    return [(s, w, len(part)) for (s, w), part in absent.groupby(["study", "why"], sort=False)]


def _viewer_groups(path: str | Path) -> list[dict[str, Any]]:
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))["groups"]
    except FileNotFoundError:
        raise UserError(f"{path} does not exist") from None
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise UserError(f"{path} is not the token viewer's file: {error}") from error


def _dictionary() -> list[tuple[str, list[dict[str, str]]]]:
    files: dict[str, list[dict[str, str]]] = {}
    for row in schemas.data_dictionary():
        files.setdefault(row["file"], []).append(row)
    files["scorecard.csv"] = [
        {"file": "scorecard.csv", "column": name, "type": "text", "unit": "", "meaning": meaning}
        for name, meaning in scorecard.COLUMNS.items()
    ]
    return list(files.items())
