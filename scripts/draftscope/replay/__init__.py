"""Replay: the rounds a speculative loop would have run, from a trajectory and its scores.

Under a lossless rule the emitted tokens are distributed as the target's own whatever the draft
does. So the trajectory is generated once, and the rounds of any draft and draft length are read
off it afterwards: exactly under greedy decoding, drawn from their law under sampling, or in
expectation without sampling noise.
"""

from draftscope.replay.expected import ExpectedRounds, expected_rounds
from draftscope.replay.rounds import (
    Proposals,
    accept_prob_emitted,
    agreement,
    greedy_rounds,
    proposals,
    proposed_rounds,
    reached_positions,
    sampled_rounds,
)
from draftscope.replay.trajectory import Replay, expected_table, replay_trajectory, rounds_table

__all__ = [
    "ExpectedRounds",
    "Proposals",
    "Replay",
    "accept_prob_emitted",
    "agreement",
    "expected_rounds",
    "expected_table",
    "greedy_rounds",
    "proposals",
    "proposed_rounds",
    "reached_positions",
    "replay_trajectory",
    "rounds_table",
    "sampled_rounds",
]
