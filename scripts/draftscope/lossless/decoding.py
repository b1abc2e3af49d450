"""Several draft lengths decoded side by side, so that their times can be compared."""

from __future__ import annotations

import logging
import resource
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from draftscope import records
from draftscope.drafters.model import Drafter
from draftscope.errors import UserError
from draftscope.live.model import open_decoder
from draftscope.live.run import LiveRun, run

if TYPE_CHECKING:
    from draftscope.models import LoadedModel
    from draftscope.trajectories import RenderedPrompt

log = logging.getLogger(__name__)


def first_prompts(paths: Sequence[str], wanted: int) -> list[dict[str, Any]]:
    """The first rows of files of schema prompts.

    Raises:
        UserError: they hold fewer.
    """
    rows = [row for path in paths for row in records.read(path, "prompts").to_pylist()]
    if len(rows) < wanted:
        raise UserError(f"{wanted} prompts are wanted, the files hold {len(rows)}")
    return rows[:wanted]


def side_by_side(
    target: LoadedModel,
    drafter: Drafter,
    prompts: Sequence[tuple[str, RenderedPrompt]],
    draft_lengths: Sequence[int],
    *,
    repeats: int,
    warm_up: int,
    **options: Any,
) -> LiveRun:
    """Decode every prompt at every draft length, `repeats` times.

    A machine slows down and speeds up over minutes. So all draft lengths of a prompt follow one
    another, each time starting with the next one, and a repetition is a whole further pass over
    the prompts; a drift then meets every draft length alike.

    Args:
        draft_lengths: with 0 for plain decoding.
        warm_up: so many prompts are decoded first at every draft length and thrown away.
        options: law, budget, run_seed, domain, samples of `live.run.run`.

    Returns:
        Rows as `live.run.run` gives them; those of `trajectories` have `draft_length` too.
    """
    out, decoder = LiveRun(), open_decoder(target)
    texts: dict[tuple[str, int, int], list[int]] = {}

    def decode(prompt: tuple[str, RenderedPrompt], gamma: int, samples: int) -> LiveRun:
        return run(
            target,
            drafter if gamma else None,
            [prompt],
            gamma=gamma,
            decoder=decoder,
            **(options | {"samples": samples}),
        )

    for prompt in prompts[:warm_up]:
        for gamma in draft_lengths:
            decode(prompt, gamma, 1)
    for repeat in range(repeats):
        for number, prompt in enumerate(prompts):
            turn = (number + repeat) % len(draft_lengths)
            for gamma in (*draft_lengths[turn:], *draft_lengths[:turn]):
                part = decode(prompt, gamma, options["samples"])
                out.timings += [row | {"repeat": repeat} for row in part.timings]
                for row in part.trajectories:
                    key = (row["prompt_id"], row["sample"], gamma)
                    if texts.setdefault(key, row["token_ids"]) != row["token_ids"]:
                        log.warning("prompt %s, sample %s, draft length %s: repeated, it gives "
                                    "another text", *key)  # fmt: skip
                if not repeat:
                    out.trajectories += [row | {"draft_length": gamma} for row in part.trajectories]
                    out.rounds += part.rounds
                    out.counts += part.counts
    return out


def peak_memory() -> float:
    """High-water mark of this process, in GB (10^9 bytes)."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024) / 1e9


def distinct_texts(rows: Sequence[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], list[int]]]:
    """Live texts that are alike need scoring once: each with the places of its copies.

    Args:
        rows: schema live_trajectories.

    Returns:
        Pairs of a row, of schema trajectories, and the indices in `rows` that it stands for.
    """
    groups: dict[tuple[str, tuple[int, ...]], list[int]] = {}
    for place, row in enumerate(rows):
        if row["status"] == "ok" and row["token_ids"]:
            groups.setdefault((row["prompt_id"], tuple(row["token_ids"])), []).append(place)
    out = []
    for number, places in enumerate(groups.values()):
        row = dict(rows[places[0]])
        del row["draft_length"]
        out.append((row | {"sample": number}, places))
    return out
