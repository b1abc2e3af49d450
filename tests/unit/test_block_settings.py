"""The blocks losses and retrace of an experiment: what is refused, in one line, and what is planned."""

import copy

import pytest
from draftscope import registry
from draftscope.block_study import settings
from draftscope.config import Experiment, load
from draftscope.errors import UserError
from draftscope.strict import load_yaml, validate
from experiments import LAPTOP, PAPER, ROOT, merged, registries

ABLATIONS = load_yaml(ROOT / "config/retrace_ablations.yaml")
ASKED = {"studies": ["position", "losses", "retrace"]}
DFLASH = """
  kind: dflash
  target: smollm2-135m
  layers: 2
  block_size: 8
  vocabulary: 8192
  loss: {name: dpace}
  train: {domains: [{name: math, prompts: 64, max_new_tokens: 128}], temperature: 0.6, held_out: 0.08,
          steps: 400, batch: 4, lr: 0.001, warm_up: 20, evaluate_every: 80, patience: 5, seed: 1,
          anchors: 16}
"""


def changed(block: str, **values) -> dict:
    raw = copy.deepcopy(LAPTOP) | ASKED
    raw[block] |= values
    return raw


def test_the_laptop_and_the_published_scale_are_planned():
    for raw, block_size in ((LAPTOP, 8), (merged(LAPTOP, PAPER), 16)):
        found = load(raw | ASKED, ROOT)
        block = found.settings.losses
        losses = {arm.label for arm in block.grid}
        assert len(losses) == 11 and {arm.label for arm in block.arms} < losses
        assert {len(arm.pairs) for arm in block.grid} == {3}
        drafts = [found.models[found.losses.pairs[p]["draft"]] for a in block.grid for p in a.pairs]
        assert {row["block_size"] for row in drafts} == {block_size}
        assert {row["loss"]["name"] for row in drafts} == losses


@pytest.mark.parametrize(
    ("over", "ablations"),
    [({}, []), (ABLATIONS, ["overwrite", "gated"]), (PAPER, ["overwrite", "gated"])],
    ids=["laptop", "ablations", "paper"],
)
def test_retrace_stands_beside_its_backbone_and_its_control(over, ablations):
    found = load(merged(LAPTOP, over) | ASKED, ROOT)
    variants = [found.models[found.retrace.pairs[a.pairs[0]]["draft"]].get("variant")
                for a in found.settings.retrace.arms]  # fmt: skip
    assert variants == [None, "none", *ablations, "corrected_gated"]


def test_texts_that_the_experiment_has_not_are_sized_by_the_study():
    found = load(merged(LAPTOP, PAPER) | ASKED, ROOT)
    assert found.text("qwen3-4b", "mbpp", "greedy").prompts == 128
    assert found.text_shards("qwen3-4b", "mbpp", "greedy") == [f"{n:04d}" for n in range(8)]
    assert found.use("humaneval-chat").prompts == 164
    # Prompts of the trees are cut; these are not.
    assert not found.cuts_prompts("qwen3-4b", "mbpp", "greedy")
    assert found.cuts_prompts("llama-2-7b-chat-int4", "gsm8k", "greedy")
    laptop = load(LAPTOP, ROOT)
    assert laptop.text("smollm2-135m", "math", "greedy").max_new_tokens == 160


def test_a_study_that_is_not_asked_for_only_says_what_is_wrong():
    raw = changed("losses", baselines={"lookup": "smollm2-3bit"}) | {"studies": ["position"]}
    found = load(raw, ROOT)
    assert "baselines are drafts without a model" in found.losses.problem
    assert not found.losses.pairs and found.retrace.problem is None


@pytest.fixture(scope="module")
def laptop() -> settings.Around:
    """What the laptop experiment checks a study against; reading its registries takes a while."""
    experiment = validate(Experiment, LAPTOP, "configuration")
    rows = registry.load_all(experiment.registries, ROOT)
    own = (["smollm2-135m"], experiment.modes)
    return settings.Around(rows, experiment.domains, {}, True, *own)


ARMS = LAPTOP["losses"]["arms"]
VARIANTS = LAPTOP["retrace"]["arms"]


