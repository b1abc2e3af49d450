"""What a CUDA device is asked: each check gives measured values, with a bound where one must hold."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from draftscope.drafters.model import ModelDraft
from draftscope.errors import UserError
from draftscope.live import probe
from draftscope.live.batched import decode_batch
from draftscope.live.batched_draft import BatchedModelDraft
from draftscope.live.batched_model import BatchedModel, ragged_probe
from draftscope.live.loop import Decoded, clock, decode
from draftscope.live.model import open_decoder
from draftscope.logits import hidden_states, logits_of
from draftscope.models.loaded import LoadedModel
from draftscope.scoring import disagreement_share, score
from draftscope.trajectories import generate
from draftscope.tree import selfcheck
from random_models import Size, alignment, random_ids, random_model, random_prompts

GREEDY = {"temperature": 0.0, "top_k": 0, "top_p": 1.0}
SAMPLED = {"temperature": 1.0, "top_k": 0, "top_p": 0.95}
GIB = 2**30


@dataclass(frozen=True)
class Measured:
    """One number. `at_most` or `at_least` is what it must keep to; neither, and it is only told.

    `value` is None where this machine cannot tell, and `detail` then says why.
    """

    name: str
    value: float | None
    unit: str
    at_most: float | None = None
    at_least: float | None = None
    detail: str = ""

    @property
    def holds(self) -> bool | None:
        if self.value is None or (self.at_most is None and self.at_least is None):
            return None
        low = self.at_least is None or self.value >= self.at_least
        return low and (self.at_most is None or self.value <= self.at_most)


class Bench:
    """The pair of a size on a device, loaded when it is first asked for."""

    def __init__(self, size: Size, device: torch.device) -> None:
        self.size, self.device = size, device
        self._models: dict[str, LoadedModel] = {}

    @property
    def target(self) -> LoadedModel:
        return self._model("target")

    @property
    def draft(self) -> LoadedModel:
        return self._model("draft")

    def _model(self, role: str) -> LoadedModel:
        if role not in self._models:
            shape = getattr(self.size, role)
            self._models[role] = random_model(
                role, shape, self.size.ids, self.device, self.size.dtype
            )
        return self._models[role]

    def generated(self, count: int, engine: str, law: Mapping[str, float]) -> list[dict[str, Any]]:
        return generate(
            self.target,
            random_prompts(self.size)[:count],
            law=law,
            budget=self.size.budget,
            batch_size=16,
            samples=1,
            run_seed=0,
            domain="gpu",
            engine=engine,
        )


def masks(bench: Bench) -> Iterator[Measured]:
    """Each attention implementation reads trees as their paths, or is refused; so is a deaf one."""
    from transformers.utils import is_flash_attn_2_available

    shape, ids = bench.size.target, bench.size.ids
    bound = selfcheck.EXACT if bench.size.dtype == "float32" else selfcheck.ROUNDED
    for attention in bench.size.attentions:
        name = f"tree mask, {attention}"
        if attention == "flash_attention_2" and not is_flash_attn_2_available():
            yield Measured(name, None, "standard deviations", detail="not installed")
            continue
        small = (shape, ids, bench.device, bench.size.dtype, attention, 2)
        model = random_model("masked", *small)
        if attention == "flash_attention_2":
            yield Measured(name, float(_refused(model)), "refused", at_least=1)
        else:
            yield Measured(name, selfcheck.deviation(model), "standard deviations", at_most=bound)
    with _deaf_attention() as deaf:
        model = random_model("deaf", shape, ids, bench.device, bench.size.dtype, deaf, 2)
        yield Measured(
            "tree mask, ignored on purpose", float(_refused(model)), "refused", at_least=1
        )


def _refused(model: LoadedModel) -> bool:
    try:
        selfcheck.check_trees(model)
    except UserError:
        return True
    return False


@contextmanager
def _deaf_attention() -> Iterator[str]:
    """An attention implementation that sees every earlier key, whatever the mask says."""
    from transformers import AttentionInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

    def deaf(module, query, key, value, attention_mask, **more):
        rows, columns = query.shape[-2], key.shape[-2]
        seen = torch.ones(rows, columns, dtype=torch.bool, device=query.device)
        seen = seen.tril(columns - rows)[None, None]
        return sdpa_attention_forward(module, query, key, value, seen, **more)

    AttentionInterface.register("deaf", deaf)
    AttentionMaskInterface.register("deaf", sdpa_mask)
    try:
        yield "deaf"
    finally:
        del AttentionInterface._global_mapping["deaf"]
        del AttentionMaskInterface._global_mapping["deaf"]


def generation(bench: Bench) -> Iterator[Measured]:
    """Texts of both engines are those of the model: every token its best one, or tied with it."""
    tolerance = probe.tolerance(bench.target.model.dtype)
    for engine, count in (("static", 16), ("continuous", bench.size.prompts)):
        rows, seconds = _timed(bench, lambda e=engine, n=count: bench.generated(n, e, GREEDY))
        tokens = sum(len(row["token_ids"]) for row in rows)
        unit = f"tokens a second, {len(rows)} texts"
        yield Measured(f"generation, {engine}", tokens / seconds, unit)
        wanted = len(rows) * bench.size.budget
        yield Measured(f"tokens, {engine}", tokens, "tokens", wanted, wanted)
        below = max(_below_best(bench.target, row) for row in rows[:: max(len(rows) // 8, 1)])
        yield Measured(f"below the best logit, {engine}", below, "standard deviations", tolerance)
    wrong = rows[0] | {"token_ids": [id_ // 2 for id_ in rows[0]["token_ids"]]}
    unit, below = "standard deviations", _below_best(bench.target, wrong)
    yield Measured("below the best logit, wrong on purpose", below, unit, at_least=2 * tolerance)
    rows, _ = _timed(bench, lambda: bench.generated(16, "continuous", SAMPLED))
    pair = [(bench.draft, alignment(bench.size))]
    share = disagreement_share(score(bench.target, pair, rows, {"decoding": SAMPLED}))
    yield Measured("sampled tokens outside the law, continuous", share, "share", at_most=0.01)


def _timed(bench: Bench, work: Callable[[], Any]) -> tuple[Any, float]:
    now = clock(bench.device)
    start = now()
    return work(), now() - start


@torch.inference_mode()
def _below_best(loaded: LoadedModel, row: Mapping[str, Any]) -> float:
    """How far below the best logit an emitted token's is, at worst, in standard deviations."""
    emitted = torch.tensor(row["token_ids"], device=loaded.device)
    read = torch.tensor([*row["prompt_token_ids"], *row["token_ids"]][:-1])
    logits = logits_of(loaded, hidden_states(loaded, read)[-len(emitted) :]).float()
    own = logits.gather(-1, emitted[:, None])[:, 0]
    return float(((logits.amax(-1) - own) / logits.std(-1)).max())


