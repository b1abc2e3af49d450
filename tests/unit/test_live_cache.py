"""Caches that step back: after every rollback the logits are those of a recompute."""

import itertools

import pytest
import torch
from draftscope.drafters.model import ModelDraft
from draftscope.errors import UserError
from draftscope.live import CachedModel, decode, open_decoder
from draftscope.live.cache import RollbackLayer
from draftscope.live.lean import LeanDecoder, lean_decoder
from draftscope.live.probe import probe
from draftscope.seeds import generator
from loading import disturbed, load_tiny
from tiny import tiny_model_folder
from transformers import (
    AutoModelForCausalLM,
    DynamicCache,
    GPT2Config,
    Lfm2Config,
    LlamaConfig,
    LlamaForCausalLM,
    MambaConfig,
    MistralConfig,
    Qwen2Config,
    Qwen3Config,
)

T1 = {"temperature": 1.0, "top_k": 0, "top_p": 1.0}
GREEDY = {"temperature": 0.0, "top_k": 0, "top_p": 1.0}
ENGINES = {"lean": LeanDecoder, "transformers": CachedModel}
PROMPT = [0, 17, 45, 200, 9, 33]


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return load_tiny(tiny_model_folder(tmp_path_factory.mktemp("target"), seed=1), "target")


@pytest.fixture(scope="module")
def draft(tmp_path_factory):
    return disturbed(tmp_path_factory.mktemp("draft"), noise=0.04, seed=1)


class Watched:
    """A decoder that checks every pass against the whole text, recomputed without a cache."""

    def __init__(self, decoder, model):
        self._decoder, self._model, self.text, self.widths = decoder, model, [], []

    def __getattr__(self, name):
        return getattr(self._decoder, name)

    def reset(self):
        self.crop(0)

    def crop(self, length):
        self._decoder.crop(length)
        del self.text[length:]
        assert self._decoder.length == len(self.text)
        assert self._decoder.cache_lengths == {len(self.text)}

    def extend(self, token_ids, keep):
        self.text += token_ids.tolist()
        logits = self._decoder.extend(token_ids, keep)
        whole = self._model(input_ids=torch.tensor([self.text]), use_cache=False).logits[0, -keep:]
        torch.testing.assert_close(logits, whole, rtol=2e-4, atol=2e-4)
        assert self._decoder.cache_lengths == {len(self.text)}
        self.widths.append(len(token_ids))
        return logits


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("law", [T1, GREEDY], ids=["sampling", "greedy"])
def test_case_26_logits_after_every_rollback_equal_a_recompute(target, draft, engine, law):
    watched = Watched(ENGINES[engine](target), target.model)
    watched_draft = Watched(ENGINES[engine](draft), draft.model)
    for gamma in (1, 3, 6):
        decoded = decode(
            watched, ModelDraft(watched_draft, law), PROMPT, gamma=gamma, law=law, budget=60,
            eos_ids=frozenset(), rng=generator("rollback", gamma),
        )  # fmt: skip
        rejecting = [r.accepted < r.offered for r in decoded.rounds]
        assert any(a and b for a, b in itertools.pairwise(rejecting))  # two in a row
        assert any(r.accepted == r.offered == gamma for r in decoded.rounds)
        # No token is read twice without need: one and the block, one or two and single ones.
        assert all(r.verify_tokens == r.offered + 1 for r in decoded.rounds[1:])
        assert max(watched_draft.widths[1:]) <= 2
        watched_draft.widths.clear()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("law", [T1, GREEDY], ids=["sampling", "greedy"])
def test_case_27_self_draft_is_accepted_at_exactly_one_with_right_cache_lengths(
    target, engine, law
):
    watched = Watched(ENGINES[engine](target), target.model)
    drafter = ModelDraft(Watched(ENGINES[engine](target), target.model), law)
    for gamma in range(1, 9):
        decoded = decode(
            watched, drafter, PROMPT, gamma=gamma, law=law, budget=4 * (gamma + 1),
            eos_ids=frozenset(), rng=generator("self", gamma),
        )  # fmt: skip
        assert [(r.offered, r.accepted) for r in decoded.rounds] == [(gamma, gamma)] * 4
        assert all(r.verify_tokens == gamma + 1 for r in decoded.rounds[1:])
        # At the end neither the bonus token nor, after the last block, anything else was read.
        assert watched.length == len(PROMPT) + 4 * (gamma + 1) - 1


