"""What of the studies of block drafters is called published, in captions and on the scorecard."""

import ast
import re

from draftscope.block_study.loss_measurements import published_arms
from draftscope.block_study.training import OWN, network_words
from draftscope.block_training.rows import Dflash, Loss
from draftscope.strict import load_yaml
from experiments import ROOT

CONDITIONS = load_yaml(ROOT / "config/published/conditions.yaml")


def loss(name: str, decay: float | None = None) -> dict:
    return {"name": name, "smoothing": 0.5, "decay": decay}


def test_the_published_arm_is_the_one_whose_option_is_published():
    two = {"slow": loss("ce_decay", decay=9.0), "own": loss("ce_decay", decay=4.0)}
    assert published_arms(two, 0.5, 8) == {"ce_decay": "own"}
    assert published_arms(two, 0.5, 16) == {}
    # None is published for blocks of 5, which one arm may stand for and two may not.
    assert published_arms(two, 0.5, 5) == {}
    assert published_arms({"slow": two["slow"]}, 0.5, 5) == {"ce_decay": "slow"}
    # That of D-PAL is not known: one arm may stand, whatever it has, and two may not.
    mild = {"mild": loss("dpal") | {"smoothing": 0.3}}
    assert published_arms(mild, 0.5, 8) == {"dpal": "mild"}
    assert published_arms(mild | {"own": loss("dpal")}, 0.5, 8) == {}
    # Weights by confidence have no decay, whatever the row holds.
    assert published_arms({"a": loss("dpace", decay=4.0)}, 0.5, 16) == {"dpace": "a"}


def test_captions_and_scorecard_compare_with_one_published_drafter():
    for study in ("losses", "retrace"):
        theirs = CONDITIONS[study]["drafter"]
        assert {key: theirs[key] for key in OWN} == {
            key: Dflash.model_fields[key].default for key in OWN
        }
        assert "init" not in theirs
    assert CONDITIONS["losses"]["smoothing"] == Loss.model_fields["smoothing"].default
    names = (ROOT / "workflow/rules/block_names.smk").read_text(encoding="utf-8")
    network = ast.literal_eval(
        re.search(r"^NETWORK = (\(.*?\))$", names, re.MULTILINE | re.DOTALL)[1]
    )
    assert set(network) == {"layers", "block_size", "init", *OWN}
    row = {key: Dflash.model_fields[key].default for key in OWN}
    words = network_words(row | {"layers": 5, "block_size": 16, "init": "random"})
    assert "5 layers, blocks of 16; as published: vocabulary, context," in words
    assert "They start from random weights" in words
    assert "vocabulary 90 (DFlash: whole)" in network_words(
        row | {"layers": 5, "block_size": 5, "vocabulary": 90, "init": "target"}
    )
