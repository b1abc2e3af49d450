"""A model that llama.cpp runs from a GGUF file, with the tokenizer of the model it comes from.

The file is that of the base as it is, a file of a repository of the hub, or the base's n-bit copy
written back; llama.cpp's own quantizer can give it another file type. Texts are tokenized by the
base's pinned tokenizer, which the file has to agree with.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from draftscope import extras
from draftscope.checkpoints import (
    CONVERTED,
    base_of,
    folder_of,
    load_tokenizer,
    made_from,
    require_base,
)
from draftscope.downloads import check_address, fetching
from draftscope.errors import UserError
from draftscope.models import folder as checkpoint
from draftscope.models.llama_library import GgufModel, library, quantize, version
from draftscope.models.loaded import (
    LoadedModel,
    Weights,
    check_tokenizer,
    end_of_text_ids,
)

REQUIRED = {"base"}
OPTIONAL = {"file_type", "repository", "revision", "file"}
DERIVED = True
FILE = "model.gguf"  # in the folder of converted files
_PART = re.compile(r"-00001-of-(\d{5})\.gguf$")


def resolve(
    name: str, settings: Mapping[str, Any], folder: Path, base: Mapping[str, Any]
) -> dict[str, Any]:
    """Fetch or make the GGUF file and compare its tokenizer with the base's.

    Raises:
        UserError: llama-cpp-python is not installed; the base has no GGUF file and none is named;
            a file is missing or damaged, or of another vocabulary; a file type that cannot be
            written.
    """
    extras.require("llama_cpp", name)
    require_base(name, settings, base)
    for stale in folder.glob(".making-*"):  # left by a killed run
        shutil.rmtree(stale)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".making-") as temporary:
        made, origin = _source(name, settings, base, Path(temporary))
        if wanted := settings.get("file_type"):
            source, made = made, Path(temporary) / FILE
            quantize(source, made, wanted, name)
        if wanted or not origin:
            made = _keep(made, Path(temporary), folder / CONVERTED)
            origin = {"files": _inventory(made)} | origin
    opened = GgufModel(made, name)
    tokenizer = load_tokenizer(folder_of(base))
    opened.check_tokenizer(tokenizer)
    parts = _parts(made)
    digests = [checkpoint.file_sha256(part) for part in parts]
    sha256 = digests[0] if len(digests) == 1 else checkpoint.digest(digests)
    return {
        "revision": f"sha256:{sha256}",
        "sha256": sha256,
        "file_type": _file_type(made),
        "llama_cpp_python": version(),
        "max_positions": opened.max_positions,
        **origin,
        "tokenizer_sha256": base.get("tokenizer_sha256"),
        **made_from(base, folder),
    }


def load_weights(
    record: Mapping[str, Any], dtype: torch.dtype | None, device: Any, attention: str
) -> Weights:
    """Open the file; the data type and the attention implementation of the run do not apply.

    Raises:
        UserError: llama-cpp-python is not installed, or the file is missing or changed.
    """
    extras.require("llama_cpp", record["name"])
    offload = getattr(device, "type", device) != "cpu" and library().llama_supports_gpu_offload()
    path = _file(record)
    opened = GgufModel(path, record["name"], offload)
    place = "its GPUs" if offload else "CPU"
    return Weights(
        opened,
        load_tokenizer(folder_of(record)),
        record["file_type"],
        f"llama.cpp on {place}, llama-cpp-python {version()}",
    )


def assemble(
    record: Mapping[str, Any], weights: Weights, device: torch.device | str, attention: str
) -> LoadedModel:
    """What `models.loaded.assemble` does for models of transformers."""
    opened, tokenizer = weights.model, weights.tokenizer
    digest = check_tokenizer(record, tokenizer)
    eos_ids = end_of_text_ids(_generation_config(folder_of(record)), tokenizer)
    pad_id = tokenizer.pad_token_id
    return LoadedModel(
        name=record["name"],
        kind=record["kind"],
        model=opened,
        tokenizer=tokenizer,
        eos_ids=eos_ids,
        bos_id=tokenizer.bos_token_id,
        pad_id=min(eos_ids, default=0) if pad_id is None else pad_id,
        vocabulary_size=len(tokenizer),
        head_size=opened.width,
        max_positions=record["max_positions"],
        revision=record["revision"],
        tokenizer_sha256=digest,
        dtype=record["file_type"],
        device=torch.device("cuda" if device == "balanced" else device),
        quantization=weights.quantization,
        attention="llama.cpp",
        kernel=weights.kernel,
        settings=record,
    )


def _generation_config(folder: Path) -> Any:
    """As transformers finds it: the file, or what config.json says."""
    from transformers import AutoConfig, GenerationConfig

    try:
        return GenerationConfig.from_pretrained(folder, local_files_only=True)
    except OSError:
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
        return GenerationConfig.from_model_config(config)


def _source(
    name: str, settings: Mapping[str, Any], base: Mapping[str, Any], temporary: Path
) -> tuple[Path, dict[str, Any]]:
    """The GGUF file to start from, and what of its origin belongs in the record."""
    from draftscope.models import kind_module

    if settings.get("repository"):
        return _fetch(name, settings)
    owner = base_of(base) if base["kind"] == "round_to_nearest" else base
    module = kind_module(owner["kind"])
    if not hasattr(module, "original"):
        raise UserError(
            f"model {name}: its base {base['name']} has no GGUF file; name one of the hub by "
            "repository, revision and file, or take a base of kind package_gguf or gguf"
        )
    path = module.original(owner, temporary)
    if owner is base:
        return path, {}
    from draftscope.models.gguf_copy import rounded_copy

    copy = temporary / "rounded.gguf"
    rounded_copy(path, copy, base["bits"], base["group_size"], base["symmetric"], name)
    return copy, {}


def _fetch(name: str, settings: Mapping[str, Any]) -> tuple[Path, dict[str, Any]]:
    """Fetch a GGUF file of the hub, all parts of a split one; the path is that of the first."""
    from huggingface_hub import hf_hub_download

    repository, revision = settings["repository"], settings["revision"]
    check_address(f"model {name}", repository, revision)
    parts = _parts(Path(settings["file"]))
    with fetching(f"model {name} ({repository} at {revision})"):
        paths = [
            Path(hf_hub_download(repository, part.as_posix(), revision=revision)) for part in parts
        ]
    commit = paths[0].parents[len(parts[0].parts) - 1].name
    if not re.fullmatch("[0-9a-f]{40}", commit):
        raise RuntimeError(f"the hub's cache names {paths[0]} after no commit")
    return paths[0], {"repository": repository, "commit": commit, "file": settings["file"]}


def _parts(path: Path) -> list[Path]:
    """All files of a GGUF that is split into parts, by the name of the first; else itself."""
    found = _PART.search(path.name)
    if not found:
        return [path]
    stem, count = path.name[: found.start()], found[1]
    return [path.with_name(f"{stem}-{n:05d}-of-{count}.gguf") for n in range(1, int(count) + 1)]


def _keep(made: Path, temporary: Path, folder: Path) -> Path:
    """Move the file to where the record expects it, whole or not at all; others' are copied."""
    if not made.is_relative_to(temporary):
        made = Path(shutil.copyfile(made, temporary / FILE))
    folder.mkdir(exist_ok=True)
    with open(made, "rb") as file:
        os.fsync(file.fileno())
    return made.replace(folder / FILE)


