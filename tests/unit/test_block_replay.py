"""Replay of block drafters from files: what was proposed, its checks, and the command lines."""

import json
import shutil
import sys

import numpy as np
import propose_blocks
import pytest
import replay_rounds
import torch
from block_models import tiny_network, tiny_target
from draftscope import models, records
from draftscope.doctor.findings import Findings
from draftscope.doctor.models import compare, look
from draftscope.drafters.block import BlockDraft
from draftscope.errors import UserError
from draftscope.lossless import replay_inputs
from draftscope.lossless.opening import open_pair
from draftscope.lossless.replay_check import same_rounds
from draftscope.models import dflash, read_record, write_record
from draftscope.replay import agreement, replay_trajectory
from draftscope.replay.blocks import drafted, read_proposals
from hypothesis import given, settings
from hypothesis import strategies as st

COMPUTE = {"device": "cpu", "dtype": "float32", "attention": "sdpa", "threads": 1}
LAW = {"temperature": 0.7, "top_k": 0, "top_p": 1.0}


@pytest.fixture(autouse=True)
def settings_of_torch():
    yield
    torch.use_deterministic_algorithms(False)
    torch.utils.deterministic.fill_uninitialized_memory = True


class Fixed:
    """Proposes the block that a table has for the position."""

    def __init__(self, blocks):
        self._blocks = blocks

    def start(self, token_ids):
        self._place = 0

    def extend(self, token_ids):
        self._place += len(token_ids)

    def propose(self, count):
        return self._blocks[self._place][:count].tolist()