@pytest.mark.parametrize(
    ("block", "values", "said"),
    [
        ("losses", {"reference": "dpac"}, "is no label of losses.arms; did you mean 'dpace'"),
        ("losses", {"modes": ["greedy", "greedy"]}, "'greedy' stands twice in losses.modes"),
        ("losses", {"draft_length": 8}, "blocks of 8, which offer 7 tokens; draft_length is 8"),
        ("losses", {"baselines": {"lookup": "smollm2-3bit"}}, "baselines are drafts without a model"),
        ("losses", {"baselines": {"dpal": "smollm2-lookup"}}, "is a label of losses.arms and of"),
        (
            "losses",
            {"arms": [*ARMS, {"label": "x", "pairs": ["smollm2-dpace-3"]}]},
            "'dpace' and 'x' have one loss",
        ),
        (
            "losses",
            {"arms": [ARMS[1], {"label": "y", "pairs": ["smollm2-dpal-1", "smollm2-ce_decay-2"]}]},
            "its trainings differ in their loss",
        ),
        (
            "losses",
            {"arms": [ARMS[1], {"label": "y", "pairs": ["smollm2-lookup"]}]},
            "is of kind prompt_lookup, not dflash",
        ),
        (
            "losses",
            {"arms": [ARMS[1], {"label": "y", "pairs": ["smollm2-retrace-none-1"]}]},
            "depend on what was rejected before",
        ),
        ("losses", {"domains": [{"name": "math", "prompts": 64, "max_new_tokens": 9}]},
         "losses.domains: 64 prompts of 'math' are wanted, it has 32 here"),
        ("losses", {"domains": [{"name": "math", "prompts": 16, "max_new_tokens": 96}]},
         "max_new_tokens of 'math' is 96, but its text is the experiment's own, with 160; say 160"),
        ("losses", {"speed": LAPTOP["losses"]["speed"] | {"domains": ["maths"]}},
         "losses.speed.domains: 'maths' is not among losses.domains; did you mean 'math'"),
        ("losses", {"speed": LAPTOP["losses"]["speed"] | {"prompts": 17}},
         "losses.speed.prompts: 17 prompts of 'math' are wanted, it has 16 here"),
        ("retrace", {"control": "corrected_gated"}, "'corrected_gated' has not the variant none"),
        ("retrace", {"backbone": "none"}, "is of kind dflash, not retrace"),
        (
            "retrace",
            {"arms": [*VARIANTS[:2], {"label": "x", "pairs": ["smollm2-retrace-gated-2",
                                                             "smollm2-retrace-gated-1"]}]},
            "starts from 'smollm2-135m-ce_decay-2', the 1. of the backbone is",
        ),
        (
            "retrace",
            {"arms": [*VARIANTS[:2], {"label": "x", "pairs": ["smollm2-retrace-gated-1"]}]},
            "retrace.arms have different numbers of pairs",
        ),
        ("retrace", {"modes": ["sample", "warm"]}, "unknown mode 'warm'"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_refused_in_one_line(laptop, block, values, said):
    kind, resolve = {
        "losses": (settings.Losses, settings.resolve_losses),
        "retrace": (settings.Retrace, settings.resolve_retrace),
    }[block]
    with pytest.raises(UserError) as error:
        resolve(validate(kind, LAPTOP[block] | values, block), laptop)
    assert said in str(error.value) and "\n" not in str(error.value)


def test_other_text_than_the_experiments_has_the_budget_that_the_study_says():
    sizes = [{"name": "math", "prompts": 16, "max_new_tokens": 96}]
    found = load(changed("losses", modes=["sample-0.8"], domains=sizes, speed=None), ROOT)
    assert found.text("smollm2-135m", "math", "sample-0.8").max_new_tokens == 96


def test_text_of_the_sweep_must_be_as_large_as_the_study_says():
    raw = changed("losses", modes=["greedy", "sample", "sample-0.9"])
    with pytest.raises(UserError) as error:
        load(raw, ROOT)
    said = (
        "16 prompts of 'math' with 160 tokens are wanted, but in mode 'sample-0.9' "
        "position.temperatures generates 16 with 96; add 'sample-0.9' to modes"
    )
    assert said in str(error.value) and "\n" not in str(error.value)
    for studies in (["position"], ["position", "temperatures"]):
        assert said in load(raw | {"studies": studies}, ROOT).losses.problem
    larger = load(raw | {"modes": ["greedy", "sample", "sample-0.9"]}, ROOT)
    assert larger.text("smollm2-135m", "math", "sample-0.9").prompts == 32

    sweep = raw["position"]["temperatures"]
    sweep |= {"prompts": 24, "max_new_tokens": 160}
    assert load(raw, ROOT).text("smollm2-135m", "math", "sample-0.9").prompts == 24
    sweep["prompts"] = 8
    with pytest.raises(UserError, match="position.temperatures generates 8 with 160"):
        load(raw, ROOT)


def test_a_mode_imports_the_text_of_every_domain_of_the_study(tmp_path):
    text = (tmp_path / "text.jsonl").as_posix()
    mode = f"ours: {{temperature: 0, imported: {{math: {text}}}}}"
    raw = changed("losses", modes=["greedy", "ours"], speed=None)
    raw["registries"] = registries(tmp_path, modes=mode)
    with pytest.raises(
        UserError, match="losses.modes: mode 'ours' imports .*, which does not exist"
    ):
        load(raw, ROOT)
    (tmp_path / "text.jsonl").touch()
    said = "losses.modes: mode 'ours' imports no file for domain 'code'; it has: math"
    with pytest.raises(UserError, match=said):
        load(raw, ROOT)
    assert said in load(raw | {"studies": ["position"]}, ROOT).losses.problem
    raw["losses"]["domains"] = raw["losses"]["domains"][:1]
    raw["position"]["temperatures"] = None
    assert "ours" in load(raw, ROOT).losses.modes


def test_arms_differ_in_their_loss_and_trainings_in_their_seed_alone(tmp_path):
    edits = {"other": "", "other-2": "layers: 2", "other-3": "steps: 400"}
    models = "\n".join(
        f"{name}:{DFLASH.replace(old, old[:-1] + '7') if old else DFLASH}"
        for name, old in edits.items()
    )
    pairs = "\n".join(
        f"{name}: {{target: smollm2-135m, draft: {name}, draft_group: b}}" for name in edits
    )
    raw = changed("losses", arms=[{"label": "dpace", "pairs": ["other"]},
                                  {"label": "x", "pairs": ["other-2"]}], grid=[])  # fmt: skip
    raw["registries"] = registries(tmp_path, models=models, pairs=pairs)
    with pytest.raises(
        UserError, match="'other' and 'other-2' differ in layers; arms differ in their"
    ):
        load(raw, ROOT)
    raw["losses"]["arms"][1]["pairs"] = ["other-3"]
    with pytest.raises(UserError, match=r"differ in train\.steps"):
        load(raw, ROOT)
