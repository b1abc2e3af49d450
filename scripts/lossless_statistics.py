"""Speed, acceptance by position, phases, verify latency and batches of the live loop.

The files stand in the order of the configurations.
"""

from __future__ import annotations

import argparse
import logging

from draftscope.errors import UserError, command, json_argument

log = logging.getLogger("lossless_statistics")
FILES = ("speed", "positions", "phases", "latency", "batch")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--settings",
        required=True,
        help="JSON or a JSON file: configurations (objects with pair, domain, mode, published), "
        "batch (pair, domain, mode), confidence, resamples, method, seed",
    )
    parser.add_argument("--timings", nargs="+", required=True, help="one file a configuration")
    parser.add_argument("--rounds", nargs="+", required=True, help="one file a configuration")
    parser.add_argument("--passes", nargs="+", required=True, help="schema verify_latency")
    parser.add_argument("--batches", required=True, help="schema live_batches")
    for name in FILES:
        parser.add_argument(f"--{name}", required=True, help=f"output, schema lossless_{name}")
    arguments = parser.parse_args()

    import draftscope.live.tables
    import draftscope.lossless.schemas  # noqa: F401
    from draftscope import records
    from draftscope.lossless import batch_speed, breakdown, speed

    settings = json_argument(arguments.settings)
    named, batch = settings.pop("configurations"), settings.pop("batch")
    chosen = speed.Settings(
        **{key: settings[key] for key in ("confidence", "resamples", "method", "seed")}
    )
    for option in ("timings", "rounds"):
        if len(getattr(arguments, option)) != len(named):
            raise UserError(
                f"--{option}: {len(getattr(arguments, option))} files for {len(named)} "
                "configurations"
            )
    rows: dict[str, list] = {name: [] for name in FILES}
    conditions = {}
    for row, timings, rounds in zip(named, arguments.timings, arguments.rounds, strict=True):
        conditions[timings] = records.condition(timings)
        records.require_same_condition(
            {timings: conditions[timings], rounds: records.condition(rounds)}
        )
        for key in ("domain", "mode"):
            if conditions[timings][key] != row[key]:
                raise UserError(
                    f"{timings} was measured with {key} {conditions[timings][key]}, not {row[key]}"
                )
        configuration = speed.Configuration(
            row["pair"],
            row["domain"],
            row["mode"],
            row["published"],
            records.read(timings, "live_timings").to_pandas(),
            records.read(rounds, "rounds"),
            records.provenance(timings).get("peak_memory_gb"),
        )
        rows["speed"] += speed.speed_rows(configuration, chosen)
        rows["positions"] += breakdown.position_rows(configuration, chosen)
        rows["phases"] += breakdown.phase_rows(configuration)
    passes = records.read_many(arguments.passes, "verify_latency", may_differ=_OF_A_TARGET)
    rows["latency"] = breakdown.latency_rows(passes.to_pandas())
    times = records.read(arguments.batches, "live_batches").to_pandas()
    rows["batch"] = batch_speed.batch_rows(times, batch, chosen)
    shared = dict.fromkeys(FILES, records.common_condition(list(conditions)))
    shared["batch"] = records.condition(arguments.batches)
    for name in FILES:
        schema = f"lossless_{name}"
        records.write(
            getattr(arguments, name), rows[name], schema, shared[name] | {"statistics": settings}
        )
        log.info("%s: %d rows", schema, len(rows[name]))


_OF_A_TARGET = (
    "target",
    "target_revision",
    "quantization",
    "kernel",
    "tokenizer_sha256",
    "dtype",
    "attention",  # a setting of the run, but llama.cpp has its own
)

if __name__ == "__main__":
    command(main)
