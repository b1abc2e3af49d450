"""Generate the target's trajectories, in batches, with a random stream of its own for each one.

The emitted token ids are the product: they are generated once and replayed, never regenerated,
because the size of a batch moves floating-point logits and with them even greedy text.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import Tensor

from draftscope import sampling, seeds
from draftscope.errors import UserError
from draftscope.progress import progress

if TYPE_CHECKING:
    from draftscope.models import LoadedModel

log = logging.getLogger(__name__)


class RenderedPrompt(Protocol):
    """What `prompts.render` returns: the ids that the model reads and the hash of their text."""

    token_ids: Sequence[int]
    sha256: str


@dataclass(frozen=True)
class Stream:
    """One trajectory to generate: its prompt and its budget."""

    prompt_id: str
    sample: int
    prompt: RenderedPrompt
    budget: int


def generate(
    loaded: LoadedModel,
    prompts: Sequence[tuple[str, RenderedPrompt]],
    *,
    law: Mapping[str, float],
    budget: int,
    batch_size: int,
    samples: int,
    run_seed: int,
    domain: str,
    engine: str = "static",
) -> list[dict[str, Any]]:
    """Generate `samples` trajectories of every prompt; rows of the schema `trajectories`.

    Batches are fixed blocks of `batch_size` prompts in the given order, so a shard of whole
    batches gives the same rows whatever the size of the shard. The token at generated position t
    is the inverse CDF of the decoding law at element t of the trajectory's own random stream
    (`seeds`, key "generation"): it depends on no other row, and torch's global generator is
    never used.

    Args:
        prompts: pairs of prompt id and rendered prompt.
        law: temperature (0 is greedy), top_k and top_p. It is the only law: the decoding
            defaults that a checkpoint may carry are set aside.
        budget: most tokens to generate, an emitted end-of-text token included. Less where the
            model's context leaves less room (stop reason "context").
        engine: "static" (padded batches) or "continuous" (`draftscope.continuous`), where batches
            form by themselves, `batch_size` plays no part, and equality is statistical.

    Raises:
        UserError: the model's logits hold a NaN, a prompt id stands there twice, or the engine
            is unknown.
    """
    if engine not in ENGINES:
        raise UserError(f"unknown engine {engine!r}; known: {', '.join(ENGINES)}")
    names = [prompt_id for prompt_id, _ in prompts]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UserError(f"prompt {twice} of domain {domain} is given twice")
    streams = [
        [
            Stream(prompt_id, sample, rendered, _room(loaded, rendered, budget))
            for sample in range(samples)
        ]
        for prompt_id, rendered in prompts
    ]
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    total = sum(stream.budget for group in streams for stream in group)
    with (
        torch.inference_mode(),
        _no_defaults(loaded.model),
        progress(total, f"generating {domain} with {loaded.name}") as reporter,
    ):
        size = batch_size if engine == "static" else max(len(streams), 1)
        for start in range(0, len(streams), size):
            block = [stream for group in streams[start : start + size] for stream in group]
            for batch in _equal_budgets(block):
                emitted = ENGINES[engine](loaded, batch, law, run_seed, domain, reporter)
                for stream, ids in zip(batch, emitted, strict=True):
                    rows[stream.prompt_id, stream.sample] = _row(loaded, stream, ids, budget)
    return [
        rows.get((stream.prompt_id, stream.sample)) or _skipped(stream)
        for group in streams
        for stream in group
    ]


def _room(loaded: LoadedModel, rendered: RenderedPrompt, budget: int) -> int:
    if not rendered.token_ids:
        return 0
    if loaded.max_positions is None:
        return budget
    return max(min(budget, loaded.max_positions - len(rendered.token_ids)), 0)


def _equal_budgets(block: Iterable[Stream]) -> list[list[Stream]]:
    """Parts of a block that can be generated together: no row is driven past its context."""
    parts: dict[int, list[Stream]] = {}
    for stream in block:
        if stream.budget:
            parts.setdefault(stream.budget, []).append(stream)
    return list(parts.values())


@contextmanager
def _no_defaults(model: Any) -> Iterator[None]:
    """Set the model's generation configuration aside: `generate` fills open settings from it.

    A repetition penalty there, or a list of suppressed tokens, would be part of the decoding law
    without anybody having asked for it.
    """
    from transformers import GenerationConfig

    kept, model.generation_config = model.generation_config, GenerationConfig()
    try:
        yield
    finally:
        model.generation_config = kept


class _Law:
    """Logits processor that decides the next token itself and leaves nothing to choose."""

    def __init__(self, loaded, streams, law, run_seed, domain, reporter) -> None:
        self._loaded, self._streams, self._law = loaded, streams, law
        self._reporter = reporter
        device = loaded.model.device
        self._eos = torch.tensor(sorted(loaded.eos_ids), dtype=torch.long, device=device)
        self._finished = torch.zeros(len(streams), dtype=torch.bool, device=device)
        self._step = 0
        self._uniforms = None
        if law["temperature"] > 0:
            rows = [stream_uniforms(stream, run_seed, loaded.name, domain) for stream in streams]
            wide = torch.float32 if device.type == "mps" else torch.float64
            self._uniforms = torch.from_numpy(np.stack(rows)).to(device, wide)

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Ids so far [rows, length] and logits [rows, V] -> one-hot scores [rows, V]."""
        if self._step:
            self._finished |= torch.isin(input_ids[:, -1], self._eos)
        # Rows that have ended go on as padding until the batch is done; nothing is asked of them.
        logits = scores.masked_fill(self._finished[:, None], 0.0)
        probabilities = self._probabilities(logits)
        if self._uniforms is not None:
            chosen = sampling.draw(probabilities, self._uniforms[:, self._step])
            probabilities = torch.zeros_like(scores).scatter_(-1, chosen[:, None], 1.0)
        self._step += 1
        self._reporter.update(len(self._streams) - int(self._finished.sum()))
        return probabilities

    def _probabilities(self, logits: Tensor) -> Tensor:
        try:
            return sampling.law(logits, **self._law)
        except sampling.BadLogits as fault:
            stream = self._streams[fault.index[0]]
            raise UserError(
                f"{fault.what} in the logits of {self._loaded.name}: prompt {stream.prompt_id}, "
                f"sample {stream.sample}, generated position {self._step}"
            ) from fault


