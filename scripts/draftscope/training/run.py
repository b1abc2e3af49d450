"""The course of a training: steps, looks at held-out texts, checkpoints, the end."""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from draftscope.errors import UserError
from draftscope.progress import progress
from draftscope.training import checkpoint
from draftscope.training.examples import batch

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


class Run(ABC):
    """Steps of AdamW over the texts until the held-out ones stop improving; it can be killed.

    What a step does and what a look measures are the subclass's.

    Args:
        name: of what is trained, in messages.
        parameters: name -> parameter to train, in float32.
        visits: positions of each training text, for the progress bar.
        narrow: type that passes are computed in, by autocast; None for float32.
        decay: of AdamW, decoupled.
    """

    def __init__(
        self,
        name: str,
        parameters: Mapping[str, torch.nn.Parameter],
        visits: list[int],
        plan: Plan,
        device: torch.device,
        narrow: torch.dtype | None = None,
        decay: float = 0.0,
    ) -> None:
        if not parameters:
            raise ValueError("nothing of the draft can be trained")
        self.name, self.parameters, self.plan = name, dict(parameters), plan
        self.visits, self.device, self.narrow = visits, device, narrow
        self.optimizer = torch.optim.AdamW(
            self.parameters.values(), lr=plan.lr, betas=BETAS, weight_decay=decay
        )
        self.best: dict[str, Tensor] = {}
        self.state: dict[str, Any] = {"step": 0, "tokens": 0, "since": 0, "history": []}

    @abstractmethod
    def loss(self, places: list[int]) -> float:
        """Add the gradient of the mean loss of these training texts; returns its value."""

    @abstractmethod
    def look(self) -> tuple[dict[str, float], float, str]:
        """Measure the held-out texts: columns of the history, a score (lower is better), words."""

    def run(self, path: Path | None = None, fingerprint: str = "") -> list[dict[str, Any]]:
        """Train until the held-out texts stop improving; the best weights are then in place.

        Args:
            path: where the checkpoint is kept while training runs; None keeps none.
            fingerprint: what the checkpoint must be of.

        Returns:
            Rows of the history, one a look.

        Raises:
            UserError: the loss is not a number: the learning rate is too high, or the model that
                training starts from gives none.
        """
        plan = self.plan
        found = path and checkpoint.load(
            path, self.parameters, self.best, self.optimizer, fingerprint
        )
        if found:
            self.state = found
            log.info("going on from step %d of %d", found["step"], plan.steps)
        visits = self.visits
        total = sum(visits[place] for step in range(plan.steps) for place in self._batch(step))
        with progress(total, f"training {self.name}") as reporter:
            reporter.drop(self.state["tokens"])
            if not self.state["history"]:
                reporter.note(self._look(None))
                self._save(path, fingerprint)
            losses: list[float] = []
            while self.state["step"] < plan.steps and self.state["since"] < plan.patience:
                losses.append(self._step())
                reporter.update(sum(visits[place] for place in self._batch(self.state["step"] - 1)))
                step = self.state["step"]
                if step % plan.evaluate_every == 0 or step == plan.steps:
                    reporter.note(self._look(float(np.mean(losses))))
                    losses.clear()
                    self._save(path, fingerprint)
            reporter.drop(total - self.state["tokens"])
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(self.best[name])
        kept = max(row["step"] for row in self.state["history"] if row["best"])
        return [row | {"best": row["step"] == kept} for row in self.state["history"]]

    def _batch(self, step: int) -> list[int]:
        return batch(len(self.visits), self.plan.batch, step, self.plan.seed)

    def _step(self) -> float:
        step = self.state["step"]
        places = self._batch(step)
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(places)
        if not math.isfinite(loss):
            raise UserError(
                f"training {self.name}: the loss is {loss} at step {step}; lower the learning "
                f"rate (train.lr, now {self.plan.lr:g})"
            )
        torch.nn.utils.clip_grad_norm_(self.parameters.values(), CLIP)
        for group in self.optimizer.param_groups:
            group["lr"] = self.plan.rate(step)
        self.optimizer.step()
        self.state["step"] = step + 1
        self.state["tokens"] += sum(self.visits[place] for place in places)
        return loss

    def autocast(self) -> Any:
        """Where passes of what is trained are computed."""
        if self.narrow is None:
            return nullcontext()
        return torch.autocast(self.device.type, self.narrow)

    def _look(self, loss: float | None) -> str:
        """Measure the held-out texts and keep the weights if they are the best so far; in words."""
        columns, score, words = self.look()
        step = self.state["step"]
        if not self.state["history"] and not math.isfinite(score):
            raise UserError(
                f"training {self.name}: before the first step the held-out texts say {words}; the model "
                "that it starts from has weights that are no numbers, or is too wide for the dtype"
            )
        better = score < self.state.get("lowest", math.inf)
        if better:
            self.best = {n: p.detach().clone() for n, p in self.parameters.items()}
            self.state["lowest"] = score
        self.state["since"] = 0 if better else self.state["since"] + 1
        self.state["history"].append(
            {
                "step": step,
                "tokens": self.state["tokens"],
                "training_loss": loss,
                **columns,
                "rate": self.plan.rate(max(step - 1, 0)) if step else 0.0,
                "best": better,
            }
        )
        log.info("%s, step %d of %d: %s", self.name, step, self.plan.steps, words)
        return words

    def _save(self, path: Path | None, fingerprint: str) -> None:
        if path is not None:
            checkpoint.save(
                path, self.parameters, self.best, self.optimizer, self.state, fingerprint
            )
