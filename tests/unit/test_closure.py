"""What makes a job run again: the meaning of its own code, and nothing else."""

import shutil
from pathlib import Path

import pytest
from draftscope import closure
from draftscope.block_training import MAKERS

ROOT = Path(__file__).resolve().parents[2]

# The code that the numbers of a GPU job can depend on. A longer list makes more edits rerun
# expensive jobs: add to it only what such a job cannot do without.
COMMON = {
    "__init__",
    "checkpoints",
    "errors",
    "models/__init__",
    "models/loaded",
    "progress",
    "records",
}
COMMON |= {"devices", "runtime", "sampling", "schemas", "values", "writing"}
GPU_CLOSURES = {
    "generate.py": COMMON
    | {"continuous", "prompts/__init__", "prompts/rendering", "seeds", "trajectories"},
    "score.py": COMMON | {"logits", "models/vocabulary", "scored_texts", "scoring"},
    "score_temperatures.py": COMMON
    | {"beginnings", "logits", "models/vocabulary", "scored_texts", "scoring"},
    "tree_nodes.py": COMMON
    | {"beginnings", "drafters/__init__", "ends", "logits", "models/vocabulary"}
    | {
        "scored_texts",
        "scoring",
        "tree/__init__",
        "tree/candidates",
        "tree/log",
        "tree/mask",
        "tree/reader",
    }
    | {"tree/schemas", "tree/scoring", "tree/selfcheck", "tree/shape"},
    "propose_blocks.py": COMMON - {"sampling"}
    | {"drafters/__init__", "drafters/dflash", "drafters/features", "drafters/head"}
    | {
        "drafters/proposal_schemas",
        "drafters/prompt_lookup",
        "drafters/proposals",
        "drafters/slots",
        "extras",
        "logits",
    }
    | {"lossless/__init__", "lossless/live_schemas", "models/dflash", "models/folder"}
    | {"models/gptq_kernels", "scored_texts"},
    "train_block_draft.py": COMMON - {"sampling", "values"}
    | {"block_training/__init__", "block_training/schemas", "logits", "seeds"}
    | {"tokens/__init__", "tokens/names", "tokens/schemas", "training/__init__"}
    | {"training/checkpoint", "training/examples", "training/inputs", "training/job"}
    | {"training/loss", "training/run", "training/teacher", "training/weights"},
    "train_draft.py": COMMON - {"sampling", "values"}
    | {"extras", "logits", "models/distilled", "models/folder", "models/gptq_kernels"}
    | {"models/layer_subset", "models/lora", "models/vocabulary", "seeds", "tokens/__init__"}
    | {"tokens/names", "tokens/schemas", "training/__init__", "training/checkpoint"}
    | {
        "training/examples",
        "training/inputs",
        "training/job",
        "training/loop",
        "training/loss",
        "training/run",
    }
    | {"training/schemas", "training/teacher", "training/weights"},
}

# What the training of a kind of block drafter depends on beside that.
BLOCK_CLOSURE = {"block_training/anchors", "block_training/loop", "block_training/target"}
BLOCK_CLOSURE |= {"block_training/vocabulary", "drafters/__init__", "drafters/dflash"}
BLOCK_CLOSURE |= {"drafters/features", "drafters/head", "drafters/prompt_lookup", "drafters/slots"}
BLOCK_CLOSURE |= {"extras", "losses/__init__", "losses/blocks", "losses/divergences"}
BLOCK_CLOSURE |= {"losses/estimators", "losses/expected", "losses/registry", "models/dflash"}
BLOCK_CLOSURE |= {"models/folder", "models/gptq_kernels"}
MAKER_CLOSURES = {
    "dflash": BLOCK_CLOSURE | {"block_training/make_dflash", "block_training/start"},
    "retrace": BLOCK_CLOSURE
    | {"block_training/make_retrace", "block_training/unrolled", "drafters/retrace"}
    | {"models/retrace", "tree/__init__", "tree/mask", "tree/reader"},
}


@pytest.fixture
def scripts(tmp_path):
    folder = tmp_path / "scripts"
    shutil.copytree(ROOT / "scripts", folder, ignore=shutil.ignore_patterns("__pycache__"))
    yield folder
    clear()


def clear():
    for cached in (closure._tree, closure._meaning, closure._imports):
        cached.cache_clear()


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    clear()


