"""Made-up statistics of the domains study in its real schemas, one row for every key."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from draftscope import schemas as registered
from draftscope.domains import schemas
from draftscope.domains.files import FILES

DOMAINS = ("chat", "code", "maths", "logic")
SETTINGS = {"confidence": 0.95, "resamples": 200, "method": "studentized"}
_TEXTS = {"method": "studentized", "source": "measured", "paths": "[[1],[2],[1,1]]",
          "level": "2", "reference": "1", "statement": "as published it holds"}  # fmt: skip


def frames(domains: Sequence[str] = DOMAINS, seed: int = 1) -> dict[str, pd.DataFrame]:
    """File name -> frame; values lie between 0 and 1, intervals around them."""
    rng = np.random.default_rng(seed)
    found = {}
    for file in FILES:
        schema = registered.SCHEMAS[f"domains_{file}"]
        rows = [key | _rest(schema, key, rng) for key in _keys(file, list(domains))]
        found[file] = pa.Table.from_pylist(rows, schema=schema).to_pandas()
    return found


def _keys(file: str, domains: list[str]) -> Iterator[dict[str, Any]]:
    everyone = [*domains, schemas.ALL]
    measures = {"rates": schemas.RATES, "lengths": schemas.LENGTHS}
    by_depth = schemas.MEASURES | schemas.SURVIVALS
    if file in measures:
        yield from _product(domain=everyone, measure=measures[file])
    elif file == "depths":
        yield from _product(domain=everyone, depth=(1, 2, 3), measure=by_depth)
    elif file == "changes":
        for key in _product(
            domain=everyone, first_depth=(1,), depth=(2, 3), measure=schemas.MEASURES
        ):
            whole = key["measure"] in ("alpha", "alpha_chain")
            for how in ("prompt",) if whole else ("text", "position"):
                yield key | {"comparison": how}
    elif file == "positions":
        keys = {"domain": everyone, "depth": (0, 1, 2, 3), "edge": (32,)}
        yield from _product(**keys, measure=schemas.MEASURES)
    elif file == "correlations":
        keys = {"domain": everyone, "measure": schemas.CORRELATIONS, "outcome": schemas.OUTCOMES}
        yield from _product(**keys, entropy=("target", "draft"))
    elif file == "curves":
        for key in _product(domain=everyone, outcome=schemas.OUTCOMES, bin=range(5)):
            low = key["bin"] ** 2 / 8
            edges = {"lower_edge": low, "upper_edge": low + 0.1 + key["bin"] / 4}
            yield key | edges | {"entropy": low + 0.05 + key["bin"] / 8}
    elif file == "contrasts":
        pairs = itertools.combinations(domains, 2)
        for (first, second), measure in itertools.product(pairs, [*schemas.MEASURES, "joint"]):
            yield {"first": first, "second": second, "measure": measure}
    elif file == "paradox":
        if domains:
            others = [*domains[1:], schemas.ALL]
            yield from _product(highest=domains[:1], other=others, outcome=schemas.OUTCOMES)
    elif file == "models":
        yield from _product(outcome=schemas.MODELLED_OUTCOMES, factor=[*schemas.FACTORS, "full"])
    elif file == "comparisons":
        yield from _product(
            outcome=schemas.MODELLED_OUTCOMES, first=("domain",), second=("depth", "rank")
        )
    elif file == "coefficients":
        yield from _product(outcome=schemas.MODELLED_OUTCOMES, factor=schemas.FACTORS)
    elif file == "path_rates":
        yield from _product(domain=everyone, depth=(1, 2, 3), rank=(1, 2))
    elif file == "budgets":
        keys = {"domain": everyone, "kind": ("chain", "tree")}
        for key in _product(**keys, rule=("nodes",), budget=(1, 2, 4, 8)):
            yield key | {"nodes": key["budget"], "depth": min(3, key["budget"])}
        yield from _product(**keys, rule=("cost",), cost_ratio=(0.1, 0.3), budget=(8,))
    elif file == "claims":
        yield from _product(claim=("only one domain has E[L] above 1",), domain=everyone)


def _product(**values: Sequence[Any] | Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for combination in itertools.product(*values.values()):
        yield dict(zip(values, combination, strict=True))


def _rest(schema: pa.Schema, key: Mapping[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for field in schema:
        name = field.name
        stem, _, end = name.rpartition("_")
        if name in key or name == "reason":
            continue
        if end in ("lower", "upper") and stem in row:
            row[name] = row[stem] + (-0.05 if end == "lower" else 0.05)
        elif pa.types.is_string(field.type):
            row[name] = schemas.CORRECTED if name == "protocol" else _TEXTS.get(name, name)
        elif pa.types.is_boolean(field.type):
            row[name] = bool(rng.integers(2))
        elif pa.types.is_integer(field.type):
            row[name] = int(rng.integers(1, 100))
        else:
            row[name] = float(rng.uniform(0.1, 0.9))
    return row | {"reason": None}
