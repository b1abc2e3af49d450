"""Texts of a target that a job reads again with models: their file, the target, the condition."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from draftscope.errors import UserError

if TYPE_CHECKING:
    from pyarrow import Table

    from draftscope.models import LoadedModel

CONDITION = ("dtype", "attention", "device_type")  # may differ from those of the generation


def add_arguments(parser: ArgumentParser, schema: str = "trajectories") -> None:
    """Add --target, --trajectories and --prompts."""
    parser.add_argument("--target", required=True, help="model.json of the target")
    parser.add_argument("--trajectories", required=True, help=f"Parquet of schema {schema}")
    parser.add_argument(
        "--prompts", help="Parquet of schema prompts that the trajectories must cover exactly"
    )


def read(arguments: Namespace, schema: str = "trajectories") -> tuple[Table, dict[str, Any]]:
    """The texts that the arguments name, and the condition they were generated under.

    Raises:
        UserError: a file that cannot be read, or texts that do not cover the prompts.
    """
    from draftscope import records

    prompt_ids = None
    if arguments.prompts:
        prompt_ids = records.read(arguments.prompts, "prompts").column("prompt_id").to_pylist()
    table = records.read(arguments.trajectories, schema, prompt_ids)
    return table, records.condition(table)


def load_target(
    arguments: Namespace, settings: Mapping[str, Any], generated: Mapping[str, Any]
) -> LoadedModel:
    """Load the target that the texts were generated with.

    Args:
        settings: device, dtype and attention.
        generated: condition of the texts.

    Raises:
        UserError: the model cannot be loaded, or the texts are another model's.
    """
    from draftscope import models

    target = models.load(
        arguments.target, settings["device"], settings["dtype"], settings["attention"]
    )
    require_same_target(generated, target.condition("target"), arguments.trajectories)
    return target


def require_same_target(
    generated: Mapping[str, Any], target: Mapping[str, Any], path: str | os.PathLike
) -> None:
    """Raises UserError unless the condition a text was generated under names this target.

    Args:
        generated: condition of the trajectories at `path`.
        target: condition of the loaded target (`LoadedModel.condition`).
    """
    for key in ("target", "target_revision", "tokenizer_sha256"):
        if key in generated and generated[key] != target[key]:
            raise UserError(
                f"{path} was generated with {key} {generated[key]}, but {key} is now {target[key]}"
            )


def condition(generated: Mapping[str, Any], target: LoadedModel) -> dict[str, Any]:
    """The condition of the texts, and how the target read them again."""
    again = target.condition("target")
    return {**generated, **{f"scoring_{key}": again[key] for key in CONDITION}}
