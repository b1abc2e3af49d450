"""AIPerf's records by request: `profile_export.jsonl`, written with `--export-level records`.

The record `spec_decode_acceptance` has the fields of vLLM's object whatever the engine; without
it the metrics `spec_decode_steps`, `spec_decode_accepted_draft_tokens` and
`spec_decode_draft_tokens` still give three totals. The conversation is the prompt: the turns of
one are not independent.
"""

from __future__ import annotations

from collections.abc import Iterator

from draftscope.engines import vllm
from draftscope.engines.fields import Object
from draftscope.engines.options import Options
from draftscope.engines.requests import COUNTED, OMITTED, Request, Rounds

FIELD = "spec_decode_acceptance"
ENABLE = (
    "run `aiperf profile` with --export-level records on a server that reports acceptance by "
    "request (vLLM: --per-request-spec-decode-metrics summary)"
)
ENGINE = None  # each record names its own
TOTALS = {
    "rounds": "spec_decode_steps",
    "accepted_total": "spec_decode_accepted_draft_tokens",
    "offered_total": "spec_decode_draft_tokens",
}


def recognizes(line: Object) -> bool:
    """The line is a record of AIPerf, with acceptance or without."""
    metadata = line.object("metadata")
    # Responses of other servers may have a field of either name.
    names = ("conversation_id", "x_request_id", "benchmark_phase", "session_num")
    return (
        metadata is not None
        and line.object("metrics") is not None
        and any(metadata.has(name) for name in names)
    )


def requests(line: Object, options: Options) -> Iterator[Request]:
    """The request of one line: none of a failed one, of a warm-up, or without acceptance."""
    metadata, metrics = line.object("metadata"), line.object("metrics")
    stats = line.object("spec_decode_acceptance")
    if metadata is None or skipped(line) or (stats is None and not _has_totals(metrics)):
        return
    if stats is not None:
        rounds = vllm.rounds_of(stats, options)
        rounds.tokens = stats.integer("completion_tokens")
    else:
        values = {name: metrics.object(key).integer("value") for name, key in TOTALS.items()}
        names = {name: f"{key}.value" for name, key in TOTALS.items()}
        rounds = Rounds(metrics, names, draft_length=options.draft_length, **values)
    # Only what is known of an engine is said of it: others may leave rounds out as vLLM does.
    reported = COUNTED if engine(line) == "sglang" else OMITTED
    rounds.exact_offers = engine(line) == vllm.ENGINE
    rounds.without_drafts = options.without_drafts(reported)
    if rounds.tokens is None and metrics is not None:
        length = metrics.object("output_sequence_length")
        rounds.tokens = length.integer("value") if length else None
    prompt = options.prompt_id or "conversation_id"
    name = metadata.text(prompt.removeprefix("metadata."))
    if name is None:
        raise metadata.fault(prompt, "is missing; name another field with --prompt-id")
    yield rounds.request(name, None, metadata.text("x_request_id"))


def skipped(line: Object) -> str | None:
    """Why a record is no measurement."""
    metadata = line.object("metadata")
    if metadata is None:
        return None
    phase = metadata.text("benchmark_phase")
    if phase not in (None, "profiling"):
        return f"of the phase {phase}"
    if metadata.values.get("was_cancelled") or line.has("error"):
        return "failed or cancelled"
    stats = line.object("spec_decode_acceptance")
    return vllm.IDLE if stats is not None and vllm.idle(stats) else None


def engine(line: Object) -> str | None:
    """The engine that a record names."""
    stats = line.object("spec_decode_acceptance")
    return stats.text("engine") if stats else None


def _has_totals(metrics: Object | None) -> bool:
    return metrics is not None and all(metrics.object(key) for key in TOTALS.values())
