"""The certificates study on tiny models: what is recorded, counted, shown and measured."""

import math
from pathlib import Path

import certificate_exhibits
import certificate_files
import numpy as np
import pandas as pd
import pytest
import torch
from draftscope import certificates, records
from draftscope.certificate_study import draft_tables, lookup, measurements, recording, schemas
from draftscope.certificate_study import log as recorded
from draftscope.certificate_study.draft_side import certified
from draftscope.certificate_study.resampling import Settings, quantiles
from draftscope.certificate_study.target_side import run_lengths
from draftscope.criteria import Criterion
from draftscope.errors import UserError
from draftscope.exhibits import published
from draftscope.logits import hidden_states, logits_of
from draftscope.prompts.digests import digests
from loading import load_tiny
from scipy import special

ROOT = Path(__file__).resolve().parents[2]
CRITERIA = [Criterion.of(row) for row in certificate_files.CRITERIA]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = certificate_files.make(tmp_path_factory.mktemp("certificates"))
    yield made
    # The scripts prefer deterministic kernels; that is a setting of the whole process.
    torch.use_deterministic_algorithms(False)
    torch.utils.deterministic.fill_uninitialized_memory = True


@pytest.fixture(scope="module")
def found(folder):
    return lookup.read([folder / "statistics" / f"{name}.parquet" for name in schemas.FILES])


def distributions(folder, name):
    """T=1 distributions of a model at every recorded position, in float64."""
    model = load_tiny(folder / f"{name}-files", name)
    out = []
    with torch.inference_mode():
        for row in records.read(folder / "trajectories.parquet", "trajectories").to_pylist():
            ids = [*row["prompt_token_ids"], *row["token_ids"][:12]]
            states = hidden_states(model, torch.tensor(ids[:-1]))[
                len(row["prompt_token_ids"]) - 1 :
            ]
            out.append(logits_of(model, states).double())
    logits = torch.cat(out)
    return torch.softmax(logits, -1).numpy(), logits.numpy()


@pytest.fixture(scope="module")
def p(folder):
    return distributions(folder, "target")[0]


def test_recorded_certificates_are_those_of_the_whole_distributions(folder, p):
    (log,), _ = recorded.load([str(folder / "targets.parquet")], [str(folder / "drafts.parquet")])
    assert len(log) == len(p) == 5 * 12
    for criterion in CRITERIA:
        # The shape of a pass moves logits in the seventh digit.
        wanted = certificates.of_criterion(p, criterion)
        assert np.allclose(log.values(criterion), wanted, rtol=1e-3, atol=1e-6)
        bound, exact = log.lower_bounds(criterion), log.values(criterion)
        finite = np.isfinite(exact)
        assert (bound[finite] <= exact[finite] + 1e-12).all()
    assert np.allclose(log.entropy, special.entr(p).sum(-1), rtol=1e-5)
    assert np.allclose(log.mass(3), np.sort(p, -1)[:, -3:].sum(-1), rtol=1e-5)


@pytest.mark.parametrize("name", ["near", "far"])
def test_the_kl_of_a_draft_is_that_of_its_definition(folder, p, name):
    table = records.read(folder / "drafts.parquet", "certificate_drafts").to_pandas()
    own = table[table["draft"] == name]
    q, logits = distributions(folder, name)
    assert np.allclose(own["kl"], special.rel_entr(p, q).sum(-1), rtol=1e-4, atol=1e-7)
    assert np.array_equal(own["drafted"], logits.argmax(-1))
    assert np.allclose(own["p_drafted"], p[np.arange(len(p)), logits.argmax(-1)], rtol=1e-5)
    best = p.argmax(-1)[:, None]
    wanted = (logits >= np.take_along_axis(logits, best, -1)).sum(-1) - 1
    assert np.array_equal(own["draft_rank"], wanted)
    assert (own["uncommon_mass"] == 0).all()


