"""Find the texts that end in a repetition: trajectories -> one row of schema loops each."""

from __future__ import annotations

import argparse
import json
import logging

from draftscope import records
from draftscope.checkpoints import load_tokenizer
from draftscope.errors import UserError, command, json_argument
from draftscope.loops import MAX_PERIOD, MIN_REPEATS, MIN_SPAN, loop_row
from draftscope.progress import progress
from draftscope.shards import require_complete

log = logging.getLogger("find_loops")
DEFAULTS = {"max_period": MAX_PERIOD, "min_repeats": MIN_REPEATS, "min_span": MIN_SPAN}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--settings",
        default="{}",
        help=f"JSON text or file: thresholds in tokens, by default {json.dumps(DEFAULTS)}",
    )
    parser.add_argument("--trajectories", nargs="+", required=True, help="the shards of a mode")
    parser.add_argument(
        "--prompts",
        nargs="+",
        help="Parquet of schema prompts, one file a shard of --trajectories in the same order: a shard "
        "that lacks a prompt is refused",
    )
    parser.add_argument("--model", required=True, help="model.json of the target, for its tokens")
    parser.add_argument("--output", required=True, help="loops file to write (Parquet)")
    arguments = parser.parse_args()

    settings = json_argument(arguments.settings)
    if not isinstance(settings, dict):
        raise UserError(f"--settings must be a JSON object, such as {json.dumps(DEFAULTS)}")
    unknown = sorted(set(settings) - set(DEFAULTS))
    if unknown:
        raise UserError(f"unknown loop setting {unknown[0]}; known are {', '.join(DEFAULTS)}")
    thresholds = DEFAULTS | settings

    if arguments.prompts:
        require_complete(arguments.trajectories, arguments.prompts)
    table = records.read_many(arguments.trajectories, "trajectories")
    columns = ["prompt_id", "sample", "status", "token_ids", "stop_reason", "stop_token_id"]
    texts = [row for row in table.select(columns).to_pylist() if row["status"] == "ok"]
    decode = Decoder(arguments.model)
    rows = []
    with progress(len(texts), "find loops", "text") as bar:
        for row in texts:
            rows.append(loop_row(row, decode, **thresholds))
            bar.update(1)
    condition = records.condition(table) | {"loop_settings": thresholds}
    records.write(arguments.output, rows, "loops", condition)
    log.info(
        "%d texts, %d end in a repetition, %d of them at the length limit",
        len(rows),
        sum(row["looped"] for row in rows),
        sum(row["loop_problem"] for row in rows),
    )


class Decoder:
    """The target's decode, special tokens included; no weights, and nothing before the first use.

    Most modes hold no loop at all, and then no tokenizer is loaded.
    """

    def __init__(self, model_json: str) -> None:
        self._model_json = model_json
        self._tokenizer = None

    def __call__(self, ids: list[int]) -> str:
        if self._tokenizer is None:
            self._tokenizer = load_tokenizer(self._model_json)
        return self._tokenizer.decode(
            ids, skip_special_tokens=False, clean_up_tokenization_spaces=False
        )


if __name__ == "__main__":
    command(main)
