"""Tables of ReTrace: its variants side by side, and the probes behind a first rejection."""

from __future__ import annotations

import pandas as pd

from draftscope.block_study.tables import DOMAIN_NOTE, LENGTH_NOTE, interval_note
from draftscope.exhibits.captioned import Table


def probes(frame: pd.DataFrame, *, number: str, confidence: float) -> tuple[Table, Table]:
    """Coverage by rank, and cosines, behind the first rejection.

    Args:
        frame: schema retrace_probes.
    """
    keys = ["mode", "domain", "arm"]
    common = ["prompts", "places", "value", "lower", "upper", "reason"]
    coverage = frame[frame["measure"] == "coverage"][[*keys, "rank", *common]].copy()
    coverage["rank"] = coverage["rank"].astype(int)
    for name in ("value", "lower", "upper"):
        coverage[name] = 100 * coverage[name]
    places = (
        "Places: drafted tokens strictly after the first rejected one of their round, where the text goes "
        "on; all trainings together."
    )
    first = Table(
        coverage,
        f"{number}a. Rank of the target's token in the draft's logits, behind the first rejection",
        [
            (
                "Coverage: share of places where the token that the target came to write has that rank or "
                "a higher one, in percent. A token that the draft vocabulary lacks ranks behind all."
            ),
            places,
            interval_note(confidence),
        ],
        dict.fromkeys(("value", "lower", "upper"), ".1f"),
        {"rank": "rank up to", "value": "coverage, %"},
    )
    cosine = frame[frame["measure"] != "coverage"]
    cosine = cosine[[*keys, "measure", *common]].copy()
    cosine["measure"] = cosine["measure"].map(
        {
            "cosine_true": "target's own text",
            "cosine_random": "another prompt's text",
            "cosine_gap": "difference",
        }
    )
    second = Table(
        cosine,
        f"{number}b. Cosine of the draft's final state with the target's, behind the first rejection",
        [
            (
                "With the state from which the target wrote the token at that place, and with a state of "
                "another prompt's text."
            ),
            places,
            interval_note(confidence),
        ],
        {},
        {"measure": "state of", "value": "mean cosine"},
    )
    return first, second


def ablation(
    lengths_frame: pd.DataFrame,
    speeds: pd.DataFrame,
    differences_frame: pd.DataFrame,
    *,
    backbone: str,
    control: str,
    number: str,
    confidence: float,
) -> Table:
    """Each variant in each domain: length and speed, and what it gained on backbone and control.

    Args:
        lengths_frame, speeds, differences_frame: schemas block_lengths, block_speed and
            block_differences.
    """
    keys = ["mode", "domain", "arm"]
    own = lengths_frame[
        (lengths_frame["pooling"] == "macro") & (lengths_frame["subset"] == "all")
    ].set_index(keys)
    table = own[["trainings", "prompts", "length", "lower", "upper", "reason"]].join(
        speeds[speeds["subset"] == "all"]
        .set_index(keys)[["speedup", "lower", "upper"]]
        .add_prefix("speed_")
    )
    found = differences_frame[
        (differences_frame["pooling"] == "macro") & (differences_frame["subset"] == "all")
    ]
    for name, against in (("backbone", backbone), ("control", control)):
        part = found[found["against"] == against].set_index(keys)
        part = part[["difference", "lower", "upper"]].add_prefix(f"{name}_")
        table = table.join(part)
    table = table.reset_index().drop(columns=["speed_lower", "speed_upper"])
    reason = table.pop("reason").fillna("").to_list()
    arms = table["arm"].to_list()
    said = {backbone: "the backbone", control: "the control"}
    table["reason"] = [one or said.get(arm, "") for one, arm in zip(reason, arms, strict=True)]
    signed = [
        f"{n}_{end}" for n in ("backbone", "control") for end in ("difference", "lower", "upper")
    ]
    headers = {
        "length": "macro tau",
        "speed_speedup": "speedup",
        "backbone_difference": f"minus {backbone}",
        "control_difference": f"minus {control}",
        "backbone_lower": "lower ",
        "backbone_upper": "upper ",
        "control_lower": "lower  ",
        "control_upper": "upper  ",
    }
    notes = [
        LENGTH_NOTE,
        DOMAIN_NOTE,
        interval_note(confidence, paired=True),
        (
            f"{control} trains on from {backbone} with the same texts and steps, without the memory: what "
            "a variant gained on it is the memory's part."
        ),
    ]
    formats = dict.fromkeys(signed, "+.3f") | {"speed_speedup": ".2f"}
    return Table(table, f"{number}. Variants of ReTrace, live", notes, formats, headers)