def test_a_recording_is_deep_enough_by_itself(p):
    rows = torch.from_numpy(p)
    entropy = torch.special.entr(rows).sum(-1)
    wide = [Criterion("multiplicative", a=0.1), Criterion("tree", m=3)]
    kept = recording.kept(rows, entropy, wide, 5)
    assert min(map(len, kept)) >= 5 and len({len(top) for top in kept}) > 1
    for top, own in zip(kept, p, strict=True):
        assert np.array_equal(top, np.sort(own)[::-1][: len(top)])


def test_tokens_that_only_one_side_has():
    p = torch.tensor([[0.5, 0.3, 0.2]]).double()
    logits = torch.tensor([[2.0, 2.0]])
    narrow = recording.compare(
        p, p.log(), logits, torch.log_softmax(logits.double(), -1), p.argmax(-1)
    )
    assert narrow["kl"] == math.inf and narrow["uncommon_mass"] == pytest.approx(0.2)
    # Two tokens tie at the top of q: the worse of them counts, and one stands beside x0.
    assert narrow["p_drafted"] == pytest.approx(0.3) and narrow["draft_rank"] == 1
    wider = torch.tensor([[1.0, 0.0, 0.0, 3.0]])
    wide = recording.compare(p, p.log(), wider, torch.log_softmax(wider.double(), -1), p.argmax(-1))
    q = torch.softmax(wider.double(), -1)[0, :3].numpy()
    assert wide["kl"] == pytest.approx(special.rel_entr(p[0].numpy(), q).sum())
    assert wide["p_drafted"] == 0.0 and wide["draft_rank"] == 1
    masked = torch.tensor([[-math.inf, 1.0, 1.0]])
    none = recording.compare(
        p, p.log(), masked, torch.log_softmax(masked.double(), -1), p.argmax(-1)
    )
    assert none["kl"] == math.inf and none["draft_rank"] == 2
    assert none["uncommon_mass"] == pytest.approx(0.5)


def test_every_certified_proposal_was_accepted(found):
    rows = found.rows("drafts")
    assert {row["pair"] for row in rows} == {"near-pair", "far-pair"}
    assert all(row["violations"] == 0 for row in rows)
    sure = [row for row in rows if row["certified_positions"]]
    assert sure and all(row["accepted_certified"] == 1.0 for row in sure)
    near, far = (found.rows("drafts", pair=name, criterion="strict greedy")[0]
                 for name in ("near-pair", "far-pair"))  # fmt: skip
    assert near["certified"] > far["certified"] and near["kl_median"] < far["kl_median"]
    assert far["accepted_uncertified"] is not None
    for row in rows:
        if row["explained"] is not None:
            assert row["explained"] <= 1.0
        assert row["certified_positions"] == round(row["certified"] * row["positions"])


def test_bins_hold_every_position_once(found):
    for by in ("margin", "entropy", "ratio"):
        rows = found.rows("bins", pair="near-pair", criterion="strict greedy", by=by)
        assert sum(row["positions"] for row in rows) == 60
    below = [row for row in found.rows("bins", by="ratio") if row["upper_edge"] <= 1]
    assert any(row["positions"] for row in below)
    assert all(row["accepted"] == 1.0 for row in below if row["positions"])


def test_a_violated_certificate_fails_the_run(folder):
    table = records.read(folder / "drafts.parquet", "certificate_drafts")
    frame = table.to_pandas()
    wrong = frame.index[(frame["draft"] == "far") & (frame["draft_rank"] > 0)][0]
    frame.loc[wrong, "kl"] = 0.0
    columns = {name: frame[name].to_numpy() for name in frame.columns}
    records.write(
        folder / "broken.parquet", columns, "certificate_drafts", records.condition(table)
    )
    with pytest.raises(UserError, match="certificate violated: target on chat, strict greedy"):
        certificate_files.statistics(folder, drafts="broken.parquet", output="broken")
    assert not (folder / "broken").exists()


def test_recordings_that_do_not_belong_together_are_refused(folder):
    certificate_files.record(folder, "short-", **certificate_files.RECORD | {"max_new_tokens": 6})
    with pytest.raises(UserError, match="were not recorded together"):
        recorded.load([str(folder / "targets.parquet")], [str(folder / "short-drafts.parquet")])


