"""The settings of jobs that train drafts."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from draftscope.stage import Positive, Stage
from draftscope.strict import Flag


class BlockTraining(Stage):
    """Of models of kind dflash and retrace."""

    dtype: Literal["float32", "bfloat16"] = Field(
        description="that passes are computed in; trained weights are float32"
    )
    teacher_cache_mb: Positive = Field(
        description="memory for the target's states of training texts; moves no number"
    )


class Training(BlockTraining):
    """Of models of kind distilled and lora."""

    recompute: Flag = Field(
        description="hold less of long texts in memory and compute it twice; moves no number"
    )
