"""Score live texts under the law they were decoded with: what both models thought of each token."""

from __future__ import annotations

import argparse

from draftscope.errors import command, json_argument

COLUMNS = ("token_ids", "log_p", "log_q", "top2_gap", "draft_argmax", "target_disagreement")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--settings",
        required=True,
        help="JSON or a JSON file: law, allow_special_differences, draft_dtype (null: the "
        "target's), position_chunk, device, dtype, attention, threads",
    )
    parser.add_argument("--target", required=True, help="model.json of the target")
    parser.add_argument("--draft", required=True, help="model.json of the draft, a model")
    parser.add_argument("--trajectories", required=True, help="Parquet, schema live_trajectories")
    parser.add_argument("--output", required=True, help="Parquet, schema live_scores")
    arguments = parser.parse_args()
    settings = json_argument(arguments.settings)

    from draftscope import runtime
    from draftscope.values import decoding_law, whole_numbers

    whole_numbers(settings, threads=1, position_chunk=1)
    decoding_law(settings)
    runtime.prepare(settings["threads"])
    import draftscope.lossless.live_schemas  # noqa: F401
    from draftscope import models, records
    from draftscope.lossless.decoding import distinct_texts
    from draftscope.models.vocabulary import align
    from draftscope.scoring import DECODING, score

    table = records.read(arguments.trajectories, "live_trajectories")
    live = table.to_pylist()
    where, attention = settings["device"], settings["attention"]
    target = models.load(arguments.target, where, settings["dtype"], attention)
    draft = models.load(
        arguments.draft, where, settings["draft_dtype"] or settings["dtype"], attention
    )
    alignment = align(target, draft, settings["allow_special_differences"])
    distinct = distinct_texts(live)
    scored = score(
        target,
        [(draft, alignment)],
        [row for row, _ in distinct],
        {DECODING: settings["law"]},
        settings["position_chunk"],
    )
    rows = []
    for (_, places), values in zip(distinct, scored, strict=True):
        for place in places:
            keys = {name: live[place][name] for name in ("prompt_id", "sample", "draft_length")}
            rows.append(keys | {name: values[name] for name in COLUMNS})
    records.write(
        arguments.output,
        rows,
        "live_scores",
        records.condition(table),
        {"device": str(target.device), "distinct_texts": len(distinct)},
    )


if __name__ == "__main__":
    command(main)
