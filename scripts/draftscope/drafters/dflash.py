"""The network of DFlash: a block of draft tokens in one pass, from the target's hidden states.

Chen, Liang and Liu 2026 (arXiv:2602.06036). The hidden states of several layers of the target are
fused into one context vector a position, and every draft layer takes keys and values from these
vectors as well as from the block. The block is the embedding of the last committed token, the
anchor, and of mask tokens; its slots see each other in both directions. Embedding and output head
are the target's and stay with it.

Choices where the paper's model has none to make: the mask token is a vector that is learnt, as a
target need not have an unused token; queries and keys are normalised only where the layers of the
target do so, so that draft layers can start as copies of them; and the states that are fused may be
brought to one size first, since those of late layers are many times as large as those of early ones,
which a short training does not make up for.

Three further choices leave the paper's network, for trainings of minutes. With a context of its own,
a draft layer that starts as a copy of a layer of the target reads what that layer reads: keys and
values begin as the target's. Shifted, a slot's state predicts the token behind the slot, as states of
the target do, so that what is copied keeps its meaning; the last slot is then not computed. And slots
may hold what prompt lookup proposes instead of masks (`drafters.slots`); what stands in a slot is then
added to its state once more behind the layers, by a weight that the state gives, so that to confirm a
guess need not be learnt layer by layer.

n is a number of context positions, m of slots, both of one text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

KeysValues = list[tuple[Tensor, Tensor]]
MASK = -1  # in place of a token's id


@dataclass(frozen=True)
class Shape:
    """Sizes of a drafter; `of_target` takes what it shares with its target.

    `feature_layers` are the decoder layers of the target, from 0, whose output is read, -1 for the
    input embeddings; `normalised_heads` says whether queries and keys are normalised head by head;
    `normalised_features` whether each layer's states have unit root mean square before they are
    fused; `own_context` whether nothing is fused, each draft layer reading one layer of the target;
    `shifted` whether a slot's state predicts the token of the next slot, not its own; `looked_up`
    whether slots hold proposals of prompt lookup where it has any.
    """

    width: int
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    feed_forward: int
    block_size: int
    feature_layers: tuple[int, ...]
    rope_theta: float
    norm_eps: float
    normalised_heads: bool
    normalised_features: bool = False
    own_context: bool = False
    shifted: bool = False
    looked_up: bool = False

    def __post_init__(self) -> None:
        if self.own_context and len(self.feature_layers) != self.layers:
            raise ValueError("a context of its own takes one layer of the target a draft layer")

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"feature_layers": list(self.feature_layers)}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Shape:
        return cls(**values | {"feature_layers": tuple(values["feature_layers"])})


def spread_layers(target_layers: int, count: int) -> tuple[int, ...]:
    """`count` layers of the target, evenly from its second to its third from last.

    round(1 + i (L - 4) / (count - 1)) for layers from 0; of one alone the middle, L // 2. Targets
    with fewer layers than that leaves give each of them once.

    Source: code of DFlash, `build_target_layer_ids`.
    """
    if count == 1:
        return (target_layers // 2,)
    first, last = min(1, target_layers - 1), max(target_layers - 3, 0)
    if last < first:
        first, last = 0, target_layers - 1
    step = (last - first) / (count - 1)
    return tuple(sorted({round(first + i * step) for i in range(count)}))


class Norm(nn.Module):
    """Root mean square norm over the last axis."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return functional.rms_norm(x, self.weight.shape, self.weight, self.eps)


