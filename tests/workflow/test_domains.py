"""The domains study on tiny models: built on demand, complete, and beside what is there already."""

import json

import draftscope.domains.schemas
import draftscope.lossless.schemas
import draftscope.tree.schemas  # noqa: F401  all three register the schemas of their files
import pytest
from draftscope import records
from draftscope.domains.files import FILES
from draftscope.exhibits.tables import read_table
from tiny_project import Project

pytestmark = pytest.mark.workflow

WITH_DOMAINS = ("--config", "studies=[position,domains]")
RESULTS = "results/tiny"


@pytest.fixture(scope="module")
def studied(finished: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The tiny experiment with the domains study; do not change it."""
    project = finished.copy(tmp_path_factory.mktemp("domains") / "a project")
    project.run("--cores", "2", *WITH_DOMAINS)
    return project


def test_the_study_generates_only_the_text_that_is_not_there(finished):
    jobs = finished.plan("--", "domains")
    assert jobs["collect_prompts"] == 2 and jobs["generate"] == 2
    assert jobs["tree_nodes"] == 4
    assert not {"score", "find_loops", "replay_rounds"} & jobs.keys()


def test_every_exhibit_is_there_and_in_the_report(studied):
    results = studied.folder / RESULTS
    exhibits = results / "exhibits/domains"
    for number in range(1, 7):
        for kind in ("csv", "md", "tex"):
            assert (exhibits / f"table{number}.{kind}").stat().st_size > 0
        assert {"small", "raw"} & set(read_table(exhibits / f"table{number}.csv")["domain"])
    for number in range(1, 5):
        assert (exhibits / f"figure{number}.svg").stat().st_size > 0
    for name in FILES:
        path = results / f"statistics/domains/{name}.parquet"
        assert records.read(path, f"domains_{name}").num_rows
    page = (results / "report.html").read_text(encoding="utf-8")
    for sentence in read_table(exhibits / "findings.csv")["statement"]:
        assert f"<li>{sentence}</li>" in page
    card = read_table(results / "scorecard.csv")
    own = card[card["study"] == "domains"]
    assert (own["measured"] != "").any() and (own["why"] != "").all()
    assert studied.plan(*WITH_DOMAINS) == {}


def test_a_tree_stands_at_every_token_that_the_study_takes(studied):
    trees = studied.folder / RESULTS / "trees/copy"
    for domain, prompts, tokens in (("small", 5, 16), ("raw", 6, 12)):
        rows = []
        for path in sorted((trees / domain / "cold").glob("*.trees.parquet")):
            rows += records.read(path, "trees").to_pylist()
        steps: dict[str, list[int]] = {}
        for row in rows:
            steps.setdefault(row["prompt_id"], []).append(row["step"])
        assert len(steps) == prompts
        assert all(found == list(range(len(found))) for found in steps.values())
        assert max(map(len, steps.values())) <= tokens


def test_sampled_trees_keep_the_law_and_the_controls_do_not(studied):
    path = studied.folder / RESULTS / "statistics/domains/equivalence.parquet"
    tests = records.read(path, "lossless_equivalence").to_pandas()
    assert tests[tests["correct"]]["rejected"].sum() <= 1
    assert tests[~tests["correct"]]["rejected"].any()


def test_raw_prompts_are_cut_where_only_the_trees_read_them(finished, tmp_path):
    project = finished.copy(tmp_path / "cut")
    only = {"prompt_tokens": 8, "domains": [{"name": "raw", "prompts": 6, "max_new_tokens": 12}]}
    with_trees = ("--config", f"trees={json.dumps(only)}")
    path = f"{RESULTS}/prompts_cut/tiny/raw/0000.parquet"
    text = f"{RESULTS}/trajectories/tiny/raw/cold/0000.parquet"
    project.run("--cores", "1", path, text, *with_trees)
    assert records.condition(project.folder / path)["prompt_tokens"] == 8
    rows = records.read(project.folder / text, "trajectories").to_pylist()
    assert {len(row["prompt_token_ids"]) for row in rows} == {8}
