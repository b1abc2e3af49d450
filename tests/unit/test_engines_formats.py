"""The same rounds in every format: the same measures where it has them, missing where it has not."""

import json
import random

import engine_logs as logs
import pyarrow as pa
import pytest
from draftscope import records
from draftscope.acceptance.sums import ENGINE_LENGTH, MEASURES, of_imported, of_rounds
from draftscope.engines import neutral
from draftscope.engines.fields import Object
from draftscope.engines.importing import import_requests
from draftscope.engines.options import Options
from draftscope.errors import UserError
from draftscope.metrics import acceptance_metrics
from draftscope.schemas import SCHEMAS
from hypothesis import given, settings
from hypothesis import strategies as st

GAMMA = 4
EMITTED = {"accepted_per_emitted", "verify_rate", "acceptance_length"}
WHERE_OFFERED = {"acceptance_length_where_offered"}
EVERY_ROUND = {"accepted_length", "position_rate"}
BY_ROUND = {"def1", "conditional_rate"}
ASSERTED = Options(every_round_drafts=True)

# Format, its lines, what the caller says, and the measures that it cannot give.
CASES = {
    "vllm-detailed": ("vllm", logs.vllm, Options(), EMITTED | WHERE_OFFERED | EVERY_ROUND),
    "vllm-every-round": ("vllm", logs.vllm, ASSERTED, EMITTED | WHERE_OFFERED),
    "vllm-joint": (
        *("vllm", lambda *a: logs.vllm(*a, level="joint"), Options()),
        EMITTED | WHERE_OFFERED | EVERY_ROUND,
    ),
    "vllm-summary": (
        *("vllm", lambda *a: logs.vllm(*a, level="summary"), Options()),
        EMITTED | WHERE_OFFERED | EVERY_ROUND | BY_ROUND,
    ),
    "aiperf": ("aiperf", logs.aiperf, Options(), EMITTED | WHERE_OFFERED | EVERY_ROUND | BY_ROUND),
    "jsonl": ("jsonl", logs.neutral, Options(), set()),
}


def imported(path, format, options=Options(), **more):  # noqa: B008 (frozen)
    found = import_requests(format, [path], options, **more)
    records.write(path.with_suffix(".parquet"), found.rows, "imported_rounds", {})
    return of_imported(records.read(path.with_suffix(".parquet"), "imported_rounds"))


def assert_same(sums, drawn, gamma, missing):
    """Micro and macro of everything that is there are those of the rounds themselves."""
    expected = acceptance_metrics(logs.table(drawn, gamma))
    assert set(sums.missing) == missing
    compared = set()
    for (name, position), (above, below) in sums.values.items():
        if name == ENGINE_LENGTH:
            rounds = [one for lines in drawn.values() for one in lines if one[0]]
            assert above.sum() / below.sum() == pytest.approx(
                1 + sum(a for _, a, _ in rounds) / len(rounds)
            )
            continue
        ratio = getattr(expected, name)
        ratio = ratio[position - 1] if position else ratio
        assert (above.sum(), below.sum()) == (ratio.numerator, ratio.denominator)
        own = above[below > 0] / below[below > 0]
        assert own.mean() == pytest.approx(ratio.macro)
        compared.add(name)
    assert compared == set(MEASURES) - missing - {ENGINE_LENGTH}


@pytest.mark.parametrize("case", CASES)
def test_a_format_gives_the_measures_of_the_rounds_or_says_why_not(case, tmp_path):
    format, write, options, missing = CASES[case]
    drawn = logs.draw(gamma=GAMMA)
    path = logs.jsonl(tmp_path / "x.jsonl", [write(p, r, GAMMA) for p, r in drawn.items()])
    sums = imported(path, format, options)
    assert_same(sums, drawn, GAMMA, missing)
    assert all(sums.missing[name] for name in missing)
    assert list(sums.prompt_ids) == sorted(drawn)


def test_a_histogram_of_full_rounds_alone_says_what_each_round_offered(tmp_path):
    drawn = logs.draw(gamma=GAMMA, constant=True)
    for name, write, options, format in (
        ("v", lambda *a: logs.vllm(*a, level="summary"), Options(), "vllm"),
        ("s", logs.sglang, Options(draft_length=GAMMA), "sglang"),
    ):
        lines = [write(p, r, GAMMA) for p, r in drawn.items()]
        sums = imported(logs.jsonl(tmp_path / f"{name}.jsonl", lines), format, options)
        # SGLang's total counts every step in full, whatever was drafted: it says nothing of one.
        lost = EMITTED | WHERE_OFFERED | (EVERY_ROUND if format == "vllm" else BY_ROUND)
        assert_same(sums, drawn, GAMMA, lost)


