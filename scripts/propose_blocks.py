"""Propose: what a block drafter would draft at every position of a shard of trajectories."""

from __future__ import annotations

import argparse
import logging
import time

from draftscope import scored_texts
from draftscope.errors import UserError, command, json_argument

log = logging.getLogger(__name__)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--settings",
        required=True,
        help="JSON or a JSON file: device, dtype, draft_dtype (optional: the target's), attention, "
        "threads",
    )
    scored_texts.add_arguments(parser)
    parser.add_argument("--draft", required=True, help="model.json of the drafter, of kind dflash")
    parser.add_argument(
        "--live",
        action="store_true",
        help="the texts are of schema live_trajectories, the output of live_proposals",
    )
    parser.add_argument("--output", required=True, help="Parquet of schema proposals")
    arguments = parser.parse_args()
    settings = json_argument(arguments.settings)

    from draftscope import runtime
    from draftscope.values import whole_numbers

    whole_numbers(settings, threads=1)
    runtime.prepare(settings["threads"])
    import draftscope.lossless.live_schemas  # noqa: F401
    from draftscope import models, records
    from draftscope.drafters.proposals import TextBlocks, proposal_row
    from draftscope.progress import progress

    schema = "live_trajectories" if arguments.live else "trajectories"
    table, generated = scored_texts.read(arguments, schema)
    record = models.read_record(arguments.draft)
    if record["kind"] != "dflash":
        raise UserError(
            f"{arguments.draft} is {record['name']} of kind {record['kind']}, whose proposals "
            "cannot be read off a text; give a drafter of kind dflash"
        )
    target = scored_texts.load_target(arguments, settings, generated)
    dtype = settings.get("draft_dtype") or settings["dtype"]
    draft = models.load(record, settings["device"], dtype, settings["attention"])
    blocks = TextBlocks(draft, target)

    started = time.monotonic()
    texts = [row for row in table.to_pylist() if row["status"] == "ok" and row["token_ids"]]
    keys = ["prompt_id", "sample"]
    if arguments.live:
        keys.append("draft_length")
        texts = [row for row in texts if row["draft_length"]]
    rows, done = [], {}
    with progress(
        sum(len(row["token_ids"]) for row in texts), f"drafting with {draft.name}"
    ) as bar:
        for row in texts:
            text = (tuple(row["prompt_token_ids"]), tuple(row["token_ids"]))
            if text not in done:  # live texts are alike where decoding is greedy
                done = {text: proposal_row(blocks, row)} | (done if arguments.live else {})
            rows.append({key: row[key] for key in keys} | done[text])
            bar.update(len(row["token_ids"]))
    condition = generated
    if not arguments.live:
        condition = scored_texts.condition(generated, target)
        condition |= draft.condition("draft") | {
            "drafting": "argmax",
            "block_size": blocks.most + 1,
            "draft_vocabulary": len(blocks.head.ids),
        }
    records.write(
        arguments.output,
        rows,
        "live_proposals" if arguments.live else "proposals",
        condition,
        {
            "device": str(target.device),
            "threads": settings["threads"],
            "seconds": time.monotonic() - started,
        },
    )
    tokens = sum(len(row["token_ids"]) for row in rows)
    outside = sum(row["outside"] for row in rows)
    log.info("%d texts, %d of %d tokens outside the draft vocabulary", len(rows), outside, tokens)


if __name__ == "__main__":
    command(main)
