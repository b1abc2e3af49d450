"""Statistics of the domains study: the published analysis of token trees and a corrected one.

Which domain a file of nodes or trees belongs to stands in the file; --settings names the domains
of the study in their order. Writes one file a table into --folder, named after it.
"""

from __future__ import annotations

import argparse
import dataclasses
import logging
from pathlib import Path

from draftscope.errors import UserError, command, json_argument

log = logging.getLogger("domain_statistics")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--settings",
        required=True,
        help="JSON text or file: domains (names in order), position_edge, entropy_bins, "
        "confidence, resamples, method, seed; optional node_budgets, cost_ratios, budget_depth, "
        "fewest_reached",
    )
    parser.add_argument("--nodes", nargs="+", required=True, help="Parquet files, schema nodes")
    parser.add_argument("--trees", nargs="+", required=True, help="Parquet files, schema trees")
    parser.add_argument("--folder", required=True, help="folder to write the tables into")
    arguments = parser.parse_args()

    from draftscope import records
    from draftscope.domains import analysis, measures, observations

    settings = json_argument(arguments.settings)
    domains = settings.pop("domains", None)
    if not domains:
        raise UserError("--settings: domains is missing; name the domains of the study in order")
    try:
        chosen = measures.Settings.of(settings)
    except TypeError as error:
        raise UserError(f"--settings: {str(error).partition(' ')[2]}") from None
    found, condition = observations.load(domains, arguments.nodes, arguments.trees)
    log.info("%d nodes of %d prompts", len(found.tree), len(found.prompt_ids))
    condition |= {"statistics": dataclasses.asdict(chosen) | {"domains": domains}}
    for name, rows in analysis.study(found, chosen).items():
        path = Path(arguments.folder) / f"{name}.parquet"
        records.write(path, rows, f"domains_{name}", condition)
        log.info("%s: %d rows", path.name, len(rows))


if __name__ == "__main__":
    command(main)
