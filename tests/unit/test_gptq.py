"""Models quantized with GPTQ: made from training prompts, loaded exactly, refused when wrong."""

import importlib.util
import json
import logging
import shutil

import pytest
import torch
from draftscope import models, prompts, registry
from draftscope.drafters.model import ModelDraft
from draftscope.errors import UserError
from draftscope.live import CachedModel, decode, open_decoder
from draftscope.live.lean import lean_decoder
from draftscope.models import gptq, gptq_kernels
from draftscope.models.vocabulary import align
from draftscope.prompts import calibration
from draftscope.prompts.cutting import Reader
from draftscope.seeds import generator
from draftscope.strict import load_yaml
from experiments import ROOT
from safetensors.torch import load_file, save_file
from tiny import tiny_model_folder, tiny_tokenizer
from transformers import AutoModelForCausalLM, LlamaForCausalLM

installed = importlib.util.find_spec("gptqmodel") and importlib.util.find_spec("optimum")
needs_gptq = pytest.mark.skipif(not installed, reason="gptqmodel is not installed: make gptq")
SETTINGS = {
    "kind": "gptq",
    "base": "tiny",
    "bits": 4,
    "group_size": 32,
    "calibration": {"domains": ["small"], "texts": 6, "tokens": 40},
}
IDS = torch.arange(3, 43)[None]


