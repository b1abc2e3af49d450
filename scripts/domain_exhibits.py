"""Tables and figures of the domains study, from its statistics.

Writes claims, findings, table1 to table6, table_budgets, table_contrasts, table_effects,
table_equivalence, table_factors, table_paradox, table_path_rates and table_speeds (.csv, .md, .tex) and figure1 to figure4 (.svg,
.pdf) into --folder.
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
        "--statistics", nargs="+", required=True, help="Parquet files, schemas domains_*"
    )
    parser.add_argument("--equivalence", required=True, help="Parquet, schema lossless_equivalence")
    parser.add_argument("--folder", required=True, help="folder to write the exhibits into")
    arguments = parser.parse_args()

    import draftscope.lossless.schemas  # noqa: F401
    from draftscope import records
    from draftscope.domains import (
        budget_tables,
        figures,
        inference_tables,
        lookup,
        profile_tables,
        proof_table,
        rate_tables,
    )
    from draftscope.exhibits import figures as drawing

    found = lookup.read(arguments.statistics)
    tests = records.read(arguments.equivalence, "lossless_equivalence").to_pylist()
    folder = Path(arguments.folder)
    for name, table in {
        "claims": inference_tables.claims(found),
        "findings": inference_tables.findings(found),
        "table1": rate_tables.rates(found),
        "table2": rate_tables.lengths(found),
        "table3": rate_tables.survival(found),
        "table4": profile_tables.depths(found),
        "table5": profile_tables.positions(found),
        "table6": profile_tables.correlations(found),
        "table_budgets": budget_tables.budgets(found),
        "table_contrasts": inference_tables.contrasts(found),
        "table_effects": inference_tables.effects(found),
        "table_equivalence": proof_table.equivalence(tests),
        "table_factors": inference_tables.factors(found),
        "table_paradox": inference_tables.paradox(found),
        "table_path_rates": budget_tables.path_rates(found),
        "table_speeds": budget_tables.speeds(found),
    }.items():
        table.write(folder / name)
    with drawing.style():
        for number, (draw, title) in enumerate(
            (
                (figures.rates, "Acceptance and accepted length by domain"),
                (figures.depth_profiles, "Acceptance by depth"),
                (figures.entropy_curves, "Entropy and acceptance by domain"),
                (figures.budgets, "Tokens a round of the best chain and tree"),
            ),
            1,
        ):
            drawing.save(draw(found), folder / f"figure{number}", f"Figure {number}. {title}")


if __name__ == "__main__":
    command(main)