def _inventory(path: Path) -> dict[str, dict[str, Any]]:
    return {path.name: {"bytes": path.stat().st_size, "sha256": checkpoint.file_sha256(path)}}


def _file(record: Mapping[str, Any]) -> Path:
    """Where the file of a record lies on this machine."""
    if "files" in record:
        folder = Path(record["location"]) / CONVERTED
        checkpoint.check_inventory(folder, record)
        return folder / FILE
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        paths = [
            hf_hub_download(
                record["repository"],
                part.as_posix(),
                revision=record["commit"],
                local_files_only=True,
            )
            for part in _parts(Path(record["file"]))
        ]
    except LocalEntryNotFoundError:
        raise UserError(
            f"model {record['name']} ({record['repository']}, {record['file']}) is not in this "
            "machine's cache; set HF_HOME to the cache it was fetched into, or delete its "
            "model.json and run again"
        ) from None
    return Path(paths[0])


def _file_type(path: Path) -> str:
    """The file type that a GGUF file says it has, such as "q4_k_m"."""
    from gguf import GGUFReader, LlamaFileType

    field = GGUFReader(path).fields.get("general.file_type")
    name = LlamaFileType(field.contents()).name if field else "unknown"
    return name.removeprefix("MOSTLY_").removeprefix("ALL_").lower()
