"""Train a draft on the target's texts: AdamW, early stopping on held-out prompts, resumable."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from draftscope.errors import UserError
from draftscope.logits import hidden_states, logits_of
from draftscope.progress import progress
from draftscope.training import checkpoint
from draftscope.training.examples import Example, batch
from draftscope.training.loss import accumulate, blocks, divergence, mean_and_match
from draftscope.training.teacher import Teacher

if TYPE_CHECKING:
    from draftscope.models import LoadedModel

log = logging.getLogger(__name__)

BETAS, CLIP, LOWEST = (0.9, 0.95), 1.0, 0.1


@dataclass(frozen=True)
class Plan:
    """How long and how fast; see `training.rows.Train`."""

    steps: int
    batch: int
    lr: float
    warm_up: int
    evaluate_every: int
    patience: int
    seed: int

    def rate(self, step: int) -> float:
        """Learning rate of a step, from 0: linear to `lr`, then a cosine to a tenth of it."""
        if step < self.warm_up:
            return self.lr * (step + 1) / self.warm_up
        done = (step - self.warm_up) / max(self.steps - self.warm_up, 1)
        return self.lr * (LOWEST + (1 - LOWEST) * (1 + math.cos(math.pi * done)) / 2)


class Trainer:
    """One training: a draft, its teacher, the texts and the weight of each of their positions.

    Args:
        draft: its parameters with `requires_grad` are trained, in float32.
        masked_ids: ids that the draft must not emit.
        weights: of each training text, [positions].
        narrow: type that passes are computed in, by autocast; None for float32.
    """

    def __init__(
        self,
        draft: LoadedModel,
        teacher: Teacher,
        texts: Sequence[Example],
        held_out: Sequence[Example],
        weights: Sequence[np.ndarray],
        plan: Plan,
        masked_ids: Sequence[int] = (),
        narrow: torch.dtype | None = None,
    ) -> None:
        self.draft, self.teacher, self.plan = draft, teacher, plan
        self.texts, self.held_out = list(texts), list(held_out)
        self.device = draft.device
        self.weights = [torch.as_tensor(w, dtype=torch.float32).to(self.device) for w in weights]
        self.masked = torch.tensor(sorted(masked_ids), dtype=torch.long, device=self.device)
        self.masked = self.masked[self.masked < draft.head_size]
        self.width = max(draft.head_size, teacher.loaded.head_size)
        self.narrow = narrow
        self.parameters = {
            name: value for name, value in draft.model.named_parameters() if value.requires_grad
        }
        if not self.parameters:
            raise ValueError("nothing of the draft can be trained")
        self.optimizer = torch.optim.AdamW(
            self.parameters.values(), lr=plan.lr, betas=BETAS, weight_decay=0.0
        )
        self.best: dict[str, Tensor] = {}
        self.state: dict[str, Any] = {"step": 0, "tokens": 0, "since": 0, "history": []}

    def run(self, path: Path | None = None, fingerprint: str = "") -> list[dict[str, Any]]:
        """Train until the held-out texts stop improving; the draft then has its best weights.

        Args:
            path: where the checkpoint is kept while training runs; None keeps none.
            fingerprint: what the checkpoint must be of.

        Returns:
            Rows of schema training_history.

        Raises:
            UserError: the loss is not a number: the learning rate is too high.
        """
        plan = self.plan
        found = path and checkpoint.load(
            path, self.parameters, self.best, self.optimizer, fingerprint
        )
        if found:
            self.state = found
            log.info("going on from step %d of %d", found["step"], plan.steps)
        visits = [len(text.emitted) for text in self.texts]
        total = sum(visits[place] for step in range(plan.steps) for place in self._batch(step))
        with progress(total, f"training {self.draft.name}") as reporter:
            reporter.drop(self.state["tokens"])
            if not self.state["history"]:
                self._look(None)
                self._save(path, fingerprint)
            losses: list[float] = []
            while self.state["step"] < plan.steps and self.state["since"] < plan.patience:
                losses.append(self._step())
                reporter.update(sum(visits[place] for place in self._batch(self.state["step"] - 1)))
                step = self.state["step"]
                if step % plan.evaluate_every == 0 or step == plan.steps:
                    self._look(float(np.mean(losses)))
                    losses.clear()
                    self._save(path, fingerprint)
            reporter.drop(total - self.state["tokens"])
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(self.best[name])
        kept = max(row["step"] for row in self.state["history"] if row["best"])
        return [row | {"best": row["step"] == kept} for row in self.state["history"]]

    def _batch(self, step: int) -> list[int]:
        return batch(len(self.texts), self.plan.batch, step, self.plan.seed)

    def _step(self) -> float:
        step = self.state["step"]
        places = self._batch(step)
        count = sum(len(self.texts[place].emitted) for place in places)
        self.optimizer.zero_grad(set_to_none=True)
        loss = 0.0
        for place in places:
            text = self.texts[place]
            states = self.teacher.states(text)

            def compare(own: Tensor, block: slice, states: Tensor = states) -> Tensor:
                log_p = self.teacher.log_p(states[block]).to(self.device)
                return divergence(log_p, logits_of(self.draft, own), self.masked)

            with self._autocast():
                hidden = self._hidden(text)
                loss += accumulate(hidden, self.weights[place], count, self.width, compare)
        if not math.isfinite(loss):
            raise UserError(
                f"training {self.draft.name}: the loss is {loss} at step {step}; lower the learning "
                f"rate (train.lr, now {self.plan.lr:g})"
            )
        torch.nn.utils.clip_grad_norm_(self.parameters.values(), CLIP)
        for group in self.optimizer.param_groups:
            group["lr"] = self.plan.rate(step)
        self.optimizer.step()
        self.state["step"] = step + 1
        self.state["tokens"] += count
        return loss

    def _autocast(self) -> Any:
        if self.narrow is None:
            return nullcontext()
        return torch.autocast(self.device.type, self.narrow)

    def _hidden(self, text: Example) -> Tensor:
        ids = torch.tensor([*text.prompt, *text.emitted][:-1], dtype=torch.long)
        return hidden_states(self.draft, ids)[len(text.prompt) - 1 :]

    @torch.no_grad()
    def evaluate(self, texts: Sequence[Example]) -> tuple[float, float]:
        """Mean KL in nats, and share of positions where draft and target have the same argmax."""
        pairs = []
        for text in texts:
            states = self.teacher.states(text)
            with self._autocast():
                hidden = self._hidden(text)
                for block in blocks(len(states), self.width):
                    log_p = self.teacher.log_p(states[block]).to(self.device)
                    logits = logits_of(self.draft, hidden[block])
                    if len(self.masked):
                        logits = logits.index_fill(-1, self.masked, -torch.inf)
                    same = log_p.argmax(-1) == logits.argmax(-1)
                    pairs.append((divergence(log_p, logits, self.masked), same))
        return mean_and_match(pairs)

    def _look(self, loss: float | None) -> None:
        """Measure the held-out texts and keep the weights if they are the best so far."""
        kl, match = self.evaluate(self.held_out)
        step = self.state["step"]
        lowest = min((row["held_out_kl"] for row in self.state["history"]), default=math.inf)
        better = kl < lowest
        if better:
            self.best = {n: p.detach().clone() for n, p in self.parameters.items()}
        self.state["since"] = 0 if better else self.state["since"] + 1
        self.state["history"].append(
            {
                "step": step,
                "tokens": self.state["tokens"],
                "training_loss": loss,
                "held_out_kl": kl,
                "held_out_match": match,
                "rate": self.plan.rate(max(step - 1, 0)) if step else 0.0,
                "best": better,
            }
        )
        log.info("%s, step %d of %d: held-out KL %.4f nats, same argmax %.3f",
                 self.draft.name, step, self.plan.steps, kl, match)  # fmt: skip

    def _save(self, path: Path | None, fingerprint: str) -> None:
        if path is not None:
            checkpoint.save(
                path, self.parameters, self.best, self.optimizer, self.state, fingerprint
            )


def free_body(model: Any) -> None:
    """Let everything but the embedding and the output head be trained, in place.

    They are most of a small draft, one tensor where they are tied, and already the target's where
    the draft is cut out of it.
    """
    model.requires_grad_(True)
    for part in (model.get_input_embeddings(), model.get_output_embeddings()):
        if part is not None:
            part.requires_grad_(False)


def recompute_activations(model: Any) -> None:
    """Keep the inputs of layers alone and compute the rest again on the way back, in place.

    The memory of a step then grows with the width of a layer and no longer with all that a layer
    holds; a step takes a third longer and gives the same numbers. The layers do so in training mode
    only, which differs from evaluation by dropout: there must be none.

    Raises:
        UserError: the model has dropout.
    """
    config = model.config.get_text_config()
    dropout = [key for key, value in vars(config).items() if "dropout" in key and value]
    dropout += [n for n, m in model.named_modules() if isinstance(m, torch.nn.Dropout) and m.p]
    if dropout:
        raise UserError(
            f"training.recompute: {type(model).__name__} has dropout ({dropout[0]}), which training "
            "mode would switch on; set it to false"
        )
    model.activation_checkpointing_enable({"use_reentrant": False})
    model.train()
