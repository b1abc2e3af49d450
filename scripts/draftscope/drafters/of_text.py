"""The proposers of drafts that have no model: prompt lookup, and bigrams counted beforehand."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from draftscope.checkpoints import read_record
from draftscope.drafters import Proposer
from draftscope.drafters.bigram import Bigram
from draftscope.drafters.prompt_lookup import PromptLookup
from draftscope.errors import UserError
from draftscope.writing import atomic

SUCCESSORS = "successors.safetensors"


def proposer(settings: Mapping[str, Any], target: Mapping[str, Any]) -> Proposer | None:
    """The proposer of a draft that has no model; None for a model.

    Args:
        settings: the draft's row in the registry of models, or its record. For bigrams, which lie
            in a file, the row needs `record`, the path of its model.json, too.
        target: what it proposes to, with `target` and `target_revision`, as a condition has them.

    Raises:
        UserError: bigrams of another target, or whose file is missing or has changed.
    """
    if settings["kind"] == "prompt_lookup":
        own = ("max_ngram", "min_ngram")
        return PromptLookup(**{key: settings[key] for key in own if settings.get(key) is not None})
    if settings["kind"] != "bigram":
        return None
    record = read_record(settings["record"]) if "record" in settings else settings
    learnt = record["learnt_from"]
    if (learnt["name"], learnt["revision"]) != (target["target"], target["target_revision"]):
        raise UserError(
            f"model {record['name']} was counted in texts of {learnt['name']} at "
            f"{learnt['revision']}, not of {target['target']} at {target['target_revision']}"
        )
    return Bigram(read_successors(record))


def write_successors(folder: str | Path, successors: Mapping[int, int]) -> dict[str, Any]:
    """Write them beside the record; returns the record's part."""
    from safetensors.numpy import save

    tokens = sorted(successors)
    after = [successors[token] for token in tokens]
    arrays = {"token": np.array(tokens, np.int64), "successor": np.array(after, np.int64)}
    content = save(arrays)
    with atomic(Path(folder) / SUCCESSORS, "wb") as file:
        file.write(content)
    digest = hashlib.sha256(content).hexdigest()
    return {"revision": f"bigram sha256:{digest}", "sha256": digest, "tokens": len(tokens)}


def read_successors(record: Mapping[str, Any]) -> dict[int, int]:
    """Read what `write_successors` wrote.

    Raises:
        UserError: the file is missing or has changed since.
    """
    from safetensors.numpy import load

    path = Path(record["location"]) / SUCCESSORS
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise UserError(
            f"model {record['name']}: {path} is missing; delete its model.json and run again"
        ) from None
    if hashlib.sha256(content).hexdigest() != record["sha256"]:
        raise UserError(
            f"model {record['name']}: file {path} has changed since it was counted; delete its "
            "model.json and run again"
        )
    arrays = load(content)
    return dict(zip(arrays["token"].tolist(), arrays["successor"].tolist(), strict=True))


def plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A draft's settings as a condition keeps them: without where its files lie."""
    return {key: value for key, value in settings.items() if key != "record"}
