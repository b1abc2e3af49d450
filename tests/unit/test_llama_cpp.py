"""llama.cpp behind the decoder: exact steps back, its own greedy text, pairs of both engines."""

import importlib.util
import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tiny_gguf
import torch
from draftscope import config, models, registry
from draftscope.errors import UserError
from draftscope.live import decode, open_decoder
from draftscope.live.run import model_draft, run
from draftscope.models.vocabulary import align
from draftscope.seeds import generator
from draftscope.strict import load_yaml
from loading import rendered
from tiny import tiny_model_folder, tiny_tokenizer

needs_llama = pytest.mark.skipif(
    importlib.util.find_spec("llama_cpp") is None,
    reason="llama-cpp-python is not installed: run `make llama`",
)
GREEDY = {"temperature": 0.0, "top_k": 0, "top_p": 1.0}
T1 = {"temperature": 1.0, "top_k": 0, "top_p": 1.0}
PROMPT = [0, 17, 45, 200, 9, 33, 120, 64, 77, 12, 5, 210]
# In standard deviations of the logits. Measured on AVX-512: .0020 in float32 for passes of 2 to 63
# tokens against single ones, 0 in q8_0 and q4_1; from 64 tokens on .18, where keys and values
# meet the query in another order. Between engines .018 in float32 (keys and values in float16).
SHAPE, ENGINES = 0.02, 0.1
# Ids that no text of the tests ends at.
NO_EOS: frozenset[int] = frozenset()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Of one tiny Llama: transformers' folder, the GGUF file, and records of several kinds."""
    root = tmp_path_factory.mktemp("llama")
    tokenizer = tiny_tokenizer(specials=("<s>", "<|endoftext|>", "<pad>"))
    tiny_model_folder(root / "source", tokenizer=tokenizer)
    path = tiny_gguf.write_gguf(root / "source", root / "tiny.gguf")
    base = models.resolve("base", tiny_gguf.row(path, ["x  10"], tokenizer), root / "base")
    copy = {"kind": "round_to_nearest", "base": "base", "bits": 4, "group_size": 16}
    models.resolve("copy", copy, root / "copy", base)
    return root


@pytest.fixture(scope="module")
def loaded(folder):
    """Models of the tests: base and copy in transformers, f32, q8_0 and copy_f32 in llama.cpp."""
    for name, base, file_type in (
        ("f32", "base", None),
        ("q8_0", "base", "q8_0"),
        ("copy_f32", "copy", None),
    ):
        row = {"kind": "llama_cpp", "base": base, "file_type": file_type}
        models.resolve(name, row, folder / name, folder / base / "model.json")
    names = ("base", "copy", "f32", "q8_0", "copy_f32")
    return {name: models.load(folder / name / "model.json", "cpu") for name in names}


class Watched:
    """A decoder that compares what it says it holds with what llama.cpp holds, at every step."""

    def __init__(self, loaded):
        self._inner = open_decoder(loaded)
        self.steps = []

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def _check(self):
        assert self._inner.cache_lengths == {self._inner.length}

    def reset(self):
        self._inner.reset()
        self._check()

    def extend(self, token_ids, keep):
        before = self._inner.length
        logits = self._inner.extend(token_ids, keep)
        self.steps.append((before, self._inner.length))
        self._check()
        return logits

    def crop(self, length):
        self._inner.crop(length)
        self._check()


def speculate(target, draft, law=GREEDY, gamma=4, budget=60, key="t"):
    from draftscope.drafters.model import ModelDraft

    return decode(
        target, ModelDraft(draft, law) if draft else None, PROMPT, gamma=gamma, law=law,
        budget=budget, eos_ids=NO_EOS, rng=generator(key), where="test",
    )  # fmt: skip


def in_parts(decoder, ids, size):
    decoder.reset()
    return torch.cat([decoder.extend(part, len(part)) for part in ids.split(size)])


