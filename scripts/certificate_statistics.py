"""Statistics of the certificates study: certificates, certified runs, real drafts, relaxed rules.

Writes one file a table into --folder, named after it. Fails where a certified proposal was
rejected, which the theorems rule out.
"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from draftscope.errors import UserError, command, json_argument

log = logging.getLogger("certificate_statistics")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--settings",
        required=True,
        help="JSON or a JSON file: criteria, all (mappings with kind and parameters; of the main "
        "tables, and of all tables), kl, cap, tolerance, pairs (name -> target, draft), relaxed "
        "(pair, draft_length, rules), options (domain -> task options), equivalence (trials, "
        "level), confidence, resamples, method, seed",
    )
    parser.add_argument("--targets", nargs="+", required=True, help="schema certificate_targets")
    parser.add_argument("--drafts", nargs="+", required=True, help="schema certificate_drafts")
    parser.add_argument("--texts", nargs="+", required=True, help="schema certificate_texts")
    parser.add_argument("--rounds", nargs="+", required=True, help="schema rounds, of --texts")
    parser.add_argument("--prompts", nargs="+", required=True, help="schema prompts, of --texts")
    parser.add_argument("--folder", required=True, help="folder to write the tables into")
    arguments = parser.parse_args()
    settings = json_argument(arguments.settings)

    import draftscope.lossless.schemas  # noqa: F401  (registers the schema of equivalence tests)
    from draftscope import records
    from draftscope.certificate_study import draft_side, relaxed, schemas, target_side
    from draftscope.certificate_study import log as recorded
    from draftscope.certificate_study.resampling import Settings
    from draftscope.criteria import Criterion

    def criteria(rows: list) -> list[Criterion]:
        try:
            return [Criterion.of(row) for row in rows]
        except ValueError as error:
            raise UserError(f"--settings: criteria: {error}") from None

    chosen = Settings(
        **{key: settings[key] for key in ("confidence", "resamples", "method", "seed")}
    )
    study = {key: criteria(settings[key]) for key in ("criteria", "all")}
    study |= {key: settings[key] for key in ("kl", "cap")}
    logs, condition = recorded.load(arguments.targets, arguments.drafts)
    found: dict[str, list] = {name: [] for name in schemas.FILES}
    for one in logs:
        log.info("%s on %s: %d positions", one.target, one.domain, len(one))
        for name, rows in target_side.every(one, study, chosen).items():
            found[name] += rows
    found["drafts"], found["bins"] = draft_side.drafts(
        logs, settings["pairs"], study["criteria"], settings["tolerance"], chosen
    )
    own = settings["relaxed"]
    rules = criteria(own["rules"])
    models = settings["pairs"][own["pair"]]
    prompts = [
        row for path in arguments.prompts for row in records.read(path, "prompts").to_pylist()
    ]
    for texts, rounds in zip(arguments.texts, arguments.rounds, strict=True):
        table = records.read(texts, "certificate_texts")
        domain = records.condition(table)["domain"]
        found["relaxed"] += relaxed.decoded(
            own["pair"],
            domain,
            table.to_pylist(),
            records.read(rounds, "rounds").to_pylist(),
            [row for row in prompts if row["domain"] == domain],
            settings["options"].get(domain) or {},
            chosen,
        )
    found["relaxed"] += relaxed.replayed(
        logs, own["pair"], models, rules, own["draft_length"], chosen
    )
    found["equivalence"] = relaxed.equivalence(rules, **settings["equivalence"], seed=chosen.seed)
    condition |= {"statistics": settings}
    for name, rows in found.items():
        path = Path(arguments.folder) / f"{name}.parquet"
        schema = "lossless_equivalence" if name == "equivalence" else f"certificates_{name}"
        records.write(path, rows, schema, condition)
        log.info("%s: %d rows", path.name, len(rows))


if __name__ == "__main__":
    command(main)
