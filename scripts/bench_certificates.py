"""Certify synthetic logits as wide as a real vocabulary, and say how long it took and how much memory.

Prints JSON: positions, vocabulary, criteria, wall_s, making_s (of the logits, not counted in wall_s),
cpu_s, peak_gib of the process, mean finite certificates, and the share that is infinite.
"""

from __future__ import annotations

import argparse
import json
import resource
import time

from draftscope.errors import command

NINE = (
    {"kind": "strict"},
    {"kind": "additive", "t": 0.1},
    {"kind": "additive", "t": 0.3},
    {"kind": "multiplicative", "a": 0.5},
    {"kind": "multiplicative", "a": 0.1},
    {"kind": "typical", "epsilon": 0.1, "delta": 0.09},
    {"kind": "tree", "m": 2},
    {"kind": "tree", "m": 4},
    {"kind": "tree", "m": 8},
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--positions", type=int, default=63_000)
    parser.add_argument("--vocabulary", type=int, default=151_936)
    parser.add_argument(
        "--block", type=int, default=64, help="positions whose logits come together"
    )
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()

    from draftscope import runtime

    runtime.prepare(arguments.threads)
    import numpy as np
    import torch
    from draftscope.certificate_study.streaming import DEPTH, certify
    from draftscope.criteria import Criterion

    criteria = [Criterion.of(row) for row in NINE]
    spent = {"making": 0.0}

    def logits():
        """As those of a language model: a flat tail, a few leaders, sure and unsure positions."""
        generator = torch.Generator().manual_seed(0)
        for start in range(0, arguments.positions, arguments.block):
            began = time.perf_counter()
            n = min(arguments.block, arguments.positions - start)
            block = torch.randn(n, arguments.vocabulary, generator=generator).mul_(2.0)
            sure = torch.rand(n, 1, generator=generator).mul_(14.0)
            leaders = torch.randint(arguments.vocabulary, (n, 8), generator=generator)
            lead = 4.0 + sure * torch.rand(n, 8, generator=generator) ** 2 + sure / 2
            block.scatter_add_(1, leaders, lead)
            spent["making"] += time.perf_counter() - began
            yield block

    began, cpu = time.perf_counter(), time.process_time()
    values = np.concatenate(list(certify(logits(), criteria)))
    wall = time.perf_counter() - began - spent["making"]
    finite = np.isfinite(values)
    found = {
        "positions": len(values),
        "vocabulary": arguments.vocabulary,
        "criteria": len(criteria),
        "depth": DEPTH,
        "threads": arguments.threads,
        "wall_s": round(wall, 2),
        "making_s": round(spent["making"], 2),
        "cpu_s": round(time.process_time() - cpu, 2),
        "peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 3),
        "mean": {
            criterion.label: round(float(values[finite[:, i], i].mean()), 4)
            for i, criterion in enumerate(criteria)
        },
        "infinite": round(float((~finite).mean()), 4),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    command(main)
