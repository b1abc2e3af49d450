"""Decoders that read trees: node logits, kept paths, real (tiny) models, and the node log."""

import numpy as np
import pytest
import torch
from draftscope.errors import UserError
from draftscope.live import decode
from draftscope.models.vocabulary import align
from draftscope.schemas import SCHEMAS
from draftscope.seeds import generator
from draftscope.tree import schemas  # noqa: F401  (registers them)
from draftscope.tree.decoder import TreeLean, TreeModel, open_tree_decoder, tree_probe
from draftscope.tree.draft import TreeDraft
from draftscope.tree.log import table
from draftscope.tree.loop import decode_tree
from draftscope.tree.replay import replay_trees
from draftscope.tree.rules import TREE_RULES
from draftscope.tree.scoring import score_trees
from draftscope.tree.shape import Shape
from loading import disturbed, load_tiny
from tiny import tiny_model_folder
from transformers import (
    AttentionInterface,
    AutoModelForCausalLM,
    GPT2Config,
    LlamaConfig,
    Qwen3Config,
)

COLUMNS = ("start", "accepted", "emitted", "end")
GREEDY = {"temperature": 0.0, "top_k": 0, "top_p": 1.0}
T1 = {"temperature": 1.0, "top_k": 0, "top_p": 1.0}
ENGINES = {"lean": TreeLean, "transformers": TreeModel}
PROMPT = [0, 17, 45, 200, 9, 33]
SHAPES = {
    "published": Shape("breadth_first", max_depth=3, max_branch=2, max_nodes=8, root_branch=3),
    "static": Shape("static", branching=(3, 2, 2, 1)),
    "confidence": Shape("confidence", max_depth=5, max_branch=3, max_nodes=9),
    "paths": Shape("paths", paths=((1,), (2,), (1, 1), (2, 1), (1, 1, 1), (1, 1, 1, 1))),
}
DRAWABLE = [name for name in SHAPES if name != "confidence"]


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return load_tiny(tiny_model_folder(tmp_path_factory.mktemp("target"), seed=1), "target")


@pytest.fixture(scope="module")
def draft(tmp_path_factory):
    return disturbed(tmp_path_factory.mktemp("draft"), noise=0.07, seed=1)


class Watched:
    """A decoder whose every logit is checked against its path, recomputed without a cache."""

    def __init__(self, decoder, model):
        self._decoder, self._model, self.text = decoder, model, []
        self.read, self.parents, self.kept, self.rows = [], [], [], 0

    def __getattr__(self, name):
        return getattr(self._decoder, name)

    def reset(self):
        self._decoder.reset()
        self.text, self.read, self.parents = [], [], []

    def extend(self, token_ids, keep):
        self.text += token_ids.tolist()
        logits = self._decoder.extend(token_ids, keep)
        whole = self._model(input_ids=torch.tensor([self.text]), use_cache=False).logits[0, -keep:]
        torch.testing.assert_close(logits, whole, rtol=2e-4, atol=2e-4)
        return logits

    def extend_tree(self, token_ids, parents, keep):
        self.read += token_ids.tolist()
        self.parents += parents
        logits = self._decoder.extend_tree(token_ids, parents, keep)
        for row, place in enumerate(range(len(self.read) - keep, len(self.read))):
            path = []
            while place >= 0:
                path.insert(0, self.read[place])
                place = self.parents[place]
            alone = torch.tensor([self.text + path])
            wanted = self._model(input_ids=alone, use_cache=False).logits[0, -1]
            torch.testing.assert_close(logits[row], wanted, rtol=2e-4, atol=2e-4)
            self.rows += 1
        return logits

    def keep_path(self, places):
        self._decoder.keep_path(places)
        self.text += [self.read[place] for place in places]
        self.kept.append(list(places))
        self.read, self.parents = [], []
        assert self._decoder.length == len(self.text)
        assert self._decoder.cache_lengths == {len(self.text)}


def plain(decoder, budget, eos=()):
    return decode(
        decoder, None, PROMPT, gamma=0, law=GREEDY, budget=budget, eos_ids=frozenset(eos),
        rng=generator("plain"),
    ).token_ids  # fmt: skip


def live(decoder, drafter, shape, budget, law=GREEDY, eos=(), **more):
    return decode_tree(
        decoder, drafter, PROMPT, shape=SHAPES[shape], law=law, budget=budget,
        eos_ids=frozenset(eos), rng=generator("live", shape), **more,
    )  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("shape", SHAPES)
