"""Train a draft on the target's texts: AdamW, early stopping on held-out prompts, resumable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from draftscope.errors import UserError
from draftscope.logits import hidden_states, logits_of
from draftscope.training.examples import Example
from draftscope.training.loss import accumulate, blocks, divergence, mean_and_match
from draftscope.training.run import Plan, Run
from draftscope.training.teacher import Teacher

if TYPE_CHECKING:
    from draftscope.models import LoadedModel


class Trainer(Run):
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
        super().__init__(
            draft.name,
            {n: value for n, value in draft.model.named_parameters() if value.requires_grad},
            [len(text.emitted) for text in texts],
            plan,
            draft.device,
            narrow,
        )
        self.draft, self.teacher = draft, teacher
        self.texts, self.held_out = list(texts), list(held_out)
        self.weights = [torch.as_tensor(w, dtype=torch.float32).to(self.device) for w in weights]
        self.masked = torch.tensor(sorted(masked_ids), dtype=torch.long, device=self.device)
        self.masked = self.masked[self.masked < draft.head_size]
        self.width = max(draft.head_size, teacher.loaded.head_size)

    def loss(self, places: list[int]) -> float:
        count, loss = sum(self.visits[place] for place in places), 0.0
        for place in places:
            text = self.texts[place]
            states = self.teacher.states(text)

            def compare(own: Tensor, block: slice, states: Tensor = states) -> Tensor:
                log_p = self.teacher.log_p(states[block]).to(self.device)
                return divergence(log_p, logits_of(self.draft, own), self.masked)

            with self.autocast():
                hidden = self._hidden(text)
                loss += accumulate(hidden, self.weights[place], count, self.width, compare)
        return loss

    def look(self) -> tuple[dict[str, float], float, str]:
        kl, match = self.evaluate(self.held_out)
        words = f"held-out KL {kl:.4f} nats, same argmax {match:.3f}"
        return {"held_out_kl": kl, "held_out_match": match}, kl, words

    def _hidden(self, text: Example) -> Tensor:
        ids = torch.tensor([*text.prompt, *text.emitted][:-1], dtype=torch.long)
        return hidden_states(self.draft, ids)[len(text.prompt) - 1 :]

    @torch.no_grad()
    def evaluate(self, texts: Sequence[Example]) -> tuple[float, float]:
        """Mean KL in nats, and share of positions where draft and target have the same argmax."""
        pairs = []
        for text in texts:
            states = self.teacher.states(text)
            with self.autocast():
                hidden = self._hidden(text)
                for block in blocks(len(states), self.width):
                    log_p = self.teacher.log_p(states[block]).to(self.device)
                    logits = logits_of(self.draft, hidden[block])
                    if len(self.masked):
                        logits = logits.index_fill(-1, self.masked, -torch.inf)
                    same = log_p.argmax(-1) == logits.argmax(-1)
                    pairs.append((divergence(log_p, logits, self.masked), same))
        return mean_and_match(pairs)


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