def scoring_memory(bench: Bench) -> Iterator[Measured]:
    """What scoring a long text takes beside the weights, and how long it takes."""
    chance = torch.Generator().manual_seed(2)
    row = {
        "prompt_id": "long",
        "sample": 0,
        "status": "ok",
        "prompt_token_ids": random_ids(bench.size, 64, chance),
        "token_ids": random_ids(bench.size, bench.size.positions, chance),
    }
    laws = {"decoding": SAMPLED, "unwarped": SAMPLED | {"top_p": 1.0}}
    pair = [(bench.draft, alignment(bench.size))]
    short = row | {"token_ids": row["token_ids"][:8]}
    score(bench.target, pair, [short], laws)  # what kernels keep for themselves is not counted
    cuda = bench.device.type == "cuda"
    if cuda:
        torch.cuda.empty_cache()
        before = torch.cuda.memory_allocated(bench.device)
        torch.cuda.reset_peak_memory_stats(bench.device)
    rows, seconds = _timed(bench, lambda: score(bench.target, pair, [row], laws))
    peak = (torch.cuda.max_memory_allocated(bench.device) - before) / GIB if cuda else None
    where = f"{bench.size.positions} positions, {bench.size.target.vocabulary} ids, 2 laws"
    detail = where if cuda else "only CUDA tells what was allocated"
    yield Measured("scoring, memory beside the weights", peak, "GiB", at_most=1.0, detail=detail)
    yield Measured("scoring", bench.size.positions / seconds, f"tokens a second, {where}")
    whole = [value for row in rows for value in row.values() if isinstance(value, np.ndarray)]
    full = sum(len(value) == bench.size.positions for value in whole) / len(whole)
    yield Measured("scoring, columns that are full", full, "share", at_least=1.0)


