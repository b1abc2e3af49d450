"""A model that is ready to run, with everything that belongs to the condition of its results."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from draftscope.errors import UserError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True)
class Weights:
    """What the module of a kind hands over: a causal language model and its tokenizer.

    A model-free drafter has neither. `quantization` names how the weights are, or were,
    quantized; None for plain weights. `kernel` names what multiplies weights that are still
    quantized when they are used; None for plain ones.
    """

    model: PreTrainedModel | None
    tokenizer: PreTrainedTokenizerBase | None
    quantization: str | None
    kernel: str | None = None


@dataclass(frozen=True)
class LoadedModel:
    """A causal language model in evaluation mode, its tokenizer, and what they are.

    `model` and `tokenizer` are None for prompt lookup. `head_size` is the width of the logits,
    at least `vocabulary_size` (the tokenizer's length) in models with padded heads. `settings`
    is the record the model was loaded from.
    """

    name: str
    kind: str
    model: Any
    tokenizer: Any
    eos_ids: frozenset[int]
    bos_id: int | None
    pad_id: int
    vocabulary_size: int
    head_size: int
    max_positions: int | None
    revision: str
    tokenizer_sha256: str | None
    dtype: str | None
    device: torch.device
    quantization: str | None
    attention: str | None
    kernel: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def condition(self, prefix: str) -> dict[str, Any]:
        """The model's part of a condition; `prefix` is "target" or "draft".

        A target also fixes the tokenizer, the attention implementation and the device type. The
        kernel stands only where there is one, for models whose weights stay quantized.
        """
        if prefix == "target":
            kernel = {"kernel": self.kernel} if self.kernel else {}
            return {
                "target": self.name,
                "target_revision": self.revision,
                "dtype": self.dtype,
                "quantization": self.quantization,
                **kernel,
                "tokenizer_sha256": self.tokenizer_sha256,
                "attention": self.attention,
                "device_type": self.device.type,
            }
        kernel = {f"{prefix}_kernel": self.kernel} if self.kernel else {}
        return {
            prefix: self.name,
            f"{prefix}_revision": self.revision,
            f"{prefix}_dtype": self.dtype,
            f"{prefix}_quantization": self.quantization,
            **kernel,
        }


def assemble(
    record: Mapping[str, Any], weights: Weights, device: torch.device | str, attention: str
) -> LoadedModel:
    """Put a loaded model on its device and read off its identity; checks data types."""
    common = {"name": record["name"], "kind": record["kind"], "revision": record["revision"]}
    if weights.model is None:
        return LoadedModel(
            **common,
            model=None,
            tokenizer=None,
            eos_ids=frozenset(),
            bos_id=None,
            pad_id=0,
            vocabulary_size=0,
            head_size=0,
            max_positions=None,
            tokenizer_sha256=None,
            dtype=None,
            device=torch.device("cpu"),
            quantization=None,
            attention=None,
            settings=record,
        )
    model, tokenizer = weights.model, weights.tokenizer
    digest = check_tokenizer(record, tokenizer)
    eos_ids = end_of_text_ids(model.generation_config, tokenizer)
    pad_id = tokenizer.pad_token_id
    if pad_id is None:
        pad_id = min(eos_ids, default=0)
    _plain_generation(model, eos_ids, tokenizer.bos_token_id, pad_id)
    if device != "balanced":
        model.to(device)
    model.eval().requires_grad_(False)
    return LoadedModel(
        **common,
        model=model,
        tokenizer=tokenizer,
        eos_ids=eos_ids,
        bos_id=tokenizer.bos_token_id,
        pad_id=pad_id,
        vocabulary_size=len(tokenizer),
        head_size=_head_size(model),
        max_positions=getattr(model.config.get_text_config(), "max_position_embeddings", None),
        tokenizer_sha256=digest,
        dtype=str(model.dtype).removeprefix("torch."),
        device=model.get_input_embeddings().weight.device,
        quantization=weights.quantization,
        attention=getattr(model.config, "_attn_implementation", attention),
        kernel=weights.kernel,
        settings=record,
    )


def check_tokenizer(record: Mapping[str, Any], tokenizer: Any) -> str:
    """The hash of a tokenizer, which must be the one that its record holds.

    Raises:
        UserError: another hash.
    """
    digest = tokenizer_sha256(tokenizer)
    recorded = record.get("tokenizer_sha256", digest)
    if recorded != digest:
        raise UserError(
            f"the tokenizer of model {record['name']} has hash {digest[:12]} but its record says "
            f"{recorded[:12]}: the files or the tokenizers package changed; resolve it again"
        )
    return digest


def _head_size(model: Any) -> int:
    head = model.get_output_embeddings()
    return int(head.weight.shape[0] if head is not None else model.config.vocab_size)


def _plain_generation(model: Any, eos: frozenset[int], bos: int | None, pad: int) -> None:
    """Drop the sampling defaults a checkpoint ships with.

    Some carry a repetition penalty or top-k that `generate` would apply without being asked,
    greedy decoding included; the decoding law of a run comes from its configuration alone.
    """
    from transformers import GenerationConfig

    model.generation_config = GenerationConfig(
        eos_token_id=sorted(eos) or None, bos_token_id=bos, pad_token_id=pad
    )


def end_of_text_ids(generation_config: Any, tokenizer: Any) -> frozenset[int]:
    """Union of the end-of-text ids of the generation configuration and of the tokenizer.

    A checkpoint without generation_config.json gets one that transformers derives from its
    config.json, so that one counts in its place.
    """
    found: set[int] = set()
    for value in (getattr(generation_config, "eos_token_id", None), tokenizer.eos_token_id):
        if value is not None:
            found |= set(value) if isinstance(value, Iterable) else {value}
    return frozenset(int(item) for item in found)


def tokenizer_sha256(tokenizer: Any) -> str:
    """Hash of what a tokenizer does: vocabulary, merges, normalizer, added and special tokens.

    Padding and truncation are left out (they are settings of a call), and so is the chat
    template (each row carries the hash of its rendered prompt).
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        content = json.loads(backend.to_str())
        content.pop("padding", None)
        content.pop("truncation", None)
    else:
        content = {"vocabulary": tokenizer.get_vocab()}
    content["special_tokens"] = {key: str(v) for key, v in tokenizer.special_tokens_map.items()}
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def choose_device(device: str) -> torch.device | str:
    """The torch device for "auto" or a device name; "balanced" stays what it is.

    Raises:
        UserError: unknown, or not on this machine.
    """
    cuda, mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    if device == "auto":
        return torch.device("cuda" if cuda else "mps" if mps else "cpu")
    if device == "balanced":
        if not cuda:
            raise UserError("device 'balanced' spreads a model over GPUs and finds none; use auto")
        return device
    try:
        chosen = torch.device(device)
    except RuntimeError:
        raise UserError(f"device {device!r} is unknown; use auto, cuda, mps or cpu") from None
    if (chosen.type == "cuda" and not cuda) or (chosen.type == "mps" and not mps):
        raise UserError(f"device {device!r} is not on this machine; use auto or cpu")
    return chosen


def choose_dtype(dtype: str, device: torch.device | str) -> torch.dtype | None:
    """The torch data type of a name; None leaves the choice to the checkpoint.

    Raises:
        UserError: unknown name.
    """
    if dtype == "auto":
        return torch.float32 if getattr(device, "type", "") == "cpu" else None
    if dtype not in DTYPES:
        raise UserError(f"dtype {dtype!r} is unknown; use auto, {', '.join(DTYPES)}")
    return DTYPES[dtype]
