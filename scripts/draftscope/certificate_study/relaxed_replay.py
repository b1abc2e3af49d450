"""Replay of relaxed rules along the target's own text, and what it cannot know.

Where a relaxed rule accepts a token that is not the target's, a loop would go on from another
text. Replay stays on the target's: it tells how often drafts would be accepted there, round by
round, and nothing of what would be emitted. Its rows say so: `lossless` is false.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from draftscope.certificate_study.log import Log
from draftscope.criteria import Criterion
from draftscope.replay import greedy_rounds

GREEDY = "greedy"


def replay(
    log: Log, draft: str, rules: Sequence[Criterion], gamma: int
) -> Iterator[tuple[str, bool, np.ndarray, np.ndarray]]:
    """Rounds of each rule at one draft length, by prompt.

    Args:
        rules: relaxed criteria; the lossless rule that accepts what the text has comes first of
            itself, ties to the lowest id as decoding takes them.
        gamma: draft length.

    Yields:
        Name of the rule, whether it is lossless, tokens [prompts], rounds [prompts].
    """
    starts = np.flatnonzero(np.r_[True, log.text[1:] != log.text[:-1]])
    spans = list(zip(starts, np.r_[starts[1:], len(log)], strict=True))
    own = log.drafts[draft]
    matches = own.drafted == log.token_id
    named = [(GREEDY, True, matches)]
    named += [(rule.label, rule.lossless, log.accepts(rule, own)) for rule in rules]
    for name, lossless, accepted in named:
        tokens, rounds = np.zeros(log.prompts), np.zeros(log.prompts)
        for start, stop in spans:
            # How a text ended moves nothing here: the offers of its last round are not counted.
            table = greedy_rounds(
                accepted[start:stop], gamma, budget=int(stop - start), stop_reason="budget"
            )
            tokens[log.prompt[start]] += stop - start
            rounds[log.prompt[start]] += len(table["round"])
        yield name, lossless, tokens, rounds


def of_target(logs: Sequence[Log], target: str) -> Mapping[str, Log]:
    """The logs of a target by domain."""
    return {log.domain: log for log in logs if log.target == target}
