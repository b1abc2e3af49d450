"""Whole trajectories, the tables they make, and the script that replays files."""

import json
import logging
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from draftscope import records, seeds
from draftscope.drafters.prompt_lookup import PromptLookup
from draftscope.errors import UserError
from draftscope.metrics import grouped_metrics
from draftscope.replay import (
    expected_rounds,
    expected_table,
    greedy_rounds,
    proposed_rounds,
    replay_trajectory,
    rounds_table,
    sampled_rounds,
)
from draftscope.schemas import SCHEMAS

log = logging.getLogger(__name__)
ROOT = Path(__file__).parents[2]
LENGTHS = [3, 5]
SCORES = SCHEMAS["scores"]


def trajectory(name: str, tokens: int, sample: int = 0, stop_reason: str = "budget") -> dict:
    generator = seeds.generator("tokens", name, sample)
    return {
        "prompt_id": name,
        "sample": sample,
        "status": "ok" if tokens else "skipped",
        "reason": None if tokens else "empty prompt",
        "prompt_token_ids": generator.integers(0, 6, 9).tolist(),
        "token_ids": generator.integers(0, 6, tokens).tolist(),
        "budget": tokens + (2 if stop_reason == "eos" else 0),
        "stop_reason": stop_reason if tokens else None,
        "stop_token_id": None,
        "rendered_sha256": "0",
        "text": "",
    }


def score(row: dict, draft: str = "small", law: str = "decoding", out=()) -> dict:
    """Scores of one trajectory; `out` are its positions of disagreement."""
    generator = seeds.generator("scores", row["prompt_id"], row["sample"], draft, law)
    tokens = len(row["token_ids"])
    values: dict = {
        field.name: np.zeros(tokens, np.float32 if "float" in str(field.type) else np.int32)
        for field in SCORES
        if "list" in str(field.type)
    }
    disagreement = np.isin(np.arange(tokens), out)
    values["log_p"] = np.log(generator.uniform(0.1, 1, tokens)).astype(np.float32)
    values["log_q"] = np.log(generator.uniform(0.1, 1, tokens)).astype(np.float32)
    values["log_p"][disagreement] = -np.inf
    values["target_disagreement"] = disagreement
    values["token_ids"] = np.array(row["token_ids"], np.int32)
    values["draft_argmax"] = generator.integers(0, 6, tokens).astype(np.int32)
    keys = {"prompt_id": row["prompt_id"], "sample": row["sample"], "draft": draft, "law": law}
    return keys | values


def equal(one: dict, other: dict) -> bool:
    return (
        all(np.array_equal(one[name], other[name]) for name in one) and one.keys() == other.keys()
    )


def test_greedy_replay_matches_the_drafts_argmax():
    row = trajectory("a", 40, stop_reason="eos")
    scored = score(row)
    replay = replay_trajectory(row, scored, LENGTHS, "greedy")
    matches = scored["draft_argmax"] == row["token_ids"]
    for gamma, table, counts in zip(LENGTHS, replay.rounds, replay.expected, strict=True):
        assert equal(table, greedy_rounds(matches, gamma, budget=42, stop_reason="eos"))
        found = expected_rounds(matches * 1.0, gamma, budget=42, stop_reason="eos")
        assert counts["expected_rounds"] == pytest.approx(found.rounds)
        assert counts["expected_accepted"] == pytest.approx(found.accepted)
        assert counts["expected_offered"] == pytest.approx(found.offered)
        assert counts["acceptance_length"] == pytest.approx(found.acceptance_length)
        assert counts["accept_prob_mean"] == matches.mean()


def test_sampled_replay_uses_the_stream_of_its_prompt_and_sample():
    row, other = trajectory("a", 60), trajectory("a", 60, sample=1)
    scored = score(row, out=[7, 30])
    replay = replay_trajectory(row, scored, LENGTHS, "speculative_sampling", run_seed=4, domain="d")
    uniforms = seeds.uniforms(60, "replay", 4, "d", "a", 0)
    out = scored["target_disagreement"]
    for gamma, table in zip(LENGTHS, replay.rounds, strict=True):
        drawn = sampled_rounds(scored["log_p"], scored["log_q"], gamma, uniforms, disagreement=out)
        assert equal(table, drawn)
    assert replay.disagreement == 2
    kept = np.exp(np.minimum(scored["log_q"] - scored["log_p"], 0))[~out]
    assert replay.expected[0]["accept_prob_mean"] == pytest.approx(kept.mean())
    second = other | {"token_ids": row["token_ids"]}
    again = replay_trajectory(
        second, scored, LENGTHS, "speculative_sampling", run_seed=4, domain="d"
    )
    assert not equal(again.rounds[0], replay.rounds[0])


