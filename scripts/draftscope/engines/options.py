"""What the caller says of a file that the file itself does not."""

from __future__ import annotations

from dataclasses import dataclass

from draftscope.engines.fields import Object
from draftscope.engines.requests import COUNTED, OMITTED


@dataclass(frozen=True)
class Options:
    """Attributes:
    prompt_id: dotted path of the field that names the prompt; None for the usual ones.
    draft_length: the engine's draft length, where the file does not say it.
    every_round_drafts: the draft offers tokens in every round, so that none can be left out.
    """

    prompt_id: str | None = None
    draft_length: int | None = None
    every_round_drafts: bool = False

    def length(self, source: Object, key: str, said: int | None) -> int | None:
        """The draft length, by the file or by the caller.

        Raises:
            UserError: they say different ones.
        """
        if said is None or self.draft_length in (None, said):
            return self.draft_length if said is None else said
        raise source.fault(
            key, f"is {said}, but --draft-length is {self.draft_length}; leave the option out"
        )

    def without_drafts(self, reported: str) -> str:
        """Are rounds without a draft in the file? As the format has it, or as the caller knows."""
        return COUNTED if self.every_round_drafts and reported == OMITTED else reported
