"""Acceptance at several temperatures: on each one's own text, and on the same positions.

The paths stand mode by mode in the order of --settings, each mode with the same number of shards.
"""

from __future__ import annotations

import argparse
import logging

from draftscope.errors import UserError, command, json_argument

log = logging.getLogger("position_temperatures")
SETTINGS = ("pair", "draft", "domain", "draft_length", "temperatures", "loops", "confidence")
SETTINGS += ("resamples", "method", "seed")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--settings",
        required=True,
        help="JSON text or file: temperatures (mode -> temperature), prompts (of each shard, from "
        f"the first), max_new_tokens, token_lists, and {', '.join(SETTINGS)}",
    )
    parser.add_argument("--trajectories", nargs="+", required=True, help="Parquet shards")
    parser.add_argument("--scores", nargs="+", required=True, help="Parquet, one a shard of texts")
    parser.add_argument("--model", required=True, help="model.json of the target, for its tokens")
    parser.add_argument("--temperatures", required=True, help="Parquet file to write")
    parser.add_argument("--slopes", required=True, help="Parquet file to write")
    arguments = parser.parse_args()

    import draftscope.position.token_schemas  # noqa: F401
    from draftscope import records
    from draftscope.beginnings import beginnings
    from draftscope.checkpoints import load_tokenizer
    from draftscope.position import temperatures
    from draftscope.tokens.lists import Lists
    from draftscope.tokens.typist import Typist

    settings = json_argument(arguments.settings)
    chosen = temperatures.Settings(**{name: settings[name] for name in SETTINGS})
    typist = Typist(load_tokenizer(arguments.model), Lists.of(settings["token_lists"]))
    modes, shards = list(chosen.temperatures), settings["prompts"]
    for option in ("trajectories", "scores"):
        given = len(getattr(arguments, option))
        if given != len(modes) * len(shards):
            raise UserError(
                f"--{option}: {given} files for {len(modes)} modes of {len(shards)} shards"
            )
    values, slopes, conditions = [], [], {}
    for number, mode in enumerate(modes):
        sums = temperatures.Sums(mode, chosen, typist)
        for shard, prompts in enumerate(shards):
            place = number * len(shards) + shard
            texts = records.read(arguments.trajectories[place], "trajectories")
            scores = records.read(arguments.scores[place], "scores")
            _require(records.condition(scores), mode, chosen, arguments.scores[place])
            conditions[arguments.scores[place]] = _shared(records.condition(scores))
            rows = beginnings(texts.to_pylist(), prompts, settings["max_new_tokens"])
            by_key = {(row["prompt_id"], row["sample"]): row for row in rows}
            usable = {k for k, row in by_key.items() if row["status"] == "ok" and row["token_ids"]}
            found = dict(temperatures.by_text(scores.to_pylist(), chosen.draft))
            if set(found) != usable:
                raise UserError(
                    f"{arguments.scores[place]} does not hold the scores of the texts in "
                    f"{arguments.trajectories[place]}; delete it and run again"
                )
            for key, laws in found.items():
                sums.add(by_key[key], laws)
        of_mode = sums.rows()
        values += of_mode[0]
        slopes += of_mode[1]
    kept = {name: settings[name] for name in SETTINGS if name != "seed"}
    condition = records.require_same_condition(conditions) | {"statistics": kept}
    condition["statistics"] |= {name: settings[name] for name in ("max_new_tokens", "prompts")}
    records.write(arguments.temperatures, values, "position_temperatures", condition)
    records.write(arguments.slopes, slopes, "position_slopes", condition)
    log.info("%d values, %d slopes", len(values), len(slopes))


def _require(condition: dict, mode: str, chosen, path: str) -> None:
    expected = {"mode": mode, "domain": chosen.domain, "draft": chosen.draft}
    for key, value in expected.items():
        if condition.get(key) != value:
            raise UserError(
                f"{path} was measured with {key} {condition.get(key)!r}, not {value!r}: the paths "
                "are not in the order of the modes"
            )


def _shared(condition: dict) -> dict:
    """What the texts of all modes have in common."""
    return {k: v for k, v in condition.items() if k not in ("mode", "law", "laws")}


if __name__ == "__main__":
    command(main)
