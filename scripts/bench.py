"""Measure the speed budgets as ratios and write them as JSON: `make bench`.

Names: replay_vs_assisted, live_vs_assisted_smollm2, live_vs_assisted_tiny, scoring_vs_forward.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from pathlib import Path

from draftscope.errors import UserError, command

# name -> bound, and whether the value must be at least (True) or at most the bound.
BOUNDS = {
    "scoring_vs_forward": (1.25, False),
    "live_vs_assisted_tiny": (2.0, True),
    "live_vs_assisted_smollm2": (1.1, True),
    "replay_vs_assisted": (50.0, True),
}
BITS = (3, 4, 8)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", required=True, help="model.json of the target")
    parser.add_argument("--prompts", required=True, help="Parquet of schema prompts")
    parser.add_argument("--output", required=True, help="JSON to write")
    parser.add_argument("--only", nargs="+", choices=list(BOUNDS), default=list(BOUNDS))
    parser.add_argument("--count", type=int, default=8, help="prompts of the scoring comparison")
    parser.add_argument("--tokens", type=int, default=64, help="tokens of each text")
    # Scoring reads each prompt once a model, replay never again: long texts are what it is for.
    parser.add_argument(
        "--replay-count", type=int, default=4, help="prompts of the replay comparison"
    )
    parser.add_argument(
        "--replay-tokens", type=int, default=256, help="tokens of a text of the replay comparison"
    )
    parser.add_argument("--draft-lengths", type=int, nargs="+", default=[2, 4, 6, 8])
    parser.add_argument("--draft-length", type=int, default=5, help="of the live comparisons")
    parser.add_argument("--live-count", type=int, default=4, help="prompts of the live comparison")
    parser.add_argument("--repeats", type=int, default=3, help="turns of both sides")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    # More threads than free cores slow one side of a ratio more than the other.
    parser.add_argument("--threads", type=int, default=1, help="of both sides")
    arguments = parser.parse_args()

    from draftscope import runtime
    from draftscope.threads import share_cores

    share_cores()
    runtime.prepare(arguments.threads)
    import torch
    from draftscope import benchmarks, models, records
    from draftscope.models.vocabulary import align
    from draftscope.prompts import render
    from draftscope.tiny_models import tiny_pair

    rows = records.read(arguments.prompts, "prompts").to_pylist()[: arguments.count]
    if len(rows) < arguments.count:
        raise UserError(f"{arguments.prompts} holds {len(rows)} prompts, not {arguments.count}")
    target = models.load(arguments.target, "auto", arguments.dtype)
    drafts = copies(target.settings, arguments.dtype)
    pairs = [(draft, align(target, draft)) for draft in drafts]
    prompts = [(row["prompt_id"], render(target, row, {"chat_template": True})) for row in rows]
    tiny, tiny_draft, tiny_prompts = tiny_pair(1000, layers=2, width=64, prompts=4)

    def scoring() -> benchmarks.Comparison:
        texts = benchmarks.generate(
            target, prompts, law=benchmarks.GREEDY, budget=arguments.tokens, run_seed=0,
            batch_size=len(prompts), samples=1, domain="bench",
        )  # fmt: skip
        return benchmarks.scoring_against_forward(target, pairs[0], texts, arguments.repeats)

    def on_tiny_models() -> benchmarks.Comparison:
        # Products this small gain nothing from a second thread and lose much where cores are busy.
        torch.set_num_threads(1)
        found = benchmarks.live_against_assisted(
            tiny, tiny_draft, tiny_prompts, 5, 64, max(5, arguments.repeats)
        )
        torch.set_num_threads(arguments.threads)
        return found

    measure = {
        "scoring_vs_forward": scoring,
        "live_vs_assisted_tiny": on_tiny_models,
        "live_vs_assisted_smollm2": lambda: benchmarks.live_against_assisted(
            target, drafts[0], prompts[: arguments.live_count], arguments.draft_length,
            arguments.tokens, arguments.repeats,
        ),
        "replay_vs_assisted": lambda: benchmarks.replay_against_assisted(
            target, pairs, prompts[: arguments.replay_count], arguments.draft_lengths,
            arguments.replay_tokens, arguments.replay_count,
        ),
    }  # fmt: skip
    found = []
    for name in [name for name in BOUNDS if name in arguments.only]:
        comparison = measure[name]()
        bound, at_least = BOUNDS[name]
        # Where less is better, the budget is our time over theirs.
        value = comparison.ratio if at_least else 1 / comparison.ratio
        holds = value >= bound if at_least else value <= bound
        found.append(
            {
                "name": name,
                "value": round(value, 3),
                "bound": bound,
                "holds": holds,
                "unit": "x",
                "machine": machine(str(target.device), 1 if "tiny" in name else arguments.threads),
                "command": " ".join(["python", *sys.argv]),
                "detail": f"{comparison.detail}; {arguments.dtype}",
            }
        )
        sign = "at least" if at_least else "at most"
        verdict = "holds" if holds else "DOES NOT HOLD"
        print(f"{name}: {value:.2f}x ({sign} {bound}x: {verdict}); {comparison.detail}", flush=True)
    records.write_json(arguments.output, merged(Path(arguments.output), found))


def merged(path: Path, found: list[dict]) -> list[dict]:
    """What was measured now, and of an earlier file what was not, in the order of `BOUNDS`."""
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    rows = {row["name"]: row for row in (*before, *found)}
    return [rows[name] for name in BOUNDS if name in rows]


def copies(base: dict, dtype: str) -> list:
    """Copies of a model with rounded weights, the drafts of the comparison."""
    from draftscope import models

    drafts = []
    with tempfile.TemporaryDirectory() as folder:
        for bits in BITS:
            name = f"{base['name']}-{bits}bit"
            row = {"kind": "round_to_nearest", "base": base["name"]}
            row |= {"bits": bits, "group_size": 64}
            record = models.resolve(name, row, Path(folder) / name, base)
            drafts.append(models.load(record, "auto", dtype))
    return drafts


def machine(device: str, threads: int) -> str:
    """Processor, cores, threads and device, in words."""
    name = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    except OSError:
        pass
    return f"{name}, {os.cpu_count()} cores, {threads} threads, {device}"


if __name__ == "__main__":
    command(main)
