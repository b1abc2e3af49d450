"""Schemas of what is written down while a block drafter is trained, and of ReTrace's probes."""

from __future__ import annotations

import pyarrow as pa

from draftscope.schemas import KEYS, field, register

register(
    "block_training_history",
    [
        field("step", pa.int32(), "optimizer steps done", "steps"),
        field("tokens", pa.int64(), "drafted positions with a loss, each as often as it had one"),
        field(
            "training_loss",
            pa.float64(),
            "mean loss of the steps since the row before; its unit is that of the arm's loss",
            nullable=True,
        ),
        field("held_out_loss", pa.float64(), "the same loss on held-out texts"),
        field(
            "held_out_tau",
            pa.float64(),
            "acceptance length of a greedy replay of held-out texts, bonus token included",
            "tokens a round",
        ),
        field(
            "held_out_estimate",
            pa.float64(),
            "mean over blocks at every position of held-out texts of the sum over k of the product of "
            "min(1, q/p) at the first k tokens of the text: the expected accepted length without bias "
            "where the texts were drawn from p, at temperature 1; null under losses that do not read p",
            "tokens",
            nullable=True,
        ),
        field(
            "held_out_surrogate",
            pa.float64(),
            "the same with the overlap of p and q in place of min(1, q/p), which D-PAL's weights use: "
            "biased unless the overlap is the same after every prefix",
            "tokens",
            nullable=True,
        ),
        field("rate", pa.float64(), "learning rate of the last step"),
        field("best", pa.bool_(), "the weights of this row are those that were kept"),
    ],
)

# One row a drafted position that stands strictly after the first rejection of its round.
register(
    "probes",
    [
        *KEYS,
        field("round", pa.int32(), "number of the round, from 0"),
        field("slot", pa.int16(), "slot of the block, 1 is the first drafted token", "tokens"),
        field("first_rejected", pa.int16(), "slot of the round's first rejected token", "tokens"),
        field(
            "rank",
            pa.int32(),
            "rank of the token that the target's text holds there in the draft's logits, 1 is the "
            "highest, ties counted against it",
        ),
        field(
            "cosine_true",
            pa.float64(),
            "cosine of the draft's final state and the target's at the same place of its own text",
        ),
        field(
            "cosine_random",
            pa.float64(),
            "cosine of the draft's final state and the target's at a place of another prompt's text",
        ),
    ],
)
