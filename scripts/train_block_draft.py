"""Train a block drafter on texts of its target: DFlash, or ReTrace on top of one.

A run that was killed goes on where its last checkpoint stands, in a hidden file beside the record.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
from pathlib import Path
from typing import Any

from draftscope.errors import UserError, command, json_argument

log = logging.getLogger("train_block_draft")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", required=True, help="name of the model in the registry")
    parser.add_argument(
        "--settings",
        required=True,
        help="JSON or a JSON file: model (its registry row), device, dtype, attention, threads",
    )
    parser.add_argument(
        "--teacher-cache-mb",
        type=int,
        default=2000,
        help="memory for the target's states of the texts; moves no number",
    )
    parser.add_argument("--base", help="model.json of the drafter that ReTrace starts from")
    parser.add_argument("--target", required=True, help="model.json of the target")
    parser.add_argument(
        "--prompts", required=True, nargs="+", help="training prompts, one file a file of texts"
    )
    parser.add_argument(
        "--trajectories", required=True, nargs="+", help="the target's texts of these prompts"
    )
    parser.add_argument("--history", required=True, help="Parquet, schema block_training_history")
    parser.add_argument("--output", required=True, help="where model.json goes")
    arguments = parser.parse_args()
    settings = json_argument(arguments.settings)
    output, row = Path(arguments.output), settings["model"]
    if output.name != "model.json":
        raise UserError(f"--output must end in model.json, not {output.name}")

    from draftscope import runtime

    runtime.prepare(settings["threads"])
    import draftscope.block_training.schemas  # noqa: F401
    import torch
    from draftscope import models, records
    from draftscope.block_training.make import make_trainer, save
    from draftscope.training import checkpoint
    from draftscope.training.examples import digest, split
    from draftscope.training.inputs import read_texts, require_own_texts
    from draftscope.training.run import Plan

    how = row["train"]
    texts, condition = read_texts(arguments.prompts, arguments.trajectories)
    target = models.load(
        arguments.target, settings["device"], settings["dtype"], settings["attention"]
    )
    require_own_texts(condition, target.condition("target"), arguments.trajectories[0])
    kept, held_out = split(texts, how["held_out"], how["seed"])
    plan = Plan(**{name: how[name] for name in Plan.__dataclass_fields__})
    trainer = make_trainer(
        arguments.name,
        row,
        target,
        arguments.base,
        kept,
        held_out,
        plan,
        narrow=None if settings["dtype"] == "float32" else getattr(torch, settings["dtype"]),
        cache_mb=arguments.teacher_cache_mb,
    )
    sizes = {"prompts": len({(t.domain, t.prompt_id) for t in texts}), "texts": len(texts)}
    sizes["tokens"] = sum(len(text.emitted) for text in texts)
    log.info("model %s: %d parameters, %d texts with %d tokens, %d of them held out",
             arguments.name, sum(p.numel() for p in trainer.parameters.values()),
             sizes["texts"], sizes["tokens"], sum(len(t.emitted) for t in held_out))  # fmt: skip
    output.parent.mkdir(parents=True, exist_ok=True)
    place = output.parent / checkpoint.NAME
    content = digest(texts)
    started = getattr(trainer, "base", {}).get("revision")
    bound = [started, target.revision, content, torch.__version__, str(target.device)]
    history = trainer.run(place, fingerprint(settings, bound))
    best = next(line for line in history if line["best"])
    made = save(arguments.name, row, trainer, output.parent)
    record = {
        **{key: value for key, value in row.items() if key not in ("kind", "base", "target")},
        **made,
        "trained_on": sizes | {"sha256": content},
        "steps_kept": best["step"],
    }
    trained = condition | {"draft": arguments.name, "train": how}
    records.write(arguments.history, history, "block_training_history", trained)
    models.write_record(arguments.name, row["kind"], output.parent, record)
    place.unlink(missing_ok=True)
    log.info("model %s: %s, weights of step %d", arguments.name, record["revision"], best["step"])


def fingerprint(*parts: Any) -> str:
    """Hash of what a training depends on."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


if __name__ == "__main__":
    command(main)
