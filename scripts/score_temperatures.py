"""Score the beginnings of a shard of texts under every law of the sweep over temperatures."""

from __future__ import annotations

import argparse
import logging
import time

from draftscope import scored_texts
from draftscope.errors import command, json_argument

log = logging.getLogger(__name__)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--settings",
        required=True,
        help="JSON or a JSON file: laws (by name; decoding is the one that the text was drawn "
        "from), prompts (how many of the shard, from the first), max_new_tokens (the beginning of "
        "each text), allow_special_differences, position_chunk, max_disagreement, device, dtype, "
        "attention, threads",
    )
    scored_texts.add_arguments(parser)
    parser.add_argument("--draft", required=True, help="model.json of the draft")
    parser.add_argument("--output", required=True, help="Parquet of schema scores")
    arguments = parser.parse_args()
    settings = json_argument(arguments.settings)

    from draftscope import runtime
    from draftscope.values import decoding_law, whole_numbers

    whole_numbers(settings, threads=1, position_chunk=1, prompts=1, max_new_tokens=1)
    for law in settings["laws"].values():
        decoding_law({"law": law})
    runtime.prepare(settings["threads"])
    from draftscope import models, records
    from draftscope.beginnings import beginnings
    from draftscope.models.vocabulary import align
    from draftscope.scoring import check_disagreement, score

    table, generated = scored_texts.read(arguments)
    texts = beginnings(table.to_pylist(), settings["prompts"], settings["max_new_tokens"])

    how = (settings["device"], settings["dtype"], settings["attention"])
    target = scored_texts.load_target(arguments, settings, generated)
    draft = models.load(arguments.draft, *how)
    alignment = align(target, draft, allow_special=settings["allow_special_differences"])

    started = time.monotonic()
    rows = score(target, [(draft, alignment)], texts, settings["laws"], settings["position_chunk"])
    share = check_disagreement(rows, settings["max_disagreement"])
    log.info("the scored law excludes %.3f%% of the emitted tokens", 100 * share)
    records.write(
        arguments.output,
        rows,
        "scores",
        scored_texts.condition(generated, target)
        | draft.condition("draft")
        | {"laws": settings["laws"], "beginning": settings["max_new_tokens"]},
        {
            "device": str(target.device),
            "threads": settings["threads"],
            "seconds": time.monotonic() - started,
            "target_disagreement_share": share,
        },
    )


if __name__ == "__main__":
    command(main)
