"""All three levels of the proof of losslessness, in one table."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from draftscope.lossless.decoder_level import level2
from draftscope.lossless.judgement import verdicts
from draftscope.lossless.pair_level import level3
from draftscope.lossless.rule_level import level1

log = logging.getLogger(__name__)


def equivalence(
    trajectories: Sequence[Mapping[str, Any]],
    *,
    trials: int,
    generations: int,
    tokens: int,
    draft_length: int,
    pair: str,
    level: float,
    seed: int,
    rule: str = "speculative_sampling",
) -> list[dict[str, Any]]:
    """Rows of the schema `lossless_equivalence`.

    Args:
        trajectories: live texts of the real pair, schema `live_trajectories`.
        trials: emitted tokens of each family of level 1.
        generations, tokens: texts of each decoder of level 2, and their length.
        draft_length: of the decoders of levels 2 and 3.
        level: p-values below it reject.
        rule: that the real pair was decoded with.

    Raises:
        UserError: the real pair lacks texts of a method.
    """
    rows = level3(trajectories, draft_length, pair, seed, level, rule)
    log.info("level 3, %s: done", pair)
    rows = level2(generations, tokens, draft_length, seed, level) + rows
    log.info("level 2, matrices: done")
    rows = level1(trials, seed, level) + rows
    found = verdicts(rows)
    for name in found["rejected"]:
        log.warning("a correct decoder was rejected: %s", name)
    for name in found["missed"]:
        log.warning("no test caught the control: %s", name)
    return rows
