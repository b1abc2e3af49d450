"""Score a token tree at every position of a shard of greedy trajectories."""

from __future__ import annotations

import argparse
import logging
import time

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
    parser.add_argument("--target", required=True, help="model.json of the target")
    parser.add_argument("--draft", required=True, help="model.json of the draft")
    parser.add_argument("--trajectories", required=True, help="Parquet of schema trajectories")
    parser.add_argument(
        "--prompts", help="Parquet of schema prompts that the trajectories must cover exactly"
    )
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
    from draftscope.scoring import check_disagreement, require_same_target
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
    prompt_ids = None
    if arguments.prompts:
        prompt_ids = records.read(arguments.prompts, "prompts").column("prompt_id").to_pylist()
    trajectories = records.read(arguments.trajectories, "trajectories", prompt_ids)
    generated = records.condition(trajectories)
    rows = beginnings(trajectories.to_pylist(), settings["prompts"], settings["max_new_tokens"])

    how = (settings["device"], settings["dtype"], settings["attention"])
    target = models.load(arguments.target, *how)
    require_same_target(generated, target.condition("target"), arguments.trajectories)
    draft = models.load(arguments.draft, *how)
    alignment = align(target, draft, allow_special=settings["allow_special_differences"])

    started = time.monotonic()
    scores = score_trees(target, draft, alignment, rows, shape, past_end=True)
    share = check_disagreement(scores.checks, settings["max_disagreement"])
    log.info("greedy decoding, as scored, would emit another token at %.3f%%", 100 * share)
    scoring = {f"scoring_{key}": target.condition("target")[key] for key in _SCORING}
    condition = generated | scoring | draft.condition("draft") | {"tree": settings["shape"]}
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


_SCORING = ("dtype", "attention", "device_type")


if __name__ == "__main__":
    command(main)
