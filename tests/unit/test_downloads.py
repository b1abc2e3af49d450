"""Addresses on the model hub: those of the wrong form are refused before the hub is asked."""

import pytest
from draftscope import models, prompts
from draftscope.errors import UserError

MODEL = {"kind": "hub", "id": "someone/model", "revision": "main"}
DOMAIN = {
    "domain": "gsm",
    "source": "hub",
    "repository": "someone/data",
    "revision": "main",
    "file": "main/test.parquet",
    "text_field": "question",
    "evaluation": [0, 3],
}


@pytest.fixture(autouse=True)
def offline(tmp_path, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "empty"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"id": "a b/c/d"}, r"model m: 'a b/c/d' is not .* owner/name"),
        ({"id": "owner/"}, r"'owner/' is not .* owner/name"),
        ({"id": 5}, r"5 is not .* owner/name"),
        ({"revision": "no such"}, r"'no such' is not a revision of someone/model"),
        ({"revision": "a..b"}, r"'a\.\.b' is not a revision"),
        ({"revision": ""}, r"'' is not a revision"),
        ({"revision": 1234567}, r"1234567 is not a revision .*in quotes"),
    ],
)
def test_a_model_of_the_wrong_form_is_named_in_one_line(tmp_path, changes, named):
    with pytest.raises(UserError, match=named) as caught:
        models.resolve("m", MODEL | changes, tmp_path / "record")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"repository": "a b/c/d"}, r"'a b/c/d'.*owner/name"),
        ({"repository": "https://somewhere/someone/data"}, r"'https.*owner/name"),
        ({"revision": "no such"}, r"'no such' is not a revision of someone/data"),
        ({"revision": "/main"}, r"'/main' is not a revision of someone/data"),
    ],
)
def test_a_data_set_of_the_wrong_form_is_named_in_one_line(changes, named):
    with pytest.raises(UserError, match=f"gsm: {named}") as caught:
        prompts.collect(DOMAIN | changes, 0, 1)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("revision", ["v1.0", "refs/pr/1", "e" * 40, "feature/a-b_c", "main"])
def test_addresses_of_the_right_form_reach_the_hub(tmp_path, revision):
    with pytest.raises(UserError, match="HF_ENDPOINT"):
        models.resolve("m", MODEL | {"revision": revision}, tmp_path / "record")
    with pytest.raises(UserError, match="HF_ENDPOINT"):
        prompts.collect(DOMAIN | {"revision": revision}, 0, 1)
