"""Training losses of block drafters: D-PACE, D-PAL and what they are compared with.

`expected` holds the expected accepted length and its gradient's weights, `divergences` what is
compared at a position, `registry` the losses by name, `blocks` their value over draft blocks and
`estimators` the expected accepted length of a trajectory.
"""

from draftscope.losses.blocks import block_loss, dpace_loss, dpal_loss
from draftscope.losses.divergences import (
    bhattacharyya,
    forward_kl,
    log_overlap,
    overlap,
    renyi_half,
    restricted_forward_kl,
)
from draftscope.losses.estimators import (
    accept_prob_emitted,
    accepted_length_estimate,
    accepted_length_surrogate,
)
from draftscope.losses.expected import continuation_weights, expected_accepted_length
from draftscope.losses.registry import LOSSES, Loss

__all__ = [
    "LOSSES",
    "Loss",
    "accept_prob_emitted",
    "accepted_length_estimate",
    "accepted_length_surrogate",
    "bhattacharyya",
    "block_loss",
    "continuation_weights",
    "dpace_loss",
    "dpal_loss",
    "expected_accepted_length",
    "forward_kl",
    "log_overlap",
    "overlap",
    "renyi_half",
    "restricted_forward_kl",
]
