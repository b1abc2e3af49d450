"""Models of published shapes with random weights: nothing to download, and as costly to run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from draftscope.models.loaded import DTYPES, LoadedModel
from draftscope.models.vocabulary import Alignment


@dataclass(frozen=True)
class Shape:
    """The architecture of a Qwen2 model; `vocabulary` is the width of its head."""

    width: int
    inner: int
    layers: int
    heads: int
    kv_heads: int
    vocabulary: int
    tied: bool


@dataclass(frozen=True)
class Size:
    """What is run at one size: the pair, how much text, and in which data type.

    `ids` is the length of the tokenizer that both heads are wider than; `positions` how long the
    text is whose scoring is measured.
    """

    target: Shape
    draft: Shape
    ids: int
    dtype: str
    positions: int
    prompts: int
    prompt_tokens: tuple[int, int]
    budget: int
    attentions: Sequence[str] = field(default=("sdpa", "eager", "flash_attention_2"))


SIZES = {
    # Qwen2.5-7B-Instruct and Qwen2.5-1.5B-Instruct.
    "published": Size(
        target=Shape(3584, 18944, 28, 28, 4, 152064, tied=False),
        draft=Shape(1536, 8960, 28, 12, 2, 151936, tied=True),
        ids=151665,
        dtype="bfloat16",
        positions=16_000,
        prompts=64,
        prompt_tokens=(20, 400),
        budget=128,
    ),
    "tiny": Size(
        target=Shape(64, 128, 2, 4, 2, 1040, tied=False),
        draft=Shape(32, 64, 2, 4, 2, 1024, tied=True),
        ids=1000,
        dtype="float32",
        positions=200,
        prompts=4,
        prompt_tokens=(3, 9),
        budget=12,
    ),
}


class NoText:
    """In the place of a tokenizer, where only ids matter."""

    def __init__(self, ids: int) -> None:
        self._ids = ids

    def __len__(self) -> int:
        return self._ids

    def decode(self, ids: Sequence[int], **_: Any) -> str:
        return " ".join(map(str, ids))


def random_model(
    name: str,
    shape: Shape,
    ids: int,
    device: torch.device,
    dtype: str,
    attention: str = "sdpa",
    layers: int | None = None,
) -> LoadedModel:
    """A Qwen2 model that has no end-of-text token, so that every text runs to its budget."""
    from transformers import AutoModelForCausalLM, GenerationConfig, Qwen2Config

    config = Qwen2Config(
        vocab_size=shape.vocabulary,
        hidden_size=shape.width,
        intermediate_size=shape.inner,
        num_hidden_layers=layers or shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        max_position_embeddings=32768,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6},
        tie_word_embeddings=shape.tied,
        use_sliding_window=False,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(len(name))
        with torch.device(device):
            model = AutoModelForCausalLM.from_config(
                config, dtype=DTYPES[dtype], attn_implementation=attention
            )
    model = model.to(device).eval().requires_grad_(False)
    model.generation_config = GenerationConfig(pad_token_id=0)
    return LoadedModel(
        name=name,
        kind="random",
        model=model,
        tokenizer=NoText(ids),
        eos_ids=frozenset(),
        bos_id=None,
        pad_id=0,
        vocabulary_size=ids,
        head_size=shape.vocabulary,
        max_positions=config.max_position_embeddings,
        revision="random",
        tokenizer_sha256=None,
        dtype=dtype,
        device=device,
        quantization=None,
        attention=attention,
    )


def alignment(size: Size) -> Alignment:
    """Both models know the same ids, in heads of different widths."""
    heads = size.target.vocabulary, size.draft.vocabulary
    return Alignment(size.ids, size.ids, *heads)


@dataclass(frozen=True)
class Prompt:
    """Token ids in the place of a rendered prompt."""

    token_ids: Sequence[int]
    sha256: str = ""


def random_prompts(size: Size) -> list[tuple[str, Prompt]]:
    """Prompts of uneven lengths, from the shortest to the longest."""
    chance = torch.Generator().manual_seed(1)
    shortest, longest = size.prompt_tokens
    step = (longest - shortest) / max(size.prompts - 1, 1)
    return [
        (f"p{n}", Prompt(random_ids(size, round(shortest + n * step), chance)))
        for n in range(size.prompts)
    ]


def random_ids(size: Size, count: int, chance: torch.Generator) -> list[int]:
    return torch.randint(size.ids, (count,), generator=chance).tolist()
