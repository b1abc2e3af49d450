"""Can the models of an experiment be had, and do drafts and targets share a vocabulary?"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from draftscope import extras
from draftscope.checkpoints import (
    BLOCK_DRAFTS,
    CONVERTED,
    TEXT_DRAFTS,
    folder_of,
    load_tokenizer,
    read_record,
)
from draftscope.doctor.findings import NOTE, OK, PROBLEM, Findings
from draftscope.downloads import check_address, fetching
from draftscope.errors import UserError
from draftscope.models import folder as checkpoint
from draftscope.models.hub import UNWANTED, WANTED
from draftscope.models.loaded import end_of_text_ids, tokenizer_sha256
from draftscope.models.vocabulary import align

GIGABYTE = 1e9
_WEIGHTS = "*.safetensors"


@dataclass(frozen=True)
class Known:
    """What is known of a model without its weights; the names are those of `LoadedModel`.

    `weight_bytes` is the size of its files of weights, `config` its configuration.
    """

    name: str
    tokenizer: Any
    config: Any
    vocabulary_size: int
    head_size: int
    tokenizer_sha256: str | None
    eos_ids: frozenset[int]
    bos_id: int | None
    max_positions: int | None
    weight_bytes: int | None


def look(
    models: Mapping[str, Mapping[str, Any]],
    needed: Collection[str],
    records: Path,
    findings: Findings,
) -> dict[str, Known]:
    """Look at every model of an experiment.

    Args:
        models: name -> registry row, bases included.
        needed: those that its studies need; what is wrong with another stops nothing.
        records: folder of the experiment's models, each with its model.json if it was resolved.

    Returns:
        What is known, of the models of which anything is.
    """
    for line in extras.missing(models):
        name = line.split()[1]
        findings.add("packages", name, PROBLEM if name in needed else NOTE, line)
    known: dict[str, Known] = {}
    for name, row in models.items():
        verdict = PROBLEM if name in needed else NOTE
        with findings.asking("model", name, verdict):
            record = records / name / "model.json"
            if row["kind"] in BLOCK_DRAFTS and record.is_file():
                findings.add("model", name, OK, _block_draft(record, row, records))
                continue
            found = _resolved(record, row) if record.is_file() else _unresolved(name, row, findings)
            if found is None:
                continue
            folder, said, weight_bytes = found
            findings.add("model", name, OK, said)
            known[name] = _describe(name, folder, weight_bytes)
            _ends(known[name], verdict, findings)
    return known


def _resolved(path: Path, row: Mapping[str, Any]) -> tuple[Path, str, int | None] | None:
    record = read_record(path)
    if record["kind"] in TEXT_DRAFTS:
        return None
    _check_row(path, record, row)
    folder = folder_of(record)
    checkpoint.check(folder, record["name"])
    return folder, f"resolved at {record['revision']}", _size(folder)


def _check_row(path: Path, record: Mapping[str, Any], row: Mapping[str, Any]) -> None:
    if record["kind"] != row["kind"]:
        raise UserError(
            f"{path} is of kind {record['kind']}, the registry says {row['kind']}: it will be "
            "resolved again"
        )
    changed = [key for key in row if key in record and record[key] != row[key] and key != "base"]
    if row.get("revision", record.get("asked_revision")) != record.get("asked_revision"):
        changed.append("revision")
    changed = [key for key in changed if key != "revision" or "asked_revision" in record]
    if changed:
        raise UserError(
            f"{path} was resolved with another {', '.join(changed)} than the registry has; it will "
            "be resolved again, which this could not look at: delete it and ask again"
        )


def _block_draft(path: Path, row: Mapping[str, Any], records: Path) -> str:
    """What there is to say of a drafter that reads its target's states; it has no tokenizer.

    Raises:
        UserError: a file is missing or has changed, or it was trained for the target at another
            revision than the one that is here.
    """
    record = read_record(path)
    _check_row(path, record, row)
    folder = path.parent / CONVERTED
    checkpoint.check_inventory(folder, record)
    made_for = record["learnt_from"]
    target = records / row["target"] / "model.json"
    if target.is_file() and (here := read_record(target)["revision"]) != made_for["revision"]:
        raise UserError(
            f"{path} was trained for {made_for['name']} at {made_for['revision']}, which is now at "
            f"{here}; delete it, so that it is trained again"
        )
    words = f"{record['draft_vocabulary']} ids of {record['target_head']}"
    return f"trained for {made_for['name']}, {words}, {(_size(folder) or 0) / 1e6:.1f} MB"


def _size(folder: Path) -> int | None:
    return sum(file.stat().st_size for file in folder.glob(_WEIGHTS)) or None


def _unresolved(
    name: str, row: Mapping[str, Any], findings: Findings
) -> tuple[Path, str, int | None] | None:
    kind = row["kind"]
    if kind == "hub":
        return _on_the_hub(name, row)
    if kind == "local":
        folder = Path(row["path"])
        checkpoint.check(folder, name)
        return folder, f"local folder {folder}", _size(folder)
    if kind != "prompt_lookup":
        made = f"made from {row['base']}" if "base" in row else "fetched and converted"
        made = "counted in its target's texts" if kind == "bigram" else made
        made = "trained on its target's texts" if kind in BLOCK_DRAFTS else made
        findings.add("model", name, NOTE, f"not there yet: it is {made} by its first job")
    return None


def _on_the_hub(name: str, row: Mapping[str, Any]) -> tuple[Path, str, int | None]:
    """Configuration and tokenizer of a hub model, and the size of its weights, unfetched."""
    from huggingface_hub import HfApi, constants, snapshot_download

    check_address(f"model {name}", row["id"], row["revision"])
    what = f"model {name} ({row['id']} at {row['revision']})"
    if constants.HF_HUB_OFFLINE:
        with fetching(what):
            folder = Path(
                snapshot_download(row["id"], revision=row["revision"], local_files_only=True)
            )
        checkpoint.check(folder, name)
        return folder, f"in the hub's cache at {folder.name}", _size(folder)
    with fetching(what):
        about = HfApi().model_info(row["id"], revision=row["revision"], files_metadata=True)
        weights = [
            file.size or 0
            for file in about.siblings or ()
            if file.rfilename.endswith(".safetensors") and "/" not in file.rfilename
        ]
        if not weights:
            raise UserError(f"{what}: it has no safetensors; pickled weights are not loaded")
        folder = Path(
            snapshot_download(
                row["id"],
                revision=about.sha,
                allow_patterns=[pattern for pattern in WANTED if pattern != _WEIGHTS],
                ignore_patterns=UNWANTED,
            )
        )
    return folder, f"on the hub at {about.sha}, {sum(weights) / GIGABYTE:.1f} GB", sum(weights)


def _describe(name: str, folder: Path, weight_bytes: int | None) -> Known:
    from transformers import AutoConfig, GenerationConfig

    config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    tokenizer = load_tokenizer(folder)
    if (folder / "generation_config.json").is_file():
        generation = GenerationConfig.from_pretrained(folder, local_files_only=True)
    else:
        generation = GenerationConfig.from_model_config(config)
    text = config.get_text_config()
    return Known(
        name=name,
        tokenizer=tokenizer,
        config=config,
        vocabulary_size=len(tokenizer),
        head_size=text.vocab_size,
        tokenizer_sha256=tokenizer_sha256(tokenizer),
        eos_ids=end_of_text_ids(generation, tokenizer),
        bos_id=tokenizer.bos_token_id,
        max_positions=getattr(text, "max_position_embeddings", None),
        weight_bytes=weight_bytes,
    )


def _ends(known: Known, verdict: str, findings: Findings) -> None:
    if not known.eos_ids:
        findings.add(
            "end of text", known.name, verdict,
            "neither its generation configuration nor its tokenizer names an end-of-text token; "
            "every text would run to its budget",
        )  # fmt: skip
        return
    ends = ", ".join(
        f"{i} {known.tokenizer.convert_ids_to_tokens(i)}" for i in sorted(known.eos_ids)
    )
    begin = "none" if known.bos_id is None else known.tokenizer.convert_ids_to_tokens(known.bos_id)
    findings.add("end of text", known.name, OK, f"ends with {ends}; begins with {begin}")


def compare(
    pairs: Mapping[str, Mapping[str, Any]],
    models: Mapping[str, Mapping[str, Any]],
    known: Mapping[str, Known],
    findings: Findings,
    needed: Collection[str] | None = None,
) -> None:
    """Compare the tokenizers of every pair by content.

    Args:
        needed: pairs of the studies that are asked for; all where it is not said.
    """
    for name, pair in pairs.items():
        target, draft = (of_base(pair[role], models, known) for role in ("target", "draft"))
        if models[pair["draft"]]["kind"] in TEXT_DRAFTS | BLOCK_DRAFTS:
            continue  # they propose their target's own ids
        if target is None or draft is None:
            lacking = pair["target"] if target is None else pair["draft"]
            findings.add("vocabulary", name, NOTE, f"not compared: {lacking} is not there yet")
            continue
        verdict = PROBLEM if needed is None or name in needed else NOTE
        with findings.asking("vocabulary", name, verdict):
            found = align(target, draft, pair.get("allow_special_differences", False))
            said = f"{found.common_size} tokens alike"
            if found.differing:
                said = f"{found.common_size - len(found.differing)} tokens alike, "
                said += f"{len(found.differing)} special ones differ and are masked"
            findings.add("vocabulary", name, OK, said)


def of_base(
    name: str, models: Mapping[str, Mapping[str, Any]], known: Mapping[str, Known]
) -> Known | None:
    """What is known of a model: a derived model that is not there yet has the tokenizer of its base."""
    while name not in known and "base" in models[name]:
        name = models[name]["base"]
    return known.get(name)
