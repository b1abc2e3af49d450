"""The experiment is read strictly: each kind of mistake gives one line that names the remedy."""

import copy
import re

import pytest
import yaml
from draftscope import config, registry
from draftscope.errors import UserError
from draftscope.strict import Strict, load_yaml
from experiments import LAPTOP, PAPER, ROOT, merged, registries


def load(**over) -> config.Resolved:
    return config.load(merged(LAPTOP, over), ROOT)


def message(**over) -> str:
    with pytest.raises(UserError) as caught:
        load(**over)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_laptop_and_the_paper_experiment_are_valid():
    laptop = load()
    assert laptop.settings.experiment == "laptop"
    paper = config.load(merged(LAPTOP, PAPER), ROOT)
    assert paper.settings.domains[0].prompts == 500
    assert len(paper.shards("math-500")) == 32
    assert paper.group("r1-distill-qwen-7b", "position") == [
        "r1-distill-qwen-1.5b",
        "qwen2.5-1.5b-instruct",
    ]


@pytest.mark.parametrize(
    ("over", "expected"),
    [
        ({"draft_lenghts": [1]}, "unknown key 'draft_lenghts'; did you mean 'draft_lengths'"),
        ({"generation": {"dytpe": "float32"}}, "generation.dytpe'; did you mean 'dtype'"),
        ({"domains": [{"name": "math", "prompt": 3, "max_new_tokens": 4}]}, "did you mean 'prom"),
        ({"pairs": ["smollm2-3bits"]}, "unknown pair 'smollm2-3bits'; did you mean 'smollm2-3bit'"),
        ({"modes": ["gredy"]}, "unknown mode 'gredy'; did you mean 'greedy'"),
        (
            {"domains": [{"name": "maths", "prompts": 1, "max_new_tokens": 1}]},
            "unknown domain 'maths'; did you mean 'math'",
        ),
        ({"pairs": ["smollm2-3bit", "smollm2-3bit"]}, "'smollm2-3bit' stands twice in pairs"),
        ({"draft_lengths": [0]}, "draft_lengths.0 is 0"),
        ({"draft_lengths": []}, "draft_lengths"),
        ({"experiment": "my/run"}, "a name holds letters"),
        ({"experiment": ".."}, "a name holds letters"),
        ({"experiment": "example"}, "experiment 'example': results/example is kept for"),
        ({"shard_size": 17}, "shard_size 17 is not a multiple of generation.batch_size 16"),
        ({"position": {"draft_length": 4}}, "position.draft_length 4 is not among"),
        ({"position": {"domain": "code2"}}, "position.domain 'code2'"),
        ({"statistics": {"confidence": 1.5}}, "statistics.confidence is 1.5"),
        ({"seed": -1}, "seed is -1"),
        ({"loops": {"min_repeats": 1}}, "loops.min_repeats is 1"),
        ({"statistics": {"resamples": 10**12}}, "statistics.resamples is"),
        ({"scorecard": {"margins": {"ratoi": 0.1}}}, "margins"),
        ({"choice": {"cost_ratios": {"prompt-lookup": float("inf")}}}, "cost_ratios"),
        ({"choice": {"cost_ratios": {"prompt-lokup": 0.1}}}, "did you mean 'prompt-lookup'"),
        ({"domains": [{"name": "code", "prompts": 121, "max_new_tokens": 4}]}, "120 evaluation"),
    ],
)
def test_case_68_a_mistake_is_named_with_the_nearest_right_value(over, expected):
    assert expected in message(**over)


def test_a_missing_key_is_named():
    raw = copy.deepcopy(LAPTOP)
    del raw["scoring"]["position_chunk"]
    with pytest.raises(UserError, match="key 'scoring.position_chunk' is missing"):
        config.load(raw, ROOT)


def test_case_69_command_line_text_is_coerced_by_type_then_validated():
    assert load(draft_lengths=["5", "10"]).settings.draft_lengths == [5, 10]
    assert load(statistics={"confidence": "0.9"}).settings.statistics.confidence == 0.9
    assert "draft_lengths.0 is 'three'" in message(draft_lengths=["three"])
    assert "draft_lengths.0 is True" in message(draft_lengths=["true", "5"])
    assert "draft_lengths.0 is 2.5" in message(draft_lengths=["2.5"])
    assert load(experiment="123").settings.experiment == "123"


