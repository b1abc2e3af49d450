"""Does a decoder with a cache give the logits of its model? Asked once, before anything is measured."""

from __future__ import annotations

from typing import Any

import torch

# Rounding of a whole model, in standard deviations of its logits: measured on a 135M-parameter
# model 1e-5 in float32 and .17 in bfloat16, for any way of splitting the same text.
EXACT, HALF = 1e-3, 0.5

DAMAGED = "its weights are damaged, or overflow in this data type"


def tolerance(dtype: torch.dtype) -> float:
    """The largest `probe` that is rounding in this data type."""
    return EXACT if dtype in (torch.float32, torch.float64) else HALF


@torch.inference_mode()
def probe(decoder: Any, model: Any) -> float:
    """Largest difference of a decoder's logits from the model's own, in standard deviations.

    The decoder prefills, reads a block, drops part of it, and reads on by one and by several.
    """
    ids = torch.arange(20, device=decoder.device) * 7 % min(decoder.width, 1000)
    whole = model(input_ids=ids[None], use_cache=False).logits[0].float()
    decoder.reset()
    parts = [decoder.extend(ids[:9], 2)]
    decoder.extend(ids[1:7], 6)
    decoder.crop(9)
    parts += [decoder.extend(ids[9:13], 4), decoder.extend(ids[13:14], 1)]
    decoder.extend(ids[:1], 1)
    decoder.crop(14)
    parts += [decoder.extend(ids[14:], 6)]
    decoder.reset()
    return float((torch.cat(parts).float() - whole[7:]).abs().max() / whole.std())
