"""What few prompts, or few that differ, can be said to show."""

from __future__ import annotations

from dataclasses import replace

from draftscope.statistics import Interval
from draftscope.statistics.resampling import FEWEST


def stated(found: Interval) -> Interval:
    """The interval; none where too few prompts agree for their agreement to say anything.

    A bootstrap of prompts that all agree is a point, however few they are.
    """
    if not found.degenerate or found.n >= FEWEST:
        return found
    reason = f"constant over {found.n} prompts; an interval takes {FEWEST}"
    return replace(found, low=None, high=None, degenerate=False, reason=reason)


def few_differ(differing: int, ties: int) -> bool:
    """Nearly all prompts agree, so that the resamples are of a handful of them."""
    return ties > 0 and 0 < differing < FEWEST
