"""What every training of every arm did on each prompt: rounds, tokens, and drafts by slot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from draftscope import records
from draftscope.errors import UserError
from draftscope.loops import find_loop
from draftscope.metrics import terms


@dataclass(frozen=True)
class Source:
    """One training of an arm (or a baseline, training 0) in a domain and mode, with its rounds.

    `loops` holds the loops of the text that was replayed; `texts` the texts that a live loop
    emitted, whose loops are looked for. One of them is given.
    """

    arm: str
    pair: str
    training: int
    domain: str
    mode: str
    temperature: float
    rounds: str
    loops: str | None = None
    texts: str | None = None


def table(
    sources: Sequence[Source], draft_length: int, loops: Mapping[str, int] | None = None
) -> pd.DataFrame:
    """One row a source and prompt.

    Returns:
        Columns arm, training, domain, mode, temperature, prompt_id; looped (in any of the sources of
        its domain and mode, so that arms keep the same prompts); emitted, rounds; accepted_i and
        tested_i (rounds that accepted the i-th draft, and that accepted all before it and offered it).

    Args:
        loops: max_period, min_repeats and min_span, where sources have texts.

    Raises:
        UserError: no rounds of this draft length, or sources of one domain and mode on other prompts.
    """
    parts, looped = [], {}
    for source in sources:
        part = _counts(source, draft_length)
        for name in ("arm", "training", "domain", "mode", "temperature"):
            part[name] = getattr(source, name)
        parts.append(part)
        place = (source.domain, source.mode)
        looped.setdefault(place, set()).update(_loop_problems(source, draft_length, loops))
    _same_prompts(sources, parts)
    frame = pd.concat(parts, ignore_index=True)
    frame = in_order(frame)
    frame["looped"] = [
        prompt in looped[place]
        for prompt, place in zip(
            frame["prompt_id"], zip(frame["domain"], frame["mode"], strict=True), strict=True
        )
    ]
    return frame


def in_order(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows of one arm, training and mode in the order of their domains and prompts, for `layout`.

    Arms, modes and domains keep their own order.
    """
    domains = {name: place for place, name in enumerate(dict.fromkeys(frame["domain"]))}
    place = frame["domain"].map(domains)
    ordered = frame.assign(_place=place).sort_values(["_place", "prompt_id"], kind="stable")
    return ordered.drop(columns="_place").reset_index(drop=True)


def _counts(source: Source, draft_length: int) -> pd.DataFrame:
    rounds = records.read(source.rounds, "rounds")
    rows = rounds.filter(pc.equal(rounds["draft_length"], draft_length))
    if rounds.num_rows and not rows.num_rows:
        raise UserError(f"{source.rounds} has nothing of draft length {draft_length}")
    prompts, place = np.unique(rows["prompt_id"].to_pylist(), return_inverse=True)
    offered, accepted, emitted = (
        rows[name].to_numpy().astype(np.int64) for name in ("offered", "accepted", "emitted")
    )

    def total(values: np.ndarray) -> np.ndarray:
        return np.bincount(place, values, len(prompts)).astype(np.int64)

    found: dict[str, Any] = {"prompt_id": prompts.astype(object), "emitted": total(emitted)}
    found["rounds"] = total(np.ones_like(emitted))
    for name, position, above, below in terms(accepted, draft_length, offered, emitted):
        if name == "position_rate":
            found[f"accepted_{position}"] = total(above)
        elif name == "conditional_rate":
            found[f"tested_{position}"] = total(below)
    return pd.DataFrame(found)


def _loop_problems(
    source: Source, draft_length: int, options: Mapping[str, int] | None
) -> set[str]:
    """Prompts with a text that repeats itself up to its budget."""
    if source.loops is not None:
        loops = records.read(source.loops, "loops")
        return set(loops.filter(loops["loop_problem"])["prompt_id"].to_pylist())
    texts = records.read(source.texts, "live_trajectories")
    own = texts.filter(pc.equal(texts["draft_length"], draft_length))
    return {
        row["prompt_id"]
        for row in own.select(["prompt_id", "token_ids", "stop_reason"]).to_pylist()
        if row["stop_reason"] == "budget" and find_loop(row["token_ids"], **(options or {}))
    }


def _same_prompts(sources: Sequence[Source], parts: Sequence[pd.DataFrame]) -> None:
    first: dict[tuple[str, str], tuple[Source, set[str]]] = {}
    for source, part in zip(sources, parts, strict=True):
        own = set(part["prompt_id"])
        other, prompts = first.setdefault((source.domain, source.mode), (source, own))
        if own != prompts:
            raise UserError(
                f"{source.rounds} and {other.rounds} hold different prompts: arms are compared on the "
                "same prompts"
            )


def only(frame: pd.DataFrame, domain: str, mode: str, subset: str, every: str) -> pd.DataFrame:
    """Rows of a mode, a domain (or `every` one) and a subset of prompts."""
    kept = frame[frame["mode"] == mode]
    if domain != every:
        kept = kept[kept["domain"] == domain]
    return kept[~kept["looped"]] if subset != "all" else kept


def layout(
    frame: pd.DataFrame, above: str, below: str, pooling: str
) -> tuple[dict[str, np.ndarray], list[str]] | None:
    """Values of each arm, [trainings, prompts], and the domain of each prompt.

    An arm is left out where a training of it has nothing to pool in a domain.

    Macro values are the prompts' own ratios. Micro values have the pooled ratio of a domain as their
    mean: it plus the influence of the prompt on it (linearized), so that a spread over prompts is that
    of the pooled ratio.

    Args:
        frame: rows `in_order`, of every prompt for each arm and training.
        above, below: columns of numerator and denominator.

    Returns:
        None where no arm is left.
    """
    arm, arms = pd.factorize(frame["arm"])
    domain, domains = pd.factorize(frame["domain"])
    training = frame["training"].to_numpy()
    top, bottom = frame[above].to_numpy(float), frame[below].to_numpy(float)
    values, strata = {}, domain[:0]
    for place, name in enumerate(arms):
        rows = []
        for number in np.unique(training[arm == place]):
            own = (arm == place) & (training == number)
            strata, a, b = domain[own], top[own], bottom[own]
            sums = np.bincount(strata, b, len(domains))
            if not (b if pooling == "macro" else sums).all():
                break
            if pooling == "macro":
                rows.append(a / b)
                continue
            ratio = (np.bincount(strata, a, len(domains)) / sums)[strata]
            mean = (sums / np.bincount(strata, minlength=len(domains)))[strata]
            rows.append(ratio + (a - ratio * b) / mean)
        else:
            values[name] = np.array(rows)
    return (values, [domains[each] for each in strata]) if values else None


def loop_options(settings: Mapping[str, Any]) -> dict[str, int]:
    """What `find_loop` takes of a block of settings."""
    return {name: settings[name] for name in ("max_period", "min_repeats", "min_span")}


def read_only(path: str, schema: str, draft_length: int) -> pa.Table:
    """Rows of one draft length of a file."""
    found = records.read(path, schema)
    return found.filter(pc.equal(found["draft_length"], draft_length))
