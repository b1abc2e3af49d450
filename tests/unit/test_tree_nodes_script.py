"""The command line that scores the trees of a shard, on tiny models and real files."""

import json
import sys

import pytest
import torch
import tree_nodes
from draftscope import models, records
from draftscope.errors import UserError
from draftscope.trajectories import generate
from loading import load_tiny, rendered
from tiny import tiny_model_folder

GREEDY = {"temperature": 0.0, "top_k": 0, "top_p": 1.0}
SHAPE = {"kind": "breadth_first", "max_depth": 3, "max_branch": 2, "max_nodes": 8}
SETTINGS = {
    "domain": "math",
    "mode": "greedy",
    "law": GREEDY,
    "shape": SHAPE,
    "prompts": 2,
    "max_new_tokens": 5,
    "allow_special_differences": False,
    "max_disagreement": 0.01,
    "device": "cpu",
    "dtype": "float32",
    "attention": "sdpa",
    "threads": 1,
}


@pytest.fixture(autouse=True)
def settings_of_torch():
    """The script prefers deterministic kernels; that is a setting of the whole process."""
    yield
    torch.use_deterministic_algorithms(False)
    torch.utils.deterministic.fill_uninitialized_memory = True


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Records of a target and a draft, and the text of the target."""
    folder = tmp_path_factory.mktemp("experiment")
    for seed, name in enumerate(("target", "draft")):
        path = tiny_model_folder(folder / f"{name}-files", seed=seed)
        models.resolve(name, {"kind": "local", "path": str(path)}, folder / name)
    target = load_tiny(folder / "target-files", "target")
    rows = generate(
        target,
        [(f"p{n}", rendered(0, 20 + n, 30)) for n in range(3)],
        law=GREEDY, budget=8, batch_size=1, samples=1, run_seed=0, domain="math",
    )  # fmt: skip
    condition = target.condition("target") | {"domain": "math", "mode": "greedy", "law": GREEDY}
    records.write(folder / "trajectories.parquet", rows, "trajectories", condition)
    return folder


def run(monkeypatch, folder, output, **changes):
    paths = {
        "target": folder / "target/model.json",
        "draft": folder / "draft/model.json",
        "trajectories": folder / "trajectories.parquet",
        "nodes": output / "nodes.parquet",
        "trees": output / "trees.parquet",
    }
    line = ["tree_nodes.py", "--settings", json.dumps(SETTINGS | changes)]
    line += [word for name, path in paths.items() for word in (f"--{name}", str(path))]
    monkeypatch.setattr(sys, "argv", line)
    tree_nodes.main()


def test_a_shard_becomes_nodes_and_trees_with_their_condition(monkeypatch, folder, tmp_path):
    run(monkeypatch, folder, tmp_path)
    nodes = records.read(tmp_path / "nodes.parquet", "nodes", ["p0", "p1"])
    trees = records.read(tmp_path / "trees.parquet", "trees", ["p0", "p1"])
    assert trees.column("step").to_pylist() == 2 * list(range(5))
    assert trees.column("nodes").to_pylist() == 2 * [8, 8, 8, 6, 2]
    assert nodes.num_rows == 80  # whole trees, of which a loop would offer those counted above
    assert sum(nodes.column("offered").to_pylist()) == 64
    for path in ("nodes.parquet", "trees.parquet"):
        condition = records.condition(tmp_path / path)
        assert condition["target"] == "target"
        assert condition["draft"] == "draft"
        assert condition["tree"] == SHAPE
        assert condition["mode"] == "greedy"
        assert condition["scoring_attention"] == "sdpa"
        assert records.provenance(tmp_path / path)["target_disagreement_share"] == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"law": GREEDY | {"temperature": 0.6}}, "mode greedy samples"),
        ({"shape": SHAPE | {"max_nodes": 0}}, "max_nodes of a tree must be an integer from 1"),
        ({"max_new_tokens": 9}, "prompt p0, sample 0 was generated with a budget of 8"),
    ],
)
def test_what_cannot_be_scored_is_refused(monkeypatch, folder, tmp_path, changes, message):
    with pytest.raises(UserError, match=message):
        run(monkeypatch, folder, tmp_path, **changes)
    assert not list(tmp_path.iterdir())
