"""What a job asks for: by its stage, and by the models that it holds."""

import pytest
from draftscope.errors import UserError
from draftscope.stage import Stage
from draftscope.strict import validate

BLOCK = {
    "device": "auto",
    "dtype": "bfloat16",
    "attention": "sdpa",
    "threads": 1,
    "gpus": 1,
    "memory_mb": 100,
    "runtime_minutes": 10,
    "for_models": {"large": {"gpus": 4, "memory_mb": 900}, "small": {"memory_mb": 50}},
}


def asked(*models):
    stage = validate(Stage, BLOCK, "generation")
    return [stage.asks(what, models) for what in ("gpus", "memory_mb", "runtime_minutes")]


def test_a_larger_model_asks_for_more_and_the_largest_of_a_job_counts():
    assert asked("other") == [1, 100, 10]
    assert asked("large") == [4, 900, 10]
    assert asked("small") == [1, 50, 10]
    assert asked("small", "large", "other") == [4, 900, 10]


def test_case_68_a_mistake_in_a_models_request_is_named():
    block = BLOCK | {"for_models": {"large": {"memory": 900}}}
    with pytest.raises(UserError, match="for_models.large.memory'; did you mean 'memory_mb'"):
        validate(Stage, block, "generation")
