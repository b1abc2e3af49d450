"""Rows of the registry of domains: what each source of prompts must and may be told."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from draftscope.strict import Flag, Integer, Strict

Row = Annotated[Integer, Field(ge=0)]
Text = Annotated[str, Field(min_length=1)]


class Template(Strict):
    """Arguments of the chat template; every further key is an argument of the model's own."""

    model_config = Strict.model_config | {"extra": "allow"}
    chat_template: Flag = True

    @model_validator(mode="after")
    def _raw_text_takes_no_arguments(self) -> Template:
        if not self.chat_template and self.model_extra:
            names = ", ".join(self.model_extra)
            raise ValueError(f"template: raw text (chat_template false) takes no argument: {names}")
        return self


class Domain(Strict):
    evaluation: Annotated[list[Row], Field(min_length=2, max_length=2)] = Field(
        description="[first, past the last] row of the source that experiments measure"
    )
    training: Annotated[list[Row], Field(min_length=2, max_length=2)] | None = Field(
        default=None, description="rows that drafts may be trained on"
    )
    instruction: Text | None = Field(default=None, description="text with {problem} in it")
    system: Text | None = Field(default=None, description="system message before the prompt")
    language: Text | None = Field(default=None, description="BCP 47 tag of the prompts")
    checker: Literal["reasoning_gym", "human_eval", "math"] | None = Field(
        default=None, description="what could score an answer"
    )
    template: Template = Field(default=Template(), description="arguments of the chat template")
    description: str | None = None

    @field_validator("instruction")
    @classmethod
    def _instruction_holds_the_problem(cls, value: str | None) -> str | None:
        if value is not None and "{problem}" not in value:
            raise ValueError("instruction lacks {problem}, where the item goes")
        return value


class ReasoningGym(Domain):
    source: Literal["reasoning_gym"]
    tasks: list[Text] = Field(min_length=1, description="names of its tasks, taken in turn")
    seed: Row = Field(description="starts the problems")
    options: dict[str, dict[str, Any]] | None = Field(
        default=None, description="by task: parameters"
    )

    @model_validator(mode="after")
    def _options_are_for_its_tasks(self) -> ReasoningGym:
        foreign = sorted(set(self.options or {}) - set(self.tasks))
        if foreign:
            raise ValueError(f"options for {foreign[0]!r}, which is not among its tasks")
        return self


class HumanEval(Domain):
    source: Literal["human_eval"]

    @model_validator(mode="after")
    def _there_are_164(self) -> HumanEval:
        for name in ("evaluation", "training"):
            value = getattr(self, name)
            if value and value[1] > 164:
                raise ValueError(f"{name} {value} reaches beyond the 164 problems")
        return self


class JsonLines(Domain):
    source: Literal["jsonl"]
    file: Text = Field(description="one JSON object a line: id, text, language, answer")


class HubData(Domain):
    source: Literal["hub"]
    repository: Annotated[str, Field(pattern=r"^[\w.-]+/[\w.-]+$")]
    revision: Text
    file: Text = Field(description="JSON Lines or Parquet inside the repository")
    text_field: Text
    answer_field: Text | None = None
    answer_pattern: str | None = Field(default=None, description="its first group is the answer")

    @field_validator("answer_pattern")
    @classmethod
    def _pattern_has_a_group(cls, value: str | None) -> str | None:
        try:
            groups = re.compile(value).groups if value is not None else 1
        except re.error as error:
            raise ValueError(f"not a regular expression: {error}") from None
        if not groups:
            raise ValueError("answer_pattern has no group")
        return value


SOURCES: dict[str, type[Domain]] = {
    "reasoning_gym": ReasoningGym,
    "human_eval": HumanEval,
    "jsonl": JsonLines,
    "hub": HubData,
}
