"""Scored trees against each path run linearly, and what the node log says of greedy decoding."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from draftscope import records
from draftscope.beginnings import beginnings
from draftscope.errors import UserError
from draftscope.models.vocabulary import align
from draftscope.replay import replay_trajectory
from draftscope.scoring import check_disagreement, score
from draftscope.trajectories import generate
from draftscope.tree import reader
from draftscope.tree.log import table
from draftscope.tree.replay import replay_trees
from draftscope.tree.schemas import NODES, TREES
from draftscope.tree.scoring import score_trees
from draftscope.tree.shape import Shape
from loading import disturbed, load_tiny, rendered
from tiny import tiny_model_folder, tiny_tokenizer

GREEDY = {"temperature": 0.0, "top_k": 0, "top_p": 1.0}
PUBLISHED = {"max_depth": 3, "max_branch": 2, "max_nodes": 8, "root_branch": 3}
SHAPES = {
    "published": PUBLISHED,
    "confidence": {"kind": "confidence", "max_depth": 4, "max_branch": 3, "max_nodes": 7},
    "static": {"kind": "static", "branching": [3, 1, 2]},
    "paths": {"kind": "paths", "paths": [[1], [3], [1, 2], [3, 1], [3, 1, 1]]},
    "one node": {"max_depth": 1, "max_branch": 1, "max_nodes": 1},
}


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return load_tiny(tiny_model_folder(tmp_path_factory.mktemp("target"), seed=0), "target")


@pytest.fixture(scope="module")
def draft(tmp_path_factory):
    return disturbed(tmp_path_factory.mktemp("draft"), "draft")


@pytest.fixture(scope="module")
def texts(target):
    prompts = [(f"p{n}", rendered(0, *range(20, 21 + 3 * n))) for n in range(3)]
    return generate(
        target, prompts, law=GREEDY, budget=14, batch_size=1, samples=1, run_seed=0, domain="d"
    )


def scored(target, draft, rows, shape=PUBLISHED, **more):
    alignment = align(target, draft, allow_special=True)
    scores = score_trees(target, draft, alignment, rows, Shape.of(shape), **more)
    return table(scores.nodes, NODES).to_pylist(), table(scores.trees, TREES).to_pylist(), scores


class Linear:
    """Log-probabilities after a text, by a plain pass over it; memory of what was asked."""

    def __init__(self, loaded, masked=()):
        self.model, self.masked, self.known = loaded.model, list(masked), {}

    def __call__(self, ids):
        ids = tuple(map(int, ids))
        if ids not in self.known:
            with torch.inference_mode():
                logits = self.model(torch.tensor([ids]), use_cache=False).logits[0, -1].clone()
                logits[self.masked] = -torch.inf
            self.known[ids] = torch.log_softmax(logits.double(), -1)
        return self.known[ids]


def check_nodes(target, draft, rows, nodes, masked=(), tolerance=1e-5):
    """Every value of the log against the path's own linear run."""
    prefixes = {row["prompt_id"]: [*row["prompt_token_ids"], *row["token_ids"]] for row in rows}
    lengths = {row["prompt_id"]: len(row["prompt_token_ids"]) for row in rows}
    p, q = Linear(target), Linear(draft, masked)
    paths = {}
    for node in nodes:
        tree = (node["prompt_id"], node["step"])
        above = paths.get((*tree, node["parent"]), [])
        text = prefixes[tree[0]][: lengths[tree[0]] + tree[1]] + above
        paths[*tree, node["node"]] = [*above, node["token_id"]]
        assert node["depth"] == len(above) + 1
        for law, name in ((p(text), "target"), (q(text), "draft")):
            value = node["log_p" if name == "target" else "log_q"]
            np.testing.assert_allclose(value, float(law[node["token_id"]]), atol=tolerance)
            entropy = float(torch.special.entr(law.exp()).sum())
            np.testing.assert_allclose(node[f"{name}_entropy"], entropy, atol=tolerance)
        ahead = (q(text)[: target.head_size] > q(text)[node["token_id"]]).sum()
        assert node["rank"] == 1 + int(ahead)
    return paths


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("nodes", [5, 512], ids=["few_at_a_time", "all_at_once"])
def test_every_node_equals_its_path_run_linearly(target, draft, texts, shape, nodes):
    found, trees, _ = scored(target, draft, texts, SHAPES[shape], nodes=nodes)
    assert len(trees) == sum(len(row["token_ids"]) for row in texts)
    assert len(found) == sum(tree["nodes"] for tree in trees)
    check_nodes(target, draft, texts, found)