def stream_uniforms(stream: Stream, run_seed: int, target: str, domain: str) -> np.ndarray:
    """The uniforms of one trajectory, shape [budget]; element t draws generated position t."""
    key = ("generation", run_seed, target, domain, stream.prompt_id, stream.sample)
    return seeds.uniforms(stream.budget, *key)


def _static(loaded, streams, law, run_seed, domain, reporter) -> list[list[int]]:
    """One left-padded batch through `generate`; the generated ids of every row."""
    from transformers import GenerationConfig, LogitsProcessorList

    width = max(len(stream.prompt.token_ids) for stream in streams)
    ids = torch.full((len(streams), width), loaded.pad_id, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, stream in enumerate(streams):
        prompt = torch.tensor(list(stream.prompt.token_ids), dtype=torch.long)
        ids[row, width - len(prompt) :] = prompt
        mask[row, width - len(prompt) :] = 1
    budget, device = streams[0].budget, loaded.model.device
    sequences = loaded.model.generate(
        input_ids=ids.to(device),
        attention_mask=mask.to(device),
        position_ids=(mask.cumsum(-1) - 1).clamp_min(0).to(device),
        logits_processor=LogitsProcessorList(
            [_Law(loaded, streams, law, run_seed, domain, reporter)]
        ),
        generation_config=GenerationConfig(
            max_new_tokens=budget,
            do_sample=False,
            eos_token_id=sorted(loaded.eos_ids) or None,
            pad_token_id=loaded.pad_id,
            use_cache=True,
        ),
    )
    emitted = [cut_at_eos(row, loaded.eos_ids) for row in sequences[:, width:].tolist()]
    reporter.drop(budget * len(streams) - sum(map(len, emitted)))
    return emitted


def _continuous(loaded, streams, law, run_seed, domain, reporter) -> list[list[int]]:
    from draftscope.continuous import generate_continuously

    budget = streams[0].budget
    names = json.dumps([[stream.prompt_id, stream.sample] for stream in streams])
    key = ("continuous generation", run_seed, loaded.name, domain, names)
    prompts = [stream.prompt.token_ids for stream in streams]
    emitted = generate_continuously(loaded, prompts, law, budget, key)
    emitted = [cut_at_eos(row, loaded.eos_ids) for row in emitted]
    done = sum(map(len, emitted))
    reporter.drop(budget * len(streams) - done)
    reporter.update(done)
    return emitted


def cut_at_eos(ids: Sequence[int], eos_ids: Iterable[int]) -> list[int]:
    """The ids up to the first end-of-text token, with it; what follows is padding.

    By position, not by value: the padding token may be the end-of-text token itself.
    """
    end = next((i for i, token in enumerate(ids) if token in eos_ids), len(ids) - 1)
    return list(ids[: end + 1])


def _row(loaded: LoadedModel, stream: Stream, ids: list[int], budget: int) -> dict[str, Any]:
    ended = bool(ids) and ids[-1] in loaded.eos_ids
    return {
        "prompt_id": stream.prompt_id,
        "sample": stream.sample,
        "status": "ok",
        "reason": None,
        "prompt_token_ids": list(stream.prompt.token_ids),
        "token_ids": ids,
        "budget": stream.budget,
        "stop_reason": "eos" if ended else "budget" if stream.budget == budget else "context",
        "stop_token_id": ids[-1] if ended else None,
        "rendered_sha256": stream.prompt.sha256,
        "text": decode(loaded, ids),
    }


def decode(loaded: LoadedModel, ids: Sequence[int]) -> str:
    """One decode of a whole sequence; ids of a padded head that have no string are left out."""
    known = [token for token in ids if token < loaded.vocabulary_size]
    return loaded.tokenizer.decode(
        known, skip_special_tokens=False, clean_up_tokenization_spaces=False
    )


def _skipped(stream: Stream) -> dict[str, Any]:
    length = len(stream.prompt.token_ids)
    reason = f"its {length} tokens fill the model's context" if length else "empty prompt"
    log.warning("prompt %s skipped: %s", stream.prompt_id, reason)
    return {
        "prompt_id": stream.prompt_id,
        "sample": stream.sample,
        "status": "skipped",
        "reason": reason,
        "prompt_token_ids": list(stream.prompt.token_ids),
        "token_ids": [],
        "budget": 0,
        "stop_reason": None,
        "stop_token_id": None,
        "rendered_sha256": stream.prompt.sha256,
        "text": "",
    }


ENGINES = {"static": _static, "continuous": _continuous}
