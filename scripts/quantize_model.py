"""Quantize a model with GPTQ on training prompts, and write its record and files."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from draftscope.errors import UserError, command, json_argument

log = logging.getLogger("quantize_model")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", required=True, help="name of the model in the registry")
    parser.add_argument(
        "--settings",
        required=True,
        help="JSON or a JSON file: model (its registry row), templates (by domain: arguments of "
        "the chat template), threads",
    )
    parser.add_argument("--base", required=True, help="model.json of the model to quantize")
    parser.add_argument(
        "--calibration",
        required=True,
        nargs="+",
        help="training prompts, Parquet of schema prompts, one file a domain in their order",
    )
    parser.add_argument("--output", required=True, help="where model.json goes")
    arguments = parser.parse_args()
    settings = json_argument(arguments.settings)
    output = Path(arguments.output)
    if output.name != "model.json":
        raise UserError(f"--output must end in model.json, not {output.name}")

    from draftscope import runtime

    runtime.prepare(settings["threads"])
    from draftscope import models, records
    from draftscope.checkpoints import load_tokenizer, read_record
    from draftscope.prompts import calibration
    from draftscope.prompts.cutting import Reader

    base = read_record(arguments.base)
    tokenizer = load_tokenizer(base)
    rows = [
        row for path in arguments.calibration for row in records.read(path, "prompts").to_pylist()
    ]
    texts = calibration.texts(
        Reader(base["name"], tokenizer, tokenizer.bos_token_id),
        rows,
        settings["templates"],
        settings["model"]["calibration"]["tokens"],
    )
    log.info(
        "model %s: %d calibration texts, %d tokens",
        arguments.name,
        len(texts),
        sum(map(len, texts)),
    )
    record = models.resolve(arguments.name, settings["model"], output.parent, base, texts)
    log.info("model %s: %s", arguments.name, record["revision"])


if __name__ == "__main__":
    command(main)
