"""Where a training stands, in one file: weights, best weights, optimizer, history.

A run that was killed goes on from here to the same bits that it would have reached. The file
belongs to one training: its fingerprint covers everything that the weights depend on.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

log = logging.getLogger(__name__)

NAME = ".training.safetensors"
MOMENTS = ("exp_avg", "exp_avg_sq")


def save(
    path: Path,
    parameters: Mapping[str, torch.nn.Parameter],
    best: Mapping[str, torch.Tensor],
    optimizer: torch.optim.Optimizer,
    state: Mapping[str, Any],
    fingerprint: str,
) -> None:
    """Write the state, whole or not at all.

    Args:
        parameters: name -> parameter that is trained.
        best: name -> the values that are kept so far.
        state: what else there is, as JSON: step, history, ...
    """
    tensors = {}
    for name, parameter in parameters.items():
        tensors[f"now/{name}"] = parameter.detach()
        tensors[f"best/{name}"] = best[name]
        for moment in MOMENTS:
            found = optimizer.state.get(parameter, {}).get(moment)
            tensors[f"{moment}/{name}"] = torch.zeros_like(parameter) if found is None else found
    tensors = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    temporary = path.with_name(f"{path.name}.writing")
    save_file(tensors, temporary, {"state": json.dumps(state), "fingerprint": fingerprint})
    with open(temporary, "rb+") as file:
        os.fsync(file.fileno())
    os.replace(temporary, path)


def load(
    path: Path,
    parameters: Mapping[str, torch.nn.Parameter],
    best: dict[str, torch.Tensor],
    optimizer: torch.optim.Optimizer,
    fingerprint: str,
) -> dict[str, Any] | None:
    """Put a saved state back; None where there is none, or it belongs to another training."""
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            about = file.metadata() or {}
            if about.get("fingerprint") != fingerprint:
                log.info("%s belongs to another training and is left alone", path)
                return None
            state = json.loads(about["state"])
            # All of it first: what starts again must not start with half of a state.
            found = {
                (part, name): file.get_tensor(f"{part}/{name}").to(parameter.device)
                for name, parameter in parameters.items()
                for part in ("now", "best", *MOMENTS)
            }
            wrong = [n for n, p in parameters.items() if found["now", n].shape != p.shape]
            if wrong:
                raise KeyError(f"{wrong[0]} of another size")
    except (SafetensorError, OSError, KeyError) as error:
        log.warning("%s cannot be read (%s): training starts again", path, error)
        return None
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(found["now", name])
            best[name] = found["best", name]
            if state["step"]:
                moments = {moment: found[moment, name] for moment in MOMENTS}
                steps = {"step": torch.tensor(float(state["step"]))}
                optimizer.state[parameter] = steps | moments
    return state
