"""What distillation gained: greedy match of the untrained and of the distilled draft, by domain."""

from __future__ import annotations

import argparse
import logging

from draftscope.errors import UserError, command, json_argument

log = logging.getLogger("distillation_match")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--settings",
        required=True,
        help="JSON or a JSON file: domains (name -> number of its files of scores, in the order of "
        "--scores), untrained and distilled (names of drafts), mode, margin, seed, confidence, "
        "resamples, method",
    )
    parser.add_argument("--scores", required=True, nargs="+", help="domain by domain")
    parser.add_argument("--loops", required=True, nargs="+", help="one file a domain")
    parser.add_argument("--output", required=True, help="Parquet, schema distillation_match")
    arguments = parser.parse_args()
    settings = json_argument(arguments.settings)

    import draftscope.interventions.schemas  # noqa: F401
    from draftscope import records
    from draftscope.interventions import match
    from draftscope.interventions.lengths import Protocol

    counts = settings["domains"]
    if sum(counts.values()) != len(arguments.scores) or len(counts) != len(arguments.loops):
        raise UserError("--scores and --loops: other numbers of files than the settings say")
    files = iter(arguments.scores)
    scores = {domain: [next(files) for _ in range(count)] for domain, count in counts.items()}
    rows = match.study(
        scores,
        dict(zip(counts, arguments.loops, strict=True)),
        (settings["untrained"], settings["distilled"]),
        settings["mode"],
        settings["margin"],
        Protocol(**{key: settings[key] for key in ("confidence", "resamples", "method", "seed")}),
    )
    shared = records.common_condition(arguments.scores)
    kept = {key: value for key, value in shared.items() if key not in ("drafts", "laws")}
    records.write(arguments.output, rows, "distillation_match", kept | {"statistics": settings})
    for row in rows:
        log.info("%s, %s: %s", row["domain"], row["subset"], row["difference"])


if __name__ == "__main__":
    command(main)
