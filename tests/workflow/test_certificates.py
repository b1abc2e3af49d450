"""The certificates study on tiny models: built on demand, from text that is there and from its own."""

import json

import draftscope.certificate_study.record_schemas
import draftscope.exhibits.measurement
import draftscope.lossless.schemas  # noqa: F401
import pandas as pd
import pytest
from draftscope import records
from draftscope.certificate_study.schemas import FILES

pytestmark = [pytest.mark.slow, pytest.mark.workflow]
STUDY = ("--cores", "2", "--", "certificates")


@pytest.fixture(scope="module")
def studied(finished, tmp_path_factory):
    """The tiny experiment with the certificates study; do not change it."""
    project = finished.copy(tmp_path_factory.mktemp("certificates") / "of it")
    project.run(*STUDY)
    return project


def test_every_exhibit_is_there_and_nothing_runs_twice(studied):
    folder = studied.folder / "results/tiny"
    assert len(list((folder / "exhibits/certificates").glob("*.csv"))) == 11
    assert len(list((folder / "exhibits/certificates").glob("*.svg"))) == 4
    assert studied.plan("--", "certificates") == {}


def test_text_that_is_there_is_taken_and_other_text_is_made(studied):
    folder = studied.folder / "results/tiny"
    assert not (folder / "certificates/trajectories/tiny/small").exists()
    assert (folder / "certificates/trajectories/tiny/raw/cold/0000.parquet").exists()
    own = folder / "certificates/positions/tiny/copies"
    small = records.read(own / "small/cold/0000.targets.parquet", "certificate_targets")
    assert small["position"].to_numpy().max() <= 15
    prompts = [records.read(own / f"small/cold/{n}.targets.parquet", "certificate_targets")
               for n in ("0000", "0001")]  # fmt: skip
    assert [len(set(table["prompt_id"].to_pylist())) for table in prompts] == [4, 1]


def test_certificates_hold_for_both_drafts(studied):
    folder = studied.folder / "results/tiny/statistics/certificates"
    drafts = records.read(folder / "drafts.parquet", "certificates_drafts").to_pandas()
    assert set(drafts["pair"]) == {"copy", "other"} and (drafts["violations"] == 0).all()
    assert set(drafts["domain"]) == {"small", "raw", "all"}
    measured = records.read(folder / "measurements.parquet", "measurements").to_pandas()
    assert (measured["value"].notna() == measured["missing_reason"].isna()).all()
    assert measured["value"].notna().sum() > 100
    tests = records.read(folder / "equivalence.parquet", "lossless_equivalence").to_pandas()
    assert (tests["rejected"] != tests["correct"]).all()
    assert {path.stem for path in folder.glob("*.parquet")} == {*FILES, "measurements"}


def test_another_tolerance_records_nothing_again(studied, tmp_path):
    project = studied.copy(tmp_path / "tolerance")
    path = project.folder / "tiny/config.yaml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("certificates:\n", "certificates:\n  tolerance: 1.0e-08\n"))
    jobs = project.plan("--", "certificates")
    assert set(jobs) == {
        "certificate_statistics", "certificate_exhibits", "certificate_measurements"
    }  # fmt: skip


def test_long_prompts_are_chosen_and_too_few_are_said(studied, tmp_path):
    project = studied.copy(tmp_path / "long")
    path = project.folder / "tiny/config.yaml"
    text = path.read_text(encoding="utf-8")
    old = "certificates:\n"
    path.write_text(text.replace(old, f"{old}  min_prompt_tokens: 20\n  candidates: 12\n"))
    target = "results/tiny/certificates/prompts/tiny/raw/0000.parquet"
    project.run("--cores", "1", "--", target)
    assert records.condition(project.folder / target)["min_prompt_tokens"] == 20
    path.write_text(text.replace(old, f"{old}  min_prompt_tokens: 500\n  candidates: 12\n"))
    printed = project.run("--cores", "1", "--", target, status=None)
    log = project.folder / "results/tiny/logs/certificates/prompts/tiny/raw/0000.log"
    assert "0 of 12 prompts have at least 500 tokens" in log.read_text(encoding="utf-8"), printed


def test_the_report_tells_what_certificates_say(studied, tmp_path):
    project = studied.copy(tmp_path / "report")
    path = project.folder / "tiny/config.yaml"
    text = path.read_text(encoding="utf-8")
    path.write_text("studies: [position, certificates]\n" + text)
    project.run("--cores", "2")
    page = (project.folder / "results/tiny/report.html").read_text(encoding="utf-8")
    assert "how close a draft must be to be sure of acceptance" in page
    assert "is never rejected by greedy verification" in page
    card = pd.read_csv(project.folder / "results/tiny/scorecard.csv", dtype=str)
    assert (card["study"] == "certificates").sum() == 329
    json.dumps(card.fillna("").to_dict("records"))
