"""Schema of what is written down while a draft is trained."""

from __future__ import annotations

import pyarrow as pa

from draftscope.schemas import field, register

register(
    "training_history",
    [
        field("step", pa.int32(), "optimizer steps done", "steps"),
        field("tokens", pa.int64(), "generated tokens visited, each as often as it was", "tokens"),
        field(
            "training_loss",
            pa.float64(),
            "weighted KL(p, q) since the row before, of the texts then visited",
            "nats",
            nullable=True,
        ),
        field("held_out_kl", pa.float64(), "mean KL(p, q) over held-out positions", "nats"),
        field("held_out_match", pa.float64(), "share of them with the same argmax"),
        field("rate", pa.float64(), "learning rate of the last step"),
        field("best", pa.bool_(), "the weights of this row are those that were kept"),
    ],
)
