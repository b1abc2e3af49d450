"""Tiny targets and block drafters for tests: a few tokens, no tokenizer, random weights."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from draftscope.drafters.dflash import DFlash, Shape
from draftscope.drafters.retrace import ReTrace
from draftscope.models import LoadedModel, dflash, read_record, retrace
from transformers import LlamaConfig, LlamaForCausalLM

FEATURES = (0, 2)


def tiny_target(
    vocabulary: int = 6, *, eos=frozenset(), max_positions: int = 256, seed: int = 0, name="target"
) -> LoadedModel:
    """A random Llama of three layers, as a loaded model; its logits are far from uniform."""
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=3,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=max_positions,
        initializer_range=0.3,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config).eval().requires_grad_(False)
    return LoadedModel(
        name=name,
        kind="local",
        model=model,
        tokenizer=None,
        eos_ids=frozenset(eos),
        bos_id=None,
        pad_id=0,
        vocabulary_size=vocabulary,
        head_size=vocabulary,
        max_positions=max_positions,
        revision=f"seed {seed}",
        tokenizer_sha256="0" * 64,
        dtype="float32",
        device=torch.device("cpu"),
        quantization=None,
        attention="sdpa",
    )


def tiny_network(
    target: LoadedModel,
    block_size: int = 5,
    seed: int = 1,
    *,
    own: bool = False,
    looked_up: bool = False,
) -> DFlash:
    """A random drafter of the target: two layers, states of two of the target's.

    `own`: each with a context of its own, one the input embeddings, and shifted. `looked_up`: slots
    hold what prompt lookup proposes.
    """
    width = target.model.config.hidden_size
    shape = Shape(
        width=width,
        layers=2,
        heads=2,
        kv_heads=1,
        head_size=8,
        feed_forward=24,
        block_size=block_size,
        feature_layers=(-1, 1) if own else FEATURES,
        rope_theta=10000.0,
        norm_eps=1e-5,
        normalised_heads=True,
        own_context=own,
        shifted=own,
        looked_up=looked_up,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = DFlash(shape)
        for weight in network.parameters():
            if weight.dim() == 2:  # wide enough that what it says depends on what it sees
                torch.nn.init.normal_(weight, std=0.5)
        torch.nn.init.normal_(network.mask_embedding, std=0.3)
    return network


def row_of(layers, block_size=5, seed=0, **more):
    """A row of kind dflash of the registry, as far as its network asks."""
    settings = {"layers": layers, "block_size": block_size, "feature_layers": None}
    settings |= {"normalised_features": False, "context": "fused", "shifted": False}
    settings |= {"slots": "masks", "init": "target", "init_layers": None, "train": {"seed": seed}}
    return settings | more


def saved(
    folder: Path,
    target: LoadedModel,
    network: DFlash,
    vocabulary=None,
    memory: ReTrace | None = None,
) -> LoadedModel:
    """The drafter written to a folder and read back, with a memory or without."""
    folder.mkdir(parents=True, exist_ok=True)
    ids = list(range(target.head_size)) if vocabulary is None else list(vocabulary)
    if memory is None:
        made, kind = dflash.save("draft", network, ids, folder, target, "test"), dflash
    else:
        base = {"name": "base", "revision": "of the base"}
        made = retrace.save("draft", network, memory, ids, folder, target, base, "test")
        kind = retrace
    record = {"name": "draft", "kind": "dflash" if memory is None else "retrace", **made}
    (folder / "model.json").write_text(json.dumps(record), encoding="utf-8")
    return opened(folder, kind)


def opened(folder: Path, kind=dflash) -> LoadedModel:
    """The drafter of a folder."""
    record = read_record(folder / "model.json")
    weights = kind.load_weights(record, None, torch.device("cpu"), "sdpa")
    return kind.assemble(record, weights, torch.device("cpu"), "sdpa")