def test_expected_counts_are_the_mean_over_run_seeds():
    row = trajectory("a", 50, stop_reason="eos")
    scored = score(row, out=[20])
    replays = [
        replay_trajectory(row, scored, [4], "speculative_sampling", run_seed=seed)
        for seed in range(2000)
    ]
    for name, column in (("rounds", "emitted"), ("accepted", "accepted"), ("offered", "offered")):
        counts = np.array(
            [
                len(r.rounds[0][column]) if name == "rounds" else r.rounds[0][column].sum()
                for r in replays
            ]
        )
        error = counts.std() / np.sqrt(len(counts))
        assert abs(counts.mean() - replays[0].expected[0][f"expected_{name}"]) < 4 * error


@pytest.mark.parametrize("rule", ["greedy", "speculative_sampling"])
def test_prompt_lookup_needs_no_scores_and_draws_nothing(rule):
    row = trajectory("a", 80)
    replay = replay_trajectory(row, PromptLookup(), LENGTHS, rule)
    for gamma, table in zip(LENGTHS, replay.rounds, strict=True):
        alone = proposed_rounds(row["prompt_token_ids"], row["token_ids"], PromptLookup(), gamma)
        assert equal(table, alone)
    assert {row["accept_prob_mean"] for row in replay.expected} == {
        replay.expected[0]["accept_prob_mean"]
    }
    assert 0 < replay.expected[0]["accept_prob_mean"] < 1


def test_trajectory_without_a_usable_position_has_no_rounds():
    row = trajectory("a", 2)
    replay = replay_trajectory(row, score(row, out=[0, 1]), LENGTHS, "speculative_sampling")
    assert replay.rounds == replay.expected == []
    assert replay.disagreement == replay.tokens == 2
    empty = replay_trajectory(trajectory("b", 0), {}, LENGTHS, "greedy")
    assert rounds_table([replay, empty]).num_rows == expected_table([replay, empty]).num_rows == 0


def test_scores_of_other_tokens_are_refused():
    row = trajectory("a", 5)
    with pytest.raises(UserError, match="prompt a, sample 0: the scores belong to other tokens"):
        replay_trajectory(row, score(trajectory("b", 5)), LENGTHS, "greedy")


def test_end_that_contradicts_the_tokens_is_refused_by_prompt():
    row = trajectory("a", 5) | {"budget": 9}
    with pytest.raises(UserError, match="prompt a, sample 0: 5 tokens"):
        replay_trajectory(row, score(row), LENGTHS, "greedy")


def test_unknown_rule_is_refused():
    with pytest.raises(UserError, match="unknown acceptance rule 'typical'"):
        replay_trajectory(trajectory("a", 5), PromptLookup(), LENGTHS, "typical")


def test_replay_of_178_thousand_rounds_takes_seconds():
    """A tenth of a published study's 1.78 million rounds, with much slack for a busy machine."""
    generator = np.random.default_rng(0)
    tokens = 4400
    log_p = np.log(generator.uniform(0.3, 1, tokens)).astype(np.float32)
    row = trajectory("a", tokens)
    scored = score(row) | {
        "log_p": log_p,
        "log_q": (log_p + np.log(generator.uniform(0.86, 1.2, tokens))).astype(np.float32),
    }
    begun = time.perf_counter()
    replays = [
        replay_trajectory(row | {"prompt_id": str(i)}, scored, [5], "speculative_sampling")
        for i in range(200)
    ]
    rounds = rounds_table(replays)
    expected_table(replays)
    seconds = time.perf_counter() - begun
    log.info("%d rounds in %.2f s", rounds.num_rows, seconds)
    assert rounds.num_rows > 150_000
    assert seconds < 15


