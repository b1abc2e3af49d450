"""Replay the live texts of each configuration and compare the rounds; greedy texts beside plain.

The files stand in the order of the configurations; --scores only those of drafts that are models,
--proposals only those of block drafters whose proposals depend on the text alone. Others are
decoded live and not replayed.
"""

from __future__ import annotations

import argparse
import logging

from draftscope.errors import UserError, command, json_argument

log = logging.getLogger("lossless_replay")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--settings",
        required=True,
        help="JSON or a JSON file: configurations (objects with run, pair, domain, mode, draft, "
        "draft_settings, law; those of run divergence are not replayed), replays, margin, resamples, method, seed",
    )
    parser.add_argument("--trajectories", nargs="+", required=True, help="one a configuration")
    parser.add_argument("--rounds", nargs="+", required=True, help="one a configuration")
    parser.add_argument("--scores", nargs="*", default=[], help="one a configuration with a model")
    parser.add_argument(
        "--proposals", nargs="*", default=[], help="one a configuration with a block drafter"
    )
    parser.add_argument("--replay", required=True, help="output, schema lossless_replay")
    parser.add_argument("--greedy", required=True, help="output, schema lossless_greedy")
    arguments = parser.parse_args()

    import draftscope.lossless.schemas  # noqa: F401
    from draftscope import records
    from draftscope.lossless import replay_inputs
    from draftscope.lossless.replay_check import compare, greedy_rows

    settings = json_argument(arguments.settings)
    named = settings.pop("configurations")
    given = {"trajectories": arguments.trajectories, "rounds": arguments.rounds}
    for option, paths in given.items():
        if len(paths) != len(named):
            raise UserError(f"--{option}: {len(paths)} files for {len(named)} configurations")
    scores, proposals = iter(arguments.scores), iter(arguments.proposals)
    options = {key: settings[key] for key in ("resamples", "method")}
    rows, greedy, condition = [], [], {}
    for row, live, rounds in zip(named, arguments.trajectories, arguments.rounds, strict=True):
        own = replay_inputs.read(row, live, rounds, scores, proposals)
        condition = own.condition
        key = {name: row[name] for name in ("pair", "domain", "mode")}
        # In a narrow data type a near-tie may fall otherwise in replay, which says nothing of it.
        replayed = row["run"] == "speed" and not own.live_only
        for gamma in own.draft_lengths if replayed else ():
            texts, left_out = own.replayed(gamma, settings["replays"], settings["seed"])
            found = compare(
                texts,
                gamma,
                margin=settings["margin"],
                left_out=left_out,
                options=options | {"rng": settings["seed"]},
            )
            rows.append(key | {"draft_length": gamma} | found)
        if own.greedy:
            dtype = {"dtype": condition["dtype"]}
            greedy += [key | dtype | found for found in greedy_rows(own.texts, own.gaps())]
    if next(scores, None) is not None:
        raise UserError("--scores: more files than configurations with a model as their draft")
    if next(proposals, None) is not None:
        raise UserError("--proposals: more files than configurations with a block drafter")
    about = {key: condition[key] for key in ("domain", "device_type") if key in condition}
    about["statistics"] = settings
    records.write(arguments.replay, rows, "lossless_replay", about)
    records.write(arguments.greedy, greedy, "lossless_greedy", about)
    log.info("%d comparisons, %d greedy texts", len(rows), len(greedy))


if __name__ == "__main__":
    command(main)
