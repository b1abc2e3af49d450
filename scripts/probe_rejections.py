"""Probe what a block drafter held behind its first rejections, on texts that it drafted live."""

from __future__ import annotations

import argparse
import logging

from draftscope.errors import UserError, command, json_argument

log = logging.getLogger(__name__)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--settings",
        required=True,
        help="JSON or a JSON file: draft_length, seed, domain, device, dtype, attention, threads",
    )
    parser.add_argument("--target", required=True, help="model.json of the target")
    parser.add_argument("--draft", required=True, help="model.json of the drafter, of kind dflash")
    parser.add_argument("--trajectories", required=True, help="Parquet, schema live_trajectories")
    parser.add_argument("--rounds", required=True, help="Parquet, schema rounds, of the same run")
    parser.add_argument("--output", required=True, help="Parquet of schema probes")
    arguments = parser.parse_args()
    settings = json_argument(arguments.settings)

    from draftscope import runtime
    from draftscope.values import whole_numbers

    whole_numbers(settings, threads=1, draft_length=1)
    runtime.prepare(settings["threads"])
    import draftscope.block_training.schemas
    import draftscope.lossless.live_schemas  # noqa: F401
    from draftscope import models, records
    from draftscope.drafters.proposals import TextBlocks
    from draftscope.drafters.rejections import probe_texts
    from draftscope.scored_texts import require_same_target

    record = models.read_record(arguments.draft)
    if record["kind"] != "dflash":
        raise UserError(
            f"{arguments.draft} is {record['name']} of kind {record['kind']}, whose states depend on "
            "what was rejected before; give a drafter of kind dflash"
        )
    length = settings["draft_length"]
    table = records.read(arguments.trajectories, "live_trajectories")
    condition = records.condition(table)
    rounds = records.read(arguments.rounds, "rounds")
    records.require_same_condition(
        {arguments.trajectories: condition, arguments.rounds: records.condition(rounds)}
    )
    target = models.load(
        arguments.target, settings["device"], settings["dtype"], settings["attention"]
    )
    require_same_target(condition, target.condition("target"), arguments.trajectories)
    draft = models.load(record, settings["device"], settings["dtype"], settings["attention"])
    if condition.get("draft_revision") != draft.revision:
        raise UserError(
            f"{arguments.trajectories} was not drafted with {record['name']} as it is now"
        )

    texts = [
        row
        for row in table.to_pylist()
        if row["draft_length"] == length and row["status"] == "ok" and row["token_ids"]
    ]
    rejected: dict[tuple[str, int], list[tuple[int, int, int]]] = {}
    for row in rounds.to_pylist():
        if row["draft_length"] == length and row["accepted"] < row["offered"]:
            key = (row["prompt_id"], row["sample"])
            rejected.setdefault(key, []).append((row["round"], row["start"], row["accepted"]))
    rows = probe_texts(
        TextBlocks(draft, target),
        texts,
        rejected,
        run_seed=settings["seed"],
        domain=settings["domain"],
    )
    made = {"seed": settings["seed"], "device": str(target.device)}
    records.write(arguments.output, rows, "probes", condition, made)
    log.info("%d texts, %d places behind a rejection", len(texts), len(rows))


if __name__ == "__main__":
    command(main)
