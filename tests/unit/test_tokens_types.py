"""Which characters a token covers, and what type that gives it, for several kinds of tokenizer."""

from pathlib import Path

import numpy as np
import pytest
from draftscope.tokens.names import CODE, NAMES, NO_TRIGGER
from draftscope.tokens.pieces import Pieces, same_text
from draftscope.tokens.regions import FORMULA, PROGRAM, PROSE
from draftscope.tokens.typist import Typist
from token_lists import LISTS, TEXTS, byte_level, sentencepiece, word_pieces
from transformers import PreTrainedTokenizerFast

SMOLLM2 = Path(__file__).parents[2] / "results/laptop/models/smollm2-135m/weights/tokenizer.json"


@pytest.fixture(scope="module")
def tokenizers():
    return {"byte_level": byte_level(), "sentencepiece": sentencepiece(), "other": word_pieces()}


@pytest.fixture(scope="module")
def typists(tokenizers):
    return {kind: Typist(each, LISTS) for kind, each in tokenizers.items()}


KINDS = ["byte_level", "sentencepiece", "other"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_kind_is_told_from_the_tokenizer(tokenizers, kind):
    assert Pieces(tokenizers[kind]).kind == kind


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", TEXTS)
def test_spans_cover_the_whole_decode_in_order(tokenizers, kind, text):
    pieces = Pieces(tokenizers[kind])
    ids = tokenizers[kind].encode(text, add_special_tokens=False)
    spans = pieces.spans(ids)
    assert same_text(spans.text, pieces.decode(ids))
    assert (spans.start <= spans.stop).all() and (np.diff(spans.start) >= 0).all()
    covered = np.zeros(len(spans.text), dtype=bool)
    for start, stop in zip(spans.start, spans.stop, strict=True):
        covered[start:stop] = True
    assert covered.all()


@pytest.mark.parametrize("kind", ["byte_level", "sentencepiece"])
def test_any_ids_at_all_have_spans(tokenizers, kind):
    rng = np.random.default_rng(5)
    pieces = Pieces(tokenizers[kind])
    for _ in range(50):
        ids = rng.integers(0, len(tokenizers[kind]) + 3, size=30)
        spans = pieces.spans(ids)
        assert spans.line is not None, "read from the vocabulary, not in steps"
        assert len(spans.start) == 30 and spans.special[ids >= len(tokenizers[kind])].all()


def test_decoding_in_steps_gives_the_same_spans(tokenizers):
    """The slow way, for tokenizers of other kinds, on one whose spans are known."""
    fast, slow = (Pieces(tokenizers["byte_level"]) for _ in range(2))
    slow.kind = "other"
    for text in TEXTS:
        ids = tokenizers["byte_level"].encode(text, add_special_tokens=False)
        one, other = fast.spans(ids), slow.spans(ids)
        assert one.text == other.text
        assert one.partial.tolist() == other.partial.tolist()
        whole = ~one.partial
        assert (one.start == other.start)[whole].all() and (one.stop == other.stop)[whole].all()


@pytest.mark.parametrize("kind", ["byte_level", "sentencepiece"])
def test_case_6_a_character_split_over_two_tokens_is_partial(tokenizers, typists, kind):
    text = "x 🙃 世 y"
    tokenizer = tokenizers[kind]
    ids = tokenizer.encode(text, add_special_tokens=False)
    typed = typists[kind].sequence(ids)
    raw = [typists[kind].pieces.piece(id_) for id_ in ids]
    assert b"".join(raw).decode().strip() == text
    for piece, code in zip(raw, typed.type, strict=True):
        try:
            piece.decode()
            assert NAMES[code] != "partial_utf8"
        except UnicodeDecodeError:
            assert NAMES[code] == "partial_utf8"
    assert (typed.type == CODE["partial_utf8"]).sum() >= 5
    # A text that its budget cut inside a character: never punctuation, never a word.
    cut = ids[: int(np.flatnonzero(typed.type == CODE["partial_utf8"])[0]) + 1]
    assert NAMES[typists[kind].sequence(cut).type[-1]] == "partial_utf8"


def split(typist, text):
    """(characters, type, initial, trigger) of each token."""
    ids = typist.pieces.tokenizer.encode(text, add_special_tokens=False)
    typed = typist.sequence(ids)
    spans = typed.spans
    return [
        (spans.text[a:b], NAMES[kind], bool(first), int(trigger))
        for a, b, kind, first, trigger in zip(
            spans.start, spans.stop, typed.type, typed.initial, typed.trigger, strict=True
        )
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_a_word_of_several_tokens_has_one_type_and_one_beginning(typists, kind):
    word = "waited" if kind != "other" else "numbers"
    tokens = [each for each in split(typists[kind], f"They {word} long.")]
    inside = [each for each in tokens if each[0].strip() and each[0].strip("# ") in word]
    assert {each[1] for each in inside if each[0].strip()} == {"word"}
    assert sum(each[2] for each in inside) == 1
    assert all(each[3] == NO_TRIGGER for each in tokens)


@pytest.mark.parametrize("kind", ["byte_level", "sentencepiece"])
def test_a_trigger_of_several_tokens_counts_once(kind, tokenizers):
    typist = Typist(tokenizers[kind], LISTS)
    tokens = split(typist, "So actually, on the other hand it is 3.")
    for trigger in ("actually", "on the other hand"):
        number = LISTS.triggers.index(trigger)
        held = [each for each in tokens if each[3] == number]
        assert "".join(each[0] for each in held).strip() == trigger
        assert len(held) > 1 and {each[1] for each in held} == {"reflection"}
        assert sum(each[2] for each in held if each[0].strip()) == 1


def test_a_trigger_whose_characters_are_split_counts_at_its_first_byte(typists):
    typist = typists["byte_level"]
    by_piece = {typist.pieces.piece(id_): id_ for id_ in range(420)}
    ids = [by_piece[bytes([byte])] for byte in "一等等。".encode()]
    typed = typist.sequence(ids)
    assert {NAMES[kind] for kind in typed.type} == {"partial_utf8"}
    number = LISTS.triggers.index("等等")
    assert typed.trigger.tolist() == [NO_TRIGGER] * 3 + [number] * 6 + [NO_TRIGGER] * 3
    assert typed.initial.tolist() == [True, False, False] + [True] + [False] * 5 + [
        True,
        False,
        False,
    ]


def test_a_piece_of_a_longer_word_is_no_trigger(typists):
    tokenizer = typists["byte_level"].pieces.tokenizer
    ids = [*tokenizer.encode(" check", add_special_tokens=False)]
    ids += tokenizer.encode("mate", add_special_tokens=False)
    typed = typists["byte_level"].sequence(ids)
    assert {NAMES[kind] for kind in typed.type} == {"word"}
    alone = typists["byte_level"].sequence(ids[:1] if len(ids) == 2 else ids[:-4])
    assert CODE["reflection"] in alone.type or len(ids) > 2


def test_special_tokens_and_tags_part_the_text(typists):
    tokenizer = typists["byte_level"].pieces.tokenizer
    tag, end = tokenizer.convert_tokens_to_ids(["<think>", "</s>"])
    wait = tokenizer.encode("wait", add_special_tokens=False)
    ids = [tag, *wait, end, *tokenizer.encode("ing", add_special_tokens=False)]
    typed = typists["byte_level"].sequence(ids)
    names = [NAMES[kind] for kind in typed.type]
    assert names[0] == "special" and names[1 + len(wait)] == "special"
    assert set(names[1 : 1 + len(wait)]) == {"reflection"}
    assert set(names[2 + len(wait) :]) == {"word"}


FUNCTION = 'def count(numbers):\n    """How many there are."""\n'
GOES_ON = [
    # prompt, text, part, its type, and that without the prompt
    (FUNCTION, "    check = 0\n    return check\n\nWait, it does.", "check", "code", "reflection"),
    (
        FUNCTION,
        "    check = 0\n    return check\n\nWait, it does.",
        "Wait",
        "reflection",
        "reflection",
    ),
    ("The value of $x", " + y$ is", "y", "latex", "word"),
    ("no check", "mate here", "mate", "word", "word"),
    ("let", " me see", "me", "reflection", "word"),
    (FUNCTION + "</s>", "    check = 0", "check", "reflection", "reflection"),
    ("", "wait", "wait", "reflection", "reflection"),
]


@pytest.mark.parametrize(("prompt", "text", "part", "kind", "alone"), GOES_ON)
@pytest.mark.parametrize("tokenizer", ["byte_level", "sentencepiece"])
def test_a_text_goes_on_from_its_prompt(typists, tokenizer, prompt, text, part, kind, alone):
    typist = typists[tokenizer]
    encoded = [typist.pieces.tokenizer.encode(each, add_special_tokens=False) for each in (prompt, text)]  # fmt: skip
    for before, expected in ((encoded[0], kind), ([], alone)):
        typed = typist.sequence(encoded[1], before)
        spans = typed.spans
        assert len(typed.type) == len(spans.start) == len(spans.offset) - 1 == len(encoded[1])
        place = spans.text.rindex(part)
        held = (spans.start < place + len(part)) & (spans.stop > place)
        assert held.any() and {NAMES[each] for each in typed.type[held]} == {expected}


def test_an_empty_text_and_ids_without_text(typists):
    for typist in typists.values():
        assert len(typist.sequence([]).type) == 0
        size = len(typist.pieces.tokenizer)
        typed = typist.sequence([size + 5, size + 7])
        assert [NAMES[kind] for kind in typed.type] == ["special", "special"]


@pytest.mark.parametrize("kind", ["byte_level", "sentencepiece"])
def test_an_alternative_is_typed_where_it_would_have_stood(typists, kind):
    typist = typists[kind]
    tokenizer = typist.pieces.tokenizer
    ids = tokenizer.encode("It is 12 wait", add_special_tokens=False)
    typed = typist.sequence(ids)
    place = int(np.flatnonzero(typed.trigger != NO_TRIGGER)[0])
    region = int(typed.region[place])
    other = {
        name: tokenizer.encode(text, add_special_tokens=False)
        for name, text in {"number": "3", "word": "so", "punctuation": ",", "operator": "="}.items()
    }
    for name, encoded in other.items():
        found = typist.alternative(ids, place, encoded[-1], region)
        expected = "word" if name == "word" else name
        assert NAMES[found.type] == expected, (name, found)
    assert NAMES[typist.alternative(ids, place, len(tokenizer) + 2, region).type] == "special"


def test_an_alternative_is_typed_in_the_region_of_the_token(typists):
    typist = typists["byte_level"]
    tokenizer = typist.pieces.tokenizer
    ids = tokenizer.encode("so x", add_special_tokens=False)
    other = tokenizer.encode("y", add_special_tokens=False)[-1]
    for region, kind in ((PROSE, "word"), (FORMULA, "latex"), (PROGRAM, "code")):
        assert NAMES[typist.alternative(ids, len(ids) - 1, other, region).type] == kind
    text = "so $x$ or `y` then"
    encoded = tokenizer.encode(text, add_special_tokens=False)
    typed = typist.sequence(encoded)
    for part, region in (("x", FORMULA), ("y", PROGRAM), ("or", PROSE)):
        place = text.index(part)
        held = (typed.spans.start <= place) & (typed.spans.stop > place)
        assert set(typed.region[held]) == {region}


def test_an_alternative_goes_on_with_the_word_before_it(typists):
    """The end of "check" makes a trigger, and that of another word does not."""
    typist = typists["byte_level"]
    tokenizer = typist.pieces.tokenizer
    letters = [tokenizer.convert_tokens_to_ids(letter) for letter in "ait"]
    begun = [tokenizer.convert_tokens_to_ids("w"), *letters[:2]]
    found = typist.alternative([*begun, 0], 3, letters[2], PROSE)
    assert (NAMES[found.type], found.text) == ("reflection", "t")
    other = typist.alternative([letters[0], *begun, 0], 4, letters[2], PROSE)
    assert NAMES[other.type] == "word"


def test_an_alternative_that_ends_a_character_begun_before_it(typists):
    typist = typists["byte_level"]
    tokenizer = typist.pieces.tokenizer
    by_piece = {typist.pieces.piece(id_): id_ for id_ in range(len(tokenizer))}
    ids = [by_piece[bytes([byte])] for byte in "世".encode()]
    typed = typist.sequence(ids)
    assert {NAMES[kind] for kind in typed.type} == {"partial_utf8"}
    found = typist.alternative(ids, 2, ids[2], PROSE)
    assert NAMES[found.type] == "partial_utf8"  # it is a part of one, whatever it completes
    letter = tokenizer.encode("a", add_special_tokens=False)[0]
    assert NAMES[typist.alternative(ids, 2, letter, PROSE).type] in ("word", "partial_utf8")


@pytest.mark.skipif(not SMOLLM2.exists(), reason="needs the model that `make demo` fetches")
def test_the_laptop_model_on_mathematics_code_and_chinese():
    typist = Typist(PreTrainedTokenizerFast(tokenizer_file=str(SMOLLM2)), LISTS)
    for text, expected in {
        "However, $\\frac{3}{4} + 2 = 2.75$, so check it.": {
            "However": "reflection", "3": "number", "frac": "latex", "+": "operator",
            "check": "reflection", "so": "word",
        },
        "```python\nfor check in range(10):\n    total += check\n```\n": {
            "check": "code", "10": "number", "range": "code",
        },
        "等等，三加四等于７。": {"，": "punctuation", "７": "number"},
    }.items():  # fmt: skip
        typed = typist.sequence(typist.pieces.tokenizer.encode(text, add_special_tokens=False))
        spans = typed.spans
        assert spans.text == text
        for part, name in expected.items():
            place = text.index(part)
            held = (spans.start <= place) & (spans.stop > place) & ~spans.partial
            assert {NAMES[kind] for kind in typed.type[held]} <= {name}, part
