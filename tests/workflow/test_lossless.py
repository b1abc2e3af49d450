"""The lossless study on tiny models: built on demand, complete, and judged by its own tests."""

import re

import pytest
from draftscope import records
from draftscope.exhibits.tables import read_table
from draftscope.lossless import schemas
from tiny_project import Project

pytestmark = pytest.mark.workflow

WITH_LOSSLESS = ("--config", "studies=[position,lossless]")
TABLES = (
    "configurations", "sweep", "positions", "phases", "verify_latency", "batch", "equivalence",
    "greedy", "replay",
)  # fmt: skip


@pytest.fixture(scope="module")
def studied(finished: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The tiny experiment with both studies; do not change it."""
    project = finished.copy(tmp_path_factory.mktemp("lossless") / "a project")
    project.run("--cores", "2", *WITH_LOSSLESS)
    return project


def statistics(project: Project, name: str):
    folder = project.folder / "results/tiny/statistics/lossless"
    return records.read(folder / f"{name}.parquet", f"lossless_{name}").to_pandas()


def test_a_plain_run_decodes_nothing_live(finished):
    assert not (finished.folder / "results/tiny/live").exists()
    assert "Nothing to be done" in finished.run("-n")


def test_every_exhibit_is_there_and_in_the_report(studied):
    results = studied.folder / "results/tiny"
    for name in TABLES:
        for kind in ("csv", "md", "tex"):
            assert (results / f"exhibits/lossless/{name}.{kind}").stat().st_size > 0
        assert len(read_table(results / f"exhibits/lossless/{name}.csv"))
    for number in range(1, 6):
        assert (results / f"exhibits/lossless/figure{number}.svg").stat().st_size > 0
    page = (results / "report.html").read_text(encoding="utf-8")
    assert "Lossless decoding and its speed" in page
    card = read_table(results / "scorecard.csv")
    assert (card["study"] == "lossless").sum() == 169
    assert schemas.LENGTH.name in page


def test_nothing_generated_or_scored_is_touched_by_the_study(studied, finished):
    assert studied.plan(*WITH_LOSSLESS) == {}
    one, other = (p.folder / "results/tiny/scores" for p in (studied, finished))
    paths = sorted(path.relative_to(one) for path in one.rglob("*.parquet"))
    assert paths and all((one / p).read_bytes() == (other / p).read_bytes() for p in paths)


def test_greedy_live_texts_are_plain_ones_and_replay_gives_their_rounds(studied):
    greedy = statistics(studied, "greedy")
    exact = greedy[greedy["dtype"] == "float32"]
    assert len(exact) and exact["identical"].all()
    replay = statistics(studied, "replay")
    certain = replay[replay["same_rounds"].notna()]
    assert len(certain) == 4
    assert (certain["same_rounds"] == certain["texts"]).all()
    assert (certain["difference"] == 0).all() and (certain["p"] == 0).all()


def test_flips_of_a_narrow_type_come_with_the_gap_at_which_they_happen(studied):
    greedy = statistics(studied, "greedy")
    narrow = greedy[greedy["dtype"] == "bfloat16"]
    assert (narrow["prompt_id"].nunique(), set(narrow["draft_length"])) == (4, {2})
    assert (narrow["gap"].notna() == ~narrow["identical"]).all()
    replay = statistics(studied, "replay")
    assert not replay[["pair", "mode", "draft_length"]].duplicated().any()


def test_live_and_replay_share_a_law_where_chance_is_left(studied):
    sampled = statistics(studied, "replay")
    sampled = sampled[sampled["same_rounds"].isna()]
    assert len(sampled) == 3
    assert (sampled["replays"] == 20).all()
    # Twenty replays put no p-value below 1/21; a few tests of a right loop are rarely all there.
    assert sampled["length_p"].max() > 1 / 21


def test_texts_in_batches_are_those_decoded_alone(studied):
    batch = statistics(studied, "batch")
    assert list(batch["batch_size"]) == [1, 1, 3]
    assert batch["engine"].nunique() == 2
    assert (batch["identical"] == batch["texts"]).all() and set(batch["texts"]) == {12}
    assert list(batch["batches"]) == [6, 6, 2]
    assert (batch["tokens_per_second"] > 0).all() and (batch["speedup"] > 0).all()


def test_correct_decoders_pass_on_every_level(studied):
    tests = statistics(studied, "equivalence")
    assert set(tests["level"]) == {1, 2, 3}
    correct = tests[tests["correct"]]
    # Some forty tests at a level of 1%: one false alarm may happen, two should not.
    assert correct["rejected"].sum() <= 1
    caught = tests[~tests["correct"] & tests["rejected"]]
    assert "accept_everything" in set(caught["rule"])


def test_more_draft_lengths_leave_the_generated_text_alone(studied, tmp_path):
    project = studied.copy(tmp_path / "longer")
    project.edit(
        "tiny/config.yaml", "    - 4\n    published: mixed_3b", "    - 3\n    published: mixed_3b"
    )
    jobs = project.plan(*WITH_LOSSLESS)
    assert jobs["live_decode"] == 1 and jobs["lossless_scores"] == 1
    assert not {"generate", "score", "verify_latency"} & jobs.keys()


def test_the_paths_of_a_live_run_name_pair_domain_and_mode(studied):
    live = studied.folder / "results/tiny/live"
    names = sorted(str(path.relative_to(live)) for path in live.rglob("timings.parquet"))
    assert len(names) == 6
    pattern = r"(speed|law|divergence)/(copy|lookup)/small/(warm|cold)/timings.parquet"
    assert all(re.fullmatch(pattern, name) for name in names)