def test_sglang_without_a_draft_length_keeps_it_missing(tmp_path):
    drawn = logs.draw(gamma=GAMMA, constant=True)
    lines = [logs.sglang(p, r, GAMMA) for p, r in drawn.items()]
    sums = imported(logs.jsonl(tmp_path / "x.jsonl", lines), "sglang")
    assert sums.draft_length is None and sums.cut_rounds is None
    assert set(sums.missing) == EMITTED | WHERE_OFFERED | BY_ROUND
    assert sums.missing["def1"] == "the draft length is not known"
    expected = acceptance_metrics(logs.table(drawn, GAMMA))
    above, below = sums.values["accepted_length", None]
    assert above.sum() / below.sum() == pytest.approx(expected.accepted_length.micro)


def test_the_example_of_vllms_documentation(tmp_path):
    stats = {
        "mean_acceptance_length": 1.2325581395348837,
        "draft_acceptance_rate": 0.07751937984496124,
        "acceptance_histogram": [39, 1, 0, 3],
        "num_spec_steps": 43,
        "num_accepted_draft_tokens": 10,
        "num_draft_tokens": 129,
        "num_spec_tokens": 3,
    }
    body = {"id": "cmpl-1", "choices": [], "metrics": {"speculative_decoding": stats}}
    sums = imported(logs.jsonl(tmp_path / "x.jsonl", [body]), "vllm")
    for name, said in (
        (ENGINE_LENGTH, "mean_acceptance_length"),
        ("draft_acceptance_rate", "draft_acceptance_rate"),
    ):
        above, below = sums.values[name, None]
        assert above[0] / below[0] == pytest.approx(stats[said], abs=1e-15)
    # 129 = 43 x 3: every round offered three, so the histogram has the conditional rates too.
    assert [tuple(map(float, (a[0], b[0]))) for (name, _), (a, b) in sums.values.items()
            if name == "conditional_rate"] == [(4, 43), (3, 4), (3, 3)]  # fmt: skip


def test_the_example_of_sglangs_openai_extension(tmp_path):
    details = {
        "spec_accept_rate": 63 / 215,
        "spec_accept_length": 106 / 43,
        "spec_num_correct_drafts": 63,
        "spec_num_proposed_drafts": 215,
        "spec_verify_ct": 43,
        "spec_correct_drafts_histogram": [11, 14, 11, 4, 0, 3],
    }
    body = {"id": "a", "usage": {"completion_tokens": 106}, "choices": [],
            "sglext": {"spec_tokens_details": details}}  # fmt: skip
    found = import_requests(
        "sglang", [logs.jsonl(tmp_path / "x.jsonl", [body])], Options(draft_length=5)
    )
    (row,) = found.rows
    assert (row["rounds"], row["accepted_total"], row["offered_total"]) == (43, 63, 215)
    assert row["accepted"] == (0, 1, 2, 3, 5) and row["count"] == (11, 14, 11, 4, 3)
    assert row["offered"] is None
    # 106 tokens are not 63 + 43: the engine's own length is no acceptance length of rounds.
    assert row["tokens"] == 106 and row["emitted_total"] is None


@pytest.mark.parametrize("old", [True, False])
def test_names_of_older_versions_are_read(tmp_path, old):
    line = logs.sglang("a", [(3, 1, 2), (3, 3, 4)], 3)
    meta = line["meta_info"]
    if old:
        for new, name in (
            ("spec_num_correct_drafts", "spec_accept_token_num"),
            ("spec_num_proposed_drafts", "spec_draft_token_num"),
            ("spec_correct_drafts_histogram", "spec_accept_histogram"),
        ):
            meta[name] = meta.pop(new)
    (row,) = import_requests("sglang", [logs.jsonl(tmp_path / "x.jsonl", [line])], Options()).rows
    assert (row["accepted_total"], row["offered_total"], row["rounds"]) == (4, 6, 2)
    assert (row["accepted"], row["count"]) == ((1, 3), (1, 1))


def test_an_early_vllm_reports_by_choice_and_a_batch_wraps_the_response(tmp_path):
    stats = logs.vllm_stats([(3, 1, 2)], 3, "summary") | {"acceptance_histogram": {"1": 1}}
    choices = [{"index": i, "speculative_decoding_stats": stats} for i in range(2)]
    line = {"id": "vllm-1", "custom_id": "row-7", "error": None,
            "response": {"status_code": 200, "body": {"id": "c1", "choices": choices}}}  # fmt: skip
    rows = import_requests("vllm", [logs.jsonl(tmp_path / "x.jsonl", [line])], Options()).rows
    assert [(row["prompt_id"], row["sample"]) for row in rows] == [("row-7", 0), ("row-7", 1)]
    assert rows[0]["accepted"] == (1,)


