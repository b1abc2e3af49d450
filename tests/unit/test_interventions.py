"""The interventions: lengths, paired differences, diagnostics, accuracy, and what training gained."""

import copy
import itertools
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from draftscope import records, sampling
from draftscope.config import load
from draftscope.errors import UserError
from draftscope.exhibits import figures
from draftscope.interventions import accuracy, diagnostics, lengths, match, tables
from draftscope.interventions import figures as drawn
from draftscope.interventions.diagnostics import Texts
from draftscope.interventions.lengths import Protocol, Source, standard_error
from draftscope.interventions.measurements import Interventions, holds
from draftscope.position.measurements import Measurements
from draftscope.seeds import generator
from draftscope.statistics.contingency import mcnemar
from experiments import LAPTOP, PAPER, ROOT, merged, registries
from scipy import stats
from statsmodels.stats import contingency_tables

PROTOCOL = Protocol(confidence=0.95, resamples=300, method="studentized", seed=7)


# ---- Lengths and differences -------------------------------------------------------------------


def write_source(folder, arm: str, mode: str, rounds: dict[str, list[int]], loops=()) -> Source:
    """An arm whose rounds emit these numbers of tokens, by prompt."""
    paths = {name: str(folder / f"{name}-{arm}-{mode}.parquet") for name in ("rounds", "expected")}
    paths["loops"] = str(folder / f"loops-{mode}.parquet")
    rows, expected, looped = [], [], []
    for prompt, emitted in rounds.items():
        key = {"prompt_id": prompt, "sample": 0}
        for number, count in enumerate(emitted):
            rows.append(
                key
                | {"draft_length": 5, "source": "replay", "rule": "greedy", "lossless": True}
                | {"round": number, "start": sum(emitted[:number]), "offered": 5}
                | {"accepted": count - 1, "emitted": count, "end": "continue"}
            )
        total = sum(emitted)
        expected.append(
            key
            | {"draft_length": 5, "tokens": total, "expected_rounds": len(emitted) + 0.5}
            | {"expected_accepted": 1.0, "expected_offered": 5.0, "accept_prob_mean": 0.5}
            | {"acceptance_length": total / (len(emitted) + 0.5)}
        )
        looped.append(
            key
            | {"tokens": total, "looped": prompt in loops, "loop_problem": prompt in loops}
            | dict.fromkeys(("onset", "period", "repeats", "kind"))
        )
    for name, content in (("rounds", rows), ("expected", expected), ("loops", looped)):
        records.write(paths[name], content, name, {"mode": mode})
    temperature = 0.0 if mode == "cold" else 0.7
    return Source(arm, f"pair-{arm}", "math", mode, temperature, **paths)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rounds")
    numbers = np.random.default_rng(1)
    prompts = [f"p{i}" for i in range(9)]
    sources = []
    for mode in ("cold", "warm"):
        for arm, shift in (("base", 0), ("even", 1), ("odd", 1)):
            rounds = {
                p: (numbers.integers(1, 6, 6) + (shift if i % 2 else 0)).tolist()
                for i, p in enumerate(prompts)
            }
            sources.append(write_source(folder, arm, mode, rounds, loops=("p3",)))
    return sources, *lengths.study(sources, 5, "even", PROTOCOL)


def chosen(rows, **values) -> list[dict]:
    return [row for row in rows if all(row[k] == v for k, v in values.items())]


def test_a_prompt_has_one_length_and_prompts_weigh_alike(tmp_path):
    source = write_source(tmp_path, "base", "cold", {"a": [6, 6, 3], "b": [1]})
    found = lengths.prompt_lengths(source, 5)
    assert found["rounds"] == {"a": 5.0, "b": 1.0}
    assert found["expected"] == {"a": 15 / 3.5, "b": 1 / 1.5}
    (row, *_), _ = lengths.study([source], 5, "base", PROTOCOL)
    assert row["mean"] == 3.0 and row["standard_error"] == 2.0
    with pytest.raises(UserError, match="has nothing of draft length 4"):
        lengths.prompt_lengths(source, 4)


