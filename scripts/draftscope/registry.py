"""Registries: files that map a name to what it is (models, pairs, domains, decoding modes)."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from draftscope import block_pairs
from draftscope.checkpoints import BLOCK_DRAFTS, TEXT_DRAFTS
from draftscope.domain_rows import SOURCES
from draftscope.errors import UserError
from draftscope.model_rows import MODEL_KINDS, Calibration, Positive, teacher_of
from draftscope.prompts import collecting
from draftscope.strict import Flag, Integer, Name, Number, Strict, load_yaml, nearest, validate

NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._+-]*$")


class Pair(Strict):
    target: Name
    draft: Name
    draft_group: Name = Field(description="drafts of one group share one pass of the target")
    allow_special_differences: Flag = Field(
        default=False, description="special tokens may differ; the draft's are masked and counted"
    )
    drafting: Literal["argmax", "sampled"] | None = Field(
        default=None,
        description="of a block drafter: argmax tokens, tested against the target's own sample, "
        "or drawn ones; left out: argmax",
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
    if len(line) > 1 and models[line[-1]]["kind"] in TEXT_DRAFTS:
        raise UserError(f"model {name!r} is derived from {line[-1]!r}, which has no weights")
    for made, base in itertools.pairwise(line):
        if models[base]["kind"] == "llama_cpp":
            raise UserError(
                f"model {made!r} is derived from {base!r}, which llama.cpp runs; derive it from "
                f"{models[base]['base']!r}"
            )
        if "gptq" in (models[base]["kind"], models[base].get("quantization")):
            raise UserError(
                f"model {made!r} is derived from {base!r}, whose weights are quantized already; "
                "derive it from the model that was quantized"
            )
        if models[made]["kind"] == "gptq" and "base" in models[base]:
            raise UserError(
                f"model {made!r} is quantized from {base!r}, which is itself a copy; quantize "
                f"{models[base]['base']!r}"
            )


def _check_teacher(name: str, models: dict[str, dict[str, Any]]) -> None:
    """A trained draft learns from a model that shows its distributions, and not from itself."""
    teacher = teacher_of(models[name])
    if teacher is None:
        return
    if models[teacher]["kind"] in (*TEXT_DRAFTS, *BLOCK_DRAFTS, "llama_cpp"):
        raise UserError(
            f"model {name!r} cannot learn from {teacher!r} of kind {models[teacher]['kind']}, "
            "which shows no distributions to train on; name a model of transformers"
        )
    seen, queue = set(), [teacher]
    while queue:
        other = queue.pop()
        if other == name:
            raise UserError(f"model {name!r} would learn from {teacher!r}, which is made from it")
        if other not in seen:
            seen.add(other)
            queue += _made_of(models[other])


def _made_of(model: Mapping[str, Any]) -> list[str]:
    """The models that one is derived from or trained on, next in line."""
    return [name for name in (model.get("base"), teacher_of(model)) if name is not None]


def models_of(pairs: dict[str, dict], rows: dict[str, dict]) -> dict[str, dict[str, Any]]:
    """Every model that the pairs need, and those that they are made from or trained on."""
    models: dict[str, dict[str, Any]] = {}
    wanted = [name for pair in pairs.values() for name in (pair["target"], pair["draft"])]
    while wanted:
        name = wanted.pop(0)
        if name in models:
            continue
        models[name] = _row(rows, name, "models", "model")
        wanted += _made_of(models[name])
    for name in models:
        _check_ancestry(name, models)
        _check_teacher(name, models)
        block_pairs.check_model(name, models)
        models[name] = block_pairs.completed(name, models)
    same: dict[tuple[str | None, ...], str] = {}
    for name, pair in pairs.items():
        key = (pair["target"], pair["draft"], pair.get("drafting"))
        first = same.setdefault(key, name)
        if first != name:
            raise UserError(f"pairs {first!r} and {name!r} are the same target and draft")
        if (kind := models[pair["target"]]["kind"]) in TEXT_DRAFTS:
            raise UserError(f"pair {name!r}: {TEXT_DRAFTS[kind]} can be a draft, not a target")
        block_pairs.check_pair(name, pair, models)
    return models


def require_imports(
    where: str, name: str, mode: Mapping[str, Any], domains: Iterable[str], advice: str = ""
) -> None:
    """Refuse a mode that imports its text, but not that of each of the domains.

    Args:
        where: what the message begins with; empty for the experiment's own modes.
        advice: what to do instead, behind the message.

    Raises:
        UserError: a domain without a file, or a file that is not there.
    """
    if mode["imported"] is None:
        return
    for domain in domains:
        file = mode["imported"].get(domain)
        if file is None:
            known = ", ".join(mode["imported"])
            raise UserError(
                f"{where}mode {name!r} imports no file for domain {domain!r}; it has: {known}{advice}"
            )
        if not Path(file).is_file():
            raise UserError(f"{where}mode {name!r} imports {file}, which does not exist{advice}")


def refuse_llama_cpp(
    pairs: dict[str, dict], models: dict[str, dict[str, Any]], roles: tuple[str, ...], work: str
) -> None:
    """llama.cpp decodes live, one text at a time; other work takes a model of transformers.

    Raises:
        UserError: names a pair whose `roles` ("target", "draft") llama.cpp would have to do `work`.
    """
    for name, pair in pairs.items():
        for role in roles:
            if models[pair[role]]["kind"] == "llama_cpp":
                raise UserError(
                    f"pair {name!r}: llama.cpp runs its {role} {pair[role]!r} and cannot {work} "
                    "here; it decodes one text at a time, under lossless.configurations"
                )


def calibration_domains(
    models: dict[str, dict[str, Any]],
    rows: dict[str, dict],
    evaluated: Mapping[str, Mapping[str, Any]],
) -> dict[str, dict[str, Any]]:
    """The domains whose training prompts models are quantized on, with enough prompts each.

    Args:
        models: as `models_of` returns them.
        rows, evaluated: the registry of domains, and those of them that are measured.

    Raises:
        UserError: an unknown domain, one with fewer training prompts than are asked for, or one
            whose training prompts are evaluation prompts of a domain with the same source.
    """
    found: dict[str, dict[str, Any]] = {}
    for name, model in models.items():
        if model["kind"] == "gptq":
            calibration = Calibration.model_validate(model["calibration"])
            shares = {domain: calibration.share(domain) for domain in calibration.domains}
            found |= _made_from(name, "calibration", "quantized", shares, rows, evaluated)
    return found


def training_domains(
    models: dict[str, dict[str, Any]],
    rows: dict[str, dict],
    evaluated: Mapping[str, Mapping[str, Any]],
) -> dict[str, dict[str, Any]]:
    """The domains on whose training prompts drafts are trained; as `calibration_domains`."""
    found: dict[str, dict[str, Any]] = {}
    for name, model in models.items():
        if "train" in model:
            shares = {each["name"]: each["prompts"] for each in model["train"]["domains"]}
            found |= _made_from(name, "training", "trained", shares, rows, evaluated)
    return found


def _made_from(
    name: str,
    use: str,
    made: str,
    shares: Mapping[str, int],
    rows: dict[str, dict],
    evaluated: Mapping[str, Mapping[str, Any]],
) -> dict[str, dict[str, Any]]:
    """The domains that a model is made from, with so many training prompts each, none measured."""
    found = select(rows, list(shares), "domains", f"{use} domain of {name!r}:")
    for domain, share in shares.items():
        row = {"domain": domain, **found[domain], "split": "training"}
        try:
            collecting.check(row, share)
        except UserError as error:
            raise UserError(f"model {name!r}: {error}") from None
        for other, measured in evaluated.items():
            if collecting.shares_prompts(found[domain], measured):
                raise UserError(
                    f"model {name!r} would be {made} on prompts it is measured on: training "
                    f"rows {found[domain]['training']} of domain {domain!r} are evaluation rows "
                    f"{measured['evaluation']} of domain {other!r}, which has the same source"
                )
    return found
