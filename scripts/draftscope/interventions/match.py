"""What distillation gained: the greedy match of a draft before and after, prompt by prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow.compute as pc

from draftscope import records
from draftscope.errors import UserError
from draftscope.interventions.lengths import Protocol, loop_problems
from draftscope.interventions.schemas import SUBSETS
from draftscope.statistics.intervals import bootstrap
from draftscope.statistics.paired import paired_difference

NO_TEXT = "no prompt with text"


def prompt_match(paths: Sequence[str], drafts: Sequence[str]) -> dict[str, dict[str, np.ndarray]]:
    """By draft and prompt: at which generated positions its argmax is the emitted token.

    Texts of a prompt are joined. bool [positions].

    Raises:
        UserError: a draft that the files do not score, or drafts on different texts.
    """
    found: dict[str, dict[str, np.ndarray]] = {draft: {} for draft in drafts}
    for path in paths:
        table = records.read(path, "scores")
        table = table.filter(pc.equal(table["law"], "decoding"))
        table = table.select(["prompt_id", "draft", "token_ids", "draft_argmax"])
        for row in table.to_pylist():
            if row["draft"] in found:
                same = np.asarray(row["token_ids"]) == np.asarray(row["draft_argmax"])
                own = found[row["draft"]]
                before = own.get(row["prompt_id"], np.zeros(0, bool))
                own[row["prompt_id"]] = np.concatenate([before, same])
    sizes = [{name: len(each) for name, each in own.items()} for own in found.values()]
    if any(size != sizes[0] for size in sizes):
        names = " and ".join(drafts)
        raise UserError(f"{', '.join(map(str, paths))}: {names} are scored on different texts")
    return found


def study(
    domains: Mapping[str, Sequence[str]],
    loops: Mapping[str, str],
    drafts: tuple[str, str],
    mode: str,
    margin: float,
    protocol: Protocol,
) -> list[dict[str, Any]]:
    """Rows of schema distillation_match.

    Args:
        domains: domain -> its files of scores, in a greedy mode.
        loops: domain -> its file of loops.
        drafts: names of the untrained and of the distilled draft.
    """
    rows = []
    for domain, paths in domains.items():
        untrained, distilled = prompt_match(paths, drafts).values()
        lost = loop_problems(loops[domain])
        for subset in SUBSETS:
            names = [n for n in sorted(untrained) if subset == "all" or n not in lost]
            first, second = (
                np.array([each[name].mean() for name in names]) for each in (distilled, untrained)
            )
            key = {"domain": domain, "mode": mode, "subset": subset, "prompts": len(names)}
            key |= {"left_out_loops": len(untrained) - len(names), "margin": margin}
            key["positions"] = sum(len(untrained[name]) for name in names)
            rows.append(key | _compared(key, first, second, protocol))
    return rows


def _compared(
    key: Mapping[str, Any], distilled: np.ndarray, untrained: np.ndarray, protocol: Protocol
) -> dict[str, Any]:
    options = [str(key[name]) for name in ("domain", "mode", "subset")]
    found = paired_difference(distilled, untrained, **protocol.options("match", *options))
    row: dict[str, Any] = {}
    for name, values in (("untrained", untrained), ("distilled", distilled)):
        own = bootstrap(values, **protocol.options("match", name, *options))
        row |= {name: own.estimate, f"{name}_lower": own.low, f"{name}_upper": own.high}
    interval = found.interval
    reached = None
    if interval.low is not None:
        reached = bool(interval.estimate >= key["margin"] and interval.low > 0)
    return row | {
        "difference": interval.estimate,
        "difference_lower": interval.low,
        "difference_upper": interval.high,
        "up": found.sign.up,
        "down": found.sign.down,
        "ties": found.sign.ties,
        "sign_p": found.sign.p,
        "reached": reached,
        "method": interval.method,
        "reason": interval.reason if key["prompts"] else NO_TEXT,
    }
