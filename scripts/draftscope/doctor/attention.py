"""Does the attention implementation see the mask of a token tree? Asked without the weights."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import torch

from draftscope.doctor.findings import NOTE, OK, Findings
from draftscope.doctor.models import Known
from draftscope.models.loaded import LoadedModel, choose_device
from draftscope.stage import Stage

_WIDTH = 1000


def check_attention(models: Mapping[str, Known | None], stage: Stage, findings: Findings) -> None:
    """Run the check that a job of trees begins with, on a random model of one layer.

    It has the architecture and the heads of the model, so what it tells of the attention
    implementation on this machine holds for the model. None stands for one of which nothing is
    known yet.
    """
    from draftscope.tree.selfcheck import check_trees

    for name, known in models.items():
        if known is None:
            findings.add("attention", name, NOTE, f"not checked: {name} is not there yet")
            continue
        with findings.asking("attention", name):
            check_trees(_small(known, stage))
            findings.add("attention", name, OK, f"{stage.attention} reads trees as their paths")


def _small(known: Known, stage: Stage) -> LoadedModel:
    from transformers import AutoModelForCausalLM

    config = copy.deepcopy(known.config)
    text = config.get_text_config()
    text.num_hidden_layers, text.vocab_size = 1, _WIDTH
    if hasattr(text, "layer_types"):
        text.layer_types = text.layer_types[:1]
    config.quantization_config = None
    for key in ("bos_token_id", "eos_token_id", "pad_token_id"):
        setattr(text, key, None)
    device = choose_device(stage.device if stage.device != "balanced" else "auto")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(
            config, attn_implementation=stage.attention, dtype=torch.float32
        )
    model = model.to(device).eval().requires_grad_(False)
    return LoadedModel(
        name=known.name, kind="random", model=model, tokenizer=None, eos_ids=frozenset(),
        bos_id=None, pad_id=0, vocabulary_size=_WIDTH, head_size=_WIDTH,
        max_positions=known.max_positions, revision="", tokenizer_sha256=None, dtype="float32",
        device=device, quantization=None, attention=stage.attention,
    )  # fmt: skip
