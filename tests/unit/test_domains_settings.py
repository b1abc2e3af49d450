"""The block `trees`: what it may ask for, and which texts it shares with the experiment."""

from pathlib import Path

import pytest
from draftscope import config
from draftscope.errors import UserError
from draftscope.tree.shape import Shape
from experiments import LAPTOP, PAPER, ROOT, merged, registries

STUDY = {"studies": ["position", "domains"]}


def load(trees: dict | None = None, **over) -> config.Resolved:
    return config.load(merged(merged(LAPTOP, STUDY), {"trees": trees or {}} | over), ROOT)


def message(trees: dict | None = None, **over) -> str:
    with pytest.raises(UserError) as caught:
        load(trees, **over)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def domain(name="math", prompts=8, tokens=32, **more) -> dict:
    return {"name": name, "prompts": prompts, "max_new_tokens": tokens, **more}


@pytest.mark.parametrize(
    ("trees", "expected"),
    [
        ({"shape": {"max_branch": 0}}, "trees.shape.max_branch is 0"),
        ({"shape": {"max_depth": 0}}, "trees.shape.max_depth is 0"),
        ({"shape": {"max_nodes": -1}}, "trees.shape.max_nodes is -1"),
        (
            {"shape": {"max_dept": 3}},
            "unknown key 'trees.shape.max_dept'; did you mean 'max_depth'",
        ),
        ({"shape": {"kind": "bushy"}}, "trees.shape.kind is 'bushy'"),
        ({"shape": {"max_depth": None}}, "a breadth_first tree needs max_depth"),
        ({"shape": {"branching": [2, 1]}}, "a breadth_first tree has no branching"),
        ({"shape": {"kind": "static", "branching": [2, 0]}}, "trees.shape.branching.1 is 0"),
        ({"pair": "smollm2-lookup"}, "prompt lookup gives no probabilities to grow a tree from"),
        ({"pair": "smollm2-3bits"}, "unknown pair 'smollm2-3bits'; did you mean 'smollm2-3bit'"),
        ({"mode": "sample"}, "trees.mode 'sample' samples"),
        ({"domains": [domain(), domain()]}, "'math' stands twice in trees.domains"),
        (
            {"domains": [domain(published="chat"), domain("code", published="chat")]},
            "'chat' stands twice in the published domains of trees.domains",
        ),
        ({"domains": [domain(published="poems")]}, "trees.domains.0.published is 'poems'"),
        ({"domains": [domain(prompts=33)]}, "wants 33 prompts of domain 'math', which has 32"),
        ({"pair": "smollm2-3bit", "domains": [domain(tokens=500)]}, "whose text this experiment"),
    ],
)
def test_case_68_a_mistake_in_the_trees_is_named(trees, expected):
    assert expected in message(trees)


def test_an_experiment_without_the_study_need_not_fit_it():
    over = {"domains": [domain(prompts=33)]}
    resolved = config.load(merged(LAPTOP, {"trees": over}), ROOT)
    assert "wants 33 prompts" in resolved.trees.problem
    assert not resolved.trees.pairs


def test_text_that_is_there_anyway_keeps_its_size():
    resolved = load({"pair": "smollm2-3bit", "domains": [domain(prompts=8, tokens=32)]})
    text = resolved.text("smollm2-135m", "math", "greedy")
    assert (text.prompts, text.max_new_tokens) == (32, 160)
    assert resolved.text_shards("smollm2-135m", "math", "greedy") == ["0000", "0001"]


OTHER = "other: {target: smollm2-135m-3bit, draft: smollm2-135m, draft_group: g}"


def test_text_of_the_trees_alone_has_their_size(tmp_path):
    over = {"registries": registries(tmp_path, pairs=OTHER)}
    own = [domain(prompts=8, tokens=300), domain("gsm8k", prompts=20, tokens=64)]
    resolved = load({"pair": "other", "domains": own}, **over)
    text = resolved.text("smollm2-135m-3bit", "math", "greedy")
    assert (text.prompts, text.max_new_tokens) == (8, 300)
    assert resolved.text_shards("smollm2-135m-3bit", "math", "greedy") == ["0000"]
    assert resolved.text_shards("smollm2-135m-3bit", "gsm8k", "greedy") == ["0000", "0001"]
    assert resolved.shard_bounds("gsm8k", "0001") == (16, 20)
    # Files of prompts are shared by all targets: those of the experiment stay as they are.
    assert resolved.shard_bounds("math", "0000") == (0, 16)
    assert resolved.text("smollm2-135m", "math", "greedy").max_new_tokens == 160
    assert resolved.targets == ["smollm2-135m"]


