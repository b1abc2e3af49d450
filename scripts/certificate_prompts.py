"""Collect a shard of the prompts of a domain that are long enough for the certificates study."""

from __future__ import annotations

import argparse
import logging

from draftscope.errors import UserError, command, json_argument

log = logging.getLogger("certificate_prompts")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--settings",
        required=True,
        help="JSON or a JSON file: domain (its registry row with the name as `domain`), template, "
        "min_tokens (of the rendered prompt), candidates (prompts looked through, from the first)",
    )
    parser.add_argument("--start", type=int, required=True, help="first long prompt of the shard")
    parser.add_argument("--stop", type=int, required=True, help="one past the last")
    parser.add_argument("--model", required=True, help="model.json whose tokenizer counts")
    parser.add_argument("--output", required=True, help="Parquet of schema prompts")
    arguments = parser.parse_args()
    settings = json_argument(arguments.settings)

    from draftscope import prompts, records
    from draftscope.checkpoints import load_tokenizer, read_record
    from draftscope.prompts.cutting import Reader

    domain, least = settings["domain"], settings["min_tokens"]
    record = read_record(arguments.model)
    tokenizer = load_tokenizer(record)
    reader = Reader(record["name"], tokenizer, tokenizer.bos_token_id)
    rows = prompts.collect(domain, 0, settings["candidates"])
    kept = [
        row
        for row in rows
        if len(prompts.render(reader, row, settings["template"]).token_ids) >= least
    ]
    if len(kept) < arguments.stop:
        raise UserError(
            f"domain {domain['domain']}: {len(kept)} of {len(rows)} prompts have at least {least} "
            f"tokens for {record['name']}, {arguments.stop} are wanted; raise "
            "certificates.candidates or ask for fewer"
        )
    source = {key: value for key, value in domain.items() if key != "template"}
    condition = {"domain": domain["domain"], "source": source, "min_prompt_tokens": least}
    records.write(arguments.output, kept[arguments.start : arguments.stop], "prompts", condition)
    log.info("domain %s: %d of %d prompts are long enough", domain["domain"], len(kept), len(rows))


if __name__ == "__main__":
    command(main)