def test_a_mask_that_shows_siblings_would_be_noticed(target, draft, texts, monkeypatch):
    """Negative control: nodes that see all earlier nodes fail the reference."""
    monkeypatch.setattr("draftscope.tree.scoring.check_trees", lambda loaded: 0.0)
    original = reader.attention_mask

    def leaking(*arguments, **more):
        mask = original(*arguments, **more)
        rows, columns = mask.shape[-2:]
        return torch.maximum(mask, torch.zeros_like(mask).where(
            torch.ones(rows, columns, dtype=torch.bool).tril(columns - rows), mask
        ))  # fmt: skip

    monkeypatch.setattr(reader, "attention_mask", leaking)
    with pytest.raises(AssertionError):
        check_nodes(target, draft, texts, scored(target, draft, texts)[0])


def test_siblings_at_following_positions_would_be_noticed(target, draft, texts, monkeypatch):
    """Negative control: nodes at the places where they lie in the pass fail the reference."""
    monkeypatch.setattr("draftscope.tree.scoring.check_trees", lambda loaded: 0.0)
    monkeypatch.setattr(
        reader, "position_ids", lambda parents, prefixes: prefixes + np.arange(len(parents))
    )
    with pytest.raises(AssertionError):
        check_nodes(target, draft, texts, scored(target, draft, texts)[0])


@pytest.mark.parametrize("shape", SHAPES)
def test_the_greedy_walks_commit_exactly_the_greedy_text(target, draft, texts, shape):
    found, trees, _ = scored(target, draft, texts, SHAPES[shape])
    greedy = Linear(target)
    for row in texts:
        prompt, committed, step = row["prompt_token_ids"], [], 0
        log = [node for node in found if node["prompt_id"] == row["prompt_id"]]
        ends = [tree for tree in trees if tree["prompt_id"] == row["prompt_id"]]
        while step < len(row["token_ids"]):
            path = [n for n in log if n["step"] == step and n["accepted"]]
            assert [node["depth"] for node in path] == list(range(1, len(path) + 1))
            assert ends[step]["accepted"] == len(path)
            committed += [node["token_id"] for node in path]
            if ends[step]["emitted"] > len(path):
                committed.append(int(greedy([*prompt, *committed]).argmax()))
            step += ends[step]["emitted"]
        assert committed == row["token_ids"]
    assert any(tree["accepted"] > 0 for tree in trees)


def test_parent_accepted_and_accepted_follow_the_text(target, draft, texts):
    found, _, _ = scored(target, draft, texts)
    text = {row["prompt_id"]: row["token_ids"] for row in texts}
    accepted = {}
    for node in found:
        tree = (node["prompt_id"], node["step"])
        above = node["parent"] == -1 or accepted[*tree, node["parent"]]
        place = node["step"] + node["depth"] - 1
        assert node["parent_accepted"] == above
        assert node["accepted"] == (above and node["token_id"] == text[tree[0]][place])
        accepted[*tree, node["node"]] = node["accepted"]
    depths = {node["depth"] for node in found if node["accepted"]}
    assert depths == {1, 2, 3}


