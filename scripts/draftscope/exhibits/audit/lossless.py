"""Relations inside "Lossless but Not Free"."""

from __future__ import annotations

from scipy import stats

from draftscope.exhibits.audit.relations import Audit, average
from draftscope.exhibits.published import Span

PARTS = ("draft", "verify", "sampling", "other")
POSITIONS = (1, 2, 3, 4)


def check(audit: Audit) -> None:
    """State the relations of the tests, the speeds, the yields and the latency split."""
    equality_tests(audit)
    speeds(audit)
    yields(audit)
    latency(audit)


def equality_tests(audit: Audit) -> None:
    test = "two-sample test"
    for level, classes in (("Level 2", "vocabulary"), ("Level 3", "bins")):
        freedom = audit.value(level, test, "dof")
        chi2 = audit.span(level, test, "chi2")
        p = Span(float(stats.chi2.sf(chi2.high, freedom)), float(stats.chi2.sf(chi2.low, freedom)))
        audit.derive(f"p {level}", p, "chi-square and its freedom", level, test, "p")
        audit.derive(
            f"freedom {level}", audit.value(level, test, classes) - 1, f"{classes} - 1",
            level, test, "dof",
        )  # fmt: skip
    tokens = audit.value("Level 2", test, "generations per method") * audit.value(
        "Level 2", test, "tokens per generation"
    )
    audit.derive("tokens Level 2", tokens, "generations times tokens", "Level 2", test,
                 "tokens per method")  # fmt: skip
    for column in ("chi2", "dof", "p"):
        audit.derive(f"abstract {column}", audit.span("Level 3", test, column), "Level 3",
                     "Abstract", "all", column)  # fmt: skip


def speeds(audit: Audit) -> None:
    for row in audit.rows("Table 3"):
        ratio = audit.span("Table 3", row, "speculative throughput") / audit.span(
            "Table 3", row, "baseline throughput"
        )
        audit.derive(f"speedup {row}", ratio, "the throughputs", "Table 3", row, "speedup")
    for row in audit.rows("Table 4"):
        if row != "baseline":
            ratio = audit.span("Table 4", row, "throughput") / audit.span(
                "Table 4", "baseline", "throughput"
            )
            audit.derive(f"speedup {row}", ratio, "the throughputs", "Table 4", row, "speedup")
    slower = sum(audit.value("Table 3", row, "speedup") < 1 for row in audit.rows("Table 3"))
    audit.derive("configurations that decelerate", slower, "Table 3", "Abstract", "all",
                 "configurations that decelerate")  # fmt: skip
    key = ("Figure 3", "metal-verifier configurations", "speedup at every K (bound)")
    single = audit.value("Section 6.2", "stretch_7b K=1", "speedup")
    audit.state(
        "slower at every K",
        single < float(audit.cell(*key).upper),
        f"the text gives a speedup of {single} for stretch_7b at K=1",
        key,
    )


def yields(audit: Audit) -> None:
    for row in ("primary", "mixed_3b"):
        mean = average([_position(audit, row, place) for place in POSITIONS])
        audit.derive(f"acceptance {row}", mean, "the mean over positions", "Table 3", row,
                     "acceptance")  # fmt: skip
    row, formula = "mixed_3b", "tokens per round, i.i.d. formula"
    measured = audit.value("Section 7", row, "tokens") / audit.value("Section 7", row, "rounds")
    audit.derive("tokens a round", measured, "tokens / rounds", "Section 7", row,
                 "tokens per round, measured")  # fmt: skip
    rate = audit.span("Section 7", row, "pooled acceptance")
    ends = [sum(end**power for power in range(5)) for end in (rate.low, rate.high)]
    audit.derive("i.i.d. formula", Span(*ends), "1 + a + ... + a^4", "Section 7", row, formula)
    audit.state(
        "i.i.d. formula as an upper bound",
        ends[1] >= measured,
        f"called an upper bound, the formula gives at most {ends[1]:.2f} at the pooled rate, "
        f"measured {measured:.2f}",
        ("Section 7", row, formula),
    )


def _position(audit: Audit, row: str, place: int) -> Span:
    return audit.span("Section 6.3", row, f"positional acceptance {place}")


def latency(audit: Audit) -> None:
    section, row = "Section 6.4", "mixed_3b"
    total = (section, row, "speculative total per token")
    parts = [audit.span(section, row, f"{part} per token") for part in PARTS]
    audit.derive("parts of a token", sum(parts, Span.of(0)), "the sum of the parts", *total)
    for kind, column in (("baseline", "baseline total per token"), ("speculative", total[2])):
        audit.derive(
            f"{kind} milliseconds a token",
            1000 / audit.span("Table 3", row, f"{kind} throughput"), "1000 / throughput",
            section, row, column,
        )  # fmt: skip
    ratio = audit.span(section, row, "baseline total per token") / audit.span(*total)
    audit.derive("speedup a token", ratio, "the two totals", "Figure 5", row, "per-token speedup")
    for part in ("sampling", "draft"):
        share = 100 * audit.span(section, row, f"{part} per token") / audit.span(*total)
        audit.derive(f"share of {part}", share, "the latencies", section, row, f"{part} share")
