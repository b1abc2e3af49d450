"""What the scripts that train a draft share: their arguments, and what they write when it is done."""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from draftscope.errors import UserError, json_argument

if TYPE_CHECKING:
    from draftscope.training.examples import Example
    from draftscope.training.run import Run

log = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser, settings: str, schema: str) -> None:
    """The arguments of a training.

    Args:
        settings: what the settings hold.
        schema: of the history.
    """
    parser.add_argument("--name", required=True, help="name of the model in the registry")
    parser.add_argument("--settings", required=True, help=f"JSON or a JSON file: {settings}")
    parser.add_argument(
        "--teacher-cache-mb",
        type=int,
        default=2000,
        help="memory for the target's states of the texts; moves no number",
    )
    parser.add_argument("--target", required=True, help="model.json of the model it learns from")
    parser.add_argument(
        "--prompts", required=True, nargs="+", help="training prompts, one file a file of texts"
    )
    parser.add_argument(
        "--trajectories", required=True, nargs="+", help="the target's texts of these prompts"
    )
    parser.add_argument(
        "--code",
        default="",
        help="names the code that trains: a checkpoint that other code left is left alone",
    )
    parser.add_argument("--history", required=True, help=f"Parquet, schema {schema}")
    parser.add_argument("--output", required=True, help="where model.json goes")


def parse(parser: argparse.ArgumentParser) -> tuple[argparse.Namespace, dict[str, Any]]:
    """Arguments and settings.

    Raises:
        UserError: settings that are no JSON, or an output of another name.
    """
    arguments = parser.parse_args()
    settings = json_argument(arguments.settings)
    if Path(arguments.output).name != "model.json":
        raise UserError(f"--output must end in model.json, not {Path(arguments.output).name}")
    return arguments, settings


def describe(trainer: Run, texts: Sequence[Example], held_out: Sequence[Example]) -> dict[str, int]:
    """How much text there is; says so, with the number of parameters."""
    sizes = {"prompts": len({(t.domain, t.prompt_id) for t in texts}), "texts": len(texts)}
    sizes["tokens"] = sum(len(text.emitted) for text in texts)
    log.info("model %s: %d parameters, %d texts with %d tokens, %d of them held out",
             trainer.name, sum(p.numel() for p in trainer.parameters.values()),
             sizes["texts"], sizes["tokens"], sum(len(t.emitted) for t in held_out))  # fmt: skip
    return sizes


def fingerprint(*parts: Any) -> str:
    """Hash of what a training depends on."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def made_by(row: Mapping[str, Any], target_name: str, target_revision: str) -> str:
    """How a draft was made, for its revision."""
    short = hashlib.sha256(target_revision.encode()).hexdigest()[:12]
    return f"{row['kind']} on {target_name} {short}"


def finish(
    arguments: argparse.Namespace,
    row: Mapping[str, Any],
    made: Mapping[str, Any],
    history: Sequence[Mapping[str, Any]],
    schema: str,
    condition: Mapping[str, Any],
    trained_on: Mapping[str, Any],
) -> None:
    """Write the history and the record of a draft whose weights are there, and drop the checkpoint.

    Args:
        row: of the registry of models.
        made: what the module of its kind put into the record.
        condition: of the texts it learnt from.
        trained_on: their number and hash.
    """
    from draftscope import models, records
    from draftscope.training import checkpoint

    folder = Path(arguments.output).parent
    best = next(line for line in history if line["best"])
    record = {
        **{key: value for key, value in row.items() if key not in ("kind", "base", "target")},
        **made,
        "trained_on": dict(trained_on),
        "steps_kept": best["step"],
    }
    trained = {**condition, "draft": arguments.name, "train": row["train"]}
    records.write(arguments.history, list(history), schema, trained)
    models.write_record(arguments.name, row["kind"], folder, record)
    (folder / checkpoint.NAME).unlink(missing_ok=True)
    log.info("model %s: %s, weights of step %d", arguments.name, record["revision"], best["step"])
