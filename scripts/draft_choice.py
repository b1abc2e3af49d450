"""Which draft and which draft length, by domain and mode, from expected rounds.

Every pair of a target, domain and mode competes at every draft length. The paths stand in the
order of the candidates: one --expected and one --loops file each.
"""

from __future__ import annotations

import argparse
import dataclasses
import logging
from pathlib import Path

from draftscope.errors import UserError, command, json_argument

log = logging.getLogger("draft_choice")
CANDIDATE = ("target", "pair", "draft", "domain", "mode")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--settings",
        required=True,
        help="JSON text or file: candidates (a list of objects with "
        f"{', '.join(CANDIDATE)}), cost_ratios (draft -> time of a draft step / time of a target "
        "step), confidence, resamples, method, seed, and, unless the defaults fit, verify_cost (time "
        "of a verification pass / time of a target step; 1) and negligible (a relative difference "
        "in speed that does not matter; 0.01)",
    )
    parser.add_argument("--expected", nargs="+", required=True, help="one file a candidate")
    parser.add_argument("--loops", nargs="+", required=True, help="one file a candidate")
    parser.add_argument("--output", required=True, help="Parquet file to write, schema choice")
    parser.add_argument(
        "--folder",
        required=True,
        help="folder for choice.csv, .md, .tex (the best), choice_all.csv, .md, .tex (every candidate), "
        "figure1 and figure2 (.svg, .pdf)",
    )
    arguments = parser.parse_args()

    from draftscope import records
    from draftscope.choice import analysis, tables
    from draftscope.choice.figures import by_draft_length
    from draftscope.exhibits import figures

    settings = json_argument(arguments.settings)
    given = settings.pop("candidates")
    for option, paths in (("--expected", arguments.expected), ("--loops", arguments.loops)):
        if len(paths) != len(given):
            raise UserError(f"{option}: {len(paths)} files for {len(given)} candidates")
    candidates = [
        analysis.Candidate(**{key: row[key] for key in CANDIDATE}, expected=expected, loops=loops)
        for row, expected, loops in zip(given, arguments.expected, arguments.loops, strict=True)
    ]
    try:
        chosen = analysis.Settings(**settings)
    except TypeError as error:
        raise UserError(f"--settings: {str(error).partition(' ')[2]}") from None
    rows = analysis.compare(candidates, chosen)
    shared = records.common_condition(arguments.expected)
    records.write(arguments.output, rows, "choice", shared | {"choice": dataclasses.asdict(chosen)})
    frame = records.read(arguments.output, "choice").to_pandas()
    folder = Path(arguments.folder)
    protocol = {key: settings[key] for key in ("confidence", "resamples", "method")}
    protocol["negligible"] = chosen.negligible
    without_text = analysis.without_text(candidates, rows)
    for target, domain, mode in without_text:
        log.warning("%s, %s, %s: %s", target, domain, mode, analysis.SKIPPED)
    for name, table in (
        ("choice", tables.best(frame, **protocol, without_text=without_text)),
        ("choice_all", tables.candidates(frame, **protocol, without_text=without_text)),
    ):
        table.write(folder / name)
    with figures.style():
        for name, value, title in (
            ("figure1", "acceptance_length", "Figure 1. Acceptance length by draft length"),
            ("figure2", "speedup", "Figure 2. Predicted speedup by draft length"),
        ):
            drawn = by_draft_length(
                frame, value, confidence=settings["confidence"], without_text=without_text
            )
            figures.save(drawn, folder / name, title)
    log.info("%d candidates compared", len(rows))


if __name__ == "__main__":
    command(main)
