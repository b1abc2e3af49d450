"""Tiny GGUF files for tests: the weights of `tiny.tiny_model_folder` as llama.cpp reads them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from gguf import GGUFWriter, LlamaFileType, TokenType
from safetensors.torch import load_file

LAYER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def write_gguf(
    folder: Path,
    path: Path,
    *,
    swap: tuple[int, int] | None = None,
    merges: slice | None = None,
    tensors: int = 0,
) -> Path:
    """Write the Llama of a folder as a float32 GGUF file.

    Args:
        swap: two ids whose strings change places.
        merges: the part of the merges that is written, in that order.
        tensors: most of them in one file; 0 splits nothing.
    """
    config = json.loads((folder / "config.json").read_text())
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    writer = GGUFWriter(path, "llama", split_max_tensors=tensors)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_rope_dimension_count(config["hidden_size"] // heads)
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_file_type(LlamaFileType.ALL_F32)
    _add_tokenizer(writer, folder, swap, merges)
    for name, weight in load_file(folder / "model.safetensors").items():
        if "q_proj" in name or "k_proj" in name:
            weight = _interleaved(weight, heads if "q_proj" in name else kv_heads)
        writer.add_tensor(_name(name), weight.float().numpy())
    return _finish(writer, path)


def write_recurrent(folder: Path, path: Path, width: int = 32, state: int = 4) -> Path:
    """A Mamba of one layer, with the tokenizer of a folder: its memory is a recurrent state."""
    inner, rank = 2 * width, 2
    writer = GGUFWriter(path, "mamba")
    writer.add_context_length(64)
    writer.add_embedding_length(width)
    writer.add_block_count(1)
    writer.add_feed_forward_length(0)
    writer.add_head_count(0)
    writer.add_ssm_conv_kernel(4)
    writer.add_ssm_inner_size(inner)
    writer.add_ssm_state_size(state)
    writer.add_ssm_time_step_rank(rank)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_file_type(LlamaFileType.ALL_F32)
    _add_tokenizer(writer, folder, None, None)
    size = json.loads((folder / "config.json").read_text())["vocab_size"]
    rng = np.random.default_rng(0)
    for name, shape in {
        "token_embd.weight": (size, width),
        "output_norm.weight": (width,),
        "output.weight": (size, width),
        "blk.0.attn_norm.weight": (width,),
        "blk.0.ssm_in.weight": (2 * inner, width),
        "blk.0.ssm_conv1d.weight": (inner, 4),
        "blk.0.ssm_conv1d.bias": (inner,),
        "blk.0.ssm_x.weight": (rank + 2 * state, inner),
        "blk.0.ssm_dt.weight": (inner, rank),
        "blk.0.ssm_dt.bias": (inner,),
        "blk.0.ssm_a": (inner, state),
        "blk.0.ssm_d": (inner,),
        "blk.0.ssm_out.weight": (width, inner),
    }.items():
        writer.add_tensor(name, rng.normal(0, 0.2, shape).astype(np.float32))
    return _finish(writer, path)


def row(path: Path, probes: Sequence[str], tokenizer) -> dict:
    """The registry row of a GGUF file whose tokenizer this is."""
    ids = {text: tokenizer.encode(text, add_special_tokens=False) for text in probes}
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return {"kind": "gguf", "path": str(path), "sha256": digest, "tokenizer_probes": ids}


def _add_tokenizer(writer, folder: Path, swap, merges) -> None:
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    strings = sorted(tokenizer["model"]["vocab"], key=tokenizer["model"]["vocab"].get)
    special = {added["content"] for added in tokenizer["added_tokens"]}
    if swap:
        a, b = swap
        strings[a], strings[b] = strings[b], strings[a]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(strings)
    writer.add_token_types(
        [TokenType.CONTROL if text in special else TokenType.NORMAL for text in strings]
    )
    pairs = [" ".join(pair) for pair in tokenizer["model"]["merges"]]
    writer.add_token_merges(pairs[merges or slice(None)])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_pad_token_id(2)
    writer.add_unk_token_id(2)
    writer.add_add_bos_token(False)


def _name(name: str) -> str:
    fixed = {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.norm.weight": "output_norm.weight",
        "lm_head.weight": "output.weight",
    }
    if name in fixed:
        return fixed[name]
    _, _, layer, rest = name.split(".", 3)
    return f"blk.{layer}.{LAYER[rest.removesuffix('.weight')]}.weight"


def _interleaved(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """Rows of a head as llama.cpp rotates them: pairs side by side instead of half a head apart."""
    rows, width = weight.shape
    halves = weight.reshape(heads, 2, rows // heads // 2, width)
    return halves.transpose(1, 2).reshape(rows, width).contiguous()


def _finish(writer, path: Path) -> Path:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
