"""Take the rounds that a serving engine reported of its own requests.

Formats: vllm (responses with metrics.speculative_decoding), sglang (responses with meta_info or
sglext), aiperf (profile_export.jsonl), jsonl (the engine-neutral lines of config/README.md),
vllm-counters (a scrape of /metrics: totals of the server, without requests).
"""

from __future__ import annotations

import argparse
import difflib
import logging

from draftscope.errors import UserError, command, json_argument

log = logging.getLogger("import_rounds")

# What makes numbers comparable, as every file of this program carries it.
CONDITION = (
    *("target", "target_revision", "draft", "draft_revision", "tokenizer_sha256", "template"),
    *("dtype", "draft_dtype", "quantization", "draft_quantization", "attention", "device_type"),
    *("law", "rule", "batch_size", "engine", "engine_version", "domain", "mode"),
)


def main() -> None:
    from draftscope.engines.importing import FORMATS, import_requests
    from draftscope.engines.options import Options

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "files", nargs="+", help="files to take, - for standard input; gzip is unpacked"
    )
    parser.add_argument("--format", required=True, choices=FORMATS)
    parser.add_argument("--output", required=True, help="Parquet of schema imported_rounds")
    parser.add_argument(
        "--prompt-id",
        help="field that names the prompt, such as metadata.row (default: prompt_id, custom_id, "
        "conversation_id, or else the engine's id of the request)",
    )
    parser.add_argument(
        "--draft-length", type=int, help="draft tokens of a round, where the file does not say it"
    )
    parser.add_argument(
        "--every-round-drafts",
        action="store_true",
        help="the draft offers tokens in every round (a model does, prompt lookup does not), so "
        "that the rounds without a draft, which vLLM leaves out, do not exist",
    )
    parser.add_argument("--since", help="an earlier scrape, for vllm-counters")
    parser.add_argument(
        "--condition",
        default="{}",
        help="JSON or a JSON file: what is known of the run, such as target, draft, law, domain",
    )
    arguments = parser.parse_args()
    condition = dict(json_argument(arguments.condition))
    for key in condition:
        if key not in CONDITION:
            close = difflib.get_close_matches(key, CONDITION, 1)
            instead = close[0] if close else ", ".join(CONDITION)
            raise UserError(f"--condition has the key {key!r}; nearest: {instead}")
    if arguments.draft_length is not None and not 1 <= arguments.draft_length < 2**15:
        raise UserError(f"--draft-length is {arguments.draft_length}; it must be at least 1")

    from draftscope import records
    from draftscope.inputs import apart

    read = [*arguments.files, *([arguments.since] if arguments.since else [])]
    apart(arguments.output, read)
    imported = import_requests(
        arguments.format,
        arguments.files,
        Options(arguments.prompt_id, arguments.draft_length, arguments.every_round_drafts),
        arguments.since,
    )
    if imported.engine is not None:
        said = condition.setdefault("engine", imported.engine)
        if said != imported.engine:
            raise UserError(
                f"--condition says engine {said}, the file is of {imported.engine}; a version "
                "belongs under engine_version"
            )
    records.write(
        arguments.output,
        imported.rows,
        "imported_rounds",
        condition,
        {
            "imported_from": [str(path) for path in arguments.files],
            "format": arguments.format,
            "left_out": imported.left_out,
        },
    )
    log.info(
        "%d requests of %d prompts, %d rounds",
        len(imported.rows),
        len({row["prompt_id"] for row in imported.rows}),
        sum(row["rounds"] for row in imported.rows),
    )


if __name__ == "__main__":
    command(main)
