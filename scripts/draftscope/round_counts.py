"""How many rounds of each prompt came out alike: all that the measures of acceptance need of them.

A few hundred numbers a prompt stand for any number of rounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from draftscope.errors import UserError

# Rounds that differ in one of these were not produced by one loop and are never pooled.
LOOP = ("draft_length", "rule", "lossless", "source")
COUNTS = ("offered", "accepted", "emitted")


@dataclass(frozen=True, eq=False)
class RoundCounts:
    """Rounds of one loop, a row a kind of round.

    Attributes:
        prompts: number of prompts.
        prompt: number of the row's prompt, from 0 to prompts - 1, shape [rows].
        offered, accepted, emitted: tokens of such a round, shape [rows].
        times: how many of them there are, shape [rows].
    """

    draft_length: int
    rule: str | None
    prompts: int
    prompt: np.ndarray
    offered: np.ndarray
    accepted: np.ndarray
    emitted: np.ndarray
    times: np.ndarray


def as_table(rounds: pa.Table | Mapping[str, np.ndarray]) -> pa.Table:
    return rounds if isinstance(rounds, pa.Table) else pa.table(dict(rounds))


def count_rounds(rounds: pa.Table | Mapping[str, np.ndarray]) -> RoundCounts:
    """Count the rounds of one loop.

    Args:
        rounds: columns draft_length, offered, accepted, emitted; prompt_id (and domain), without
            which all rounds are one prompt's; rule, lossless, source. Text may be
            dictionary-encoded.

    Raises:
        UserError: rounds of several loops, or none.
        ValueError: a row that no round can have.
    """
    table = as_table(rounds)
    if not table.num_rows:
        raise UserError("no rounds to measure")
    loop = {}
    for name in LOOP:
        if name in table.column_names:
            loop[name], *others = sorted(pc.unique(table[name]).to_pylist())
            if others:
                raise UserError(
                    f"rounds of several loops cannot be pooled: {name} is "
                    f"{' and '.join(map(str, [loop[name], *others]))}; group by {name}"
                )
    gamma = int(loop["draft_length"])
    offered, accepted, emitted = (table[name].to_numpy() for name in COUNTS)
    bonus = emitted - accepted
    if (
        not ((0 <= accepted) & (accepted <= offered) & (offered <= gamma)).all()
        or not ((bonus == 0) | (bonus == 1)).all()
    ):
        raise ValueError("a round has not 0 <= accepted <= offered <= gamma, or emits too much")
    prompt = _prompts(table)
    cell = (prompt * (gamma + 1) + offered) * (gamma + 1) + accepted
    cells, times = np.unique(cell * 2 + bonus, return_counts=True)
    cells, bonus = np.divmod(cells, 2)
    cells, accepted = np.divmod(cells, gamma + 1)
    numbers, offered = np.divmod(cells, gamma + 1)
    return RoundCounts(
        gamma, loop.get("rule"), int(prompt.max()) + 1, numbers, offered, accepted,
        accepted + bonus, times,
    )  # fmt: skip


def _prompts(table: pa.Table) -> np.ndarray:
    """The number of each round's prompt, int64."""
    prompt = np.zeros(table.num_rows, np.int64)
    for name in ("domain", "prompt_id"):  # prompt ids are unique within their domain
        if name in table.column_names:
            column = table[name]
            if not pa.types.is_dictionary(column.type):
                column = column.dictionary_encode()
            codes = column.unify_dictionaries().combine_chunks().indices.to_numpy()
            prompt = np.unique(prompt * (int(codes.max()) + 1) + codes, return_inverse=True)[1]
    return prompt