def write(folder: Path, rows: list[dict], scores: list[dict], shard: str = "0000") -> None:
    condition = {"target": "big", "domain": "d", "law": {"temperature": 1.0}}
    records.write(folder / f"t{shard}.parquet", rows, "trajectories", condition)
    drafts = {name: {"draft_revision": f"{name} 1"} for name in ("other", "small")}
    scoring = {"scoring_dtype": "float32", "drafts": drafts, "laws": {"decoding": {}}}
    records.write(folder / f"s{shard}.parquet", scores, "scores", condition | scoring)


def run(folder: Path, temperature: float, kind: str = "local", scores: bool = True, **changed):
    lookup = {"max_ngram": 2, "min_ngram": 1} if kind == "prompt_lookup" else {}
    settings = {
        "pair": "big-small",
        "domain": "d",
        "mode": "m",
        "draft": "small",
        "draft_settings": {"kind": kind} | lookup,
        "draft_lengths": LENGTHS,
        "law": {"temperature": temperature, "top_k": 0, "top_p": 1.0},
        "seed": 4,
    } | changed
    command = [sys.executable, "scripts/replay_rounds.py", "--settings", json.dumps(settings)]
    command += ["--trajectories", *map(str, sorted(folder.glob("t*.parquet")))]
    command += ["--scores", *map(str, sorted(folder.glob("s*.parquet")))] if scores else []
    command += ["--rounds", str(folder / "rounds"), "--expected", str(folder / "expected")]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture
def shards(tmp_path):
    rows = [
        trajectory("a", 30),
        trajectory("a", 41, 1, "eos"),
        trajectory("skipped", 0),
        trajectory("b", 1),
    ]
    for shard, part in (("0000", rows[:2]), ("0001", rows[2:])):
        scored = [
            score(row, draft, law, out=[3] if len(row["token_ids"]) == 30 else [])
            for row in part
            if row["token_ids"]
            for draft in ("other", "small")
            for law in ("unwarped", "decoding")
        ]
        write(tmp_path, part, scored, shard)
    return tmp_path, [row for row in rows if row["token_ids"]]


@pytest.mark.parametrize(
    ("temperature", "kind", "rule"),
    [
        (0, "local", "greedy"),
        (1, "local", "speculative_sampling"),
        (1, "prompt_lookup", "speculative_sampling"),
        (0, "prompt_lookup", "greedy"),
    ],
)
def test_script_writes_the_rounds_of_every_trajectory(shards, temperature, kind, rule):
    folder, rows = shards
    done = run(folder, temperature, kind, scores=kind == "local")
    assert done.returncode == 0, done.stderr
    replays = [
        replay_trajectory(
            row,
            PromptLookup(2)
            if kind == "prompt_lookup"
            else score(row, out=[3] * (len(row["token_ids"]) == 30)),
            LENGTHS,
            rule,
            run_seed=4,
            domain="d",
        )
        for row in rows
    ]
    written = records.read(folder / "rounds", "rounds", ["a", "b"])
    assert written.equals(rounds_table(replays))
    assert records.read(folder / "expected", "expected").equals(expected_table(replays))
    condition = records.condition(written)
    assert condition["draft"] == "small" and condition["rule"] == rule
    assert condition["target"] == "big"
    if kind == "local":
        assert condition["draft_revision"] == "small 1" and "drafts" not in condition
        assert condition["scoring_dtype"] == "float32"
    provenance = records.provenance(folder / "rounds")
    sampled = rule == "speculative_sampling" and kind == "local"
    assert provenance["disagreement_positions"] == (1 if sampled else 0)
    assert list(grouped_metrics(written, ["draft_length"])) == [(3,), (5,)]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"draft": "unknown"}, "prompt a, sample 0 has no decoding scores of draft unknown"),
        ({"scores": False}, "draft small is a model: give its --scores"),
        ({"draft_lengths": [0]}, "draft length must be an integer of at least 1, got 0"),
    ],
)
def test_script_refuses_bad_input_in_one_line(shards, changed, message):
    folder, _ = shards
    done = run(folder, 0, **changed)
    assert done.returncode == 2
    assert message in done.stderr and "Traceback" not in done.stderr
    assert not (folder / "rounds").exists()


def test_script_refuses_scores_given_twice(shards):
    folder, _ = shards
    (folder / "s0002.parquet").write_bytes((folder / "s0001.parquet").read_bytes())
    done = run(folder, 0)
    assert done.returncode == 2
    assert "prompt b, sample 0 is scored twice" in done.stderr
