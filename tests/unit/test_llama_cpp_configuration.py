"""The registry and the configurations of what llama.cpp runs; nothing here needs the package."""

from pathlib import Path

import pytest
from draftscope import config, registry
from draftscope.errors import UserError
from draftscope.strict import load_yaml


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"file_type": "q4"}, "file_type"),
        ({"repository": "a/b", "file": "x.gguf"}, "revision is missing"),
        ({"repository": "a/b", "revision": "main", "file": "x.bin"}, "file"),
    ],
)
def test_rows_of_the_registry_are_checked(row, message):
    pairs = {"p": {"target": "m", "draft": "base"}}
    rows = {
        "m": {"kind": "llama_cpp", "base": "base"} | row,
        "base": {"kind": "local", "path": "x"},
    }
    with pytest.raises(UserError, match=message):
        registry.models_of(pairs, rows)


def test_what_llama_cpp_runs_is_no_base():
    rows = {
        "base": {"kind": "local", "path": "x"},
        "m": {"kind": "llama_cpp", "base": "base"},
        "n": {"kind": "round_to_nearest", "base": "m", "bits": 3, "group_size": 16},
    }
    with pytest.raises(UserError, match="'m', which llama.cpp runs; derive it from 'base'"):
        registry.models_of({"p": {"target": "n", "draft": "base"}}, rows)


def test_work_that_llama_cpp_does_not_do_is_refused_by_pair():
    models = {"m": {"kind": "llama_cpp"}, "t": {"kind": "local"}}
    pairs = {"p": {"target": "m", "draft": "t"}}
    registry.refuse_llama_cpp(pairs, models, ("draft",), "read trees")
    with pytest.raises(UserError, match="pair 'p': llama.cpp runs its target 'm' and cannot read"):
        registry.refuse_llama_cpp(pairs, models, ("target", "draft"), "read trees")


def test_the_parts_of_a_split_file_are_named():
    from draftscope.models.llama_cpp import _parts

    first = Path("in/q-00001-of-00003.gguf")
    assert [part.name for part in _parts(first)] == [f"q-0000{n}-of-00003.gguf" for n in (1, 2, 3)]
    assert _parts(Path("q.gguf")) == [Path("q.gguf")]


ENGINES_PUBLISHED = {
    "primary": ("transformers", "llama_cpp"),
    "all_gguf": ("llama_cpp", "llama_cpp"),
    "stretch_7b": ("llama_cpp", "llama_cpp"),
    "mixed": ("llama_cpp", "transformers"),
    "mixed_3b": ("llama_cpp", "transformers"),
}


def test_llama_cpp_is_not_asked_to_decode_in_batches():
    from snakemake.utils import update_config

    root = Path(__file__).parents[2]
    merged = load_yaml(root / "config/config.yaml")
    update_config(merged, load_yaml(root / "config/backends.yaml"))
    update_config(merged, {"lossless": {"equivalence": {"batch_size": 4}}})
    with pytest.raises(UserError, match="'smollm2-primary': llama.cpp runs its target .* batches"):
        config.load(merged, root)


@pytest.mark.parametrize("files", [["backends"], ["paper", "paper_gguf"]], ids=lambda f: f[-1])
def test_the_five_published_kinds_of_draft_and_target_are_configured(files):
    from snakemake.utils import update_config

    root = Path(__file__).parents[2]
    merged = load_yaml(root / "config/config.yaml")
    for file in files:
        update_config(merged, load_yaml(root / f"config/{file}.yaml"))
    experiment = config.load(merged, root)
    assert experiment.live.problem is None
    found = {}
    for use in experiment.settings.lossless.configurations:
        if use.published:
            pair = experiment.live.pairs[use.pair]
            kinds = (experiment.models[pair[role]]["kind"] for role in ("draft", "target"))
            found[use.published] = tuple(
                "llama_cpp" if kind == "llama_cpp" else "transformers" for kind in kinds
            )
    assert found == ENGINES_PUBLISHED