@pytest.mark.parametrize(
    ("kind", "text", "use", "expected"),
    [
        ("modes", "cold: {temperature: -1}", {"modes": ["cold"]}, "mode 'cold': temperature is -1"),
        ("modes", "a/b: {temperature: 1}", {}, "'a/b' cannot name one of the modes"),
        ("modes", "greedy: {temperature: 1}", {}, "'greedy' stands in another file"),
        (
            "modes",
            "x: {temperature: 1}\nx: {temperature: 0}",
            {},
            "'x' stands twice, again in line 2",
        ),
        ("modes", "x: {temprature: 1}", {"modes": ["x"]}, "did you mean 'temperature'"),
        ("modes", "x: {temperature: 1", {}, "not valid YAML"),
        ("modes", "[]", {}, "expected a mapping"),
        ("modes", "? [1, 2]\n: {temperature: 1}", {}, "line 1: [1, 2] cannot be a key"),
        ("modes", "x: {temperature: .inf}", {"modes": ["x"]}, "temperature is inf"),
        (
            "modes",
            "x: {temperature: 0, score_laws: {decoding: {temperature: 1}}}",
            {"modes": ["x"]},
            "score_laws cannot be named 'decoding'",
        ),
        (
            "modes",
            "x: {temperature: 0, imported: {math: nowhere.jsonl}}",
            {"modes": ["x"], "domains": [{"name": "math", "prompts": 1, "max_new_tokens": 1}]},
            "mode 'x' imports nowhere.jsonl, which does not exist",
        ),
        (
            "pairs",
            "p: {target: smollm2-135, draft: prompt-lookup, draft_group: g}",
            {"pairs": ["p"]},
            "unknown model 'smollm2-135'; did you mean 'smollm2-135m'",
        ),
        (
            "pairs",
            "p: {target: prompt-lookup, draft: smollm2-135m, draft_group: g}",
            {"pairs": ["p"]},
            "prompt lookup can be a draft, not a target",
        ),
        (
            "pairs",
            "p: {target: smollm2-135m, draft: prompt-lookup, draft_group: g}",
            {"pairs": ["smollm2-lookup", "p"]},
            "pairs 'smollm2-lookup' and 'p' are the same target and draft",
        ),
        (
            "models",
            "m: {kind: hubb, id: a/b}",
            {"pairs": ["p"]},
            "unknown kind 'hubb'; did you mean 'hub'",
        ),
        (
            "models",
            "m: {kind: round_to_nearest, base: smollm2-135m, bits: 1, group_size: 64}",
            {"pairs": ["p"]},
            "model 'm': bits is 1",
        ),
    ],
)
def test_mistakes_in_registries(tmp_path, kind, text, use, expected):
    files = {kind: text}
    if kind == "models" and "pairs" in use:
        files["pairs"] = "p: {target: m, draft: prompt-lookup, draft_group: g}"
    assert expected in message(registries=registries(tmp_path, **files), **use)


@pytest.mark.parametrize(
    ("models", "expected"),
    [
        (
            (
                "m: {kind: round_to_nearest, base: n, bits: 3, group_size: 8}\n"
                "n: {kind: round_to_nearest, base: m, bits: 3, group_size: 8}"
            ),
            "model 'm' is derived from itself: m from n from m",
        ),
        (
            "m: {kind: round_to_nearest, base: prompt-lookup, bits: 3, group_size: 8}",
            "derived from 'prompt-lookup', which has no weights",
        ),
        ("m: {kind: prompt_lookup, min_ngram: 7, max_ngram: 3}", "min_ngram 7 is above max_ngram"),
    ],
)
def test_models_that_cannot_be(tmp_path, models, expected):
    files = {"models": models, "pairs": "p: {target: smollm2-135m, draft: m, draft_group: g}"}
    assert expected in message(registries=registries(tmp_path, **files), pairs=["p"])


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("{source: jsonl, file: x, evaluation: 12}", "evaluation is 12"),
        ("{source: jsonl, file: x, evaluation: [0.0, 12]}", "evaluation.0 is 0.0"),
        ("{source: jsonl, file: 5, evaluation: [0, 12]}", "file is 5"),
        (
            "{source: jsonl, fiel: x, evaluation: [0, 12]}",
            "unknown key 'fiel'; did you mean 'file'",
        ),
        ("{source: jsnol, file: x, evaluation: [0, 12]}", "did you mean 'jsonl'"),
        ("{source: jsonl, file: x, evaluation: [0, 12], split: training}", "unknown key 'split'"),
        ("{source: jsonl, file: x, evaluation: [0, 12], instruction: go}", "lacks {problem}"),
        ("{source: jsonl, file: x, evaluation: [0, 12], checker: foo}", "checker is 'foo'"),
        ("{source: jsonl, file: x, evaluation: [0, 9], training: [5, 12]}", "overlap"),
        ("{source: human_eval, evaluation: [0, 1000]}", "beyond the 164 problems"),
        ("{source: reasoning_gym, tasks: [], seed: 1, evaluation: [0, 9]}", "tasks is []"),
        ("{source: reasoning_gym, tasks: [a], seed: x, evaluation: [0, 9]}", "seed is 'x'"),
        (
            "{source: reasoning_gym, tasks: [a], seed: 1, evaluation: [0, 9], options: {b: {}}}",
            "options for 'b', which is not among its tasks",
        ),
        (
            (
                "{source: jsonl, file: x, evaluation: [0, 9], "
                "template: {chat_template: false, enable_thinking: true}}"
            ),
            "takes no argument: enable_thinking",
        ),
        (
            (
                "{source: hub, repository: a/b, revision: main, file: f, text_field: t, "
                "answer_pattern: '(', evaluation: [0, 9]}"
            ),
            "not a regular expression",
        ),
        (
            (
                "{source: hub, repository: a b/c/d, revision: main, file: f, text_field: t, "
                "evaluation: [0, 9]}"
            ),
            "repository is 'a b/c/d'",
        ),
    ],
)
def test_domain_rows_are_checked_before_any_job(tmp_path, row, expected):
    over = registries(tmp_path, domains=f"d: {row}")
    use = [{"name": "d", "prompts": 2, "max_new_tokens": 4}]
    said = message(registries=over, domains=use, position={"domain": "d"})
    assert expected in said