def test_paired_differences_are_scipys_and_counts_add_up(measured):
    sources, rows, differences = measured
    for row in chosen(differences, estimator="rounds"):
        arms = {s.arm: s for s in sources if s.mode == row["mode"]}
        own, other = (
            lengths.prompt_lengths(arms[row[name]], 5)["rounds"] for name in ("arm", "against")
        )
        kept = [p for p in own if row["subset"] == "all" or p != "p3"]
        first, second = ([each[p] for p in kept] for each in (own, other))
        test = stats.ttest_rel(first, second)
        interval = test.confidence_interval(0.95)
        assert np.isclose(row["difference"], np.mean(first) - np.mean(second))
        assert np.isclose(row["t_p"], test.pvalue)
        assert np.allclose([row["t_lower"], row["t_upper"]], interval)
        assert row["up"] + row["down"] + row["ties"] == row["prompts"] == len(kept)
    compared = {(row["arm"], row["against"]) for row in differences}
    assert compared == {("even", "base"), ("odd", "base"), ("odd", "even")}
    assert {row["left_out_loops"] for row in chosen(rows, subset="loops_removed")} == {1}


def test_p_values_of_one_comparison_are_adjusted_together(measured):
    family = chosen(measured[2], against="base", subset="all", estimator="rounds")
    order = sorted(family, key=lambda row: row["t_p"])
    wanted = itertools.accumulate(
        (min(1.0, (len(order) - i) * row["t_p"]) for i, row in enumerate(order)), max
    )
    assert len(family) == 4  # two arms in two modes
    assert np.allclose([row["holm_p"] for row in order], list(wanted))


def test_case_81_arms_without_a_difference_and_single_prompts_have_a_stated_answer(tmp_path):
    sources = [write_source(tmp_path, arm, "cold", {"a": [3], "b": [2]}) for arm in ("base", "x")]
    row = lengths.study(sources, 5, "x", PROTOCOL)[1][0]
    assert (row["difference"], row["t_p"], row["sign_p"]) == (0.0, 1.0, 1.0)
    assert row["reason"] == "constant"
    sources = [write_source(tmp_path, arm, "cold", {"a": [3]}) for arm in ("base", "x")]
    row = lengths.study(sources, 5, "x", PROTOCOL)[1][0]
    assert row["t_p"] is None and row["standard_error"] is None
    assert row["reason"] == "one prompt: no interval"
    assert standard_error(np.array([1.0, 3.0])) == 1.0


def test_arms_on_other_prompts_are_not_compared(tmp_path):
    sources = [
        write_source(tmp_path, "base", "cold", {"a": [3], "b": [2]}),
        write_source(tmp_path, "x", "cold", {"a": [3]}),
    ]
    with pytest.raises(UserError, match="hold different prompts"):
        lengths.study(sources, 5, "x", PROTOCOL)


# ---- Accuracy ------------------------------------------------------------------------------------


def answers(right: dict[str, list[int]], mode: str = "warm") -> list[dict]:
    """By arm: which of the prompts it answers right."""
    return [
        {"prompt_id": f"p{i}", "sample": 0, "arm": arm, "domain": "math", "mode": mode}
        | {"correct": bool(value), "tokens_sha256": f"{arm if value else 'same'}"}
        for arm, values in right.items()
        for i, value in enumerate(values)
    ]


def test_mcnemar_is_statsmodels_and_counts_are_those_of_the_answers():
    numbers = np.random.default_rng(3)
    right = {arm: numbers.integers(0, 2, 30).tolist() for arm in ("target", "even", "odd")}
    rows = accuracy.study(answers(right), "even", {"warm": 0.7}, 0.95)
    for row in rows:
        own, other = np.array(right[row["arm"]]), np.array(right["even"])
        assert row["correct"] == own.sum() and row["accuracy"] == own.mean()
        if row["arm"] == "even":
            assert row["p"] is None and row["reason"] == "the control"
            continue
        table = [[int(((own == a) & (other == b)).sum()) for b in (1, 0)] for a in (1, 0)]
        exact = contingency_tables.mcnemar(table, exact=True)
        plain = contingency_tables.mcnemar(table, exact=False, correction=False)
        assert np.isclose(row["p"], exact.pvalue) and np.isclose(row["chi2"], plain.statistic)
        assert [row["only_own"], row["only_other"]] == [table[0][1], table[1][0]]
        assert row["same_text"] == int(((own == 0) & (other == 0)).sum())
    assert mcnemar([[1, 0], [0, 2]]).p == 1.0


