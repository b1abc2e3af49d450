"""Train a draft on texts of its target: distil a whole model, or fit a low-rank adapter.

A run that was killed goes on where its last checkpoint stands, in a hidden file beside the record.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import logging
from pathlib import Path
from typing import Any

from draftscope.errors import UserError, command, json_argument

log = logging.getLogger("train_draft")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", required=True, help="name of the model in the registry")
    parser.add_argument(
        "--settings",
        required=True,
        help="JSON or a JSON file: model (its registry row), allow_special_differences, device, "
        "dtype, attention, threads",
    )
    parser.add_argument(
        "--teacher-cache-mb",
        type=int,
        default=2000,
        help="memory for the target's states of the texts; moves no number",
    )
    parser.add_argument(
        "--recompute",
        action="store_true",
        help="hold less in memory and compute it twice; moves no number",
    )
    parser.add_argument("--base", required=True, help="model.json of the model it starts from")
    parser.add_argument("--target", required=True, help="model.json of the model it learns from")
    parser.add_argument(
        "--prompts", required=True, nargs="+", help="training prompts, one file a file of texts"
    )
    parser.add_argument(
        "--trajectories", required=True, nargs="+", help="the target's texts of these prompts"
    )
    parser.add_argument("--marks", nargs="*", default=[], help="types of the texts' tokens")
    parser.add_argument("--history", required=True, help="Parquet, schema training_history")
    parser.add_argument("--output", required=True, help="where model.json goes")
    arguments = parser.parse_args()
    settings = json_argument(arguments.settings)
    output, row = Path(arguments.output), settings["model"]
    if output.name != "model.json":
        raise UserError(f"--output must end in model.json, not {output.name}")

    from draftscope import runtime

    runtime.prepare(settings["threads"])
    import draftscope.training.schemas  # noqa: F401
    import torch
    from draftscope import models, records
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
    sizes = {"prompts": len({(t.domain, t.prompt_id) for t in texts}), "texts": len(texts)}
    sizes["tokens"] = sum(len(text.emitted) for text in texts)
    log.info("model %s: %d parameters, %d texts with %d tokens, %d of them held out",
             arguments.name, sum(p.numel() for p in trainer.parameters.values()),
             sizes["texts"], sizes["tokens"], sum(len(t.emitted) for t in held_out))  # fmt: skip
    output.parent.mkdir(parents=True, exist_ok=True)
    place = output.parent / checkpoint.NAME
    content = digest(texts)
    history = trainer.run(
        place,
        fingerprint(
            settings,
            [base["revision"], target.revision, content, torch.__version__, str(draft.device)],
            [hashlib.sha256(each.tobytes()).hexdigest() for each in weights],
        ),
    )
    done = f"{row['kind']} on {target.name} {hashlib.sha256(target.revision.encode()).hexdigest()[:12]}"
    if row["kind"] == "distilled":
        layers = f"layers {','.join(map(str, row['layers']))} " if row["layers"] else ""
        made = distilled.save(
            arguments.name, draft.model, draft.tokenizer, output.parent, base, layers + done
        )
    else:
        made = lora.save(arguments.name, adapted, output.parent, base, done)
    best = next(line for line in history if line["best"])
    record = {
        **{key: value for key, value in row.items() if key not in ("kind", "base", "target")},
        **made,
        "learnt_from": {"name": target.name, "revision": target.revision},
        "trained_on": sizes | {"sha256": content},
        "steps_kept": best["step"],
    }
    trained = condition | {"draft": arguments.name, "train": how, "base_revision": base["revision"]}
    records.write(arguments.history, history, "training_history", trained)
    models.write_record(arguments.name, row["kind"], output.parent, record)
    place.unlink(missing_ok=True)
    log.info("model %s: %s, weights of step %d", arguments.name, record["revision"], best["step"])


def fingerprint(*parts: Any) -> str:
    """Hash of what a training depends on."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


if __name__ == "__main__":
    command(main)