def calibration_ids(seed: int = 0) -> list[list[int]]:
    numbers = torch.Generator().manual_seed(seed)
    return [torch.randint(3, 320, (40,), generator=numbers).tolist() for _ in range(6)]


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """Of width 64: two groups of 32 weights share no scale."""
    folder = tiny_model_folder(tmp_path_factory.mktemp("plain"))
    settings = {"kind": "local", "path": str(folder)}
    return models.resolve("tiny", settings, tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def quantized(base, tmp_path_factory):
    folder = tmp_path_factory.mktemp("quantized")
    return models.resolve("small-gptq", SETTINGS, folder, base, calibration_ids())


def weights_of(record) -> dict[str, torch.Tensor]:
    return load_file(f"{record['location']}/weights/model.safetensors")


def dequantized(weights: dict[str, torch.Tensor], layer: str, bits: int = 4) -> torch.Tensor:
    """[outputs, inputs] by the layout of GPTQ files: codes packed along the inputs, zeros minus one
    along the outputs, both from the lowest bits of an int32 upward."""
    shifts = torch.arange(0, 32, bits)
    codes = weights[f"{layer}.qweight"][:, None] >> shifts[None, :, None] & 2**bits - 1
    zeros = weights[f"{layer}.qzeros"][:, :, None] >> shifts & 2**bits - 1
    group = weights[f"{layer}.g_idx"].long()
    zeros = zeros.flatten(1)[group] + 1
    scales = weights[f"{layer}.scales"][group]
    return ((codes.flatten(0, 1) - zeros).to(scales.dtype) * scales).T


def plain_model(record, base, shift: int = 0) -> LlamaForCausalLM:
    """The base with the quantized file's weights put in; `shift` moves every zero point."""
    weights = weights_of(record)
    model = AutoModelForCausalLM.from_pretrained(base["path"])
    for name, module in model.named_modules():
        if f"{name}.qweight" in weights:
            moved = dequantized(weights, name)
            if shift:
                group = weights[f"{name}.g_idx"].long()
                moved = moved - shift * weights[f"{name}.scales"][group].T
            module.weight.data.copy_(moved)
    return model.eval()


# ---- Calibration: training prompts only; needs no package --------------------------------------


def rows_of(domain: str, split: str, count: int) -> list[dict]:
    row = load_yaml(ROOT / "config/domains.yaml")[domain]
    return prompts.collect({"domain": domain, **row, "split": split}, 0, count)


def test_no_evaluation_prompt_is_in_the_calibration_text_of_the_shipped_models(monkeypatch):
    monkeypatch.chdir(ROOT)
    rows = load_yaml(ROOT / "config/models.yaml")
    made = {name: row for name, row in rows.items() if row["kind"] == "gptq"}
    assert made
    for row in made.values():
        plan = registry.Calibration.model_validate(row["calibration"])
        for domain in plan.domains:
            first, last = load_yaml(ROOT / "config/domains.yaml")[domain]["evaluation"]
            measured = rows_of(domain, "evaluation", min(200, last - first))
            training = rows_of(domain, "training", plan.share(domain))
            for key in ("prompt_id", "text"):
                assert not {r[key] for r in measured} & {r[key] for r in training}, domain


def reader() -> Reader:
    tokenizer = tiny_tokenizer()
    return Reader("tiny", tokenizer, tokenizer.bos_token_id)


def test_calibration_text_is_rendered_as_the_model_reads_it_and_cut(monkeypatch):
    monkeypatch.chdir(ROOT)
    rows = rows_of("chat", "training", 3)
    templates = {"chat": {"chat_template": True}}
    whole = calibration.texts(reader(), rows, templates, 10_000)
    assert [ids[0] for ids in whole] == [0, 0, 0]  # exactly one token that begins a text
    assert whole[0] == prompts.render(reader(), rows[0], templates["chat"]).token_ids
    assert calibration.texts(reader(), rows, templates, 16) == [ids[:16] for ids in whole]


def test_an_evaluation_prompt_is_refused_as_calibration_text(monkeypatch):
    monkeypatch.chdir(ROOT)
    rows = rows_of("chat", "training", 2) + rows_of("chat", "evaluation", 1)
    with pytest.raises(UserError, match="is an evaluation prompt"):
        calibration.texts(reader(), rows, {"chat": {"chat_template": True}}, 64)


def test_texts_are_shared_out_over_the_domains():
    plan = registry.Calibration(domains=["a", "b", "c"], texts=8, tokens=64)
    assert [plan.share(name) for name in "abc"] == [3, 3, 2]


# ---- What is refused before anything is loaded --------------------------------------------------

MODELS = {
    "plain": {"kind": "local", "path": "weights/plain"},
    "q": SETTINGS | {"base": "plain"},
    "copy": {"kind": "round_to_nearest", "base": "plain", "bits": 4, "group_size": 32},
}


def selected(**changed):
    rows = MODELS | changed
    pair = {"target": "q", "draft": "copy", "draft_group": "g"}
    return registry.models_of({"p": pair}, rows)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"q": SETTINGS | {"base": "copy"}}, "which is itself a copy; quantize 'plain'"),
        ({"copy": MODELS["copy"] | {"base": "q"}}, "derived from 'q', whose weights are quantized"),
        ({"q": SETTINGS | {"base": "plain", "group_size": 60}}, "group_size"),
        ({"q": SETTINGS | {"base": "plain", "bits": 5}}, "bits"),
        (
            {"q": SETTINGS | {"calibration": {"domains": ["a", "b"], "texts": 1, "tokens": 64}}},
            "calibration.texts 1 is below the 2 domains",
        ),
    ],
)
def test_a_row_that_cannot_be_quantized_is_refused_when_it_is_read(changed, message):
    with pytest.raises(UserError, match=message):
        selected(**changed)


@pytest.mark.parametrize(
    ("domains", "message"),
    [
        ({"other": {}}, "unknown calibration domain of 'q': 'small'"),
        ({"small": {"training": [8, 10]}}, r"model 'q': domain small has 2 training prompts"),
        ({"small": {}}, "model 'q': .*training"),
    ],
)
def test_calibration_needs_a_domain_with_enough_training_prompts(domains, message):
    source = {"source": "jsonl", "file": "p.jsonl", "evaluation": [0, 8]}
    rows = {name: source | more for name, more in domains.items()}
    with pytest.raises(UserError, match=message):
        registry.calibration_domains(selected(), rows, {})


def test_case_57_quantizing_without_the_package_names_it(base, tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"small-gptq .*gptqmodel 7\.5\.0.*pip install"):
        models.resolve("small-gptq", SETTINGS, tmp_path, base, calibration_ids())


