"""A pair opened as the live scripts decode with it: one text at a time, or several together."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from draftscope import models
from draftscope.drafters import LIVE, of_text
from draftscope.drafters.model import Drafter, TextDraft
from draftscope.errors import UserError
from draftscope.live.batched_draft import BatchedDrafter, BatchedModelDraft, SeparateDrafts
from draftscope.live.batched_model import BatchedModel
from draftscope.live.run import model_draft
from draftscope.models import LoadedModel
from draftscope.models.vocabulary import Alignment, align


@dataclass(frozen=True)
class OpenPair:
    """Target and draft, and the law that both decode under.

    Drafts without a vocabulary of their own, of the text or of blocks, have no alignment.
    `drafting` says how a block drafter chooses its tokens: argmax or sampled.
    """

    target: LoadedModel
    draft: LoadedModel
    law: Mapping[str, float]
    alignment: Alignment | None
    drafting: str = "argmax"

    def drafter(self) -> Drafter:
        """What drafts for one text."""
        if self._reads_states:
            module = importlib.import_module(LIVE[self.draft.kind])
            return module.open_draft(self.draft, self.target, self.law, self.drafting)
        if self.alignment is None:
            return self._text_draft()
        return model_draft(self.draft, self.alignment, self.law)

    def batched_drafter(self) -> BatchedDrafter:
        """What drafts for several texts at once.

        Raises:
            UserError: a block drafter, which reads the target's states of one text.
        """
        if self._reads_states:
            raise UserError(
                f"draft {self.draft.name} of kind {self.draft.kind} drafts for one text at a time; "
                "set batch_size to 1"
            )
        if self.alignment is None:
            return SeparateDrafts(self._text_draft)
        return BatchedModelDraft(BatchedModel(self.draft), self.law, self.alignment.masked_ids)

    @property
    def _reads_states(self) -> bool:
        """Whether the draft is a block drafter, which reads the target's hidden states."""
        return self.draft.kind in LIVE

    def _text_draft(self) -> TextDraft:
        proposer = of_text.proposer(self.draft.settings, self.target.condition("target"))
        return TextDraft(proposer, self.draft.name)

    def condition(self) -> dict[str, Any]:
        """What of both models belongs to every number measured with them."""
        own = {"drafting": self.drafting} if self._reads_states else {}
        return self.target.condition("target") | self.draft.condition("draft") | own


def open_pair(settings: Mapping[str, Any], target: str, draft: str) -> OpenPair:
    """Load a pair.

    Args:
        settings: device, dtype, attention, draft_dtype (None: the target's), law,
            allow_special_differences; drafting, of a block drafter.
        target, draft: paths of model.json.

    Raises:
        UserError: as `models.load` and `align`.
    """
    where, attention = settings["device"], settings["attention"]
    loaded = models.load(target, where, settings["dtype"], attention)
    other = models.load(draft, where, settings["draft_dtype"] or settings["dtype"], attention)
    alignment = None
    if other.tokenizer is not None:
        alignment = align(loaded, other, settings["allow_special_differences"])
    drafting = settings.get("drafting", "argmax")
    return OpenPair(loaded, other, settings["law"], alignment, drafting)
