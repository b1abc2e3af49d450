"""Load GPTQ checkpoints through gptqmodel, with a kernel that computes what the data type says.

gptqmodel offers several kernels for one checkpoint and takes the one it deems fastest. On a CPU
those that multiply packed 4-bit weights round activations to bfloat16, whatever data type the
model has. A float32 run would then not be one: measured on a 135M-parameter model, logits differ
by .11 standard deviations from the weights' own, and by .06 between reading a text at once and
piece by piece (1e-5 in float32), so that greedy speculative decoding gives other tokens. On a CPU,
and in float32 anywhere, the kernel is therefore `TorchLinear`, which multiplies in the model's own
type, with its dequantized weights kept: as fast and as large as the plain model (128 tokens a
second of one core in a batch of 16, where the packed kernels reach 175). In half precision on a
GPU the choice is gptqmodel's.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from draftscope import extras
from draftscope.errors import UserError

EXACT_BACKEND = "gptq_torch"
_KEEP_WEIGHTS = "GPTQ_TORCH_CACHE_WEIGHTS"


def needs_exact_kernel(dtype: torch.dtype, device: torch.device | str) -> bool:
    """True where the kernel must multiply in the data type of the model."""
    on_cpu = torch.device(device).type == "cpu" if device != "balanced" else False
    return on_cpu or dtype == torch.float32


@contextlib.contextmanager
def loading(
    config: Mapping[str, Any], name: str, dtype: torch.dtype | None, device: torch.device | str
) -> Iterator[dict[str, Any]]:
    """While a checkpoint is loaded: the arguments of `from_pretrained` that choose its kernel.

    Args:
        config: the checkpoint's config.json; its `quantization_config` says gptq.
        name: for messages.
        dtype: of the run; None takes the checkpoint's.
        device: where the model will run. Kernels differ by device, so it is loaded there.

    Raises:
        UserError: packages are missing, or no kernel takes such a checkpoint.
    """
    extras.require("gptq", name)
    stored = str(config.get("dtype", config.get("torch_dtype", "float16")))
    exact = needs_exact_kernel(dtype or getattr(torch, stored), device)
    with quiet(), environment({_KEEP_WEIGHTS: "1" if exact else "0"}):
        from transformers import GPTQConfig

        chosen = GPTQConfig(
            bits=config["quantization_config"].get("bits", 4),
            backend=EXACT_BACKEND if exact else "auto",
        )
        spread = "balanced" if device == "balanced" else {"": device}
        try:
            yield {"quantization_config": chosen, "device_map": spread}
        # NotImplementedError is how gptqmodel says that no kernel of its fits; anything else goes on.
        except (NotImplementedError, ValueError) as error:
            if "quant" not in str(error).lower() and "kernel" not in str(error).lower():
                raise
            reason = str(error).splitlines()[0]
            raise UserError(
                f"model {name}: no kernel of gptqmodel takes this checkpoint as {dtype} on "
                f"{device}: {reason}"
            ) from error


@torch.no_grad()
def keep_weights(model: Any) -> None:
    """Dequantize once, now: the first pass is then as fast as the others.

    gptqmodel would compile the dequantization, for which it needs a C++ compiler at run time and
    more seconds than the one call that is made takes.
    """
    model.eval()
    dtype = model.get_input_embeddings().weight.dtype
    with torch.compiler.set_stance("force_eager"):
        for layer in layers(model):
            if getattr(layer, "_cache_enabled", False):
                layer(torch.zeros(1, layer.in_features, dtype=dtype, device=layer.qweight.device))


def layers(model: Any) -> list[Any]:
    """The quantized linear layers of a model."""
    return [module for module in model.modules() if hasattr(module, "qweight")]


def kernel(model: Any) -> str | None:
    """Backend and class of the layers that really run; None where none is quantized."""
    found = {
        f"{getattr(layer.backend, 'value', layer.backend)} {type(layer).__name__}"
        for layer in layers(model)
    }
    return " + ".join(sorted(found)) or None


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep gptqmodel's banner, bars and advice off the terminal; errors still rise.

    What it installs to log with would outlive the call, and point nowhere: it is taken away.
    """
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    nowhere = _Nowhere()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in ("torch.utils._pytree", "torchao", "tokenicer"):
            logging.getLogger(name).setLevel(logging.ERROR)
        try:
            with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
                yield
        finally:
            for handler in set(root.handlers) - set(handlers):
                root.removeHandler(handler)
            root.setLevel(level)


class _Nowhere(io.TextIOBase):
    """Takes text and drops it; unlike a closed file, it can be written to at any time."""

    def write(self, text: str) -> int:
        return len(text)


@contextlib.contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Environment variables for a while; gptqmodel reads its settings there."""
    before = {key: os.environ.get(key) for key in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value
