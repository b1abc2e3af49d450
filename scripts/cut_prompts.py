"""Cut the raw prompts of a shard that are longer than a study allows."""

from __future__ import annotations

import argparse
import logging

from draftscope.errors import command

log = logging.getLogger("cut_prompts")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, required=True, help="of a prompt, at most")
    parser.add_argument("--model", required=True, help="model.json whose tokenizer counts")
    parser.add_argument("--prompts", required=True, help="Parquet of schema prompts")
    parser.add_argument("--output", required=True, help="Parquet of schema prompts")
    arguments = parser.parse_args()

    from draftscope import records
    from draftscope.checkpoints import load_tokenizer, read_record
    from draftscope.prompts.cutting import Reader, cut

    record = read_record(arguments.model)
    tokenizer = load_tokenizer(record)
    reader = Reader(record["name"], tokenizer, tokenizer.bos_token_id)
    table = records.read(arguments.prompts, "prompts")
    rows = table.to_pylist()
    kept = [cut(reader, row, arguments.tokens) for row in rows]
    shorter = sum(old["text"] != new["text"] for old, new in zip(rows, kept, strict=True))
    log.info("%d of %d prompts cut to %d tokens", shorter, len(rows), arguments.tokens)
    condition = records.condition(table) | {"prompt_tokens": arguments.tokens}
    records.write(arguments.output, kept, "prompts", condition)


if __name__ == "__main__":
    command(main)
