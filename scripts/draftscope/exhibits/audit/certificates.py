"""Relations inside "When Is a Draft Accepted?"."""

from __future__ import annotations

import math

from draftscope.exhibits.audit.relations import Audit

MODELS = ("Qwen3-1.7B", "Qwen3-4B")
QUANTILES = ("p5", "p25", "median")
TOLERANCES = ("0.01", "0.05", "0.1", "0.2")
SETS = (2, 4, 6, 8)


def check(audit: Audit) -> None:
    """State the ceilings, orders and set inclusions that the theorems imply for the tables."""
    ceilings(audit)
    top_sets(audit)
    medians(audit)


def ceilings(audit: Audit) -> None:
    """A certificate is at most log 2, or log(m + 1) for a tree of m; its quantiles are ordered."""
    for row in audit.rows("Table 2"):
        top = math.log(int(row.removeprefix("tree m=")) + 1 if row.startswith("tree") else 2)
        for model in MODELS:
            keys = [("Table 2", row, f"{model} {name}") for name in QUANTILES]
            values = [audit.value(*key) for key in keys]
            audit.state(
                f"ceiling and order {row} {model}",
                values == sorted(values) and values[-1] <= top,
                f"quantiles {values}, ceiling {top:.4f}",
                *keys,
            )
    for row in audit.rows("Table 3"):
        if ("Table 2", row, f"{MODELS[0]} p5") in audit.published:
            for model in MODELS:
                audit.derive(
                    f"Table 3 against Table 2 {row} {model}",
                    audit.span("Table 2", row, f"{model} p5"), "Table 2",
                    "Table 3", row, f"{model} p5",
                )  # fmt: skip


def top_sets(audit: Audit) -> None:
    """Accepting fewer tokens cannot raise a certificate; two tokens leave only the top one."""
    for model in MODELS:
        for tolerance in TOLERANCES:
            plain = audit.span("Table 3", f"additive t={tolerance}", f"{model} p5")
            for size in SETS:
                key = ("Table 4", f"top-m additive t={tolerance}", f"{model} m={size} p5")
                both = audit.span(*key)
                audit.state(
                    f"top-{size} within additive t={tolerance} {model}",
                    both.low <= plain.high,
                    f"the smaller acceptance set has {audit.cell(*key).value}, additive alone "
                    f"(Table 3) {plain}",
                    key,
                )
            key = ("Table 4", f"top-m additive t={tolerance}", f"{model} m=2 p5")
            strict = audit.cell("Table 2", "strict greedy", f"{model} p5")
            audit.state(
                f"m=2 as strict greedy t={tolerance} {model}",
                audit.span(*key).meets(strict.rounding()),
                f"by the rule as stated m = 2 is strict greedy ({strict.value}), printed "
                f"{audit.cell(*key).value}",
                key,
            )


def medians(audit: Audit) -> None:
    for model in MODELS:
        ratio = audit.span("Table 2", "tree m=2", f"{model} median") / audit.span(
            "Table 2", "strict greedy", f"{model} median"
        )
        audit.derive(
            f"median of tree m=2 over strict greedy {model}", ratio, "Table 2",
            "Section 6.3", "tree m=2", "ratio of median certificate to strict greedy",
        )  # fmt: skip
