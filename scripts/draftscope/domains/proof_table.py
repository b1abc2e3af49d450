"""Whether sampled trees keep the target's law."""

from __future__ import annotations

from collections.abc import Sequence

from draftscope.domains.layout import P, nothing, table
from draftscope.domains.lookup import Row
from draftscope.exhibits.captioned import Table

EXACT = "summed over all draws: nothing left to chance"


def equivalence(rows: Sequence[Row]) -> Table:
    """Sampled trees against the target's own law, with the controls that have to fail."""
    shown = [
        {
            "decoder": f"{row['subject']}, {row['rule']}",
            "should": "pass" if row["correct"] else "fail",
            "test": row["test"],
            "texts": row["texts"],
            "tokens": row["tokens"],
            "statistic": row["statistic"],
            "freedom": row["freedom"],
            "p": row["p"],
            "rejected": "yes" if row["rejected"] else "no",
            "detectable": row["detectable"],
            "total_variation": row["total_variation"],
            "reason": row["reason"] or (EXACT if row["statistic"] is None else None),
        }
        for row in rows
    ]
    level = max((row["level_of_test"] for row in rows), default=0.01)
    return table(
        shown or [nothing("decoder")],
        {
            "decoder": ("decoder", None),
            "should": ("has to", None),
            "test": ("test", None),
            "texts": ("texts", None),
            "tokens": ("tokens", None),
            "statistic": ("statistic", ".1f"),
            "freedom": ("degrees", None),
            "p": ("p", P),
            "rejected": ("rejected", None),
            "detectable": ("finds from", ".4f"),
            "total_variation": ("total variation", ".4f"),
        },
        "Trees of sampled drafts: does the emitted text keep the target's law?",
        [
            (
                f"Rejected: p below {level:g}. Finds from: the least total variation that the test "
                "finds with a chance of .9. Decoders that have to fail are negative controls."
            )
        ],
    )
