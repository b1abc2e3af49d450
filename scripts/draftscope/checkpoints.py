"""Where the files of a resolved model lie, and its tokenizer alone: no weights, no torch."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from draftscope.errors import UserError

CONVERTED = "weights"  # folder of converted files, beside the record
# Kinds without a model, in words: they propose from the text alone.
TEXT_DRAFTS = {"prompt_lookup": "prompt lookup", "bigram": "a bigram draft"}
# Kinds that propose a block from their target's hidden states, in words.
BLOCK_DRAFTS = {"dflash": "a DFlash drafter", "retrace": "a ReTrace drafter"}
READ_SUFFIXES = (".json", ".safetensors", ".jinja", ".txt", ".model")


def read_record(source: Mapping[str, Any] | str | Path) -> dict[str, Any]:
    """A record with its `location`, the folder that its relative paths refer to.

    Args:
        source: path of a model.json, or a record as `models.resolve` returned it.

    Raises:
        UserError: no such file, or not a record.
    """
    if isinstance(source, Mapping):
        record = dict(source)
    else:
        path = Path(source)
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise UserError(f"{path} does not exist: resolve the model first") from None
        except json.JSONDecodeError as error:
            raise UserError(
                f"{path} is not valid JSON ({error}); delete it and run again"
            ) from None
        record["location"] = str(path.parent)
    missing = [key for key in ("name", "kind", "revision", "location") if key not in record]
    if missing:
        raise UserError(f"a model record lacks {', '.join(missing)}; delete it and run again")
    return record


def base_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record that a derived model was made from."""
    location = os.path.normpath(os.path.join(record["location"], record["base_location"]))
    return dict(record["base"]) | {"location": location}


def made_from(base: Mapping[str, Any], folder: str | os.PathLike) -> dict[str, Any]:
    """The part of a record in `folder` by which `base_of` finds what it was made from."""
    return {
        "base": {key: value for key, value in base.items() if key != "location"},
        "base_location": os.path.relpath(base["location"], folder),
    }


def require_base(name: str, settings: Mapping[str, Any], base: Mapping[str, Any]) -> None:
    """Raises UserError unless `base` is the record that the settings of a model name."""
    if base["name"] != settings["base"]:
        raise UserError(f"model {name}: its base is {settings['base']}, not {base['name']}")


def folder_of(record: Mapping[str, Any]) -> Path:
    """The folder that holds a model's tokenizer and, unless it is derived, its weights.

    Raises:
        UserError: the model has no files, or a hub model is not in this machine's cache.
    """
    kind, name = record["kind"], record["name"]
    if "base" in record:
        return folder_of(base_of(record))
    if kind in ("gguf", "package_gguf", "gptq", "distilled"):
        return Path(record["location"]) / CONVERTED
    if kind == "local":  # a relative path starts at the working directory
        return Path(record["path"])
    if kind == "hub":
        return _cached(record)
    raise UserError(f"model {name} of kind {kind} has no files of its own")


def _cached(record: Mapping[str, Any]) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        path = snapshot_download(record["id"], revision=record["revision"], local_files_only=True)
    except LocalEntryNotFoundError:
        raise UserError(
            f"model {record['name']} ({record['id']}) is not in this machine's cache; set HF_HOME "
            "to the cache it was fetched into, or delete its model.json and run again"
        ) from None
    return Path(path)


def local_files(path: str | Path) -> list[Path]:
    """Files of a checkpoint folder that loading may read: configuration, tokenizer, safetensors.

    Returns:
        Paths sorted by name; an empty list when there is no such folder.
    """
    path = Path(path)
    if not path.is_dir():
        return []
    return sorted(
        file
        for file in path.iterdir()
        if file.suffix in READ_SUFFIXES and file.name != "model.json" and file.is_file()
    )


def max_positions(record: Mapping[str, Any]) -> int | None:
    """Longest text that a resolved model reads, in tokens; None where nothing bounds it.

    Args:
        record: as `read_record` returns it. One that lacks the value is answered from the
            model's configuration.

    Raises:
        UserError: the record lacks the value and the model's files are gone.
    """
    if "max_positions" in record:
        return record["max_positions"]
    if record["kind"] in TEXT_DRAFTS:
        return None
    if "base" in record:
        return max_positions(base_of(record))
    from transformers import AutoConfig

    folder = folder_of(record)
    if not (folder / "config.json").is_file():
        raise UserError(f"model {record['name']}: {folder} lacks config.json")
    config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    # Configurations name it differently; transformers maps their names to this one.
    return getattr(config.get_text_config(), "max_position_embeddings", None)


def load_tokenizer(source: Mapping[str, Any] | str | Path) -> Any:
    """The tokenizer of a resolved model, without network access.

    Args:
        source: path of a model.json or of a checkpoint folder, or a record.

    Raises:
        UserError: as `read_record` and `folder_of`, or the folder is gone.
    """
    from transformers import AutoTokenizer

    if isinstance(source, Mapping) or not Path(source).is_dir():
        record = read_record(source)
        source = folder_of(record)
        if not source.is_dir():
            raise UserError(f"model {record['name']}: its folder {source} does not exist")
    return AutoTokenizer.from_pretrained(source, local_files_only=True, trust_remote_code=False)
