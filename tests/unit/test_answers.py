"""Answers are judged by math-verify and by the scorers of generated problems."""

import re

import pytest
from draftscope.answers import final_answer, judge
from draftscope.errors import UserError
from draftscope.prompts import collecting


def asked(answer: str, checker: str = "math") -> dict:
    return {"prompt_id": "m", "domain": "math", "checker": checker, "answer": answer}


@pytest.mark.parametrize(
    ("answer", "text", "correct"),
    [
        ("42", "So there are 6 * 7 = 42 pebbles.", True),
        ("42", "So there are 43 pebbles.", False),
        ("1/2", r"The answer is $\boxed{\frac{1}{2}}$.", True),
        (r"\frac{1}{2}", "The answer is 0.5", True),
        (r"The sum is 7, so $x = \boxed{7}$.", "x = 7", True),
        ("42", "I do not know.", False),
    ],
)
def test_mathematics_is_compared_as_mathematics(answer, text, correct):
    assert judge(asked(answer), text).correct == correct


def test_an_answer_that_is_not_there_is_wrong_and_given_as_none():
    assert judge(asked("42"), "").given is None


@pytest.fixture(scope="module")
def puzzle():
    settings = {
        "domain": "logic",
        "source": "reasoning_gym",
        "tasks": ["knights_knaves"],
        "seed": 5,
        "evaluation": [0, 3],
        "checker": "reasoning_gym",
    }
    return collecting.collect(settings, 0, 1)[0]


def test_a_generated_problem_is_judged_by_its_own_scorer(puzzle):
    right = puzzle["answer"]
    role = re.search(r"is an? (\w+)", right)[1]
    wrong = right.replace(role, "baker")
    assert judge(puzzle, f"Let me think.\n<answer>{right}</answer>").correct
    assert judge(puzzle, f"Let me think.\n\n{right}").correct
    assert not judge(puzzle, f"<answer>{wrong}</answer>").correct
    assert not judge(puzzle, "").correct


def test_a_problem_that_is_generated_differently_now_is_not_judged(puzzle):
    with pytest.raises(UserError, match="makes another problem of it"):
        judge(puzzle | {"answer": "something else"}, "text")


OPTIONS = {"propositional_logic": {"min_vars": 3, "max_vars": 3}}


@pytest.fixture(scope="module")
def premises():
    """A problem with several right answers, and so without a reference."""
    settings = {"domain": "logic", "source": "reasoning_gym", "tasks": ["propositional_logic"],
                "seed": 4, "options": OPTIONS, "evaluation": [0, 3],
                "instruction": "Think.\n\n{problem}"}  # fmt: skip
    return collecting.collect(settings, 0, 1)[0] | {"checker": "reasoning_gym"}


def test_a_problem_without_a_reference_is_judged_by_its_scorer(premises):
    assert premises["answer"] is None
    assert "1. R\n.2. (P → P)\n.3. P" in premises["text"]
    for right in ("(P ∧ R)", "R ∧ P"):
        assert judge(premises, f"The answer is: {right}", OPTIONS).correct, right
    for wrong in ("P ∧ Q", "Q"):
        assert not judge(premises, f"The answer is: {wrong}", OPTIONS).correct, wrong
    with pytest.raises(UserError, match="makes another problem"):
        judge(premises | {"text": "another question"}, "R ∧ P", OPTIONS)


@pytest.mark.parametrize("odd", ["(((", "∧", "P ∧", "nonsense", "(" * 900, "¬" * 20_000, "P\x00"])
def test_an_answer_that_a_scorer_cannot_read_is_wrong(premises, odd):
    assert not judge(premises, odd, OPTIONS).correct


def test_a_scorer_that_stumbles_does_not_end_the_run(puzzle, monkeypatch):
    import reasoning_gym

    class Stumbling(list):
        def score_answer(self, answer, entry):
            raise RecursionError

    right = reasoning_gym.create_dataset("knights_knaves", seed=5, size=1)[0]
    monkeypatch.setattr(reasoning_gym, "create_dataset", lambda *_, **__: Stumbling([right]))
    assert not judge(puzzle, puzzle["answer"]).correct


def test_programs_are_not_run():
    with pytest.raises(UserError, match="checker 'human_eval' checks no answers"):
        judge(asked("x", "human_eval"), "text")


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("a\n<answer>one</answer> or <ANSWER> two </answer>", "two"),
        ("Thus the answer is: yes\n\n", "yes"),
        ("First line\n\n  last line \n", "last line"),
        ("**Answer:** **no**", "no"),
        ("**Answer**: no", "no"),
        ("The answer is:\n\n25\n\nI hope this answers your question!", "25"),
        ("Answer: yes\nThat is the answer to the riddle.", "yes"),
        ("I answered this.\nThe answer lies elsewhere.\n**Ada is a knight.**", "Ada is a knight."),
        (" \n", None),
    ],
)
def test_the_last_answer_of_a_text_counts(text, given):
    assert final_answer(text) == given
