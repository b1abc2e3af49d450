"""The arithmetic of acceptance: decoding laws, inverse-CDF draws and the lossless test.

Everything here is a pure function of tensors. V is the width of the vocabulary; leading
dimensions are free. p is the target's distribution and q the draft's, both under their own
decoding law (temperature, then top-k, then top-p, then renormalised).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

# Residuals lighter than this are rounding of a float32 softmax, not a distribution. Falling back
# to p there moves the law of the emitted token by at most this much total variation.
RESIDUAL_EPSILON = float(torch.finfo(torch.float32).eps)

# Enough of the head of a language model's distribution for nearly every top-p in use; rows whose
# mass lies deeper are sorted in full.
_HEAD = 1024


class BadLogits(ValueError):
    """Logits that define no distribution; `index` locates the fault (row..., vocabulary id)."""

    def __init__(self, what: str, index: tuple[int, ...]) -> None:
        super().__init__(f"{what} at index {index} of the logits")
        self.what, self.index = what, index


def law(logits: Tensor, temperature: float, top_k: int = 0, top_p: float = 1.0) -> Tensor:
    """Probabilities of the decoding law, shape [..., V] as the logits.

    Temperature 0 is one-hot at the highest logit, ties to the lowest id. top_k keeps exactly the
    k highest logits (0 or k >= V keeps all), ties to the lowest ids; top_p then keeps the
    smallest set of most probable ids whose mass reaches top_p, at least one, ties to the lowest
    ids; what is left is renormalised. Logits of -inf mask an id. float32 and float64 are kept,
    narrower floats are computed in float32.

    Raises:
        BadLogits: (a ValueError) a NaN or +inf logit, or a row of -inf alone; names the index.
        ValueError: temperature < 0, top_k < 0 or top_p outside [0, 1].
    """
    scaled = _scaled(logits, temperature, top_k, top_p)
    if scaled is None:
        logits = _floating(logits)
        return torch.zeros_like(logits).scatter_(-1, logits.argmax(-1, keepdim=True), 1.0)
    return torch.softmax(scaled, -1)


def log_law(logits: Tensor, temperature: float, top_k: int = 0, top_p: float = 1.0) -> Tensor:
    """Log-probabilities of the decoding law in nats, shape [..., V]; -inf outside its support.

    Arguments, ties and errors as `law`.
    """
    scaled = _scaled(logits, temperature, top_k, top_p)
    if scaled is None:
        logits = _floating(logits)
        best = logits.argmax(-1, keepdim=True)
        return torch.full_like(logits, -math.inf).scatter_(-1, best, 0.0)
    return torch.log_softmax(scaled, -1)


def _floating(logits: Tensor) -> Tensor:
    return logits if logits.dtype in (torch.float32, torch.float64) else logits.float()


def _scaled(logits: Tensor, temperature: float, top_k: int, top_p: float) -> Tensor | None:
    """Scaled logits with -inf outside the law's support, or None for temperature 0."""
    if not (0 <= temperature < math.inf) or top_k < 0 or not 0 <= top_p <= 1:
        raise ValueError(f"no decoding law: {temperature=}, {top_k=}, {top_p=}")
    logits = _floating(logits)
    highest = logits.amax(-1, keepdim=True)  # amax hands a NaN on, so one check sees every id
    if not bool(torch.isfinite(highest).all()):
        raise _locate(logits)
    if temperature == 0:
        return None
    # Shifted before it is divided, so that a tiny temperature sends the others to -inf and never
    # makes inf - inf; a temperature that underflows is the smallest one the type can hold.
    scaled = (logits - highest) / max(temperature, torch.finfo(logits.dtype).tiny)
    width = logits.shape[-1]
    if 0 < top_k < width:
        counts = torch.full_like(highest, top_k, dtype=torch.long)
        threshold = logits.topk(top_k, -1).values[..., -1:]
        scaled = scaled.masked_fill(~_highest(logits, threshold, counts), -math.inf)
    if top_p < 1:
        probabilities = torch.softmax(scaled, -1)
        threshold, counts = _nucleus(probabilities.reshape(-1, width), top_p)
        shape = highest.shape
        keep = _highest(probabilities, threshold.reshape(shape), counts.reshape(shape))
        scaled = scaled.masked_fill(~keep, -math.inf)
    return scaled