@settings(max_examples=40)
@given(st.integers(1, 12), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_blocks_from_a_file_replay_as_a_proposer_that_says_the_same(tokens, size, seed):
    rng = np.random.default_rng(seed)
    text, blocks = rng.integers(0, 2, tokens), rng.integers(0, 2, (tokens, size))
    row = {"prompt_id": "p", "sample": 0, "prompt_token_ids": [1], "token_ids": text,
           "budget": tokens, "stop_reason": "budget"}  # fmt: skip
    found = agreement(blocks, text)
    for place in range(tokens):
        count = 0
        while count < min(size, tokens - place) and blocks[place, count] == text[place + count]:
            count += 1
        assert found.agreeing[place] == count and found.offered[place] == size
    ours = replay_trajectory(row, found, [1, 3, 6], "exact_match")
    theirs = replay_trajectory(row, Fixed(blocks), [1, 3, 6], "speculative_sampling")
    for mine, other in zip(ours.rounds, theirs.rounds, strict=True):
        assert all(np.array_equal(mine[name], other[name]) for name in mine)
    assert ours.rule == "exact_match" and ours.expected == theirs.expected


def test_exact_match_has_no_scores_to_replay():
    row = {"prompt_id": "p", "sample": 0, "token_ids": [1], "budget": 1, "stop_reason": "budget"}
    with pytest.raises(ValueError, match="not from scores"):
        replay_trajectory(row, {"token_ids": np.array([1])}, [1], "exact_match")


# ---- files --------------------------------------------------------------------------------------

CONDITION = {"target": "t", "target_revision": "r", "domain": "d", "mode": "m"}
TEXTS = {"p0": [4, 5, 6, 5], "p1": [7, 7]}
BLOCKS = {"p0": [[4, 5], [9, 9], [6, 5], [5, 0]], "p1": [[7, 7], [7, 1]]}


def trajectories(path, condition=CONDITION):
    rows = [
        {
            "prompt_id": name, "sample": 0, "status": "ok", "reason": None,
            "prompt_token_ids": [1, 2], "token_ids": tokens, "budget": len(tokens),
            "stop_reason": "budget", "stop_token_id": None, "rendered_sha256": "h", "text": "",
        }
        for name, tokens in TEXTS.items()
    ]  # fmt: skip
    records.write(path, rows, "trajectories", condition)
    return path


def proposals(path, names=("p0", "p1"), draft="block", **changes):
    rows = [
        {"prompt_id": name, "sample": 0, "token_ids": TEXTS[name],
         "draft_ids": np.ravel(BLOCKS[name]), "outside": 0} | changes
        for name in names
    ]  # fmt: skip
    records.write(path, rows, "proposals", CONDITION | {"draft": draft, "drafting": "argmax"})
    return path


def replay(monkeypatch, folder, temperature, *options, **more):
    settings = {
        "pair": "pair", "domain": "d", "mode": "m", "draft": "block", "seed": 1,
        "draft_settings": {"kind": "dflash", "target": "t"}, "draft_lengths": [1, 2, 5],
        "law": LAW | {"temperature": temperature}, **more,
    }  # fmt: skip
    line = ["replay_rounds", "--settings", json.dumps(settings), *map(str, options)]
    outputs = [folder / "rounds.parquet", folder / "expected.parquet"]
    line += ["--rounds", str(outputs[0]), "--expected", str(outputs[1])]
    monkeypatch.setattr(sys, "argv", line)
    replay_rounds.main()
    return [records.read(p, name) for p, name in zip(outputs, ("rounds", "expected"), strict=True)]


def test_the_command_line_replays_blocks_and_names_the_rule(tmp_path, monkeypatch):
    texts, blocks = trajectories(tmp_path / "t.parquet"), proposals(tmp_path / "p.parquet")
    given_files = ("--trajectories", texts, "--proposals", blocks)
    for temperature, rule in ((0.7, "exact_match"), (0.0, "greedy")):
        rounds, expected = replay(monkeypatch, tmp_path, temperature, *given_files)
        assert set(rounds["rule"].to_pylist()) == {rule} and all(rounds["lossless"].to_pylist())
        assert records.condition(rounds)["rule"] == rule
        assert records.condition(rounds)["drafting"] == "argmax"
        own = rounds.to_pandas().query("prompt_id == 'p0' and draft_length == 5")
        # Two of [4, 5] and the target's 6, then 5 accepted at the end of the budget.
        assert own[["start", "offered", "accepted", "emitted"]].to_numpy().tolist() == [
            [0, 2, 2, 3],
            [3, 1, 1, 1],
        ]
        row = expected.to_pandas().query("prompt_id == 'p0' and draft_length == 5").iloc[0]
        assert row.acceptance_length == 2.0 and row.accept_prob_mean == 0.75


def test_the_first_prompts_alone_are_replayed_where_so_many_are_asked_for(tmp_path, monkeypatch):
    texts, blocks = trajectories(tmp_path / "t.parquet"), proposals(tmp_path / "p.parquet")
    rows = [{"prompt_id": name, "domain": "d", "source_row": name, "messages_json": "[]",
             "text": name, "answer": None, "checker": None, "language": "en",
             "split": "evaluation"} for name in TEXTS]  # fmt: skip
    records.write(tmp_path / "prompts.parquet", rows, "prompts", {})
    options = ["--trajectories", texts, "--proposals", blocks]
    known = [*options, "--prompts", tmp_path / "prompts.parquet"]
    for count, names in ((1, ["p0"]), (2, ["p0", "p1"])):
        rounds, expected = replay(monkeypatch, tmp_path, 0.0, *known, prompts=count)
        assert list(records.prompt_digests(rounds)) == names
        for found in (rounds, expected):
            assert sorted(set(found["prompt_id"].to_pylist())) == names
    with pytest.raises(UserError, match="the first 1: give their files as --prompts"):
        replay(monkeypatch, tmp_path, 0.0, *options, prompts=1)
    with pytest.raises(UserError, match="the first 9 are wanted, but --prompts hold 2; say 2"):
        replay(monkeypatch, tmp_path, 0.0, *known, prompts=9)
    with pytest.raises(UserError, match="'prompts' is 0"):
        replay(monkeypatch, tmp_path, 0.0, *known, prompts=0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, "drafts blocks: give its --proposals"),
        ({"draft": "another"}, "holds proposals of draft another, not of block"),
        ({"names": ("p0",)}, "prompt p1, sample 0 has no proposals"),
        ({"names": ("p0", "p0")}, "proposed for twice"),
        ({"token_ids": [4, 5, 6, 6]}, "belong to other tokens"),
        ({"draft_ids": [1, 2, 3]}, "3 drafted ids for 4 tokens"),
    ],
)
def test_proposals_that_do_not_fit_are_refused(tmp_path, monkeypatch, change, said):
    options = ["--trajectories", trajectories(tmp_path / "t.parquet")]
    if change:
        options += ["--proposals", proposals(tmp_path / "p.parquet", **change)]
    with pytest.raises(UserError, match=said):
        replay(monkeypatch, tmp_path, 0.0, *options)


# ---- drafting a file of texts -------------------------------------------------------------------