@pytest.mark.parametrize("engine", ENGINES)
def test_case_28_a_self_draft_spoilt_every_third_round_still_reads_right(target, engine):
    class Spoilt(ModelDraft):
        rounds = 0

        def propose(self, count):
            block = super().propose(count)
            self.rounds += 1
            if self.rounds % 3 == 0 and count > 1:
                block.ids[1] = (block.ids[1] + 1) % 300
                self._block = block.ids.clone()
                # What the draft's cache holds of the spoilt token is not that token any more.
                self._decoder.crop(min(self._decoder.length, len(self._text) + 1))
            return block

    watched = Watched(ENGINES[engine](target), target.model)
    drafter = Spoilt(Watched(ENGINES[engine](target), target.model), GREEDY)
    decoded = decode(
        watched, drafter, PROMPT, gamma=4, law=GREEDY, budget=80, eos_ids=frozenset(),
        rng=generator("spoilt"),
    )  # fmt: skip
    for number, r in enumerate(decoded.rounds[:-1]):
        assert r.accepted == (1 if number % 3 == 2 else 4)


def test_greedy_text_is_the_one_of_transformers(target, draft):
    ids = torch.tensor([PROMPT])
    wanted = target.model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=80, do_sample=False,
        eos_token_id=None,
    )[0, len(PROMPT) :].tolist()  # fmt: skip
    for engine in ENGINES.values():
        decoder, drafter = engine(target), ModelDraft(engine(draft), GREEDY)
        for gamma in (0, 1, 2, 4, 8):
            decoded = decode(
                decoder, drafter, PROMPT, gamma=gamma, law=GREEDY, budget=80, eos_ids=frozenset(),
                rng=generator("greedy"),
            )  # fmt: skip
            assert decoded.token_ids == wanted


SMALL = {"vocab_size": 60, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "initializer_range": 0.3}


def built(config):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").eval()
        for name, weight in model.named_parameters():
            if "norm" in name or name.endswith("bias"):  # all ones and zeros would hide a mistake
                weight.data += 0.3 * torch.randn(weight.shape)
    return model


def described(model, name="small", attention=None):
    """A LoadedModel's fields, for models that are never saved."""
    from draftscope.models.loaded import LoadedModel

    return LoadedModel(
        name=name, kind="local", model=model, tokenizer=None, eos_ids=frozenset(), bos_id=None,
        pad_id=0, vocabulary_size=60, head_size=60, max_positions=None, revision="",
        tokenizer_sha256=None, dtype="float32", device=torch.device("cpu"), quantization=None,
        attention=attention or model.config._attn_implementation,
    )  # fmt: skip


FAMILIES = {
    "llama": LlamaConfig(**SMALL, **HEADS, attention_bias=True, mlp_bias=True),
    "llama one head a group": LlamaConfig(**SMALL, **HEADS | {"num_key_value_heads": 4}),
    "llama tied": LlamaConfig(**SMALL, **HEADS, tie_word_embeddings=True),
    "qwen2": Qwen2Config(**SMALL, **HEADS),
    "qwen3": Qwen3Config(**SMALL, **HEADS, head_dim=16),
    "mistral": MistralConfig(**SMALL, **HEADS, sliding_window=None),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_lean_decoding_gives_the_logits_of_the_family(family):
    loaded = described(built(FAMILIES[family]))
    lean = lean_decoder(loaded)
    assert lean is not None
    assert open_decoder(loaded).engine == "lean"
    assert probe(lean, loaded.model) < 1e-4
    assert probe(CachedModel(loaded), loaded.model) < 1e-4


def test_lean_decoding_reads_long_prompts_and_catches_up_in_parts():
    model = built(FAMILIES["qwen3"])
    lean = lean_decoder(described(model))
    ids = torch.randint(0, 60, (700,), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        whole = model(input_ids=ids[None], use_cache=False).logits[0]
        torch.testing.assert_close(lean.extend(ids[:300], 5), whole[295:300], rtol=1e-3, atol=1e-3)
        torch.testing.assert_close(lean.extend(ids[300:], 70), whole[630:], rtol=1e-3, atol=1e-3)
        lean.crop(299)
        torch.testing.assert_close(
            lean.extend(ids[299:303], 4), whole[299:303], rtol=1e-3, atol=1e-3
        )


def test_lean_decoding_declines_what_it_does_not_know():
    assert (
        lean_decoder(described(built(GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=60))))
        is None
    )
    model = built(FAMILIES["llama"])
    assert lean_decoder(described(model, attention="eager")) is None
    model.model.layers[1].mlp.down_proj = torch.nn.Sequential(model.model.layers[1].mlp.down_proj)
    model.model.layers[1].mlp.down_proj.weight = model.model.layers[0].mlp.down_proj.weight
    model.model.layers[1].mlp.down_proj.bias = None
    assert lean_decoder(described(model)) is None
    halved = built(FAMILIES["llama"])
    halved.model.layers[0].self_attn.scaling *= 1.01  # the lean one reads it off this layer
    halved.model.layers[1].self_attn.scaling *= 0.5
    assert lean_decoder(described(halved)) is None


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_other_architectures_run_through_transformers(attention):
    model = built(GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=60, initializer_range=0.3))
    model.set_attn_implementation(attention)
    decoder = open_decoder(described(model))
    assert decoder.engine == "transformers"
    assert probe(decoder, model) < 1e-4


