"""Texts whose acceptance follows a known law: slope over position, deficit at triggers, survival."""

from __future__ import annotations

import numpy as np
from draftscope.position.texts import Text
from draftscope.tokens.names import CODE

SLOPE, DEFICIT, ENTROPY = -0.012, -0.18, -0.05


def planted(
    rng: np.random.Generator,
    prompts: int = 40,
    *,
    slope: float = SLOPE,
    deficit: float = DEFICIT,
    survival: float = 1.0,
    binary: bool = False,
) -> list[Text]:
    """Texts of one draft; acceptance is linear in log2 of the position, with noise of its own.

    Args:
        survival: how strongly a text's own level goes with its length: easy texts are the long
            ones where it is positive.
        binary: the outcome is drawn as accepted or not, instead of the probability itself.
    """
    texts = []
    for prompt in range(prompts):
        level = rng.normal(0.0, 0.07)
        longer = survival * 0.8 * level / 0.07 + rng.normal(0, 0.2)
        tokens = int(np.clip(90 * np.exp(longer), 20, 500))
        place = np.log2(1.0 + np.arange(tokens))
        trigger = rng.random(tokens) < 0.04 + 0.004 * place  # more of them late
        number = ~trigger & (rng.random(tokens) < 0.2)
        entropy = rng.gamma(2.0, 0.4, tokens)
        noise = rng.normal(0.0, 0.02, tokens)
        for t in range(1, tokens):  # neighbors are alike
            noise[t] += 0.6 * noise[t - 1]
        value = 0.72 + level + slope * place + deficit * trigger + 0.06 * number
        value = value + ENTROPY * entropy + noise
        if binary:
            value = (rng.random(tokens) < np.clip(value, 0, 1)).astype(float)
        kind = np.where(trigger, CODE["reflection"], np.where(number, CODE["number"], CODE["word"]))
        zeros = np.zeros(tokens)
        texts.append(
            Text(
                prompt_id=f"p{prompt:03d}",
                sample=0,
                type=kind.astype(np.int8),
                initial=np.ones(tokens, dtype=bool),
                region=np.zeros(tokens, dtype=np.int8),
                trigger=np.where(trigger, 0, -1),
                token=np.zeros(tokens, dtype=int),
                proposal=np.zeros(tokens, dtype=int),
                values={"alpha": value, "def2": value, "match": value},
                entropy=entropy,
                moved=zeros,
                p=zeros,
                q=zeros,
                repeated=np.zeros(tokens, dtype=bool),
                problem=False,
            )
        )
    return texts
