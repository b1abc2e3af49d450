"""Statistics of a study of block drafters: lengths, differences, profiles, speed, probes of rejections.

The paths stand in the order of the sources in the settings: one --rounds file each, with one file of
--loops (of the text that was replayed) or of --texts (that a live loop emitted). Timings and probes stand
in the order of theirs.
"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from draftscope.errors import UserError, command, json_argument

log = logging.getLogger("block_statistics")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--settings",
        required=True,
        help="JSON or a JSON file: sources, timed and probed (each arm, pair, training, domain, mode, "
        "temperature), draft_length, references, baselines (labels), paired, effect, loops "
        "(max_period, min_repeats, min_span), confidence",
    )
    parser.add_argument("--rounds", required=True, nargs="+", help="one file a source")
    parser.add_argument(
        "--loops", nargs="*", default=[], help="one file a source that was replayed"
    )
    parser.add_argument("--texts", nargs="*", default=[], help="one file a source decoded live")
    parser.add_argument("--timings", nargs="*", default=[], help="schema live_timings")
    parser.add_argument("--probes", nargs="*", default=[], help="schema probes")
    parser.add_argument("--folder", required=True, help="where the Parquet files go")
    arguments = parser.parse_args()
    settings = json_argument(arguments.settings)

    import draftscope.block_study.schemas
    import draftscope.block_training.schemas
    import draftscope.live.tables
    import draftscope.lossless.live_schemas  # noqa: F401
    from draftscope import records
    from draftscope.block_study import counts, lengths, positions, probes, speed

    sources, texts = settings["sources"], arguments.loops or arguments.texts
    if arguments.loops and arguments.texts:
        raise UserError("--loops and --texts: give those of the text that the rounds are of")
    for name, rows, paths in (
        ("--rounds", sources, arguments.rounds),
        ("--loops or --texts", sources, texts),
        ("--timings", settings["timed"], arguments.timings),
        ("--probes", settings["probed"], arguments.probes),
    ):
        if len(rows) != len(paths):
            raise UserError(f"{name}: {len(rows)} sources need as many files, not {len(paths)}")
    kind = "loops" if arguments.loops else "texts"
    design = lengths.Design(
        settings["draft_length"],
        settings["references"],
        settings["baselines"],
        settings["paired"],
        settings["confidence"],
        settings["effect"],
    )
    table = counts.table(
        [
            counts.Source(**row, rounds=rounds, **{kind: text})
            for row, rounds, text in zip(sources, arguments.rounds, texts, strict=True)
        ],
        design.draft_length,
        settings["loops"],
    )
    found = lengths.study(table, design) | {"positions": positions.study(table, design)}
    if arguments.timings:
        keys = ("arm", "training", "domain", "mode", "temperature")
        timed = [
            speed.Timed(**{key: row[key] for key in keys}, timings=path)
            for row, path in zip(settings["timed"], arguments.timings, strict=True)
        ]
        looped = table[table["looped"]]
        problems = set(zip(looped["domain"], looped["mode"], looped["prompt_id"], strict=True))
        found |= speed.study(speed.table(timed, design.draft_length, problems), design)
    if arguments.probes:
        keys = ("arm", "training", "domain", "mode", "temperature")
        probed = [
            probes.Probed(**{key: row[key] for key in keys}, probes=path)
            for row, path in zip(settings["probed"], arguments.probes, strict=True)
        ]
        found["probes"] = probes.study(probes.table(probed), design)
    condition = records.common_condition(arguments.rounds)
    plain = ("sources", "timed", "probed")
    condition |= {"statistics": {key: settings[key] for key in settings if key not in plain}}
    for name, rows in found.items():
        schema = "retrace_probes" if name == "probes" else f"block_{name}"
        records.write(Path(arguments.folder) / f"{name}.parquet", rows, schema, condition)
        log.info("%s: %d rows", schema, len(rows))


if __name__ == "__main__":
    command(main)
