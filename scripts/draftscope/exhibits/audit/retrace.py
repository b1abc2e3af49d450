"""Relations inside ReTrace and inside DFlash, on which it builds."""

from __future__ import annotations

import math

from draftscope.exhibits.audit.relations import Audit, average
from draftscope.exhibits.published import Span

MODELS, TEMPERATURES = ("4B", "8B"), ("T=0", "T=1")
CONFIGURATIONS = [(t, m) for t in TEMPERATURES for m in MODELS]
GAINS = {
    "tau": "relative gain in macro-average tau",
    "speedup": "relative gain in macro-average speedup",
}
DFLASH = "DFlash Table 1"


def check(audit: Audit) -> None:
    """State the relations of averages, gains, differences and cycle times."""
    averages(audit)
    gains(audit)
    cycles(audit)
    dflash_averages(audit)
    dflash_claims(audit)


def _benchmarks(audit: Audit, exhibit: str, row: str, metric: str) -> list[Span]:
    ends = f" {metric}"
    return [
        audit.span(exhibit, row, column)
        for column in audit.columns(exhibit, row)
        if column.endswith(ends) and not column.startswith(("Avg", "Overall"))
    ]


def averages(audit: Audit) -> None:
    for exhibit in ("Table 2", "Table 3"):
        for row in audit.rows(exhibit):
            for metric in ("speedup", "tau"):
                key = (exhibit, row, f"Avg {metric}")
                if key in audit.published:
                    audit.derive(
                        f"{exhibit} average {metric} {row}",
                        average(_benchmarks(audit, exhibit, row, metric)),
                        "the mean over benchmarks",
                        *key,
                    )
    for column in audit.columns("Table 1", "Gap"):
        difference = audit.span("Table 1", "True trajectory", column) - audit.span(
            "Table 1", "Random", column
        )
        audit.derive(f"gap {column}", difference, "true minus random", "Table 1", "Gap", column)


def gains(audit: Audit) -> None:
    for metric, column in GAINS.items():
        key = ("Section Main Results", "ReTrace vs DFlash", column)
        new, old = (
            [
                audit.span("Table 2", f"{t}/{m}/{method} (16)", f"Avg {metric}")
                for t, m in CONFIGURATIONS
            ]
            for method in ("ReTrace", "DFlash")
        )
        audit.derive(
            f"gain in {metric}, ratio of sums",
            100 * (average(new) / average(old)) - 100,
            "the ratio of the sums",
            *key,
        )
        ratios = [(a.low + a.high) / (b.low + b.high) - 1 for a, b in zip(new, old, strict=True)]
        audit.derive(
            f"gain in {metric}, mean of ratios",
            100 * sum(ratios) / len(ratios),
            "the mean of the four ratios",
            *key,
        )


def cycles(audit: Audit) -> None:
    table = "Table 4"
    printed = audit.span(table, "ReTrace", "speedup") / audit.span(table, "DFlash", "speedup")
    for bonus, words in ((0, "without"), (1, "with")):
        rates = [
            (audit.span(table, row, "tau") + bonus) / audit.span(table, row, "total latency")
            for row in ("ReTrace", "DFlash")
        ]
        ratio = rates[0] / rates[1]
        audit.state(
            f"speedup from cycle time {words} the bonus token",
            ratio.meets(printed),
            f"tau over cycle time ({words} a further bonus token) predicts a speedup over DFlash "
            f"of {ratio}, the printed speedups give {printed}",
            (table, "ReTrace", "speedup"),
            (table, "DFlash", "speedup"),
        )
    for column, difference in (
        ("throughput", "throughput difference"),
        ("acceptance length", "acceptance length difference"),
    ):
        for row in audit.rows("Table 5"):
            change = audit.span("Table 5", row, f"Domino+ReTrace {column}") - audit.span(
                "Table 5", row, f"Domino {column}"
            )
            audit.derive(f"{difference} {row}", change, "the two columns", "Table 5", row,
                         difference)  # fmt: skip


def dflash_averages(audit: Audit) -> None:
    for row in audit.rows(DFLASH):
        for metric in ("speedup", "tau"):
            spans = _benchmarks(audit, DFLASH, row, metric)
            key = (DFLASH, row, f"Avg {metric}")
            audit.derive(
                f"DFlash average {metric} {row}", average(spans), "the arithmetic mean", *key
            )
            if metric == "speedup":
                logs = average([Span(math.log(s.low), math.log(s.high)) for s in spans])
                audit.derive(
                    f"DFlash geometric average {row}",
                    Span(math.exp(logs.low), math.exp(logs.high)), "the geometric mean", *key,
                )  # fmt: skip


def _speedup(audit: Audit, temperature: str, method: str) -> Span:
    return average(
        [audit.span(DFLASH, f"{temperature}/{m}/{method}", "Avg speedup") for m in MODELS]
    )


def dflash_claims(audit: Audit) -> None:
    thinking = ("GPQA", "MATH-500", "AIME25")
    for temperature in TEMPERATURES:
        own = _speedup(audit, temperature, "DFlash (16)")
        audit.derive(f"DFlash average over models {temperature}", own, "Table 1",
                     "DFlash Section 5.1", temperature,
                     "average speedup over autoregressive")  # fmt: skip
        for size in (16, 60):
            audit.derive(
                f"DFlash over EAGLE-3 ({size}) {temperature}",
                own / _speedup(audit, temperature, f"EAGLE-3 ({size})"),
                f"against the tree of {size}, Table 1",
                "DFlash Section 5.1", temperature, "improvement over EAGLE-3",
            )  # fmt: skip
        spans = [
            audit.span("DFlash Table 2", f"{m} {temperature}", f"{b} speedup")
            for m in MODELS
            for b in thinking
        ]
        audit.derive(f"DFlash thinking {temperature}", average(spans), "the mean of Table 2",
                     "DFlash Section 5.2", temperature, "speedup")  # fmt: skip
    ratios = [
        audit.value(DFLASH, f"{t}/{m}/DFlash (16)", column)
        / audit.value(DFLASH, f"{t}/{m}/EAGLE-3 (60)", column)
        for t, m in CONFIGURATIONS
        for column in audit.columns(DFLASH, f"{t}/{m}/DFlash (16)")
        if column.endswith(" speedup") and not column.startswith("Avg")
    ]
    key = ("DFlash Abstract", "DFlash vs EAGLE-3", "largest speedup ratio")
    audit.derive("DFlash largest ratio", max(ratios), "Table 1 (trees of 60)", *key)
    key = ("DFlash Figure 1", "DFlash vs EAGLE-3", "overall speedup ratio (bound)")
    own, other = (
        audit.span(DFLASH, f"T=0/8B/{method}", "Avg speedup")
        for method in ("DFlash (16)", "EAGLE-3 (60)")
    )
    audit.state(
        "DFlash overall ratio",
        (own / other).high > float(audit.cell(*key).lower),
        f"the averages of Table 1 give {own / other}, printed above {audit.cell(*key).lower}",
        key,
    )