@pytest.mark.parametrize(
    ("dtype", "device", "exact"),
    [
        (torch.float32, torch.device("cpu"), True),
        (torch.bfloat16, torch.device("cpu"), True),
        (torch.float32, torch.device("cuda"), True),
        (torch.float32, "balanced", True),
        (torch.float16, torch.device("cuda", 0), False),
        (torch.bfloat16, "balanced", False),
    ],
)
def test_the_kernel_is_left_to_gptqmodel_in_half_precision_on_a_gpu_only(dtype, device, exact):
    assert gptq_kernels.needs_exact_kernel(dtype, device) is exact


# ---- With the package ---------------------------------------------------------------------------


@needs_gptq
@pytest.mark.parametrize(
    ("settings", "texts", "message"),
    [
        ({"group_size": 128}, calibration_ids(), "does not divide its widths 64, 128; 64 does"),
        ({}, calibration_ids()[:4], "4 calibration texts, its registry row says 6"),
        ({}, [ids[:9] for ids in calibration_ids()], "a calibration text has 9 tokens"),
        ({"base": "another"}, calibration_ids(), "its base is another, not tiny"),
    ],
)
def test_what_would_be_quantized_otherwise_than_asked_is_refused(
    base, tmp_path, settings, texts, message
):
    with pytest.raises(UserError, match=message):
        models.resolve("small-gptq", SETTINGS | settings, tmp_path, base, texts)


@needs_gptq
def test_the_record_says_how_it_was_made(quantized, base):
    assert quantized["gptqmodel"] == "7.5.0"
    assert (quantized["bits"], quantized["group_size"]) == (4, 32)
    assert quantized["calibration"]["sha256"] == gptq.calibration_sha256(calibration_ids())
    assert quantized["quantized_from"] == {"name": "tiny", "revision": base["revision"]}
    assert quantized["revision"].startswith(f"{base['revision']} gptq4-g32 sha256:")
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= set(quantized["files"])


@needs_gptq
def test_the_same_text_gives_the_same_files_and_other_text_others(base, quantized, tmp_path):
    again = models.resolve("small-gptq", SETTINGS, tmp_path / "a", base, calibration_ids())
    assert again["files"] == quantized["files"]
    other = models.resolve("small-gptq", SETTINGS, tmp_path / "b", base, calibration_ids(1))
    assert other["revision"] != quantized["revision"]


@needs_gptq
def test_case_63_a_quantization_that_fails_leaves_no_weights(base, tmp_path, monkeypatch):
    def dies(name, source, target, *rest):
        target.mkdir()
        raise MemoryError

    monkeypatch.setattr(gptq, "_quantize", dies)
    (tmp_path / ".weights.making-old").mkdir()
    with pytest.raises(MemoryError):
        models.resolve("small-gptq", SETTINGS, tmp_path, base, calibration_ids())
    assert list(tmp_path.iterdir()) == []


@needs_gptq
def test_the_loaded_model_computes_with_the_weights_of_the_file(quantized, base):
    loaded = models.load(quantized, "cpu")
    with torch.inference_mode():
        logits = loaded.model(input_ids=IDS).logits
        expected = plain_model(quantized, base)(input_ids=IDS).logits
        wrong = plain_model(quantized, base, shift=1)(input_ids=IDS).logits
        original = AutoModelForCausalLM.from_pretrained(base["path"])(input_ids=IDS).logits
    assert float((logits - expected).abs().max() / expected.std()) < 1e-5
    # Controls: zero points off by one, as the two layouts of GPTQ files differ, and no rounding.
    assert float((logits - wrong).abs().max() / expected.std()) > 0.1
    assert float((logits - original).abs().max() / expected.std()) > 0.01


@needs_gptq
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_case_57_the_kernel_that_runs_is_part_of_the_condition(quantized, dtype):
    loaded = models.load(quantized, "cpu", dtype)
    condition = loaded.condition("target")
    assert condition["quantization"] == "gptq, 4-bit, group 32, gptqmodel 7.5.0, optimum 2.3.0"
    assert condition["kernel"] == "gptq_torch TorchLinear"
    assert condition["dtype"] == dtype
    assert loaded.condition("draft")["draft_kernel"] == condition["kernel"]
    layers = gptq_kernels.layers(loaded.model)
    assert len(layers) == 14
    assert all(set(layer._cached_weights) == {getattr(torch, dtype)} for layer in layers)
    with torch.inference_mode():
        logits = loaded.model(input_ids=IDS).logits
    assert logits.dtype == getattr(torch, dtype) and bool(logits.isfinite().all())