@pytest.fixture(scope="module")
def experiment(tmp_path_factory, tiny_folder):
    """A target with a tokenizer, a drafter of it, and two texts of the target."""
    folder = tmp_path_factory.mktemp("blocks")
    record = models.resolve("t", {"kind": "local", "path": str(tiny_folder)}, folder / "t")
    target = models.load(record, device="cpu")
    wide = tiny_network(tiny_target(), block_size=3).shape
    network = dflash.DFlash(
        wide.from_json(wide.as_json() | {"width": 64, "feature_layers": [0, 1]})
    )
    (folder / "block").mkdir()
    made = dflash.save("block", network, [1, *range(4, 40)], folder / "block", target, "test")
    write_record("block", "dflash", folder / "block", made | {"block_size": 3})
    condition = target.condition("target") | {"domain": "d", "mode": "m"}
    trajectories(folder / "t.parquet", condition)
    live = records.read(folder / "t.parquet", "trajectories").to_pylist()
    rows = [row | {"draft_length": length} for row in live for length in (0, 2)]
    import draftscope.lossless.live_schemas  # noqa: F401

    records.write(folder / "live.parquet", rows, "live_trajectories",
                  condition | {"draft": "block", "drafting": "argmax"})  # fmt: skip
    return folder


def propose(monkeypatch, experiment, texts, output, *options, draft="block"):
    line = [
        "propose_blocks", "--settings", json.dumps(COMPUTE),
        "--target", str(experiment / "t/model.json"),
        "--draft", str(experiment / draft / "model.json"),
        "--trajectories", str(experiment / texts), "--output", str(output), *options,
    ]  # fmt: skip
    monkeypatch.setattr(sys, "argv", line)
    propose_blocks.main()


def test_the_command_line_drafts_every_position(tmp_path, monkeypatch, experiment):
    propose(monkeypatch, experiment, "t.parquet", tmp_path / "p.parquet")
    found, condition = read_proposals([str(tmp_path / "p.parquet")], "block")
    assert condition["block_size"] == 3 and condition["draft_vocabulary"] == 37
    assert condition["draft_revision"] == read_record(experiment / "block/model.json")["revision"]
    for name, tokens in TEXTS.items():
        blocks = drafted(found, (name, 0), tokens)
        assert blocks.shape == (len(tokens), 2)
        assert set(np.ravel(blocks)) <= {1, *range(4, 40)}
    outside = records.read(tmp_path / "p.parquet", "proposals")["outside"].to_pylist()
    assert outside == [0, 0]
    propose(monkeypatch, experiment, "live.parquet", tmp_path / "l.parquet", "--live")
    live, _ = read_proposals([str(tmp_path / "l.parquet")], "block", "live_proposals")
    # Only texts that something was drafted for, and the same blocks.
    assert set(live) == {("p0", 0, 2), ("p1", 0, 2)}
    assert all(np.array_equal(live[name, 0, 2], found[name, 0]) for name in TEXTS)
    # Live files are joined with the loop's own, so they say nothing of their own.
    assert records.condition(tmp_path / "l.parquet") == records.condition(
        experiment / "live.parquet"
    )


def test_what_cannot_be_drafted_from_a_text_is_refused(tmp_path, monkeypatch, experiment):
    other = read_record(experiment / "block/model.json")
    del other["location"]
    (experiment / "memory").mkdir(exist_ok=True)
    (experiment / "memory/model.json").write_text(json.dumps(other | {"kind": "retrace"}))
    with pytest.raises(UserError, match="of kind retrace, whose proposals"):
        propose(monkeypatch, experiment, "t.parquet", tmp_path / "p.parquet", draft="memory")
    condition = records.condition(experiment / "t.parquet") | {"target_revision": "another"}
    trajectories(experiment / "other.parquet", condition)
    with pytest.raises(UserError, match="target_revision"):
        propose(monkeypatch, experiment, "other.parquet", tmp_path / "p.parquet")


# ---- pairs, opened and looked at ----------------------------------------------------------------


def opened_pair(experiment, **changes):
    settings = COMPUTE | {"draft_dtype": None, "law": LAW, "allow_special_differences": False}
    paths = (str(experiment / name / "model.json") for name in ("t", "block"))
    return open_pair(settings | changes, *paths)


