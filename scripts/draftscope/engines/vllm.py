"""vLLM's acceptance metrics by request, `--per-request-spec-decode-metrics summary` or `detailed`.

They are in the response under `metrics.speculative_decoding` (in early builds under
`speculative_decoding_stats` of each choice). `detailed` has the rounds in order; `summary` counts
them by accepted drafts, newer builds also by offered drafts.

vLLM leaves out rounds for which nothing was drafted, and reports no emitted tokens.
"""

from __future__ import annotations

from collections.abc import Iterator

from draftscope.engines.bodies import body_of, counted_tokens, named
from draftscope.engines.fields import MOST_OF_A_ROUND, Object
from draftscope.engines.options import Options
from draftscope.engines.requests import OMITTED, Request, Rounds

FIELD = "metrics.speculative_decoding"
ENABLE = "start `vllm serve` with --per-request-spec-decode-metrics summary (or detailed)"
ENGINE = "vllm"
NAMES = {
    "draft_length": "num_spec_tokens",
    "rounds": "num_spec_steps",
    "accepted_total": "num_accepted_draft_tokens",
    "offered_total": "num_draft_tokens",
}
DETAILED = NAMES | {"accepted": "per_step_accepted", "offered": "per_step_drafted"}
IDLE = "num_spec_tokens is 0: nothing was drafted"
JOINT = "acceptance_histogram_by_draft_length"


def recognizes(line: Object) -> bool:
    """The line carries what this format is read for."""
    return bool(_stats(body_of(line)))


def requests(line: Object, options: Options) -> Iterator[Request]:
    """The requests of one line: none where it carries no metrics."""
    body = body_of(line)
    for place, stats in enumerate(_stats(body)):
        if idle(stats):
            continue
        prompt_id, own = named(line, body, options)
        rounds = rounds_of(stats, options)
        rounds.without_drafts = options.without_drafts(OMITTED)
        rounds.tokens = counted_tokens(body)
        yield rounds.request(prompt_id, None, own if own is None or not place else f"{own}#{place}")


def skipped(line: Object) -> str | None:
    """Why a line with metrics is no measurement."""
    found = _stats(body_of(line))
    return IDLE if found and all(map(idle, found)) else None


def idle(stats: Object) -> bool:
    """The request was served without speculation."""
    return stats.integer("num_spec_tokens") == 0 and not stats.integer("num_spec_steps")


def rounds_of(stats: Object, options: Options) -> Rounds:
    """What vLLM's object says; AIPerf's record has the same fields."""
    draft_length = stats.integer("num_spec_tokens", 1, MOST_OF_A_ROUND)
    rounds = Rounds(
        stats,
        NAMES,
        draft_length=options.length(stats, "num_spec_tokens", draft_length),
        rounds=stats.integer("num_spec_steps"),
        accepted_total=stats.integer("num_accepted_draft_tokens"),
        offered_total=stats.integer("num_draft_tokens"),
    )
    counts = stats.histogram("acceptance_histogram")
    accepted = stats.integers("per_step_accepted")
    if accepted is not None:
        rounds.names, rounds.ordered = DETAILED, True
        rounds.accepted, rounds.offered = accepted, stats.integers("per_step_drafted")
    elif stats.object(JOINT) is not None:
        rounds.names = NAMES | {"accepted": JOINT, "offered": JOINT}
        rounds.take_joint(_joint(stats))
    else:
        rounds.names = NAMES | {"accepted": "acceptance_histogram"}
        rounds.take_histogram(counts)
    if counts is not None:
        rounds.check_lists()
        _same_histogram(stats, counts, rounds)
    return rounds


def _stats(body: Object) -> list[Object]:
    metrics = body.object("metrics")
    places = [metrics.object("speculative_decoding") if metrics else None]
    places += [choice.object("speculative_decoding_stats") for choice in body.objects("choices")]
    places += [body.object("spec_decode_metrics")]
    if body.has("num_spec_steps"):  # the object itself, kept beside a prompt id
        places.append(body)
    return [place for place in places if place is not None]


def _joint(stats: Object) -> dict[int, dict[int, int]]:
    part = stats.object(JOINT)
    return {part.bucket(key, key): part.histogram(key) for key in part.values}


def _same_histogram(stats: Object, counts: dict[int, int], rounds: Rounds) -> None:
    """The histogram counts the same rounds as whatever else was taken."""
    found: dict[int, int] = {}
    times = rounds.count or (1,) * len(rounds.accepted)
    for accepted, count in zip(rounds.accepted, times, strict=True):
        found[accepted] = found.get(accepted, 0) + count
    for bucket in sorted(counts.keys() | found.keys()):
        if counts.get(bucket, 0) != found.get(bucket, 0):
            raise stats.fault(
                f"acceptance_histogram[{bucket}]",
                f"is {counts.get(bucket, 0)}, but {found.get(bucket, 0)} rounds of "
                f"{rounds.names['accepted']} accepted {bucket}",
            )
