"""Batches of the lossless study: times whose sums are known, and the same texts at every size."""

import numpy as np
import pandas as pd
import pytest
from draftscope import records
from draftscope.drafters.model import TextDraft
from draftscope.drafters.prompt_lookup import PromptLookup
from draftscope.exhibits.tables import read_table
from draftscope.live import open_decoder
from draftscope.live.batched_draft import SeparateDrafts
from draftscope.live.batched_model import BatchedModel
from draftscope.lossless import batch_speed, batching, schemas  # noqa: F401
from draftscope.lossless.decoding import side_by_side
from live_logs import SETTINGS
from loading import load_tiny, rendered

NAMES = {"pair": "copy", "domain": "math", "mode": "greedy"}
GREEDY = {"temperature": 0.0, "top_k": 0, "top_p": 1.0}


def times(sizes=(1, 4), prompts=8, gain=None, passes=5, slow=None):
    """A plain batch takes .1 s a pass, each 1% more than the one before; speculation .1 / gain."""
    rows = []
    for engine, size in [("lean", 1), *(("batched", n) for n in sizes)]:
        for batch in range(prompts // size):
            for gamma in (0, 2):
                for repeat in range(2):
                    pace = 1.0 if gamma == 0 else 1 / (gain or {}).get(size, 1.0)
                    pace *= (slow or {}).get((size, batch, repeat), 1.0)
                    count = passes if gamma == 0 else 4
                    total = 0.1 * passes * pace * (1 if gamma else 1 + batch / 100)
                    rows.append(
                        {"engine": engine, "batch_size": size, "draft_length": gamma,
                         "repeat": repeat, "batch": batch,
                         "prompt_ids": [f"p{batch * size + n}" for n in range(size)],
                         "tokens": 8 * size, "rounds": count * size, "passes": count,
                         "draft_seconds": 0.1 * total, "verify_seconds": 0.6 * total,
                         "sample_seconds": 0.2 * total, "other_seconds": 0.1 * total,
                         "later_verify_seconds": 0.01 * (count - 1) * (1 if gamma == 0 else 1.5),
                         "identical": size - (gamma == 2 and size == 4 and batch == 1)}
                    )  # fmt: skip
    return pd.DataFrame(rows)


def test_speed_is_all_tokens_over_all_time_and_gains_are_of_the_same_size():
    rows = batch_speed.batch_rows(times(gain={1: 1.5, 4: 1.1}), NAMES, SETTINGS)
    assert [(row["engine"], row["batch_size"]) for row in rows] == [
        ("lean", 1), ("batched", 1), ("batched", 4),
    ]  # fmt: skip
    alone, one, four = rows
    mean = np.mean([1 + n / 100 for n in range(8)])
    assert alone["plain_tokens_per_second"] == pytest.approx(8 / (0.5 * mean))
    assert four["plain_tokens_per_second"] == pytest.approx(32 / (0.5 * 1.005))
    gains = [1.5 * mean, 1.5 * mean, 1.1 * 1.005]
    assert [row["speedup"] for row in rows] == pytest.approx(gains)
    assert one["acceptance_length"] == pytest.approx(2)
    assert four["verify_ratio"] == pytest.approx(1.5)
    assert (four["identical"], four["texts"], four["prompts"]) == (15, 16, 8)
    assert four["batches"] == 2 and four["method"] == "student"
    assert one["speedup_lower"] <= one["speedup"] <= one["speedup_upper"]


def test_the_median_of_repeats_counts_and_one_batch_has_no_interval():
    slow = {(4, 0, 1): 9.0}
    frame = times(slow=slow)
    third = frame[frame["repeat"] == 0].assign(repeat=2)
    calm, disturbed = (
        batch_speed.batch_rows(pd.concat([part, third]), NAMES, SETTINGS)[2]
        for part in (times(), frame)
    )
    assert calm["tokens_per_second"] == disturbed["tokens_per_second"]
    single = batch_speed.batch_rows(times(sizes=(8,)), NAMES, SETTINGS)[1]
    assert single["speedup"] == pytest.approx(1) and single["speedup_lower"] is None
    assert single["reason"] == "fewer than 4 batches: no interval"
    short = batch_speed.batch_rows(times(passes=1).assign(passes=1), NAMES, SETTINGS)[0]
    assert short["verify_ratio"] is None and short["reason"] == "no text has a second round"


def test_the_table_shows_every_size_with_the_texts_that_agree(tmp_path):
    rows = batch_speed.batch_rows(times(gain={1: 1.5, 4: 1.1}), NAMES, SETTINGS)
    records.write(tmp_path / "batch.parquet", rows, "lossless_batch", {})
    frame = records.read(tmp_path / "batch.parquet", "lossless_batch").to_pandas()
    settings = {"confidence": 0.95, "resamples": 300, "method": "studentized"}
    batch_speed.batch(frame, settings).write(tmp_path / "table")
    table = read_table(tmp_path / "table.csv")
    assert list(table["batch_size"]) == ["1", "1", "4"]
    assert list(table["same"]) == ["16 of 16", "16 of 16", "15 of 16"]
    text = (tmp_path / "table.md").read_text("utf-8")
    assert "pair copy, mode greedy, draft length 2 (domain math)" in text
    assert "| speedup | lower | upper |" in text


@pytest.fixture(scope="module")
def chosen(tiny_folder):
    loaded = load_tiny(tiny_folder)

    def lookup():
        return TextDraft(PromptLookup(), "lookup")

    single = open_decoder(loaded), lookup()
    together = BatchedModel(loaded), SeparateDrafts(lookup)
    return batching.ways(
        single, together, [1, 2, 4], law=GREEDY, eos_ids=frozenset(), run_seed=3, domain="d"
    )


def test_every_way_decodes_every_prompt_in_every_repeat_to_the_same_text(chosen, tmp_path):
    prompts = [(f"p{n}", rendered(0, *range(20, 24 + n))) for n in range(4)]
    rows = batching.batch_times(chosen, prompts, draft_length=3, budget=9, repeats=2)
    records.write(tmp_path / "times.parquet", rows, "live_batches", {})
    assert all(row["identical"] == len(row["prompt_ids"]) for row in rows)
    seen = {}
    for row in rows:
        key = (row["engine"], row["batch_size"], row["draft_length"], row["repeat"])
        assert row["batch"] == len(seen.setdefault(key, [])) / row["batch_size"]
        seen[key] += row["prompt_ids"]
        assert row["tokens"] == 9 * row["batch_size"]
        assert row["passes"] >= row["rounds"] / row["batch_size"]
        assert row["later_verify_seconds"] < row["verify_seconds"]
    assert len(seen) == 4 * 2 * 2
    assert all(ids == ["p0", "p1", "p2", "p3"] for ids in seen.values())


def test_a_text_that_differs_from_its_own_alone_is_counted(chosen):
    class Other:
        engine, size = "other", 2

        def decode(self, prompts, gamma, budget):
            found = chosen[2].decode(prompts, gamma, budget)
            if gamma and prompts[0][0] == "p0":
                found[1].token_ids[-1] += 1
            return found

    prompts = [(f"p{n}", rendered(0, *range(20, 24 + n))) for n in range(4)]
    rows = batching.batch_times([chosen[0], Other()], prompts, 2, budget=5, repeats=1)
    found = {
        (row["draft_length"], row["batch"]): row["identical"]
        for row in rows
        if row["engine"] == "other"
    }
    assert found == {(0, 0): 2, (0, 1): 2, (2, 0): 1, (2, 1): 2}


def test_texts_of_a_batch_are_those_of_the_loop_over_one(tiny_folder):
    """What level 3 tests is the loop over one text, however many are decoded together."""
    target = load_tiny(tiny_folder)
    prompts = [(f"p{n}", rendered(*ids)) for n, ids in enumerate([[5, 6, 5], [7], [8, 8, 9, 8, 9]])]
    options = {"law": GREEDY | {"temperature": 1.0}, "budget": 9, "run_seed": 4, "domain": "d",
               "samples": 2}  # fmt: skip
    together = BatchedModel(target), SeparateDrafts(lambda: TextDraft(PromptLookup(), "lookup"))
    found = batching.texts_in_batches(target, together, prompts, [0, 3], 4, **options)
    alone = side_by_side(
        target, TextDraft(PromptLookup(), "lookup"), prompts, [0, 3], repeats=1, warm_up=0,
        **options,
    )  # fmt: skip

    def ordered(rows):
        return sorted(rows, key=lambda row: (row["prompt_id"], row["sample"], row["draft_length"]))

    assert len(found.trajectories) == 3 * 2 * 2
    assert ordered(found.trajectories) == ordered(alone.trajectories)
    assert ordered(found.rounds) == ordered(alone.rounds)
    one, other = ({row["prompt_id"]: row["token_ids"] for row in found.trajectories
                   if (row["sample"], row["draft_length"]) == key} for key in ((0, 0), (1, 0)))  # fmt: skip
    assert one != other  # samples have their own chance
