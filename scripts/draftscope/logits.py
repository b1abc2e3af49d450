"""The two halves of a causal language model: its body over a text, its head over some positions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from draftscope.errors import UserError

if TYPE_CHECKING:
    from draftscope.models import LoadedModel

_PROBE = 8  # tokens of the start-up check
# Most positions that a feed-forward layer reads at one time. It makes each of them some five times
# as wide, thrice over: for a text of 16,000 tokens a 7B model would take 1.8 GiB there alone.
FEED_FORWARD_ROWS = 2048


def hidden_states(loaded: LoadedModel, token_ids: Tensor) -> Tensor:
    """Last hidden states [tokens, width] of one unpadded text, token_ids [tokens].

    The feed-forward layers read a long text in parts, unless gradients are asked for. An engine
    that does not show its states gives its own stand-in, which can be sliced alike.
    """
    model = loaded.model
    if (unread := getattr(model, "unread", None)) is not None:
        return unread(loaded, token_ids)
    ids = token_ids.to(model.get_input_embeddings().weight.device)[None]
    with _feed_forward_in_parts(model.base_model, len(token_ids)):
        return model.base_model(input_ids=ids, use_cache=False).last_hidden_state[0]


@contextmanager
def _feed_forward_in_parts(body: Any, tokens: int) -> Iterator[None]:
    """Have the layers that treat every position alike read no more than so many at a time."""
    long = tokens > FEED_FORWARD_ROWS and not torch.is_grad_enabled()
    layers = [layer.mlp for layer in getattr(body, "layers", ()) if hasattr(layer, "mlp")]
    before = [(layer, layer.forward, vars(layer).get("forward")) for layer in layers if long]
    for layer, forward, _ in before:
        layer.forward = partial(_by_parts, forward)
    try:
        yield
    finally:
        for layer, _, own in before:
            if own is None:
                del layer.forward
            else:  # somebody else had put one there, such as what spreads a model over devices
                layer.forward = own


def _by_parts(forward: Callable[[Tensor], Any], states: Tensor) -> Any:
    first, *rest = states.split(FEED_FORWARD_ROWS, -2)
    out = forward(first)
    if not isinstance(out, Tensor):  # it gives more than states, as a mixture of experts does
        return forward(states)
    return torch.cat([out, *map(forward, rest)], -2)


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


def bare_head(model: Any) -> Any | None:
    """The output layer, when the logits are its output and nothing else."""
    config = model.config.get_text_config()
    scaled = ("logit_scale", "logits_scaling", "final_logit_softcapping")
    if any(getattr(config, name, None) is not None for name in scaled):
        return None
    return model.get_output_embeddings()


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