def live_loop(bench: Bench) -> Iterator[Measured]:
    """The loop with its caches on the device: right, and where its time goes."""
    target, draft = open_decoder(bench.target), open_decoder(bench.draft)
    for decoder, model in ((target, bench.target.model), (draft, bench.draft.model)):
        found, bound = probe.probe(decoder, model), probe.tolerance(model.dtype)
        name = f"cache of the {decoder.name}, {decoder.engine}"
        yield Measured(name, found, "standard deviations", at_most=bound)
    for gamma, law in ((0, GREEDY), (5, GREEDY), (5, SAMPLED)):
        drafter = ModelDraft(draft, law)
        texts, seconds = _timed(
            bench, lambda d=drafter, g=gamma, w=law: _texts(bench, target, d, g, w)
        )
        name = f"live, draft length {gamma}, {'greedy' if law is GREEDY else 'sampled'}"
        yield from _times(name, texts, seconds)
        if law is GREEDY:
            below = max(
                _below_best(bench.target, row) for row in map(_as_row, *_pairs(bench, texts))
            )
            bound = probe.tolerance(bench.target.model.dtype)
            yield Measured(f"{name}, below the best logit", below, "standard deviations", bound)


def _texts(bench: Bench, target, drafter, gamma: int, law: Mapping[str, float]) -> list[Decoded]:
    return [
        decode(
            target,
            drafter,
            prompt.token_ids,
            gamma=gamma,
            law=law,
            budget=bench.size.budget,
            eos_ids=frozenset(),
            rng=np.random.default_rng(0),
        )
        for _, prompt in random_prompts(bench.size)[:4]
    ]


def _pairs(bench: Bench, texts: Sequence[Decoded]) -> tuple[list[Any], list[Decoded]]:
    return [prompt for _, prompt in random_prompts(bench.size)[: len(texts)]], list(texts)


def _as_row(prompt: Any, text: Decoded) -> dict[str, Any]:
    return {"prompt_token_ids": prompt.token_ids, "token_ids": text.token_ids}


def _times(name: str, texts: Sequence[Decoded], seconds: float) -> Iterator[Measured]:
    rounds = [one for text in texts for one in text.rounds]
    later = [one for text in texts for one in text.rounds[1:]]  # the first reads the prompt
    tokens = sum(len(text.token_ids) for text in texts)
    yield Measured(name, tokens / seconds, "tokens a second")
    yield Measured(f"{name}, tokens a round", tokens / len(rounds), "tokens")
    for phase in ("draft", "verify", "sample", "other"):
        spent = [1000 * getattr(one, f"{phase}_seconds") for one in later]
        yield Measured(f"{name}, {phase}", statistics.median(spent), "ms a round, median")
    parts = sum(sum(one[-4:]) for one in rounds)
    yield Measured(f"{name}, phases of the whole", parts / seconds, "share", 1.0, 0.9)


def batched_loop(bench: Bench) -> Iterator[Measured]:
    """The loop over several texts at once, whose rows step back by different amounts."""
    target, draft = BatchedModel(bench.target), BatchedModel(bench.draft)
    bound = probe.tolerance(bench.target.model.dtype)
    found = ragged_probe(target, bench.target.model)
    yield Measured("cache of uneven rows", found, "standard deviations", at_most=bound)
    prompts = [prompt for _, prompt in random_prompts(bench.size)[:8]]
    start = time.perf_counter()
    texts = decode_batch(
        target,
        BatchedModelDraft(draft, GREEDY),
        [prompt.token_ids for prompt in prompts],
        gamma=5,
        law=GREEDY,
        budget=bench.size.budget,
        eos_ids=frozenset(),
        rngs=[np.random.default_rng(n) for n in range(len(prompts))],
    )
    tokens = sum(len(text.token_ids) for text in texts)
    unit = f"tokens a second, {len(texts)} texts"
    yield Measured("live in a batch, draft length 5", tokens / (time.perf_counter() - start), unit)
    below = max(_below_best(bench.target, row) for row in map(_as_row, prompts, texts))
    yield Measured("live in a batch, below the best logit", below, "standard deviations", bound)


# In the order of their worth, should the time run out.
CHECKS = (masks, scoring_memory, generation, live_loop, batched_loop)
