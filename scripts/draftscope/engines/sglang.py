"""SGLang's acceptance histograms: `meta_info` of a native response, `sglext` of an OpenAI one.

The histogram counts verify steps by accepted drafts; every decoding step is one. Chunks of a stream
repeat the counts so far; the last one, which has a finish reason, has those of the request. Offered
drafts are a total that counts each step with the full number, for a token tree its nodes. Names changed
with the versions; the newer ones come first.
"""

from __future__ import annotations

from collections.abc import Iterator

from draftscope.engines.bodies import body_of, counted_tokens, named
from draftscope.engines.fields import Object
from draftscope.engines.options import Options
from draftscope.engines.requests import COUNTED, Request, Rounds

FIELD = "meta_info.spec_verify_ct"
ENABLE = (
    "launch the server with --speculative-algorithm; on the OpenAI routes ask for "
    "return_spec_tokens_details"
)
ENGINE = "sglang"
UNFINISHED = "without a finish reason: of a stream that was cut"
ACCEPTED = ("spec_num_correct_drafts", "spec_accepted_drafts", "spec_accept_token_num")
OFFERED = ("spec_num_proposed_drafts", "spec_proposed_drafts", "spec_draft_token_num")
HISTOGRAM = ("spec_correct_drafts_histogram", "spec_accept_histogram")


def recognizes(line: Object) -> bool:
    """The line carries what this format is read for."""
    return bool(_stats(body_of(line)))


def requests(line: Object, options: Options) -> Iterator[Request]:
    """The requests of one line: none where it carries no speculative counts, or not the last."""
    if skipped(line):
        return
    body = body_of(line)
    for place, (stats, tokens) in enumerate(_stats(body)):
        prompt_id, own = named(line, body, options)
        accepted, offered, histogram = (
            _first(stats, keys) for keys in (ACCEPTED, OFFERED, HISTOGRAM)
        )
        rounds = Rounds(
            stats,
            {
                "draft_length": "the draft length given with --draft-length",
                "rounds": "spec_verify_ct",
                "accepted": histogram,
                "accepted_total": accepted,
                "offered_total": offered,
            },
            draft_length=options.draft_length,
            without_drafts=options.without_drafts(COUNTED),
            rounds=stats.integer("spec_verify_ct"),
            accepted_total=stats.integer(accepted),
            offered_total=stats.integer(offered),
            tokens=tokens,
            exact_offers=False,
        )
        counts = stats.histogram(histogram)
        # An empty histogram beside verify steps is how a server says that it keeps none.
        rounds.take_histogram(counts if counts or not rounds.rounds else None)
        if not rounds.offered_total and rounds.accepted_total:
            rounds.offered_total = None
        yield rounds.request(prompt_id, None, own if own is None or not place else f"{own}#{place}")


def skipped(line: Object) -> str | None:
    """Why a line with counts is no request."""
    body = body_of(line)
    meta = body.object("meta_info")
    unfinished = meta is not None and meta.values.get("finish_reason", "") is None
    return UNFINISHED if unfinished and _stats(body) else None


def _stats(body: Object) -> list[tuple[Object, int | None]]:
    """Objects with speculative counts, and the completion tokens that belong to them."""
    extension, found = body.object("sglext"), []
    if extension is not None:
        one = extension.object("spec_tokens_details")
        found = [one] if one else extension.objects("spec_tokens_details")
    if not found:
        choices = [choice.object("meta_info") for choice in body.objects("choices")]
        metas = [one for one in (body.object("meta_info"), *choices) if one]
        found = [one for one in metas if one.has("spec_verify_ct")]
    if not found and body.has("spec_verify_ct"):
        found = [body]
    own = counted_tokens(body) if len(found) == 1 else None
    return [
        (one, tokens if (tokens := one.integer("completion_tokens")) is not None else own)
        for one in found
    ]


def _first(stats: Object, keys: tuple[str, ...]) -> str:
    return next((key for key in keys if stats.has(key)), keys[0])
