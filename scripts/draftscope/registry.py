"""Registries: files that map a name to what it is (models, pairs, domains, decoding modes)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from draftscope.domain_rows import SOURCES
from draftscope.errors import UserError
from draftscope.strict import Flag, Integer, Name, Number, Strict, load_yaml, nearest, validate

Positive = Annotated[Integer, Field(ge=1)]
NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._+-]*$")


class PackageGguf(Strict):
    kind: Literal["package_gguf"]
    package: str = Field(description="name on the Python package index")
    version: str
    file: str = Field(description="path of the GGUF inside the wheel")
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] = Field(description="of the GGUF")
    tokenizer_probes: dict[str, list[int]] = Field(
        description="texts and the ids that the original tokenizer encodes them as"
    )


class Gguf(Strict):
    kind: Literal["gguf"]
    path: str = Field(description="GGUF file on this machine")
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] = Field(description="of the GGUF")
    tokenizer_probes: dict[str, list[int]] = Field(description="as for package_gguf")


class Hub(Strict):
    kind: Literal["hub"]
    id: str = Field(description="owner/name on the model hub")
    revision: str = Field(description="commit, tag or branch; resolved to a commit and recorded")


class Local(Strict):
    kind: Literal["local"]
    path: str = Field(description="folder with safetensors weights, configuration and tokenizer")


class RoundToNearest(Strict):
    kind: Literal["round_to_nearest"]
    base: Name = Field(description="model whose weights are rounded")
    bits: Annotated[Integer, Field(ge=2, le=8)]
    group_size: Positive = Field(description="weights that share one scale")


class PromptLookup(Strict):
    kind: Literal["prompt_lookup"]
    max_ngram: Positive = Field(description="longest n-gram that is looked up")
    min_ngram: Positive = Field(description="shortest n-gram that counts as a match")

    @model_validator(mode="after")
    def _from_short_to_long(self) -> PromptLookup:
        if self.min_ngram > self.max_ngram:
            raise ValueError(f"min_ngram {self.min_ngram} is above max_ngram {self.max_ngram}")
        return self


MODEL_KINDS: dict[str, type[Strict]] = {
    "package_gguf": PackageGguf,
    "gguf": Gguf,
    "hub": Hub,
    "local": Local,
    "round_to_nearest": RoundToNearest,
    "prompt_lookup": PromptLookup,
}


class Pair(Strict):
    target: Name
    draft: Name
    draft_group: Name = Field(description="drafts of one group share one pass of the target")
    allow_special_differences: Flag = Field(
        default=False, description="special tokens may differ; the draft's are masked and counted"
    )


class Law(Strict):
    temperature: Annotated[Number, Field(ge=0)]
    top_k: Annotated[Integer, Field(ge=0)] = 0
    top_p: Annotated[Number, Field(gt=0, le=1)] = 1.0


class Mode(Law):
    samples: Positive = Field(default=1, description="trajectories a prompt")
    score_laws: dict[Name, Law] = Field(default={}, description="further laws scored in one pass")
    imported: dict[Name, str] | None = Field(
        default=None, description="by domain: file of trajectories that another engine made"
    )

    @model_validator(mode="after")
    def _laws_have_names_of_their_own(self) -> Mode:
        for name in ("decoding", "unwarped"):
            if name in self.score_laws:
                raise ValueError(f"score_laws cannot be named {name!r}: every mode has that law")
        return self


def load_all(registries: Any, root: Path) -> dict[str, dict[str, dict]]:
    """Read every registry file; rows are validated when they are used."""
    return {
        kind: _load(kind, getattr(registries, kind), root)
        for kind in ("models", "pairs", "domains", "modes")
    }


def _load(kind: str, files: list[str], root: Path) -> dict[str, dict]:
    rows: dict[str, dict] = {}
    for file in files:
        path = Path(file) if Path(file).is_absolute() else root / file
        content = load_yaml(path)
        if not isinstance(content, dict):
            raise UserError(f"{file}: expected a mapping of names to {kind}")
        for name, row in content.items():
            if not isinstance(name, str) or not NAME.match(name):
                raise UserError(
                    f"{file}: {name!r} cannot name one of the {kind}: names hold letters, digits "
                    "and . _ + - only, so that they can be part of a path"
                )
            if name in rows:
                raise UserError(f"{file}: {name!r} stands in another file of {kind} too")
            if not isinstance(row, dict):
                raise UserError(f"{file}: {name!r} is not a mapping")
            rows[name] = row
    return rows


def select(
    rows: dict[str, dict], names: list[str], registry: str, what: str
) -> dict[str, dict[str, Any]]:
    """The rows of these names, validated, as plain dictionaries with every default filled in.

    Raises:
        UserError: an unknown name (with the nearest known one) or a row that is not valid.
    """
    return {name: _row(rows, name, registry, what) for name in names}


def _row(rows: dict[str, dict], name: str, registry: str, what: str) -> dict[str, Any]:
    if name not in rows:
        raise UserError(f"unknown {what} {name!r}{nearest(name, list(rows))}")
    where = f"{what} {name!r}"
    row = rows[name]
    if registry == "pairs":
        return validate(Pair, row, where).model_dump()
    if registry == "modes":
        return validate(Mode, row, where).model_dump()
    if registry == "domains":
        # What a row leaves out stays out: its text is part of what decides about reruns.
        return _of_a_kind(row, "source", SOURCES, where).model_dump(exclude_none=True)
    return _of_a_kind(row, "kind", MODEL_KINDS, where).model_dump()


def _of_a_kind(row: dict, key: str, kinds: dict[str, type[Strict]], where: str) -> Strict:
    """A row validated by the schema that its own `key` names."""
    kind = row.get(key)
    if not isinstance(kind, str) or kind not in kinds:
        raise UserError(f"{where}: unknown {key} {kind!r}{nearest(str(kind), list(kinds))}")
    return validate(kinds[kind], row, where)


def _check_ancestry(name: str, models: dict[str, dict[str, Any]]) -> None:
    """Follow a derived model to the one it is made from."""
    line = [name]
    while "base" in models[line[-1]]:
        line.append(models[line[-1]]["base"])
        if line[-1] in line[:-1]:
            raise UserError(f"model {name!r} is derived from itself: {' from '.join(line)}")
    if len(line) > 1 and models[line[-1]]["kind"] == "prompt_lookup":
        raise UserError(f"model {name!r} is derived from {line[-1]!r}, which has no weights")


def models_of(pairs: dict[str, dict], rows: dict[str, dict]) -> dict[str, dict[str, Any]]:
    """Every model that the pairs need, and the models those are derived from."""
    models: dict[str, dict[str, Any]] = {}
    wanted = [name for pair in pairs.values() for name in (pair["target"], pair["draft"])]
    while wanted:
        name = wanted.pop(0)
        if name in models:
            continue
        models[name] = _row(rows, name, "models", "model")
        base = models[name].get("base")
        if base is not None:
            wanted.append(base)
    for name in models:
        _check_ancestry(name, models)
    same: dict[tuple[str, str], str] = {}
    for name, pair in pairs.items():
        first = same.setdefault((pair["target"], pair["draft"]), name)
        if first != name:
            raise UserError(f"pairs {first!r} and {name!r} are the same target and draft")
        if models[pair["target"]]["kind"] == "prompt_lookup":
            raise UserError(f"pair {name!r}: prompt lookup can be a draft, not a target")
    return models
