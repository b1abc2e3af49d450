"""Train a block drafter on texts of its target: DFlash, or ReTrace on top of one.

A run that was killed goes on where its last checkpoint stands, in a hidden file beside the record.
"""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

from draftscope.errors import command
from draftscope.training import job


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    holds = "model (its registry row), device, dtype, attention, threads"
    job.add_arguments(parser, holds, "block_training_history")
    parser.add_argument("--base", help="model.json of the drafter that ReTrace starts from")
    arguments, settings = job.parse(parser)
    row, folder = settings["model"], Path(arguments.output).parent

    from draftscope import runtime

    runtime.prepare(settings["threads"])
    import draftscope.block_training.schemas  # noqa: F401
    import torch
    from draftscope import models
    from draftscope.block_training import MAKERS
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
    maker = importlib.import_module(MAKERS[row["kind"]])
    trainer = maker.make_trainer(
        arguments.name,
        row,
        target,
        arguments.base,
        kept,
        held_out,
        Plan(**{name: how[name] for name in Plan.__dataclass_fields__}),
        narrow=None if settings["dtype"] == "float32" else getattr(torch, settings["dtype"]),
        cache_mb=arguments.teacher_cache_mb,
    )
    sizes, content = job.describe(trainer, texts, held_out), digest(texts)
    folder.mkdir(parents=True, exist_ok=True)
    started = getattr(trainer, "base", {}).get("revision")
    bound = [started, target.revision, content, torch.__version__, str(target.device)]
    history = trainer.run(
        folder / checkpoint.NAME, job.fingerprint(settings, bound, arguments.code)
    )
    made = maker.save(
        arguments.name, trainer, folder, job.made_by(row, target.name, target.revision)
    )
    sizes = sizes | {"sha256": content}
    job.finish(arguments, row, made, history, "block_training_history", condition, sizes)


if __name__ == "__main__":
    command(main)
