"""The same rounds as each serving engine would report them, after its public documentation."""

import json

import numpy as np


def draw(prompts=8, rounds=30, gamma=4, seed=0, rate=0.7, spread=0.15, constant=False):
    """prompt -> [(offered, accepted, emitted)], with cut rounds and none without a draft."""
    rng, drawn = np.random.default_rng(seed), {}
    for prompt in range(prompts):
        own = float(np.clip(rate + rng.normal(0, spread), 0.05, 0.95))
        lines = []
        for number in range(int(rng.integers(rounds // 2, rounds + 1))):
            offered = (
                gamma if constant else int(rng.integers(1, gamma + 1)) if number % 5 == 4 else gamma
            )
            accepted = int(np.cumprod(rng.random(offered) < own).sum())
            lines.append((offered, accepted, accepted + 1))
        drawn[f"p{prompt:02d}"] = lines
    return drawn


def table(drawn, gamma, **columns):
    """Columns of schema rounds."""
    rows = [(prompt, *one) for prompt, lines in drawn.items() for one in lines]
    prompts, *counts = zip(*rows, strict=True)
    names = ("offered", "accepted", "emitted")
    return {
        "prompt_id": np.array(prompts),
        "draft_length": np.full(len(rows), gamma),
        **dict(zip(names, map(np.array, counts), strict=True)),
        **columns,
    }


def round_rows(drawn, gamma, rule="greedy", source="live"):
    """Rows of schema rounds."""
    rows = []
    for prompt, lines in drawn.items():
        start = 0
        for number, (offered, accepted, emitted) in enumerate(lines):
            rows.append(
                {"prompt_id": prompt, "sample": 0, "draft_length": gamma, "source": source,
                 "rule": rule, "lossless": True, "round": number, "start": start,
                 "offered": offered, "accepted": accepted, "emitted": emitted,
                 "end": "continue" if number + 1 < len(lines) else "budget"}
            )  # fmt: skip
            start += emitted
    return rows


def histogram(lines, size):
    counts = [0] * size
    for _, accepted, _ in lines:
        counts[accepted] += 1
    return counts


def vllm_stats(lines, gamma, level="detailed"):
    """metrics.speculative_decoding of one response; levels detailed, joint and summary."""
    offered, accepted = sum(k for k, _, _ in lines), sum(a for _, a, _ in lines)
    stats = {
        "mean_acceptance_length": 1 + accepted / len(lines) if lines else 1.0,
        "draft_acceptance_rate": accepted / offered if offered else 0.0,
        "acceptance_histogram": histogram(lines, gamma + 1),
        "num_spec_steps": len(lines),
        "num_accepted_draft_tokens": accepted,
        "num_draft_tokens": offered,
        "num_spec_tokens": gamma,
    }
    if level == "joint":
        stats["acceptance_histogram_by_draft_length"] = {
            str(k): histogram([one for one in lines if one[0] == k], k + 1)
            for k in sorted({k for k, _, _ in lines})
        }
    if level == "detailed":
        stats["per_step_accepted"] = [a for _, a, _ in lines]
        stats["per_step_drafted"] = [k for k, _, _ in lines]
    return stats


def vllm(prompt, lines, gamma, level="detailed", **changes):
    """A chat completion beside the prompt's name."""
    return {
        "prompt_id": prompt,
        "response": {
            "id": f"chatcmpl-{prompt}",
            "object": "chat.completion",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "x"}}],
            "usage": {"prompt_tokens": 5, "completion_tokens": 1 + sum(e for *_, e in lines)},
            "metrics": {"speculative_decoding": vllm_stats(lines, gamma, level) | changes},
        },
    }


def sglang(prompt, lines, gamma, **changes):
    """A native response; every step counts as a full one there."""
    meta = {
        "id": f"rid-{prompt}",
        "finish_reason": {"type": "length", "length": 64},
        "prompt_tokens": 5,
        "completion_tokens": 1 + sum(e for *_, e in lines),
        "spec_accept_rate": 0.5,
        "spec_accept_length": 2.0,
        "spec_num_correct_drafts": sum(a for _, a, _ in lines),
        "spec_num_proposed_drafts": gamma * len(lines),
        "spec_verify_ct": len(lines),
        "spec_correct_drafts_histogram": histogram(lines, gamma + 1),
    }
    return {"prompt_id": prompt, "text": "x", "output_ids": [1], "meta_info": meta | changes}


def aiperf(prompt, lines, gamma, engine="vllm", **changes):
    """A line of profile_export.jsonl; the histogram is sparse there."""
    stats = vllm_stats(lines, gamma, "summary")
    counts = stats["acceptance_histogram"]
    stats["acceptance_histogram"] = {str(j): n for j, n in enumerate(counts) if n}
    return {
        "metadata": {
            "session_num": 0,
            "x_request_id": f"request-{prompt}",
            "conversation_id": prompt,
            "turn_index": 0,
            "benchmark_phase": "profiling",
            "was_cancelled": False,
        },
        "metrics": {"output_sequence_length": {"value": 9, "unit": "tokens"}},
        "error": None,
        "spec_decode_acceptance": {"engine": engine, **stats} | changes,
    }


def neutral(prompt, lines, gamma, **changes):
    """A line of the engine-neutral format."""
    offered, accepted, emitted = (list(column) for column in zip(*lines, strict=True))
    return {
        "prompt_id": prompt,
        "draft_length": gamma,
        "offered": offered,
        "accepted": accepted,
        "emitted": emitted,
    } | changes


def counters(drawn, gamma, model="m", total="_total"):
    """The server's counters after these requests, as /metrics says them."""
    lines = [one for rounds in drawn.values() for one in rounds]
    labels = f'engine="0",model_name="{model}"'
    values = {
        "num_drafts": len(lines),
        "num_draft_tokens": sum(k for k, _, _ in lines),
        "num_accepted_tokens": sum(a for _, a, _ in lines),
    }
    text = ["# HELP vllm:spec_decode_num_drafts Number of drafts.", "# TYPE x counter"]
    for name, value in values.items():
        text.append(f"vllm:spec_decode_{name}{total}{{{labels}}} {float(value)}")
        text.append(f"vllm:spec_decode_{name}_created{{{labels}}} 1.756736798733569e+09")
    for place in range(gamma):
        count = sum(a > place for _, a, _ in lines)
        text.append(
            f"vllm:spec_decode_num_accepted_tokens_per_pos{total}"
            f'{{{labels},position="{place}"}} {float(count)}'
        )
    return "\n".join([*text, 'vllm:num_requests_running{engine="0"} 3.0', ""])


def jsonl(path, lines, end="\n"):
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts) + end, encoding="utf-8")
    return path