def test_a_pair_opens_its_block_drafter_for_one_text_at_a_time(experiment):
    for changes, rule in (({}, "exact_match"), ({"drafting": "sampled"}, "speculative_sampling")):
        pair = opened_pair(experiment, **changes)
        assert isinstance(pair.drafter(), BlockDraft) and pair.drafter().rule == rule
        assert pair.condition()["drafting"] == changes.get("drafting", "argmax")
        with pytest.raises(UserError, match="one text at a time; set batch_size to 1"):
            pair.batched_drafter()


ROW = {"kind": "dflash", "target": "t", "block_size": 3}


def looked_at(folder, row=ROW):
    findings = Findings()
    rows = {"block": row}
    known = look(rows, ["block"], folder, findings)
    assert not known  # there is no tokenizer to compare
    pair = {"p": {"target": "t", "draft": "block"}}
    compare(pair, rows | {"t": {"kind": "local"}}, known, findings)
    (finding,) = findings.rows
    return finding.verdict, finding.detail


def test_the_doctor_looks_at_a_block_drafter_without_a_tokenizer(tmp_path, experiment):
    verdict, said = looked_at(experiment)
    assert verdict == "ok" and "trained for t, 37 ids of 320" in said
    verdict, said = looked_at(tmp_path)
    assert verdict == "note" and "trained on its target's texts by its first job" in said
    copy = tmp_path / "copy"
    shutil.copytree(experiment / "block", copy / "block")
    record = json.loads((copy / "block/model.json").read_text())
    (copy / "t").mkdir()
    own = json.loads((experiment / "t/model.json").read_text())
    (copy / "t/model.json").write_text(json.dumps(own | {"revision": "another"}))
    verdict, said = looked_at(copy)
    assert verdict == "problem" and "which is now at another" in said
    (copy / "t/model.json").unlink()
    (copy / "block/weights/draft.safetensors").write_bytes(b"short")
    assert looked_at(copy)[0] == "problem"
    (copy / "block/model.json").write_text(json.dumps(record | {"block_size": 5}))
    verdict, said = looked_at(copy)
    assert verdict == "problem" and "another block_size" in said


def test_live_texts_of_blocks_are_compared_with_their_proposals_if_they_can_be(tmp_path):
    condition = CONDITION | {"draft": "block", "drafting": "argmax"}
    trajectories(tmp_path / "t.parquet")
    texts = records.read(tmp_path / "t.parquet", "trajectories").to_pylist()
    rows = [row | {"draft_length": 2} for row in texts if row["prompt_id"] == "p0"]
    log = [
        {"prompt_id": "p0", "sample": 0, "draft_length": 2, "source": "live", "rule": "greedy",
         "lossless": True, "round": number, "start": start, "offered": offered,
         "accepted": accepted, "emitted": emitted, "end": end}
        for number, (start, offered, accepted, emitted, end) in enumerate(
            [(0, 2, 2, 3, "continue"), (3, 1, 1, 1, "budget")]
        )
    ]  # fmt: skip
    drafted_rows = [{"prompt_id": "p0", "sample": 0, "draft_length": 2, "outside": 0,
                     "token_ids": TEXTS["p0"], "draft_ids": np.ravel(BLOCKS["p0"])}]  # fmt: skip
    for kind, drafting, replayed in (
        ("dflash", "argmax", True), ("dflash", "sampled", False), ("retrace", "argmax", False),
    ):  # fmt: skip
        own = condition | {"drafting": drafting}
        paths = [str(tmp_path / f"{name}.parquet") for name in ("live", "rounds", "proposals")]
        records.write(paths[0], rows, "live_trajectories", own)
        records.write(paths[1], log, "rounds", own)
        records.write(paths[2], drafted_rows, "live_proposals", own)
        row = {"draft": "block", "draft_settings": {"kind": kind}, "law": LAW | {"temperature": 0},
               "domain": "d", "mode": "m"}  # fmt: skip
        given_files = iter(paths[2:])
        found = replay_inputs.read(row, *paths[:2], iter(()), given_files)
        assert found.live_only is not replayed
        assert len(list(given_files)) == (0 if replayed else 1)
        if replayed:
            (one,), left_out = found.replayed(2, 5, 1)
            assert same_rounds(one.live, one.replays[0]) and one.deterministic and not left_out
            with pytest.raises(UserError, match="give its --proposals"):
                replay_inputs.read(row, *paths[:2], iter(()))
