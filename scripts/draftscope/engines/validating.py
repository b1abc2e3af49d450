"""Every fault of engine-neutral files, not the first alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from draftscope.engines import lines, neutral
from draftscope.engines.importing import refuse_other_format
from draftscope.engines.options import Options
from draftscope.errors import UserError
from draftscope.inputs import regular


@dataclass
class Found:
    """What stands in the files; `faults` are lines with file, line, field and what is right."""

    requests: int = 0
    rounds: int = 0
    faults: list[str] = field(default_factory=list)


def validate(paths: Sequence[str | Path]) -> Found:
    """Check engine-neutral files line by line, and that no sample stands twice.

    Raises:
        UserError: a file that cannot be read at all, or is of another format.
    """
    found, seen = Found(), {}
    files = [regular(path).resolve() for path in paths]
    if len(set(files)) < len(files):
        raise UserError("a file is given twice; each request counts once")
    for path in paths:
        for line in lines.values(path):
            try:
                if isinstance(line, UserError):
                    raise line
                refuse_other_format("jsonl", line)
                (request,) = neutral.requests(line, Options())
                key = (request.prompt_id, request.sample)
                if key in seen:
                    raise UserError(
                        f"{line.where}: prompt_id {key[0]} with sample {key[1]} also stands in "
                        f"{seen[key]}; nearest: another sample number"
                    )
            except UserError as error:
                found.faults.append(str(error))
                continue
            seen[key] = line.where
            found.requests += 1
            found.rounds += request.rounds
    return found