def _locate(logits: Tensor) -> BadLogits:
    wrong = torch.isnan(logits) | (logits == math.inf)
    if bool(wrong.any()):
        index = tuple(wrong.nonzero()[0].tolist())
        return BadLogits("NaN" if bool(torch.isnan(logits[index])) else "+inf", index)
    empty = (logits == -math.inf).all(-1)
    return BadLogits("nothing but -inf", tuple(empty.nonzero()[0].tolist()))


def _highest(values: Tensor, threshold: Tensor, counts: Tensor) -> Tensor:
    """Mask of the `counts` highest entries of each row, ties at the threshold to the lowest ids.

    The threshold of a row ([..., 1]) is its counts-th highest value.
    """
    keep = values >= threshold
    if bool((keep.sum(-1, keepdim=True) > counts).any()):
        above, tied = values > threshold, values == threshold
        room = counts - above.sum(-1, keepdim=True)
        keep = above | (tied & (tied.cumsum(-1) <= room))
    return keep


def _nucleus(probabilities: Tensor, top_p: float) -> tuple[Tensor, Tensor]:
    """Per row of [rows, V]: the smallest kept probability and how many are kept, each [rows, 1]."""
    width = probabilities.shape[-1]
    ordered = probabilities.topk(min(_HEAD, width), -1).values
    reached = _wide(ordered).cumsum(-1) >= top_p
    counts = reached.to(torch.uint8).argmax(-1, keepdim=True) + 1
    threshold = ordered.gather(-1, counts - 1)
    short = ~reached[:, -1]
    if bool(short.any()):  # the mass lies deeper than the head, or rounding keeps it below top_p
        ordered = probabilities[short].sort(-1, descending=True).values
        below = (_wide(ordered).cumsum(-1) < top_p).sum(-1, keepdim=True)
        counts[short] = (below + 1).clamp(max=width)
        threshold[short] = ordered.gather(-1, counts[short] - 1)
    return threshold, counts


def _wide(tensor: Tensor) -> Tensor:
    """The widest float of the device: sums over a vocabulary should not lose the small terms."""
    return tensor if tensor.device.type == "mps" else tensor.double()


def draw(probabilities: Tensor, uniform: Tensor | float) -> Tensor:
    """Ids by the inverse of the cumulative distribution: [..., V] and uniforms [...] -> [...].

    Rows need not be normalised. An id of probability 0 is never drawn, whatever rounding does at
    either end of the distribution; a uniform that was rounded up to 1 gives the last possible id.

    Raises:
        ValueError: a row is all zero, negative or not finite.
    """
    possible = probabilities > 0
    steps = _wide(probabilities).cumsum(-1)
    # Impossible ids are out of the running by their step, not by strict growth of the sums: a
    # parallel prefix sum need not be monotonic in its last bit.
    steps = torch.where(possible, steps, torch.zeros_like(steps))
    total = steps.amax(-1)
    if not bool(((total > 0) & (total < math.inf)).all()):
        raise ValueError("no distribution to draw from: a row is all zero or not finite")
    uniform = torch.as_tensor(uniform, dtype=steps.dtype, device=steps.device)
    reach = torch.minimum(uniform * total, torch.nextafter(total, torch.zeros_like(total)))
    return (steps > reach.unsqueeze(-1)).to(torch.uint8).argmax(-1)


def residual(p: Tensor, q: Tensor) -> Tensor:
    """What to draw from after a rejection: norm((p - q)_+), shape [..., V] for p and q alike.

    Leviathan et al. (arXiv 2211.17192), section 2.3. Where p and q agree up to rounding, or
    either is not finite, no residual exists and the row is p itself (`RESIDUAL_EPSILON` bounds
    what that can change).
    """
    excess = (p - q).clamp_min(0)
    mass = excess.sum(-1, keepdim=True)
    usable = torch.isfinite(mass) & (mass > RESIDUAL_EPSILON)
    return torch.where(usable, excess / torch.where(usable, mass, torch.ones_like(mass)), p)


