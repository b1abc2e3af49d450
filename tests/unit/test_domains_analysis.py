"""The domains study on logs worked out by hand, on input without an answer, and end to end."""

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import statsmodels.formula.api as smf
from draftscope import records, schemas
from draftscope.domains import as_published, observations
from draftscope.domains.analysis import study
from draftscope.domains.cells import collect
from draftscope.domains.measures import Settings
from draftscope.domains.models import models
from draftscope.errors import UserError
from planted_nodes import Planted, simulate
from scipy import stats

ROOT = Path(__file__).parents[2]
SETTINGS = Settings(position_edge=2, entropy_bins=4, resamples=200, node_budgets=(2, 4),
                    cost_ratios=(0.1,), budget_depth=2, fewest_reached=1)  # fmt: skip
PLANTED = Planted({"chat": 1.0, "code": 0.2}, depth=(0, -0.2, -0.4), rank=-1.0, entropy=-0.4)


def log_of(ranks, alphas=None, domain="chat"):
    """A log of trees of 2 levels and 2 ranks from the rank of each text's token under the draft.

    Args:
        ranks: prompt -> rank of the text's token at each position; 0 for none of the two.
    """
    nodes, trees = [], []
    for prompt, text in ranks.items():
        for step in range(len(text)):
            key = {"prompt_id": prompt, "sample": 0, "step": step}
            rows = [(-1, 1, 1), (-1, 1, 2), (0, 2, 1), (0, 2, 2)][
                : 4 if step + 1 < len(text) else 2
            ]
            hits, path = [], 0
            for node, (parent, depth, rank) in enumerate(rows):
                reached = parent < 0 or hits[parent]
                hits.append(reached and text[step + depth - 1] == rank)
                path += hits[-1]
                alpha = 0.5 if alphas is None else alphas(prompt, step, depth, rank)
                nodes.append(
                    key
                    | {"node": node, "parent": parent, "depth": depth, "rank": rank, "token_id": 0}
                    | {"log_p": math.log(alpha) - 1, "log_q": -1.0}
                    | {"target_entropy": 0.1 * step, "draft_entropy": 0.2}
                    | {"offered": True, "parent_accepted": reached, "accepted": hits[-1]}
                )
            trees.append(
                key
                | {"nodes": len(rows), "offered_depth": max(row[1] for row in rows)}
                | {"accepted": path, "emitted": min(path + 1, len(text) - step)}
                | {"cut": step + 1 == len(text), "end": "continue"}
            )
    return {domain: (table(nodes, "nodes"), table(trees, "trees"))}


def table(rows, schema):
    return pa.Table.from_pylist(rows, schema=schemas.SCHEMAS[schema])


def find(rows, **key):
    (row,) = [row for row in rows if all(row[name] == value for name, value in key.items())]
    return row


@pytest.fixture(scope="module")
def by_hand():
    # a: ranks 1 1 2 1 0; b: ranks 0 1 1. Whole trees: all but the last of each text.
    def alpha(prompt, step, depth, rank):
        return (12 - 2 * step + depth - rank) / 20

    log = observations.observe(log_of({"a": [1, 1, 2, 1, 0], "b": [0, 1, 1]}, alpha))
    return log, study(log, SETTINGS)


def test_published_columns_by_hand(by_hand):
    log, rows = by_hand
    first = [(13 - 2 * s - r) / 20 for s in (0, 1, 2, 3, 4, 0, 1, 2) for r in (1, 2)]
    second = [(14 - 2 * s - r) / 20 for s in (0, 1, 2, 3, 0, 1) for r in (1, 2)]
    row = find(rows["rates"], domain="chat", measure="alpha")
    assert (row["nodes"], row["trees"], row["cut_trees"]) == (28, 8, 2)
    assert row["value"] == pytest.approx(np.mean(first + second), abs=1e-6)
    assert row["spread"] == pytest.approx(np.std(first + second, ddof=1), abs=1e-6)
    for depth, values in ((1, first), (2, second)):
        own = find(rows["depths"], domain="chat", depth=depth, measure="alpha")
        assert own["value"] == pytest.approx(np.mean(values), abs=1e-6)
        assert own["value"] == pytest.approx(as_published.profile(log, "chat")[depth - 1].value)
    length = np.mean(first) + np.mean(first) * np.mean(second)
    assert find(rows["lengths"], domain="chat", measure="product")["value"] == pytest.approx(
        length, abs=1e-6
    )
    change = find(rows["changes"], domain="chat", measure="alpha")
    assert change["pooled"] == pytest.approx(np.mean(second) - np.mean(first), abs=1e-6)
    late = find(rows["positions"], domain="chat", measure="alpha", depth=1)
    assert late["late"] == pytest.approx(np.mean([*first[4:10], *first[14:]]), abs=1e-6)
    assert (late["early_nodes"], late["late_nodes"]) == (8, 8)
    early, after = as_published.halves(log, "chat", 1, 2)
    assert (late["early"], late["late"]) == pytest.approx((early.value, after.value))