def error(found, wanted):
    return float((found - wanted).abs().max() / wanted.std())


IDS = torch.tensor([(i * 37) % 300 + 3 for i in range(130)])


@needs_llama
@pytest.mark.parametrize("law", [GREEDY, T1], ids=["greedy", "sampling"])
@pytest.mark.parametrize("gamma", range(1, 9))
def test_case_27_a_model_accepts_all_of_its_own_drafts(loaded, law, gamma):
    target, draft = Watched(loaded["q8_0"]), Watched(loaded["q8_0"])
    decoded = speculate(target, draft, law, gamma)
    assert [r.accepted for r in decoded.rounds] == [r.offered for r in decoded.rounds]
    assert len(decoded.token_ids) == 60
    # Every round but the last reads its drafts and the token before, and keeps all of them.
    starts = [len(PROMPT) + r.start - 1 for r in decoded.rounds[1:]]
    prefill, *rounds = target.steps
    assert prefill == (0, len(PROMPT) + gamma)
    assert [before for before, _ in rounds] == starts


@needs_llama
@pytest.mark.parametrize("name", ["f32", "q8_0"])
def test_cases_26_and_28_logits_after_any_steps_back_are_a_recompute(loaded, name):
    decoder, fresh = open_decoder(loaded[name]), open_decoder(loaded[name])
    rng = np.random.default_rng(5)
    text: list[int] = []
    seen = []
    for _ in range(40):
        block = rng.integers(3, 300, rng.integers(1, 8)).tolist()
        logits = decoder.extend(torch.tensor(block), len(block))
        text += block
        wanted = in_parts(fresh, torch.tensor(text), 32)[-len(block) :]
        seen.append(error(logits, wanted))
        stay = len(text) - int(rng.integers(0, len(block)))
        decoder.crop(stay)
        del text[stay:]
    assert max(seen) <= SHAPE, max(seen)
    # The comparison sees a single token that was not dropped.
    left = in_parts(fresh, torch.tensor([*text, 7, 11]), 32)[-1:]
    assert error(decoder.extend(torch.tensor([11]), 1), left) > 10 * SHAPE


@needs_llama
@pytest.mark.parametrize("name", ["f32", "q8_0"])
def test_the_shape_of_a_pass_moves_logits_by_a_known_amount(loaded, name):
    decoder = open_decoder(loaded[name])
    single = in_parts(decoder, IDS, 1)
    errors = {size: error(in_parts(decoder, IDS, size), single) for size in (2, 5, 9, 14, 32)}
    assert max(errors.values()) <= SHAPE, errors


@needs_llama
def test_a_prompt_is_read_alike_whatever_is_drafted_after_it(loaded):
    """From 64 tokens on other kernels read a pass; the drafts must not decide which."""
    decoder = open_decoder(loaded["q8_0"])
    alone = decoder.extend(IDS[:60], 1)
    decoder.reset()
    together = decoder.extend(IDS[:70], 11)
    assert torch.equal(together[0], alone[0])
    # In one pass it is not: that is what the decoder avoids.
    decoder.reset()
    assert not torch.equal(decoder._read(IDS[:70].numpy(), 11)[0], alone[0])


@needs_llama
def test_both_engines_read_the_same_weights(loaded):
    with torch.inference_mode():
        wanted = loaded["base"].model(IDS[None]).logits[0]
        rounded = loaded["copy"].model(IDS[None]).logits[0]
    assert error(in_parts(open_decoder(loaded["f32"]), IDS, 13), wanted) <= ENGINES
    copy = in_parts(open_decoder(loaded["copy_f32"]), IDS, 13)
    assert error(copy, rounded) <= ENGINES
    assert error(copy, wanted) > 5 * ENGINES  # the four bits are seen


