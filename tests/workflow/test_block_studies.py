"""The losses and retrace studies in the workflow: trained, replayed, decoded live, drawn, reported."""

import json
import re

import draftscope.block_study.schemas
import draftscope.block_training.schemas
import draftscope.lossless.live_schemas  # noqa: F401
import pytest
import yaml
from draftscope import records
from draftscope.exhibits.tables import read_table
from tiny_project import MODELS, PAIRS, Project, domains, new_project

pytestmark = [pytest.mark.slow, pytest.mark.workflow, pytest.mark.xdist_group("block studies")]
RESULTS = "results/tiny"
TEXTS = [{"name": "small", "prompts": 4, "samples": 1, "max_new_tokens": 16}]
TRAIN = {
    "domains": TEXTS, "temperature": 0.8, "held_out": 0.25, "steps": 4, "batch": 2, "anchors": 4,
    "lr": 0.003, "warm_up": 1, "evaluate_every": 2, "patience": 5,
}  # fmt: skip
DFLASH = {"kind": "dflash", "target": "tiny", "layers": 1, "block_size": 4, "vocabulary": 200}
VARIANTS = ("none", "corrected_gated")
STAGE = {"threads": 1}


def study_project(folder) -> Project:
    """The tiny project with two losses, two variants of ReTrace and two trainings of each."""
    project = new_project(folder)
    split = {"evaluation": [0, 8], "training": [8, 12]}
    project.configure("domains.yaml", {name: row | split for name, row in domains().items()})
    models, pairs = dict(MODELS), dict(PAIRS)
    models["tiny-bigram"] = {
        "kind": "bigram", "target": "tiny", "train": {"domains": TEXTS, "temperature": 0.8}
    }  # fmt: skip
    for seed in (1, 2):
        how = TRAIN | {"seed": seed}
        for loss in ("ce_decay", "dpace", "dpal"):
            # A decay is published for blocks of 8, 10 and 16 alone.
            own = {"name": loss} | ({"decay": 2.0} if loss == "ce_decay" else {})
            models[f"tiny-{loss}-{seed}"] = DFLASH | {"loss": own, "train": how}
        for variant in VARIANTS:
            models[f"tiny-{variant}-{seed}"] = {
                "kind": "retrace", "target": "tiny", "base": f"tiny-ce_decay-{seed}",
                "variant": variant, "train": how,
            }  # fmt: skip
    names = [
        f"{stem}-{seed}" for stem in ("ce_decay", "dpace", "dpal", *VARIANTS) for seed in (1, 2)
    ]
    for name in (*names, "bigram"):
        pairs[name] = {"target": "tiny", "draft": f"tiny-{name}", "draft_group": "blocks"}
    project.configure("models.yaml", models)
    project.configure("pairs.yaml", pairs)

    def arm(label: str, stem: str | None = None) -> dict:
        return {"label": label, "pairs": [f"{stem or label}-1", f"{stem or label}-2"]}

    experiment = yaml.safe_load((project.folder / "tiny/config.yaml").read_text())
    both = [arm("ce_decay"), arm("dpace")]
    experiment |= {
        "studies": ["position", "losses", "retrace"],
        "block_training": STAGE,
        "losses": STAGE
        | {
            "domains": [{"name": "small", "prompts": 3, "max_new_tokens": 40},
                        {"name": "raw", "prompts": 6, "max_new_tokens": 16}],
            "modes": ["cold", "tepid"],
            "draft_length": 3,
            "arms": both,
            "grid": [*both, arm("dpal")],
            "baselines": {"lookup": "lookup", "bigram": "bigram"},
            "speed": {"domains": ["small"], "modes": ["cold"], "prompts": 3, "max_new_tokens": 12,
                      "warm_up": 0, "repeats": 1},
        },
        "retrace": STAGE
        | {
            "domains": [{"name": "small", "prompts": 4, "max_new_tokens": 16, "published": "GSM8K"}],
            "modes": ["cold", "warm"],
            "draft_length": 3,
            "arms": [arm("backbone", "ce_decay"), *map(arm, VARIANTS)],
            "warm_up": 0,
        },
    }  # fmt: skip
    project.configure("config.yaml", experiment)
    return project


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Project:
    project = study_project(tmp_path_factory.mktemp("studies") / "a project")
    project.run("--cores", "2", "--", "losses", "losses_grid", "retrace")
    return project


def table(project: Project, name: str):
    return read_table(project.folder / RESULTS / "exhibits" / f"{name}.csv")


def test_both_studies_are_built_once(finished):
    assert finished.plan("--", "losses", "losses_grid", "retrace") == {}
    folder = finished.folder / RESULTS / "exhibits"
    for study in ("losses", "losses_grid", "retrace"):
        for name in (
            "findings.md",
            "table1.csv",
            "table_training.tex",
            "figure1.svg",
            "figure4.pdf",
        ):
            assert (folder / study / name).is_file(), (study, name)
    lengths = table(finished, "losses/table1")
    assert set(lengths["arm"]) == {"ce_decay", "dpace", "lookup", "bigram"}
    # D-PAL alone reads the target's distribution, and so has an expected length.
    expected = table(finished, "losses_grid/table_training").set_index("arm")["estimate"]
    assert all(map(float, expected["dpal"])) and not any(expected.drop("dpal"))
    assert "estimate" not in table(finished, "losses/table_training")
    # The mode and the domain that the experiment does not generate are the study's own.
    assert set(lengths["mode"]) == {"cold", "tepid"} and set(lengths["domain"]) == {
        "small",
        "raw",
        "all",
    }


