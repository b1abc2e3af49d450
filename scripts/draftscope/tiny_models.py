"""Two small random models, for measuring what a loop costs beside its matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

from draftscope.models import LoadedModel

NOISE = 0.1  # of the weights' own spread: some two thirds of the greedy tokens stay


@dataclass(frozen=True)
class TinyPrompt:
    """Token ids in the place of a rendered prompt."""

    token_ids: Sequence[int]
    sha256: str = ""


def tiny_pair(
    vocabulary: int, *, layers: int, width: int, prompts: int, prompt_tokens: int = 32
) -> tuple[LoadedModel, LoadedModel, list[tuple[str, TinyPrompt]]]:
    """Target, draft and prompts; the draft is the target with noise on its weights.

    Neither has an end-of-text token, so that every text runs to its budget.
    """
    generator = torch.Generator().manual_seed(0)
    target, draft = (_model(vocabulary, layers, width) for _ in range(2))
    with torch.no_grad():
        for ours, theirs in zip(target.parameters(), draft.parameters(), strict=True):
            if ours.dim() > 1:
                ours.normal_(0, 0.2, generator=generator)
            noise = torch.randn(ours.shape, generator=generator)
            theirs.copy_(ours + NOISE * 0.2 * noise if ours.dim() > 1 else ours)
    rows = [
        (
            f"tiny-{number}",
            TinyPrompt(
                torch.randint(3, vocabulary, (prompt_tokens,), generator=generator).tolist()
            ),
        )
        for number in range(prompts)
    ]
    return _loaded("tiny", target, vocabulary), _loaded("tiny-noisy", draft, vocabulary), rows


def _model(vocabulary: int, layers: int, width: int) -> LlamaForCausalLM:
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        tie_word_embeddings=False,
        bos_token_id=0,
        eos_token_id=None,
        pad_token_id=2,
    )
    model = LlamaForCausalLM(config).eval()
    model.generation_config = GenerationConfig(bos_token_id=0, pad_token_id=2)
    return model


def _loaded(name: str, model: Any, vocabulary: int) -> LoadedModel:
    return LoadedModel(
        name=name,
        kind="local",
        model=model,
        tokenizer=None,
        eos_ids=frozenset(),
        bos_id=0,
        pad_id=2,
        vocabulary_size=vocabulary,
        head_size=vocabulary,
        max_positions=512,
        revision="random",
        tokenizer_sha256=None,
        dtype="float32",
        device=torch.device("cpu"),
        quantization=None,
        attention="sdpa",
    )
