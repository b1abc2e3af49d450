"""Block drafters on disk, and as rows of the registry."""

import json

import pytest
import torch
from block_models import opened, saved, tiny_network, tiny_target
from draftscope import block_pairs, registry
from draftscope.block_training.rows import DECAYING, LOSS_NAMES
from draftscope.drafters.dflash import DFlash
from draftscope.drafters.retrace import ReTrace
from draftscope.errors import UserError
from draftscope.losses import LOSSES
from draftscope.models import resolve, retrace
from draftscope.models.dflash import check_target
from safetensors import safe_open
from safetensors.torch import load_file, save_file


@pytest.fixture(scope="module")
def target():
    return tiny_target()


def test_what_is_saved_comes_back_and_equal_drafts_are_equal_files(tmp_path, target):
    network = tiny_network(target)
    first = saved(tmp_path / "a", target, network, [0, 3, 5])
    second = saved(tmp_path / "b", target, network, [0, 3, 5])
    for name, value in network.state_dict().items():
        assert torch.equal(first.model.network.state_dict()[name], value)
    assert first.model.vocabulary.tolist() == [0, 3, 5]
    assert first.model.network.shape == network.shape
    files = [tmp_path / name / "weights/draft.safetensors" for name in "ab"]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert first.revision == second.revision and "sha256:" in first.revision
    assert saved(tmp_path / "c", target, network).model.vocabulary.tolist() == list(range(6))
    assert first.tokenizer is None and first.max_positions == 256
    check_target(first, target)


def test_a_memory_is_saved_with_its_drafter(tmp_path, target):
    memory = ReTrace(16, "corrected_gated")
    loaded = saved(tmp_path, target, tiny_network(target), None, memory)
    found = loaded.model.parts["memory"]
    assert found.variant == "corrected_gated"
    assert all(torch.equal(found.state_dict()[k], v) for k, v in memory.state_dict().items())
    assert loaded.settings["trained_from"] == {"name": "base", "revision": "of the base"}
    none = saved(tmp_path / "none", target, tiny_network(target), None, ReTrace(16, "none"))
    assert not none.model.parts["memory"].state_dict()


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"name": "elsewhere"}, "with name target, not for elsewhere"),
        ({"seed": 5}, "with revision seed 0, not for target with revision seed 5"),
    ],
)
def test_a_draft_is_of_one_target_at_one_revision(tmp_path, target, other, said):
    loaded = saved(tmp_path, target, tiny_network(target))
    with pytest.raises(UserError, match=said):
        check_target(loaded, tiny_target(**other))


def test_a_draft_is_of_one_tokenizer(tmp_path, target):
    loaded = saved(tmp_path, target, tiny_network(target))
    changed = target.__class__(**vars(target) | {"tokenizer_sha256": "1" * 64})
    with pytest.raises(UserError, match="with tokenizer 0000"):
        check_target(loaded, changed)


def rewrite(folder, change):
    """Change the file of weights and let the record agree with its size and hash."""
    from draftscope.models.folder import inventory

    path = folder / "weights/draft.safetensors"
    change(path)
    record = json.loads((folder / "model.json").read_text())
    record["files"] = inventory(folder / "weights")
    (folder / "model.json").write_text(json.dumps(record))


def with_tensors(change):
    def apply(path):
        with safe_open(path, framework="pt") as file:
            about = file.metadata()
        tensors = load_file(path)
        change(tensors)
        save_file(tensors, path, about)

    return apply


def other_target(path):
    tensors = load_file(path)
    with safe_open(path, framework="pt") as file:
        about = json.loads(file.metadata()["draft"])
    about["learnt_from"]["revision"] = "another"
    save_file(tensors, path, {"draft": json.dumps(about)})


