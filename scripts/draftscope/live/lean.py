"""Decoders of the Llama family without the bookkeeping of a general framework.

One token of a small model is a few dozen matrix products, and around them transformers spends
several times their cost on masks, decorators and copies of the cache. This decoder reads the same
weights and does the arithmetic of Llama, Mistral, Qwen2 and Qwen3 alone. Whether it really is the
same arithmetic is not taken on trust: `lean_decoder` compares it with the model on a probe that
prefills, reads a block, steps back and reads on, and declines where they differ.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from draftscope.live.probe import probe, tolerance

if TYPE_CHECKING:
    from draftscope.models import LoadedModel

log = logging.getLogger(__name__)

MODEL_TYPES = ("llama", "mistral", "qwen2", "qwen3")
# Rotations that depend on the length of the text would have to be redone as it grows.
_ROTATIONS = ("default", "linear", "llama3", "yarn")
_BLOCK = 64  # with a past, longer inputs are read in parts, which keeps the masks small
_ROOM = 256


class _Layer:
    """The weights of one layer, and its keys and values [room, heads, width] so far."""

    def __init__(self, layer: Any) -> None:
        attention, mlp = layer.self_attn, layer.mlp
        self.norm, self.mlp_norm = (
            layer.input_layernorm.weight,
            layer.post_attention_layernorm.weight,
        )
        self.q, self.k, self.v = (
            (p.weight, p.bias) for p in (attention.q_proj, attention.k_proj, attention.v_proj)
        )
        self.o = (attention.o_proj.weight, attention.o_proj.bias)
        self.q_norm = getattr(getattr(attention, "q_norm", None), "weight", None)
        self.k_norm = getattr(getattr(attention, "k_norm", None), "weight", None)
        self.gate, self.up, self.down = (
            (p.weight, p.bias) for p in (mlp.gate_proj, mlp.up_proj, mlp.down_proj)
        )
        self.activation = mlp.act_fn
        self.keys = self.values = torch.empty(0)
        self.keeps_output, self.output = False, None  # for who reads the states between layers


class LeanDecoder:
    """Behind the `Decoder` interface, a model of the Llama family; see `lean_decoder`."""

    engine = "lean"

    def __init__(self, loaded: LoadedModel) -> None:
        model, config = loaded.model, loaded.model.config
        body = model.base_model
        self.name, self.device = loaded.name, loaded.device
        self.width, self.max_positions = loaded.head_size, loaded.max_positions
        self.length = 0
        self._embedding = body.embed_tokens.weight
        self._layers = [_Layer(layer) for layer in body.layers]
        self._norm, self._rotary = body.norm.weight, body.rotary_emb
        head = model.get_output_embeddings()
        self._head = (head.weight, head.bias)
        self._epsilon = config.rms_norm_eps
        attention = body.layers[0].self_attn
        self._head_width, self._scale = attention.head_dim, attention.scaling
        self._kv_heads = config.num_key_value_heads
        self._group = config.num_attention_heads // config.num_key_value_heads
        self._room = 0
        self._cosine = self._sine = self._embedding.new_empty(0)
        self._masks: dict[int, Tensor] = {}

    @property
    def cache_lengths(self) -> set[int]:
        """All layers share one length."""
        return {self.length}

    def reset(self) -> None:
        self.length = 0

    def crop(self, length: int) -> None:
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot crop {self.length} tokens to {length}")
        self.length = length

    def extend(self, token_ids: Tensor, keep: int) -> Tensor:
        """Read token_ids [n]; logits [keep, V] of the last `keep` positions."""
        while self.length and len(token_ids) > max(_BLOCK, keep):
            part = min(_BLOCK, len(token_ids) - keep)
            self._states(token_ids[:part])
            token_ids = token_ids[part:]
        states = self._states(token_ids)
        if keep < len(token_ids):
            states = states[len(token_ids) - keep :]
        return self._logits(states)

    def _logits(self, states: Tensor) -> Tensor:
        return F.linear(self._normalized(states, self._norm), *self._head)

    def _normalized(self, states: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(states, weight.shape, weight, self._epsilon)

    def _states(
        self, token_ids: Tensor, positions: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """Read token_ids [n]; the states [n, width] after the last layer, not yet normalized.

        They continue the text, unless positions [n] and an additive mask [n, length + n] say
        where they stand and what they see.
        """
        begin, count = self.length, len(token_ids)
        end = begin + count
        if end > self._room:
            self._reserve(end)
        where = slice(begin, end) if positions is None else positions
        cosine, sine = self._cosine[where], self._sine[where]
        if mask is not None:
            mask = mask.repeat(self._group, 1)
        heads, half = (count, -1, self._head_width), self._head_width // 2
        states = F.embedding(token_ids, self._embedding)
        for layer in self._layers:
            x = self._normalized(states, layer.norm)
            query = F.linear(x, *layer.q).view(heads)
            key = F.linear(x, *layer.k).view(heads)
            if layer.q_norm is not None:
                query = self._normalized(query, layer.q_norm)
                key = self._normalized(key, layer.k_norm)
            query = torch.addcmul(query * cosine, query.roll(half, -1), sine)
            layer.keys[begin:end] = torch.addcmul(key * cosine, key.roll(half, -1), sine)
            layer.values[begin:end] = F.linear(x, *layer.v).view(heads)
            attended = self._attend(query, layer.keys[:end], layer.values[:end], mask)
            states = states + F.linear(attended, *layer.o)
            x = self._normalized(states, layer.mlp_norm)
            x = layer.activation(F.linear(x, *layer.gate)) * F.linear(x, *layer.up)
            states = states + F.linear(x, *layer.down)
            if layer.keeps_output:
                layer.output = states
        self.length = end
        return states

    def _attend(self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """query [n, heads, width] over keys and values [end, kv heads, width] -> [n, ...]."""
        count, end = len(query), len(keys)
        keys, values = keys.transpose(0, 1)[None], values.transpose(0, 1)[None]
        if count == end and count > 1 and mask is None:
            out = F.scaled_dot_product_attention(
                query.transpose(0, 1)[None],
                keys,
                values,
                is_causal=True,
                scale=self._scale,
                enable_gqa=self._group > 1,
            )
            return out[0].transpose(0, 1).reshape(count, -1)
        # Query heads that share a key head become rows of one product: no copy of the past.
        shape = (count, self._kv_heads, self._group, self._head_width)
        rows = query.view(shape).permute(1, 2, 0, 3).reshape(1, self._kv_heads, -1, shape[-1])
        if mask is None and count > 1:
            mask = self._mask(count)[:, self._room - end :]
        out = F.scaled_dot_product_attention(rows, keys, values, mask, scale=self._scale)
        out = out.view(self._kv_heads, self._group, count, self._head_width)
        return out.permute(2, 0, 1, 3).reshape(count, -1)

    def _mask(self, count: int) -> Tensor:
        """Additive mask [group * count, room], triangular at its right edge."""
        mask = self._masks.get(count)
        if mask is None:
            mask = self._embedding.new_zeros(count, self._room)
            later = torch.ones(count, count, dtype=torch.bool, device=self.device).triu(1)
            mask[:, self._room - count :].masked_fill_(later, -torch.inf)
            mask = self._masks[count] = mask.repeat(self._group, 1)
        return mask

    def _reserve(self, end: int) -> None:
        room = -(-2 * end // _ROOM) * _ROOM
        positions = torch.arange(room, device=self.device)[None]
        cosine, sine = self._rotary(self._embedding, positions)
        # Rotating a pair is x * cos + swapped(x) * (-sin, sin); [room, 1, width] for all heads.
        sign = torch.ones_like(sine[0, 0])
        sign[: self._head_width // 2] = -1
        self._cosine, self._sine = cosine[0, :, None], (sine[0] * sign)[:, None]
        for layer in self._layers:
            for name in ("keys", "values"):
                grown = self._embedding.new_zeros(room, self._kv_heads, self._head_width)
                if self.length:
                    grown[: self.length] = getattr(layer, name)[: self.length]
                setattr(layer, name, grown)
        self._room = room
        self._masks.clear()


def lean_decoder(
    loaded: LoadedModel, build: Callable[[LoadedModel], LeanDecoder] = LeanDecoder
) -> LeanDecoder | None:
    """A lean decoder of the model, or None where the model is not known to be that simple.

    It must be of a known type with plain linear layers, full attention through sdpa, rotations
    that do not depend on the length, on one device; and a probe must give the model's logits.
    `build` makes the decoder, if it is to be more than a `LeanDecoder`.
    """
    model, config = loaded.model, loaded.model.config
    rotation = (getattr(config, "rope_parameters", None) or {}).get("rope_type", "default")
    if (
        config.model_type not in MODEL_TYPES
        or loaded.attention != "sdpa"
        or rotation not in _ROTATIONS
        or getattr(model, "hf_device_map", None)
    ):
        return None
    linear = [m for layer in model.base_model.layers for m in layer.modules() if _is_leaf(m)]
    if any(type(m) is not nn.Linear for m in linear if "Linear" in type(m).__name__):
        return None
    if any(hasattr(m, "weight_scale") or hasattr(m, "qweight") for m in linear):
        return None
    decoder = build(loaded)
    error = probe(decoder, model)
    if not error <= tolerance(model.dtype):
        log.info("%s: lean decoding differs by %.2g, transformers runs it", loaded.name, error)
        return None
    return decoder


def _is_leaf(module: nn.Module) -> bool:
    return next(module.children(), None) is None