def test_node_logits_and_what_follows_a_kept_path_equal_a_recompute(target, draft, engine, shape):
    watched = Watched(ENGINES[engine](target), target.model)
    watched_draft = Watched(ENGINES[engine](draft), draft.model)
    found = live(watched, TreeDraft(watched_draft, GREEDY), shape, 20)
    assert found.token_ids == plain(ENGINES[engine](target), 20)
    assert watched.rows == sum(r.nodes + 1 for r in found.rounds)
    # Paths that were no run of neighbours, so that compaction moved keys, on both sides.
    for decoder in (watched, watched_draft):
        assert any(places != list(range(len(places))) for places in decoder.kept)
    # No token is read twice without need: one and the tree.
    assert all(r.verify_tokens == r.nodes + 1 for r in found.rounds[1:])


@pytest.mark.parametrize("shape", DRAWABLE)
@pytest.mark.parametrize("engine", ENGINES)
def test_sampled_trees_read_right_too(target, draft, engine, shape):
    watched = Watched(ENGINES[engine](target), target.model)
    watched_draft = Watched(ENGINES[engine](draft), draft.model)
    for rule in ("without_replacement", "point_mass"):
        found = live(
            watched, TreeDraft(watched_draft, T1), shape, 10, law=T1, rule=TREE_RULES[rule]
        )
        assert len(found.token_ids) == 10
    assert watched.rows > 20


@pytest.mark.parametrize("shape", SHAPES)
def test_greedy_trees_commit_plain_greedys_tokens_at_any_end_of_text(target, draft, shape):
    decoder, drafter = open_tree_decoder(target), TreeDraft(open_tree_decoder(draft), GREEDY)
    assert decoder.engine == "lean"
    text = plain(decoder, 40)
    found = live(decoder, drafter, shape, 40)
    assert found.token_ids == text
    assert len(found.rounds) < 0.7 * 40
    for eos in sorted(set(text)):
        assert (
            live(decoder, drafter, shape, 40, eos=(eos,)).token_ids == (text[: text.index(eos) + 1])
        )
    for budget in (1, 2, 3, 5):
        assert live(decoder, drafter, shape, budget).token_ids == text[:budget]


def test_a_kept_path_that_is_not_the_accepted_one_is_seen(target, draft):
    """The control of the tests above."""

    class Careless(TreeLean):
        def _compact(self, base, places):
            super()._compact(base, list(range(len(places))))

    decoder = Careless(target)
    drafter = TreeDraft(open_tree_decoder(draft), GREEDY)
    assert live(decoder, drafter, "static", 40).token_ids != plain(decoder, 40)
    assert tree_probe(decoder, target.model) > 0.1
    watched = Watched(Careless(target), target.model)
    with pytest.raises(AssertionError, match="not close"):
        live(watched, drafter, "static", 40)


def test_an_open_tree_is_closed_before_the_text_goes_on(target):
    decoder = TreeLean(target)
    ids = torch.tensor([5, 6, 7])
    decoder.extend(ids, 1)
    decoder.extend_tree(ids, [-1, 0, 0], 1)
    for wrong in (lambda: decoder.extend(ids, 1), lambda: decoder.crop(2)):
        with pytest.raises(ValueError, match="while a tree is open"):
            wrong()
    for places in ([1], [0, 1, 2], [3], [-1]):
        with pytest.raises(ValueError, match="no path of the tree"):
            decoder.keep_path(places)
    with pytest.raises(ValueError, match="parent"):
        decoder.extend_tree(ids, [-1, 9, 0], 1)
    decoder.reset()
    assert decoder.length == 0
    with pytest.raises(ValueError, match="no tree is open"):
        decoder.keep_path([0])
    decoder.keep_path([])


SMALL = {"vocab_size": 60, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "initializer_range": 0.3}