DAMAGE = {
    "cut off": (lambda path: path.write_bytes(path.read_bytes()[:-9]), "cannot be read"),
    "not a draft": (lambda path: save_file({"x": torch.zeros(1)}, path), "cannot be read"),
    "no weights": (with_tensors(lambda t: t.pop("network.norm.weight")), "as nothing"),
    "other shape": (
        with_tensors(lambda t: t.update({"network.norm.weight": torch.ones(3)})),
        r"network.norm.weight as \(3,\), its shape asks for \(16,\)",
    ),
    "more than that": (with_tensors(lambda t: t.update(extra=torch.ones(3))), "asks for nothing"),
    "wrong ids": (
        with_tensors(lambda t: t.update(draft_vocabulary=torch.tensor([0, 9]))),
        "no ascending list of ids below 6",
    ),
    "of another target": (other_target, "it holds learnt_from"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_file_is_refused_in_one_line(tmp_path, target, name):
    change, said = DAMAGE[name]
    saved(tmp_path, target, tiny_network(target), [0, 3])
    rewrite(tmp_path, change)
    with pytest.raises(UserError, match=said) as refused:
        opened(tmp_path)
    assert "\n" not in str(refused.value) and "draft.safetensors" in str(refused.value)


def test_a_file_that_changed_or_vanished_since_is_refused(tmp_path, target):
    saved(tmp_path, target, tiny_network(target))
    path = tmp_path / "weights/draft.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(UserError, match="has changed since"):
        opened(tmp_path)
    path.unlink()
    with pytest.raises(UserError, match="is missing"):
        opened(tmp_path)


@pytest.mark.parametrize(
    ("made", "said", "why"),
    [
        ("gated", "corrected_gated", "it holds variant gated, its record corrected_gated"),
        ("none", "overwrite", "it holds variant none, its record overwrite"),
        ("gated", "gatted", "the record's variant gatted is none of"),
    ],
)
def test_a_memory_of_another_variant_is_refused(tmp_path, target, made, said, why):
    saved(tmp_path, target, tiny_network(target), None, ReTrace(16, made))
    record = json.loads((tmp_path / "model.json").read_text())
    assert record["variant"] == made
    (tmp_path / "model.json").write_text(json.dumps(record | {"variant": said}))
    with pytest.raises(UserError, match=why):
        opened(tmp_path, retrace)


@pytest.mark.parametrize("kind", ["dflash", "retrace"])
def test_nothing_is_fetched(tmp_path, kind):
    row = {"dflash": {"layers": 1, "block_size": 4, "loss": {}, "train": {}, "target": "t"},
           "retrace": {"base": "b", "variant": "none", "train": {}, "target": "t"}}[kind]  # fmt: skip
    with pytest.raises(UserError, match="is trained, not fetched"):
        resolve("x", {"kind": kind} | row, tmp_path)


# ---- rows -------------------------------------------------------------------------------------

TRAIN = {
    "domains": [{"name": "math", "prompts": 8, "max_new_tokens": 16}],
    "temperature": 0.6, "held_out": 0.1, "steps": 4, "batch": 2, "lr": 1e-3, "warm_up": 1,
    "evaluate_every": 2, "patience": 2, "seed": 1, "anchors": 4,
}  # fmt: skip
DFLASH = {
    "kind": "dflash", "target": "t", "layers": 2, "block_size": 8,
    "loss": {"name": "ce_decay"}, "train": TRAIN,
}  # fmt: skip
RETRACE = {"kind": "retrace", "target": "t", "base": "d", "variant": "gated", "train": TRAIN}
MODELS = {
    "t": {"kind": "local", "path": "x"},
    "u": {"kind": "local", "path": "y"},
    "d": DFLASH,
    "r": RETRACE,
    "lookup": {"kind": "prompt_lookup", "max_ngram": 3, "min_ngram": 1},
}


def models_of(draft="d", target="t", pair=(), **changes):
    row = {"target": target, "draft": draft, "draft_group": "g"} | dict(pair)
    pairs = registry.select({"p": row}, ["p"], "pairs", "pair")
    return registry.models_of(pairs, MODELS | changes)


def test_the_names_of_losses_are_those_there_are():
    assert set(LOSS_NAMES) == set(LOSSES)
    assert set(DECAYING) == {name for name, loss in LOSSES.items() if loss.weighting == "decay"}


def test_rows_are_filled_in():
    found = models_of("r")
    assert set(found) == {"r", "d", "t"}
    assert found["d"]["loss"] == {"name": "ce_decay", "smoothing": 0.5, "decay": 4.0}
    assert found["d"]["feature_layers"] is found["d"]["vocabulary"] is None
    # The published network, where nothing else is said.
    assert (found["d"]["context"], found["d"]["shifted"]) == ("fused", False)
    assert found["d"]["slots"] == "masks"
    assert found["r"]["train"]["beta_warm_up"] == 50 and found["r"]["loss"] is None
    DFlash(tiny_network(tiny_target()).shape)  # a row's numbers make such a network


def test_a_loss_of_its_own_has_the_decay_of_the_blocks_of_the_base():
    own = RETRACE | {"loss": {"name": "ce_decay"}}
    wanted = {"name": "ce_decay", "smoothing": 0.5, "decay": 4.0}
    assert models_of("r", r=own)["r"]["loss"] == wanted
    of_five = DFLASH | {"block_size": 5, "loss": {"name": "dpace"}}
    with pytest.raises(
        UserError, match=r"'r' .* loss\.decay is missing: .* block size 5"
    ) as refused:
        models_of("r", r=own, d=of_five)
    assert "\n" not in str(refused.value)
    said = own | {"loss": {"name": "ce_decay", "decay": 2.0}}
    assert models_of("r", r=said, d=of_five)["r"]["loss"]["decay"] == 2.0
    assert (
        models_of("r", r=own | {"loss": {"name": "dpal"}}, d=of_five)["r"]["loss"]["decay"] is None
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"draft": "d", "target": "u"}, "reads the states of 't' and cannot draft for 'u'"),
        ({"draft": "lookup", "target": "d"}, "DFlash drafter can be a draft, not a target"),
        ({"pair": {"drafting": "sampled"}, "draft": "lookup"}, "leave it out"),
        ({"pair": {"drafting": "greedy"}}, "drafting"),
        ({"d": DFLASH | {"block_size": 7}}, "none is published for block size 7"),
        ({"d": DFLASH | {"block_size": 1}}, "block_size"),
        ({"d": DFLASH | {"feature_layers": [3, 2]}}, "do not ascend"),
        ({"d": DFLASH | {"context": "mine"}}, "context"),
        ({"d": DFLASH | {"context": "own", "init": "random"}}, "init: random copies none"),
        (
            {"d": DFLASH | {"context": "own", "feature_layers": [0]}},
            "leave it out with context: own",
        ),
        ({"d": DFLASH | {"shifted": "mostly"}}, "shifted"),
        ({"d": DFLASH | {"slots": "guesses"}}, "slots"),
        ({"d": DFLASH | {"loss": {"name": "dpca"}}}, "loss.name"),
        ({"d": DFLASH | {"target": "lookup"}, "target": "lookup"}, "cannot learn from 'lookup'"),
        ({"draft": "r", "r": RETRACE | {"base": "t"}}, "name a model of kind dflash"),
        ({"draft": "r", "target": "u", "r": RETRACE | {"target": "u"}}, "they must be one"),
        (
            {"draft": "cut", "cut": {"kind": "layer_subset", "base": "d", "layers": [0]}},
            "cannot be made from 'd', which is a DFlash drafter",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(changes, said):
    with pytest.raises(UserError, match=said) as refused:
        models_of(**changes)
    assert "\n" not in str(refused.value)


def test_what_is_decoded_live_only_is_refused_elsewhere():
    def pairs(draft, drafting=None):
        row = {"target": "t", "draft": draft, "draft_group": "g", "drafting": drafting}
        return {"p": row}, models_of(draft, pair={"drafting": drafting} if drafting else {})

    block_pairs.refuse_live_only(*pairs("d"), "pairs")
    block_pairs.refuse_live_only(*pairs("lookup"), "pairs")
    for chosen, said in (
        (pairs("r"), "pair 'p' drafts with 'r' of kind retrace, whose proposals depend"),
        (pairs("d", "sampled"), "pair 'p' draws the tokens of its blocks"),
    ):
        with pytest.raises(UserError, match=f"pairs: {said}") as refused:
            block_pairs.refuse_live_only(*chosen, "pairs")
        assert "lossless.configurations" in str(refused.value)
    for draft in ("d", "r"):
        with pytest.raises(UserError, match=f"its draft '{draft}' is a .* drafter and cannot fly"):
            block_pairs.refuse(*pairs(draft), "fly")
    block_pairs.refuse(*pairs("lookup"), "fly")