@pytest.mark.parametrize("gamma", [1, 3, 5])
def test_trees_of_one_branch_replay_as_the_scores_of_a_chain_do(target, draft, texts, gamma):
    shape = {"max_depth": gamma, "max_branch": 1, "max_nodes": gamma}
    _, _, scores = scored(target, draft, texts, shape)
    replays = replay_trees(table(scores.trees, TREES), gamma)
    alignment = align(target, draft)
    chain = score(target, [(draft, alignment)], texts, {"decoding": GREEDY})
    for row, scored_chain, replay in zip(texts, chain, replays, strict=True):
        plain = replay_trajectory(row, scored_chain, [gamma], "greedy")
        assert replay.expected == plain.expected
        for name, values in plain.rounds[0].items():
            assert replay.rounds[0][name].tolist() == values.tolist()
    assert sum(replay.expected[0]["expected_accepted"] for replay in replays) > 0


def test_trees_are_cut_where_the_budget_ends(target, draft, texts):
    _, trees, _ = scored(target, draft, texts)
    last = [tree for tree in trees if tree["prompt_id"] == "p1"][-4:]
    assert [tree["offered_depth"] for tree in last] == [3, 3, 2, 1]
    assert [tree["nodes"] for tree in last] == [8, 8, 6, 2]
    assert [tree["cut"] for tree in last] == [False, False, True, True]
    assert last[-1]["end"] == "budget"


@pytest.mark.parametrize("stop", ["budget", "eos"])
def test_published_trees_are_whole_past_the_end_and_nothing_there_is_offered(
    target, draft, texts, stop
):
    rows = [row | {"stop_reason": stop} for row in texts]
    cut_nodes, cut_trees, _ = scored(target, draft, rows)
    nodes, trees, _ = scored(target, draft, rows, past_end=True)
    assert trees == cut_trees  # what a loop does is the same
    assert len(nodes) == 8 * len(trees) > len(cut_nodes)
    offered = [node for node in nodes if node["offered"]]
    for one, other in zip(offered, cut_nodes, strict=True):
        assert {k: v for k, v in one.items() if type(v) is not float} == {
            k: v for k, v in other.items() if type(v) is not float
        }
    assert not any(node["accepted"] for node in nodes if not node["offered"])
    check_nodes(target, draft, rows, nodes)


def test_confidence_trees_are_cut_as_a_loop_cuts_them(target, draft, texts):
    shape = SHAPES["confidence"]
    assert (
        scored(target, draft, texts, shape, past_end=True)[:2]
        == (scored(target, draft, texts, shape)[:2])
    )


def test_trees_are_cut_where_the_context_ends(target, draft, texts):
    """A text stopped by its end has budget left, but no room for deeper trees."""
    row = texts[0] | {"budget": 400, "stop_reason": "eos"}
    room = len(row["prompt_token_ids"]) + len(row["token_ids"])
    whole = scored(target, draft, [row])[1]
    assert [tree["offered_depth"] for tree in whole] == [3] * len(whole)
    for models, offered in (
        ((replace(target, max_positions=room), draft), [3, 2, 1]),
        ((target, replace(draft, max_positions=room)), [3, 3, 2]),
    ):
        found, trees, _ = scored(*models, [row])
        assert [tree["offered_depth"] for tree in trees[-3:]] == offered
        assert [tree["cut"] for tree in trees[-3:]] == [depth < 3 for depth in offered]
        check_nodes(*models, [row], found)


def test_nothing_follows_an_accepted_end_of_text(target, draft, texts):
    full = scored(target, draft, texts)[1]
    deep = next(tree for tree in full if tree["accepted"] == 3)
    row = next(row for row in texts if row["prompt_id"] == deep["prompt_id"])
    where = deep["step"] + 1
    ended = row | {"token_ids": row["token_ids"][: where + 1], "stop_reason": "eos"}
    found, trees, _ = scored(target, draft, [ended])
    accepted, corrected = trees[where - 1], trees[where]
    assert (accepted["accepted"], accepted["offered_depth"], accepted["emitted"]) == (2, 2, 2)
    assert accepted["nodes"] == 6
    assert not accepted["cut"]
    assert corrected["end"] == accepted["end"] == "eos"
    assert max(n["depth"] for n in found if n["step"] == where - 1) == 2
    below = [n for n in found if n["step"] + n["depth"] > where + 1]
    assert not any(node["accepted"] or node["parent_accepted"] for node in below)


