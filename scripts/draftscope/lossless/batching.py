"""Plain and speculative decoding of the same texts in batches of several sizes, timed in turns."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from draftscope.drafters.model import Drafter
from draftscope.live.batched import decode_batch
from draftscope.live.batched_draft import BatchedDrafter
from draftscope.live.batched_model import BatchedModel
from draftscope.live.loop import Decoded, decode
from draftscope.live.model import Decoder
from draftscope.live.rules import rule_of
from draftscope.live.run import LiveRun, stream, unusable
from draftscope.live.tables import round_rows, skipped_row, timing_rows, trajectory_row
from draftscope.progress import progress

if TYPE_CHECKING:
    from draftscope.models import LoadedModel
    from draftscope.trajectories import RenderedPrompt

Prompts = Sequence[tuple[str, "RenderedPrompt"]]
Item = TypeVar("Item")
_PHASES = ("draft_seconds", "verify_seconds", "sample_seconds", "other_seconds")


@dataclass(frozen=True)
class Way:
    """One way to decode: `decode(prompts, draft length, budget)` takes `size` prompts at a time."""

    engine: str
    size: int
    decode: Callable[[Prompts, int, int], list[Decoded]]


def ways(
    single: tuple[Decoder, Drafter],
    batched: tuple[BatchedModel, BatchedDrafter],
    sizes: Sequence[int],
    *,
    law: Mapping[str, float],
    eos_ids: frozenset[int],
    run_seed: int,
    domain: str,
) -> list[Way]:
    """The loop over one text, then the loop over a batch at every size; all with the same chance.

    The first two arguments are the target and the draft of each.
    """

    def streams(prompts: Prompts, gamma: int, drafter: str) -> list[Any]:
        names = (single[0].name, drafter if gamma else "", gamma, domain)
        return [stream(run_seed, *names, prompt_id, 0) for prompt_id, _ in prompts]

    def alone(prompts: Prompts, gamma: int, budget: int) -> list[Decoded]:
        decoder, drafter = single
        return [
            decode(decoder, drafter, prompt.token_ids, rng=rng, where=f"prompt {prompt_id}",
                   gamma=gamma, law=law, budget=budget, eos_ids=eos_ids)
            for (prompt_id, prompt), rng in zip(
                prompts, streams(prompts, gamma, drafter.name), strict=True
            )
        ]  # fmt: skip

    def together(prompts: Prompts, gamma: int, budget: int) -> list[Decoded]:
        decoder, drafter = batched
        return decode_batch(
            decoder,
            drafter,
            [prompt.token_ids for _, prompt in prompts],
            rngs=streams(prompts, gamma, drafter.name),
            where=[f"prompt {prompt_id}" for prompt_id, _ in prompts],
            gamma=gamma,
            law=law,
            budget=budget,
            eos_ids=eos_ids,
        )

    found = [Way(single[0].engine, 1, alone)]
    return found + [Way(batched[0].engine, size, together) for size in sizes]


def batch_times(
    chosen: Sequence[Way],
    prompts: Prompts,
    draft_length: int,
    budget: int,
    repeats: int,
) -> list[dict[str, Any]]:
    """Rows of schema live_batches: every way, plain and at the draft length, `repeats` times.

    A machine slows down and speeds up over minutes, so the ways take turns over as few prompts as
    all their batches fill, and plain and speculative decoding of a batch follow one another. A
    short batch of each is decoded first and thrown away.
    """
    for way in chosen:
        for gamma in (0, draft_length):
            way.decode(prompts[: way.size], gamma, min(budget, 2 * draft_length))
    rows: list[dict[str, Any]] = []
    texts: dict[tuple[int, int, str], list[Any]] = {}  # place of the way, draft length, prompt
    together = math.lcm(*(way.size for way in chosen))
    for repeat in range(repeats):
        for number, chunk in enumerate(_blocks(prompts, together)):
            for place in _turns(range(len(chosen)), number + repeat):
                way = chosen[place]
                first = number * (together // way.size)
                for batch, block in enumerate(_blocks(chunk, way.size), first):
                    for gamma in _turns((0, draft_length), batch + repeat):
                        decoded = way.decode(block, gamma, budget)
                        names = [prompt_id for prompt_id, _ in block]
                        for name, text in zip(names, decoded, strict=True):
                            texts[place, gamma, name] = _log(text)
                        rows.append(
                            {"engine": way.engine, "batch_size": way.size, "place": place}
                            | {"draft_length": gamma, "repeat": repeat, "batch": batch}
                            | {"prompt_ids": names}
                            | _sums(decoded)
                        )
    for row in rows:
        place, gamma = row.pop("place"), row["draft_length"]
        row["identical"] = sum(
            texts[place, gamma, name] == texts[0, gamma, name] for name in row["prompt_ids"]
        )
    return rows


def _log(text: Decoded) -> list[Any]:
    """Tokens and rounds without the times."""
    return [text.token_ids, text.stop_reason, [round_[:6] for round_ in text.rounds]]


def _sums(decoded: Sequence[Decoded]) -> dict[str, Any]:
    # The text that stopped last was in every pass of its batch.
    rounds = max((text.rounds for text in decoded), key=len)
    return {
        "tokens": sum(len(text.token_ids) for text in decoded),
        "rounds": sum(len(text.rounds) for text in decoded),
        "passes": len(rounds),
        **{name: sum(getattr(round_, name) for round_ in rounds) for name in _PHASES},
        "later_verify_seconds": sum(round_.verify_seconds for round_ in rounds[1:]),
    }


def _blocks(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _turns(items: Sequence[Item], first: int) -> list[Item]:
    first %= len(items)
    return [*items[first:], *items[:first]]


def texts_in_batches(
    target: LoadedModel,
    together: tuple[BatchedModel, BatchedDrafter],
    prompts: Prompts,
    draft_lengths: Sequence[int],
    size: int,
    *,
    law: Mapping[str, float],
    budget: int,
    run_seed: int,
    domain: str,
    samples: int,
) -> LiveRun:
    """The texts of `live.run.run` at every draft length, `size` of them decoded together.

    For what is asked of the texts and not of their time: the chance of a text is the one it has
    alone, and the times of a round are those of its whole batch.

    Args:
        together: the target and the draft, for batches.

    Returns:
        Rows as `lossless.decoding.side_by_side` gives them.
    """
    decoder, drafter = together
    rule, out = rule_of(law), LiveRun()
    usable = [(name, prompt) for name, prompt in prompts if not unusable(decoder, prompt)]
    texts = [(name, sample, prompt) for name, prompt in usable for sample in range(samples)]
    total = len(texts) * len(draft_lengths) * budget
    with progress(total, f"decoding {domain} live, {size} texts together") as reporter:
        for gamma in draft_lengths:
            for name, prompt in prompts:
                if reason := unusable(decoder, prompt):
                    rows = (skipped_row(name, sample, prompt, reason) for sample in range(samples))
                    out.trajectories += [row | {"draft_length": gamma} for row in rows]
            draft_name = drafter.name if gamma else ""
            for block in _blocks(texts, size):
                decoded = decode_batch(
                    decoder,
                    drafter if gamma else None,
                    [prompt.token_ids for _, _, prompt in block],
                    gamma=gamma,
                    law=law,
                    budget=budget,
                    eos_ids=target.eos_ids,
                    rngs=[
                        stream(run_seed, target.name, draft_name, gamma, domain, name, sample)
                        for name, sample, _ in block
                    ],
                    rule=rule,
                    where=[f"prompt {name}, sample {sample}" for name, sample, _ in block],
                )
                for (name, sample, prompt), text in zip(block, decoded, strict=True):
                    row = trajectory_row(target, name, sample, prompt, text)
                    out.trajectories.append(row | {"draft_length": gamma})
                    out.rounds += round_rows(name, sample, gamma, rule, text)
                    out.timings += timing_rows(name, sample, gamma, [text])
                    out.counts += text.counts
                    reporter.update(len(text.token_ids))
                    reporter.drop(budget - len(text.token_ids))
    return out
