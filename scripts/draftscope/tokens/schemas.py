"""Schema of the files of token types: tokens/{target}/{domain}/{mode}.parquet."""

from __future__ import annotations

import pyarrow as pa

from draftscope.schemas import FLAGS, KEYS, field, register
from draftscope.tokens.names import TYPES

_CODES = "; ".join(
    f"{code} {name}: {meaning}" for code, (name, meaning) in enumerate(TYPES.items())
)

register(
    "token_types",
    [
        *KEYS,
        field("type", pa.list_(pa.int8()), f"type of each generated token: {_CODES}"),
        field("initial", FLAGS, "the token holds the beginning of its word, number or phrase"),
        field("whole", FLAGS, "the token holds all of its word, number or phrase"),
        field("region", pa.list_(pa.int8()), "where it stands: 0 prose, 1 a formula, 2 code"),
        field(
            "trigger",
            pa.list_(pa.int16()),
            "number of the trigger in the lists (in the file's condition), -1 elsewhere",
        ),
    ],
)