def test_corrected_columns_by_hand(by_hand):
    _, rows = by_hand

    def value(file, **key):
        return find(rows[file], domain="chat", **key)["value"]

    # whole trees of a at 0..3: paths 2, 2, 1, 1 (rank 2 has no children); of b at 0, 1: 0, 2
    assert value("lengths", measure="joint") == pytest.approx(8 / 6)
    assert value("lengths", measure="joint_macro") == pytest.approx((6 / 4 + 2 / 2) / 2)
    # chain: a 2, 1, 0, 1; b 0, 2
    assert value("lengths", measure="chain") == pytest.approx(6 / 6)
    assert value("rates", measure="walk_first") == pytest.approx(4 / 6)
    assert value("rates", measure="walk_first_macro") == pytest.approx((3 / 4 + 1 / 2) / 2)
    assert value("depths", depth=2, measure="walk_chain") == pytest.approx(2 / 4)
    assert value("depths", depth=2, measure="chain_joint") == pytest.approx(2 / 6)
    assert value("depths", depth=2, measure="path_joint") == pytest.approx(3 / 6)
    assert value("depths", depth=2, measure="walk_level") == pytest.approx(3 / 4)
    assert value("rates", measure="walk_nodes") == pytest.approx(8 / 24)
    # rounds of a start at 0 (accepts 2, emits 3), 3 (accepts 1, emits 2); of b at 0, 1
    row = find(rows["lengths"], domain="chat", measure="rounds_all")
    assert (row["trees"], row["value"], row["tokens_per_round"]) == (4, 5 / 4, 8 / 4)
    rate = find(rows["path_rates"], domain="chat", depth=2, rank=2)
    assert (rate["reached"], rate["accepted"]) == (4, 1)


def test_depth_is_compared_with_the_text_itself_by_hand(by_hand):
    _, rows = by_hand
    key = {"domain": "chat", "measure": "walk_chain", "depth": 2}
    # Reached at depth 2: a at 0, 1, 3 and b at 1. Rank 1 at depth 1: a 1 1 0 1 0, b 0 1 1.
    # The others of a without one accepted: (3 - 1) / 4; of b: (2 - 1) / 2.
    expected = np.mean([1 - 2 / 4, 0 - 2 / 4, 0 - 2 / 4, 1 - 1 / 2])
    found = find(rows["changes"], comparison="text", **key)
    assert found["difference"] == pytest.approx(expected)
    same = find(rows["changes"], comparison="position", **key)
    assert (same["difference"], same["prompts"], same["reason"]) == (0.0, 2, "constant")


def test_case_46_length_from_a_mean_rate():
    # Half the prompts accept everything, half nothing: the product of means halves too often.
    log = observations.observe(log_of({"a": [1] * 8, "b": [0] * 8}))
    rows = study(log, SETTINGS)["lengths"]
    assert find(rows, domain="chat", measure="chain")["value"] == pytest.approx(1.0)
    means = [find(study(log, SETTINGS)["depths"], domain="chat", depth=depth,
                  measure="chain_joint")["value"] for depth in (1, 2)]  # fmt: skip
    assert as_published.expected_length([means[0]] * 2) == pytest.approx(0.75)


def test_case_44_rates_are_conditional_and_their_products_joint():
    log = observations.observe(simulate(PLANTED, 10, 12, np.random.default_rng(1)))
    rows = study(log, SETTINGS)["depths"]
    rate = [find(rows, domain="chat", depth=d, measure="walk_chain")["value"] for d in (1, 2, 3)]
    joint = [find(rows, domain="chat", depth=d, measure="chain_joint")["value"] for d in (1, 2, 3)]
    assert np.cumprod(rate) == pytest.approx(joint)


