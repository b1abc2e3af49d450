"""A DFlash drafter that was trained here, beside its record; it is of one target and no other.

Its file holds the network and its draft vocabulary, without embedding and head, which are the
target's. What it reads are hidden states of that target: the file and the record name the target,
its revision and the hash of its tokenizer, and nothing else is drafted for.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from draftscope.checkpoints import CONVERTED
from draftscope.drafters.dflash import DFlash, Shape
from draftscope.errors import UserError
from draftscope.models import folder as checkpoint
from draftscope.models.loaded import LoadedModel, Weights
from draftscope.writing import whole_folder

if TYPE_CHECKING:
    import numpy as np

REQUIRED = {"target", "layers", "block_size", "loss", "train"}
OPTIONAL = {
    "context", "feature_layers", "init", "init_layers", "normalised_features", "shifted", "slots",
    "vocabulary",
}  # fmt: skip
FILE = "draft.safetensors"
NETWORK, VOCABULARY = "network.", "draft_vocabulary"


@dataclass(frozen=True)
class BlockModel:
    """What `LoadedModel.model` is for a block drafter.

    `vocabulary` [W] holds the target's ids that it may propose, ascending. `parts` holds networks
    beside DFlash's own, by name.
    """

    network: DFlash
    vocabulary: Tensor
    parts: Mapping[str, nn.Module]

    def open_decoder(self, loaded: LoadedModel) -> Any:
        """Refuse: it reads its target's states, not a text."""
        raise UserError(
            f"draft {loaded.name} of kind {loaded.kind} reads the hidden states of its target and "
            "cannot run by itself; it drafts live for one text at a time"
        )