def test_cut_prompts_are_raw_ones(tmp_path):
    over = {"registries": registries(tmp_path, pairs=OTHER)}
    raw = load({"pair": "other", "prompt_tokens": 512, "domains": [domain("gsm8k")]}, **over)
    assert raw.settings.trees.prompt_tokens == 512
    said = message({"pair": "other", "prompt_tokens": 512, "domains": [domain()]}, **over)
    assert "trees.prompt_tokens cuts raw prompts, and domain 'math' has a chat template" in said
    both = {"domains": [domain("gsm8k")]}
    said = message(
        {"pair": "smollm2-3bit", "prompt_tokens": 512, **both}, position={"domain": "gsm8k"}, **both
    )
    assert "trees.prompt_tokens would cut prompts of domain 'gsm8k', whose text" in said


def both(prompts: int, tokens: int, **trees) -> dict:
    """Trees and losses on one text of gsm8k, which the experiment does not generate."""
    losses = [domain(prompts=16, tokens=160), domain("gsm8k", prompts=8, tokens=48)]
    own = {"pair": "smollm2-3bit", "domains": [domain("gsm8k", prompts, tokens)]}
    return {"trees": own | trees, "losses": {"domains": losses}}


@pytest.mark.parametrize(
    ("over", "expected"),
    [
        (
            both(8, 64),
            "wants 64 tokens of domain 'gsm8k', whose text losses.domains generates with 48",
        ),
        (both(9, 48), "wants 9 prompts of domain 'gsm8k', which has 8 in losses.domains"),
        (
            both(8, 48, prompt_tokens=512),
            "would cut prompts of domain 'gsm8k', whose text losses.domains generates from whole ones",
        ),
    ],
)
def test_text_that_the_losses_take_too_is_theirs(over, expected):
    assert expected in message(**over, studies=["position", "domains", "losses"])
    # Only a study that is asked for keeps another from its text.
    trees = load(**over)
    assert trees.trees.problem is None and expected in trees.losses.problem
    sizes = over["trees"]["domains"][0]
    text = trees.text("smollm2-135m", "gsm8k", "greedy")
    assert (text.prompts, text.max_new_tokens) == (sizes["prompts"], sizes["max_new_tokens"])
    losses = load(**over, studies=["position", "losses"])
    assert losses.losses.problem is None and expected in losses.trees.problem
    neither = load(**over, studies=["position"])
    assert neither.trees.problem.endswith("; domains in studies puts the trees first")
    assert losses.text("smollm2-135m", "gsm8k", "greedy").max_new_tokens == 48


def test_trees_take_the_beginning_of_text_of_the_losses():
    found = load(**both(6, 32), studies=["position", "domains", "losses"])
    text = found.text("smollm2-135m", "gsm8k", "greedy")
    assert (text.prompts, text.max_new_tokens) == (8, 48)
    # Of another mode it is no text of theirs.
    alone = both(9, 64, prompt_tokens=512)
    alone["losses"] |= {"modes": ["sample"], "speed": None}
    found = load(**alone, studies=["position", "domains", "losses"])
    assert found.cuts_prompts("smollm2-135m", "gsm8k", "greedy")
    assert not found.cuts_prompts("smollm2-135m", "gsm8k", "sample")
    # Where the experiment generates the text, the losses study does not decide how much of it.
    own = {"pair": "smollm2-3bit", "domains": [domain(prompts=20, tokens=100)]}
    found = load(own, studies=["position", "domains", "losses"])
    assert found.losses.use("math").prompts == 16 and found.trees.problem is None


def test_a_mode_that_only_the_trees_use_gets_text_of_its_own(tmp_path):
    over = {"registries": registries(tmp_path, modes="cold: {temperature: 0}")}
    resolved = load({"pair": "smollm2-3bit", "mode": "cold", "domains": [domain()]}, **over)
    assert resolved.text("smollm2-135m", "math", "cold").max_new_tokens == 32
    imported = f"cold: {{temperature: 0, imported: {{math: {Path(__file__).as_posix()}}}}}"
    over = {"registries": registries(tmp_path, modes=imported)}
    said = message({"pair": "smollm2-3bit", "mode": "cold", "domains": [domain()]}, **over)
    assert "imports its text, and the experiment imports none of domain 'math'" in said


def test_the_published_study_has_the_published_settings():
    trees = config.load(merged(LAPTOP, PAPER), ROOT).settings.trees
    assert Shape.of(trees.shape.model_dump()) == Shape("breadth_first", 3, 2, 8, 3)
    assert trees.prompt_tokens == 512
    assert {use.published for use in trees.domains} == {"chat", "code", "math", "reasoning"}
    assert {(use.prompts, use.max_new_tokens) for use in trees.domains} == {(50, 64)}