def test_case_79_equal_answers_have_no_discordant_prompts():
    rows = accuracy.study(answers({"even": [1, 0], "odd": [1, 0]}), "even", {"warm": 1.0}, 0.95)
    assert (rows[1]["p"], rows[1]["chi2"], rows[1]["reason"]) == (1.0, 0.0, "no discordant pairs")
    with pytest.raises(UserError, match="answered different prompts"):
        accuracy.study(answers({"even": [1, 0], "odd": [1]}), "even", {"warm": 1.0}, 0.95)


def test_domains_are_shown_apart_and_together():
    both = answers({"even": [1, 0], "odd": [1, 1]})
    both += [row | {"domain": "logic"} for row in both]
    rows = accuracy.study(both, "even", {"warm": 1.0}, 0.95)
    assert [(r["domain"], r["prompts"]) for r in rows if r["arm"] == "odd"] == [
        ("math", 2), ("logic", 2), ("all", 4)
    ]  # fmt: skip


P = np.array([0.05, 0.45, 0.2, 0.3])
DRAFTS = [np.array(q) for q in ([0.25] * 4, [0.7, 0.1, 0.1, 0.1], [0.01, 0.01, 0.49, 0.49])]
RIGHT = [1, 3]  # ids that answer right


def emitted_law(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Of the first token of a round: q min(1, p/q), and the residual where the draft is rejected."""
    accepted = np.minimum(p, q)
    residual = np.maximum(p - q, 0)
    rest = 1 - accepted.sum()
    return accepted + (rest * residual / residual.sum() if rest > 0 else 0)


def test_accuracy_cannot_differ_in_law_whatever_the_draft():
    """The answer is a function of the text, and a lossless loop leaves the law of the text alone."""
    for q in DRAFTS:
        assert np.allclose(emitted_law(P, q), P)
        assert np.isclose(emitted_law(P, q)[RIGHT].sum(), P[RIGHT].sum())
    # The same of the decoder's own test, simulated; a rule that takes every draft shows.
    n = 1200
    both = torch.tensor(np.stack([P, P]))
    counts = []
    for number, q in enumerate(DRAFTS):
        rng = generator("accuracy", number)
        drafts = rng.choice(4, n, p=q)
        right = 0
        for draft in drafts:
            accepted, following = sampling.verify([int(draft)], torch.tensor(q)[None], both, rng)
            right += (int(draft) if accepted else following) in RIGHT
        counts.append(right)
        lossy = int(np.isin(drafts, RIGHT).sum())
        assert stats.binomtest(right, n, P[RIGHT].sum()).pvalue > 0.001
        assert stats.binomtest(lossy, n, P[RIGHT].sum()).pvalue < 1e-6
    table = [counts, [n - count for count in counts]]
    assert stats.chi2_contingency(table).pvalue > 0.001


# ---- Diagnostics -----------------------------------------------------------------------------------


def planted(prompts: int = 20, each: int = 40) -> Texts:
    """The arm `odd` accepts .2 more at triggers, and as much as the control elsewhere."""
    numbers = np.random.default_rng(5)
    size = prompts * each
    prompt = np.repeat(np.arange(prompts), each)
    reflection = numbers.random(size) < 0.15
    plain = numbers.uniform(0.2, 0.7, size)
    accept = {"e": plain, "o": plain + 0.2 * reflection, "b": plain - 0.05}
    entropy = numbers.exponential(size=size)
    return Texts([f"p{i}" for i in range(prompts)], prompt, entropy, reflection, accept)


ARMS = {"base": ("pb", "b"), "even": ("pe", "e"), "odd": ("po", "o")}
KEY = {"domain": "math", "mode": "warm", "decoding": "sample"}


def test_a_planted_gain_at_triggers_is_found_there_and_nowhere_else():
    texts = planted()
    rows = diagnostics.study(texts, ARMS, "even", 4, KEY, PROTOCOL)
    at = chosen(rows, arm="odd", level="reflection")[0]
    elsewhere = chosen(rows, arm="odd", level="other tokens")[0]
    assert np.isclose(at["difference"], 0.2) and at["difference_lower"] > 0.19
    assert elsewhere["difference"] == 0.0
    assert at["positions"] == int(texts.reflection.sum()) and at["prompts"] == 20
    assert np.isclose(at["mean"], texts.accept["o"][texts.reflection].mean())
    bins = chosen(rows, arm="base", factor="entropy")
    assert [row["positions"] for row in bins] == [200] * 4
    assert all(np.isclose(row["difference"], -0.05) for row in bins)
    assert all(a["high"] == b["low"] for a, b in itertools.pairwise(bins))


def test_texts_without_a_trigger_or_with_one_entropy_have_a_stated_answer():
    texts = planted(3, 5)
    texts = Texts(texts.prompts, texts.prompt, texts.entropy * 0, texts.reflection & False,
                  texts.accept)  # fmt: skip
    rows = diagnostics.study(texts, ARMS, "even", 4, KEY, PROTOCOL)
    at = chosen(rows, arm="odd", level="reflection")[0]
    assert at["mean"] is None and at["reason"] == "no trigger in these texts"
    assert [row["positions"] for row in chosen(rows, arm="odd", factor="entropy")] == [15]


def score_rows(drafts: dict[str, list[int]], emitted: list[int], prompt: str = "a") -> list[dict]:
    """Rows of schema scores under two laws; by draft its argmax at each position."""
    count = len(emitted)
    zeros = np.zeros(count, np.float32)
    columns = ("overlap", "draft_entropy", "kl", "log_q_target_argmax", "top2_gap", "uncommon_mass")
    return [
        {"prompt_id": prompt, "sample": 0, "draft": draft, "law": law, "token_ids": emitted}
        | dict.fromkeys(columns, zeros)
        | {"log_p": zeros - 0.5, "log_q": zeros - 1.5, "target_entropy": zeros + 2}
        | {"target_argmax": emitted, "draft_argmax": argmax, "draft_rank": [0] * count}
        | {"target_disagreement": [False] * (count - 1) + [law == "decoding"]}
        for draft, argmax in drafts.items()
        for law in ("decoding", "unwarped")
    ]


def test_diagnostics_read_scores_and_types_position_by_position(tmp_path):
    rows = score_rows({"b": [5, 6, 8], "e": [5, 6, 7]}, [5, 6, 7])
    records.write(tmp_path / "s.parquet", rows, "scores", {})
    types = {"prompt_id": "a", "sample": 0, "type": [0, 1, 0], "initial": [True] * 3}
    types |= {"whole": [True] * 3, "region": [0] * 3, "trigger": [-1, 0, -1]}
    records.write(tmp_path / "t.parquet", [types], "token_types", {})
    texts = diagnostics.read([tmp_path / "s.parquet"], tmp_path / "t.parquet", ["b", "e"], ["a"])
    assert texts.prompts == ["a"] and texts.reflection.tolist() == [False, True]
    assert np.allclose(texts.accept["b"], np.exp(-1)) and np.allclose(texts.entropy, 2)
    with pytest.raises(UserError, match="not every text is scored by x"):
        diagnostics.read([tmp_path / "s.parquet"], tmp_path / "t.parquet", ["b", "x"], ["a"])


# ---- What distillation gained -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def matched(tmp_path_factory):
    """Six prompts of ten tokens: 2 match before, 4 after (5 in one); one prompt loops."""
    folder = tmp_path_factory.mktemp("match")
    emitted = list(range(10))
    rows = []
    for i in range(6):
        after = 5 if i == 0 else 4
        guesses = {"u": 2, "d": after}
        rows += score_rows(
            {n: emitted[:k] + [99] * (10 - k) for n, k in guesses.items()}, emitted, f"p{i}"
        )
    records.write(folder / "s.parquet", rows, "scores", {})
    write_source(folder, "x", "cold", {f"p{i}": [10] for i in range(6)}, loops=("p5",))
    paths, loops = {"math": [folder / "s.parquet"]}, {"math": folder / "loops-cold.parquet"}
    return match.study(paths, loops, ("u", "d"), "cold", 0.1, PROTOCOL), paths, loops


def test_the_gain_is_paired_by_prompt_with_loops_removed(matched):
    rows, paths, loops = matched
    whole, removed = rows
    assert (whole["prompts"], removed["prompts"], removed["left_out_loops"]) == (6, 5, 1)
    assert np.isclose(removed["difference"], (0.3 + 4 * 0.2) / 5)
    assert np.isclose(removed["untrained"], 0.2) and removed["positions"] == 50
    assert removed["reached"] and removed["difference_lower"] > 0 and removed["up"] == 5
    strict = match.study(paths, loops, ("u", "d"), "cold", 0.3, PROTOCOL)
    assert not strict[1]["reached"]
    backwards = match.study(paths, loops, ("d", "u"), "cold", 0.1, PROTOCOL)
    assert not backwards[1]["reached"] and backwards[1]["difference"] < 0


# ---- Exhibits and the scorecard -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def frames(measured):
    _, rows, differences = measured
    found = accuracy.study(
        answers({"target": [1, 0, 1], "base": [1, 1, 1], "even": [1, 0, 0], "odd": [0, 0, 1]}),
        "even",
        {"warm": 0.7},
        0.95,
    )
    diagnosed = []
    for mode in ("cold", "warm"):
        diagnosed += diagnostics.study(planted(), ARMS, "even", 4, KEY | {"mode": mode}, PROTOCOL)
    content = {"lengths": rows, "differences": differences}
    content |= {"diagnostics": diagnosed, "accuracy": found}
    return {name: pd.DataFrame(each) for name, each in content.items()}


HISTORY = pd.DataFrame(
    {
        "step": [0, 10, 20],
        "tokens": [0, 900, 1800],
        "training_loss": [None, 3.0, 2.0],
        "held_out_kl": [5.0, 2.5, 2.6],
        "held_out_match": [0.0, 0.3, 0.29],
        "rate": [0.0, 0.1, 0.01],
        "best": [False, True, False],
    }
)


def test_tables_and_figures_are_written_whole(frames, matched, tmp_path):
    how = {"confidence": 0.95, "method": "studentized"}
    made = {
        "table4": tables.lengths(frames["lengths"], draft_length=5, **how),
        "table_differences": tables.differences(frames["differences"], **how),
        "table_accuracy": tables.accuracy(frames["accuracy"], confidence=0.95),
        "table_match": tables.match(pd.DataFrame(matched[0]), **how),
        "table_training": tables.training({"draft": HISTORY}),
    }
    for name, table in made.items():
        table.write(tmp_path / name)
        text = (tmp_path / f"{name}.md").read_text()
        assert "nan" not in text.lower().replace("explanation", "")
    text = (tmp_path / "table_accuracy.md").read_text()
    assert "cannot differ in law" in text
    assert "| base | 3 | 3 | 1.000 | 0.439 | 1.000 | 2 | 0 | 2.00 | 0.5 | 0 |" in text
    assert "math" in (tmp_path / "table4.md").read_text()
    with figures.style():
        for name, figure in (
            ("figure6", drawn.lengths(frames["lengths"], frames["differences"], control="even",
                                      confidence=0.95)),
            ("figure8", drawn.diagnostics(frames["diagnostics"], control="even", confidence=0.95)),
            ("figure1", drawn.distillation(HISTORY, pd.DataFrame(matched[0]), model="draft",
                                           confidence=0.95)),
        ):  # fmt: skip
            figures.save(figure, tmp_path / name, name)
            assert (tmp_path / f"{name}.svg").stat().st_size > 5000


def test_published_cells_find_our_values(frames):
    weightings = {"even": "uniform", "odd": "reflection"}
    found = Interventions(frames, weightings, {"greedy": "cold", "sample": "warm"})
    row = chosen(frames["lengths"].to_dict("records"), arm="odd", mode="warm", subset="all",
                 estimator="rounds")[0]  # fmt: skip
    cell = found.find("Table 4", "reflection-marked", "MAL sampling")
    assert (cell["value"], cell["n"]) == (row["mean"], 9)
    delta = found.find("Table 4", "reflection-marked", "delta greedy")
    assert delta["lower"] < delta["value"] < delta["upper"]
    missing = found.find("Table 4", "entropy-weighted", "delta greedy")
    assert "no entropy-weighted arm" in missing["missing_reason"]
    assert found.find("Table 4", "all arms", "McNemar chi2")["value"] == 0.0
    assert found.find("Figure 8", "intervention", "diagnostic problems")["value"] == 20
    assert holds("Abstract", "LoRA arms") and not holds("Abstract", "problems")


def test_the_scorecard_of_the_position_study_has_the_trained_drafts(frames):
    modes = {"cold": 0.0, "warm": 0.7}
    paired = pd.DataFrame(
        {"domain": "math", "decoding": ["greedy", "sample"], "mode": list(modes), "label": "same"}
    )
    condition = {"drafts": {"same": "d"}, "modes": modes}
    cells = {("Table 4", "base", "MAL greedy"): SimpleNamespace(unit="tokens")}
    weightings = {"even": "uniform", "odd": "reflection"}
    args = ({"paired": paired}, "math", condition, {"drafts": {"same": "d"}, "modes": {}})
    (without,) = Measurements(*args).rows(cells)
    assert without["value"] is None and "not part" in without["missing_reason"]
    (row,) = Measurements(*args, frames, weightings).rows(cells)
    wanted = chosen(frames["lengths"].to_dict("records"), arm="base", mode="cold", subset="all",
                    estimator="rounds")[0]  # fmt: skip
    assert (row["value"], row["n"]) == (wanted["mean"], 9)


# ---- Settings --------------------------------------------------------------------------------------------


@pytest.fixture
def laptop():
    return merged(LAPTOP, {"studies": ["position", "interventions"]})


def test_the_shipped_experiments_have_the_study():
    for experiment in (LAPTOP, merged(LAPTOP, PAPER)):
        found = load(merged(experiment, {"studies": ["interventions"]}), ROOT)
        assert len(found.interventions.pairs) >= 4
        assert not set(found.interventions.pairs) & set(found.pairs) - {"r1-7b-same-family"}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"control": "even"}, r"control 'even' is no label .*"),
        ({"control": "entropy"}, "has not the weighting uniform"),
        ({"draft_length": 4}, "draft_length 4 is not among draft_lengths"),
        ({"domain": "maths"}, "domain 'maths' is not among .*did you mean 'math'"),
        ({"accuracy": {"domains": ["code"]}}, "'code' has checker 'human_eval'"),
        ({"accuracy": {"prompts": 17}}, "wants 17 prompts of domain 'logic', which has 16"),
        ({"base": "smollm2-3bit"}, "is no adapter .*of 'smollm2-135m-3bit'"),
        ({"base": "smollm2-gptq-3bit"}, "has target 'smollm2-135m"),
        ({"arms": [{"label": "uniform", "pair": "smollm2-lora-uniform"}] * 2}, "stands twice"),
    ],
)
def test_a_study_that_cannot_be_is_refused_in_one_line(laptop, changed, message):
    with pytest.raises(UserError, match=message):
        load(merged(laptop, {"interventions": changed}), ROOT)


def test_an_experiment_without_the_study_need_not_fit_it(laptop):
    over = {"studies": ["position"], "interventions": {"draft_length": 4}}
    found = load(merged(laptop, over), ROOT)
    assert "draft_length 4" in found.interventions.problem and not found.interventions.pairs


def test_arms_that_differ_in_more_than_their_weighting_are_refused(laptop, tmp_path):
    rows = """
odd:
  kind: lora
  base: smollm2-135m-distilled
  target: smollm2-135m
  weighting: entropy
  rank: 9
  alpha: 16
  train: {domains: [{name: math, prompts: 8, max_new_tokens: 16}], temperature: 1, held_out: 0.2,
          steps: 2, batch: 1, lr: 0.1, warm_up: 0, evaluate_every: 1, patience: 1, seed: 1}
"""
    pairs = "odd: {target: smollm2-135m, draft: odd, draft_group: adapters}\n"
    laptop["registries"] = registries(tmp_path, models=rows, pairs=pairs)
    study = copy.deepcopy(laptop["interventions"])
    study["arms"][2]["pair"] = "odd"
    with pytest.raises(UserError, match="'uniform' and 'entropy' differ in rank"):
        load(laptop | {"interventions": study}, ROOT)


def test_the_experiments_own_scores_never_wait_for_an_adapter(laptop, tmp_path):
    pairs = "mine: {target: smollm2-135m, draft: smollm2-135m-3bit, draft_group: adapters}\n"
    laptop["registries"] = registries(tmp_path, pairs=pairs)
    laptop["pairs"] = ["mine", "smollm2-lookup"]
    laptop["position"]["configurations"][0]["pair"] = "mine"
    with pytest.raises(UserError, match="draft group 'adapters', which the experiment's own pairs"):
        load(laptop, ROOT)


def test_training_rows_that_are_measured_stop_the_experiment(laptop, tmp_path):
    domains = """
mine:
  source: reasoning_gym
  tasks: [gsm_symbolic]
  seed: 31415
  evaluation: [1000, 1100]
"""
    laptop["registries"] = registries(tmp_path, domains=domains)
    laptop["domains"] = [*laptop["domains"], {"name": "mine", "prompts": 8, "max_new_tokens": 8}]
    with pytest.raises(UserError, match="trained on prompts it is measured on.*domain 'mine'"):
        load(laptop, ROOT)
