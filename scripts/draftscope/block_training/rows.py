"""Rows of the registry of models for drafters that propose a whole block and are trained here."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from draftscope.strict import Flag, Integer, Name, Number, Strict
from draftscope.training.rows import Layers, Positive, Train, _ascending

# The losses of `draftscope.losses`, which is not imported where no network runs.
DECAYING = ("ce_decay", "forward_kl", "renyi_half")
LOSS_NAMES = (
    *DECAYING,
    "dpace", "dpace_prefix", "dpace_suffix", "dpace_forward_kl", "dpace_renyi_half",
    "dpal", "dpal_forward_kl", "dpal_renyi_half",
)  # fmt: skip
# Decay of the position weights by block size, in positions, as DFlash has it (arXiv:2602.06036).
PUBLISHED_DECAY = {8: 4.0, 10: 5.0, 16: 7.0}


def published_decay(loss: str, block_size: int) -> float | None:
    """The decay of a loss for blocks of this size; None where it is not published, nor asked for.

    Raises:
        ValueError: the loss needs a decay and none is published.
    """
    decay = PUBLISHED_DECAY.get(block_size)
    if decay is None and loss in DECAYING:
        raise ValueError(
            f"loss.decay is missing: none is published for block size {block_size} "
            f"(only for {', '.join(map(str, PUBLISHED_DECAY))}); half the block size is near"
        )
    return decay


class Loss(Strict):
    name: Literal[LOSS_NAMES] = Field(description="what is compared and what weighs it")
    smoothing: Annotated[Number, Field(ge=0, lt=1)] = Field(
        default=0.5,
        description="alpha of weights by confidence or overlap: they are of (1 - alpha) a + alpha",
    )
    decay: Annotated[Number, Field(gt=0)] | None = Field(
        default=None,
        description="of weights exp(-(k - 1) / decay), in positions; left out: 4, 5 or 7 at block "
        "size 8, 10 or 16, as published",
    )


class BlockTrain(Train):
    anchors: Positive = Field(
        description="blocks of a text that a step drafts, each from an anchor drawn anew"
    )
    weight_decay: Annotated[Number, Field(ge=0)] = Field(default=0.0, description="of AdamW")


class Dflash(Strict):
    kind: Literal["dflash"]
    target: Name = Field(description="model whose hidden states are read and whose head is used")
    layers: Positive = Field(description="draft layers")
    block_size: Annotated[Integer, Field(ge=2, le=1024)] = Field(
        description="slots of a block: the anchor's and those of the drafted tokens"
    )
    feature_layers: Layers | None = Field(
        default=None,
        description="layers of the target whose output is read, from 0; left out: as many as draft "
        "layers, from the second to the third from last",
    )
    vocabulary: Annotated[Integer, Field(ge=2)] | None = Field(
        default=None,
        description="ids that can be proposed: those that the training texts hold most often; left "
        "out: all",
    )
    normalised_features: Flag = Field(
        default=False,
        description="bring the states of each layer that is read to one size before they are fused",
    )
    context: Literal["fused", "own"] = Field(
        default="fused",
        description="what draft layers read of the target: all of them the states of "
        "`feature_layers` fused into one, as published; or each, with its own norm, the states that "
        "the layer reads which it starts as a copy of",
    )
    shifted: Flag = Field(
        default=False,
        description="true: a slot's state predicts the token behind the slot, as states of the target "
        "do; false, as published: its own",
    )
    slots: Literal["masks", "lookup"] = Field(
        default="masks",
        description="what stands in the slots behind the anchor: masks, as published; or the tokens "
        "that prompt lookup proposes there, masks where it proposes none, each also added to the state "
        "of its slot by a weight that is learnt",
    )
    init: Literal["target", "random"] = Field(
        default="target", description="draft layers start as copies of the target's, or random"
    )
    init_layers: Layers | None = Field(
        default=None, description="layers that they are copies of, from 0; left out: the last"
    )
    loss: Loss
    train: BlockTrain

    _order = field_validator("feature_layers", "init_layers")(_ascending)

    @model_validator(mode="before")
    @classmethod
    def _published_decay(cls, values: Any) -> Any:
        """Fill in what is published for the block size."""
        loss = values.get("loss") if isinstance(values, dict) else None
        if not isinstance(loss, dict) or loss.get("decay") is not None:
            return values
        size = values.get("block_size")
        known = PUBLISHED_DECAY.get(size) if isinstance(size, int) else None
        return values if known is None else values | {"loss": loss | {"decay": known}}

    @model_validator(mode="after")
    def _context_is_said_once(self) -> Dflash:
        if self.context == "fused":
            return self
        if self.init == "random":
            raise ValueError(
                "context: own is read as copied layers read it; init: random copies none"
            )
        for name in ("feature_layers", "normalised_features"):
            if getattr(self, name):
                raise ValueError(f"{name} is of a fused context; leave it out with context: own")
        return self

    @model_validator(mode="after")
    def _a_copy_for_every_layer(self) -> Dflash:
        if self.init_layers is None:
            return self
        if self.init == "random":
            raise ValueError("init_layers are copied; init: random copies none")
        if len(self.init_layers) != self.layers:
            raise ValueError(
                f"init_layers gives {len(self.init_layers)} layers for {self.layers} draft layers"
            )
        return self

    @model_validator(mode="after")
    def _decay_is_known(self) -> Dflash:
        if self.loss.decay is None:
            published_decay(self.loss.name, self.block_size)
        return self


class RetraceTrain(BlockTrain):
    beta_warm_up: Annotated[Integer, Field(ge=0)] = Field(
        default=50, description="steps in which the correction's share grows from 0 to 1"
    )


class Retrace(Strict):
    kind: Literal["retrace"]
    target: Name = Field(description="as of the base")
    base: Name = Field(description="DFlash drafter that training starts from")
    variant: Literal["none", "overwrite", "gated", "corrected_gated"] = Field(
        description="what becomes of the states of rejected tokens"
    )
    loss: Loss | None = Field(default=None, description="left out: the base's")
    train: RetraceTrain
