"""Relations inside "Speculative Acceptance Does Not Decay with Position"."""

from __future__ import annotations

from scipy import stats

from draftscope.exhibits.audit.relations import Audit
from draftscope.exhibits.published import Span

PAIRED = (
    ("same/greedy", "def1"),
    ("same/sample", "def1"),
    ("xfam/greedy", "def1"),
    ("xfam/sample", "def1"),
    ("same/sample", "alpha"),
    ("xfam/sample", "alpha"),
)
ARMS, MODES = ("reflection-marked", "entropy-weighted"), ("sampling", "greedy")
DRAFT_LENGTHS = range(2, 13)
# Intervals of one design and size differ a little; a third of the next narrowest does not fit.
NARROW = 1 / 3


def check(audit: Audit) -> None:
    """State the relations of Tables 1, 3 and 4 and Figures 1 and 2."""
    paired_halves(audit)
    arms(audit)
    interval_widths(audit)
    acceptance_length(audit)
    curve_ranges(audit)


def paired_halves(audit: Audit) -> None:
    problems = audit.value("Abstract", "all", "problems")
    removed = audit.value("Figure 2", "all", "loop problems removed")
    for row, metric in PAIRED:
        name = f"{row} {metric}"
        up = int(audit.value("Table 1", row, f"{metric} up"))
        down = int(audit.value("Table 1", row, f"{metric} down"))
        exact = stats.binomtest(up, up + down).pvalue
        audit.derive(
            f"sign test {name}", exact, f"{up} up and {down} down", "Table 1", row,
            f"{metric} sign-test p",
        )  # fmt: skip
        key = ("Table 1", row, f"{metric} difference")
        cell = audit.cell(*key)
        audit.state(
            f"interval holds the difference {name}",
            float(cell.lower) < float(cell.value) < float(cell.upper),
            f"{cell.value} in {cell.lower} to {cell.upper}",
            key,
        )
        limit = int(problems - (removed if row.endswith("greedy") else 0))
        audit.state(
            f"problems counted {name}",
            up + down <= limit,
            f"{up + down} problems with a difference, of at most {limit}",
            ("Table 1", row, f"{metric} up"),
            ("Table 1", row, f"{metric} down"),
        )
    for row in ("same/greedy", "same/sample"):
        audit.derive(
            f"Figure 2 against Table 1 {row}",
            audit.span("Table 1", row, "def1 difference"), "Table 1",
            "Figure 2", row, "paired def1 difference, loops removed",
        )  # fmt: skip


def arms(audit: Audit) -> None:
    for arm in ARMS:
        for mode in MODES:
            key = ("Table 4", arm, f"delta {mode}")
            difference = audit.span("Table 4", arm, f"MAL {mode}") - audit.span(
                "Table 4", "uniform", f"MAL {mode}"
            )
            audit.derive(f"difference {arm} {mode}", difference, "arm minus uniform", *key)
            ends = [audit.span(*key, field=end) for end in ("lower", "upper")]
            audit.derive(
                f"interval center {arm} {mode}", (ends[0] + ends[1]) / 2, "the interval's middle",
                *key,
            )  # fmt: skip


def interval_widths(audit: Audit) -> None:
    """Paired intervals of one design on the same problems should be about equally wide."""
    keys = [("Table 4", arm, f"delta {mode}") for arm in ARMS for mode in MODES]
    cells = {key: audit.cell(*key) for key in keys}
    half = {key: (float(cell.upper) - float(cell.lower)) / 2 for key, cell in cells.items()}
    for key in keys:
        others = min(width for other, width in half.items() if other != key)
        audit.state(
            f"interval width {key[1]} {key[2]}",
            half[key] > NARROW * others,
            f"half width {half[key]:.4f}, the narrowest of the other three {others:.4f}",
            key,
        )


def acceptance_length(audit: Audit) -> None:
    """MAL of Table 3 as (1 - a^(g+1)) / (1 - a), the length under independence, bonus included."""
    rows = audit.rows("Table 3")
    errors = {}
    for length in DRAFT_LENGTHS:
        relative = []
        for row in rows:
            alpha = audit.value("Table 3", row, "alpha")
            predicted = (1 - alpha ** (length + 1)) / (1 - alpha)
            relative.append(abs(predicted / audit.value("Table 3", row, "MAL") - 1))
        errors[length] = max(relative)
    best = min(errors, key=errors.__getitem__)
    audit.state(
        "MAL from alpha",
        errors[best] < 0.01,
        f"with draft length {best} and the bonus token, alpha gives MAL within "
        f"{100 * errors[best]:.1f}% (the draft length itself is not published)",
        *(("Table 3", row, "MAL") for row in rows),
    )


def curve_ranges(audit: Audit) -> None:
    """Whether the ranges of Figure 1(b) can be def1 = (MAL - bonus) / draft length of Table 4."""
    fits = []
    for bonus in (0, 1):
        for length in DRAFT_LENGTHS:
            inside = []
            for row, mode in (("same/sample", "sampling"), ("same/greedy", "greedy")):
                ends = [audit.span("Figure 1", row, f"curve {end} end") for end in ("low", "high")]
                def1 = (audit.span("Table 4", "base", f"MAL {mode}") - bonus) / length
                inside.append(def1.meets(Span(ends[0].low, ends[1].high)))
            if all(inside):
                fits.append(length)
    audit.state(
        "Figure 1 ranges as def1",
        bool(fits),
        "no whole draft length puts the MAL of Table 4, with or without the bonus token, inside "
        "both ranges as def1; they may be def2" if not fits else f"draft lengths {fits}",
        *(
            ("Figure 1", row, f"curve {end} end")
            for row in ("same/greedy", "same/sample")
            for end in ("low", "high")
        ),
    )  # fmt: skip