def test_chunks_of_a_stream_are_passed_over_to_the_one_with_metrics(tmp_path):
    last = {"id": "a", "object": "chat.completion.chunk", "choices": [],
            "metrics": {"speculative_decoding": logs.vllm_stats([(3, 1, 2)], 3)}}  # fmt: skip
    chunk = {
        "id": "a",
        "object": "chat.completion.chunk",
        "choices": [{"delta": {}}],
        "metrics": None,
    }
    lost = chunk | {"id": "b"}
    chunks = (chunk, chunk, lost, lost, last)
    text = "".join(f"data: {json.dumps(one)}\n\n" for one in chunks)
    (tmp_path / "x.txt").write_text(f"event: message\n{text}data: [DONE]\n")
    found = import_requests("vllm", [tmp_path / "x.txt"], Options())
    assert [row["rounds"] for row in found.rows] == [1]
    # The two of `b` are one request, of which no chunk has counts; nothing of `a` is lost.
    assert found.left_out == {"without metrics.speculative_decoding": 1}


def test_chunks_of_a_stream_of_sglang_count_once_with_the_last(tmp_path):
    chunks = []
    for name, rounds in (("a", 2), ("b", 1)):
        for known in range(1, rounds + 1):
            chunk = logs.sglang(name, [(3, 1, 2), (3, 3, 4)][:known], 3, finish_reason=None)
            chunks.append(chunk)
    chunks.append(logs.sglang("a", [(3, 1, 2), (3, 3, 4)], 3))
    text = "".join(f"data: {json.dumps(one)}\n\n" for one in chunks)
    (tmp_path / "x.txt").write_text(f"{text}data: [DONE]\n")
    found = import_requests("sglang", [tmp_path / "x.txt"], Options())
    assert [(row["prompt_id"], row["rounds"], row["accepted_total"]) for row in found.rows] == [
        ("a", 2, 4)
    ]
    assert found.left_out == {"without a finish reason: of a stream that was cut": 1}


def test_aiperf_leaves_out_warmups_and_failures_and_takes_conversations_as_prompts(tmp_path):
    rounds = [(3, 1, 2), (3, 3, 4)]
    kept = [
        logs.aiperf("c1", rounds, 3),
        logs.aiperf("c1", rounds, 3),
        logs.aiperf("c2", rounds, 3),
    ]
    for number, line in enumerate(kept):
        line["metadata"]["x_request_id"] = f"r{number}"
    warm, failed, bare = (logs.aiperf(f"x{n}", rounds, 3) for n in range(3))
    warm["metadata"]["benchmark_phase"] = "warmup"
    failed |= {"error": {"code": 499, "type": "x"}, "metrics": None, "spec_decode_acceptance": None}
    bare["spec_decode_acceptance"] = None
    path = logs.jsonl(tmp_path / "x.jsonl", [warm, *kept, failed, bare])
    found = import_requests("aiperf", [path], Options())
    assert [(row["prompt_id"], row["sample"]) for row in found.rows] == [
        ("c1", 0), ("c1", 1), ("c2", 0)]  # fmt: skip
    assert found.engine == "vllm"
    assert found.left_out == {
        "of the phase warmup": 1,
        "failed or cancelled": 1,
        "without spec_decode_acceptance": 1,
    }


def test_aiperf_without_its_record_still_has_three_totals(tmp_path):
    line = logs.aiperf("c1", [(3, 1, 2)], 3)
    line["spec_decode_acceptance"] = None
    totals = {"spec_decode_steps": 4, "spec_decode_accepted_draft_tokens": 5,
              "spec_decode_draft_tokens": 12}  # fmt: skip
    line["metrics"] |= {key: {"value": value, "unit": "x"} for key, value in totals.items()}
    sums = imported(logs.jsonl(tmp_path / "x.jsonl", [line]), "aiperf")
    assert set(sums.values) == {("draft_acceptance_rate", None), (ENGINE_LENGTH, None)}
    assert set(sums.missing) == set(MEASURES) - {"draft_acceptance_rate", ENGINE_LENGTH}


def test_counters_of_a_server_are_one_row_and_their_differences_a_histogram(tmp_path):
    early, late = (logs.draw(gamma=GAMMA, prompts=n) for n in (3, 8))
    for name, drawn in (("early", early), ("late", late)):
        (tmp_path / name).write_text(logs.counters(drawn, GAMMA))
    added = {name: late[name] for name in late if name not in early}
    for since, drawn in ((None, late), (tmp_path / "early", added)):
        found = import_requests("vllm-counters", [tmp_path / "late"], Options(), since)
        (row,) = found.rows
        rounds = [one for lines in drawn.values() for one in lines]
        assert (row["rounds"], row["draft_length"]) == (len(rounds), GAMMA)
        expected = logs.histogram(rounds, GAMMA + 1)
        counted = dict(zip(row["accepted"], row["count"], strict=True))
        assert [counted.get(j, 0) for j in range(GAMMA + 1)] == expected
        assert row["prompt_id"] == "all requests of m"