@needs_llama
def test_greedy_text_is_llama_cpp_s_own(loaded):
    from llama_cpp import Llama

    model = loaded["q8_0"]
    plain = speculate(open_decoder(model), None, gamma=0).token_ids
    own = Llama(
        str(model.model.path), n_ctx=512, n_threads=1, flash_attn=True, verbose=False, seed=1
    )
    tokens = []
    for token in own.generate(PROMPT, temp=0.0):
        tokens.append(int(token))
        if len(tokens) == len(plain):
            break
    own.close()
    assert tokens == plain
    for gamma in (1, 2, 4, 8):
        speculative = speculate(open_decoder(model), open_decoder(loaded["copy"]), gamma=gamma)
        assert speculative.token_ids == plain


@needs_llama
@pytest.mark.parametrize(
    ("target", "draft"), [("base", "f32"), ("f32", "base"), ("q8_0", "copy"), ("copy", "q8_0")]
)
def test_pairs_of_both_engines_give_the_target_s_text(loaded, target, draft):
    model, other = loaded[target], loaded[draft]
    drafter = model_draft(other, align(model, other), GREEDY)
    prompts = [("a", rendered(*PROMPT)), ("b", rendered(0, 50, 60))]
    settings = {"law": GREEDY, "budget": 40, "run_seed": 3, "domain": "math"}
    plain = run(model, None, prompts, gamma=0, **settings)
    live = run(model, drafter, prompts, gamma=5, **settings)
    assert [t["token_ids"] for t in live.trajectories] == [
        t["token_ids"] for t in plain.trajectories
    ]
    rate = sum(r["accepted"] for r in live.rounds) / sum(r["offered"] for r in live.rounds)
    if {target, draft} == {"base", "f32"}:  # one set of weights
        assert rate > 0.9
    else:
        assert 0.1 < rate < 1


@needs_llama
def test_a_cache_grows_without_a_trace(loaded, monkeypatch):
    decoder = open_decoder(loaded["q8_0"])
    wanted = in_parts(decoder, IDS.repeat(3), 10)
    monkeypatch.setattr("draftscope.live.llama_cpp._ROOM", 64)
    small = open_decoder(loaded["q8_0"])
    assert small._room == 64
    assert torch.equal(in_parts(small, IDS.repeat(3), 10), wanted)
    assert small._room == 512


@needs_llama
def test_a_position_that_is_not_there_cannot_be_cropped_to(loaded):
    decoder = open_decoder(loaded["q8_0"])
    decoder.extend(IDS[:5], 1)
    with pytest.raises(ValueError, match="cannot crop 5 tokens to 6"):
        decoder.crop(6)


@needs_llama
def test_scores_are_those_of_the_live_law(loaded):
    from draftscope import sampling
    from draftscope.scoring import score

    target, draft = loaded["q8_0"], loaded["copy"]
    prompts = [("a", rendered(*PROMPT))]
    settings = {"law": T1, "budget": 50, "run_seed": 3, "domain": "math"}
    (text,) = run(target, None, prompts, gamma=0, **settings).trajectories
    rows = {
        chunk: score(target, [(draft, align(target, draft))], [text], {"decoding": T1}, chunk)[0]
        for chunk in (7, 64)
    }
    decoder = open_decoder(target)
    ids = torch.tensor([*PROMPT, *text["token_ids"]])
    decoder.extend(ids[: len(PROMPT) - 1], 0)
    logits = torch.cat([decoder.extend(ids[i : i + 1], 1) for i in range(11, len(ids) - 1)])
    live = sampling.log_law(logits, **T1).gather(1, ids[len(PROMPT) :, None])[:, 0]
    for row in rows.values():
        assert np.allclose(row["log_p"], live, atol=1e-4)
    # And as a draft, of a target in transformers.
    (row,) = score(draft, [(target, align(draft, target))], [text], {"decoding": T1}, 64)
    assert np.allclose(row["log_q"], live, atol=1e-4)
    assert np.allclose(row["log_p"], rows[64]["log_q"], atol=1e-4)


