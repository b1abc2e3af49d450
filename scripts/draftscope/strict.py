"""Strict settings: unknown keys refused with the nearest known one, text coerced only by type."""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
)

from draftscope.errors import UserError


def _number_from_text(value: Any) -> Any:
    """`--config key=5` arrives as text: read it as YAML, and leave it alone if that is no number."""
    if isinstance(value, str) and not _OCTAL.match(value):
        try:
            parsed = yaml.safe_load(value)
        except yaml.YAMLError:
            return value
        if isinstance(parsed, bool | int | float):
            return parsed
    return value


_OCTAL = re.compile(r"^\s*[-+]?0\d")  # YAML reads 012 as 10


Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$")]
"""A name that is also one field of a path: letters, digits and . _ + - after the first."""
Integer = Annotated[int, BeforeValidator(_number_from_text)]
Number = Annotated[float, BeforeValidator(_number_from_text), Field(allow_inf_nan=False)]
Flag = Annotated[bool, BeforeValidator(_number_from_text)]


class Strict(BaseModel):
    """A block of settings: no unknown key, no silent conversion, no change after loading."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


Model = TypeVar("Model", bound=BaseModel)


def validate(model: type[Model], value: Any, where: str) -> Model:
    """Check `value` against a settings model.

    Raises:
        UserError: one line naming the place, what is wrong, and the nearest known key.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise UserError(f"{where}: {_first_problem(error, model)}") from None


def _first_problem(error: ValidationError, model: type[BaseModel]) -> str:
    problems = error.errors(include_url=False)
    problem = next((p for p in problems if p["type"] == "extra_forbidden"), problems[0])
    # A union's location names the alternative that was tried; the user wrote no such key.
    location = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        known = _known_keys(model, problem["loc"][:-1])
        return f"unknown key {location!r}{nearest(str(problem['loc'][-1]), known)}"
    if problem["type"] == "missing":
        return f"key {location!r} is missing"
    message = problem["msg"].removeprefix("Value error, ")
    shown = repr(problem["input"])
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    if problem["type"] == "string_pattern_mismatch":
        message = "a name holds letters, digits and . _ + - only, so that it can be part of a path"
    if not problem["loc"]:  # a check of the whole block names what it is about itself
        return message
    return f"{location} is {shown}: {message}"


def _known_keys(model: Any, location: tuple) -> list[str]:
    """The field names of the block that a location inside `model` points at."""
    for part in location:
        if isinstance(part, int):
            continue
        fields = getattr(model, "model_fields", {})
        if part in fields:
            model = fields[part].annotation
            model = _block_inside(model)
    return list(getattr(model, "model_fields", {}))


def _block_inside(annotation: Any) -> Any:
    """The settings model inside list[...], dict[...], ... | None."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in getattr(annotation, "__args__", ()):
        found = _block_inside(argument)
        if found is not None:
            return found
    return None


def nearest(name: str, known: list[str]) -> str:
    """A tail for an error message: the nearest known name, or all of them."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; known: {', '.join(sorted(known))}" if known else ""


class _NoDuplicates(yaml.SafeLoader):
    """YAML that refuses a key written twice in one mapping, which plain YAML drops silently."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        seen = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":  # <<: *name; own keys stand above it
                continue
            key = self.construct_object(key_node, deep=True)
            line = key_node.start_mark.line + 1
            if not isinstance(key, str | int | float):
                raise UserError(f"{self.name} line {line}: {key!r} cannot be a key")
            if key in seen:
                raise UserError(f"{self.name}: {key!r} stands twice, again in line {line}")
            seen.add(key)
        return super().construct_mapping(node, deep)


def load_yaml(path: Path) -> Any:
    """Read a YAML file.

    Raises:
        UserError: no such file, not YAML, or a key that stands twice.
    """
    if not path.is_file():
        raise UserError(f"{path} does not exist")
    loader = _NoDuplicates(path.read_text(encoding="utf-8"))
    loader.name = str(path)
    try:
        return loader.get_single_data()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}" if mark else ""
        raise UserError(f"{path}{line}: not valid YAML ({getattr(error, 'problem', '')})") from None
    finally:
        loader.dispose()
