"""Tables of the proof: equivalence on three levels, greedy texts, replay against live."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from draftscope.exhibits.captioned import METHODS, Table
from draftscope.lossless.judgement import verdicts


def equivalence(frame: pd.DataFrame) -> Table:
    """Every test of losslessness: decoders that must pass and controls that must be caught.

    Args:
        frame: schema lossless_equivalence, as a frame.
    """
    outcome = [
        ("passes" if correct else "missed") if not rejected else ("fails" if correct else "caught")
        for correct, rejected in zip(frame["correct"], frame["rejected"], strict=True)
    ]
    table = pd.DataFrame(
        {
            "level": frame["level"],
            "subject": frame["subject"],
            "rule": frame["rule"],
            "must": ["pass" if correct else "be caught" for correct in frame["correct"]],
            "test": frame["test"],
            "texts": frame["texts"].astype("Int64"),
            "tokens": frame["tokens"].astype("Int64"),
            "statistic": frame["statistic"],
            "freedom": frame["freedom"].astype("Int64"),
            "p": frame["p"],
            "total_variation": frame["total_variation"],
            "detectable": frame["detectable"],
            "outcome": outcome,
            "reason": frame["reason"],
        }
    )
    levels = sorted(set(frame["level_of_test"]))
    found = verdicts(frame.to_dict("records"))
    missed, rejected, pooled = (
        ", ".join(found[name]) or "none" for name in ("missed", "rejected", "pooled")
    )
    notes = [
        f"A p-value below {', '.join(f'{level:g}' for level in levels)} rejects.",
        (
            "Detectable: the total variation between the cells of the test, of which rare tokens "
            "share one, that it finds with probability .9. A pass says no more than that: a fault "
            "that moves probability among rare tokens alone is not seen, and pooled counts see the "
            "frequency of tokens and not their law given the text."
        ),
        "Controls are rules that are wrong on purpose, each caught when one of its tests rejects.",
        f"Controls that no test caught: {missed}. Correct decoders that a test rejected: {rejected}.",
        (
            "Rejected by the published pooled test alone, which takes the tokens of a text for "
            f"independent: {pooled}."
        ),
    ]
    formats = {"statistic": ".1f", "p": ".2g", "total_variation": ".4f", "detectable": ".4f"}
    headers = {"total_variation": "total variation", "detectable": "detectable"}
    return Table(table, "Equivalence with the target's law", notes, formats, headers)


def greedy(frame: pd.DataFrame) -> Table:
    """Greedy texts beside plain decoding, a row a configuration and draft length."""
    rows = []
    keys = ["pair", "domain", "mode", "draft_length", "dtype"]
    for key, own in frame.groupby(keys, sort=False):
        flipped = own[~own["identical"]]
        gap = flipped["gap"].dropna()
        rows.append(
            {
                "pair": key[0],
                "mode": key[2],
                "draft_length": key[3],
                "dtype": key[4],
                "prompts": len(own),
                "tokens": int(own["tokens"].sum()),
                "identical": int(own["identical"].sum()),
                "gap_low": float(gap.min()) if len(gap) else None,
                "gap_high": float(gap.max()) if len(gap) else None,
                "reason": "no flip" if flipped.empty else None if len(gap) else "gaps not kept",
            }
        )
    columns = ["pair", "mode", "draft_length", "dtype", "prompts", "tokens", "identical",
               "gap_low", "gap_high", "reason"]  # fmt: skip
    return Table(
        pd.DataFrame(rows, columns=columns),
        "Greedy texts of the loop beside plain decoding",
        [
            (
                "Identical: the same ids, to the end. Gap: the target's best minus its second logit "
                "at the first position that differs. A flip at a gap of the size of rounding is a "
                "near-tie that another shape of the pass decided otherwise, not a wrong rejection."
            ),
        ],
        {"gap_low": ".2g", "gap_high": ".2g"},
        {"draft_length": "K", "gap_low": "smallest gap", "gap_high": "largest gap"},
    )


def replay(frame: pd.DataFrame, settings: Mapping) -> Table:
    """Replay beside the live loop, a row a configuration and draft length."""
    table = pd.DataFrame(
        {
            "pair": frame["pair"],
            "mode": frame["mode"],
            "draft_length": frame["draft_length"],
            "prompts": frame["prompts"],
            "texts": frame["texts"],
            "live": frame["live"],
            "replayed": frame["replayed"],
            "difference": frame["difference"],
            "difference_lower": frame["difference_lower"],
            "difference_upper": frame["difference_upper"],
            "p": frame["p"],
            "equal": [_equal(p) for p in frame["p"]],
            "prompts_needed": frame["prompts_needed"].astype("Int64"),
            "same_rounds": frame["same_rounds"].astype("Int64"),
            "length_p": frame["length_p"],
            "left_out": frame["left_out"],
            "reason": frame["reason"],
        }
    )
    margin = frame["margin"].iloc[0] if len(frame) else settings["margin"]
    return Table(
        table,
        "Acceptance length of the live loop and of replay on the same texts",
        [
            (
                "Tokens a round of each text, mean over prompts; each text is replayed "
                f"{int(frame['replays'].max()) if len(frame) else 0} times where chance is left."
            ),
            (
                f"Equal: two one-sided tests put the difference within {margin:g} tokens (p below "
                ".05), a stronger claim than an interval that holds 0; lower and upper are the 90% "
                f"interval that belongs to it ({METHODS[settings['method']]}). Prompts needed: how "
                "many would show it with power .8, if there were no difference."
            ),
            (
                "Same rounds: texts whose rounds agree one for one, where nothing is left to chance. "
                "Lengths p: Monte Carlo test of the counts of rounds by accepted tokens."
            ),
        ],
        {
            **dict.fromkeys(["live", "replayed"], ".3f"),
            **dict.fromkeys(["difference", "difference_lower", "difference_upper"], "+.3f"),
            "p": ".2g",
            "length_p": ".2g",
        },
        {
            "draft_length": "K",
            "difference_lower": "lower",
            "difference_upper": "upper",
            "prompts_needed": "prompts needed",
            "same_rounds": "same rounds",
            "length_p": "lengths p",
            "left_out": "left out",
        },
    )


def _equal(p: float | None) -> str:
    if p is None or pd.isna(p):
        return "untested"
    return "yes" if p < 0.05 else "not shown"
