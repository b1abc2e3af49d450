"""The two halves of a causal language model: its body over a text, its head over some positions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from draftscope.errors import UserError

if TYPE_CHECKING:
    from draftscope.models import LoadedModel

_PROBE = 8  # tokens of the start-up check


def hidden_states(loaded: LoadedModel, token_ids: Tensor) -> Tensor:
    """Last hidden states [tokens, width] of one unpadded text, token_ids [tokens].

    An engine that does not show them gives its own stand-in, which can be sliced alike.
    """
    model = loaded.model
    if (unread := getattr(model, "unread", None)) is not None:
        return unread(loaded, token_ids)
    ids = token_ids.to(model.get_input_embeddings().weight.device)[None]
    return model.base_model(input_ids=ids, use_cache=False).last_hidden_state[0]


def logits_of(loaded: LoadedModel, hidden: Tensor) -> Tensor:
    """Logits [positions, V] of hidden states [positions, width], in the model's own precision.

    Some families bound or scale the output of the head (Gemma 2: tanh soft-capping, Cohere:
    multiplied, Granite: divided); the names are those of their configurations.
    """
    model = loaded.model
    if hasattr(model, "unread"):
        return hidden.logits()
    head = model.get_output_embeddings()
    logits = head(hidden.to(head.weight.device))
    config = model.config.get_text_config()
    if (scale := getattr(config, "logit_scale", None)) is not None:
        logits = logits * scale
    if (scale := getattr(config, "logits_scaling", None)) is not None:
        logits = logits / scale
    if (cap := getattr(config, "final_logit_softcapping", None)) is not None:
        logits = cap * torch.tanh(logits / cap)
    return logits


def check_halves(loaded: LoadedModel) -> bool:
    """Compare the two halves with the whole model on a short probe.

    Returns:
        False where the probe gave NaN or +inf, so that nothing could be compared; scoring then
        finds and names the positions.

    Raises:
        UserError: they differ, so this architecture cannot be scored position by position.
    """
    if hasattr(loaded.model, "unread"):
        return True  # it has no halves
    ids = torch.arange(min(_PROBE, loaded.vocabulary_size))
    with torch.inference_mode():
        halves = logits_of(loaded, hidden_states(loaded, ids)).float()
        whole = loaded.model(input_ids=ids[None].to(loaded.model.device)).logits[0].float()
    whole = whole.to(halves.device)
    # A logit of -inf masks an id, and two of them are equal; others cannot be compared.
    if any(bool((torch.isnan(side) | (side == torch.inf)).any()) for side in (halves, whole)):
        return False
    spread = float(whole[torch.isfinite(whole)].std())
    tolerance = 1e-3 if loaded.dtype == "float32" else 5e-2
    if not torch.allclose(halves, whole, rtol=tolerance, atol=tolerance * spread):
        raise UserError(
            f"{loaded.name}: its logits are not its output layer applied to its hidden states; "
            f"{type(loaded.model).__name__} cannot be scored"
        )
    return True
