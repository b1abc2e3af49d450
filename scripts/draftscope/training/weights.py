"""How much each generated position counts in the loss: the arms of the intervention.

All arms see the same texts in the same steps; only these weights differ. Each has mean 1 over all
positions of the training texts, so that no arm takes larger steps than another on the whole.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from draftscope.errors import UserError

WEIGHTINGS = ("uniform", "reflection", "entropy")


def position_weights(
    weighting: str,
    lengths: Sequence[int],
    *,
    marked: Sequence[np.ndarray] | None = None,
    entropies: Sequence[np.ndarray] | None = None,
    emphasis: float = 1.0,
) -> list[np.ndarray]:
    """The weight of each position of each text, float64 [positions], mean 1 over all of them.

    Args:
        weighting: "uniform"; "reflection": `emphasis` at marked positions and 1 elsewhere;
            "entropy": in proportion to the target's entropy.
        lengths: generated tokens of each text.
        marked: for "reflection", of each text which positions are triggers, bool [positions].
        entropies: for "entropy", of each text H(p) in nats at temperature 1, [positions].

    Raises:
        UserError: the target is certain everywhere, so that entropy weighs nothing.
        ValueError: unknown weighting, or arrays that do not fit the texts.
    """
    if weighting not in WEIGHTINGS:
        raise ValueError(f"weighting {weighting!r} is not one of {', '.join(WEIGHTINGS)}")
    if weighting == "uniform":
        return [np.ones(length) for length in lengths]
    given = marked if weighting == "reflection" else entropies
    if given is None or [len(each) for each in given] != list(lengths):
        raise ValueError(f"weighting {weighting!r} needs one value for each generated position")
    if weighting == "reflection":
        raw = [1.0 + (emphasis - 1.0) * np.asarray(each, dtype=bool) for each in given]
    else:
        raw = [np.asarray(each, dtype=np.float64) for each in given]
    total, count = float(sum(each.sum() for each in raw)), sum(lengths)
    if not total > 0:
        raise UserError(
            "the target's entropy is 0 at every training position, so entropy cannot weigh them; "
            "sample the training texts at a higher temperature"
        )
    return [each * (count / total) for each in raw]