@needs_llama
def test_the_record_says_what_runs(folder, loaded):
    record = json.loads((folder / "q8_0" / "model.json").read_text())
    path = folder / "q8_0" / "weights" / "model.gguf"
    assert record["file_type"] == "q8_0"
    assert record["files"]["model.gguf"]["bytes"] == path.stat().st_size
    assert record["revision"] == f"sha256:{record['sha256']}"
    assert record["llama_cpp_python"] and record["max_positions"] == 512
    original = json.loads((folder / "f32" / "model.json").read_text())
    assert original["sha256"] == json.loads((folder / "base" / "model.json").read_text())["sha256"]
    condition = loaded["q8_0"].condition("target")
    assert condition["quantization"] == "q8_0"
    assert record["llama_cpp_python"] in condition["kernel"]
    assert loaded["q8_0"].eos_ids == loaded["base"].eos_ids == {1}


@needs_llama
def test_a_file_that_changed_is_refused(folder, loaded, tmp_path):
    shutil.copytree(folder / "q8_0", tmp_path / "q8_0")
    shutil.copytree(folder / "base", tmp_path / "base")
    path = tmp_path / "q8_0" / "weights" / "model.gguf"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"model\.gguf has changed since it was resolved"):
        models.load(tmp_path / "q8_0" / "model.json", "cpu")


def other_tokenizer(folder, tmp_path, **changes):
    """The record of a base whose file is then exchanged for one that means other texts."""
    path = tiny_gguf.write_gguf(folder / "source", tmp_path / "other.gguf", **changes)
    record = dict(models.read_record(folder / "base" / "model.json"))
    row = tiny_gguf.row(path, [], None)
    return record | {"path": row["path"], "sha256": row["sha256"]}


@needs_llama
def test_case_8_a_file_that_splits_texts_otherwise_is_refused(folder, tmp_path):
    base = other_tokenizer(folder, tmp_path, merges=slice(None, None, -1))
    with pytest.raises(UserError, match=r"its tokenizer encodes .* llama\.cpp with model\.gguf as"):
        models.resolve("m", {"kind": "llama_cpp", "base": "base"}, tmp_path / "m", base)


@needs_llama
def test_case_5_a_file_with_other_ids_is_refused(folder, tmp_path):
    base = other_tokenizer(folder, tmp_path, swap=(290, 291))
    with pytest.raises(UserError, match=r"id 290 is '\S+' in its tokenizer and '\S+' in"):
        models.resolve("m", {"kind": "llama_cpp", "base": "base"}, tmp_path / "m", base)


@needs_llama
def test_a_file_that_llama_cpp_cannot_read_is_named(folder, tmp_path):
    (tmp_path / "no.gguf").write_bytes(b"GGUF" + bytes(100))
    base = dict(models.read_record(folder / "base" / "model.json"))
    row = tiny_gguf.row(tmp_path / "no.gguf", [], None)
    base |= {"path": row["path"], "sha256": row["sha256"]}
    with pytest.raises(UserError, match=r"model m: llama\.cpp .* cannot read .*damaged"):
        models.resolve("m", {"kind": "llama_cpp", "base": "base"}, tmp_path / "m", base)
    assert not list((tmp_path / "m").glob("model.json"))


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A cache of the hub that holds one repository, and no hub."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    repository, commit = tmp_path / "hub" / "models--some--tiny-GGUF", "c" * 40
    files = repository / "snapshots" / commit
    files.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    return files


HUB_ROW = {"kind": "llama_cpp", "base": "base", "repository": "some/tiny-GGUF", "revision": "main"}