def test_special_tokens_of_the_draft_are_masked_and_wider_heads_propose_nothing(
    target, texts, tmp_path
):
    names = ["<s>", "</s>", "<pad>", "<other>"]
    other = tiny_tokenizer(320, specials=["<s>", "</s>", "<pad>", "<this>"])
    ours = load_tiny(
        tiny_model_folder(tmp_path / "t", tokenizer=tiny_tokenizer(320, specials=names)), "ours"
    )
    theirs = disturbed(tmp_path / "d", "theirs", padded_head=336, tokenizer=other)
    with torch.no_grad():  # both kinds of foreign id would be candidates everywhere
        head = theirs.model.get_output_embeddings().weight
        head[3], head[330] = 6 * head.std(), head[50]
        head[50] *= 1.01
    found, _, _ = scored(ours, theirs, texts)
    assert {node["token_id"] for node in found}.isdisjoint({3, *range(320, 336)})
    check_nodes(ours, theirs, texts, found, masked=[3])
    with pytest.raises(AssertionError):  # without the mask the draft's law is another
        check_nodes(ours, theirs, texts, found)


def test_text_that_the_target_would_not_have_written_is_counted(target, draft, texts):
    _, _, scores = scored(target, draft, texts)
    assert check_disagreement(scores.checks, 0.0) == 0.0
    wrong = texts[0] | {"token_ids": [9, *texts[0]["token_ids"][1:]]}
    _, _, scores = scored(target, draft, [wrong])
    with pytest.raises(UserError, match="first in prompt p0, sample 0, position 0"):
        check_disagreement(scores.checks, 0.01)


def test_case_33_logits_that_are_no_numbers_stop_with_the_prompt(target, draft, texts, tmp_path):
    broken = load_tiny(tiny_model_folder(tmp_path, seed=0), "broken")
    with torch.no_grad():
        broken.model.get_output_embeddings().weight[100] = torch.nan
    for pair in ((broken, draft), (target, broken)):
        with pytest.raises(UserError, match="NaN in the logits of broken: prompt p0, sample 0"):
            scored(*pair, texts)


def test_a_shard_of_skipped_prompts_gives_empty_tables(target, draft, texts, tmp_path):
    skipped = [row | {"status": "skipped", "token_ids": []} for row in texts]
    _, _, scores = scored(target, draft, skipped)
    for name, parts, schema in (("nodes", scores.nodes, NODES), ("trees", scores.trees, TREES)):
        records.write(tmp_path / name, table(parts, schema), name, {})
        assert records.read(tmp_path / name, name).num_rows == 0


def test_beginnings_are_the_texts_of_a_smaller_budget(target, texts):
    shorter = beginnings(texts, 2, 6)
    prompts = [(row["prompt_id"], rendered(*row["prompt_token_ids"])) for row in texts[:2]]
    again = generate(
        target, prompts, law=GREEDY, budget=6, batch_size=1, samples=1, run_seed=0, domain="d"
    )
    names = ("prompt_id", "token_ids", "budget", "stop_reason")
    assert [[row[n] for n in names] for row in shorter] == [
        [row[n] for n in names] for row in again
    ]
    ended = texts[0] | {"stop_reason": "eos", "token_ids": texts[0]["token_ids"][:5]}
    assert beginnings([ended], 1, 6)[0]["stop_reason"] == "eos"
    assert beginnings([ended], 1, 5)[0]["stop_reason"] == "eos"
    assert (
        beginnings([ended], 1, 4)[0] | {"budget": 4, "stop_reason": "budget"}
        == beginnings([ended], 1, 4)[0]
    )
    with pytest.raises(UserError, match="prompt p0, sample 0 .* budget of 14 .* the 15 wanted"):
        beginnings(texts, 1, 15)
