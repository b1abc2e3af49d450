"""Pairs of block drafters in the studies that name them: trained, proposed, replayed, decoded live."""

import draftscope.lossless.schemas  # noqa: F401
import pytest
import yaml
from draftscope import records
from tiny_project import MODELS, PAIRS, Project, domains, new_project

pytestmark = [pytest.mark.slow, pytest.mark.workflow]
RESULTS = "results/tiny"
TRAIN = {
    "domains": [{"name": "small", "prompts": 4, "samples": 1, "max_new_tokens": 16}],
    "temperature": 0.8, "held_out": 0.25, "steps": 4, "batch": 2, "anchors": 4, "lr": 0.003,
    "warm_up": 1, "evaluate_every": 2, "patience": 5, "seed": 1,
}  # fmt: skip
DFLASH = {"kind": "dflash", "target": "tiny", "layers": 1, "block_size": 5, "vocabulary": 200}


def block_project(folder) -> Project:
    """The tiny project with a DFlash and a ReTrace drafter named in its studies."""
    project = new_project(folder)
    split = {"evaluation": [0, 8], "training": [8, 12]}
    project.configure("domains.yaml", {name: row | split for name, row in domains().items()})
    project.configure(
        "models.yaml",
        MODELS
        | {
            "tiny-blocks": DFLASH | {"loss": {"name": "dpace"}, "train": TRAIN},
            "tiny-memory": {
                "kind": "retrace", "target": "tiny", "base": "tiny-blocks",
                "variant": "corrected_gated", "train": TRAIN,
            },
        },
    )  # fmt: skip
    pairs = {
        "blocks": {"target": "tiny", "draft": "tiny-blocks", "draft_group": "blocks"},
        "drawn": {"target": "tiny", "draft": "tiny-blocks", "draft_group": "blocks",
                  "drafting": "sampled"},
        "memory": {"target": "tiny", "draft": "tiny-memory", "draft_group": "blocks"},
    }  # fmt: skip
    project.configure("pairs.yaml", PAIRS | pairs)
    experiment = yaml.safe_load((project.folder / "tiny/config.yaml").read_text())
    experiment["block_training"] = {"threads": 1}
    experiment["pairs"].append("blocks")
    experiment["choice"]["cost_ratios"]["tiny-blocks"] = 0.1
    experiment["position"]["configurations"] = [
        {"pair": "copy", "label": "same"}, {"pair": "blocks", "label": "xfam"},
    ]  # fmt: skip
    experiment["lossless"]["configurations"] += [
        {"pair": pair, "mode": mode, "draft_lengths": [2]}
        for pair, mode in (("blocks", "warm"), ("blocks", "cold"), ("drawn", "warm"),
                           ("memory", "warm"), ("memory", "cold"))
    ]  # fmt: skip
    experiment["trees"]["pair"] = "blocks"
    project.configure("config.yaml", experiment)
    return project


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Project:
    project = block_project(tmp_path_factory.mktemp("blocks") / "a project")
    wanted = (
        "rounds/blocks/small/warm.parquet",
        "statistics/lossless/replay.parquet",
        "statistics/position/types.parquet",
        "trees/blocks/small/cold/0000.nodes.parquet",
    )
    project.run("--cores", "2", "--", *(f"{RESULTS}/{name}" for name in wanted))
    return project


def read(project, name, schema):
    return records.read(project.folder / RESULTS / name, schema).to_pandas()


def test_replay_of_blocks_is_the_live_loop_round_for_round(finished):
    rows = read(finished, "statistics/lossless/replay.parquet", "lossless_replay")
    own = rows[rows["pair"] == "blocks"]
    assert set(own["mode"]) == {"warm", "cold"} and (own["same_rounds"] == own["texts"]).all()
    # What depends on chance or on rejections is decoded and not replayed.
    assert not set(rows["pair"]) & {"memory", "drawn"}
    greedy = read(finished, "statistics/lossless/greedy.parquet", "lossless_greedy")
    blocks = greedy[greedy["pair"].isin(["blocks", "memory"])]
    assert len(blocks) == 12 and blocks["identical"].all()
    rules = {}
    for pair in ("blocks", "memory", "drawn"):
        log = read(finished, f"live/speed/{pair}/small/warm/rounds.parquet", "rounds")
        rules[pair] = set(log[log["draft_length"] == 2]["rule"])
    assert rules == {"blocks": {"exact_match"}, "memory": {"exact_match"},
                     "drawn": {"speculative_sampling"}}  # fmt: skip


def test_a_block_drafter_is_scored_by_no_pass_of_its_own(finished):
    scores = finished.folder / RESULTS / "scores/tiny"
    assert sorted(path.name for path in scores.iterdir()) == ["copies"]
    rounds = read(finished, "rounds/blocks/small/warm.parquet", "rounds")
    assert set(rounds["rule"]) == {"exact_match"} and rounds["offered"].max() == 4
    assert "Nothing to be done" in finished.run("-n", f"{RESULTS}/rounds/blocks/small/warm.parquet")


def test_a_memory_among_replayed_pairs_is_refused_in_one_line(finished, tmp_path):
    project = finished.copy(tmp_path / "copy")
    experiment = yaml.safe_load((project.folder / "tiny/config.yaml").read_text())
    for pair, said in (("memory", "of kind retrace"), ("drawn", "draws the tokens")):
        changed = experiment | {"pairs": [*experiment["pairs"], pair]}
        project.configure("config.yaml", changed)
        printed = project.run("-n", status=None)
        assert f"error: pairs: pair '{pair}'" in printed and said in printed