@pytest.mark.parametrize(
    "config",
    [
        MistralConfig(**SMALL, **HEADS, sliding_window=8),
        Qwen2Config(**SMALL, **HEADS, use_sliding_window=True, sliding_window=8, max_window_layers=1),
    ],
    ids=["mistral", "qwen2"],
)  # fmt: skip
def test_case_24_a_sliding_window_is_refused_by_model_name(config):
    loaded = described(built(config), "windowed")
    with pytest.raises(UserError, match="model windowed .*SlidingWindow.*cannot be cropped"):
        open_decoder(loaded)


@pytest.mark.parametrize(
    "config",
    [
        MambaConfig(vocab_size=60, hidden_size=32, num_hidden_layers=2, state_size=4),
        Lfm2Config(**SMALL, **HEADS, layer_types=["conv", "full_attention"]),
    ],
    ids=["mamba", "hybrid"],
)
def test_case_25_a_recurrent_state_is_refused_by_model_name(config):
    model = AutoModelForCausalLM.from_config(config).eval()
    with pytest.raises(UserError, match="model recurrent .*cannot be cropped"):
        open_decoder(described(model, "recurrent", attention="sdpa"))


class SumOfTokens(LlamaForCausalLM):
    """A state that no cache knows of: the sum of all tokens seen, never taken back."""

    def __init__(self, config):
        super().__init__(config)
        self.seen = 0.0
        self.model.embed_tokens.register_forward_hook(self._add)

    def _add(self, module, args, output):
        self.seen += float(args[0].sum())
        return output + 0.01 * self.seen


def test_case_25_a_state_beside_the_cache_is_found_and_refused():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = SumOfTokens(LlamaConfig(**SMALL, **HEADS)).eval()
    model.set_attn_implementation("sdpa")
    with pytest.raises(UserError, match="model summing"):
        open_decoder(described(model, "summing"))


@pytest.mark.parametrize("steps", [[5, -2, 1, 1, 300, -250, 3], [1, -1, 4, -4, 2], [600, -1, 600]])
def test_the_growing_layer_holds_what_the_copying_one_holds(steps):
    """Reference: the layer of transformers, which copies the past at each step."""
    ours, theirs = RollbackLayer(), DynamicCache().layer_class_to_replicate()
    generator_ = torch.Generator().manual_seed(0)
    for step in steps:
        if step < 0:
            ours.crop(step)
            theirs.crop(step)
            continue
        new = torch.randn(2, 1, 3, step, 4, generator=generator_)
        for a, b in zip(ours.update(*new), theirs.update(*new), strict=True):
            assert torch.equal(a, b)
        assert ours.get_seq_length() == theirs.get_seq_length()
    with pytest.raises(ValueError, match="cannot remove"):
        ours.crop(-(ours.get_seq_length() + 1))
    ours.reset()
    assert ours.get_seq_length() == 0
