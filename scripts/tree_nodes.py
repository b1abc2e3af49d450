"""Score a token tree at every position of a shard of greedy trajectories."""

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
        help="JSON or a JSON file: domain, mode, law, shape, prompts (how many of the shard, from "
        "the first), max_new_tokens (the beginning of each text), allow_special_differences, "
        "max_disagreement, device, dtype, attention, threads",
    )
    scored_texts.add_arguments(parser)
    parser.add_argument("--draft", required=True, help="model.json of the draft")
    parser.add_argument("--nodes", required=True, help="output: Parquet of schema nodes")
    parser.add_argument("--trees", required=True, help="output: Parquet of schema trees")
    arguments = parser.parse_args()
    settings = json_argument(arguments.settings)

    from draftscope import runtime
    from draftscope.values import decoding_law, whole_numbers

    whole_numbers(settings, threads=1, prompts=1, max_new_tokens=1)
    decoding_law(settings)
    runtime.prepare(settings["threads"])
    from draftscope import models, records
    from draftscope.beginnings import beginnings
    from draftscope.models.vocabulary import align
    from draftscope.scoring import check_disagreement
    from draftscope.tree.log import table
    from draftscope.tree.schemas import NODES, TREES
    from draftscope.tree.scoring import score_trees
    from draftscope.tree.shape import Shape

    if settings["law"]["temperature"]:
        raise UserError(
            f"mode {settings['mode']} samples; a tree's accepted path can be read off the text "
            "only where decoding is greedy"
        )
    shape = Shape.of(settings["shape"])
    trajectories, generated = scored_texts.read(arguments)
    rows = beginnings(trajectories.to_pylist(), settings["prompts"], settings["max_new_tokens"])

    how = (settings["device"], settings["dtype"], settings["attention"])
    target = scored_texts.load_target(arguments, settings, generated)
    draft = models.load(arguments.draft, *how)
    alignment = align(target, draft, allow_special=settings["allow_special_differences"])

    started = time.monotonic()
    scores = score_trees(target, draft, alignment, rows, shape, past_end=True)
    share = check_disagreement(scores.checks, settings["max_disagreement"])
    log.info("greedy decoding, as scored, would emit another token at %.3f%%", 100 * share)
    condition = scored_texts.condition(generated, target) | draft.condition("draft")
    condition["tree"] = settings["shape"]
    provenance = {
        "device": str(target.device),
        "threads": settings["threads"],
        "seconds": time.monotonic() - started,
        "target_disagreement_share": share,
    }
    for path, name, parts, schema in (
        (arguments.nodes, "nodes", scores.nodes, NODES),
        (arguments.trees, "trees", scores.trees, TREES),
    ):
        records.write(path, table(parts, schema), name, condition, provenance)


if __name__ == "__main__":
    command(main)