def write(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_imports_of_every_form_are_followed(tmp_path):
    write(tmp_path, "draftscope/__init__.py", "")
    write(tmp_path, "draftscope/a.py", "def f():\n    from draftscope.pack import inner\n")
    write(tmp_path, "draftscope/pack/__init__.py", "from . import beside\n")
    write(tmp_path, "draftscope/pack/inner.py", "from ..b import x\nimport numpy\n")
    write(tmp_path, "draftscope/pack/beside.py", "")
    write(tmp_path, "draftscope/b.py", "")
    write(tmp_path, "draftscope/unused.py", "")
    write(tmp_path, "run.py", "import draftscope.a as a\n")
    found = {p.relative_to(tmp_path).as_posix() for p in closure.sources("run.py", (), tmp_path)}
    assert found == {
        "run.py",
        "draftscope/__init__.py",
        "draftscope/a.py",
        "draftscope/b.py",
        "draftscope/pack/__init__.py",
        "draftscope/pack/beside.py",
        "draftscope/pack/inner.py",
    }


def test_case_61_a_changed_module_changes_the_digest_of_its_importers(tmp_path):
    write(tmp_path, "draftscope/__init__.py", "")
    write(tmp_path, "draftscope/helper.py", "V = 1\n")
    write(tmp_path, "run.py", "from draftscope import helper\n")
    write(tmp_path, "other.py", "import draftscope\n")
    before = closure.digest("run.py", (), tmp_path), closure.digest("other.py", (), tmp_path)
    edit(tmp_path / "draftscope/helper.py", "V = 1", "V = 2")
    after = closure.digest("run.py", (), tmp_path), closure.digest("other.py", (), tmp_path)
    assert after[0] != before[0]
    assert after[1] == before[1]


def test_case_62_a_comment_or_docstring_changes_no_digest(scripts):
    before = closure.digest("generate.py", (), scripts)
    path = scripts / "draftscope/seeds.py"
    edit(path, "from __future__", "# a comment\n\n\nfrom __future__")
    edit(path, '"""A generator of its own', '"""A stream of its own')
    edit(scripts / "draftscope/errors.py", "neither JSON text nor", "not JSON text and not")
    assert closure.digest("generate.py", (), scripts) == before
    edit(path, '.encode("utf-8")', '.encode("utf-16")')
    assert closure.digest("generate.py", (), scripts) != before


@pytest.mark.parametrize("script", GPU_CLOSURES)
def test_the_closure_of_a_gpu_rule_is_small_and_frozen(script):
    folder = ROOT / "scripts"
    found = {p.relative_to(folder).as_posix() for p in closure.sources(script)} - {script}
    assert found == {f"draftscope/{name}.py" for name in GPU_CLOSURES[script]}


@pytest.mark.parametrize("kind", MAKER_CLOSURES)
def test_the_training_of_a_block_drafter_depends_on_its_own_kind(kind):
    folder, script = ROOT / "scripts", "train_block_draft.py"
    found = closure.sources(script, [f"{MAKERS[kind].replace('.', '/')}.py"])
    wanted = GPU_CLOSURES[script] | MAKER_CLOSURES[kind]
    names = {p.relative_to(folder).as_posix() for p in found} - {script}
    assert names == {f"draftscope/{name}.py" for name in wanted}
    assert set(MAKER_CLOSURES) == set(MAKERS)


def test_the_loader_of_another_model_kind_is_not_in_the_digest(scripts):
    names = ["draftscope/models/package_gguf.py"]
    before = closure.digest("generate.py", names, scripts)
    write(scripts, "draftscope/models/hub.py", "CHANGED = True\n")
    clear()
    assert closure.digest("generate.py", names, scripts) == before


def test_what_drafts_live_is_loaded_by_name_and_trains_nothing_again():
    from draftscope.drafters import LIVE, TREES

    modules = {f"{name.replace('.', '/')}.py" for name in (*LIVE.values(), *TREES.values())}
    for name in modules:
        assert (ROOT / "scripts" / name).is_file()
    for script in GPU_CLOSURES:
        found = {p.relative_to(ROOT / "scripts").as_posix() for p in closure.sources(script)}
        assert not found & modules, script
    found = {p.relative_to(ROOT / "scripts").as_posix() for p in closure.sources("live_decode.py")}
    assert not found & modules
    with_it = closure.sources("live_decode.py", ["draftscope/drafters/retrace_draft.py"])
    assert ROOT / "scripts/draftscope/drafters/recording.py" in with_it