def test_a_batch_that_would_not_be_full_is_refused_with_the_next_number_of_prompts():
    block = load().settings.lossless.batch.model_dump() | {"prompts": 10, "sizes": [1, 4]}
    text = message(lossless={"batch": block})
    assert "prompts 10 is no multiple of the batch size 4" in text and "next one is 12" in text


def test_an_experiment_without_the_live_study_need_not_fit_it():
    few = [{"name": "math", "prompts": 4, "max_new_tokens": 8}]
    assert "wants" in load(domains=few).live.problem
    assert "wants" in message(domains=few, studies=["lossless"])


def test_a_leading_zero_is_no_octal_number():
    assert "seed is '012'" in message(seed="012")


def test_a_missing_registry_file_is_named():
    assert "nowhere.yaml does not exist" in message(registries={"models": ["config/nowhere.yaml"]})


def every_key(model: type[Strict], prefix: str = "") -> set[str]:
    keys = set()
    for name, field in model.model_fields.items():
        keys.add(name)
        for inner in (field.annotation, *getattr(field.annotation, "__args__", ())):
            if isinstance(inner, type) and issubclass(inner, Strict):
                keys |= every_key(inner, f"{prefix}{name}.")
    return keys


def test_the_configuration_file_is_a_manual_of_every_key():
    text = (ROOT / "config/config.yaml").read_text(encoding="utf-8")
    written = set(re.findall(r"(?:^|[{,\s-])([a-z_]+):(?=\s|$)", text, flags=re.MULTILINE))
    assert every_key(config.Experiment) - {"gpus", "memory_mb", "runtime_minutes"} <= written


@pytest.mark.parametrize("kind", ["models", "pairs", "modes"])
def test_every_row_of_our_registries_is_valid(kind):
    rows = yaml.safe_load((ROOT / f"config/{kind}.yaml").read_text(encoding="utf-8"))
    what = kind.removesuffix("s")
    assert registry.select(rows, list(rows), kind, what).keys() == rows.keys()
    if kind == "pairs":
        pairs = registry.select(rows, list(rows), kind, what)
        models = yaml.safe_load((ROOT / "config/models.yaml").read_text(encoding="utf-8"))
        registry.models_of(pairs, models)


def test_only_greedy_texts_can_be_asked_where_they_part():
    block = load().settings.lossless.divergence.model_dump() | {"mode": "sample"}
    text = message(studies=["lossless"], lossless={"divergence": block})
    assert "lossless.divergence.mode 'sample' samples" in text


def test_a_model_is_not_quantized_on_what_another_domain_measures(tmp_path):
    """Ranges of one row cannot overlap; those of two rows with one source must not either."""
    rows = load_yaml(ROOT / "config/domains.yaml")
    rows["leaking"] = rows["math"] | {"evaluation": [5000, 6000], "training": [10, 40]}
    (tmp_path / "domains.yaml").write_text(yaml.safe_dump(rows))
    models = load_yaml(ROOT / "config/models.yaml")
    models["smollm2-135m-gptq"]["calibration"] = {"domains": ["leaking"], "texts": 8, "tokens": 64}
    (tmp_path / "models.yaml").write_text(yaml.safe_dump(models))
    kinds = {kind: [str(ROOT / f"config/{kind}.yaml")] for kind in ("pairs", "modes")}
    kinds |= {kind: [str(tmp_path / f"{kind}.yaml")] for kind in ("domains", "models")}
    said = message(registries=kinds)
    assert "would be quantized on prompts it is measured on" in said and "'leaking'" in said
    rows["leaking"]["training"] = [7000, 7100]
    (tmp_path / "domains.yaml").write_text(yaml.safe_dump(rows))
    load(registries=kinds)
