"""What speculation gains as more texts are decoded together, and the table that shows it.

A batch of one reads the weights for a single token, so that the other tokens of a block are nearly
free; a large batch fills the machine by itself, and what is rejected then costs what it computes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from draftscope.exhibits.captioned import METHODS, Table
from draftscope.lossless.speed import PHASES, Settings, ends
from draftscope.statistics import bootstrap

_WAY = ["engine", "batch_size"]


def batch_rows(
    times: pd.DataFrame, names: Mapping[str, str], settings: Settings
) -> list[dict[str, Any]]:
    """Rows of schema lossless_batch: the loop over one text first, then batches by their size.

    The unit of every interval is the batch, since texts that share passes share their times.

    Args:
        times: schema live_batches, as a frame, of plain decoding and one draft length.
        names: pair, domain and mode.
    """
    frame = times.assign(seconds=times[[f"{phase}_seconds" for phase in PHASES]].sum(axis=1))
    frame["prompts"] = frame["prompt_ids"].map(len)
    timed, counted = ["seconds", "later_verify_seconds"], ["prompts", "tokens", "rounds", "passes"]
    batches = frame.groupby([*_WAY, "draft_length", "batch"], as_index=False, sort=False).agg(
        {
            **{name: "median" for name in timed},
            **{name: "first" for name in counted},
            "identical": "min",
            "repeat": "nunique",
        }
    )
    gamma = int(batches["draft_length"].max())
    rows = []
    for (engine, size), own in batches.groupby(_WAY, sort=False):
        plain, drafted = (
            own[own["draft_length"] == length].set_index("batch").sort_index()
            for length in (0, gamma)
        )
        options = settings.options("batch", engine, int(size))
        pace = [part["seconds"] / part["tokens"] for part in (plain, drafted)]
        gain = bootstrap(
            pace[0].to_numpy(), denominators=pace[1].to_numpy(), statistic="ratio", **options
        )
        passes = [_pass(part) for part in (plain, drafted)]
        row = {
            **names,
            "engine": engine,
            "batch_size": int(size),
            "draft_length": gamma,
            "prompts": int(drafted["prompts"].sum()),
            "batches": len(drafted),
            "repeats": int(drafted["repeat"].min()),
            "tokens": int(drafted["tokens"].sum()),
            **ends("plain_tokens_per_second", _rate(plain, options).within()),
            **ends("tokens_per_second", _rate(drafted, options).within()),
            **ends("speedup", gain.within()),
            "acceptance_length": float(drafted["tokens"].sum() / drafted["rounds"].sum()),
            "plain_pass": passes[0],
            "verify_pass": passes[1],
            "verify_ratio": passes[1] / passes[0] if None not in passes else None,
            "identical": int(plain["identical"].sum() + drafted["identical"].sum()),
            "texts": int(plain["prompts"].sum() + drafted["prompts"].sum()),
            "method": gain.method,
        }
        if len(drafted) < FEWEST:
            row |= {name: None for name in row if name.endswith(("_lower", "_upper"))}
        rows.append(row | {"reason": _reason(row, gain.reason)})
    return rows


def _rate(part: pd.DataFrame, options: Mapping[str, Any]):
    tokens, seconds = part["tokens"].to_numpy(), part["seconds"].to_numpy()
    return bootstrap(tokens, denominators=seconds, statistic="ratio", **options)


def _pass(part: pd.DataFrame) -> float | None:
    """Seconds of a pass of the target after the first, which reads the prompts."""
    later = int((part["passes"] - 1).sum())
    return float(part["later_verify_seconds"].sum()) / later if later else None


FEWEST = 4  # an interval from fewer batches says nothing


def _reason(row: Mapping[str, Any], interval: str | None) -> str | None:
    if row["batches"] < FEWEST:
        return f"fewer than {FEWEST} batches: no interval"
    if row["verify_ratio"] is None:
        return "no text has a second round"
    return interval.replace("prompts", "batches") if interval else None


def batch(frame: pd.DataFrame, settings: Mapping[str, Any]) -> Table:
    """Tokens a second by batch size, plain and speculative, and what speculation gains.

    Args:
        frame: schema lossless_batch, as a frame.
    """
    columns = {"engine": frame["engine"], "batch_size": frame["batch_size"]}
    headers = {"batch_size": "batch", "acceptance_length": "tokens a round", "verify_ratio": "v"}
    for name, short, heading in (
        ("plain_tokens_per_second", "plain", "plain tok/s"),
        ("tokens_per_second", "spec", "tok/s"),
        ("speedup", "speedup", "speedup"),
    ):
        columns[short], headers[short] = frame[name], heading
        for end in ("lower", "upper"):
            columns[f"{short}_{end}"], headers[f"{short}_{end}"] = frame[f"{name}_{end}"], end
    same = [f"{a} of {b}" for a, b in zip(frame["identical"], frame["texts"], strict=True)]
    table = pd.DataFrame(columns).assign(
        acceptance_length=frame["acceptance_length"],
        verify_ratio=frame["verify_ratio"],
        same=same,
        batches=frame["batches"],
        reason=frame["reason"],
    )
    numbers = [name for name in headers if name != "batch_size"]
    said = {name: ", ".join(dict.fromkeys(frame[name].astype(str))) for name in _SAID}
    return Table(
        table,
        "Batches: plain and speculative speed of pair {pair}, mode {mode}, draft length "
        "{draft_length} (domain {domain})".format(**said),
        [
            (
                "Texts of a batch share every pass; each has its own drafts and acceptance, and "
                "leaves when it ends. Batch 1 of the first row is the loop of the other tables. "
                "Speedup: mean seconds a token of plain decoding in batches of the same size, "
                "divided by that of speculation; reading of the prompts, padded to the longest "
                "of a batch, is included."
            ),
            (
                "v: time of the target's pass over a block / over one token of each text, without "
                "the first pass, which reads the prompts. Texts as alone: texts, plain and "
                "speculative, with the tokens and the rounds that they have in the first row; in "
                "float32 all, in a narrow data type near-ties may fall otherwise."
            ),
            (
                f"Intervals: {settings['confidence']:.0%}, batches resampled "
                f"{settings['resamples']:,} times, {METHODS[settings['method']]}."
            ),
        ],
        dict.fromkeys(numbers, ".2f"),
        headers | {"same": "texts as alone"},
    )


_SAID = ("pair", "mode", "draft_length", "domain")
