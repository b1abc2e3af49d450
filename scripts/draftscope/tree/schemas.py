"""Schemas of token trees scored along a trajectory: one row a node, one row a tree."""

from __future__ import annotations

import pyarrow as pa

from draftscope.schemas import KEYS, field, register

SHORT, REAL, FLAG = pa.int16(), pa.float32(), pa.bool_()
STEP = field("step", pa.int32(), "generated position of the tree's first level, from 0", "tokens")

NODES = register(
    "nodes",
    [
        *KEYS,
        STEP,
        field("node", SHORT, "place in the tree, from 0; parents before children"),
        field("parent", SHORT, "place of the parent, -1 for the root"),
        field("depth", SHORT, "level in the tree, from 1", "tokens"),
        field("rank", SHORT, "1 is the token that the draft finds most probable after the parent"),
        field("token_id", pa.int32(), "the drafted token", "token id"),
        field("log_p", REAL, "target's log-probability given the path, T=1", "nats"),
        field("log_q", REAL, "draft's log-probability given the path, T=1", "nats"),
        field("target_entropy", REAL, "entropy of the distribution log_p is from", "nats"),
        field("draft_entropy", REAL, "entropy of the distribution log_q is from", "nats"),
        field("offered", FLAG, "a loop would offer it: not past the budget or an accepted end"),
        field("parent_accepted", FLAG, "greedy decoding accepts the parent; true below the root"),
        field("accepted", FLAG, "greedy decoding accepts the node: its path is the text"),
    ],
)
TREES = register(
    "trees",
    [
        *KEYS,
        STEP,
        field("nodes", SHORT, "nodes offered", "nodes"),
        field("offered_depth", SHORT, "depth of the deepest node offered", "tokens"),
        field("accepted", SHORT, "length of the accepted path", "tokens"),
        field("emitted", SHORT, "tokens emitted, with bonus or correction", "tokens"),
        field("cut", FLAG, "budget or context left less room than the shape is deep"),
        field("end", pa.string(), "continue, eos or budget"),
    ],
)
