"""Trajectories that another engine generated, brought into the place of generated ones.

One row a trajectory, as JSONL or Parquet, with either token ids or text:

    {"prompt_id": "a", "sample": 0, "prompt_token_ids": [1, 2], "token_ids": [3, 4]}
    {"prompt_id": "a", "sample": 0, "prompt": "rendered prompt", "text": "completion"}

Text is tokenized with the target's tokenizer. That need not give back the ids the engine emitted,
so the condition of the rows says that they were retokenized.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from draftscope.errors import UserError
from draftscope.trajectories import cut_at_eos, decode

if TYPE_CHECKING:
    from draftscope.models import LoadedModel

log = logging.getLogger(__name__)

_IDS, _TEXT = ("prompt_token_ids", "token_ids"), ("prompt", "text")
_KNOWN = {"prompt_id", "sample", *_IDS, *_TEXT}
Located = tuple[str, dict[str, Any]]  # "file:line" and the row


def import_trajectories(
    loaded: LoadedModel,
    path: str | Path,
    *,
    budget: int,
    samples: int,
    prompt_ids: Sequence[str] | None = None,
) -> tuple[list[dict[str, Any]], bool]:
    """Read and check trajectories; rows of the schema `trajectories` and whether text was read.

    Args:
        loaded: the target; its tokenizer, end-of-text ids and head width are used, and no weight.
        path: a .jsonl or .parquet file. A torn last line of JSONL is dropped and logged.
        budget: most tokens that the engine could generate. A text that ends without an
            end-of-text token counts as cut off where it ends: that is its budget.
        samples: trajectories that each prompt must have, numbered from 0.
        prompt_ids: the prompts to take, in this order; all in the file when None.

    Raises:
        UserError: the file is malformed (with file and line), lacks a prompt or a sample, or
            holds ids that the target does not have.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(f"{path} does not exist")
    rows: dict[tuple[str, int], Located] = {}
    for where, row in _parquet(path) if path.suffix == ".parquet" else _jsonl(path):
        key = _key(where, row)
        if key in rows:
            raise UserError(
                f"{where}: prompt {key[0]}, sample {key[1]} also stands in {rows[key][0]}"
            )
        rows[key] = (where, row)
    wanted = list(dict.fromkeys(key[0] for key in rows)) if prompt_ids is None else prompt_ids
    _require(path, rows, wanted, samples)
    chosen = [rows[prompt_id, sample] for prompt_id in wanted for sample in range(samples)]
    from_text = {_TEXT[1] in row for _, row in chosen}
    if len(from_text) > 1:
        raise UserError(f"{path} holds token ids in some rows and text in others")
    converted = [_convert(loaded, where, row, budget) for where, row in chosen]
    short = sum(r["stop_reason"] == "budget" and r["budget"] < budget for r in converted)
    if short:
        log.warning(
            "%d of %d texts end before the budget without an end-of-text token; they count as cut "
            "off there (did the engine drop the token?)",
            *(short, len(converted)),
        )
    return converted, from_text == {True}


def _jsonl(path: Path) -> Iterator[Located]:
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            row = json.loads(line.decode("utf-8"))
        except (UnicodeDecodeError, json.JSONDecodeError) as error:
            # Only the last line, without its newline, can be what a killed writer left behind.
            if number == len(lines):
                log.warning("%s: dropped a torn last line", where)
                return
            raise UserError(f"{where}: not valid JSON in UTF-8 ({error})") from error
        if not isinstance(row, dict):
            raise UserError(f"{where}: expected an object, found {type(row).__name__}")
        yield where, row


def _parquet(path: Path) -> Iterator[Located]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise UserError(f"{path} is damaged or not Parquet") from error
    for number, row in enumerate(table.to_pylist(), start=1):
        yield f"{path}:{number}", {key: value for key, value in row.items() if value is not None}


