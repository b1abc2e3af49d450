"""The settings of the trend, the lists of token types, and the sweep over temperatures."""

import pytest
from draftscope import config
from draftscope.errors import UserError
from experiments import LAPTOP, PAPER, ROOT, merged, registries

SWEPT = {"studies": ["position", "temperatures"]}


def load(*overs) -> config.Resolved:
    raw = LAPTOP
    for over in overs:
        raw = merged(raw, over)
    return config.load(raw, ROOT)


def position(**over) -> dict:
    return {"position": over}


def sweep(**over) -> dict:
    return position(temperatures=over)


def message(*overs) -> str:
    with pytest.raises(UserError) as caught:
        load(*overs)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_laptop_sweeps_its_first_pair_with_probabilities():
    found = load().sweep
    assert (found.pair, found.draft, found.problem) == ("smollm2-3bit", "smollm2-135m-3bit", None)
    assert list(found.laws) == ["greedy", "sample-0.3", "sample", "sample-0.9"]
    assert set(found.modes) == {"sample-0.3", "sample-0.9"}  # the others are generated anyway
    resolved = load()
    assert resolved.text("smollm2-135m", "math", "sample-0.9").max_new_tokens == 96
    assert resolved.text("smollm2-135m", "math", "sample").max_new_tokens == 160
    assert resolved.sweep_shards() == {"0000": 16}


def test_the_paper_sweeps_100_problems_over_seven_shards():
    resolved = load(PAPER)
    assert resolved.sweep.laws["sample-0.9"]["temperature"] == 0.9
    assert list(resolved.sweep_shards().values()) == [16] * 6 + [4]


def test_a_smaller_experiment_has_a_smaller_sweep():
    domains = {"domains": [{"name": "math", "prompts": 4, "max_new_tokens": 20}]}
    found = load(domains).sweep
    assert (found.use.prompts, found.use.max_new_tokens) == (4, 20)


def test_an_experiment_without_the_sweep_need_not_fit_it():
    lookup = position(configurations=[{"pair": "smollm2-lookup", "label": "same"}])
    assert "no pair of position.configurations has a draft" in load(lookup).sweep.problem
    assert "no pair of position.configurations has a draft" in message(lookup, SWEPT)
    assert "is null" in load(position(temperatures=None)).sweep.problem
    assert load(position(temperatures=None)).sweep_shards() == {}


@pytest.mark.parametrize(
    ("over", "expected"),
    [
        (sweep(pair="smollm2-3bits"), "not among the experiment's pairs; did you mean 'smollm2-3b"),
        (sweep(pair="smollm2-lookup"), "prompt lookup has no probabilities"),
        (sweep(modes=["greedy", "sampel"]), "unknown mode 'sampel'; did you mean 'sample'"),
        (sweep(modes=["greedy"]), "position.temperatures.modes"),
        (sweep(modes=["greedy", "greedy"]), "'greedy' stands twice in position.temperatures.modes"),
        (sweep(prompts=0), "position.temperatures.prompts is 0"),
        (sweep(promps=3), "did you mean 'prompts'"),
        (position(trend={"lengths": [80, 40]}), "position.trend.lengths must rise"),
        (position(trend={"lengths": []}), "position.trend.lengths"),
        (position(trend={"margin": 0}), "position.trend.margin is 0"),
        ({"tokens": {"further_triggers": ["Wait"]}}, "trigger 'wait' stands twice"),
        ({"tokens": {"further_triggers": ["?"]}}, "trigger '?' has no letter"),
        ({"tokens": {"operatos": "+"}}, "did you mean 'operators'"),
    ],
)
def test_mistakes_are_named(over, expected):
    assert expected in message(over, SWEPT)


def test_a_mode_that_imports_no_text_of_the_domain_is_refused(tmp_path):
    modes = "engine: {temperature: 1, imported: {code: here.jsonl}}"
    files = {"registries": registries(tmp_path, modes=modes)}
    text = message(files, SWEPT, sweep(modes=["greedy", "engine"]))
    assert "mode 'engine' imports no file for domain 'math'" in text and "to null" in text
    files = {"registries": registries(tmp_path, modes=modes.replace("code", "math"))}
    text = message(files, SWEPT, sweep(modes=["greedy", "engine"]))
    assert "mode 'engine' imports here.jsonl, which does not exist" in text and "to null" in text


def test_two_studies_do_not_make_one_text_of_two_sizes():
    trees = {"trees": {"pair": "smollm2-3bit", "mode": "greedy"}, "modes": ["sample"]}
    assert "add the mode to modes" in message(trees, SWEPT)
