"""Measure the budgets of speed and size and write them as JSON: `make bench`.

Ratios against transformers: replay_vs_assisted, live_vs_assisted_smollm2, live_vs_assisted_tiny,
scoring_vs_forward. Without a model: analysis_paper_size_s and analysis_paper_size_gib, the analysis
of a synthetic run of 1.78 million rounds; dry_run_10k_s, the plan of 10,000 jobs;
certificates_63k_s and certificates_63k_gib, 63,000 positions under nine criteria.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from draftscope.errors import UserError, command

# name -> bound, whether the value must be at least (True) or at most the bound, and its unit.
BOUNDS = {
    "scoring_vs_forward": (1.25, False, "x"),
    "live_vs_assisted_tiny": (2.0, True, "x"),
    "live_vs_assisted_smollm2": (1.1, True, "x"),
    "replay_vs_assisted": (50.0, True, "x"),
    "analysis_paper_size_s": (60.0, False, "s"),
    "analysis_paper_size_gib": (2.0, False, "GiB"),
    "dry_run_10k_s": (30.0, False, "s"),
    "certificates_63k_s": (600.0, False, "s"),
    "certificates_63k_gib": (2.0, False, "GiB"),
}
WITHOUT_MODEL = [name for name, (*_, unit) in BOUNDS.items() if unit != "x"]
PAPER_PROMPTS = 500  # of each mode: 2,000 trajectories, 1.78 million rounds
Found = Iterator[tuple[str, float, str, str]]  # name, value, detail, machine
BITS = (3, 4, 8)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", help="model.json of the target, for the ratios")
    parser.add_argument("--prompts", help="Parquet of schema prompts, for the ratios")
    parser.add_argument("--output", required=True, help="JSON to write")
    parser.add_argument("--only", nargs="+", choices=list(BOUNDS), default=list(BOUNDS))
    parser.add_argument("--count", type=int, default=8, help="prompts of the scoring comparison")
    parser.add_argument("--tokens", type=int, default=64, help="tokens of each text")
    # Scoring reads each prompt once a model, replay never again: long texts are what it is for.
    parser.add_argument(
        "--replay-count", type=int, default=6, help="prompts of the replay comparison"
    )
    parser.add_argument(
        "--replay-tokens", type=int, default=96, help="tokens of a text of the replay comparison"
    )
    parser.add_argument("--draft-lengths", type=int, nargs="+", default=[3, 5, 8, 12])
    parser.add_argument("--draft-length", type=int, default=5, help="of the live comparisons")
    parser.add_argument("--live-count", type=int, default=4, help="prompts of the live comparison")
    parser.add_argument("--repeats", type=int, default=3, help="turns of both sides")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    # More threads than free cores slow one side of a ratio more than the other.
    parser.add_argument("--threads", type=int, default=1, help="of both sides")
    arguments = parser.parse_args()

    wanted = [name for name in BOUNDS if name in arguments.only]
    ratios = [name for name in wanted if name not in WITHOUT_MODEL]
    if ratios and not (arguments.target and arguments.prompts):
        raise UserError(f"{ratios[0]} compares on a model: give --target and --prompts")

    from draftscope import records

    output = Path(arguments.output)
    sources = [sizes([name for name in wanted if name in WITHOUT_MODEL])]
    if ratios:
        sources.append(against_transformers(arguments, ratios))
    for name, value, detail, where in (row for rows in sources for row in rows):
        row = judged(name, value, detail, where)
        records.write_json(output, merged(output, [row]))


def judged(name: str, value: float, detail: str, where: str) -> dict:
    """A measured value beside its bound; says it."""
    bound, at_least, unit = BOUNDS[name]
    holds = value >= bound if at_least else value <= bound
    sign = "at least" if at_least else "at most"
    verdict = "holds" if holds else "DOES NOT HOLD"
    print(f"{name}: {value:.2f} {unit} ({sign} {bound}: {verdict}); {detail}", flush=True)
    return {
        "name": name,
        "value": round(value, 3),
        "bound": bound,
        "holds": holds,
        "unit": unit,
        "machine": where,
        "command": " ".join(["python", *sys.argv]),
        "detail": detail,
    }


def sizes(names: Sequence[str]) -> Found:
    """What needs no model: the analysis at the published size, and a large plan."""
    from draftscope.machine import describe
    from draftscope.scale import plan, points

    root = Path(__file__).resolve().parents[1]
    with tempfile.TemporaryDirectory() as scratch:
        if any(name.startswith("analysis") for name in names):
            found = points.analysis(PAPER_PROMPTS, Path(scratch) / "run")
            steps = ", ".join(
                f"{key} {cost['wall_s']:.1f} s" for key, cost in found["steps"].items()
            )
            detail = (
                f"{found['trajectories']:,} trajectories, {found['rounds']:,} rounds, "
                f"{found['positions']:,} positions, synthetic; {found['wall_s']} s ({steps}), "
                f"{found['cpu_s']} s of CPU, {found['peak_gib']} GiB in the largest process"
            )
            for name, key in (
                ("analysis_paper_size_s", "wall_s"),
                ("analysis_paper_size_gib", "peak_gib"),
            ):
                if name in names:
                    yield name, found[key], detail, describe()
        if "dry_run_10k_s" in names:
            found = points.planning(plan.TEN_THOUSAND, Path(scratch) / "plan", root)
            detail = (
                f"snakemake -n of {found['jobs']:,} jobs; {found['cpu_s']} s of CPU, "
                f"{found['peak_gib']} GiB"
            )
            yield "dry_run_10k_s", found["wall_s"], detail, describe()
    if any(name.startswith("certificates") for name in names):
        yield from certificates(names)


def certificates(names: Sequence[str]) -> Found:
    """Exact certificates of streamed logits of a wide vocabulary, by a process of its own."""
    from draftscope.machine import describe
    from draftscope.scale.meter import measure

    threads = 2
    script = Path(__file__).with_name("bench_certificates.py")
    cost = measure([sys.executable, str(script), "--threads", str(threads)])
    found = json.loads(cost.printed.splitlines()[-1])
    detail = (
        f"{found['positions']:,} positions x {found['vocabulary']:,} tokens, {found['criteria']} "
        f"criteria, {found['wall_s']} s, {found['cpu_s']} s of CPU with the making of the logits "
        f"({found['making_s']} s on the clock), {cost.peak_gib:.2f} GiB"
    )
    for name, value in (
        ("certificates_63k_s", found["wall_s"]),
        ("certificates_63k_gib", cost.peak_gib),
    ):
        if name in names:
            yield name, value, detail, describe("cpu", threads)


def against_transformers(arguments: argparse.Namespace, names: Sequence[str]) -> Found:
    """Ratios of transformers' time and ours, on the given model."""
    from draftscope import runtime

    runtime.prepare(arguments.threads)
    import torch
    from draftscope import benchmarks, models, records
    from draftscope.machine import describe
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
    for name in names:
        comparison = measure[name]()
        # Where less is better, the budget is our time over theirs.
        value = comparison.ratio if BOUNDS[name][1] else 1 / comparison.ratio
        where = describe(str(target.device), 1 if "tiny" in name else arguments.threads)
        yield name, value, f"{comparison.detail}; {arguments.dtype}", where


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


if __name__ == "__main__":
    command(main)
