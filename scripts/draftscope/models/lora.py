"""A draft with a low-rank adapter that was trained here (Hu et al. 2021, arXiv:2106.09685, eq. 3).

The adapter alone is kept, beside the record; it is merged into the base's weights when the model
is loaded, in float32, so that the draft costs what its base costs.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from draftscope.checkpoints import base_of, made_from
from draftscope.errors import UserError
from draftscope.models import folder as checkpoint
from draftscope.models.loaded import Weights
from draftscope.writing import whole_folder

REQUIRED = {"base", "target", "weighting", "emphasis", "rank", "alpha", "train"}
OPTIONAL = {"modules"}
ADAPTER = "adapter"
FILES = ("adapter_config.json", "adapter_model.safetensors")


def resolve(name: str, settings: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Refuse: a trained model is made by `scripts/train_draft.py`, from texts of its target."""
    raise UserError(f"model {name} is trained, not fetched: scripts/train_draft.py makes it")


def add(model: Any, settings: Mapping[str, Any], seed: int, name: str) -> Any:
    """Put fresh adapters into the linear layers of a model, in place; only they can be trained.

    A starts at random from `seed` and B at zero, so that the model computes what it did.

    Returns:
        peft's wrapper of the model, which `save` takes.

    Raises:
        UserError: no layer of such a name.
    """
    from peft import LoraConfig, get_peft_model

    plan = LoraConfig(
        r=settings["rank"],
        lora_alpha=settings["alpha"],
        lora_dropout=0.0,
        target_modules=settings.get("modules") or "all-linear",
        task_type="CAUSAL_LM",
    )
    with torch.random.fork_rng(devices=[]), _quiet():
        torch.manual_seed(seed)
        try:
            return get_peft_model(model, plan)
        except ValueError as error:
            raise UserError(f"model {name}: {str(error).splitlines()[0]}") from error


def save(
    name: str, adapted: Any, folder: Path, base: Mapping[str, Any], how: str
) -> dict[str, Any]:
    """Write the adapter to `folder/adapter`, whole or not at all; returns the record's part."""
    final = Path(folder) / ADAPTER
    with whole_folder(final) as target:
        written = target.with_name("written")
        for plan in adapted.peft_config.values():  # a path of this machine otherwise
            plan.base_model_name_or_path = base["name"]
        adapted.save_pretrained(str(written), save_embedding_layers=False)
        target.mkdir()
        for file in FILES:
            (written / file).rename(target / file)
    files = checkpoint.inventory(final)
    return {
        "revision": f"{base['revision']} {how} sha256:{files[FILES[1]]['sha256']}",
        "tokenizer_sha256": base.get("tokenizer_sha256"),
        **made_from(base, folder),
        "files": files,
    }


def load_weights(
    record: Mapping[str, Any], dtype: torch.dtype | None, device: Any, attention: str
) -> Weights:
    """Load the base and merge the adapter into its weights.

    Raises:
        UserError: a file is missing or has changed.
    """
    from peft import PeftModel

    from draftscope.models import kind_module

    base, adapter = base_of(record), Path(record["location"]) / ADAPTER
    checkpoint.check_inventory(adapter, record)
    # In a narrow type the small update would be rounded away twice.
    wide = None if dtype is None else torch.float32
    weights = kind_module(base["kind"]).load_weights(base, wide, device, attention)
    with _quiet():
        model = PeftModel.from_pretrained(weights.model, str(adapter)).merge_and_unload()
    if dtype is not None:
        for parameter in model.parameters():  # buffers, such as rotary angles, stay wide
            parameter.data = parameter.data.to(dtype)
    return Weights(model, weights.tokenizer, weights.quantization, weights.kernel)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the warnings that peft draws from transformers by names that are about to change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        yield
