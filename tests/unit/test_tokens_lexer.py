"""Types of the characters of a text: prose, formulas, code, several scripts."""

import re

import numpy as np
import pytest
from draftscope.errors import UserError
from draftscope.tokens.lexer import lex
from draftscope.tokens.lists import Lists
from draftscope.tokens.names import CODE, NAMES, NO_TRIGGER
from hypothesis import given
from hypothesis import strategies as st
from token_lists import LISTS, TEXTS

EMPTY = Lists()


def types(text, part, lists=LISTS, nth=0):
    """The names of the types of the nth occurrence of a part, without white space around it."""
    place = [found.start() for found in re.finditer(re.escape(part), text)][nth]
    kinds = lex(text, lists).type[place : place + len(part)]
    return {NAMES[kind] for kind in kinds}


CASES = [
    # prose
    ("Say hello to them.", "hello", "word"),
    ("I don't know, it’s late.", "don't", "word"),
    ("I don't know, it’s late.", "it’s", "word"),
    ("Say hello.", ".", "punctuation"),
    ("about 1,234.5 apples.", "1,234.5", "number"),
    ("the number 3. Then", "3", "number"),
    ("the number 3. Then", ".", "punctuation"),
    ("1,2,3", ",", "punctuation"),
    ("½ of it, 3² more", "½", "number"),
    ("½ of it, 3² more", "²", "number"),
    ("GPT4 and H2O", "GPT4", "word"),
    ("$5 and $10 for all", "$", "punctuation"),
    ("it costs $5, and later $6, or so", "and", "word"),
    ("she paid 20% of 50€", "%", "punctuation"),
    # operators and what looks like them
    ("12 + 30 = 42", "+", "operator"),
    ("12 + 30 = 42", "=", "operator"),
    ("so 5 - 3 is 2", "-", "operator"),
    ("so 5-3 is 2", "-", "operator"),
    ("it is -3 degrees", "-", "operator"),
    ("a well-known half-hearted try", "-", "punctuation"),
    ("covid-19 came", "-", "punctuation"),
    ("- apples\n- pears", "-", "punctuation"),
    ("* 3 apples", "*", "punctuation"),
    ("this is **bold** text", "*", "punctuation"),
    ("2 * 3 and (a) * 4", "*", "operator"),
    ("10/2 and/or 3", "/", "operator"),
    ("this and/or that", "/", "punctuation"),
    ("a ≤ b", "≤", "operator"),
    ("6 ÷ 2 × 4", "÷", "operator"),
    ("x → y", "→", "operator"),
    ("cost - 5", "-", "operator"),
    ("they left - and came back", "-", "punctuation"),
    ("| a | b |", "|", "punctuation"),
    # formulas
    (r"the value $\frac{1}{2}x$ is", r"\frac", "latex"),
    (r"the value $\frac{1}{2}x$ is", "1", "number"),
    (r"the value $\frac{1}{2}x$ is", "x", "latex"),
    (r"the value $\frac{1}{2}x$ is", "$", "latex"),
    (r"the value $\frac{1}{2}x$ is", "{", "latex"),
    (r"the value $\frac{1}{2}x$ is", "is", "word"),
    (r"\(a \times b\) and \[ c \leq d \]", r"\times", "operator"),
    (r"\(a \times b\) and \[ c \leq d \]", r"\(", "latex"),
    (r"\(a \times b\) and \[ c \leq d \]", r"\leq", "operator"),
    (r"\(a \times b\) and \[ c \leq d \]", "and", "word"),
    (r"$x^2 - y_1$", "^", "latex"),
    (r"$x^2 - y_1$", "-", "operator"),
    (r"$f(x)$", "(", "punctuation"),
    (r"$\text{the sum} = 3$", "sum", "word"),
    (r"the answer is \boxed{42}.", r"\boxed", "latex"),
    (r"the answer is \boxed{42}.", "42", "number"),
    (r"the answer is \boxed{x}.", "x", "latex"),
    (r"\frac{a}{b} without delimiters", "b", "latex"),
    ("\\begin{align}\na &= b\n\\end{align} done", "a", "latex"),
    ("\\begin{align}\na &= b\n\\end{align} done", "&", "latex"),
    ("\\begin{align}\na &= b\n\\end{align} done", "done", "word"),
    (r"cut in the middle of \[ x + y", "x", "latex"),
    ("no \\[ formula here\n\nother words", "formula", "word"),
    (r"escaped \$ sign and \$ again", "sign", "word"),
    # code
    ("Run `x = 3` now", "x", "code"),
    ("Run `x = 3` now", "3", "number"),
    ("Run `x = 3` now", "=", "operator"),
    ("Run `x = 3` now", "`", "code"),
    ("Run `x = 3` now", "now", "word"),
    ("```python\nfor i in range(3):\n    print('a b')\n```\nDone", "for", "code"),
    ("```python\nfor i in range(3):\n    print('a b')\n```\nDone", "python", "code"),
    ("```python\nfor i in range(3):\n    print('a b')\n```\nDone", "'a", "code"),
    ("```python\nfor i in range(3):\n    print('a b')\n```\nDone", "\n    ", "whitespace"),
    ("```python\nfor i in range(3):\n    print('a b')\n```\nDone", "Done", "word"),
    ("```\na // b  # check it\n```", "//", "operator"),
    ("```\na // b  # check it\n```", "check", "code"),
    ("def add(a, b):\n    return a + b\n\nIt adds them.", "def", "code"),
    ("def add(a, b):\n    return a + b\n\nIt adds them.", "return", "code"),
    ("def add(a, b):\n    return a + b\n\nIt adds them.", "It", "word"),
    ("import numpy as np\nx = np.zeros(3)\nThat is all.", "zeros", "code"),
    ("import numpy as np\nx = np.zeros(3)\nThat is all.", "That", "word"),
    ("x = 3\ny = 4", "x", "word"),
    ("For example:\n    indented words", "example", "word"),
    ("a <b>bold</b> word", "<b>", "code"),
    # other scripts
    ("我们检查一下：三加四。", "我们", "word"),
    ("我们检查一下：三加四。", "检查", "reflection"),
    ("我们检查一下：三加四。", "：", "punctuation"),
    ("共有１２个", "１２", "number"),
    ("हिन्दी में लिखो", "हिन्दी", "word"),
    ("emoji 🙂 here", "🙂", "punctuation"),
    ("a broken � sign", "�", "partial_utf8"),
    # triggers
    ("Wait, no.", "Wait", "reflection"),
    ("But wait!", "wait", "reflection"),
    ("HOWEVER it is", "HOWEVER", "reflection"),
    ("we are waiting", "waiting", "word"),
    ("checkmate and checks", "checks", "word"),
    ("let me double-check it", "check", "reflection"),
    ("Let\n me see", "Let\n me", "reflection"),
    ("let’s see", "let’s see", "reflection"),
    ("wait_for and the `check` name", "wait", "word"),
    ("wait_for and the `check` name", "check", "code"),
    (r"$\mathrm{check}$ it", "check", "latex"),
    (r"$\text{check}$ it", "check", "reflection"),
]


