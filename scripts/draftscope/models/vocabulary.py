"""Can this draft speak for this target? Vocabularies are compared by content, token by token.

Two heads may be wider than their tokenizers, by different amounts, and the sizes in a
configuration say nothing about which string an id stands for. What decides is the string of
every id below the tokenizer's length.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from draftscope.errors import UserError
from draftscope.models.loaded import LoadedModel


@dataclass(frozen=True)
class Alignment:
    """How the ids of a draft's head relate to the ids of a target's head.

    Ids below `common_size` stand for the same string on both sides, except the masked ones.
    A draft probability on an id the target's head does not have meets p = 0, so it is rejected,
    never an index error; a target probability on `unemittable_ids` meets q = 0.

    Attributes:
        vocabulary_size: length of the target's tokenizer.
        common_size: ids that both tokenizers have.
        target_head: width of the target's logits.
        draft_head: width of the draft's logits.
        differing: (id, target's string, draft's string) of special tokens that differ; a string
            is None where that tokenizer ends before the id.
        masked_ids: ids of the draft's head to set to -inf before its softmax, because the draft
            means something else by them.
    """

    vocabulary_size: int
    common_size: int
    target_head: int
    draft_head: int
    differing: tuple[tuple[int, str | None, str | None], ...] = ()
    masked_ids: tuple[int, ...] = ()

    @property
    def union_size(self) -> int:
        """Width that holds both heads; each side is padded to it with -inf logits."""
        return max(self.target_head, self.draft_head)

    @property
    def unemittable_ids(self) -> tuple[int, ...]:
        """Ids of the target's head that the draft cannot emit: masked, or beyond its head."""
        beyond = range(self.draft_head, self.target_head)
        return tuple(i for i in self.masked_ids if i < self.target_head) + tuple(beyond)


def align(target: LoadedModel, draft: LoadedModel, allow_special: bool = False) -> Alignment:
    """Compare two tokenizers by content.

    Args:
        allow_special: accept differing special (added) tokens, and mask them for the draft.

    Raises:
        UserError: an ordinary token differs, or a special one and that is not allowed; names the
            first differing id and both strings.
    """
    if draft.tokenizer is None:  # prompt lookup copies the target's own ids
        return Alignment(
            target.vocabulary_size, target.vocabulary_size, target.head_size, target.head_size
        )
    differing = _differences(target, draft)
    special = _special_ids(target.tokenizer) | _special_ids(draft.tokenizer)
    pair = f"draft {draft.name} and target {target.name}"
    for identity, ours, theirs in differing:
        if identity not in special:
            raise UserError(
                f"{pair} have different vocabularies: id {identity} is {ours!r} for the target "
                f"and {theirs!r} for the draft; use a draft with the target's tokenizer"
            )
    if differing and not allow_special:
        identity, ours, theirs = differing[0]
        raise UserError(
            f"{pair} differ in {len(differing)} special tokens, first at id {identity}: {ours!r} "
            f"for the target and {theirs!r} for the draft; set allow_special_differences: true "
            "for the pair to mask them"
        )
    masked = tuple(i for i, _, theirs in differing if theirs is not None and i < draft.head_size)
    return Alignment(
        vocabulary_size=target.vocabulary_size,
        common_size=min(target.vocabulary_size, draft.vocabulary_size),
        target_head=target.head_size,
        draft_head=draft.head_size,
        differing=tuple(differing),
        masked_ids=masked,
    )


def _differences(
    target: LoadedModel, draft: LoadedModel
) -> list[tuple[int, str | None, str | None]]:
    if target.tokenizer_sha256 is not None and target.tokenizer_sha256 == draft.tokenizer_sha256:
        return []
    size = max(target.vocabulary_size, draft.vocabulary_size)
    ours, theirs = _strings(target.tokenizer, size), _strings(draft.tokenizer, size)
    return [
        (identity, a, b) for identity, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b
    ]


def _strings(tokenizer: Any, size: int) -> list[str | None]:
    strings: list[str | None] = list(tokenizer.convert_ids_to_tokens(range(len(tokenizer))))
    return strings + [None] * (size - len(strings))


def _special_ids(tokenizer: Any) -> set[int]:
    """Ids outside the learned vocabulary: added tokens, such as the marks of a chat template."""
    return set(tokenizer.added_tokens_decoder) | set(tokenizer.all_special_ids)