def test_a_study_of_fewer_prompts_than_the_text_takes_the_first_of_them(finished):
    folder = finished.folder / RESULTS
    every = records.read(folder / "prompts/small/0000.parquet", "prompts")["prompt_id"].to_pylist()
    assert len(every) == 4
    for pair in ("dpace-1", "lookup"):
        rounds = records.read(folder / f"losses/rounds/{pair}/small/cold.parquet", "rounds")
        assert set(rounds["prompt_id"].to_pylist()) == set(every[:3])
        assert set(records.prompt_digests(rounds)) == set(every[:3])
    # Of the text's two shards the second is of no use to the study.
    made = (folder / "proposals/tiny/tiny-dpace-1/small/cold").glob("*.parquet")
    assert [path.stem for path in made] == ["0000"]
    assert [path.stem for path in (folder / "trajectories/tiny/small/cold").iterdir()] == ["0000"]


def test_all_arms_learnt_from_the_same_texts_with_seeds_of_their_own(finished):
    folder = finished.folder / RESULTS / "models"
    made = [json.loads((folder / f"tiny-{name}/model.json").read_text())
            for name in ("ce_decay-1", "ce_decay-2", "dpace-1", "bigram")]  # fmt: skip
    assert len({record["trained_on"]["sha256"] for record in made}) == 1
    # Weights of step 0 may be the ones kept, so that what was learnt is told by the curves.
    assert made[0]["revision"] != made[1]["revision"]
    curves = [
        records.read(folder / f"tiny-{name}/history.parquet", "block_training_history")
        .column("training_loss")
        .to_pylist()[1:]
        for name in ("ce_decay-1", "ce_decay-2", "dpace-1")
    ]
    assert curves[0] != curves[1] != curves[2] != curves[0]
    for name in ("ce_decay-1", "bigram"):
        assert (folder / f"tiny-{name}/leaks/small.json").is_file()


def test_greedy_text_is_the_targets_whatever_drafts(finished):
    folder = finished.folder / RESULTS / "live/retrace"
    texts = {
        pair: records.read(folder / pair / "small/cold/trajectories.parquet", "live_trajectories")
        for pair in ("ce_decay-1", "none-1", "corrected_gated-1")
    }

    tokens = [text.column("token_ids").to_pylist() for text in texts.values()]
    assert tokens[0] == tokens[1] == tokens[2]


def test_probes_are_of_the_backbone_alone(finished):
    found = records.read(finished.folder / RESULTS / "statistics/retrace/probes.parquet",
                         "retrace_probes").to_pandas()  # fmt: skip
    assert set(found["arm"]) == {"backbone"} and set(found["measure"]) > {"coverage", "cosine_gap"}
    assert not list((finished.folder / RESULTS / "live/retrace").glob("none*/*/*/probes.parquet"))


def test_a_change_of_one_arm_trains_that_arm_alone(finished, tmp_path):
    project = finished.copy(tmp_path / "copy")
    models = yaml.safe_load((project.folder / "tiny/models.yaml").read_text())
    for seed in (1, 2):
        models[f"tiny-dpace-{seed}"]["loss"]["smoothing"] = 0.3
    project.configure("models.yaml", models)
    jobs = project.planned("--", "losses")
    trained = {path.split("/")[3] for path in jobs["train_block_draft"]}
    assert trained == {"tiny-dpace-1", "tiny-dpace-2"} and "generate" not in jobs
    assert len(jobs["losses_rounds"]) == 2 * 2 * 2  # domains and modes of each


def test_the_report_counts_each_text_of_the_losses_once(tmp_path):
    project = study_project(tmp_path / "a project")

    def counted() -> list[str]:
        page = f"{RESULTS}/report.html"
        (command,) = re.findall(r"scripts/report\.py .*", project.run("-n", "-p", "--", page))
        own = command.partition(" --trajectories ")[2].partition(" --rounds ")[0].split()
        return [path.removeprefix(f"{RESULTS}/trajectories/tiny/") for path in own]

    generated = [
        f"small/{mode}/000{shard}.parquet" for mode in ("cold", "warm") for shard in (0, 1)
    ]
    # Of domain `small` the study takes three prompts, which are in the first shard.
    own = ["small/tepid/0000.parquet"]
    own += [f"raw/{mode}/000{shard}.parquet" for mode in ("cold", "tepid") for shard in (0, 1)]
    assert sorted(counted()) == sorted(generated + own)
    experiment = yaml.safe_load((project.folder / "tiny/config.yaml").read_text())
    experiment["studies"].append("domains")
    experiment["trees"]["domains"][1]["max_new_tokens"] = 16
    project.configure("config.yaml", experiment)
    assert sorted(counted()) == sorted(generated + own)


def test_the_report_has_sections_of_both_studies(finished, tmp_path):
    project = finished.copy(tmp_path / "copy")
    project.run("--cores", "2")
    page = (project.folder / RESULTS / "report.html").read_text(encoding="utf-8")
    for said in ("Losses of block drafters, in words", "A memory of rejected tokens, in words",
                 "separated", "Where only the broad bar is clear of 0"):  # fmt: skip
        assert said in page, said
    card = read_table(project.folder / RESULTS / "scorecard.csv")
    own = card[card["study"].isin(["losses", "retrace"])]
    assert set(own["study"]) == {"losses", "retrace"}
    assert not set(own["verdict"]) & {"agrees", "differs"}
