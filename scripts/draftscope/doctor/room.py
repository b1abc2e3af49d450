"""How large an experiment is: disk, memory of a job, and time from a short calibration."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from draftscope.checkpoints import BLOCK_DRAFTS, TEXT_DRAFTS
from draftscope.doctor.findings import NOTE, OK, PROBLEM, Findings
from draftscope.doctor.models import GIGABYTE, Known
from draftscope.doctor.texts import Text
from draftscope.resolved import Resolved
from draftscope.schemas import SCHEMAS
from draftscope.stage import DomainUse, Stage

BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
# Of float32 rows over the vocabulary that scoring holds at one time, as a trace showed.
_LOGIT_COPIES = 8
PROCESS = 0.4 * GIGABYTE  # torch and transformers with a model of no size, as measured


def check_disk(experiment: Resolved, results: Path, findings: Findings) -> None:
    """Compare what trajectories and scores may take, uncompressed, with the room on the disk.

    Budgets say how long texts can be, whether or not their models are here.
    """
    trajectory, score = _row_bytes("trajectories"), _row_bytes("scores")
    wanted = 0
    for target, mode, use in _texts(experiment):
        drafts = {p["draft"] for p in experiment.replayed.values() if p["target"] == target}
        rows = [experiment.models[name] for name in drafts]
        scored = sum(row["kind"] not in TEXT_DRAFTS | BLOCK_DRAFTS for row in rows)
        laws = 2 + len(mode.get("score_laws") or ())
        # Of a block drafter a block of ids a position, the token itself among them.
        blocks = sum(4 * row.get("block_size", 0) for row in rows)
        tokens = use.prompts * mode["samples"] * use.max_new_tokens
        wanted += tokens * (trajectory + score * scored * laws + blocks)
    free = shutil.disk_usage(next(p for p in (results, *results.parents) if p.exists())).free
    said = f"trajectories and scores take {wanted / GIGABYTE:.2f} GB at most, {free / GIGABYTE:.1f} GB are free"
    findings.add("disk", str(results), OK if wanted < free else PROBLEM, said)


def _texts(experiment: Resolved) -> Iterator[tuple[str, Mapping[str, Any], DomainUse]]:
    """Target, mode and size of the texts that are scored for the studies asked for."""
    for target in experiment.targets:
        for use in experiment.settings.domains:
            yield from ((target, mode, use) for mode in experiment.modes.values())
    sweep, losses = experiment.sweep, experiment.losses
    if "temperatures" in experiment.settings.studies:
        yield from ((sweep.target, mode, sweep.use) for mode in sweep.modes.values())
    if "losses" in experiment.settings.studies:
        for target in losses.targets:
            for name, mode in losses.modes.items():
                for use in losses.uses:
                    if not experiment.generates(target, use.name, name):
                        yield target, mode, use


def _row_bytes(schema: str) -> int:
    """Bytes a token of a schema's list columns; text counts as four."""
    lists = [field.type.value_type for field in SCHEMAS[schema] if pa.types.is_list(field.type)]
    return 4 + sum(4 if value.bit_width == 1 else value.bit_width // 8 for value in lists)


def check_memory(
    experiment: Resolved,
    texts: Sequence[Text],
    known: Mapping[str, Known],
    findings: Findings,
) -> None:
    """Compare what a job of each target holds at least with what it asks for.

    Counted are the process, weights, keys and values, and rows of logits.
    """
    settings = experiment.settings
    for target in experiment.targets:
        own = [text for text in texts if text.target == target]
        if not own or known[target].weight_bytes is None:
            continue
        longest = max(text.longest for text in own)
        stage = settings.generation
        needed = PROCESS + weights(known[target], stage)
        needed += stage.batch_size * longest * cache_bytes(known[target], stage)
        needed += 2 * 4 * stage.batch_size * known[target].head_size
        _compare(f"generate, {target}", needed, stage, [target], findings)
        stage = settings.scoring
        for group in sorted({p["draft_group"] for p in experiment.pairs.values()
                             if p["target"] == target}):  # fmt: skip
            drafts = [name for name in experiment.group(target, group) if name in known]
            read = [known[target], *(known[name] for name in drafts)]
            needed = PROCESS + sum(weights(model, stage) for model in read)
            needed += sum(longest * cache_bytes(model, stage) for model in read)
            needed += _LOGIT_COPIES * 4 * stage.position_chunk * known[target].head_size
            if drafts:
                _compare(f"score, {target}, {group}", needed, stage, [target, *drafts], findings)


def weights(model: Known, stage: Stage) -> float:
    """Bytes of a model's weights in the data type of a stage; quantized ones stay as they are."""
    if getattr(model.config, "quantization_config", None):
        return model.weight_bytes
    stored = str(getattr(model.config, "dtype", None) or "float32").removeprefix("torch.")
    return model.weight_bytes * BYTES[stage.dtype] / BYTES.get(stored, 4)


def cache_bytes(model: Known, stage: Stage) -> int:
    """Bytes of keys and values a token."""
    config = model.config.get_text_config()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return 2 * config.num_hidden_layers * heads * width * BYTES[stage.dtype]


def _compare(subject: str, needed: float, stage: Stage, models: list, findings: Findings) -> None:
    asked = stage.asks("memory_mb", models)
    said = f"holds at least {needed / 1e6:,.0f} MB; a job asks for {asked:,} MB"
    if stage.asks("gpus", models):
        said += " beside its GPUs, whose own memory must hold as much"
    findings.add("memory", subject, OK if needed / 1e6 < asked else PROBLEM, said)


def calibrate(
    experiment: Resolved, texts: Sequence[Text], records: Path, findings: Findings, tokens: int = 16
) -> None:
    """Time a batch of short texts of each target that is here, and say what all of them take."""
    from draftscope import models, runtime
    from draftscope.prompts import collect, render
    from draftscope.trajectories import generate

    stage = experiment.settings.generation
    runtime.prepare(stage.threads)
    for target in experiment.targets:
        own = [text for text in texts if text.target == target]
        record = records / target / "model.json"
        if not own or not record.is_file():
            findings.add("time", target, NOTE, "not calibrated: the model is not here yet")
            continue
        with findings.asking("time", target):
            loaded = models.load(record, stage.device, stage.dtype, stage.attention)
            text = max(own, key=lambda text: text.tokens)
            row = experiment.domains[text.domain]
            rows = collect({"domain": text.domain, **row}, 0, min(stage.batch_size, text.prompts))
            template = row.get("template", {"chat_template": True})
            rendered = [(item["prompt_id"], render(loaded, item, template)) for item in rows]
            start = time.perf_counter()
            made = generate(
                loaded, rendered, law={"temperature": 0.0, "top_k": 0, "top_p": 1.0}, budget=tokens,
                batch_size=stage.batch_size, samples=1, run_seed=0, domain=text.domain,
            )  # fmt: skip
            spent = time.perf_counter() - start
            rate = sum(len(item["token_ids"]) for item in made) / spent
            total = sum(item.tokens for item in own)
            findings.add(
                "time", target, OK,
                f"{rate:,.0f} tokens/s in batches of {stage.batch_size} on {loaded.device} (short "
                f"texts; long ones are slower); at that rate {total:,} tokens at most take "
                f"{total / rate / 3600:,.2f} hours of jobs",
            )  # fmt: skip


def job_counts(plan: str) -> dict[str, int]:
    """Jobs by rule, from what `snakemake --dry-run` prints."""
    counts: dict[str, Any] = {}
    for line in plan.splitlines():
        parts = line.split()
        if len(parts) == 2 and parts[1].isdigit() and parts[0].isidentifier():
            counts[parts[0]] = int(parts[1])
    return counts
