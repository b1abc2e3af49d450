"""Speed and its explanation, from timings whose sums are known."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from draftscope.errors import UserError
from draftscope.lossless import breakdown, decoding, latency, speed
from draftscope.schemas import SCHEMAS
from live_logs import PLAIN, SETTINGS, STEP, VERIFY, log


def configuration(**options):
    timings, rounds = log(**options)
    return speed.Configuration("pair", "math", "sample", "mixed_3b", timings, rounds, 1.5)


def test_steps_and_ratios_come_from_the_rounds_after_the_first():
    plain, spec = speed.speed_rows(configuration(), SETTINGS)
    assert plain["draft_length"] == 0 and plain["speedup"] == pytest.approx(1)
    assert spec["baseline_step"] == pytest.approx(PLAIN)
    assert spec["verify_pass"] == pytest.approx(VERIFY)
    assert spec["draft_step"] == pytest.approx(STEP)
    assert spec["cost_ratio"] == pytest.approx(0.3)
    assert spec["verify_ratio"] == pytest.approx(1.2)
    assert spec["first_token"] == pytest.approx(2 * STEP + 5 * PLAIN + 0.005)


def test_measured_speed_is_all_time_over_all_tokens():
    plain, spec = speed.speed_rows(configuration(), SETTINGS)
    seconds = {0: 0.5 + 5 * PLAIN + 6 * 0.005, 2: 0.5 + 2 * VERIFY + 3 * (2 * STEP + 0.005)}
    assert plain["tokens_per_second"] == pytest.approx(6 / seconds[0])
    assert spec["tokens_per_second"] == pytest.approx(6 / seconds[2])
    assert spec["speedup"] == pytest.approx(seconds[0] / seconds[2])
    assert spec["speedup_lower"] <= spec["speedup"] <= spec["speedup_upper"]
    assert spec["tokens"] == 60 and spec["rounds"] == 30


def test_case_56_the_prediction_names_c_and_is_not_the_measurement():
    spec = speed.speed_rows(configuration(), SETTINGS)[1]
    assert spec["acceptance_length"] == pytest.approx(2)
    assert spec["predicted"] == pytest.approx(2 / (2 * 0.3 + 1))
    assert spec["predicted_with_verify"] == pytest.approx(2 / (2 * 0.3 + 1.2))
    assert spec["predicted"] != pytest.approx(spec["speedup"], rel=0.01)


def test_the_pooled_rate_misleads_where_the_positions_do_not():
    """Half the rounds accept everything, half nothing: 3 tokens a round, 1.75 by the formula."""
    spec = speed.speed_rows(configuration(gamma=4, accepted=(4, 0, 4, 0)), SETTINGS)[1]
    assert spec["acceptance"] == pytest.approx(0.5)
    assert spec["acceptance_length"] == pytest.approx(3)
    assert spec["yield_positions"] == pytest.approx(3)
    assert spec["yield_iid"] == pytest.approx(1.9375)


def test_case_55_the_median_of_repeats_sheds_a_slow_one():
    """One of three passes over one prompt took ten times as long."""
    calm = speed.speed_rows(configuration(repeats=3), SETTINGS)[1]
    disturbed = speed.speed_rows(configuration(repeats=3, slow={("p0", 1): 10.0}), SETTINGS)[1]
    assert disturbed["tokens_per_second"] == pytest.approx(calm["tokens_per_second"])
    assert disturbed["repeats"] == 3


def test_intervals_resample_prompts_and_no_rounds():
    """All prompts alike: whatever varies between rounds, nothing varies between prompts."""
    spec = speed.speed_rows(configuration(), SETTINGS)[1]
    assert spec["acceptance_lower"] == spec["acceptance_upper"] == pytest.approx(0.5)


def test_phases_of_a_token_add_up_and_leave_the_first_round_out():
    rows = breakdown.phase_rows(configuration())
    own = {row["phase"]: row for row in rows if row["draft_length"] == 2}
    assert own["draft"]["per_token"] == pytest.approx(2 * 2 * STEP / 3)
    assert own["verify"]["per_token"] == pytest.approx(2 * VERIFY / 3)
    shares = [own[phase]["share"] for phase in speed.PHASES]
    assert sum(shares) == pytest.approx(1)
    assert own["total"]["tokens"] == 60 and own["draft"]["tokens"] == 30


def test_position_rates_are_unconditional_beside_conditional():
    rows = breakdown.position_rows(configuration(), SETTINGS)
    assert [row["position"] for row in rows] == [1, 2]
    assert [row["position_rate"] for row in rows] == pytest.approx([2 / 3, 1 / 3])
    assert rows[1]["conditional_rate"] == pytest.approx(1 / 2)
    assert (rows[1]["reached"], rows[1]["rounds"]) == (20, 30)


def test_a_draft_that_never_offers_has_a_reason_instead_of_a_rate():
    timings, rounds = log(gamma=2, accepted=(0, 0))
    empty = rounds.set_column(
        rounds.schema.get_field_index("offered"), SCHEMAS["rounds"].field("offered"),
        pa.array(np.zeros(rounds.num_rows), pa.int16()),
    )  # fmt: skip
    own = speed.Configuration("p", "d", "m", None, timings, empty, None)
    spec = speed.speed_rows(own, SETTINGS)[1]
    assert spec["acceptance"] is None and spec["predicted"] is None
    assert spec["reason"] == "the draft never offered a token"


def test_plain_decoding_must_be_there():
    timings, rounds = log()
    timings = timings[timings["draft_length"] > 0]
    with pytest.raises(UserError, match="no draft length 0"):
        speed.Configuration("p", "d", "m", None, timings, rounds, None)


def test_latency_is_the_median_with_quartiles_and_a_ratio():
    times = pd.DataFrame(
        [
            {"target": "t", "tokens": tokens, "context": 8, "repeat": repeat, "seconds": seconds}
            for tokens, values in ((1, (1.0, 2.0, 9.0)), (5, (3.0, 4.0, 5.0)))
            for repeat, seconds in enumerate(values)
        ]
    )
    one, five = breakdown.latency_rows(times)
    assert (one["median"], one["ratio"], five["median"], five["ratio"]) == (2.0, 1.0, 4.0, 2.0)
    assert (five["lower"], five["upper"], five["repeats"]) == (3.5, 4.5, 3)


# ------------------------------------------------------------- a clock that can be watched


class Device:
    """Work is queued at once and done when waited for: an asynchronous device on a fake clock."""

    def __init__(self, costs):
        self.time, self.queued, self.costs = 0.0, 0.0, iter(costs)

    def launch(self):
        self.time += 0.001
        self.queued += next(self.costs)

    def wait(self):
        self.time += self.queued
        self.queued = 0.0

    def clock(self):
        return self.time


def test_case_55_the_device_is_waited_for_at_both_ends_and_the_first_run_dropped():
    device = Device([50.0, 2.0, 3.0, 4.0])
    device.queued = 100.0  # left over from what ran before
    times = latency.timed(device.launch, 3, synchronize=device.wait, clock=device.clock)
    assert times == pytest.approx([2.001, 3.001, 4.001])


def test_case_55_a_clock_without_waiting_sees_the_launch_alone():
    device = Device([50.0, 2.0, 3.0])
    assert latency.timed(device.launch, 2, clock=device.clock) == pytest.approx([0.001, 0.001])


class Counting:
    """A decoder that takes as many fake seconds as it reads tokens, the first time ten more."""

    device = torch.device("cpu")
    width, max_positions, name = 50, 40, "counting"

    def __init__(self):
        self.time, self.length, self.lengths = 0.0, 0, []

    def reset(self):
        self.length = 0

    def crop(self, length):
        self.length = length

    def extend(self, token_ids, keep):
        self.lengths.append((self.length, len(token_ids)))
        self.time += len(token_ids) + (10 if len(self.lengths) < 4 else 0)
        self.length += len(token_ids)


def test_case_52_every_pass_follows_the_same_context_and_the_warm_up_is_not_counted():
    decoder = Counting()
    times = latency.pass_times(decoder, [1, 3], 20, 2, clock=lambda: decoder.time)
    assert times == [(1, 0, 1), (3, 0, 3), (1, 1, 1), (3, 1, 3)]
    assert decoder.lengths[0] == (0, 20)
    assert {before for before, _ in decoder.lengths[1:]} == {20}
    with pytest.raises(UserError, match="more than the 40 positions of counting"):
        latency.pass_times(decoder, [30], 20, 1)


def test_case_52_timings_of_a_run_hold_its_own_passes_only(monkeypatch):
    """Two runs in one process, with a warm-up each: nothing of one is counted in the other."""
    calls = []

    def run(target, drafter, prompts, *, gamma, decoder, **options):
        calls.append((prompts[0], gamma))
        row = {"prompt_id": prompts[0], "sample": 0}
        return decoding.LiveRun(
            [row | {"token_ids": [gamma]}], [row | {"draft_length": gamma}], [row | {"repeat": 0}]
        )

    monkeypatch.setattr(decoding, "run", run)
    monkeypatch.setattr(decoding, "open_decoder", lambda target: None)
    options = {"repeats": 2, "warm_up": 1, "samples": 1}
    for _ in range(2):
        calls.clear()
        out = decoding.side_by_side(None, None, ["a", "b"], [0, 3], **options)
        assert len(calls) == 2 + 2 * 2 * 2
        assert len(out.timings) == 8 and len(out.trajectories) == 4 and len(out.rounds) == 4
        assert sorted(row["repeat"] for row in out.timings) == [0] * 4 + [1] * 4
        assert calls[2:] == [
            ("a", 0), ("a", 3), ("b", 3), ("b", 0), ("a", 3), ("a", 0), ("b", 0), ("b", 3),
        ]  # fmt: skip


def test_texts_that_are_alike_are_scored_once():
    def text(prompt, length, ids, status="ok"):
        return {"prompt_id": prompt, "sample": 0, "draft_length": length, "status": status,
                "token_ids": ids}  # fmt: skip

    rows = [text("a", 0, [1, 2]), text("a", 4, [1, 2]), text("b", 0, [1, 2]), text("a", 2, [9]),
            text("c", 0, [], "skipped")]  # fmt: skip
    found = decoding.distinct_texts(rows)
    assert [places for _, places in found] == [[0, 1], [2], [3]]
    assert [row["sample"] for row, _ in found] == [0, 1, 2]
    assert all("draft_length" not in row for row, _ in found)
