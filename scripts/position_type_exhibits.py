"""Tables and figures about token types, mismatches at triggers, and the trend within texts.

Writes table_types, table_mismatches, table_trend, table_effects and table_survival (.csv, .md, .tex)
and figure3, figure4, figure7 and figure_trend (.svg, .pdf) into --folder.
"""

from __future__ import annotations

from draftscope.errors import command
from draftscope.position import exhibit_files

FILES = ("types", "mismatches", "survival", "model")


def main() -> None:
    frames, settings, folder = exhibit_files.read(__doc__, FILES)

    from draftscope.exhibits import figures
    from draftscope.position import trend_figure, trend_tables, type_figures, type_tables

    for name, table in {
        "table_types": type_tables.by_type(frames["types"], settings),
        "table_mismatches": type_tables.said_instead(frames["mismatches"], settings),
        "table_trend": trend_tables.trend(frames["model"], settings),
        "table_effects": trend_tables.effects(frames["model"], settings),
        "table_survival": trend_tables.survival(frames["survival"], settings),
    }.items():
        table.write(folder / name)
    confidence = settings["confidence"]
    first = type_figures.labels(frames["types"])[0]
    with figures.style():
        for name, title, figure in (
            ("figure3", "Figure 3. Acceptance by token type",
             type_figures.by_type(frames["types"], first, confidence)),
            ("figure4", "Figure 4. What the draft said instead of a trigger",
             type_figures.at_triggers(frames["mismatches"], first, confidence)),
            ("figure7", "Figure 7. Token types and mismatches of the second draft",
             type_figures.second_draft(frames["types"], frames["mismatches"], confidence)),
            ("figure_trend", "Trend of acceptance within texts",
             trend_figure.trend(frames["model"], frames["survival"], margin=settings["margin"],
                                confidence=confidence)),
        ):  # fmt: skip
            figures.save(figure, folder / name, title)


if __name__ == "__main__":
    command(main)