class Layer(nn.Module):
    """A decoder layer whose queries come from the slots, its keys and values from context and slots."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        width, inner = shape.width, shape.heads * shape.head_size
        shared = shape.kv_heads * shape.head_size
        self.input_norm = Norm(width, shape.norm_eps)
        self.q = nn.Linear(width, inner, bias=False)
        self.k = nn.Linear(width, shared, bias=False)
        self.v = nn.Linear(width, shared, bias=False)
        self.o = nn.Linear(inner, width, bias=False)
        if shape.normalised_heads:
            self.q_norm = Norm(shape.head_size, shape.norm_eps)
            self.k_norm = Norm(shape.head_size, shape.norm_eps)
        self.output_norm = Norm(width, shape.norm_eps)
        self.gate = nn.Linear(width, shape.feed_forward, bias=False)
        self.up = nn.Linear(width, shape.feed_forward, bias=False)
        self.down = nn.Linear(shape.feed_forward, width, bias=False)

    def keys_values(self, states: Tensor, rotation: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Keys, rotated, and values, each [kv_heads, positions, head_size]."""
        k, v = self._heads(self.k(states)), self._heads(self.v(states))
        if self.shape.normalised_heads:
            k = self.k_norm(k)
        return rotate(k, rotation), v

    def forward(
        self,
        x: Tensor,
        rotation: tuple[Tensor, Tensor],
        past: tuple[Tensor, Tensor],
        mask: Tensor | None,
    ) -> Tensor:
        """x [m, width] under `mask` [m, n + m], True where a slot sees; None: it sees all."""
        normed = self.input_norm(x)
        k, v = self.keys_values(normed, rotation)
        q = self._heads(self.q(normed))
        if self.shape.normalised_heads:
            q = self.q_norm(q)
        k, v = torch.cat((past[0], k), 1), torch.cat((past[1], v), 1)
        seen = functional.scaled_dot_product_attention(
            rotate(q, rotation)[None], k[None], v[None], mask, enable_gqa=True
        )[0]
        x = x + self.o(seen.transpose(0, 1).flatten(1))
        normed = self.output_norm(x)
        return x + self.down(functional.silu(self.gate(normed)) * self.up(normed))

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.shape.head_size)).transpose(0, 1)


