"""Relations inside "Acceptance Dynamics Across Cognitive Domains"."""

from __future__ import annotations

import math

from draftscope.exhibits.audit.relations import Audit, average
from draftscope.exhibits.published import Span

DOMAINS = ("chat", "code", "math", "reasoning")
DEPTHS = (1, 2, 3)
MEANS = {"mean alpha": "alpha", "mean target entropy": "entropy"}


def check(audit: Audit) -> None:
    """State the relations of Tables I-VI, the settings, and the log kept with the code."""
    pooled(audit)
    for domain in DOMAINS:
        chains(audit, domain)
    early_late(audit)
    settings(audit)


def pooled(audit: Audit) -> None:
    nodes = [audit.value("Table I", domain, "nodes") for domain in DOMAINS]
    total = sum(nodes)
    audit.derive("nodes add up", total, "the sum over domains", "Table I", "all", "nodes")
    for column, word in MEANS.items():
        spans = [audit.span("Table I", domain, column) for domain in DOMAINS]
        weighted = [
            sum(n * getattr(s, end) for n, s in zip(nodes, spans, strict=True)) / total
            for end in ("low", "high")
        ]
        key = ("Table I", "all", column)
        audit.derive(f"mean {word} over nodes", Span(*weighted), "weighting by nodes", *key)
        audit.derive(f"mean {word} over domains", average(spans), "the domains' mean", *key)
    means = [audit.value("Table I", domain, "mean alpha") for domain in DOMAINS]
    center = sum(n * a for n, a in zip(nodes, means, strict=True)) / total
    spreads = [float(audit.cell("Table I", domain, "mean alpha").spread) for domain in DOMAINS]
    variance = sum(
        n * (s**2 + (a - center) ** 2) for n, s, a in zip(nodes, spreads, means, strict=True)
    )
    deviation = math.sqrt(variance / total)
    key = ("Table I", "all", "mean alpha")
    printed = audit.span(*key, field="spread")
    # Half a unit in the fourth place of each domain's deviation moves the pooled one as much.
    audit.state(
        "deviation of alpha over nodes",
        Span(deviation - 5e-5, deviation + 5e-5).meets(printed),
        f"pooling the domains gives a standard deviation of {deviation:.4f}, printed "
        f"{audit.cell(*key).spread}",
        key,
    )
    audit.derive(
        "mean alpha in the log", Span(center - 5e-5, center + 5e-5), "weighting by nodes",
        "Repository log", "all", "mean alpha",
    )  # fmt: skip


def chains(audit: Audit, domain: str) -> None:
    """P(chain of k) is the product of the per-depth means; E[L] is their sum."""
    alpha = [audit.span("Table IV", domain, f"depth {depth}") for depth in DEPTHS]
    product, length = Span.of(1.0), Span.of(0.0)
    for depth in DEPTHS:
        product = product * alpha[depth - 1]
        length = length + product
        audit.derive(
            f"chain of {depth} {domain}", product, "the product over depths",
            "Table III", domain, f"chain length {depth}",
        )  # fmt: skip
        audit.derive(
            f"depth {depth} {domain} in the log",
            audit.value("Repository results", domain, f"depth {depth} mean alpha"), "the log",
            "Table IV", domain, f"depth {depth}",
        )  # fmt: skip
    audit.derive(
        f"expected length {domain}", length, "the sum of the products", "Table II", domain, "E[L]"
    )
    audit.derive(
        f"change over depths {domain}", alpha[2] - alpha[0], "depth 3 minus depth 1",
        "Table IV", domain, "delta 1 to 3",
    )  # fmt: skip
    count = [audit.value("Repository results", domain, f"depth {depth} nodes") for depth in DEPTHS]
    audit.derive(
        f"nodes {domain} in the log", sum(count), "the sum over depths", "Table I", domain, "nodes"
    )


def early_late(audit: Audit) -> None:
    for depth in DEPTHS:
        row = f"depth {depth}"
        early = audit.span("Table V", row, "early (tokens 1-32)")
        late = audit.span("Table V", row, "late (tokens 33-64)")
        key = ("Table V", row, "delta late minus early")
        audit.derive(f"late minus early {row}", late - early, "the rounded entries", *key)
        digits = [
            audit.value("Repository results", row, f"{part} mean alpha")
            for part in ("late", "early")
        ]
        audit.derive(f"late minus early {row}, log", digits[0] - digits[1], "the log", *key)


def settings(audit: Audit) -> None:
    total = sum(audit.value("Table I", domain, "nodes") for domain in DOMAINS)
    first = sum(audit.value("Repository results", d, "depth 1 nodes") for d in DOMAINS)
    trees = total / audit.value("Section III-E", "setting", "max nodes per tree")
    audit.derive(
        "nodes at depth 1", first / trees, "the recorded nodes a tree at depth 1",
        "Section III-E", "setting", "top-k at root",
    )  # fmt: skip
    ratio = audit.span("Table I", "chat", "mean alpha") / audit.span(
        "Table I", "math", "mean alpha"
    )
    audit.derive(
        "gap chat over math", ratio * 100 - 100, "Table I",
        "Section V-A", "chat vs math", "relative gap in mean alpha",
    )  # fmt: skip
    rho = [audit.span("Table VI", domain, "Spearman rho(H, alpha)") for domain in DOMAINS]
    for end, pick in (("low", min), ("high", max)):
        extreme = pick(rho, key=lambda span: span.low)
        audit.derive(f"rho {end} end", extreme, "Table VI", "Abstract", "all", f"rho {end} end")
    audit.derive(
        "run time", audit.span("Repository log", "all", "run time") / 3600, "the log",
        "Section IV", "all", "run time",
    )  # fmt: skip
    for number, model in enumerate(("target", "draft")):
        audit.state(
            f"memory of the {model}",
            audit.span("Section IV", model, "memory at load").meets(
                audit.span("Repository log", "all", f"memory GPU {number}")
            ),
            f"the log gives {audit.value('Repository log', 'all', f'memory GPU {number}')} GB on "
            f"GPU {number}, printed {audit.cell('Section IV', model, 'memory at load').value}",
            ("Section IV", model, "memory at load"),
        )
