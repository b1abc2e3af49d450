"""The block `certificates`: what it may ask for, and which texts it shares with the experiment."""

import pytest
from draftscope import config
from draftscope.errors import UserError
from experiments import LAPTOP, PAPER, ROOT, merged, registries

STUDY = {"studies": ["position", "certificates"]}


def load(block: dict | None = None, **over) -> config.Resolved:
    return config.load(merged(merged(LAPTOP, STUDY), {"certificates": block or {}} | over), ROOT)


def domain(name="chat", prompts=8, tokens=32, **more) -> dict:
    return {"name": name, "prompts": prompts, "max_new_tokens": tokens, **more}


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({"pairs": ["smollm2-lookup"], "relaxed": {"pair": "smollm2-lookup"}}, "no distribution"),
        ({"pairs": ["smollm2-3bits"], "relaxed": {"pair": "smollm2-3bits"}}, "did you mean"),
        ({"relaxed": {"pair": "smollm2-lookup"}}, "is not among certificates.pairs"),
        ({"headline": "code"}, "certificates.headline 'code' is not among"),
        ({"domains": [domain(), domain()]}, "'chat' stands twice in certificates.domains"),
        ({"domains": [domain(prompts=41)]}, "domain chat has 40 evaluation prompts"),
        ({"candidates": 20}, "say how long with min_prompt_tokens"),
        ({"candidates": 5, "min_prompt_tokens": 8}, "certificates.candidates 5 is below the 12"),
        ({"criteria": [{"kind": "strict"}, {"kind": "strict"}]}, "'strict greedy' stands twice"),
        ({"criteria": [{"kind": "additive"}]}, "criterion additive needs t"),
        ({"criteria": [{"kind": "additive", "t": 2}]}, "t=2.0 is not above 0 and at most 1"),
        ({"criteria": [{"kind": "addtive"}]}, "certificates.criteria.0.kind is 'addtive'"),
        ({"criteria": [{"kind": "tree", "n": 2}]}, "unknown key 'certificates.criteria.0.n'"),
        ({"relaxed": {"rules": [{"kind": "tree", "m": 2}]}}, "tree m=2 is no relaxed rule"),
        ({"additive": [0.1, 0.1]}, "0.1 stands twice in certificates.additive"),
        ({"runs": {"kl": [0.1, 0.1]}}, "0.1 stands twice in certificates.runs.kl"),
        ({"top_m": {"sizes": [2, 2]}}, "2 stands twice in certificates.top_m.sizes"),
        ({"additive": [0.0]}, "certificates.additive.0 is 0.0"),
        ({"depth": 3}, "certificates.depth is 3"),
        ({"tolerance": -1.0}, "certificates.tolerance is -1.0"),
        ({"runs": {"cap": 0}}, "certificates.runs.cap is 0"),
    ],
)
def test_case_68_a_mistake_in_the_certificates_is_named(block, expected):
    with pytest.raises(UserError) as caught:
        load(block)
    assert expected in str(caught.value) and "\n" not in str(caught.value)


def test_an_experiment_without_the_study_need_not_fit_it():
    block = {"domains": [domain(prompts=41)]}
    resolved = config.load(merged(LAPTOP, {"certificates": block}), ROOT)
    assert "has 40 evaluation prompts" in resolved.certificates.problem
    assert not resolved.certificates.pairs


def test_text_that_is_there_anyway_is_shared_and_other_text_is_not():
    resolved = load()
    target = "smollm2-135m"
    assert resolved.certificates.shared == {(target, "chat"), (target, "math")}
    assert load({"domains": [domain(tokens=400)]}).certificates.shared == frozenset()
    assert load({"min_prompt_tokens": 8}).certificates.shared == frozenset()
    assert load({"mode": "sample-1.0"}).certificates.shared == frozenset()


def test_an_imported_mode_needs_text_that_the_experiment_holds(tmp_path):
    text = tmp_path / "text.jsonl"
    text.write_text("", encoding="utf-8")
    modes = f"other: {{temperature: 0, imported: {{chat: {text.as_posix()}}}}}"
    over = {"registries": registries(tmp_path, modes=modes)}
    with pytest.raises(UserError, match="imports its text, and the experiment holds no such text"):
        load({"mode": "other"}, **over)


def test_drafts_of_one_group_share_a_pass():
    study = load().certificates
    names = [row["name"] for row in study.group("smollm2-135m", "copies")]
    assert names == ["smollm2-135m-3bit", "smollm2-135m-4bit", "smollm2-135m-8bit"]


def test_what_is_recorded_covers_every_table():
    block = load().settings.certificates
    recorded = block.recorded
    assert len(recorded) == len({tuple(row.items()) for row in recorded}) == 9 + 4 + 4 + 16
    for row in block.criteria:
        assert row.criterion.settings in recorded


def test_the_published_study_has_the_published_settings():
    resolved = config.load(merged(LAPTOP, PAPER), ROOT)
    block, study = resolved.settings.certificates, resolved.certificates
    assert study.problem is None and study.shared == frozenset()
    assert study.targets == ["qwen3-1.7b", "qwen3-4b"]
    assert (block.min_prompt_tokens, block.domains[0].prompts) == (64, 500)
    assert block.domains[0].max_new_tokens == 128
    labels = [row.criterion.label for row in block.criteria]
    assert labels[0] == "strict greedy" and "typical epsilon=0.1 delta=0.09" in labels
    assert len(labels) == 9
