"""Tables 1 to 6 of the certificates study: what the target alone says."""

from __future__ import annotations

from collections.abc import Sequence

from draftscope.certificate_study.lookup import Row, Statistics, number
from draftscope.certificate_study.resampling import QUANTILE_RESAMPLES
from draftscope.certificate_study.schemas import QUANTILES
from draftscope.domains.layout import nothing, table
from draftscope.exhibits.captioned import METHODS, Table

NATS, SHARE, TOKENS = ".3f", ".3f", ".2f"
INFINITE = (
    "Where no token can be rejected (additive acceptance with p(x0) below t) a certificate is "
    "infinite. The mean leaves such positions out, quantiles count them as above all others; their "
    "share stands beside."
)


def intervals(settings: Row) -> str:
    """How the intervals in brackets were made."""
    return (
        f"Intervals: {settings['confidence']:.0%}, prompts resampled; of means "
        f"{settings['resamples']:,} times, {METHODS[settings['method']]}, of quantiles "
        f"{min(settings['resamples'], QUANTILE_RESAMPLES):,} times, percentile. The published study "
        "has none."
    )


def _summary(row: Row) -> Row:
    out = number(row, "mean")
    for name in QUANTILES:
        out |= number(row, name)
    return out


_COLUMNS = {
    "mean": ("mean", NATS),
    "median": ("median", NATS),
    "p5": ("p5", NATS),
    "p25": ("p25", NATS),
}


def mass(found: Statistics) -> Table:
    """Table 1: cumulative probability of the most probable tokens."""
    rows = [
        {key: row[key] for key in ("target", "domain", "k", "prompts", "positions")}
        | _summary(row)
        | {"reason": row["reason"]}
        for row in found.rows("mass")
    ]
    columns = {
        "target": ("target", None),
        "domain": ("domain", None),
        "k": ("k", None),
        "prompts": ("prompts", None),
        "positions": ("positions", None),
        **_COLUMNS,
    }
    notes = ["The target's distribution at temperature 1 at every generated position.",
             intervals(found.settings)]  # fmt: skip
    return table(rows, columns, "Table 1. Probability of the k most probable tokens", notes)


def values(found: Statistics) -> Table:
    """Table 2: exact certificates of the main criteria."""
    wanted = found.labels()
    rows = [
        {key: row[key] for key in ("target", "domain", "criterion", "prompts", "positions")}
        | _summary(row)
        | {"infinite": row["infinite"], "bound": row["bound"], "reason": row["reason"]}
        for row in found.rows("values")
        if row["criterion"] in wanted
    ]
    columns = {
        "target": ("target", None),
        "domain": ("domain", None),
        "criterion": ("criterion", None),
        "prompts": ("prompts", None),
        "positions": ("positions", None),
        **_COLUMNS,
        "infinite": ("share infinite", SHARE),
        "bound": ("mean of the closed-form bound", NATS),
    }
    return table(
        rows or [nothing("target")],
        columns,
        "Table 2. Exact certificates in nats: a draft with a smaller KL is accepted",
        [
            (
                "Certificate: the least KL(p || q) of a draft q whose most probable token, or one of "
                "several, is rejected. Ceilings: log 2 = 0.693 for criteria on one token, "
                "log(m + 1) for a tree of m."
            ),
            (
                "The closed-form bound needs the two probabilities that matter, and for a tree the "
                "margin p(x0) - p(x_(m)); it is exact for strict greedy."
            ),
            INFINITE,
            intervals(found.settings),
        ],
    )


def _sweep(found: Statistics, kinds: Sequence[str]) -> list[Row]:
    return [
        {key: row[key] for key in ("target", "domain", "criterion", "positions")}
        | number(row, "p5")
        | number(row, "mean")
        | {"infinite": row["infinite"], "reason": row["reason"]}
        for row in found.rows("values")
        if row["kind"] in kinds
    ]


_SWEEP = {
    "target": ("target", None),
    "domain": ("domain", None),
    "criterion": ("criterion", None),
    "positions": ("positions", None),
    "p5": ("p5", NATS),
    "mean": ("mean", NATS),
    "infinite": ("share infinite", SHARE),
}


def tolerances(found: Statistics) -> Table:
    """Table 3: additive and multiplicative acceptance at several tolerances."""
    return table(
        _sweep(found, ("additive", "multiplicative")) or [nothing("target")],
        _SWEEP,
        "Table 3. Certificates of additive and multiplicative acceptance by tolerance, in nats",
        ["p5: 5% of the positions tolerate no more than this KL.", INFINITE,
         intervals(found.settings)],
    )  # fmt: skip


def top_m(found: Statistics) -> Table:
    """Table 4: additive acceptance among the m most probable tokens."""
    return table(
        _sweep(found, ("top_m_additive",)) or [nothing("target")],
        _SWEEP,
        "Table 4. Certificates of additive acceptance among the m most probable tokens, in nats",
        [
            (
                "Accepted is a token among the m most probable whose probability lies above "
                "p(x0) - t. The published formula sets the threshold at p(x_[m]); read as the m-th "
                "largest, m = 2 would be strict greedy and its p5 that of strict greedy, which "
                "Table 4 does not show, so x_[0] is taken to be x0."
            ),
            INFINITE,
            intervals(found.settings),
        ],
    )


def runs(found: Statistics, place: int) -> Table:
    """Tables 5 and 6: certified runs of the first and the second target."""
    number_of = 5 + place
    caption = f"Table {number_of}. Certified runs"
    if place >= len(found.targets):
        only = {"target": "none", "reason": f"this experiment has {len(found.targets)} target"}
        return table([only], {"target": ("target", None)}, caption, [])
    target = found.targets[place]
    rows = [
        {key: row[key] for key in ("domain", "criterion", "kl", "positions", "certified")}
        | number(row, "run")
        | number(row, "uncut")
        | {"reason": row["reason"]}
        for row in found.rows("runs", target=target)
    ]
    return table(
        rows,
        {
            "domain": ("domain", None),
            "criterion": ("criterion", None),
            "kl": ("KL of the draft (nats)", ".4g"),
            "positions": ("positions", None),
            "certified": ("share certified", SHARE),
            "run": ("run from a random start (tokens)", TOKENS),
            "uncut": ("positions / uncertified (tokens)", TOKENS),
        },
        f"{caption} of {target}: how far a draft of a given KL is sure of acceptance",
        [
            (
                "A position is certified for a draft of KL e where its certificate is above e. Run: "
                "from a random start to the first uncertified position, which counts, cut at the end "
                f"of the text and at {found.settings['cap']} tokens. Positions / uncertified: the "
                "same for endless texts of positions alike; what the published means, which texts of "
                "128 tokens cannot hold, are compared with."
            ),
            intervals(found.settings),
        ],
    )