@needs_gptq
def test_in_float32_one_pass_and_token_by_token_agree(quantized):
    """What rules out kernels that multiply in bfloat16 under a float32 model."""
    loaded = models.load(quantized, "cpu")
    assert lean_decoder(loaded) is None  # it would read weights that are not there
    decoder = CachedModel(loaded)
    with torch.inference_mode():
        whole = decoder.extend(IDS[0], IDS.shape[1])
        decoder.reset()
        steps = torch.cat([decoder.extend(IDS[0, i : i + 1], 1) for i in range(IDS.shape[1])])
    assert float((whole - steps).abs().max() / whole.std()) < 1e-4


@needs_gptq
def test_speculation_on_a_quantized_target_gives_its_own_greedy_text(quantized, base):
    target, draft = models.load(quantized, "cpu"), models.load(base, "cpu")
    law = {"temperature": 0.0, "top_k": 0, "top_p": 1.0}
    assert align(target, draft).masked_ids == ()
    texts = [
        decode(
            open_decoder(target),
            ModelDraft(open_decoder(draft), law),
            [0, 17, 45],
            gamma=gamma,
            law=law,
            budget=24,
            eos_ids=frozenset(),
            rng=generator("gptq"),
        )
        for gamma in (0, 4)
    ]
    assert texts[0].token_ids == texts[1].token_ids and len(texts[0].token_ids) == 24
    accepted = [r.accepted for r in texts[1].rounds]
    assert 0 < sum(accepted) < 4 * len(accepted)  # the draft is another model, and near


@needs_gptq
def test_loading_leaves_no_log_behind(quantized, monkeypatch):
    """gptqmodel installs a handler where it finds none; one that writes nowhere would stay."""
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    with gptq_kernels.quiet():
        logging.basicConfig()
    assert logging.getLogger().handlers == []
    models.load(quantized, "cpu")
    assert logging.getLogger().handlers == []


@needs_gptq
def test_case_58_a_draft_does_not_inherit_the_quantization_of_its_target(quantized, base, tmp_path):
    models.load(quantized, "cpu")
    draft = models.load(base, "cpu")
    assert draft.kernel is None and draft.quantization is None
    assert getattr(draft.model.config, "quantization_config", None) is None
    assert set(draft.condition("draft")) == {
        *("draft", "draft_revision", "draft_dtype", "draft_quantization"),
    }
    assert gptq_kernels.layers(draft.model) == []


def broken(record, folder, change):
    """A local copy of the quantized checkpoint with its configuration or weights changed."""
    shutil.copytree(f"{record['location']}/weights", folder)
    config = json.loads((folder / "config.json").read_text())
    weights = load_file(folder / "model.safetensors")
    change(config["quantization_config"], weights)
    (folder / "config.json").write_text(json.dumps(config))
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return models.resolve("wrong", {"kind": "local", "path": str(folder)}, folder.parent / "r")


def drop_layer(config, weights):
    del weights["model.layers.1.mlp.up_proj.qweight"]


WRONG = {
    "lack": drop_layer,
    "bits": lambda config, weights: config.update(bits=8),
    "group": lambda config, weights: config.update(group_size=64),
}


@needs_gptq
@pytest.mark.parametrize("fault", WRONG)
def test_a_checkpoint_that_does_not_fit_its_configuration_is_refused(quantized, tmp_path, fault):
    record = broken(quantized, tmp_path / "m", WRONG[fault])
    with pytest.raises(UserError, match="model wrong: the weights in .* (lack|hold in another)"):
        models.load(record, "cpu")


@needs_gptq
def test_an_unchanged_copy_of_the_checkpoint_loads(quantized, tmp_path):
    record = broken(quantized, tmp_path / "m", lambda config, weights: None)
    assert models.load(record, "cpu").kernel == "gptq_torch TorchLinear"
