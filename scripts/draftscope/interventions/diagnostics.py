"""Figure 8: where an arm gained or lost, by what the token is and by how sure the target is.

Every arm is scored on the same emitted tokens, so the difference to the control is taken position
by position; intervals resample prompts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import draftscope.tokens.schemas  # noqa: F401  (registers the schema of token types)
from draftscope import records
from draftscope.errors import UserError
from draftscope.interventions.lengths import Protocol
from draftscope.statistics.intervals import Interval, bootstrap_columns
from draftscope.tokens.names import NO_TRIGGER, WITHOUT_TRIGGERS

REFLECTION, OTHER = "reflection", "other tokens"
Key = tuple[str, int]


@dataclass(frozen=True)
class Texts:
    """Positions of all texts of a mode, one after another, [positions] each.

    `prompt` is the place of a position's prompt in `prompts`; `accept` is of each draft
    min(1, q(y)/p(y)); `entropy` is H(p) at temperature 1, `reflection` marks triggers.
    """

    prompts: list[str]
    prompt: np.ndarray
    entropy: np.ndarray
    reflection: np.ndarray
    accept: dict[str, np.ndarray]


def read(scores: Sequence[str], types: str, drafts: Sequence[str], prompts: Sequence[str]) -> Texts:
    """The positions of the texts of some prompts.

    Positions where the scored law excludes the emitted token are left out, as in replay.

    Raises:
        UserError: a text that a draft is not scored on, or whose tokens have no types.
    """
    wanted = set(prompts)
    accept: dict[str, dict[Key, np.ndarray]] = {draft: {} for draft in drafts}
    entropy: dict[Key, np.ndarray] = {}
    kept: dict[Key, np.ndarray] = {}
    columns = ("log_p", "log_q", "target_entropy", "target_disagreement")
    for path in scores:
        table = records.read(path, "scores")
        table = table.filter(pc.is_in(table["draft"], pa.array(list(drafts), pa.string())))
        table = table.select(["prompt_id", "sample", "draft", "law", *columns])
        for row in table.to_pylist():
            key = (row["prompt_id"], row["sample"])
            if key[0] not in wanted:
                continue
            if row["law"] == "unwarped":
                entropy[key] = np.asarray(row["target_entropy"], float)
            elif row["law"] == "decoding":
                log_p, log_q = (np.asarray(row[name], float) for name in ("log_p", "log_q"))
                kept[key] = ~np.asarray(row["target_disagreement"], bool)
                with np.errstate(invalid="ignore"):  # -inf - -inf, where the law excludes the token
                    ratio = np.where(kept[key], log_q - log_p, 0.0)
                accept[row["draft"]][key] = np.exp(np.minimum(ratio, 0.0))
    marked = {
        (row["prompt_id"], row["sample"]): np.asarray(row["trigger"]) != NO_TRIGGER
        for row in records.read(types, "token_types")
        .select(["prompt_id", "sample", "trigger"])
        .to_pylist()
    }
    keys = sorted(kept)
    for draft, own in accept.items():
        if set(own) != set(keys):
            raise UserError(f"{', '.join(map(str, scores))}: not every text is scored by {draft}")
    for key in keys:
        if len(marked.get(key, ())) != len(kept[key]):
            raise UserError(f"{types} lacks the types of prompt {key[0]}, sample {key[1]}")
    names = sorted({key[0] for key in keys})
    place = {name: number for number, name in enumerate(names)}
    return Texts(
        names,
        _joined([np.full(int(kept[key].sum()), place[key[0]]) for key in keys], int),
        _joined([entropy[key][kept[key]] for key in keys], float),
        _joined([marked[key][kept[key]] for key in keys], bool),
        {
            draft: _joined([own[key][kept[key]] for key in keys], float)
            for draft, own in accept.items()
        },
    )


def _joined(parts: list[np.ndarray], kind: type) -> np.ndarray:
    return np.concatenate(parts).astype(kind) if parts else np.zeros(0, kind)


def study(
    texts: Texts,
    arms: Mapping[str, tuple[str, str]],
    control: str,
    bins: int,
    key: Mapping[str, Any],
    protocol: Protocol,
) -> list[dict[str, Any]]:
    """Rows of schema intervention_diagnostics of one mode.

    Args:
        arms: label -> pair and draft.
        key: domain, mode and decoding.
    """
    levels = [("tokens", REFLECTION, 0, texts.reflection, None)]
    levels.append(("tokens", OTHER, 1, ~texts.reflection, None))
    levels += _entropy_levels(texts.entropy, bins)
    size, rows = len(texts.prompts), []
    counts = np.stack([_sums(texts.prompt, mask * 1.0, size) for *_, mask, _ in levels], 1)
    for arm, (pair, draft) in arms.items():
        accept = texts.accept[draft]
        gain = accept - texts.accept[arms[control][1]]
        columns = [
            np.stack([_sums(texts.prompt, each * mask, size) for *_, mask, _ in levels], 1)
            for each in (accept, gain)
        ]
        names = [str(value) for value in key.values()]
        means, gains = (
            bootstrap_columns(values, counts, **protocol.options("diagnostics", what, pair, *names))
            for what, values in zip(("mean", "gain"), columns, strict=True)
        )
        for level, mean, difference, held in zip(levels, means, gains, counts.T, strict=True):
            factor, name, place, _, edges = level
            rows.append(
                dict(key)
                | {"arm": arm, "pair": pair, "factor": factor, "level": name, "place": place}
                | {"low": edges[0] if edges else None, "high": edges[1] if edges else None}
                | {"prompts": int((held > 0).sum()), "positions": int(held.sum())}
                | _named("mean", mean)
                | _named("difference", difference)
                | {
                    "method": mean.method,
                    "reason": WITHOUT_TRIGGERS
                    if name == REFLECTION and not held.any()
                    else mean.reason,
                }
            )
    return rows


def _entropy_levels(entropy: np.ndarray, bins: int) -> list[tuple]:
    """Bins with equal numbers of positions; equal entropies share a bin, so there may be fewer."""
    if not len(entropy):
        return []
    edges = np.unique(np.quantile(entropy, np.linspace(0, 1, bins + 1)))
    if len(edges) < 2:
        edges = np.array([edges[0], edges[0]])
    place = np.clip(np.searchsorted(edges, entropy, side="right") - 1, 0, len(edges) - 2)
    found = []
    for number in range(len(edges) - 1):
        mask = place == number
        low, high = float(edges[number]), float(edges[number + 1])
        found.append(("entropy", f"{low:.2f} to {high:.2f} nats", number, mask, (low, high)))
    return found


def _sums(prompt: np.ndarray, values: np.ndarray, size: int) -> np.ndarray:
    return np.bincount(prompt, values, size) if size else np.zeros(0)


def _named(name: str, found: Interval) -> dict[str, float | None]:
    return {name: found.estimate, f"{name}_lower": found.low, f"{name}_upper": found.high}
