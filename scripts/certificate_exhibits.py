"""Tables and figures of the certificates study, from its statistics.

Writes findings, table1 to table6, table_bins, table_drafts, table_equivalence and table_relaxed
(.csv, .md, .tex) and figure1 to figure4 (.svg, .pdf) into --folder.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from draftscope.errors import command


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--statistics", nargs="+", required=True, help="Parquet files, schemas certificates_*"
    )
    parser.add_argument("--folder", required=True, help="folder to write the exhibits into")
    arguments = parser.parse_args()

    from draftscope.certificate_study import draft_tables, figures, lookup, tables
    from draftscope.exhibits import figures as drawing

    found = lookup.read(arguments.statistics)
    folder = Path(arguments.folder)
    for name, table in {
        "findings": draft_tables.findings(found),
        "table1": tables.mass(found),
        "table2": tables.values(found),
        "table3": tables.tolerances(found),
        "table4": tables.top_m(found),
        "table5": tables.runs(found, 0),
        "table6": tables.runs(found, 1),
        "table_bins": draft_tables.bins(found),
        "table_drafts": draft_tables.drafts(found),
        "table_equivalence": draft_tables.equivalence(found),
        "table_relaxed": draft_tables.relaxed(found),
    }.items():
        table.write(folder / name)
    with drawing.style():
        for number, (draw, title) in enumerate(
            (
                (figures.certificates, "Exact certificates by criterion"),
                (figures.calibration, "Acceptance by KL over certificate"),
                (figures.by_margin, "Certified and accepted by margin and entropy"),
                (figures.tradeoff, "What relaxed rules gain and cost"),
            ),
            1,
        ):
            drawing.save(draw(found), folder / f"figure{number}", f"Figure {number}. {title}")


if __name__ == "__main__":
    command(main)