def test_the_published_lengths_follow_from_the_published_depths():
    path = ROOT / "config" / "published" / "domains.csv"
    published = pd.read_csv(path)
    cells = published.set_index(["exhibit", "row", "column"])["value"].astype(float)
    printed = {"chat": 1.065, "code": 0.975, "reasoning": 0.956, "math": 0.914}
    for domain, length in printed.items():
        assert cells["Table II", domain, "E[L]"] == length
        shown = [cells["Table IV", domain, f"depth {depth}"] for depth in (1, 2, 3)]
        assert as_published.expected_length(shown) == pytest.approx(length, abs=0.002)
        for size, product in enumerate(as_published.chains(shown), start=1):
            assert cells["Table III", domain, f"chain length {size}"] == pytest.approx(
                product, abs=0.0015
            )
        exact = [
            cells["Repository results", domain, f"depth {depth} mean alpha"] for depth in (1, 2, 3)
        ]
        assert round(as_published.expected_length(exact), 3) == length


def test_the_models_are_those_of_a_formula_over_all_nodes():
    settings = replace(SETTINGS, position_edge=6, entropy_bins=9)
    log = observations.observe(simulate(PLANTED, 12, 12, np.random.default_rng(2)))
    found, _, coefficients = models(log, settings, ["walk"])
    rows = log.whole & log.reached
    cells = collect(log, settings, "walk")
    assert cells.trials.sum() == rows.sum() and cells.successes.sum() == log.accepted[rows].sum()
    rank = log.rank[rows] + 10 * log.below[rows]
    frame = pd.DataFrame({
        "y": log.accepted[rows].astype(int), "prompt": log.prompt[rows],
        "domain": log.prompt_domain[log.prompt[rows]], "depth": log.depth[rows], "rank": rank,
        "entropy": log.target_entropy[rows], "late": log.tree_step[log.tree[rows]] >= 6,
    })  # fmt: skip
    terms = ["C(domain)", "C(depth)", "C(rank)", "C(entropy)", "C(late)"]

    def by_formula(kept):
        import statsmodels.api as sm

        model = smf.glm(f"y ~ {' + '.join(kept)}", frame, family=sm.families.Binomial())
        return model.fit(cov_type="cluster", cov_kwds={"groups": frame.prompt})

    full, null = by_formula(terms), by_formula(["1"])
    domain = find(coefficients, factor="domain", level="code")
    assert domain["log_odds"] == pytest.approx(full.params["C(domain)[T.1]"], abs=1e-6)
    assert domain["log_odds_lower"] == pytest.approx(full.conf_int().loc["C(domain)[T.1]", 0])
    for factor, term in zip(("domain", "depth", "rank", "entropy", "position"), terms, strict=True):
        row = find(found, factor=factor)
        alone = by_formula([term])
        assert row["alone"] == pytest.approx(1 - alone.deviance / null.deviance, abs=1e-6)
        test = full.wald_test_terms(scalar=True).table.loc[term]
        assert (row["wald"], row["p"]) == pytest.approx((test["statistic"], test["pvalue"]), 1e-5)
    # An effect is the mean change of the chance when every node is put into the other domain.
    put = [full.predict(frame.assign(domain=number)).mean() for number in (1, 0)]
    assert domain["effect"] == pytest.approx(put[0] - put[1], abs=1e-6)
    # The dropped share, by hand: once without each prompt, less the bias of the jackknife.
    lost = []
    whole = frame
    for left in [None, *range(len(log.prompt_ids))]:
        frame = whole[whole.prompt != left]
        both = by_formula(terms), by_formula(terms[1:]), by_formula(["1"])
        lost.append((both[1].deviance - both[0].deviance) / both[2].deviance)
    bias = sum(
        11 * (np.mean([lost[1 + p] for p in np.flatnonzero(log.prompt_domain == d)]) - lost[0])
        for d in (0, 1)
    )
    assert find(found, factor="domain")["dropped"] == pytest.approx(lost[0] - bias, abs=1e-6)


