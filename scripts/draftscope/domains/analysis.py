"""Everything the domains study computes from its node log."""

from __future__ import annotations

from typing import Any

from draftscope.domains.budgets import budgets, path_rates
from draftscope.domains.changes import by_depth, by_position
from draftscope.domains.claims import claims
from draftscope.domains.contrasts import contrasts
from draftscope.domains.entropy import correlations, curves, paradox
from draftscope.domains.measures import Settings
from draftscope.domains.models import models
from draftscope.domains.observations import Log
from draftscope.domains.rates import depths, lengths, rates
from draftscope.domains.schemas import ALL
from draftscope.errors import UserError

Rows = dict[str, list[dict[str, Any]]]
NO_TREES = "no prompt has trees"


def study(log: Log, settings: Settings) -> Rows:
    """Rows of every file of the study, by the name of the file.

    Raises:
        UserError: a domain is named like the domains pooled.
    """
    if ALL in log.domains:
        raise UserError(f"domain {ALL!r} has the name of the domains pooled; rename it")
    rows: Rows = {
        "rates": rates(log, settings),
        "lengths": lengths(log, settings),
        "depths": depths(log, settings),
        "changes": by_depth(log, settings),
        "positions": by_position(log, settings),
        "correlations": correlations(log, settings),
        "curves": curves(log, settings),
        "contrasts": contrasts(log, settings),
        "paradox": paradox(log, settings),
        "path_rates": path_rates(log, settings),
        "budgets": budgets(log, settings),
    }
    rows["models"], rows["comparisons"], rows["coefficients"] = models(log, settings)
    rows["claims"] = claims(log, rows)
    if not len(log.prompt_ids):  # whatever else a statistic says of nothing, this is why
        for row in (row for added in rows.values() for row in added):
            row["reason"] = NO_TREES
    return rows
