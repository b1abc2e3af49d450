"""Render a prompt for a model: chat template or raw text, and exactly one token that begins it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from draftscope.errors import UserError

if TYPE_CHECKING:
    from draftscope.models.loaded import LoadedModel


@dataclass(frozen=True)
class Rendered:
    """A prompt as one model reads it: its ids, its text, and the SHA-256 of the text."""

    token_ids: list[int]
    text: str
    sha256: str


def render(loaded: LoadedModel, row: Mapping[str, Any], template: Mapping[str, Any]) -> Rendered:
    """Render one row of schema prompts.

    The text begins with exactly one beginning-of-text token where the tokenizer has such a
    token, whoever would write it (template, tokenizer, both or neither), and with none where it
    has none. A prompt without text, or of white space alone, asks nothing whatever a template puts
    around it: it renders to no ids.

    Args:
        template: `chat_template` true applies the tokenizer's template to the messages, false
            takes the raw text; every further key is an argument of the template, such as
            `enable_thinking`.

    Raises:
        UserError: no chat template, or an argument the template does not know.
    """
    tokenizer = loaded.tokenizer
    text = _apply_template(loaded, row, template)
    if not row["text"].strip():
        return Rendered([], "", hashlib.sha256(b"").hexdigest())
    bos = tokenizer.bos_token if loaded.bos_id is not None else None
    if bos:
        while text.startswith(bos):
            text = text[len(bos) :]
        text = bos + text
    token_ids = list(tokenizer(text, add_special_tokens=False)["input_ids"])
    leading = 0
    while leading < len(token_ids) and token_ids[leading] == loaded.bos_id:
        leading += 1
    if leading != bool(bos):
        raise RuntimeError(
            f"prompt {row['prompt_id']} begins with {leading} beginning-of-text tokens of "
            f"{loaded.name}, expected {int(bool(bos))}"
        )
    return Rendered(token_ids, text, hashlib.sha256(text.encode()).hexdigest())


def _apply_template(
    loaded: LoadedModel, row: Mapping[str, Any], template: Mapping[str, Any]
) -> str:
    arguments = dict(template)
    if not arguments.pop("chat_template", True):
        if arguments:
            raise UserError(
                f"template arguments {', '.join(arguments)} have no effect with "
                "chat_template: false; remove them"
            )
        return row["text"]
    tokenizer = loaded.tokenizer
    if tokenizer.chat_template is None:
        raise UserError(
            f"the tokenizer of model {loaded.name} has no chat template; set chat_template: false "
            "for the domain"
        )
    source = tokenizer.get_chat_template()
    for key in arguments:  # a template ignores what it does not know, a misspelt name too
        if not re.search(rf"\b{re.escape(key)}\b", source):
            raise UserError(
                f"the chat template of model {loaded.name} has no argument {key!r}; remove it from "
                "the domain's template, or correct its spelling"
            )
    return tokenizer.apply_chat_template(
        json.loads(row["messages_json"]), tokenize=False, add_generation_prompt=True, **arguments
    )