def resolve(name: str, settings: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Refuse: it is made by `scripts/train_block_draft.py`, from texts of its target."""
    raise UserError(f"model {name} is trained, not fetched: scripts/train_block_draft.py makes it")


def save(
    name: str,
    network: DFlash,
    vocabulary: np.ndarray | Sequence[int],
    folder: Path,
    target: LoadedModel,
    how: str,
    parts: Mapping[str, nn.Module] | None = None,
    more: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Write the weights to `folder/weights`, whole or not at all; returns the record's part.

    Args:
        vocabulary: ids that it may propose, ascending; all of the target's head are written as
            none at all.
        target: whose states it reads.
        how: what was done, for the revision.
        parts: further networks, by name; their weights are kept under it.
        more: what else file and record have to agree on.
    """
    about = {
        "learnt_from": {"name": target.name, "revision": target.revision},
        "tokenizer_sha256": target.tokenizer_sha256,
        "shape": network.shape.as_json(),
        "target_head": target.head_size,
        **(more or {}),
    }
    tensors = _tensors(network, parts or {})
    if len(vocabulary) != target.head_size:
        tensors[VOCABULARY] = torch.as_tensor(vocabulary, dtype=torch.long)
    final = Path(folder) / CONVERTED
    with whole_folder(final) as written:
        written.mkdir()
        _write(written / FILE, tensors, about)
    files = checkpoint.inventory(final)
    return about | {
        "revision": f"{how} sha256:{files[FILE]['sha256']}",
        "draft_vocabulary": len(vocabulary),
        "max_positions": target.max_positions,
        "files": files,
    }


def _tensors(network: DFlash, parts: Mapping[str, nn.Module]) -> dict[str, Tensor]:
    modules = {NETWORK: network} | {f"{name}.": part for name, part in parts.items()}
    return {
        prefix + key: value.detach().cpu().contiguous()
        for prefix, module in modules.items()
        for key, value in module.state_dict().items()
    }


def _write(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    from safetensors.torch import save_file

    # One entry: the order of several is not kept, and equal drafts are to be equal files.
    save_file(dict(tensors), path, {"draft": json.dumps(about, sort_keys=True)})
    with open(path, "rb+") as file:
        os.fsync(file.fileno())


def load_weights(
    record: Mapping[str, Any], dtype: torch.dtype | None, device: Any, attention: str
) -> Weights:
    """Load the network beside the record.

    Raises:
        UserError: a file is missing, damaged or has changed, or does not hold what the record says.
    """
    return Weights(load_network(record, dtype, {}), None, None)


def load_network(
    record: Mapping[str, Any], dtype: torch.dtype | None, parts: Mapping[str, nn.Module]
) -> BlockModel:
    """The network and `parts` with the weights of the record; errors as `load_weights`.

    Args:
        dtype: of the weights; None for float32, as they are kept.
        parts: new networks, by name, whose weights are loaded too.
    """
    tensors = _read(record)
    head = record["target_head"]
    vocabulary = tensors.pop(VOCABULARY, None)
    if vocabulary is None:
        vocabulary = torch.arange(head)
    elif not _ascends(vocabulary, head):
        raise damaged(record, f"its {VOCABULARY} is no ascending list of ids below {head}")
    with torch.device("meta"):
        network = DFlash(Shape.from_json(record["shape"]))
    wanted = _shapes({NETWORK: network} | {f"{name}.": part for name, part in parts.items()})
    found = {key: tuple(value.shape) for key, value in tensors.items()}
    for key in sorted(wanted.keys() | found.keys()):
        if wanted.get(key) != found.get(key):
            said = f"holds {key} as {found.get(key, 'nothing')}, its shape asks for"
            raise damaged(record, f"it {said} {wanted.get(key, 'nothing')}")
    for prefix, module in ((NETWORK, network), *((f"{n}.", part) for n, part in parts.items())):
        own = {key.removeprefix(prefix): value for key, value in tensors.items()}
        # Copied out of the file: where it lies there moves the last bits of what is computed.
        wide = dtype or torch.float32
        own = {key: own[key].to(wide, copy=True) for key in module.state_dict()}
        module.load_state_dict(own, assign=True)
        module.eval().requires_grad_(False)
    return BlockModel(network, vocabulary, dict(parts))


def _ascends(vocabulary: Tensor, head: int) -> bool:
    if vocabulary.dim() != 1 or vocabulary.dtype != torch.long or not len(vocabulary):
        return False
    inside = 0 <= int(vocabulary[0]) and int(vocabulary[-1]) < head
    return inside and bool((vocabulary.diff() > 0).all())


def _shapes(modules: Mapping[str, nn.Module]) -> dict[str, tuple[int, ...]]:
    return {
        prefix + key: tuple(value.shape)
        for prefix, module in modules.items()
        for key, value in module.state_dict().items()
    }


def _read(record: Mapping[str, Any]) -> dict[str, Tensor]:
    from safetensors import SafetensorError, safe_open

    folder = Path(record["location"]) / CONVERTED
    checkpoint.check_inventory(folder, record)
    try:
        with safe_open(folder / FILE, framework="pt") as file:
            about = json.loads((file.metadata() or {})["draft"])
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, KeyError, json.JSONDecodeError) as error:
        raise damaged(record, f"it cannot be read ({error})") from error
    for key, value in about.items():
        if record.get(key) != value:
            raise damaged(record, f"it holds {key} {value}, its record {record.get(key)}")
    return tensors


def damaged(record: Mapping[str, Any], why: str) -> UserError:
    """What to say of a file of weights that is not the one of its record."""
    path = Path(record["location"]) / CONVERTED / FILE
    return UserError(
        f"model {record['name']}: {path} is damaged or belongs to another record: {why}; delete "
        "its model.json and run again"
    )


def assemble(
    record: Mapping[str, Any], weights: Weights, device: torch.device | str, attention: str
) -> LoadedModel:
    """Put the networks on their device; where the target is spread over GPUs, on the first."""
    model = weights.model
    where = torch.device("cuda" if device == "balanced" else device)
    for module in (model.network, *model.parts.values()):
        module.to(where)
    return LoadedModel(
        name=record["name"],
        kind=record["kind"],
        model=BlockModel(model.network, model.vocabulary.to(where), model.parts),
        tokenizer=None,
        eos_ids=frozenset(),
        bos_id=None,
        pad_id=0,
        vocabulary_size=0,
        head_size=record["target_head"],
        max_positions=record["max_positions"],
        revision=record["revision"],
        tokenizer_sha256=record["tokenizer_sha256"],
        dtype=str(next(model.network.parameters()).dtype).removeprefix("torch."),
        device=where,
        quantization=None,
        attention=attention,
        settings=record,
    )


def check_target(draft: LoadedModel, target: LoadedModel) -> None:
    """Raises UserError unless a block drafter was made for this very target."""
    own = draft.settings["learnt_from"]
    made_for = own["name"], own["revision"], draft.tokenizer_sha256
    asked = target.name, target.revision, target.tokenizer_sha256
    for what, ours, theirs in zip(("name", "revision", "tokenizer"), made_for, asked, strict=True):
        if ours != theirs:
            raise UserError(
                f"draft {draft.name} reads the hidden states of {own['name']} and was trained for "
                f"the target with {what} {ours}, not for {target.name} with {what} {theirs}; train "
                "it for this target"
            )