def test_certified_needs_the_tolerance_and_no_tie():
    kl = np.array([0.1, 0.1 - 1e-12, 0.0, 0.0, math.inf, math.inf])
    certificate = np.array([0.1, 0.1, 0.1, 0.0, 0.5, math.inf])
    assert list(certified(kl, certificate, 1e-9)) == [False, False, True, False, False, True]


def test_runs_end_at_the_first_uncertified_position_the_text_and_the_cap():
    flags = np.array([1, 1, 0, 1, 1, 0, 1], bool)
    text = np.array([0, 0, 0, 0, 1, 1, 1])
    assert list(run_lengths(flags, text, 100)) == [3, 2, 1, 1, 2, 1, 1]
    assert list(run_lengths(np.ones(5, bool), np.zeros(5), 3)) == [3, 3, 3, 2, 1]


def test_runs_of_independent_positions_follow_the_closed_form():
    rng = np.random.default_rng(4)
    fail, length, texts = 0.2, 128, 800
    flags = rng.random(length * texts) >= fail
    found = run_lengths(flags, np.repeat(np.arange(texts), length), 100).mean()
    left = np.minimum(np.arange(1, length + 1), 100)
    assert found == pytest.approx(((1 - (1 - fail) ** left) / fail).mean(), rel=0.02)


def test_quantiles_are_values_and_their_intervals_cover():
    rng = np.random.default_rng(8)
    hits, studies = 0, 60
    for study in range(studies):
        level = rng.normal(size=30)
        values = (level[:, None] + rng.normal(size=(30, 20))).ravel()
        prompt = np.repeat(np.arange(30), 20)
        row, missing = quantiles(
            values, prompt, {"median": 0.5}, Settings(resamples=200, seed=study)
        )
        assert not missing and row["median"] in values
        hits += row["median_lower"] <= 0 <= row["median_upper"]
    # A percentile interval of 95% that covered in fewer than 48 of 60 would be none.
    assert hits >= 48
    row, missing = quantiles(np.array([1.0, math.inf]), np.zeros(2, int), {"p5": 0.05}, Settings())
    assert row["p5"] == 1.0 and row["p5_lower"] is None and "one prompt" in missing["p5"]


def test_relaxed_rules_are_lossy_everywhere_and_caught(found):
    rows = found.rows("relaxed")
    assert {row["source"] for row in rows} == {"live", "replay"}
    assert all(row["lossless"] == (row["rule"] == "greedy") for row in rows)
    live = {row["rule"]: row for row in found.rows("relaxed", source="live")}
    assert live["greedy"]["same_text"] == 5 and live["greedy"]["own"] == 1.0
    assert live["greedy"]["cost"] == 0.0 and live["greedy"]["gain"] == 0.0
    lossy = [row for row in live.values() if not row["lossless"]]
    assert len(lossy) == 4 and all(row["own"] < 1.0 for row in lossy)
    replay = {row["rule"]: row for row in found.rows("relaxed", source="replay")}
    assert all(row["gain"] >= 0 for row in replay.values())
    tests = found.rows("equivalence")
    assert all(row["rejected"] != row["correct"] for row in tests)
    assert sum(not row["correct"] for row in tests) == 8


def test_a_lossy_rule_that_the_test_did_not_see_is_named(found):
    assert draft_tables.caught(found) == "the test of losslessness rejects them"
    rows = found.rows("equivalence")
    name = next(row["rule"] for row in rows if not row["correct"])
    unseen = [row | {"rejected": row["rejected"] and row["rule"] != name} for row in rows]
    relaxed = found.rows("relaxed")
    blind = lookup.Statistics({"equivalence": unseen, "relaxed": relaxed}, found.settings)
    said = draft_tables.caught(blind)
    assert said.endswith(f"rejects 3 of 4 of them; at its size it did not see that {name} is")
    assert said in draft_tables.relaxed(blind).notes[0]


def test_rounds_of_live_relaxed_decoding_say_that_they_are_lossy(folder):
    rounds = records.read(folder / "rounds.parquet", "rounds")
    prompts = records.read(folder / "prompts.parquet", "prompts").to_pylist()
    assert records.prompt_digests(rounds) == digests(prompts)
    table = rounds.to_pandas()
    assert set(table["source"]) == {"live"} and table["rule"].nunique() == 5
    assert (table["lossless"] == (table["rule"] == "greedy")).all()


