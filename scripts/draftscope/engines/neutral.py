"""The engine-neutral format: one request a line, described by `config/rounds.schema.json`.

Rounds are given in order (`accepted`, and `offered`, `emitted` where known), counted (the same
lists with `count`), or as totals (`rounds`, `accepted_total`, ...). A field that is not known is
left out, or null.
"""

from __future__ import annotations

from collections.abc import Iterator

from draftscope.engines.fields import MOST, MOST_OF_A_ROUND, Object
from draftscope.engines.options import Options
from draftscope.engines.requests import INCLUDED, OMITTED, Request, Rounds

FIELD = "prompt_id with accepted or rounds"
ENABLE = "write it as config/README.md says"
ENGINE = None  # the caller names it
LISTS = ("accepted", "offered", "emitted")
TOTALS = ("rounds", "accepted_total", "offered_total", "emitted_total", "tokens")
FIELDS = (
    *("prompt_id", "sample", "request", "draft_length", "rounds_without_drafts", "stop"),
    *LISTS,
    *("count", *TOTALS),
)
CHOICES = {"rounds_without_drafts": (INCLUDED, OMITTED), "stop": ("eos", "budget")}


def recognizes(line: Object) -> bool:
    """The line names a prompt and its rounds."""
    return line.has("prompt_id") and (line.has("accepted") or line.has("rounds"))


def requests(line: Object, options: Options) -> Iterator[Request]:
    """The request of one line."""
    line.refuse_unknown(FIELDS)
    for key in ("prompt_id", "request"):
        value = line.values.get(key)
        if (
            not isinstance(value, str | None)
            or value == ""
            or (value is None and key == "prompt_id")
        ):
            raise line.fault(key, f"is {value!r}; it must be a text that is not empty")
    for key, choices in CHOICES.items():
        value = line.values.get(key)
        if value not in (None, *choices):
            raise line.fault(key, f"is {value!r}; it must be {' or '.join(choices)}")
    if line.values.get("rounds_without_drafts") == OMITTED and 0 in (
        line.integers("offered") or ()
    ):
        raise line.fault(
            "rounds_without_drafts",
            f"is {OMITTED}, but offered holds a 0; leave such rounds out or say {INCLUDED}",
        )
    draft_length = line.integer("draft_length", 1, MOST_OF_A_ROUND)
    lists = {key: line.integers(key) for key in LISTS}
    count = line.integers("count", most=MOST)
    rounds = Rounds(
        line,
        {},
        draft_length=options.length(line, "draft_length", draft_length),
        without_drafts=options.without_drafts(line.values.get("rounds_without_drafts") or INCLUDED),
        stop=line.values.get("stop"),
        ordered=lists["accepted"] is not None and count is None,
        count=count,
        **lists,
        **{key: line.integer(key) for key in TOTALS},
    )
    sample = line.integer("sample", most=2**31 - 1) or 0
    yield rounds.request(line.values["prompt_id"], sample, line.values.get("request"))