def described(config, attention="sdpa", dtype=torch.float32):
    from draftscope.models.loaded import LoadedModel

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config, attn_implementation=attention).eval()
        model = model.to(dtype)
    return LoadedModel(
        name="small", kind="local", model=model, tokenizer=None, eos_ids=frozenset(), bos_id=None,
        pad_id=0, vocabulary_size=60, head_size=60, max_positions=None, revision="",
        tokenizer_sha256=None, dtype=str(dtype).removeprefix("torch."), device=torch.device("cpu"),
        quantization=None, attention=attention,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("config", "attention", "dtype", "engine"),
    [
        (LlamaConfig(**SMALL, **HEADS), "sdpa", torch.float32, "lean"),
        (Qwen3Config(**SMALL, **HEADS, head_dim=16), "sdpa", torch.float32, "lean"),
        (LlamaConfig(**SMALL, **HEADS), "sdpa", torch.bfloat16, "lean"),
        (LlamaConfig(**SMALL, **HEADS), "eager", torch.float32, "transformers"),
        (GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=60, initializer_range=0.3), "sdpa",
         torch.float32, "transformers"),
    ],
    ids=["llama", "qwen3", "bfloat16", "eager", "gpt2"],
)  # fmt: skip
def test_families_and_attentions_that_read_trees(config, attention, dtype, engine):
    loaded = described(config, attention, dtype)
    decoder = open_tree_decoder(loaded)
    assert decoder.engine == engine
    assert tree_probe(decoder, loaded.model) < (1e-4 if dtype == torch.float32 else 0.5)


def test_case_29_an_attention_that_ignores_the_mask_is_refused_by_name():
    def deaf(module, query, key, value, attention_mask, **kwargs):
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        return sdpa_attention_forward(module, query, key, value, None, **kwargs)

    AttentionInterface.register("deaf_to_masks", deaf)
    loaded = described(LlamaConfig(**SMALL, **HEADS), "deaf_to_masks")
    with pytest.raises(UserError, match="model small .*deaf_to_masks"):
        open_tree_decoder(loaded)


# --- the node log -------------------------------------------------------------------------------


@pytest.mark.parametrize("eos", [False, True], ids=["budget", "end of text"])
@pytest.mark.parametrize("shape", SHAPES)
def test_live_trees_are_those_of_the_node_log(target, draft, shape, eos):
    decoder = open_tree_decoder(target)
    text = plain(decoder, 30)
    ends = (text[20],) if eos else ()
    seen = []
    alignment = align(target, draft)
    drafter = TreeDraft(open_tree_decoder(draft), GREEDY, alignment.masked_ids)
    found = live(decoder, drafter, shape, 30, eos=ends, watch=lambda *round_: seen.append(round_))
    trajectory = {
        "prompt_id": "a", "sample": 0, "status": "ok", "prompt_token_ids": PROMPT,
        "token_ids": found.token_ids, "budget": 30, "stop_reason": found.stop_reason,
    }  # fmt: skip
    scores = score_trees(target, draft, alignment, [trajectory], SHAPES[shape])
    (nodes,), (rows,) = scores.nodes, scores.trees
    (replayed,) = replay_trees(table([rows], SCHEMAS["trees"]), SHAPES[shape].depth)
    for ours, theirs in (("offered_depth", "offered"), *((n, n) for n in COLUMNS)):
        wanted = np.asarray(replayed.rounds[0][theirs]).tolist()
        assert [getattr(r, ours) for r in found.rounds] == wanted
    for (start, drafted, logits, walk), round_ in zip(seen, found.rounds, strict=True):
        assert (start, round_.nodes, round_.offered_depth, round_.accepted, round_.emitted) == (
            round_.start,
            *(rows[name][start] for name in ("nodes", "offered_depth", "accepted", "emitted")),
        )
        assert (round_.cut, round_.end) == (rows["cut"][start], rows["end"][start])
        here = np.flatnonzero(nodes["step"] == start)
        tree = drafted.tree
        offered = np.flatnonzero(tree.depths <= round_.offered_depth)
        for ours, theirs in (
            (tree.token_ids, "token_id"), (tree.parents, "parent"), (tree.depths, "depth"),
            (tree.ranks, "rank"),
        ):  # fmt: skip
            assert ours[offered].tolist() == nodes[theirs][here].tolist()
        np.testing.assert_allclose(tree.log_q[offered], nodes["log_q"][here], atol=2e-4)
        np.testing.assert_allclose(
            tree.draft_entropy[offered], nodes["draft_entropy"][here], atol=2e-4
        )
        law = torch.log_softmax(logits, -1)
        log_p = law[tree.parents[offered] + 1, tree.token_ids[offered]]
        np.testing.assert_allclose(log_p, nodes["log_p"][here], atol=2e-4)
        accepted = np.isin(offered, walk.path[: round_.accepted])
        assert accepted.tolist() == nodes["accepted"][here].tolist()