def test_the_parts_of_the_paradox_add_up_and_follow_kitagawa():
    planted = replace(PLANTED, mixture={"chat": (0.1, 0.2, 0.3, 0.4)})
    log = observations.observe(simulate(planted, 10, 16, np.random.default_rng(3)))
    settings = replace(SETTINGS, entropy_bins=9)
    row = find(study(log, settings)["paradox"], other="code", outcome="alpha")
    assert row["highest"] == "chat" and row["entropy_difference"] > 0
    assert row["composition"] + row["at_equal_entropy"] == pytest.approx(row["difference"])
    shares, curves = [], []
    for domain in (0, 1):
        own = log.whole & (log.prompt_domain[log.prompt] == domain)
        entropy = np.unique(log.target_entropy[own], return_inverse=True)[1]
        shares.append(np.bincount(entropy) / own.sum())
        curves.append(np.bincount(entropy, log.alpha[own]) / np.bincount(entropy))
    expected = ((shares[0] - shares[1]) * (curves[0] + curves[1]) / 2).sum()
    assert row["composition"] == pytest.approx(expected)


def test_contrasts_have_the_p_value_of_welch_where_prompts_weigh_alike():
    log = observations.observe(simulate(PLANTED, 15, 10, np.random.default_rng(4)))
    row = find(study(log, SETTINGS)["contrasts"], measure="joint")
    means = np.bincount(log.tree_prompt, log.tree_accepted * log.tree_whole) / 8
    expected = stats.ttest_ind(means[:15], means[15:], equal_var=False)
    assert (row["difference"], row["p"]) == pytest.approx(
        (means[:15].mean() - means[15:].mean(), expected.pvalue)
    )
    assert row["difference_lower"] < row["difference"] < row["difference_upper"]


@pytest.mark.parametrize("kind", ["one prompt a domain", "all accepted", "none accepted",
                                  "one entropy", "one domain", "no prompts"])  # fmt: skip
def test_input_without_an_answer_has_a_reason(kind, tmp_path):
    rng = np.random.default_rng(5)
    planted, prompts = PLANTED, 4
    if kind == "one prompt a domain":
        prompts = 1
    elif kind in ("all accepted", "none accepted"):
        level = 60.0 if kind == "all accepted" else -60.0
        planted = replace(planted, domains={"chat": level, "code": level})
    elif kind == "one entropy":
        one = (0.0, 1.0, 0.0, 0.0)
        planted = replace(planted, mixture={"chat": one, "code": one})
    elif kind == "one domain":
        planted = replace(planted, domains={"chat": 1.0})
    tables = simulate(planted, prompts, 8, rng)
    if kind == "no prompts":
        tables = {name: tuple(each.slice(0, 0) for each in pair) for name, pair in tables.items()}
    rows = study(observations.observe(tables), SETTINGS)
    for name, added in rows.items():
        records.write(tmp_path / f"{name}.parquet", added, f"domains_{name}", {})  # refuses NaN
        main = {"rates": "value", "changes": "difference", "correlations": "rho",
                "curves": "value", "models": "alone", "paradox": "difference",
                "contrasts": "difference", "budgets": "tokens_per_round"}.get(name)  # fmt: skip
        for row in added:
            if main and row[main] is None:
                assert row["reason"], (name, row)
            ends = row.get(f"{main}_lower"), row.get(f"{main}_upper")
            if main and name != "models" and row.get("measure") != "pooled":
                assert (None not in ends) or row["reason"], (name, row)
    said = " ".join(str(row["reason"]) for added in rows.values() for row in added)
    expected = {
        "one prompt a domain": "one prompt",
        "all accepted": "constant",
        "none accepted": "constant",
        "one entropy": "one entropy",
        "one domain": "nothing to compare",
        "no prompts": "no prompt has trees",
    }[kind]
    assert expected in said


def test_case_87_a_domain_that_accepts_everything_is_unbounded_not_huge():
    planted = replace(PLANTED, domains={"chat": 0.5, "code": 60.0})
    log = observations.observe(simulate(planted, 6, 8, np.random.default_rng(6)))
    found, _, coefficients = models(log, SETTINGS, ["alpha"])
    row = find(coefficients, factor="domain", level="code")
    assert (row["log_odds"], row["p"], row["direction"]) == (None, None, 1)
    assert "unbounded" in row["reason"] and find(found, factor="domain")["wald"] is None
    chain = simulate(replace(PLANTED, rank=-500.0), 6, 8, np.random.default_rng(6))
    found, _, coefficients = models(observations.observe(chain), SETTINGS, ["walk"])
    row = find(coefficients, factor="rank", level="2")
    assert (row["log_odds"], row["log_odds_lower"], row["direction"]) == (None, None, -1)
    assert "perfect separation" in find(found, factor="rank")["reason"]
    assert row["effect"] < -0.3


