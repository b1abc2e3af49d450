"""Files of one format into rows of the schema `imported_rounds`."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from draftscope.engines import aiperf, counters, lines, neutral, sglang, vllm
from draftscope.engines.bodies import body_of
from draftscope.engines.fields import Object
from draftscope.engines.options import Options
from draftscope.engines.requests import Request
from draftscope.errors import UserError
from draftscope.inputs import regular

log = logging.getLogger(__name__)

BY_REQUEST = {"vllm": vllm, "sglang": sglang, "aiperf": aiperf, "jsonl": neutral}
SKIPPED = {"vllm": vllm.skipped, "sglang": sglang.skipped, "aiperf": aiperf.skipped}
COUNTERS = "vllm-counters"
FORMATS = (*BY_REQUEST, COUNTERS)


@dataclass(frozen=True)
class Imported:
    """Rows, and what was left out.

    Attributes:
        engine: as far as the format or its records say it.
        left_out: objects that gave no row, by reason.
    """

    rows: list[dict[str, Any]]
    engine: str | None
    left_out: dict[str, int]


def import_requests(
    format: str, paths: Sequence[str | Path], options: Options, since: str | Path | None = None
) -> Imported:
    """Read and check the requests of files.

    Args:
        format: one of `FORMATS`.
        since: an earlier scrape, for counters.

    Raises:
        UserError: a file that is empty, damaged or of another format; a field that cannot be; a
            request that stands twice; no request with speculative counts at all.
    """
    files = [regular(path) for path in paths]
    resolved = Counter(path.resolve() for path in files)
    if twice := [str(path) for path in files if resolved[path.resolve()] > 1]:
        raise UserError(f"{twice[-1]} is given twice; each request counts once")
    if format == COUNTERS:
        if len(files) > 1:
            raise UserError(
                f"{files[0]} and {files[1]}: counters count from the server's start, so that a later "
                "scrape holds an earlier one; give one file, and the earlier one as --since"
            )
        since = since and regular(since)
        return Imported(_numbered(counters.requests(files[0], since, options)), "vllm", {})
    if since is not None:
        raise UserError(f"--since belongs to --format {COUNTERS}")
    left_out: Counter[str] = Counter()
    engines: dict[str, str] = {}
    rows = _numbered(_requests(format, paths, options, left_out, engines))
    module = BY_REQUEST[format]
    if not rows:
        raise UserError(f"{_several(paths)} holds no request with {module.FIELD}; {module.ENABLE}")
    if len(engines) > 1:
        (one, first), (other, second) = list(engines.items())[:2]
        raise UserError(f"{second}: the engine is {other}, but {one} in {first}; one file a server")
    for reason, count in left_out.items():
        log.warning("%d records left out: %s", count, reason)
    if all(row["request"] == row["prompt_id"] for row in rows):
        log.warning(
            "no field names the prompts: each request counts as a prompt of its own; repeated "
            "prompts are then no units, and two runs cannot be paired (see --prompt-id)"
        )
    return Imported(rows, next(iter(engines), module.ENGINE), dict(left_out))


def _requests(
    format: str,
    paths: Sequence[str | Path],
    options: Options,
    left_out: Counter[str],
    engines: dict[str, str],
) -> Iterator[Request]:
    module = BY_REQUEST[format]
    told: set[str] = set()  # engines' ids of requests with counts
    silent: dict[str, str] = {}  # id -> reason
    for path in paths:
        for line in lines.objects(path):
            refuse_other_format(format, line)
            found = list(module.requests(line, options))
            yield from found
            if format == "aiperf" and (engine := aiperf.engine(line)) is not None:
                engines.setdefault(engine, line.where)
            body = body_of(line)
            holder = body if body.has("id") else body.object("meta_info") or body
            name = holder.values.get("id")
            if found:
                told.add(name if isinstance(name, str) else "")
                continue
            reason = SKIPPED[format](line) if format in SKIPPED else None
            reason = reason or f"without {module.FIELD}"
            if isinstance(name, str) and name:
                silent.setdefault(name, reason)
            else:
                left_out[reason] += 1
    # The chunks of a stream are one request, and only one of them has its counts.
    left_out.update(reason for name, reason in silent.items() if name not in told)


def refuse_other_format(format: str, line: Object) -> None:
    """Stop where a line is clearly of another format than said."""
    if BY_REQUEST[format].recognizes(line):
        return
    for other, module in BY_REQUEST.items():
        if other != format and module.recognizes(line):
            raise UserError(f"{line.where} is not of format {format}; try --format {other}")


def _numbered(requests: Iterable[Request]) -> list[dict[str, Any]]:
    """Rows with samples numbered by order where the file does not, each request once."""
    seen: dict[tuple[str, int], str] = {}
    own: dict[str, str] = {}
    next_sample: Counter[str] = Counter()
    rows = []
    for request in requests:
        if request.request is not None:
            if request.request in own:
                raise UserError(
                    f"{request.where}: request {request.request} also stands in "
                    f"{own[request.request]}"
                )
            own[request.request] = request.where
        sample = request.sample
        if sample is None:
            sample = next_sample[request.prompt_id]
            next_sample[request.prompt_id] += 1
        key = (request.prompt_id, sample)
        if key in seen:
            raise UserError(
                f"{request.where}: prompt {key[0]}, sample {sample} also stands in {seen[key]}; "
                f"nearest: another sample number"
            )
        seen[key] = request.where
        rows.append(request.row(sample))
    return rows


def _several(paths: Sequence[str | Path]) -> str:
    return str(paths[0]) if len(paths) == 1 else f"none of the {len(paths)} files"