def uniforms(rng: np.random.Generator | torch.Generator, count: int) -> list[float]:
    """`count` uniforms on [0, 1) from either kind of generator."""
    if isinstance(rng, np.random.Generator):
        return rng.random(count).tolist()
    return torch.rand(count, generator=rng, device=rng.device, dtype=torch.float64).tolist()


def verify(
    draft_ids: Tensor | Sequence[int],
    q: Tensor,
    p: Tensor,
    rng: np.random.Generator | torch.Generator,
    counts: Counter | None = None,
) -> tuple[int, int]:
    """The lossless test of speculative sampling (arXiv 2211.17192, algorithm 1; 2302.01318).

    Draft token x_i is accepted with probability min(1, p_i(x_i) / q_i(x_i)), each with a uniform
    of its own; the first rejection draws the next token from the residual of its position, and a
    block accepted whole draws a bonus token from the last row of p. A one-hot q (greedy drafts,
    prompt lookup) is accepted with probability p(x). At temperature 0 both sides are one-hot and
    acceptance is an exact match.

    Args:
        draft_ids: the gamma drafted ids, drawn from q.
        q: draft distributions [gamma, W]: what the ids were really drawn from.
        p: target distributions [gamma + 1, V]. W and V may differ: ids that only one side knows
            have probability 0 on the other.
        rng: gamma + 1 uniforms are taken from it, whatever is accepted.
        counts: if given, "unmappable" counts drafted ids beyond V that were reached, and
            "empty_residual" rejections where `residual` fell back to p.

    Returns:
        (accepted, next_id): tokens accepted, 0..gamma, and the correction or bonus token.

    Raises:
        ValueError: the shapes do not fit, or a probability that is needed is NaN.
    """
    ids = draft_ids.tolist() if isinstance(draft_ids, Tensor) else [int(x) for x in draft_ids]
    gamma, (width, drafted_width) = len(ids), (p.shape[-1], q.shape[-1])
    if p.dim() != 2 or q.dim() != 2 or p.shape[0] != gamma + 1 or q.shape[0] != gamma:
        raise ValueError(f"{gamma} drafts need q [{gamma}, V] and p [{gamma + 1}, V]")
    draws = uniforms(rng, gamma + 1)
    p_drafted, q_drafted = _at(p, ids), _at(q, ids)
    for i, x in enumerate(ids):
        if math.isnan(p_drafted[i]) or math.isnan(q_drafted[i]):
            raise ValueError(f"probability of drafted token {x} at draft position {i} is NaN")
        if draws[i] * q_drafted[i] < p_drafted[i]:
            continue
        if counts is not None and not 0 <= x < width:
            counts["unmappable"] += 1
        q_row = q[i, :width].to(p)
        if drafted_width < width:
            q_row = torch.nn.functional.pad(q_row, (0, width - drafted_width))
        if counts is not None and not bool((p[i] - q_row).clamp_min(0).sum() > RESIDUAL_EPSILON):
            counts["empty_residual"] += 1
        return i, int(draw(residual(p[i], q_row), draws[gamma]))
    return gamma, int(draw(p[gamma], draws[gamma]))


def _at(rows: Tensor, ids: list[int]) -> list[float]:
    """Probability of ids[i] in row i; 0 for an id outside the rows' width."""
    if not ids:
        return []
    width = rows.shape[-1]
    known = [0 <= x < width for x in ids]
    index = torch.tensor(
        [x if k else 0 for x, k in zip(ids, known, strict=True)], device=rows.device
    )
    values = rows[: len(ids)].gather(-1, index.unsqueeze(-1)).squeeze(-1).tolist()
    return [v if k else 0.0 for v, k in zip(values, known, strict=True)]