@pytest.mark.parametrize(("text", "part", "expected"), CASES)
def test_types_of_parts(text, part, expected):
    assert types(text, part) == {expected}


def test_a_formula_that_never_closes_before_a_blank_line_is_none():
    assert types("so $$ is no formula\n\nmore words", "formula") == {"word"}


def test_without_lists_nothing_is_a_reflection():
    lexed = lex("Wait, however, check.", EMPTY)
    assert CODE["reflection"] not in lexed.type
    assert (lexed.trigger == NO_TRIGGER).all()


def test_a_trigger_has_its_number_and_is_one_segment():
    text = "So, hold on a moment."
    lexed = lex(text, LISTS)
    place = text.index("hold")
    assert LISTS.triggers[lexed.trigger[place]] == "hold on"
    assert set(lexed.segment[place : place + 7]) == {place}
    assert set(lexed.end[place : place + 7]) == {place + 7}


@pytest.mark.parametrize(
    ("trigger", "text", "found"),
    [
        ("wait", "wa\u0131t WA\u0130T", ["wa\u0131t", "WA\u0130T"]),  # i and I of Turkish
        ("schließlich", "Schließlich SCHLIE\u1e9eLICH", ["Schließlich", "SCHLIE\u1e9eLICH"]),
        ("άρα σας", "Άρα σας ΆΡΑ ΣΑΣ", ["Άρα σας", "ΆΡΑ ΣΑΣ"]),
        ("रुक", "रुक रुको", ["रुक"]),  # the second word goes on with a sign that is no letter
        ("check", "check check\u0301 \u0915\u0940check", ["check"]),
    ],
)
def test_triggers_are_whole_words_of_any_case_in_any_script(trigger, text, found):
    lists = Lists((trigger,), ())
    assert [text[first:last] for first, last, _ in lists.find(text)] == found
    assert (lex(text, lists).trigger == 0).sum() == sum(map(len, found))


def test_published_triggers_stand_first():
    assert LISTS.triggers[:3] == ("wait", "however", "check")


def test_ideographs_are_words_of_their_own():
    assert lex("三加四", LISTS).segment.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"further_triggers": ["Wait"]}, "trigger 'wait' stands twice"),
        ({"further_triggers": ["..."]}, "has no letter"),
        ({"triggers": []}, "triggers unknown or missing"),
    ],
)
def test_lists_that_cannot_be_used_are_refused(change, message):
    settings = {"published_triggers": ["wait"], "further_triggers": [], "operators": "",
                "operators_between": "", "operator_commands": []}  # fmt: skip
    with pytest.raises(UserError, match=message):
        Lists.of(settings | change)


@given(st.text(alphabet=st.sampled_from("ab 1$`\\{}()[]\n中🙂-*#.'\"~wait")))
def test_every_character_gets_a_type_and_segments_tile(text):
    lexed = lex(text, LISTS)
    place = np.arange(len(text))
    assert ((lexed.segment <= place) & (place < lexed.end)).all()
    assert lexed.segment.tolist() == sorted(lexed.segment.tolist())
    for start in set(lexed.segment.tolist()):
        assert len(set(lexed.end[lexed.segment == start].tolist())) == 1
    spaces = np.array([character.isspace() for character in text], dtype=bool)
    blank = lexed.type == CODE["whitespace"]
    assert (spaces | ~blank).all()
    assert (blank | ~spaces | (lexed.type == CODE["reflection"])).all()


def test_unclosed_signs_over_and_over_have_types_too():
    for sign in ("$", "`", "\\[", "\\text{", "```", "if (", *TEXTS):
        assert len(lex(sign * 300, LISTS).type) == 300 * len(sign)