def _key(where: str, row: Mapping[str, Any]) -> tuple[str, int]:
    unknown = sorted(set(row) - _KNOWN)
    if unknown:
        raise UserError(f"{where}: unknown key {unknown[0]!r}; known: {', '.join(sorted(_KNOWN))}")
    prompt_id, sample = row.get("prompt_id"), row.get("sample", 0)
    if not isinstance(prompt_id, str) or not prompt_id:
        raise UserError(f"{where}: prompt_id must be a non-empty string, not {prompt_id!r}")
    if isinstance(sample, bool) or not isinstance(sample, int) or sample < 0:
        raise UserError(f"{where}: sample must be an integer from 0, not {sample!r}")
    ids, text = [all(key in row for key in kind) for kind in (_IDS, _TEXT)]
    if ids == text or any(key in row for key in (_TEXT if ids else _IDS)):
        raise UserError(
            f"{where}: a row holds either {' and '.join(_IDS)} or {' and '.join(_TEXT)}"
        )
    return prompt_id, sample


def _require(path: Path, rows: Mapping, wanted: Sequence[str], samples: int) -> None:
    for prompt_id in wanted:
        for sample in range(samples):
            if (prompt_id, sample) not in rows:
                raise UserError(f"{path} lacks prompt {prompt_id}, sample {sample}")


def _convert(loaded: LoadedModel, where: str, row: Mapping, budget: int) -> dict[str, Any]:
    if "text" in row:
        prompt_text, emitted_text = (_string(where, row, key) for key in _TEXT)
        prompt, emitted = (_tokenize(loaded, text) for text in (prompt_text, emitted_text))
    else:
        prompt, emitted = (_ids(loaded, where, row, key) for key in _IDS)
        prompt_text = decode(loaded, prompt)
    if loaded.bos_id is not None and prompt[:2] == [loaded.bos_id] * 2:
        raise UserError(f"{where}: the prompt begins with two beginning-of-text tokens")
    if len(cut_at_eos(emitted, loaded.eos_ids)) != len(emitted):
        raise UserError(
            f"{where}: the generated tokens go on after an end-of-text token of {loaded.name}"
        )
    if len(emitted) > budget:
        raise UserError(f"{where}: {len(emitted)} generated tokens, but the budget is {budget}")
    ended = bool(emitted) and emitted[-1] in loaded.eos_ids
    skipped = not prompt or not emitted
    return {
        "prompt_id": row["prompt_id"],
        "sample": row.get("sample", 0),
        "status": "skipped" if skipped else "ok",
        "reason": ("empty prompt" if not prompt else "no generated tokens") if skipped else None,
        "prompt_token_ids": prompt,
        "token_ids": emitted,
        # The last round of a replay ends where the text does, so the text's end is its budget.
        "budget": budget if ended or skipped else len(emitted),
        "stop_reason": None if skipped else "eos" if ended else "budget",
        "stop_token_id": emitted[-1] if ended else None,
        "rendered_sha256": hashlib.sha256(prompt_text.encode("utf-8")).hexdigest(),
        "text": decode(loaded, emitted),
    }


def _string(where: str, row: Mapping, key: str) -> str:
    if not isinstance(row[key], str):
        raise UserError(f"{where}: {key} must be a string")
    return row[key]


def _tokenize(loaded: LoadedModel, text: str) -> list[int]:
    # The text is what the engine's model read: it already holds its special tokens.
    return list(loaded.tokenizer(text, add_special_tokens=False)["input_ids"])


def _ids(loaded: LoadedModel, where: str, row: Mapping, key: str) -> list[int]:
    ids = row[key]
    if not isinstance(ids, list) or any(isinstance(x, bool) or not isinstance(x, int) for x in ids):
        raise UserError(f"{where}: {key} must be a list of integers")
    wrong = next((i for i, token in enumerate(ids) if not 0 <= token < loaded.head_size), None)
    if wrong is not None:
        raise UserError(
            f"{where}: {key}[{wrong}] is {ids[wrong]}, outside the vocabulary of {loaded.name}, "
            f"{loaded.head_size} ids"
        )
    return ids
