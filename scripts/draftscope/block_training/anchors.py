"""Where in a text the blocks of a training step stand."""

from __future__ import annotations

import numpy as np

from draftscope import seeds
from draftscope.training.examples import Example


def draw_anchors(text: Example, count: int, step: int, seed: int) -> np.ndarray:
    """Positions of anchors, ascending, int64; `count` of them, or all where there are fewer.

    An anchor is the last token of the prompt or any generated token but the last, drawn without
    replacement and anew at each step (DFlash, random anchors). A function of its arguments alone.
    """
    first, last = len(text.prompt) - 1, len(text.prompt) + len(text.emitted) - 1
    possible = np.arange(first, last)
    if count >= len(possible):
        return possible
    rng = seeds.generator("anchors", seed, step, text.domain, text.prompt_id, text.sample)
    return np.sort(rng.choice(possible, count, replace=False))


def every_anchor(text: Example) -> np.ndarray:
    """All positions that can be an anchor."""
    first = len(text.prompt) - 1
    return np.arange(first, first + len(text.emitted))
