"""Tables of the lossless study: configurations, sweep over draft lengths, positions, phases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from draftscope.exhibits.captioned import METHODS, Table

LENGTH = {"draft_length": "K"}
_CONFIGURATION = ["pair", "mode"]
SPEEDUP_NOTE = (
    "Speedup: mean seconds a token of plain decoding through the same loop divided by that of "
    "speculation, over prompts, reading of the prompt included; prompts are paired."
)


def intervals_note(settings: Mapping) -> str:
    """How lower and upper were made."""
    return (
        f"Intervals: {settings['confidence']:.0%}, prompts resampled "
        f"{settings['resamples']:,} times, {METHODS[settings['method']]}."
    )


def _with_ends(rows: pd.DataFrame, names: Mapping[str, str]) -> pd.DataFrame:
    """Columns of the frame, each followed by the ends of its interval where it has one."""
    columns = {}
    for name, heading in names.items():
        columns[heading] = rows[name]
        for end in ("lower", "upper"):
            if f"{name}_{end}" in rows:
                columns[f"{heading}_{end}"] = rows[f"{name}_{end}"]
    return pd.DataFrame(columns)


def _headers(columns: Sequence[str], known: Mapping[str, str]) -> dict[str, str]:
    """Headings; the ends of an interval are plain `lower` and `upper` behind their number."""
    out = {}
    for name in columns:
        stem, _, end = name.rpartition("_")
        if end in ("lower", "upper") and stem in columns:
            out[name] = end
        elif name in known:
            out[name] = known[name]
    return out


def _percent(rows: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    scaled = [n for name in names for n in (name, f"{name}_lower", f"{name}_upper") if n in rows]
    return rows.assign(**{name: 100 * rows[name].astype(float) for name in scaled})


def configurations(speed: pd.DataFrame, draft_length: int, settings: Mapping) -> Table:
    """Plain and speculative speed of every pair and mode at one draft length.

    Args:
        speed: schema lossless_speed, as a frame.
    """
    rows = []
    for key, own in speed.groupby(["pair", "domain", "mode"], sort=False):
        plain = own[own["draft_length"] == 0].iloc[0]
        row = own[own["draft_length"] == draft_length].iloc[0]
        rows.append(
            {
                "pair": key[0],
                "mode": key[2],
                "beside": "–" if pd.isna(row["published"]) else row["published"],
                "prompts": row["prompts"],
                "tokens": row["tokens"],
                "base": plain["tokens_per_second"],
                "base_sd": plain["tokens_per_second_sd"],
                "spec": row["tokens_per_second"],
                "spec_sd": row["tokens_per_second_sd"],
                "speedup": row["speedup"],
                "speedup_lower": row["speedup_lower"],
                "speedup_upper": row["speedup_upper"],
                "speedup_of_rates": row["speedup_of_rates"],
                "acceptance": row["acceptance"],
                "acceptance_lower": row["acceptance_lower"],
                "acceptance_upper": row["acceptance_upper"],
                "base_first": plain["first_token"],
                "spec_first": row["first_token"],
                "memory": row["peak_memory"],
                "reason": row["reason"],
            }
        )
    frame = _percent(pd.DataFrame(rows), ["acceptance"])
    formats = dict.fromkeys(["base", "base_sd", "spec", "spec_sd", "memory"], ".2f")
    formats |= {n: ".1f" for n in frame if n.startswith("acceptance")}
    formats |= {n: ".2f" for n in frame if n.startswith("speedup")}
    headers = {
        "beside": "published configuration",
        "base": "plain tok/s",
        "base_sd": "sd",
        "spec": "tok/s",
        "spec_sd": "sd over prompts",
        "speedup_of_rates": "ratio of mean tok/s",
        "acceptance": "acceptance %",
        "base_first": "plain TTFT s",
        "spec_first": "TTFT s",
        "memory": "peak GB",
    }
    return Table(
        frame,
        f"Speed of plain and speculative decoding at draft length {draft_length}{_domain(speed)}",
        [
            SPEEDUP_NOTE + " The ratio of mean tok/s is what is usually published.",
            (
                "Acceptance: accepted / offered drafts, pooled. TTFT: until the first token, which "
                "includes the first draft and verification."
            ),
            (
                "Peak: high-water mark of the process that ran plain decoding and all draft lengths "
                "of the configuration, an upper bound for each."
            ),
            intervals_note(settings),
        ],
        formats,
        _headers(frame.columns, headers),
    )


def sweep(speed: pd.DataFrame, settings: Mapping) -> Table:
    """Every draft length: speed, acceptance, and the speedup that they and c predict."""
    rows = _percent(speed, ["acceptance"])
    names = [
        *_CONFIGURATION, "draft_length", "tokens_per_second", "tokens_per_second_sd", "speedup",
        "acceptance", "acceptance_length", "yield_positions", "yield_iid", "cost_ratio",
        "verify_ratio", "predicted", "predicted_with_verify", "predicted_iid",
    ]  # fmt: skip
    frame = _with_ends(rows, {name: name for name in names}).assign(reason=rows["reason"])
    formats = {n: ".2f" for n in frame.columns if n not in (*_CONFIGURATION, "draft_length")}
    formats |= {n: ".1f" for n in frame if n.startswith("acceptance")}
    formats |= {n: ".2f" for n in frame if n.startswith("acceptance_length")}
    del formats["reason"]
    headers = {
        **LENGTH,
        "tokens_per_second": "tok/s",
        "tokens_per_second_sd": "sd over prompts",
        "acceptance": "acceptance %",
        "acceptance_length": "tokens a round",
        "yield_positions": "by positions",
        "yield_iid": "by pooled rate",
        "cost_ratio": "c",
        "verify_ratio": "v",
        "predicted": "predicted given c",
        "predicted_with_verify": "predicted given c and v",
        "predicted_iid": "predicted by pooled rate, given c",
    }
    return Table(
        frame,
        f"Draft lengths: measured speed, and what acceptance and cost predict{_domain(speed)}",
        [
            SPEEDUP_NOTE,
            (
                "Tokens a round: measured; by positions: 1 + the sum of the acceptance at each draft "
                "position, which is the same up to rounds that the end of the text cut; by pooled "
                "rate: (1 - a^(K+1)) / (1 - a) with a = accepted / offered, which misleads, since "
                "positions after a rejection count as failures in a."
            ),
            (
                "c: time of a draft step / time of a pass of plain decoding. v: time of a pass over "
                "K + 1 tokens / time of a pass of plain decoding. Predicted given c: tokens a round "
                "/ (drafts offered c + 1), which takes v as 1; given c and v: with v in place of 1."
            ),
            intervals_note(settings),
        ],
        formats,
        _headers(frame.columns, headers),
    )


def positions(frame: pd.DataFrame, draft_length: int, settings: Mapping) -> Table:
    """Acceptance at each draft position of one draft length."""
    rows = frame[frame["draft_length"] == draft_length]
    rows = _percent(rows, ["position_rate", "conditional_rate"])
    names = {n: n for n in (*_CONFIGURATION, "position", "position_rate", "conditional_rate")}
    table = _with_ends(rows, names).assign(
        reached=rows["reached"], rounds=rows["rounds"], reason=rows["reason"]
    )
    formats = {n: ".1f" for n in table if "rate" in n}
    headers = {"position_rate": "accepted %", "conditional_rate": "accepted % where reached"}
    return Table(
        table,
        f"Acceptance by draft position at draft length {draft_length}{_domain(frame)}",
        [
            (
                "Accepted %: of all rounds, whether or not the position was reached; where reached: "
                "of the rounds that accepted every position before it and offered this one."
            ),
            intervals_note(settings),
        ],
        formats,
        _headers(table.columns, headers),
    )


def phases(frame: pd.DataFrame) -> Table:
    """Time a token by phase, a row a draft length."""
    rows = []
    keys = ["pair", "domain", "mode", "draft_length"]
    for key, own in frame.groupby(keys, sort=False):
        by_phase = own.set_index("phase")
        row = {"pair": key[0], "mode": key[2], "draft_length": key[3]}
        for phase in ("draft", "verify", "sample", "other", "total"):
            present = phase in by_phase.index
            row[phase] = 1000 * by_phase.loc[phase, "per_token"] if present else None
        later = [
            phase for phase in ("draft", "verify", "sample", "other") if row[phase] is not None
        ]
        row["sum"] = sum(row[phase] for phase in later) if later else None
        row["tokens"] = int(by_phase["tokens"].max())
        row["reason"] = None if later else "no text has a second round"
        rows.append(row)
    columns = ["pair", "mode", "draft_length", "draft", "verify", "sample", "other", "sum",
               "total", "tokens", "reason"]  # fmt: skip
    table = pd.DataFrame(rows, columns=columns)
    formats = dict.fromkeys(["draft", "verify", "sample", "other", "sum", "total"], ".2f")
    return Table(
        table,
        f"Milliseconds a token by phase{_domain(frame)}",
        [
            (
                "Draft, verify, sample and other, and their sum, are of the rounds after the first, "
                "which reads the prompt; total is of the whole text with it. Drawing drafted tokens "
                "counts as draft; sample is the target's law, the tests, and the draw of the "
                "correction or bonus; other is the ends of the text and stepping both caches back."
            ),
        ],
        formats,
        {**LENGTH, "sum": "sum after the first round", "total": "total"},
    )


def verify_latency(latency: pd.DataFrame) -> Table:
    """Time of one pass against its tokens."""
    table = pd.DataFrame(
        {
            "target": latency["target"],
            "context": latency["context"],
            "tokens": latency["tokens"],
            "median": 1000 * latency["median"],
            "lower": 1000 * latency["lower"],
            "upper": 1000 * latency["upper"],
            "ratio": latency["ratio"],
            "repeats": latency["repeats"],
        }
    )
    shortest = int(latency["shortest"].min()) if len(latency) else 1
    return Table(
        table,
        "One pass of the target against the number of its tokens",
        [
            (
                "Over a context of fixed length, logits of every token. Lower and upper are the "
                f"quartiles of the timed passes; ratio is to a pass of {shortest} token(s)."
            ),
        ],
        {**dict.fromkeys(["median", "lower", "upper"], ".2f"), "ratio": ".2f"},
        {"median": "ms"},
    )


def _domain(frame: pd.DataFrame) -> str:
    names = list(dict.fromkeys(frame["domain"])) if len(frame) else []
    return f" (domain {', '.join(names)})" if names else ""
