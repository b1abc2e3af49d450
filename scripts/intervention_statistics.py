"""Statistics of the interventions: lengths, paired differences, diagnostics, accuracy.

The paths stand in the order of the sources in the settings: one --rounds, --expected and --loops file
each. Scores and token types stand mode by mode.
"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from draftscope.errors import UserError, command, json_argument

log = logging.getLogger("intervention_statistics")
FILES = ("lengths", "differences", "diagnostics", "accuracy")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--settings",
        required=True,
        help="JSON or a JSON file: sources (arm, pair, domain, mode, temperature), drafts (by arm), "
        "score_files (in each mode), draft_length, control, diagnostic_prompts, entropy_bins, seed, "
        "confidence, resamples, method",
    )
    for name in ("rounds", "expected", "loops"):
        parser.add_argument(f"--{name}", required=True, nargs="+", help="one file a source")
    parser.add_argument("--scores", required=True, nargs="+", help="of all arms, mode by mode")
    parser.add_argument("--types", required=True, nargs="+", help="schema token_types, a mode each")
    parser.add_argument(
        "--prompts", required=True, nargs="+", help="prompts of the domain, in order"
    )
    parser.add_argument("--answers", required=True, help="schema intervention_answers")
    parser.add_argument("--folder", required=True, help="where the Parquet files go")
    arguments = parser.parse_args()
    settings = json_argument(arguments.settings)

    import draftscope.interventions.schemas  # noqa: F401
    from draftscope import records
    from draftscope.interventions import accuracy, diagnostics, lengths
    from draftscope.interventions.lengths import Protocol, Source

    given = [arguments.rounds, arguments.expected, arguments.loops]
    if any(len(paths) != len(settings["sources"]) for paths in given):
        raise UserError(f"{len(settings['sources'])} sources need as many files of each kind")
    sources = [
        Source(**row, rounds=rounds, expected=expected, loops=loops)
        for row, rounds, expected, loops in zip(settings["sources"], *given, strict=True)
    ]
    protocol = Protocol(
        **{key: settings[key] for key in ("confidence", "resamples", "method", "seed")}
    )
    rows = dict(zip(
        FILES[:2], lengths.study(sources, settings["draft_length"], settings["control"], protocol),
        strict=True,
    ))  # fmt: skip
    names = [
        name
        for path in arguments.prompts
        for name in records.read(path, "prompts").column("prompt_id").to_pylist()
    ][: settings["diagnostic_prompts"]]
    modes = {source.mode: source for source in sources}
    rows["diagnostics"] = []
    size = settings["score_files"]
    for number, (mode, source) in enumerate(modes.items()):
        texts = diagnostics.read(
            arguments.scores[number * size : (number + 1) * size],
            arguments.types[number],
            list(settings["drafts"].values()),
            names,
        )
        arms = {s.arm: (s.pair, settings["drafts"][s.arm]) for s in sources if s.mode == mode}
        key = {"domain": source.domain, "mode": mode, "decoding": source.decoding}
        rows["diagnostics"] += diagnostics.study(
            texts, arms, settings["control"], settings["entropy_bins"], key, protocol
        )
    answers = records.read(arguments.answers, "intervention_answers").to_pylist()
    temperatures = {mode: source.temperature for mode, source in modes.items()}
    rows["accuracy"] = accuracy.study(
        answers, settings["control"], temperatures, settings["confidence"]
    )
    condition = records.common_condition(arguments.rounds) | {
        "statistics": {key: value for key, value in settings.items() if key != "sources"}
    }
    for name in FILES:
        schema = f"intervention_{name}"
        records.write(Path(arguments.folder) / f"{name}.parquet", rows[name], schema, condition)
        log.info("%s: %d rows", schema, len(rows[name]))


if __name__ == "__main__":
    command(main)
