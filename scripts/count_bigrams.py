"""Count what follows what in a target's texts of training prompts: a draft without a model."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from draftscope.errors import UserError, command, json_argument

log = logging.getLogger("count_bigrams")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", required=True, help="name of the model in the registry")
    parser.add_argument("--settings", required=True, help="JSON or a JSON file: its registry row")
    parser.add_argument("--target", required=True, help="model.json of the model that wrote them")
    parser.add_argument(
        "--prompts", required=True, nargs="+", help="training prompts, one file a file of texts"
    )
    parser.add_argument(
        "--trajectories", required=True, nargs="+", help="the target's texts of these prompts"
    )
    parser.add_argument("--output", required=True, help="where model.json goes")
    arguments = parser.parse_args()
    row, output = json_argument(arguments.settings), Path(arguments.output)
    if output.name != "model.json":
        raise UserError(f"--output must end in model.json, not {output.name}")

    from draftscope.checkpoints import read_record
    from draftscope.drafters.bigram import count_successors
    from draftscope.drafters.of_text import write_successors
    from draftscope.training.examples import digest
    from draftscope.training.inputs import read_texts
    from draftscope.writing import write_json

    target = read_record(arguments.target)
    texts, condition = read_texts(arguments.prompts, arguments.trajectories)
    wrote = (condition.get("target"), condition.get("target_revision"))
    if wrote != (target["name"], target["revision"]):
        raise UserError(
            f"{arguments.trajectories[0]} holds texts of {wrote[0]} at {wrote[1]}, not of "
            f"{target['name']} at {target['revision']}"
        )
    successors = count_successors((text.prompt, text.emitted) for text in texts)
    if not successors:
        raise UserError(f"{arguments.trajectories[0]}: no generated token to count")
    output.parent.mkdir(parents=True, exist_ok=True)
    sizes = {"prompts": len({(t.domain, t.prompt_id) for t in texts}), "texts": len(texts)}
    sizes["tokens"] = sum(len(text.emitted) for text in texts)
    record = {
        "name": arguments.name,
        "kind": row["kind"],
        "train": row["train"],
        **write_successors(output.parent, successors),
        "learnt_from": {"name": target["name"], "revision": target["revision"]},
        "trained_on": sizes | {"sha256": digest(texts)},
        "max_positions": None,
    }
    write_json(output, record)
    log.info("model %s: successors of %d tokens, from %d texts with %d tokens",
             arguments.name, len(successors), sizes["texts"], sizes["tokens"])  # fmt: skip


if __name__ == "__main__":
    command(main)
