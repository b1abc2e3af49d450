"""Train a draft on texts of its target: distil a whole model, or fit a low-rank adapter.

A run that was killed goes on where its last checkpoint stands, in a hidden file beside the record.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
from pathlib import Path

from draftscope.errors import command
from draftscope.training import job


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    holds = "model (its registry row), allow_special_differences, device, dtype, attention, threads"
    job.add_arguments(parser, holds, "training_history")
    parser.add_argument("--base", required=True, help="model.json of the model it starts from")
    parser.add_argument(
        "--recompute",
        action="store_true",
        help="hold less in memory and compute it twice; moves no number",
    )
    parser.add_argument("--marks", nargs="*", default=[], help="types of the texts' tokens")
    arguments, settings = job.parse(parser)
    row, folder = settings["model"], Path(arguments.output).parent

    from draftscope import runtime

    runtime.prepare(settings["threads"])
    import draftscope.training.schemas  # noqa: F401
    import torch
    from draftscope import models
    from draftscope.checkpoints import read_record
    from draftscope.models import distilled, lora
    from draftscope.models.layer_subset import check_base, keep_layers
    from draftscope.models.vocabulary import align
    from draftscope.training import checkpoint
    from draftscope.training.examples import digest, split
    from draftscope.training.inputs import read_marks, read_texts, require_own_texts, weigh
    from draftscope.training.loop import Plan, Trainer, free_body, recompute_activations
    from draftscope.training.teacher import Teacher

    base, how = read_record(arguments.base), row["train"]
    check_base(arguments.name, row, base)
    texts, condition = read_texts(arguments.prompts, arguments.trajectories)
    target = models.load(
        arguments.target, settings["device"], settings["dtype"], settings["attention"]
    )
    require_own_texts(condition, target.condition("target"), arguments.trajectories[0])
    draft = models.load(base, settings["device"], "float32", settings["attention"])
    draft = dataclasses.replace(draft, name=arguments.name)
    if row["kind"] == "distilled":
        if row["layers"] is not None:
            keep_layers(draft.model, row["layers"], arguments.name)
        free_body(draft.model)
    else:
        adapted = lora.add(draft.model, row, how["seed"], arguments.name)
    if arguments.recompute:
        recompute_activations(draft.model)
    alignment = align(target, draft, allow_special=settings["allow_special_differences"])

    kept, held_out = split(texts, how["held_out"], how["seed"])
    teacher = Teacher(target, arguments.teacher_cache_mb)
    marks = read_marks(arguments.marks) if arguments.marks else None
    weights = weigh(row, kept, teacher, marks)
    narrow = None if settings["dtype"] == "float32" else getattr(torch, settings["dtype"])
    plan = Plan(**{name: how[name] for name in Plan.__dataclass_fields__})
    trainer = Trainer(
        draft, teacher, kept, held_out, weights, plan, sorted(alignment.masked_ids), narrow
    )
    sizes, content = job.describe(trainer, texts, held_out), digest(texts)
    folder.mkdir(parents=True, exist_ok=True)
    bound = [base["revision"], target.revision, content, torch.__version__, str(draft.device)]
    weighed = [hashlib.sha256(each.tobytes()).hexdigest() for each in weights]
    history = trainer.run(
        folder / checkpoint.NAME, job.fingerprint(settings, bound, weighed, arguments.code)
    )
    done = job.made_by(row, target.name, target.revision)
    if row["kind"] == "distilled":
        layers = f"layers {','.join(map(str, row['layers']))} " if row["layers"] else ""
        made = distilled.save(
            arguments.name, draft.model, draft.tokenizer, folder, base, layers + done
        )
    else:
        made = lora.save(arguments.name, adapted, folder, base, done)
    made["learnt_from"] = {"name": target.name, "revision": target.revision}
    condition = condition | {"base_revision": base["revision"]}
    sizes = sizes | {"sha256": content}
    job.finish(arguments, row, made, history, "training_history", condition, sizes)


if __name__ == "__main__":
    command(main)
