"""Rendering: one token that begins the text, template arguments, hashes."""

import hashlib
import json
from dataclasses import replace

import pytest
from draftscope import models
from draftscope.errors import UserError
from draftscope.prompts import render
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny import BOS, tiny_model_folder, tiny_tokenizer

WRITERS = ("template", "tokenizer", "both", "neither", "none")
CHAT = {"chat_template": True}
RAW = {"chat_template": False}


def row(text, **messages):
    chat = [{"role": "user", "content": text}]
    return {"prompt_id": "p-000001", "text": text, "messages_json": json.dumps(chat)}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rendering")
    path = tiny_model_folder(folder / "files")
    return models.load(models.resolve("tiny", {"kind": "local", "path": str(path)}, folder), "cpu")


def with_tokenizer(tiny, bos):
    tokenizer = tiny_tokenizer(bos="both" if bos == "neither" else bos)
    if bos == "neither":  # has the token, and nobody writes it
        tokenizer = tiny_tokenizer(bos="template")
        tokenizer.chat_template = tokenizer.chat_template.replace("{{ bos_token }}", "")
    return replace(tiny, tokenizer=tokenizer, bos_id=tokenizer.bos_token_id)


@pytest.mark.parametrize("template", [CHAT, RAW], ids=["chat", "raw"])
@pytest.mark.parametrize("bos", WRITERS)
@pytest.mark.parametrize("text", ["hello", " x", BOS + "hello", BOS + BOS])
def test_case_9_exactly_one_beginning_of_text(tiny, bos, template, text):
    loaded = with_tokenizer(tiny, bos)
    if bos == "none":
        assert loaded.bos_id is None
        found = render(loaded, row(text.replace(BOS, "")), template)
        assert 0 not in found.token_ids and BOS not in found.text
    else:
        found = render(loaded, row(text), template)
        assert found.token_ids[0] == 0
        assert found.token_ids[1:2] != [0]
        assert found.text.startswith(BOS) and not found.text.startswith(BOS + BOS)


def test_case_9_every_writer_gives_the_same_ids(tiny):
    every = [render(with_tokenizer(tiny, bos), row("the same"), CHAT) for bos in WRITERS[:4]]
    assert len({tuple(found.token_ids) for found in every}) == 1
    without = render(with_tokenizer(tiny, "none"), row("the same"), CHAT)
    assert without.token_ids == every[0].token_ids[1:]


def test_case_9_the_fault_is_there_to_be_caught(tiny):
    loaded = with_tokenizer(tiny, "both")
    text = loaded.tokenizer.apply_chat_template(
        [{"role": "user", "content": "x"}], tokenize=False, add_generation_prompt=True
    )
    assert loaded.tokenizer(text).input_ids[:2] == [0, 0]


@given(st.text(max_size=40))
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_rendering_any_text_keeps_it_and_never_fails(tiny, text):
    found = render(tiny, row(text), RAW)
    if not text.strip():
        assert (found.token_ids, found.text) == ([], "")
    else:
        assert found.token_ids[0] == 0 and 0 not in found.token_ids[1:] or BOS in text
    assert tiny.tokenizer.decode(found.token_ids) == found.text
    assert found.sha256 == hashlib.sha256(found.text.encode()).hexdigest()


@pytest.mark.parametrize("template", [CHAT, RAW], ids=["chat", "raw"])
@pytest.mark.parametrize("text", ["", " ", "\n\t\u2028"])
def test_case_20_a_prompt_without_text_has_no_ids_whatever_is_put_around_it(tiny, text, template):
    for bos in WRITERS:
        found = render(with_tokenizer(tiny, bos), row(text), template)
        assert (found.token_ids, found.text) == ([], "")
    assert len(render(tiny, row("x"), template).token_ids) > 1


def test_case_10_template_arguments_change_text_and_hash(tiny):
    rendered = [
        render(tiny, row("hi"), CHAT | arguments)
        for arguments in ({"enable_thinking": True}, {"enable_thinking": False}, {})
    ]
    assert len({found.sha256 for found in rendered}) == 3
    assert rendered[0].text.endswith("assistant: think")
    assert rendered[1].text.endswith("assistant: answer")
    assert rendered[2].text.endswith("assistant:")


def test_the_hash_is_that_of_the_rendered_text(tiny):
    first, again = render(tiny, row("hi"), CHAT), render(tiny, row("hi"), CHAT)
    assert first == again
    assert first.sha256 != render(tiny, row("hi"), RAW).sha256
    assert first.sha256 != render(tiny, row("hi "), CHAT).sha256


def test_a_misspelt_template_argument_is_named(tiny):
    with pytest.raises(UserError, match="'enable_thinkin'"):
        render(tiny, row("hi"), CHAT | {"enable_thinkin": False})
    with pytest.raises(UserError, match="enable_thinking have no effect"):
        render(tiny, row("hi"), RAW | {"enable_thinking": False})


def test_a_tokenizer_without_a_template_says_what_to_set(tiny):
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = None
    loaded = replace(tiny, tokenizer=tokenizer)
    with pytest.raises(UserError, match="chat_template: false"):
        render(loaded, row("hi"), CHAT)
    assert render(loaded, row("hi"), RAW).token_ids[0] == 0
