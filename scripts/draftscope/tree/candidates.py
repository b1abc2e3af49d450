"""What a draft proposes after a path: its most probable tokens, without chance."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from draftscope import sampling


class Candidates(NamedTuple):
    """The k most probable tokens of each row: token_ids and log_q [rows, k], entropy [rows].

    Column r - 1 holds rank r. log_q and entropy (nats) are of the draft's distribution at
    temperature 1; log_q of -inf marks a token that cannot be drafted.
    """

    token_ids: Tensor
    log_q: Tensor
    entropy: Tensor


def candidates(
    logits: Tensor, k: int, masked_ids: Tensor | None = None, width: int | None = None
) -> Candidates:
    """The k highest of each row of logits [rows, W], equal ones by ascending id.

    Args:
        k: how many; no more than there are ids comes back.
        masked_ids: ids that the target means otherwise: taken out before the softmax.
        width: ids from it on are unknown to the target. They keep their probability, which meets
            p = 0, but are no candidates.

    Raises:
        sampling.BadLogits: a NaN or +inf logit, or a row of -inf alone; names the index.
    """
    logits = logits.float() if logits.dtype != torch.float64 else logits
    if masked_ids is not None and len(masked_ids):
        logits = logits.index_fill(-1, masked_ids, -torch.inf)
    log_q = sampling.log_law(logits, 1.0)
    ids = _highest(logits[:, :width], k)
    entropy = torch.special.entr(log_q.exp()).sum(-1)
    return Candidates(ids, log_q.gather(-1, ids), entropy)


def _highest(logits: Tensor, k: int) -> Tensor:
    """Ids [rows, k] of the highest logits, in descending order, ties by ascending id.

    topk alone promises neither which of several equal logits it takes nor in which order.
    """
    k = min(k, logits.shape[-1])
    values, ids = logits.topk(k, -1)
    threshold = values[:, -1:]
    crowded = (logits >= threshold).sum(-1) > k  # equal logits on both sides of the cut
    if bool(crowded.any()):
        rows = logits[crowded]
        ids[crowded] = rows.sort(dim=-1, descending=True, stable=True).indices[:, :k]
    ids = ids.sort(dim=-1).values
    order = logits.gather(-1, ids).sort(dim=-1, descending=True, stable=True).indices
    return ids.gather(-1, order)
