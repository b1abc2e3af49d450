"""Prompts: collect them from their sources into rows, render a row for one model's tokenizer."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from draftscope.prompts.rendering import Rendered, render

__all__ = ["Rendered", "collect", "render"]


def collect(settings: Mapping[str, Any], start: int, stop: int) -> list[dict[str, Any]]:
    """Rows start to stop of a domain; see `draftscope.prompts.collecting.collect`."""
    # Imported by name: rules that only render do not depend on the sources of prompts.
    collecting = importlib.import_module("draftscope.prompts.collecting")
    return collecting.collect(settings, start, stop)
