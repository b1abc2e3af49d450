"""Token types, mismatches at triggers and the trend of acceptance within texts.

The paths stand in the order of the configurations: one --types, --loops and --models file each,
`trajectory_shards` of the --trajectories files, `score_shards` of the --scores files (none for a
draft without a distribution) and `proposal_shards` of the --proposals files (of a block drafter) each.
"""

from __future__ import annotations

import argparse
import dataclasses
import logging

from draftscope.errors import UserError, command, json_argument

log = logging.getLogger("position_tokens")
KEYS = ("label", "pair", "draft", "domain", "mode", "temperature", "draft_settings")
COUNTS = {
    "trajectories": "trajectory_shards",
    "scores": "score_shards",
    "proposals": "proposal_shards",
}
FILES = ("types", "mismatches", "survival", "model")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--settings",
        required=True,
        help=f"JSON text or file: configurations (objects with {', '.join(KEYS)}, "
        f"{', '.join(COUNTS.values())}), lengths, margin, confidence, resamples, method, seed",
    )
    parser.add_argument("--token-types", nargs="+", required=True, help="one file a configuration")
    parser.add_argument("--loops", nargs="+", required=True, help="one file a configuration")
    parser.add_argument("--models", nargs="+", required=True, help="model.json of each target")
    parser.add_argument("--trajectories", nargs="+", required=True, help="shards, as counted")
    parser.add_argument("--scores", nargs="*", default=[], help="shards, as counted")
    parser.add_argument("--proposals", nargs="*", default=[], help="shards, as counted")
    for name in FILES:
        parser.add_argument(f"--{name}", required=True, help="Parquet file to write")
    arguments = parser.parse_args()

    import draftscope.position.token_schemas  # noqa: F401
    from draftscope import records
    from draftscope.checkpoints import load_tokenizer
    from draftscope.position import token_study
    from draftscope.tokens.lists import Lists
    from draftscope.tokens.typist import Typist

    settings = json_argument(arguments.settings)
    rows = settings.pop("configurations", None) or []
    if not rows:
        raise UserError("--settings: configurations is missing or empty")
    sources = join(rows, arguments)
    try:
        chosen = token_study.Settings.of(settings)
    except TypeError as error:
        raise UserError(f"--settings: {str(error).partition(' ')[2]}") from None
    typists: dict[str, Typist] = {}

    def typist(source: token_study.Source) -> Typist:
        if source.model not in typists:
            lists = Lists.of(records.condition(source.types)["token_lists"])
            typists[source.model] = Typist(load_tokenizer(source.model), lists)
        return typists[source.model]

    found = token_study.study(sources, chosen, typist)
    shared = records.common_condition(arguments.token_types)
    condition = shared | {"statistics": dataclasses.asdict(chosen)}
    for name in FILES:
        records.write(getattr(arguments, name), found[name], f"position_{name}", condition)
        log.info("position_%s: %d rows", name, len(found[name]))


def join(rows: list[dict], arguments: argparse.Namespace) -> list:
    """Configurations with their files.

    Raises:
        UserError: another number of files than the configurations say, or an unknown key.
    """
    from draftscope.position.texts import Source

    rows = [{"proposal_shards": 0} | row for row in rows]  # only block drafters have some
    wanted = {*KEYS, *COUNTS.values()}
    for row in rows:
        if set(row) != wanted:
            raise UserError(
                f"--settings: a configuration has the keys {', '.join(sorted(wanted))}, not "
                f"{', '.join(sorted(row))}"
            )
    for option in ("token_types", "loops", "models"):
        given = len(getattr(arguments, option))
        if given != len(rows):
            name = option.replace("_", "-")
            raise UserError(f"--{name}: {given} files for {len(rows)} configurations")
    for option, key in COUNTS.items():
        given, asked = len(getattr(arguments, option)), sum(row[key] for row in rows)
        if given != asked:
            raise UserError(f"--{option}: {given} files, but the configurations ask for {asked}")
    sources, places = [], dict.fromkeys(COUNTS, 0)
    for number, row in enumerate(rows):
        shards = {}
        for option, key in COUNTS.items():
            files = getattr(arguments, option)
            shards[option] = tuple(files[places[option] : places[option] + row[key]])
            places[option] += row[key]
        sources.append(
            Source(
                **{key: row[key] for key in KEYS},
                model=arguments.models[number],
                types=arguments.token_types[number],
                loops=arguments.loops[number],
                **shards,
            )
        )
    return sources


if __name__ == "__main__":
    command(main)
