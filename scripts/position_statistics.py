"""Statistics of the position study: paired halves, pooled rounds, curves, fifths and halves.

The paths stand in the order of the configurations: one --rounds and one --loops file each, and
`score_shards` of the --scores files each (none for a draft without a distribution). Domain, mode
and law in the files are checked against the configuration.
"""

from __future__ import annotations

import argparse
import dataclasses
import logging

from draftscope.errors import UserError, command, json_argument

log = logging.getLogger("position_statistics")
FILES = ("paired", "pooled", "curves", "quintiles", "halves")
CONFIGURATION = ("label", "pair", "draft", "domain", "mode", "temperature", "score_shards")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--settings",
        required=True,
        help="JSON text or file: configurations (a list of objects with "
        f"{', '.join(CONFIGURATION)}), draft_length, bin_width, confidence, resamples, method, "
        "seed, and support_prompts (fewest prompts of a bin that is drawn; 10 unless given)",
    )
    parser.add_argument("--rounds", nargs="+", required=True, help="one file a configuration")
    parser.add_argument("--loops", nargs="+", required=True, help="one file a configuration")
    parser.add_argument(
        "--scores", nargs="*", default=[], help="shards, configuration by configuration"
    )
    for name in FILES:
        parser.add_argument(f"--{name}", required=True, help="Parquet file to write")
    arguments = parser.parse_args()

    from draftscope import records
    from draftscope.position import analysis

    settings = json_argument(arguments.settings)
    configurations = pair_up(
        settings.pop("configurations"), arguments.rounds, arguments.loops, arguments.scores
    )
    try:
        chosen = analysis.Settings(**settings)
    except TypeError as error:
        raise UserError(f"--settings: {str(error).partition(' ')[2]}") from None
    rows = analysis.study(configurations, chosen)
    shared = records.common_condition(arguments.rounds)
    for name in FILES:
        schema = f"position_{name}"
        condition = shared | {"statistics": dataclasses.asdict(chosen)}
        records.write(getattr(arguments, name), rows[schema], schema, condition)
        log.info("%s: %d rows", schema, len(rows[schema]))


def pair_up(rows: list[dict], rounds: list[str], loops: list[str], scores: list[str]) -> list:
    """Configurations with their files.

    Raises:
        UserError: another number of files than the configurations say, or an unknown key.
    """
    from draftscope.position.analysis import Configuration

    for option, given in (("--rounds", rounds), ("--loops", loops)):
        if len(given) != len(rows):
            raise UserError(f"{option}: {len(given)} files for {len(rows)} configurations")
    wanted = sum(row.get("score_shards", 0) for row in rows)
    if len(scores) != wanted:
        raise UserError(f"--scores: {len(scores)} files, but the configurations ask for {wanted}")
    configurations, place = [], 0
    for row, round_file, loop_file in zip(rows, rounds, loops, strict=True):
        if set(row) != set(CONFIGURATION):
            raise UserError(
                f"--settings: a configuration has the keys {', '.join(CONFIGURATION)}, "
                f"not {', '.join(row)}"
            )
        fields = {key: value for key, value in row.items() if key != "score_shards"}
        shards = tuple(scores[place : place + row["score_shards"]])
        place += row["score_shards"]
        configurations.append(
            Configuration(**fields, rounds=round_file, loops=loop_file, scores=shards)
        )
    return configurations


if __name__ == "__main__":
    command(main)
