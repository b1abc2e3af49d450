"""vLLM's counters at /metrics: the server's totals since its start, or between two scrapes.

They know no requests: what is made of them is one row a model, which has no interval. The counters
by position are survivors, so that their differences are rounds by accepted drafts.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from draftscope import jsonlines
from draftscope.engines.fields import MOST, Object
from draftscope.engines.options import Options
from draftscope.engines.requests import OMITTED, Request, Rounds
from draftscope.errors import UserError

PREFIX = "vllm:spec_decode_num_"
DRAFTS, DRAFT_TOKENS, ACCEPTED = "drafts", "draft_tokens", "accepted_tokens"
BY_POSITION = "accepted_tokens_per_pos"
_LINE = re.compile(rf"{PREFIX}(\w+?)(?:_total)?(?:\{{(.*)\}})?\s+(\S+)(?:\s+\d+)?\s*$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
Totals = dict[str, dict[str, int]]  # model -> counter (with its position) -> tokens or rounds


def requests(path: Path, since: Path | None, options: Options) -> Iterator[Request]:
    """One request a model, from one scrape or what was added since an earlier one.

    Raises:
        UserError: no such counters, counters that contradict each other, or one that fell.
    """
    before = read(since) if since else {}
    for model, totals in read(path).items():
        counts = {}
        for name, value in totals.items():
            counts[name] = value - before.get(model, {}).get(name, 0)
            if counts[name] < 0:
                raise UserError(
                    f"{path}: {PREFIX}{name} is {value}, below that of {since}; the server was "
                    "started anew in between, or the files are swapped"
                )
        yield _request(Object(str(path), {}), model, counts, options)


def _request(source: Object, model: str, counts: dict[str, int], options: Options) -> Request:
    for name in (DRAFTS, DRAFT_TOKENS, ACCEPTED):
        if name not in counts:
            raise source.fault(f"{PREFIX}{name}", "is missing; give a whole scrape of /metrics")
    places = sorted(int(name.split("/")[1]) for name in counts if name.startswith(BY_POSITION))
    rounds = Rounds(
        source,
        {
            "rounds": f"{PREFIX}{DRAFTS}",
            "accepted": f"{PREFIX}{BY_POSITION}",
            "accepted_total": f"{PREFIX}{ACCEPTED}",
            "offered_total": f"{PREFIX}{DRAFT_TOKENS}",
        },
        draft_length=len(places) or options.draft_length,
        without_drafts=options.without_drafts(OMITTED),
        rounds=counts[DRAFTS],
        accepted_total=counts[ACCEPTED],
        offered_total=counts[DRAFT_TOKENS],
    )
    if places:
        survivors = [counts[DRAFTS], *(counts[f"{BY_POSITION}/{place}"] for place in places), 0]
        if places != list(range(len(places))) or survivors != sorted(survivors, reverse=True):
            raise source.fault(
                f"{PREFIX}{BY_POSITION}",
                f"counts {survivors[1:-1]} at positions {places} of {counts[DRAFTS]} rounds; no "
                "position can count more than the one before it",
            )
        exact = {a: survivors[a] - survivors[a + 1] for a in range(len(places) + 1)}
        rounds.take_histogram({a: count for a, count in exact.items() if count})
    return rounds.request(f"all requests of {model}", None, None)


def read(path: Path) -> Totals:
    """The counters of a scrape, summed over engines.

    Raises:
        UserError: none in the file, or a value that is no count.
    """
    totals: Totals = defaultdict(lambda: defaultdict(int))
    for number, line in jsonlines.lines(path):
        found = _LINE.match(line.decode("utf-8", "replace"))
        if not found or found[1].endswith("_created"):
            continue
        labels = dict(_LABEL.findall(found[2] or ""))
        name = found[1] + (f"/{labels['position']}" if "position" in labels else "")
        try:
            value = float(found[3])
            count = int(value)
        except (ValueError, OverflowError):
            value, count = 0.5, 0
        if value != count or count < 0:
            raise UserError(
                f"{path}:{number}: {PREFIX}{found[1]} is {found[3]}; a counter is a whole number, "
                "at least 0"
            )
        if count > MOST:
            raise UserError(f"{path}:{number}: {PREFIX}{found[1]} is {found[3]}, more than {MOST}")
        totals[labels.get("model_name", "the server")][name] += count
    if not totals:
        raise UserError(
            f"{path} holds no counter {PREFIX}...; give what the server of vLLM says at /metrics, "
            "with speculative decoding on"
        )
    return totals
