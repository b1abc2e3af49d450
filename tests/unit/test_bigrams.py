"""Bigram drafts: counts, chains, the file they lie in, and the texts they may be counted in."""

import itertools
import json
import sys
from collections import Counter
from unittest import mock

import count_bigrams
import numpy as np
import pytest
from draftscope import models, records
from draftscope.drafters import of_text
from draftscope.drafters.bigram import Bigram, count_successors
from draftscope.errors import UserError
from draftscope.replay import replay_trajectory
from hypothesis import given
from hypothesis import strategies as st

TOKENS = st.lists(st.integers(0, 4), max_size=12)


@given(st.lists(st.tuples(TOKENS, TOKENS), max_size=6))
def test_successors_are_the_most_frequent_ones_and_ties_go_to_the_lower_id(texts):
    counts: dict[int, Counter] = {}
    for prompt, generated in texts:
        chain = prompt[-1:] + generated
        for one, other in itertools.pairwise(chain):
            counts.setdefault(one, Counter())[other] += 1
    naive = {one: min(c, key=lambda t, c=c: (-c[t], t)) for one, c in counts.items()}
    assert count_successors(texts) == naive


@given(st.dictionaries(st.integers(0, 5), st.integers(0, 5)), TOKENS, st.integers(0, 9))
def test_a_chain_follows_the_successors_and_a_shorter_proposal_begins_a_longer_one(
    successors, text, count
):
    draft = Bigram(successors)
    draft.start(text)
    found = draft.propose(count)
    assert found == draft.propose(9)[:count]
    for one, other in zip([*text[-1:], *found], found, strict=False):
        assert successors[one] == other
    if len(found) < count:
        assert not text or ([*text, *found][-1] not in successors)


def test_replay_accepts_exactly_the_bigrams_of_the_text():
    text = [3, 1, 2, 1, 2, 0]
    row = {"prompt_id": "a", "sample": 0, "prompt_token_ids": [1], "token_ids": text}
    row |= {"budget": 6, "stop_reason": "budget"}
    replay = replay_trajectory(row, Bigram({1: 2, 2: 1, 3: 1}), [3], "greedy")
    # Rounds: 2 1 2 is rejected at once, emitting 3; then 1 2 1 is accepted with bonus 2; then the
    # single draft that fits, 1, is rejected.
    assert replay.rounds[0]["accepted"].tolist() == [0, 3, 0]
    assert replay.rounds[0]["emitted"].tolist() == [1, 4, 1]


TARGET = {"name": "t", "kind": "local", "revision": "r1", "location": "."}
ROW = {"kind": "bigram", "target": "t", "train": {"domains": [], "temperature": 0.0}}


def write_texts(folder, split="training", revision="r1"):
    prompts, texts = folder / "prompts.parquet", folder / "texts.parquet"
    row = {"prompt_id": "a", "domain": "d", "source_row": "0", "text": "Hi", "answer": None}
    row |= {"messages_json": "[]", "checker": None, "language": "en", "split": split}
    records.write(prompts, [row], "prompts", {})
    text = {"prompt_id": "a", "sample": 0, "status": "ok", "reason": None, "text": ""}
    text |= {"prompt_token_ids": [5], "token_ids": [6, 5, 6, 7], "budget": 4}
    text |= {"stop_reason": "budget", "stop_token_id": None, "rendered_sha256": ""}
    condition = {"target": "t", "target_revision": revision, "domain": "d"}
    records.write(texts, [text], "trajectories", condition)
    return prompts, texts


def count(folder, prompts, texts) -> None:
    """Call the script's `main`."""
    (folder / "target").mkdir(exist_ok=True)
    (folder / "target/model.json").write_text(json.dumps(TARGET))
    arguments = ["--name", "b", "--settings", json.dumps(ROW)]
    arguments += ["--target", str(folder / "target/model.json"), "--prompts", str(prompts)]
    arguments += ["--trajectories", str(texts), "--output", str(folder / "b/model.json")]
    with mock.patch.object(sys, "argv", ["count_bigrams", *arguments]):
        count_bigrams.main()


def test_counted_once_bound_to_the_target_and_refused_when_changed(tmp_path):
    count(tmp_path, *write_texts(tmp_path))
    own = {"target": "t", "target_revision": "r1"}
    path = tmp_path / "b/model.json"
    draft = of_text.proposer(ROW | {"record": str(path)}, own)
    draft.start([5])
    assert draft.propose(3) == [6, 5, 6]
    loaded = models.load(path)
    assert loaded.model is None and loaded.settings["trained_on"]["tokens"] == 4
    assert of_text.proposer(loaded.settings, own).propose(2) == []
    with pytest.raises(UserError, match="was counted in texts of t at r1, not of t at r2"):
        of_text.proposer(loaded.settings, own | {"target_revision": "r2"})
    content = bytearray((path.parent / of_text.SUCCESSORS).read_bytes())
    content[-1] ^= 1
    (path.parent / of_text.SUCCESSORS).write_bytes(content)
    with pytest.raises(UserError, match="has changed since it was counted"):
        of_text.proposer(loaded.settings, own)
    assert of_text.plain(ROW | {"record": "x"}) == ROW


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"split": "evaluation"}, "is an evaluation prompt"),
        ({"revision": "r2"}, "holds texts of t at r2, not of t at r1"),
    ],
)
def test_measured_prompts_and_foreign_texts_are_refused(tmp_path, options, said):
    with pytest.raises(UserError, match=said):
        count(tmp_path, *write_texts(tmp_path, **options))
    assert not (tmp_path / "b/model.json").exists()


def test_no_text_has_no_successors():
    assert count_successors([]) == {} == count_successors([([1], [])])
    assert count_successors([((), np.array([4, 4]))]) == {4: 4}