@needs_llama
@pytest.mark.parametrize("parts", [1, 2])
def test_a_file_of_the_hub_runs_where_it_lies(folder, loaded, hub, tmp_path, parts):
    tiny_gguf.write_gguf(folder / "source", hub / "tiny.gguf", tensors=0 if parts == 1 else 15)
    names = sorted(path.name for path in hub.iterdir())
    assert len(names) == parts
    row = HUB_ROW | {"file": names[0]}
    record = models.resolve("m", row, tmp_path / "m", folder / "base" / "model.json")
    assert record["commit"] == "c" * 40 and record["file_type"] == "f32"
    assert [path.name for path in (tmp_path / "m").iterdir()] == ["model.json"]
    found = models.load(tmp_path / "m" / "model.json", "cpu")
    assert torch.equal(
        in_parts(open_decoder(found), IDS, 9), in_parts(open_decoder(loaded["f32"]), IDS, 9)
    )
    (hub / names[-1]).unlink()
    with pytest.raises(UserError, match=r"some/tiny-GGUF.* is not in this machine's cache"):
        models.load(tmp_path / "m" / "model.json", "cpu")


@needs_llama
def test_a_file_of_the_hub_can_be_quantized(folder, hub, tmp_path):
    tiny_gguf.write_gguf(folder / "source", hub / "tiny-f32.gguf")
    row = HUB_ROW | {"file": "tiny-f32.gguf", "file_type": "q8_0"}
    record = models.resolve("m", row, tmp_path / "m", folder / "base" / "model.json")
    assert record["file_type"] == "q8_0" and record["commit"] == "c" * 40
    assert models.load(tmp_path / "m" / "model.json", "cpu").dtype == "q8_0"
    assert (hub / "tiny-f32.gguf").is_file()  # the hub's own file stays


@needs_llama
def test_a_file_that_the_hub_lacks_is_named(folder, hub, tmp_path):
    row = HUB_ROW | {"file": "other.gguf"}
    with pytest.raises(UserError, match=r"model m \(some/tiny-GGUF at main\)"):
        models.resolve("m", row, tmp_path / "m", folder / "base" / "model.json")


@needs_llama
def test_case_25_a_recurrent_memory_is_refused_by_name(folder, tmp_path):
    from draftscope.models.llama_library import GgufModel

    path = tiny_gguf.write_recurrent(folder / "source", tmp_path / "mamba.gguf")
    model = GgufModel(path, "tiny-mamba")
    loaded = SimpleNamespace(
        model=model, name="tiny-mamba", device=torch.device("cpu"), head_size=model.width,
        max_positions=model.max_positions,
    )  # fmt: skip
    with pytest.raises(UserError, match="tiny-mamba cannot decode speculatively .*recurrent"):
        open_decoder(loaded)


@needs_llama
def test_a_memory_that_keeps_a_trace_is_refused(loaded, monkeypatch):
    """The check at opening reads on after a step back; here the step does not happen."""
    from draftscope.live.llama_cpp import LlamaDecoder

    def careless(self, length):
        self.length = length

    monkeypatch.setattr(LlamaDecoder, "crop", careless)
    with pytest.raises((UserError, RuntimeError), match="after a step back|cannot read"):
        open_decoder(loaded["q8_0"])


@needs_llama
def test_a_base_without_a_gguf_file_says_what_to_name(folder, tmp_path):
    local = {"kind": "local", "path": str(folder / "source")}
    base = models.resolve("plain", local, tmp_path / "plain")
    with pytest.raises(UserError, match="plain has no GGUF file; name one of the hub"):
        models.resolve("m", {"kind": "llama_cpp", "base": "plain"}, tmp_path / "m", base)


def test_case_57_without_the_package_one_line_names_it(folder, tmp_path, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name, *rest: None if name == "llama_cpp" else find(name)
    )
    row = {"kind": "llama_cpp", "base": "base"}
    with pytest.raises(UserError, match=r"pip install llama-cpp-python==\d") as caught:
        models.resolve("m", row, tmp_path / "m", folder / "base" / "model.json")
    assert "\n" not in str(caught.value)
    assert not list((tmp_path / "m").iterdir())


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
