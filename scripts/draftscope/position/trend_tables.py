"""Tables about the trend of acceptance within texts, and about the texts that get far."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from draftscope.exhibits.captioned import Table
from draftscope.exhibits.figures import where
from draftscope.position.type_tables import Settings, captioned, intervals_note, records_of

MODEL_WORD = {
    "pooled": "pooled (one intercept)",
    "position": "within texts",
    "adjusted": "within texts, adjusted",
}


def trend(model: pd.DataFrame, settings: Settings) -> Table:
    """Does acceptance fall with position: slopes, their intervals, and tests of a margin.

    Args:
        model: schema position_model, as a frame.
    """
    chosen = where(model, term="log2_position")
    # Where every position has the same texts, one intercept gives the same slope as many.
    chosen = chosen[(chosen["model"] != "pooled") | (chosen["reached"] == 0)]
    frame = pd.DataFrame(
        {
            "configuration": [f"{r['label']}/{r['mode']}" for r in records_of(chosen)],
            "outcome": chosen["outcome"].to_numpy(),
            "texts": [_reached(n) for n in chosen["reached"]],
            "model": [MODEL_WORD[name] for name in chosen["model"]],
            "prompts": chosen["prompts"].to_numpy(),
            "positions": chosen["positions"].to_numpy(),
            "slope": chosen["estimate"].to_numpy(),
            "slope_lower": chosen["estimate_lower"].to_numpy(),
            "slope_upper": chosen["estimate_upper"].to_numpy(),
            "p": chosen["p"].to_numpy(),
            "equivalence_p": chosen["equivalence_p"].to_numpy(),
            "decay_p": chosen["decay_p"].to_numpy(),
            "verdict": chosen["verdict"].to_numpy(),
            "reason": [_model_reason(r) for r in records_of(chosen)],
        }
    )
    margin = settings["margin"]
    formats: dict[str, Any] = dict.fromkeys(("slope", "slope_lower", "slope_upper"), "+.4f")
    formats |= dict.fromkeys(("p", "equivalence_p", "decay_p"), ".2g")
    headers = {f"slope_{end}": f"slope {end}" for end in ("lower", "upper")}
    headers |= {"equivalence_p": "p (within margin)", "decay_p": "p (no fall of it)"}
    notes = [
        (
            "Slope: change of acceptance by a doubling of the position, log2(1 + i) of position i from 0. "
            "Linear model of every position, errors clustered by prompt; loop problems removed."
        ),
        (
            "Within texts: each text has an intercept of its own, so that a text which is easy, and long "
            "or short for it, is no trend. Adjusted: also the type of the token, the target's entropy and "
            "whether the text repeats itself there. Pooled: one intercept, which is what a pooled curve "
            "shows; it is fooled where easy texts are longer or shorter than others."
        ),
        (
            "Texts of a length or more: only those, and only their first so many positions, so that every "
            "position has the same texts (a pooled slope is then that within texts)."
        ),
        (
            f"The margin is {margin:g} of acceptance a doubling. p (within margin): two one-sided tests "
            "(Schuirmann 1987); p (no fall of it): one-sided, against a fall of the margin or more. Small "
            "values say so with evidence; a large p of the slope alone would not."
        ),
        intervals_note(settings),
    ]
    caption = captioned("Trend of acceptance along a text, as an estimate", model)
    return Table(frame, caption, notes, formats, headers)


def effects(model: pd.DataFrame, settings: Settings) -> Table:
    """What else acceptance goes with, within texts: type, entropy, repetition.

    Args:
        model: schema position_model, as a frame.
    """
    chosen = model[(model["model"] == "adjusted") & (model["reached"] == 0)]
    chosen = chosen[chosen["estimate"].notna() | chosen["term"].eq("log2_position")]
    frame = pd.DataFrame(
        {
            "configuration": [f"{r['label']}/{r['mode']}" for r in records_of(chosen)],
            "outcome": chosen["outcome"].to_numpy(),
            "term": [_term(name) for name in chosen["term"]],
            "prompts": chosen["prompts"].to_numpy(),
            "change": chosen["estimate"].to_numpy(),
            "change_lower": chosen["estimate_lower"].to_numpy(),
            "change_upper": chosen["estimate_upper"].to_numpy(),
            "p": chosen["p"].to_numpy(),
            "reason": [_model_reason(r) for r in records_of(chosen)],
        }
    )
    formats: dict[str, Any] = dict.fromkeys(("change", "change_lower", "change_upper"), "+.3f")
    headers = {f"change_{end}": f"change {end}" for end in ("lower", "upper")}
    notes = [
        (
            "Terms of the adjusted model of the table of trends, over all texts: change of acceptance by "
            "a doubling of the position, by a nat of the target's entropy (T = 1), inside a repetition, and "
            "of each type against words. Terms that no text lets be told are left out."
        ),
        intervals_note(settings),
    ]
    caption = captioned("What acceptance goes with inside a text", model)
    return Table(frame, caption, notes, formats | {"p": ".2g"}, headers)


def survival(survivors: pd.DataFrame, settings: Settings) -> Table:
    """How many prompts reach each length, and how they are accepted.

    Args:
        survivors: schema position_survival, as a frame.
    """
    rows = records_of(survivors)
    names = [f"{part}{end}" for part in ("whole", "beginning") for end in ("", "_lower", "_upper")]
    frame = pd.DataFrame(
        [
            {
                "configuration": f"{row['label']}/{row['mode']}",
                "texts": _reached(row["reached"]),
                "prompts": row["prompts"],
                "of": row["prompts_total"],
                **{name: row[name] for name in names},
                "reason": row["reason"],
            }
            for row in rows
        ],
        columns=["configuration", "texts", "prompts", "of", *names, "reason"],
    )
    beginning = min(settings["lengths"])
    headers = {"whole": "acceptance", "beginning": f"of their first {beginning} tokens"}
    for part in ("whole", "beginning"):
        for end in ("lower", "upper"):
            headers[f"{part}_{end}"] = f"{headers[part]} {end}"
    notes = [
        (
            "Acceptance (alpha, or match for prompt lookup) of the texts that reach a length, loop problems "
            f"removed: over all of their positions, and over their first {beginning} tokens, where all texts "
            "can be compared. Where the texts that get far are easier or harder from the beginning, a "
            "pooled curve over positions shows a trend that no text has."
        ),
        intervals_note(settings),
    ]
    return Table(frame, captioned("Prompts alive at each length", survivors), notes, {}, headers)


def _reached(length: int) -> str:
    return f"{length} tokens or more" if length else "all"


def _term(name: str) -> str:
    words = {"log2_position": "position, doubled", "entropy": "entropy, a nat more"}
    return words.get(name) or ("repeating" if name == "repeated" else f"{name} against word")


def _model_reason(row: Mapping[str, Any]) -> str | None:
    if row["reason"]:
        return row["reason"]
    return "no test: prompts all alike" if row["p"] is None else None
