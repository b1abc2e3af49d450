"""Tables of the studies of block drafters: profiles over the slots of a block, and measured speed."""

from __future__ import annotations

import pandas as pd

from draftscope.block_study.tables import DOMAIN_NOTE, SUBSET_WORD, YES_NO, interval_note
from draftscope.exhibits.captioned import Table


def positions(frame: pd.DataFrame, *, number: str, confidence: float) -> Table:
    """Acceptance by slot of the block, of all rounds and of those that come so far.

    Args:
        frame: schema block_positions.
    """
    kept = frame[frame["subset"] == "all"]
    keys = ["mode", "domain", "arm", "position"]
    kinds = {
        kind: kept[kept["kind"] == kind].set_index(keys) for kind in dict.fromkeys(kept["kind"])
    }
    values = ["rate", "lower", "upper", "rounds"]
    table = kinds["unconditional"][[*values, "reason"]].join(
        kinds["conditional"][[*values, "reason"]].add_prefix("conditional_")
    )
    table = table.reset_index()
    reasons = table.pop("reason").fillna(""), table.pop("conditional_reason").fillna("")
    table["reason"] = [one or other for one, other in zip(*reasons, strict=True)]
    headers = {
        "position": "slot",
        "rate": "accepted / rounds",
        "conditional_rate": "accepted / reached",
        "conditional_lower": "reached: lower",
        "conditional_upper": "reached: upper",
        "conditional_rounds": "rounds that reach it",
    }
    notes = [
        (
            "Slot 1 is the first drafted token. Accepted / rounds is unconditional: a slot counts only if "
            "all before it were accepted. Accepted / reached is conditional: of rounds that accepted all "
            "before it and offered it."
        ),
        "Rates are pooled over the rounds of a training (micro), all prompts; " + DOMAIN_NOTE,
        interval_note(confidence),
    ]
    return Table(table, f"{number}. Acceptance by slot of the block", notes, {}, headers)


def speed(frame: pd.DataFrame, *, number: str, confidence: float) -> Table:
    """Measured speed of each arm beside plain decoding.

    Args:
        frame: schema block_speed.
    """
    columns = [
        "mode",
        "domain",
        "arm",
        "subset",
        "trainings",
        "prompts",
        "speedup",
        "lower",
        "upper",
    ]
    columns += ["plain_rate", "rate", "length", "plain_step", "verify", "draft", "reason"]
    table = frame[columns].copy()
    table["subset"] = table["subset"].map(SUBSET_WORD)
    for name in ("plain_step", "verify", "draft"):
        table[name] = 1000 * table[name]
    absent = frame[["plain_step", "verify", "draft"]].isna().any(axis=1)
    table.loc[absent & table["reason"].isna(), "reason"] = "no round after the first"
    headers = {
        "plain_rate": "plain, tokens/s",
        "rate": "arm, tokens/s",
        "length": "tau of these texts",
        "plain_step": "plain step, ms",
        "verify": "verifying a block, ms",
        "draft": "drafting a block, ms",
    }
    formats = {"speedup": ".2f", "lower": ".2f", "upper": ".2f", "plain_rate": ".1f", "rate": ".1f"}
    formats |= dict.fromkeys(("length", "plain_step", "verify", "draft"), ".2f")
    notes = [
        (
            "Speedup: time a token of plain decoding takes over that of the arm, for the same prompt in "
            "the same process, one text at a time, the prompt's reading included; geometric mean over "
            "prompts. Below 1 the arm is slower. Medians of repeated passes."
        ),
        DOMAIN_NOTE,
        interval_note(confidence),
    ]
    return Table(table, f"{number}. Measured speed against plain decoding", notes, formats, headers)


def speed_differences(
    frame: pd.DataFrame, *, number: str, confidence: float, paired: bool = False
) -> Table:
    """Ratios of measured speeds.

    Args:
        frame: schema block_speed_differences.
    """
    columns = ["mode", "domain", "arm", "against", "subset", "trainings", "prompts", "ratio"]
    columns += ["lower", "upper"]
    columns += ["prompts_lower", "prompts_upper", "p", "separated", "reason"]
    table = frame[columns].copy()
    table["subset"] = table["subset"].map(SUBSET_WORD)
    table["separated"] = table["separated"].map(YES_NO).fillna("cannot be told")
    headers = {
        "ratio": "ratio of speeds",
        "prompts_lower": "prompts alone: lower",
        "prompts_upper": "prompts alone: upper",
    }
    notes = [
        "Each speed is relative to plain decoding of the same prompt; a ratio above 1: the arm is faster.",
        DOMAIN_NOTE,
        interval_note(confidence, paired),
    ]
    return Table(table, f"{number}. Measured speed of arms against each other", notes, {"p": ".2g"},
                 headers)  # fmt: skip
