"""The lists of token types, as an experiment gives them."""

from __future__ import annotations

from pydantic import Field, model_validator

from draftscope.errors import UserError
from draftscope.strict import Strict
from draftscope.tokens.lists import Lists


class Tokens(Strict):
    published_triggers: list[str] = Field(
        description="words that turn the reasoning around, named by the published study"
    )
    further_triggers: list[str] = Field(description="words and phrases of our own beside them")
    operators: str = Field(
        description="signs that are operators beside those that Unicode calls mathematical"
    )
    operators_between: str = Field(description="signs that are operators only between operands")
    operator_commands: list[str] = Field(description="LaTeX commands that are operators")

    @model_validator(mode="after")
    def _can_be_used(self) -> Tokens:
        try:
            Lists.of(self.model_dump())
        except UserError as error:
            raise ValueError(str(error)) from None
        return self
