"""What pairs of a block drafter can be asked for; the rest is refused in one line.

A block drafter reads its target's hidden states: it is of that target alone, has no passes of its
own, and proposes a block at a position of the text, where other models have a distribution at
every position. What a DFlash drafter proposes depends on the text alone, so it is replayed from
its proposals. ReTrace remembers what was rejected, and drawn tokens are as chance has them: both
are decoded live only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from draftscope.block_training.rows import published_decay
from draftscope.checkpoints import BLOCK_DRAFTS
from draftscope.errors import UserError

Models = Mapping[str, Mapping[str, Any]]
LIVE = "name it under lossless.configurations"


def is_block(pair: Mapping[str, Any], models: Models) -> bool:
    """Whether the pair's draft proposes blocks from its target's states."""
    return models[pair["draft"]]["kind"] in BLOCK_DRAFTS


def check_model(name: str, models: Models) -> None:
    """A ReTrace drafter starts from a DFlash drafter of its target; nothing else starts from one.

    Raises:
        UserError: another base, or a base that is a block drafter.
    """
    row = models[name]
    base = models.get(row.get("base", ""))
    if row["kind"] == "retrace":
        if base["kind"] != "dflash":
            raise UserError(
                f"model {name!r} of kind retrace starts from {row['base']!r} of kind "
                f"{base['kind']}; name a model of kind dflash"
            )
        if base["target"] != row["target"]:
            raise UserError(
                f"model {name!r} has target {row['target']!r}, but its base {row['base']!r} reads "
                f"the states of {base['target']!r}; they must be one"
            )
    elif base is not None and base["kind"] in BLOCK_DRAFTS:
        raise UserError(
            f"model {name!r} of kind {row['kind']} cannot be made from {row['base']!r}, which is "
            f"{BLOCK_DRAFTS[base['kind']]}"
        )


def completed(name: str, models: Models) -> dict[str, Any]:
    """The row of a model; the decay of a loss that a ReTrace drafter names is of its base's blocks.

    Raises:
        UserError: the loss needs a decay, and none is published for blocks of that size.
    """
    row = dict(models[name])
    loss = row.get("loss")
    if row["kind"] != "retrace" or loss is None or loss["decay"] is not None:
        return row
    try:
        decay = published_decay(loss["name"], models[row["base"]]["block_size"])
    except ValueError as error:
        raise UserError(f"model {name!r} on the blocks of {row['base']!r}: {error}") from None
    return row | {"loss": loss | {"decay": decay}}


def check_pair(name: str, pair: Mapping[str, Any], models: Models) -> None:
    """A block drafter drafts for the target whose states it reads, and is no target.

    Raises:
        UserError: another target, or `drafting` for a draft that does not propose blocks.
    """
    if (kind := models[pair["target"]]["kind"]) in BLOCK_DRAFTS:
        raise UserError(f"pair {name!r}: {BLOCK_DRAFTS[kind]} can be a draft, not a target")
    row = models[pair["draft"]]
    if not is_block(pair, models):
        if pair.get("drafting") is not None:
            raise UserError(
                f"pair {name!r}: drafting says how a block drafter chooses its tokens, and "
                f"{pair['draft']!r} is of kind {row['kind']}; leave it out"
            )
    elif row["target"] != pair["target"]:
        raise UserError(
            f"pair {name!r}: draft {pair['draft']!r} reads the states of {row['target']!r} and "
            f"cannot draft for {pair['target']!r}"
        )


def refuse(pairs: Mapping[str, Mapping[str, Any]], models: Models, work: str) -> None:
    """Raises UserError naming a pair whose draft is a block drafter, which cannot do `work`."""
    for name, pair in pairs.items():
        if is_block(pair, models):
            said = BLOCK_DRAFTS[models[pair["draft"]]["kind"]]
            raise UserError(
                f"pair {name!r}: its draft {pair['draft']!r} is {said} and cannot {work}"
            )


def refuse_live_only(pairs: Mapping[str, Mapping[str, Any]], models: Models, where: str) -> None:
    """Raises UserError naming a pair of `where` that cannot be replayed from a text."""
    for name, pair in pairs.items():
        if models[pair["draft"]]["kind"] == "retrace":
            raise UserError(
                f"{where}: pair {name!r} drafts with {pair['draft']!r} of kind retrace, whose "
                f"proposals depend on what was rejected before; it is decoded live only: {LIVE}"
            )
        if pair.get("drafting") == "sampled" and is_block(pair, models):
            raise UserError(
                f"{where}: pair {name!r} draws the tokens of its blocks, so its rounds cannot be "
                f"read off a text; set drafting to argmax, or {LIVE}"
            )
