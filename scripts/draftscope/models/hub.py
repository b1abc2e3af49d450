"""A model of the Hugging Face hub: fetched once at a revision, loaded offline from the cache."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from draftscope.checkpoints import folder_of, load_tokenizer
from draftscope.downloads import check_address, fetching
from draftscope.errors import UserError
from draftscope.extras import method_of
from draftscope.models import folder as checkpoint
from draftscope.models.loaded import Weights, tokenizer_sha256

REQUIRED = {"id", "revision"}
OPTIONAL = {"quantization"}
# Configuration, tokenizer and safetensors of the top folder: no code, no pickles, no other
# formats, no second copy of the weights in a subfolder.
WANTED = ["*.json", "*.safetensors", "*.txt", "*.model", "*.jinja"]
UNWANTED = ["*/*", "consolidated*"]


def resolve(name: str, settings: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Fetch the files into the hub's cache and record the commit that the revision means.

    Raises:
        UserError: id or revision of the wrong form, hub unreachable and files not in the cache,
            no such model or revision, no safetensors, or another quantization than `settings`
            says.
    """
    from huggingface_hub import snapshot_download

    check_address(f"model {name}", settings["id"], settings["revision"])
    with fetching(f"model {name} ({settings['id']} at {settings['revision']})"):
        path = Path(
            snapshot_download(
                settings["id"],
                revision=settings["revision"],
                allow_patterns=WANTED,
                ignore_patterns=UNWANTED,
            )
        )
    if not re.fullmatch("[0-9a-f]{40}", path.name):
        raise RuntimeError(f"the hub's cache names {path} after no commit")
    _check_quantization(name, settings, path)
    checkpoint.check(path, name)
    return {
        "id": settings["id"],
        "asked_revision": settings["revision"],
        "revision": path.name,
        "tokenizer_sha256": tokenizer_sha256(load_tokenizer(path)),
    }


def _check_quantization(name: str, settings: Mapping[str, Any], path: Path) -> None:
    """The registry must say how a model is quantized: it shows missing packages before any job."""
    said, found = settings.get("quantization"), method_of(path / "config.json")
    if said != found:
        raise UserError(
            f"model {name} ({settings['id']}) has quantization {found or 'null'} in its "
            f"config.json, but {said or 'null'} in the registry of models; correct its row"
        )


def load_weights(
    record: Mapping[str, Any], dtype: torch.dtype | None, device: Any, attention: str
) -> Weights:
    """Load from the cache, at the recorded commit.

    Raises:
        UserError: the cache of this machine lacks the files.
    """
    return checkpoint.load(folder_of(record), record["name"], dtype, device, attention)
