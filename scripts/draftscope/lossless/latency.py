"""How long one pass over a few new tokens takes: what a round of verification costs.

Speculation pays where a pass over K + 1 tokens costs about as much as one over a single token.
Whether it does is a property of hardware, kernels and data type alone, so it is timed alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch

from draftscope.errors import UserError

if TYPE_CHECKING:
    from draftscope.live.model import Decoder


def timed(
    work: Callable[[], None],
    repeats: int,
    *,
    synchronize: Callable[[], None] | None = None,
    clock: Callable[[], float] = time.perf_counter,
    warm_up: int = 1,
) -> list[float]:
    """Seconds of each of `repeats` runs of `work`, after `warm_up` runs that do not count.

    Args:
        synchronize: waits until the device is idle; called before the clock is read, at the
            start as well as at the end, since work may still be queued at either.
    """
    seconds = []
    for run in range(warm_up + repeats):
        if synchronize:
            synchronize()
        start = clock()
        work()
        if synchronize:
            synchronize()
        if run >= warm_up:
            seconds.append(clock() - start)
    return seconds


def device_wait(device: torch.device) -> Callable[[], None] | None:
    """What waits for this device; None where work is done when the call returns."""
    if device.type == "cuda":
        return lambda: torch.cuda.synchronize(device)
    return torch.mps.synchronize if device.type == "mps" else None


@torch.inference_mode()
def pass_times(
    decoder: Decoder,
    tokens: Sequence[int],
    context: int,
    repeats: int,
    clock: Callable[[], float] = time.perf_counter,
) -> list[tuple[int, int, float]]:
    """(tokens of the pass, repeat, seconds) of passes that each follow the same context.

    The lengths take turns, so that a drift of the machine meets all of them alike; the first
    pass of each is thrown away. Logits are computed for every token of the pass, as in
    verification.

    Raises:
        UserError: context and pass together are longer than the model can hold.
    """
    most = context + max(tokens)
    if decoder.max_positions is not None and most > decoder.max_positions:
        raise UserError(
            f"a context of {context} and a pass of {max(tokens)} tokens are more than the "
            f"{decoder.max_positions} positions of {decoder.name}"
        )
    ids = torch.arange(most, device=decoder.device) * 7 % min(decoder.width, 1000)
    decoder.reset()
    decoder.extend(ids[:context], 1)
    wait, out = device_wait(decoder.device), []
    for repeat in range(-1, repeats):
        for count in tokens:
            (seconds,) = timed(
                lambda count=count: decoder.extend(ids[context : context + count], count),
                1,
                synchronize=wait,
                clock=clock,
                warm_up=0,
            )
            decoder.crop(context)
            if repeat >= 0:
                out.append((count, repeat, seconds))
    return out
