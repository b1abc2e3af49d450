"""Score a shard of trajectories: one pass of the target, one of each draft of a group."""

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
        help="JSON or a JSON file: domain, mode, laws, drafts, position_chunk, max_disagreement, "
        "device, dtype, attention, threads",
    )
    scored_texts.add_arguments(parser)
    parser.add_argument("--drafts", required=True, nargs="+", help="model.json of each draft")
    parser.add_argument("--output", required=True, help="Parquet of schema scores")
    arguments = parser.parse_args()
    settings = json_argument(arguments.settings)

    from draftscope import runtime
    from draftscope.values import decoding_law, whole_numbers

    whole_numbers(settings, threads=1, position_chunk=1)
    for law in settings["laws"].values():
        decoding_law({"law": law})
    runtime.prepare(settings["threads"])
    from draftscope import models, records
    from draftscope.checkpoints import BLOCK_DRAFTS, TEXT_DRAFTS
    from draftscope.models.vocabulary import align
    from draftscope.scoring import check_disagreement, score

    table, generated = scored_texts.read(arguments)

    how = (settings["device"], settings["dtype"], settings["attention"])
    target = scored_texts.load_target(arguments, settings, generated)
    allowed = {row["name"]: row["allow_special_differences"] for row in settings["drafts"]}
    drafts, described = [], {}
    for path in arguments.drafts:
        record = models.read_record(path)
        name = record["name"]
        if name not in allowed:
            raise UserError(
                f"{path} is draft {name}, which the settings do not name "
                f"({', '.join(allowed) or 'none'})"
            )
        if record["kind"] in TEXT_DRAFTS:
            log.info("%s is replayed from the text by its own proposer: nothing to score", name)
            continue
        if record["kind"] in BLOCK_DRAFTS:
            log.info("%s proposes blocks and is replayed from them: nothing to score", name)
            continue
        draft = models.load(record, *how)
        drafts.append((draft, align(target, draft, allow_special=allowed[name])))
        described[name] = draft.condition("draft")

    started = time.monotonic()
    rows = score(target, drafts, table.to_pylist(), settings["laws"], settings["position_chunk"])
    share = check_disagreement(rows, settings["max_disagreement"])
    log.info("the scored law excludes %.3f%% of the emitted tokens", 100 * share)
    records.write(
        arguments.output,
        rows,
        "scores",
        scored_texts.condition(generated, target) | {"laws": settings["laws"], "drafts": described},
        {
            "device": str(target.device),
            "threads": settings["threads"],
            "seconds": time.monotonic() - started,
            "target_disagreement_share": share,
        },
    )


if __name__ == "__main__":
    command(main)