class DFlash(nn.Module):
    """The drafter without the embedding and the head, which belong to its target."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        features = len(shape.feature_layers) * shape.width
        self.mask_embedding = nn.Parameter(torch.zeros(shape.width))
        if shape.own_context:
            norms = (Norm(shape.width, shape.norm_eps) for _ in shape.feature_layers)
            self.context_norms = nn.ModuleList(norms)
        else:
            self.fusion = nn.Linear(features, shape.width, bias=False)
            self.context_norm = Norm(shape.width, shape.norm_eps)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = Norm(shape.width, shape.norm_eps)
        if shape.looked_up:
            self.guess_weight = nn.Linear(shape.width, 1)

    def fuse(self, features: Tensor) -> Tensor:
        """Context of the target's hidden states [n, layers read * width], in order.

        [n, width]; where draft layers have contexts of their own, these side by side.
        """
        width = (self.shape.width,)
        if self.shape.own_context:
            states = features.unflatten(-1, (-1, *width)).unbind(-2)
            pairs = zip(self.context_norms, states, strict=True)
            return torch.cat([norm(each) for norm, each in pairs], -1)
        if self.shape.normalised_features:
            states = features.unflatten(-1, (-1, *width))
            features = functional.rms_norm(states, width, None, self.shape.norm_eps).flatten(-2)
        return self.context_norm(self.fusion(features))

    def keys_values(self, context: Tensor, positions: Tensor) -> KeysValues:
        """Of every draft layer, what the slots see of the context; see `Layer.keys_values`.

        Args:
            context: of n tokens, from `fuse`.
            positions: [n], of the tokens whose hidden states these are.
        """
        rotation = rotations(self.shape, positions)
        parts = [context] * len(self.layers)
        if self.shape.own_context:
            parts = context.split(self.shape.width, -1)
        layers = zip(self.layers, parts, strict=True)
        return [layer.keys_values(part, rotation) for layer, part in layers]

    def no_keys_values(self) -> KeysValues:
        """`keys_values` of no token."""
        weight = self.mask_embedding
        features = weight.new_zeros(0, len(self.shape.feature_layers) * self.shape.width)
        return self.keys_values(self.fuse(features), torch.zeros(0, device=weight.device))

    def block_inputs(self, tokens: Tensor, embed: Callable[[Tensor], Tensor]) -> Tensor:
        """Input embeddings [a * block_size, width] of a blocks.

        Args:
            tokens: int64 [a, block_size], ids that stand in the slots, `MASK` for the mask.
            embed: the target's input embeddings [..., width] of ids.
        """
        weight = self.mask_embedding
        embedded = embed(tokens.clamp(min=0)).to(weight.device, weight.dtype)
        masked = (tokens == MASK).to(weight.device)[..., None]
        return torch.where(masked, weight, embedded).flatten(0, 1)

    def forward(
        self, slots: Tensor, positions: Tensor, past: KeysValues, mask: Tensor | None = None
    ) -> Tensor:
        """States [m, width] that the target's head reads: row i predicts the token of slot i.

        That of an anchor predicts nothing.

        Args:
            slots: [m, width] input embeddings, blocks one after the other.
            positions: [m] in the text.
            past: of the context, from `keys_values`.
            mask: bool [m, n + m], True where a slot (row) sees a context position or slot;
                None: all see all, which is right for one block after its own context.
        """
        if self.shape.shifted:
            states = self._shifted(slots, positions, past, mask)
        else:
            states = self._through(slots, positions, past, mask)
        if not self.shape.looked_up:
            return states
        # Of the state's direction alone: a step of the weights then moves the guess little, however
        # long the states are.
        return states + self.guess_weight(functional.normalize(states, dim=-1)) * slots

    def _shifted(
        self, slots: Tensor, positions: Tensor, past: KeysValues, mask: Tensor | None
    ) -> Tensor:
        size, context = self.shape.block_size, past[0][0].shape[1]
        kept = torch.arange(len(slots), device=slots.device).view(-1, size)[:, :-1].flatten()
        if mask is not None:
            seen = torch.cat((torch.arange(context, device=kept.device), context + kept))
            mask = mask[kept][:, seen]
        states = self._through(slots[kept], positions[kept], past, mask)
        # The state that stood a slot before, and nothing at the anchor.
        return functional.pad(states.unflatten(0, (-1, size - 1)), (0, 0, 1, 0)).flatten(0, 1)

    def _through(
        self, x: Tensor, positions: Tensor, past: KeysValues, mask: Tensor | None
    ) -> Tensor:
        rotation = rotations(self.shape, positions)
        for layer, own in zip(self.layers, past, strict=True):
            x = layer(x, rotation, own, mask)
        return self.norm(x)


def rotations(shape: Shape, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Cosines and sines [positions, head_size] of rotary embeddings, in float32."""
    half = torch.arange(0, shape.head_size, 2, device=positions.device, dtype=torch.float32)
    angles = positions.float()[:, None] * shape.rope_theta ** (-half / shape.head_size)
    angles = torch.cat((angles, angles), -1)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """x [heads, positions, head_size] turned by its positions, halves as in Llama and Qwen."""
    cos, sin = (part.to(x.dtype) for part in rotation)
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


def block_mask(anchors: Sequence[int] | Tensor, context: int, block_size: int) -> Tensor:
    """Which positions and slots each slot sees when blocks of one text are drafted together.

    A block sees the context strictly before its anchor, and its own slots.

    Args:
        anchors: position in the text of each block's anchor, [a].
        context: positions 0..context - 1 have context vectors.

    Returns:
        bool [a * block_size, context + a * block_size].
    """
    anchors = torch.as_tensor(anchors)
    before = torch.arange(context, device=anchors.device)[None] < anchors[:, None]
    own = torch.eye(len(anchors), dtype=torch.bool, device=anchors.device)
    own = own.repeat_interleave(block_size, 0).repeat_interleave(block_size, 1)
    return torch.cat((before.repeat_interleave(block_size, 0), own), 1)