def test_replay_of_greedy_is_the_live_loop(found):
    # The live texts continue other prompts than the recorded ones, so the laws agree, not the texts:
    # both stay within what a draft length of 3 allows.
    for source in ("live", "replay"):
        (row,) = found.rows("relaxed", source=source, rule="greedy")
        assert 1.0 <= row["acceptance_length"] <= 4.0


def test_exhibits_say_no_nan_and_stand_in_full(folder):
    out = folder / "exhibits"
    paths = [folder / "statistics" / f"{name}.parquet" for name in schemas.FILES]
    certificate_files.call(certificate_exhibits, "--statistics", *paths, "--folder", out)
    assert len(list(out.glob("*.csv"))) == 11 and len(list(out.glob("*.svg"))) == 4
    for path in out.glob("*.md"):
        text = path.read_text(encoding="utf-8")
        assert "nan" not in text.lower().replace("mean", "").split(), path
    sentences = pd.read_csv(out / "findings.csv")["statement"]
    assert sentences.str.contains("never rejected").any()
    table = (out / "table_relaxed.md").read_text(encoding="utf-8")
    assert "lossy" in table


def test_every_published_cell_is_measured_or_says_why_not(found):
    cells = published.load(ROOT / "config/published/certificates.csv")
    conditions = measurements_condition()
    looked = measurements.Measurements(found, {"Qwen3-1.7B": "target"}, "chat", *conditions)
    rows = looked.rows(cells)
    assert len(rows) == len(cells)
    for row in rows:
        assert (row["value"] is None) == (row["missing_reason"] is not None), row
        assert row["value"] is None or math.isfinite(row["value"])
    by_key = {(row["exhibit"], row["row"], row["column"]): row for row in rows}
    strict = by_key["Table 2", "strict greedy", "Qwen3-1.7B median"]
    (own,) = found.rows("values", criterion="strict greedy")
    assert strict["value"] == own["median"] and not strict["condition_matches"]
    typical = by_key["Table 2", "Medusa e0=0.1 d0=0.09", "Qwen3-1.7B p5"]
    assert typical["value"] is not None
    assert by_key["Table 2", "strict greedy", "Qwen3-4B median"]["value"] is None
    ceiling = by_key["Theorem 5.3", "tree m=4", "certificate ceiling"]
    assert ceiling["value"] == pytest.approx(math.log(5)) and ceiling["condition_matches"]
    narrow = by_key["Table 4", "top-m additive t=0.1", "Qwen3-1.7B m=2 p5"]
    assert narrow["value"] is not None


def measurements_condition():
    theirs = {
        "targets": {"Qwen3-1.7B": "Qwen/Qwen3-1.7B", "Qwen3-4B": "Qwen/Qwen3-4B"},
        "temperature": 0.0,
        "data": "HuggingFaceH4/ultrachat_200k",
        "prompts": 500,
        "min_prompt_tokens": 64,
        "max_new_tokens": 128,
        "chat_template": True,
    }
    run = theirs | {"targets": {"Qwen3-1.7B": "target"}, "data": "chat", "prompts": 5}
    return run, theirs


def test_intervals_stay_within_what_is_possible(found):
    for file, shares in (
        ("drafts", ("certified", "accepted", "accepted_certified", "explained")),
        ("bins", ("certified", "accepted")),
        ("mass", ("mean", "median")),
        ("relaxed", ("own", "right")),
    ):
        for row in found.rows(file):
            for name in shares:
                if row[f"{name}_lower"] is not None:
                    assert 0 <= row[f"{name}_lower"] <= row[f"{name}_upper"] <= 1, (file, row)
    for row in found.rows("runs"):
        assert row["run_lower"] is None or row["run_lower"] >= 1
        if row["uncut_lower"] is not None:
            assert 1 <= row["uncut_lower"] <= row["uncut"] <= row["uncut_upper"]
