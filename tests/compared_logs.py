"""Logs of rounds to compare: their sums, files, and the rows of a comparison."""

import engine_logs as logs
import numpy as np
import pyarrow as pa
from draftscope import records
from draftscope.acceptance.sums import of_rounds
from draftscope.schemas import SCHEMAS

GAMMA = 4
CONDITION = {"target": "t", "draft": "d", "law": {"temperature": 0.6}, "domain": "math"}


def two_drafts():
    """Two drafts on the same 24 prompts; the second accepts a little more."""
    return logs.draw(prompts=24, seed=1), logs.draw(prompts=24, seed=2, rate=0.76)


def sums(drawn, gamma=GAMMA):
    return of_rounds(pa.Table.from_pylist(logs.round_rows(drawn, gamma), SCHEMAS["rounds"]))


def means(drawn):
    """Accepted length of each prompt, in the order of their names."""
    return np.array([np.mean([a for _, a, _ in lines]) for _, lines in sorted(drawn.items())])


def row_of(found, pooling, metric="accepted_length"):
    """The one row of a measure in a comparison; pooling is macro or micro."""
    (row,) = [r for r in found.rows if (r["metric"], r["pooling"]) == (metric, pooling)]
    return row


def macro(found, metric="accepted_length"):
    return row_of(found, "macro", metric)


def micro(found, metric="accepted_length"):
    return row_of(found, "micro", metric)


def write(path, drawn, condition=CONDITION, prompts=None):
    """A file of rounds; `prompts`: digests of the texts behind its ids."""
    records.write(path, logs.round_rows(drawn, GAMMA), "rounds", condition, prompts=prompts)
    return path
