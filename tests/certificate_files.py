"""Recordings of tiny models for the certificates study, made by the project's own scripts."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import certificate_live
import certificate_record
import certificate_statistics
from draftscope import models, records
from draftscope.trajectories import generate
from loading import disturbed, load_tiny, rendered
from tiny import tiny_model_folder

GREEDY = {"temperature": 0.0, "top_k": 0, "top_p": 1.0}
CRITERIA = [
    {"kind": "strict"},
    {"kind": "additive", "t": 0.1},
    {"kind": "additive", "t": 0.3},
    {"kind": "multiplicative", "a": 0.5},
    {"kind": "typical", "epsilon": 0.1, "delta": 0.09},
    {"kind": "tree", "m": 2},
    {"kind": "tree", "m": 4},
]
RULES = [
    {"kind": "additive", "t": 0.3},
    {"kind": "multiplicative", "a": 0.3},
    {"kind": "top_m_additive", "m": 2, "t": 0.5},
    {"kind": "typical", "epsilon": 0.1, "delta": 0.09},
]
WHERE = {"device": "cpu", "dtype": "float32", "attention": "sdpa", "threads": 1}
RECORD = {
    "domain": "chat",
    "mode": "greedy",
    "prompts": 5,
    "max_new_tokens": 12,
    "criteria": CRITERIA,
    "depth": 25,
    "position_chunk": 5,
    "drafts": [{"name": name, "allow_special_differences": False} for name in ("near", "far")],
    **WHERE,
}
LIVE = {
    "domain": "chat",
    "template": {"chat_template": False},
    "prompts": 5,
    "budget": 12,
    "rules": RULES,
    "draft_length": 3,
    "batch_size": 4,
    "position_chunk": 5,
    "allow_special_differences": False,
    "seed": 0,
    **WHERE,
}
STATISTICS = {
    "criteria": CRITERIA,
    "all": [*CRITERIA, {"kind": "top_m_additive", "m": 2, "t": 0.1}],
    "kl": [0.01, 0.1, 0.69],
    "cap": 100,
    "tolerance": 1e-9,
    "pairs": {
        "near-pair": {"target": "target", "draft": "near"},
        "far-pair": {"target": "target", "draft": "far"},
    },
    "relaxed": {"pair": "far-pair", "draft_length": 3, "rules": RULES},
    "options": {"chat": {}},
    "equivalence": {"trials": 4000, "level": 0.01},
    "confidence": 0.95,
    "resamples": 200,
    "method": "studentized",
    "seed": 0,
}


def call(script, *arguments: str, **settings) -> None:
    """Run a script's main in this process."""
    before = sys.argv
    more = ["--settings", json.dumps(settings)] if settings else []
    sys.argv = [script.__name__, *more, *map(str, arguments)]
    try:
        script.main()
    finally:
        sys.argv = before


def make(folder: Path) -> Path:
    """Models, text, prompts, recordings, live texts and statistics below a folder."""
    tiny_model_folder(folder / "target-files", seed=0)
    models.resolve(
        "target", {"kind": "local", "path": str(folder / "target-files")}, folder / "target"
    )
    for name, noise in (("near", 0.02), ("far", 0.3)):
        files = folder / f"{name}-files"
        other = disturbed(files, name, noise=noise, seed=0)
        other.model.save_pretrained(files)
        models.resolve(name, {"kind": "local", "path": str(files)}, folder / name)
    prompts = [
        {"prompt_id": f"p{n}", "domain": "chat", "source_row": "", "messages_json": json.dumps(
            [{"role": "user", "content": f"say {n} things"}]), "text": f"say {n} things",
         "answer": None, "checker": None, "language": "en", "split": "evaluation"}
        for n in range(5)
    ]  # fmt: skip
    records.write(folder / "prompts.parquet", prompts, "prompts", {"domain": "chat"})
    target = load_tiny(folder / "target-files", "target")
    rows = generate(
        target, [(f"p{n}", rendered(0, 20 + n, 30)) for n in range(5)],
        law=GREEDY, budget=14, batch_size=1, samples=1, run_seed=0, domain="chat",
    )  # fmt: skip
    condition = target.condition("target") | {"domain": "chat", "mode": "greedy", "law": GREEDY}
    records.write(folder / "trajectories.parquet", rows, "trajectories", condition)
    record(folder, **RECORD)
    call(
        certificate_live, "--target", folder / "target/model.json", "--draft",
        folder / "far/model.json", "--prompts", folder / "prompts.parquet", "--texts",
        folder / "texts.parquet", "--rounds", folder / "rounds.parquet", **LIVE,
    )  # fmt: skip
    statistics(folder)
    return folder


def record(folder: Path, output: str = "", **settings) -> None:
    """Record the target and both drafts."""
    call(
        certificate_record, "--target", folder / "target/model.json", "--drafts",
        folder / "near/model.json", folder / "far/model.json", "--trajectories",
        folder / "trajectories.parquet", "--of-target", folder / f"{output}targets.parquet",
        "--of-drafts", folder / f"{output}drafts.parquet", **settings,
    )  # fmt: skip


def statistics(folder: Path, drafts: str = "drafts.parquet", output: str = "statistics") -> None:
    """Statistics of the recordings."""
    call(
        certificate_statistics, "--targets", folder / "targets.parquet", "--drafts",
        folder / drafts, "--texts", folder / "texts.parquet", "--rounds",
        folder / "rounds.parquet", "--prompts", folder / "prompts.parquet", "--folder",
        folder / output, **STATISTICS,
    )  # fmt: skip