@settings(max_examples=60)
@given(st.data())
def test_order_and_counting_make_no_difference(data):
    """Rounds in order, counted, and in this program's own log: the same sums."""
    gamma = data.draw(st.integers(1, 6))
    one = st.integers(0, gamma).flatmap(
        lambda k: st.tuples(st.just(k), st.integers(0, k)).flatmap(
            lambda ka: st.tuples(*map(st.just, ka), st.integers(ka[1], ka[1] + 1))
        )
    )
    drawn = data.draw(
        st.dictionaries(st.sampled_from("abcd"), st.lists(one, min_size=1, max_size=8), min_size=1)
    )
    own = of_rounds(_arrow("rounds", logs.round_rows(drawn, gamma)))
    ordered = [logs.neutral(p, lines, gamma) for p, lines in drawn.items()]
    counted = []
    for prompt, lines in drawn.items():
        alike = sorted(set(lines), key=lambda one: random.Random(len(lines)).random())
        counted.append(logs.neutral(prompt, alike, gamma, count=[lines.count(x) for x in alike]))
    for written in (ordered, counted):
        sums = of_imported(_arrow("imported_rounds", _rows(written)))
        assert not sums.missing
        assert (sums.rounds, sums.cut_rounds) == (own.rounds, own.cut_rounds)
        assert sums.values.keys() == own.values.keys()
        for key, (above, below) in own.values.items():
            assert sums.values[key][0].tolist() == above.tolist(), key
            assert sums.values[key][1].tolist() == below.tolist(), key


def _rows(lines):
    found = [
        next(neutral.requests(Object(f"x:{n}", line), Options())) for n, line in enumerate(lines)
    ]
    return [request.row(request.sample) for request in found]


def _arrow(schema, rows):
    return pa.Table.from_pylist(rows, schema=SCHEMAS[schema])


def test_a_wrong_count_is_noticed_by_the_comparison_above(tmp_path):
    """The equality of `assert_same` can fail: one more accepted token is a difference."""
    drawn = logs.draw(gamma=GAMMA)
    path = logs.jsonl(tmp_path / "x.jsonl", [logs.neutral(p, r, GAMMA) for p, r in drawn.items()])
    sums = imported(path, "jsonl")
    at = next(i for i, (k, a, _) in enumerate(drawn["p00"]) if a < k)
    offered, accepted, _ = drawn["p00"][at]
    drawn["p00"][at] = (offered, accepted + 1, accepted + 2)
    with pytest.raises(AssertionError):
        assert_same(sums, drawn, GAMMA, set())


def test_two_engines_in_one_file_are_refused(tmp_path):
    lines = [logs.aiperf("a", [(3, 1, 2)], 3), logs.aiperf("b", [(3, 1, 2)], 3, engine="sglang")]
    with pytest.raises(UserError, match="x.jsonl:2: the engine is sglang, but vllm in .*jsonl:1"):
        import_requests("aiperf", [logs.jsonl(tmp_path / "x.jsonl", lines)], Options())


def test_the_engines_own_length_counts_what_the_engine_counts_whatever_is_asserted(tmp_path):
    rounds = [(3, 2, 3), (1, 1, 2), (0, 0, 1)]
    lines = [logs.vllm("a", rounds, 3)]
    stats = lines[0]["response"]["metrics"]["speculative_decoding"]
    stats |= logs.vllm_stats([(k or 1, a, e) for k, a, e in rounds], 3)
    stats |= {"per_step_drafted": [3, 1, 0], "num_draft_tokens": 4}
    stats["num_spec_steps"] = 3
    path = logs.jsonl(tmp_path / "x.jsonl", lines)
    for options in (Options(), ASSERTED):
        above, below = imported(path, "vllm", options).values[ENGINE_LENGTH, None]
        assert (above[0], below[0]) == (6, 3), options
    # Our own lines list rounds that no engine counts.
    path = logs.jsonl(tmp_path / "y.jsonl", [logs.neutral("a", rounds, 3)])
    above, below = imported(path, "jsonl").values[ENGINE_LENGTH, None]
    assert (above[0], below[0]) == (5, 2)


def test_a_request_without_speculation_is_left_out_and_stops_nothing(tmp_path):
    idle = logs.vllm("b", [], 3, num_spec_tokens=0, acceptance_histogram=[0])
    lines = [idle, logs.vllm("a", [(3, 1, 2)], 3)]
    found = import_requests("vllm", [logs.jsonl(tmp_path / "x.jsonl", lines)], Options())
    assert [row["prompt_id"] for row in found.rows] == ["a"]
    assert found.left_out == {"num_spec_tokens is 0: nothing was drafted": 1}
