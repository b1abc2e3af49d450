"""Certificates of full logits as they come, a few positions at a time, whatever the vocabulary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from draftscope.certificate_study.recording import LARGEST_BLOCK, UNWARPED, kept
from draftscope.certificates.functions import evaluate
from draftscope.criteria import Criterion
from draftscope.sampling import log_law

DEPTH = 64


def certify(
    logits: Iterable[Tensor], criteria: Sequence[Criterion], depth: int = DEPTH
) -> Iterator[np.ndarray]:
    """Exact certificates of every criterion, [n, criteria] nats for each block [n, V] of logits.

    A block is taken apart into as few rows as bound the memory; of the next block nothing is asked
    before this one is done.

    Raises:
        sampling.BadLogits: NaN or +inf, or a row of -inf alone.
    """
    for block in logits:
        step = max(1, LARGEST_BLOCK // block.shape[-1])
        yield np.concatenate([_rows(part, criteria, depth) for part in block.split(step)])


def _rows(logits: Tensor, criteria: Sequence[Criterion], depth: int) -> np.ndarray:
    p = log_law(logits.double(), **UNWARPED).exp_()
    entropy = torch.special.entr(p).sum(-1)
    top = kept(p, entropy, criteria, depth)
    lengths = np.array([len(values) for values in top])
    nats = entropy.cpu().numpy()
    out = np.empty((len(top), len(criteria)))
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        stacked, whole = np.stack([top[row] for row in rows]), length == p.shape[-1]
        for column, criterion in enumerate(criteria):
            out[rows, column] = evaluate(criterion, stacked, nats[rows], whole)[0]
    return out