def test_case_83_prompts_are_the_units():
    # Two prompts, constant within: two observations, whatever the number of nodes.
    log = observations.observe(log_of({"a": [1] * 60, "b": [0] * 60}))
    row = find(study(log, SETTINGS)["rates"], domain="chat", measure="walk_first")
    assert (row["value"], row["prompts"]) == (0.5, 2)
    assert (row["value_lower"], row["value_upper"]) == (0.0, 1.0)


def test_budgets_by_hand(by_hand):
    _, rows = by_hand
    # Rates: depth 1 rank 1 4/6, rank 2 1/6; depth 2 rank 1 2/4, rank 2 1/4.
    found = find(rows["budgets"], domain="chat", kind="tree", rule="nodes", budget=4)
    assert json.loads(found["paths"]) == [[1], [2], [1, 1], [1, 2]]
    first, second = 4 / 6, 1 / 6
    assert found["tokens_per_round"] == pytest.approx(1 + first + second + first * (2 + 1) / 4)
    # In the log itself: paths of 2, 2, 1, 1, 0 and 2 nodes, all inside this shape.
    assert (found["in_log"], found["extrapolated"]) == (pytest.approx(1 + 8 / 6), False)
    fast = find(rows["budgets"], domain="chat", kind="chain", rule="cost")
    one, two = (1 + first) / 1.1, (1 + first + first / 2) / 1.2
    assert two > one and fast["depth"] == 2
    assert fast["speedup"] == pytest.approx(two)
    # A chain longer than the log's trees takes the last rate that was measured, and says so.
    log = observations.observe(log_of({"a": [1] * 9 + [0], "b": [1] * 9 + [2]}))
    deep = study(log, replace(SETTINGS, budget_depth=5))["budgets"]
    long = find(deep, domain="chat", kind="chain", rule="cost")
    assert (long["depth"], long["extrapolated"], long["in_log"]) == (5, True, None)
    assert long["tokens_per_round_lower"] <= long["tokens_per_round"]


def test_logs_that_do_not_fit_are_refused():
    nodes, trees = log_of({"a": [1, 1, 2], "b": [0, 1]})["chat"]
    with pytest.raises(UserError, match="nodes without their tree.*prompt b, sample 0, step 1"):
        observations.observe({"chat": (nodes, trees.slice(0, 4))})
    with pytest.raises(UserError, match=r"another number of nodes \(chat: prompt a"):
        observations.observe({"chat": (nodes.slice(1), trees)})
    longer = trees.set_column(
        trees.schema.get_field_index("accepted"), schemas.SCHEMAS["trees"].field("accepted"),
        pa.array([1, 2, 1, 0, 1], pa.int16()),
    )  # fmt: skip
    with pytest.raises(UserError, match="accepted path has another length"):
        observations.observe({"chat": (nodes, longer)})
    with pytest.raises(UserError, match="two trees at one position"):
        observations.observe({"chat": (nodes, pa.concat_tables([trees, trees]))})


def test_the_script_reads_files_in_any_order_and_names_what_is_wrong(tmp_path):
    tables = simulate(PLANTED, 3, 6, np.random.default_rng(7))
    paths = {"nodes": [], "trees": []}
    for domain, pair in tables.items():
        for schema, content in zip(paths, pair, strict=True):
            path = tmp_path / f"{domain}.{schema}.parquet"
            records.write(path, content, schema, {"domain": domain, "target": "t"})
            paths[schema].append(str(path))

    def run(domains, nodes):
        settings = {"domains": domains, "position_edge": 3, "entropy_bins": 3, "resamples": 100}
        return subprocess.run(
            [sys.executable, ROOT / "scripts" / "domain_statistics.py", "--settings",
             json.dumps(settings), "--nodes", *nodes, "--trees", *paths["trees"],
             "--folder", tmp_path / "out"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    done = run(["code", "chat"], paths["nodes"][::-1])
    assert done.returncode == 0, done.stderr
    written = records.read(tmp_path / "out" / "rates.parquet", "domains_rates")
    assert list(dict.fromkeys(written["domain"].to_pylist())) == ["code", "chat", "all"]
    assert records.condition(written)["statistics"]["resamples"] == 100
    assert "domain" not in records.condition(written)
    wrong = run(["code", "maths"], paths["nodes"])
    assert wrong.returncode == 2 and "'chat'; the study has code, maths" in wrong.stderr
