"""Trajectories that another engine generated, brought into the place of generated ones.

One row a trajectory, as JSONL or Parquet, with either token ids or text:

    {"prompt_id": "a", "sample": 0, "prompt_token_ids": [1, 2], "token_ids": [3, 4]}
    {"prompt_id": "a", "sample": 0, "prompt": "rendered prompt", "text": "completion"}

Text is tokenized with the target's tokenizer. That need not give back the ids the engine emitted,
so the condition of the rows says that they were retokenized. The prompt of each row is compared
with the experiment's own rendering: a difference is counted and logged, not refused, since the
engine's trajectory was generated from its own prompt and is replayed behind it.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from draftscope import jsonlines
from draftscope.errors import UserError
from draftscope.inputs import regular
from draftscope.trajectories import cut_at_eos, decode

if TYPE_CHECKING:
    from draftscope.models import LoadedModel
    from draftscope.prompts import Rendered

log = logging.getLogger(__name__)

_IDS, _TEXT = ("prompt_token_ids", "token_ids"), ("prompt", "text")
_KNOWN = {"prompt_id", "sample", *_IDS, *_TEXT}
Located = tuple[str, dict[str, Any]]  # "file:line" and the row


@dataclass(frozen=True)
class Imported:
    """Rows of the schema `trajectories`, and what was done to bring them in.

    Attributes:
        retokenized: the file holds text, not ids.
        prompts_differ: prompts whose ids are not those of the experiment's own rendering; None
            where there was no rendering to compare with.
        cut: retokenized texts that were longer than the budget and cut to it.
        skipped: trajectories that cannot be replayed, each with its reason.
        ignored: prompts of the file that were not asked for.
    """

    rows: list[dict[str, Any]]
    retokenized: bool
    prompts_differ: int | None
    cut: int
    skipped: int
    ignored: int


def import_trajectories(
    loaded: LoadedModel,
    path: str | Path,
    *,
    budget: int,
    samples: int,
    prompts: Sequence[tuple[str, Rendered]] | None = None,
) -> Imported:
    """Read and check trajectories.

    Args:
        loaded: the target; its tokenizer, end-of-text ids, head width and context are used, and
            no weight.
        path: a .jsonl or .parquet file, or "-" for JSONL on standard input. A torn last line of
            JSONL is dropped and logged.
        budget: most tokens that the engine could generate. A text that ends without an
            end-of-text token counts as cut off where it ends: that is its budget.
        samples: trajectories that each prompt must have, numbered from 0.
        prompts: ids of the prompts to take, in this order, with the experiment's own rendering;
            all in the file when None. A prompt that nobody can continue (empty, or as long as the
            context) is skipped, and the file need not hold it.

    Raises:
        UserError: the file is malformed (with file and line), lacks a prompt or a sample, holds
            ids that the target does not have, or a prompt that does not begin with exactly one
            beginning-of-text token where the target's tokenizer has one.
    """
    path = regular(path)
    rows = _rows(path)
    from_text = {_TEXT[1] in row for _, row in rows.values()}
    if len(from_text) > 1:
        raise UserError(f"{path} holds token ids in some rows and text in others")
    in_file = list(dict.fromkeys(prompt_id for prompt_id, _ in rows))
    own = dict(prompts) if prompts is not None else dict.fromkeys(in_file)
    converted, differing, cut = [], [], 0
    for prompt_id, rendered in own.items():
        reason = _unusable(loaded, rendered.token_ids) if rendered is not None else None
        for sample in range(samples):
            if reason:
                key = (prompt_id, sample)
                converted.append(_skipped(*key, rendered.token_ids, rendered.sha256, reason))
                continue
            if (prompt_id, sample) not in rows:
                raise UserError(f"{path} lacks prompt {prompt_id}, sample {sample}")
            where, row = rows[prompt_id, sample]
            found, was_cut = _convert(loaded, where, row, budget, rendered)
            converted.append(found)
            cut += was_cut
            if rendered is not None and found["prompt_token_ids"] != list(rendered.token_ids):
                differing.append(prompt_id)
    imported = Imported(
        converted,
        from_text == {True},
        len(set(differing)) if prompts is not None else None,
        cut,
        sum(row["status"] == "skipped" for row in converted),
        len(set(in_file) - set(own)),
    )
    _report(path, imported, differing, budget)
    return imported


def _rows(path: Path) -> dict[tuple[str, int], Located]:
    rows: dict[tuple[str, int], Located] = {}
    for where, row in _parquet(path) if path.suffix == ".parquet" else _jsonl(path):
        key = _key(where, row)
        if key in rows:
            raise UserError(
                f"{where}: prompt {key[0]}, sample {key[1]} also stands in {rows[key][0]}"
            )
        rows[key] = (where, row)
    return rows


def _report(path: Path, imported: Imported, differing: Sequence[str], budget: int) -> None:
    """Log what a reader of the numbers should know; nothing of it stops the import."""
    rows = imported.rows
    short = sum(row["stop_reason"] == "budget" and row["budget"] < budget for row in rows)
    if short:
        log.warning(
            "%d of %d texts end before the budget without an end-of-text token; they count as cut "
            "off there (did the engine drop the token?)",
            *(short, len(rows)),
        )
    if differing:
        log.warning(
            "%s: %d prompts are not what the experiment's template renders, first %s; their text is "
            "replayed behind the prompt of the file",
            *(path, imported.prompts_differ, differing[0]),
        )
    if imported.cut:
        log.warning(
            "%s: %d texts have more than %d tokens when tokenized again and were cut there",
            *(path, imported.cut, budget),
        )
    if imported.ignored:
        log.info("%s: %d prompts were not asked for and are ignored", path, imported.ignored)
    for row in rows:
        if row["status"] == "skipped":
            log.warning("prompt %s skipped: %s", row["prompt_id"], row["reason"])


def _jsonl(path: Path) -> Iterator[Located]:
    for _, where, row in jsonlines.read(path, may_be_torn=True):
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


def _convert(
    loaded: LoadedModel, where: str, row: Mapping, budget: int, rendered: Rendered | None
) -> tuple[dict[str, Any], bool]:
    """One row of schema trajectories, and whether its text was cut to the budget."""
    if "text" in row:
        prompt_text, emitted_text = (_string(where, row, key) for key in _TEXT)
        prompt, emitted = (_tokenize(loaded, text) for text in (prompt_text, emitted_text))
    else:
        prompt, emitted = (_ids(loaded, where, row, key) for key in _IDS)
        prompt_text = decode(loaded, prompt)
    key = (row["prompt_id"], row.get("sample", 0))
    _check_beginning(loaded, where, key[0], prompt)
    if len(cut_at_eos(emitted, loaded.eos_ids)) != len(emitted):
        raise UserError(
            f"{where}: the generated tokens go on after an end-of-text token of {loaded.name}"
        )
    cut = len(emitted) > budget
    if cut and "text" not in row:
        raise UserError(f"{where}: {len(emitted)} generated tokens, but the budget is {budget}")
    emitted = emitted[:budget]
    same = rendered is not None and list(rendered.token_ids) == prompt
    sha256 = rendered.sha256 if same else hashlib.sha256(prompt_text.encode("utf-8")).hexdigest()
    reason = _unusable(loaded, prompt, emitted)
    if reason:
        return _skipped(*key, prompt, sha256, reason), False
    ended = emitted[-1] in loaded.eos_ids
    return {
        "prompt_id": key[0],
        "sample": key[1],
        "status": "ok",
        "reason": None,
        "prompt_token_ids": prompt,
        "token_ids": emitted,
        # The last round of a replay ends where the text does, so the text's end is its budget.
        "budget": budget if ended else len(emitted),
        "stop_reason": "eos" if ended else "budget",
        "stop_token_id": emitted[-1] if ended else None,
        "rendered_sha256": sha256,
        "text": decode(loaded, emitted),
    }, cut


def _check_beginning(loaded: LoadedModel, where: str, prompt_id: str, prompt: list[int]) -> None:
    """Exactly one beginning-of-text token where the tokenizer has one."""
    bos = loaded.bos_id
    if bos is None or not prompt:
        return
    if prompt[0] != bos or prompt[:2] == [bos, bos]:
        fault = "begins with two" if prompt[0] == bos else "does not begin with a"
        token = "tokens" if prompt[0] == bos else "token"
        raise UserError(
            f"{where}: prompt {prompt_id} {fault} beginning-of-text {token} (id {bos} of "
            f"{loaded.name}); exactly one is expected"
        )


def _unusable(
    loaded: LoadedModel, prompt: Sequence[int], emitted: Sequence[int] | None = None
) -> str | None:
    """Why a prompt cannot be continued, or what continues it cannot be replayed."""
    room, length = loaded.max_positions, len(prompt)
    if not any(token != loaded.bos_id for token in prompt):
        return "empty prompt"
    if room is not None and length >= room:
        return f"its {length} tokens fill the model's context"
    if emitted is None:
        return None
    if not emitted:
        return "no generated tokens"
    if room is not None and length + len(emitted) > room:
        return (
            f"its {length} tokens and the {len(emitted)} generated ones are more than the "
            f"model's context of {room}"
        )
    return None


def _skipped(
    prompt_id: str, sample: int, prompt: Sequence[int], sha256: str, reason: str
) -> dict[str, Any]:
    return {
        "prompt_id": prompt_id,
        "sample": sample,
        "status": "skipped",
        "reason": reason,
        "prompt_token_ids": list(prompt),
        "token_ids": [],
        "budget": 0,
        "stop_reason": None,
        "stop_token_id": None,
        "rendered_sha256": sha256,
        "text": "",
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
