"""Vocabularies are compared by content, whatever the widths of the heads."""

import pytest
from draftscope import models
from draftscope.errors import UserError
from draftscope.models import vocabulary
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny import tiny_model_folder, tiny_tokenizer


def load(folder, name="m", **options):
    path = tiny_model_folder(folder / "files", **options)
    return models.load(models.resolve(name, {"kind": "local", "path": str(path)}, folder), "cpu")


@pytest.mark.parametrize(("target_head", "draft_head"), [(384, 336), (336, 384), (None, 384)])
def test_case_1_padded_heads_of_one_tokenizer_align(tmp_path, target_head, draft_head):
    target = load(tmp_path / "t", "t", padded_head=target_head)
    draft = load(tmp_path / "d", "d", padded_head=draft_head, seed=1)
    found = vocabulary.align(target, draft)
    wide, narrow = target_head or 320, draft_head
    assert (found.target_head, found.draft_head, found.union_size) == (
        *(wide, narrow),
        max(wide, narrow),
    )
    assert found.vocabulary_size == found.common_size == 320
    assert found.masked_ids == () and found.differing == ()
    assert found.unemittable_ids == tuple(range(narrow, wide))


def test_case_2_equal_sizes_do_not_make_equal_vocabularies(tmp_path):
    target = load(tmp_path / "t", "t")
    draft = load(tmp_path / "d", "d", tokenizer=tiny_tokenizer(swap=(40, 41)))
    assert target.model.config.vocab_size == draft.model.config.vocab_size
    with pytest.raises(UserError, match="id 40"):
        vocabulary.align(target, draft)


def test_case_2_different_sizes_may_be_the_same_vocabulary(tmp_path):
    target, draft = load(tmp_path / "t", padded_head=512), load(tmp_path / "d")
    assert target.model.config.vocab_size != draft.model.config.vocab_size
    assert vocabulary.align(target, draft).differing == ()


def test_case_4_a_draft_id_outside_the_target_stays_in_the_union(tmp_path):
    target, draft = load(tmp_path / "t"), load(tmp_path / "d", padded_head=384)
    found = vocabulary.align(target, draft)
    assert found.union_size == 384  # p is padded with zeros there, so the id is rejected
    assert found.masked_ids == () and found.unemittable_ids == ()


@pytest.mark.parametrize("allow", [False, True])
def test_case_5_differing_ordinary_tokens_are_refused_with_both_strings(tmp_path, allow):
    target = load(tmp_path / "t", "big")
    draft = load(tmp_path / "d", "small", tokenizer=tiny_tokenizer(swap=(300, 310)))
    first, second = target.tokenizer.convert_ids_to_tokens([300, 310])
    with pytest.raises(UserError) as caught:
        vocabulary.align(target, draft, allow_special=allow)
    message = str(caught.value)
    for part in ("big", "small", "id 300", repr(first), repr(second)):
        assert part in message


def test_case_5_ordinary_tokens_that_one_side_lacks_are_refused(tmp_path):
    target, draft = load(tmp_path / "t"), load(tmp_path / "d", vocabulary_size=321)
    with pytest.raises(UserError, match=r"id 320 is None for the target"):
        vocabulary.align(target, draft, allow_special=True)
    with pytest.raises(UserError, match=r"id 320 is .* for the target and None for the draft"):
        vocabulary.align(draft, target, allow_special=True)


def test_differing_special_tokens_need_permission_and_are_masked(tmp_path):
    target = load(tmp_path / "t", "t", tokenizer=tiny_tokenizer(specials=("<s>", "</s>", "<User>")))
    draft = load(tmp_path / "d", "d", padded_head=336)
    with pytest.raises(UserError, match=r"1 special tokens, first at id 2: '<User>'.*'<pad>'"):
        vocabulary.align(target, draft)
    found = vocabulary.align(target, draft, allow_special=True)
    assert found.differing == ((2, "<User>", "<pad>"),)
    assert found.masked_ids == found.unemittable_ids == (2,)


def test_special_tokens_that_one_side_lacks_are_allowed(tmp_path):
    longer = tiny_tokenizer()
    longer.add_tokens(["<think>"], special_tokens=True)
    target = load(tmp_path / "t", "t", tokenizer=longer, padded_head=384)
    draft = load(tmp_path / "d", "d", padded_head=384)
    found = vocabulary.align(target, draft, allow_special=True)
    assert found.differing == ((320, "<think>", None),)
    assert found.masked_ids == ()  # padding to the draft: nothing it could mean by the id
    back = vocabulary.align(draft, target, allow_special=True)
    assert back.masked_ids == (320,) and back.common_size == 320


def test_prompt_lookup_aligns_with_every_target(tmp_path):
    target = load(tmp_path / "t", padded_head=384)
    settings = {"kind": "prompt_lookup", "max_ngram": 3, "min_ngram": 1}
    lookup = models.load(models.resolve("lookup", settings, tmp_path / "l"))
    found = vocabulary.align(target, lookup)
    assert (found.union_size, found.masked_ids, found.unemittable_ids) == (384, (), ())


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return load(tmp_path_factory.mktemp("plain"))


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.integers(3, 319), min_size=2, max_size=2, unique=True))
def test_any_swap_of_ordinary_tokens_is_found_at_its_lower_id(plain, tmp_path_factory, swap):
    from dataclasses import replace

    from draftscope.models.loaded import tokenizer_sha256

    tokenizer = tiny_tokenizer(swap=tuple(swap))
    draft = replace(plain, tokenizer=tokenizer, tokenizer_sha256=tokenizer_sha256(tokenizer))
    with pytest.raises(UserError, match=f"id {min(swap)} "):
        vocabulary.align(plain, draft)
