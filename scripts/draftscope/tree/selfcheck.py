"""Does this model see a tree as its paths? Asked once, before any tree is scored.

An attention implementation may drop a mask of four dimensions without a word; every node then
sees its siblings, and the numbers look plausible. So a small tree is read at start-up, and each
node's logits are compared with those of its path read alone, without mask or cache.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from draftscope.errors import UserError
from draftscope.logits import logits_of
from draftscope.tree.reader import TreeReader

if TYPE_CHECKING:
    from draftscope.models import LoadedModel

# Two trees, each of two branches and two levels, below two positions of one text.
_TEXT, _PREFIXES = 11, (11, 7)
_PARENTS = (-1, -1, 0, 0, 1, 1)

# Measured on a 135M-parameter model: dropping the mask moves a node's logits by .9 to 1.4, in any
# data type; rounding by 5e-6 in float32, .008 in float16 and .02 (eager) or .11 (sdpa on a CPU) in
# bfloat16. Quantized weights change nothing in that as long as their kernel multiplies in the
# model's data type, which `draftscope.models.gptq_kernels` sees to in float32.
EXACT, ROUNDED = 1e-3, 0.3


def tolerance(loaded: LoadedModel) -> float:
    """What `deviation` may be by rounding alone."""
    return EXACT if loaded.dtype == "float32" else ROUNDED


@torch.inference_mode()
def deviation(loaded: LoadedModel) -> float:
    """How far the logits over two trees are from those of each path read alone.

    The worst node's root mean square difference, in standard deviations of the logits; NaN where
    the model gives NaN. The trees are read both in one pass, as the target reads them, and level
    by level, as a draft does.
    """
    width = min(loaded.head_size, 1000)
    ids = (torch.arange(_TEXT + 2 * len(_PARENTS)) * 7 % width).tolist()
    text, drafted = ids[:_TEXT], ids[_TEXT:]
    parents, below = [], []
    for tree, prefix in enumerate(_PREFIXES):
        offset = tree * len(_PARENTS)
        parents += [p if p < 0 else p + offset for p in _PARENTS]
        below += [prefix] * len(_PARENTS)
    alone = _alone(loaded, text, drafted, parents, below)
    reader = TreeReader(loaded)
    reader.read_text(text)
    whole = logits_of(loaded, reader.read_nodes(drafted, parents, below)).float()
    reader.forget_nodes()
    levels = [[i for i, p in enumerate(parents) if (p < 0) == first] for first in (True, False)]
    place = {-1: -1} | {node: i for i, node in enumerate(itertools.chain(*levels))}
    stepwise = torch.empty_like(whole)
    for level in levels:
        columns = [drafted, [place[p] for p in parents], below]
        hidden = reader.read_nodes(*([column[i] for i in level] for column in columns))
        stepwise[level] = logits_of(loaded, hidden).float()
    return max(_distance(read, alone) for read in (whole, stepwise))


def _alone(loaded: LoadedModel, text, drafted, parents, below) -> Tensor:
    """Logits [n, V] after each node, every path a text of its own."""
    rows = []
    for node in range(len(drafted)):
        path, at = [], node
        while at >= 0:
            path.append(drafted[at])
            at = parents[at]
        ids = torch.tensor([text[: below[node]] + path[::-1]], device=loaded.model.device)
        rows.append(loaded.model(input_ids=ids, use_cache=False).logits[0, -1].float())
    return torch.stack(rows)


def _distance(read: Tensor, alone: Tensor) -> float:
    alone = alone.to(read.device)
    shared = torch.isfinite(alone).all(0)  # an id that is masked by -inf is masked everywhere
    if not bool(shared.any()):
        return math.nan
    apart = (read - alone)[:, shared].square().mean(-1).sqrt().max()
    return float(apart / alone[:, shared].std())


def check_trees(loaded: LoadedModel) -> float:
    """Compare a small tree with its paths; returns the `deviation`.

    Raises:
        UserError: they differ, or the attention implementation takes no such mask; names it.
    """
    who = f"model {loaded.name} cannot read trees with attention {loaded.attention!r}"
    advice = "use sdpa or eager"
    try:
        found = deviation(loaded)
    except UserError:
        raise
    except Exception as error:  # whatever an implementation does with a mask it does not expect
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(
            f"{who}: it takes no mask of four dimensions ({reason}); {advice}"
        ) from error
    if math.isnan(found):
        raise UserError(
            f"NaN in the logits of {loaded.name} for a text of its first token ids: its weights "
            "are damaged, or overflow in this data type"
        )
    if found > tolerance(loaded):
        raise UserError(
            f"{who}: its logits over a tree are {found:.2g} standard deviations from those of "
            f"each path alone ({type(loaded.model).__name__}), so it ignores the mask of a tree; "
            f"{advice}"
        )
    return found
