"""Generation with transformers' continuous batching, for GPUs and long texts of uneven length.

Rows join and leave the batch as they start and end, so no time goes into padding. What a row
shares its batch with then depends on timing: with `static` batches equal settings give equal
tokens, here equality is statistical. Sampling is transformers' own under the same temperature,
top-k and top-p (ids tied at the edge of top-k are all kept there), and NaN logits are found when
the text is scored, not here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from draftscope import seeds

if TYPE_CHECKING:
    from draftscope.models import LoadedModel


def generate_continuously(
    loaded: LoadedModel,
    prompts: Sequence[Sequence[int]],
    law: Mapping[str, float],
    budget: int,
    seed_key: Sequence[int | str],
) -> list[list[int]]:
    """Generated ids of every prompt, an emitted end-of-text token included, in the given order.

    Args:
        prompts: token ids [prompts][tokens].
        seed_key: key of `seeds` for the whole call; torch's generator is put back afterwards.

    Raises:
        RuntimeError: transformers gave up on a row.
    """
    import torch
    from transformers import ContinuousBatchingConfig, GenerationConfig

    configuration = GenerationConfig(
        max_new_tokens=budget,
        eos_token_id=sorted(loaded.eos_ids) or None,
        pad_token_id=loaded.pad_id,
        **_sampling(law),
    )
    devices = [loaded.device] if loaded.device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(int(seeds.generator(*seed_key).integers(2**63)))
        results = loaded.model.generate_batch(
            inputs=[list(prompt) for prompt in prompts],
            generation_config=configuration,
            # The attention implementation is part of the condition: no other is taken unasked.
            continuous_batching_config=ContinuousBatchingConfig(
                auto_switch_to_flash=False, **_cache_sizes(loaded, prompts, budget)
            ),
        )
    failed = [result.error for result in results.values() if result.error is not None]
    if failed or len(results) != len(prompts):
        raise RuntimeError(
            f"continuous batching returned {len(results) - len(failed)} of {len(prompts)} texts: "
            f"{failed[0] if failed else 'its thread ended early'}"
        )
    return [list(result.generated_tokens) for result in results.values()]


def _sampling(law: Mapping[str, float]) -> dict[str, Any]:
    if law["temperature"] == 0:
        return {"do_sample": False}
    return {
        "do_sample": True,
        "temperature": float(law["temperature"]),
        "top_k": int(law["top_k"]),
        "top_p": float(law["top_p"]),
    }


def _cache_sizes(
    loaded: LoadedModel, prompts: Sequence[Sequence[int]], budget: int
) -> dict[str, int]:
    """On a GPU none: transformers fills the free memory. On a CPU it would fill that of the host."""
    if loaded.device.type != "cpu":
        return {}
    page, rows = 16, min(len(prompts), 32)
    pages = -(-(max(map(len, prompts)) + budget) // page)
    return {"page_size": page, "num_blocks": pages * rows, "max_batch_tokens": 4 * page}
