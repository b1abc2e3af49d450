"""Record the target's distributions along its text, and how far each draft is from them.

One teacher-forced pass of the target and one of each draft, in float64 from the logits on; the
matrix of [positions, vocabulary] exists for a few positions at a time. Of the target the largest
probabilities stay, as many as the exact certificate of every criterion takes, up to all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from draftscope.certificates.functions import evaluate
from draftscope.criteria import Criterion
from draftscope.errors import UserError
from draftscope.logits import check_halves, hidden_states, logits_of
from draftscope.progress import progress
from draftscope.sampling import BadLogits, log_law
from draftscope.scoring import check_readable

if TYPE_CHECKING:
    from draftscope.models import LoadedModel
    from draftscope.models.vocabulary import Alignment

UNWARPED = {"temperature": 1.0, "top_k": 0, "top_p": 1.0}
LARGEST_BLOCK = 3_000_000  # numbers of one matrix of float64, 24 MB
DEEPER = 8
Columns = dict[str, Any]


def record(
    target: LoadedModel,
    drafts: Sequence[tuple[LoadedModel, Alignment]],
    trajectories: Sequence[Mapping[str, Any]],
    criteria: Sequence[Criterion],
    depth: int,
    position_chunk: int,
) -> tuple[list[Columns], list[Columns]]:
    """Columns of the schemas `certificate_targets` and `certificate_drafts`, a part a text.

    Args:
        drafts: draft models with their alignment to the target's vocabulary.
        trajectories: rows of schema trajectories; skipped and empty ones give no part.
        criteria: their exact values decide how many probabilities are kept.
        depth: how many are kept at least.
        position_chunk: most positions whose logits exist at one time.

    Raises:
        UserError: NaN logits, or ids and lengths that a model cannot read.
    """
    unprobed = []
    for model in (target, *(draft for draft, _ in drafts)):
        if model.model is None:
            raise UserError(
                f"{model.name} ({model.kind}) has no distribution at each position, so no KL"
            )
        if not check_halves(model):
            unprobed.append(model.name)
        for row in trajectories:
            check_readable(model, row)
    usable = [row for row in trajectories if row["status"] == "ok" and len(row["token_ids"])]
    of_target, of_drafts = [], []
    total = sum(len(row["token_ids"]) for row in usable)
    with torch.inference_mode(), progress(total, f"recording {target.name}") as reporter:
        for row in usable:
            one, several = _text(target, drafts, row, criteria, depth, position_chunk)
            of_target.append(one)
            of_drafts += several
            reporter.update(len(row["token_ids"]))
    if unprobed:  # no text met the fault, yet nothing vouches for the two halves of the model
        raise UserError(
            f"NaN or +inf in the logits of {unprobed[0]} for a text of its first token ids, "
            "though in none of these texts: its weights are damaged, or overflow in this dtype"
        )
    return of_target, of_drafts


def log_likelihoods(
    target: LoadedModel, row: Mapping[str, Any], position_chunk: int
) -> tuple[np.ndarray, np.ndarray]:
    """Of each emitted token: its log-probability at T=1 [n], and whether it is argmax p [n].

    Args:
        row: prompt_id, sample, status, prompt_token_ids, token_ids.

    Raises:
        UserError: as `record`.
    """
    check_readable(target, row)
    log_p, best = [], []
    with torch.inference_mode():
        for start, ids, logits in _chunks([target], row, position_chunk):
            own = _log_p(target, logits[0], row, start)
            log_p.append(own.gather(-1, ids[:, None])[:, 0].cpu().numpy())
            best.append((logits[0].argmax(-1) == ids).cpu().numpy())
    return np.concatenate(log_p), np.concatenate(best)


def _chunks(models: Sequence[LoadedModel], row: Mapping[str, Any], position_chunk: int):
    """(first position, emitted ids [n], logits [n, V] of each model), a few positions at a time."""
    prompt, emitted = list(row["prompt_token_ids"]), list(row["token_ids"])
    # The state at the last prompt token predicts generated position 0; the last token is not read.
    read = torch.tensor([*prompt, *emitted][:-1], dtype=torch.long)
    hidden = [hidden_states(model, read)[len(prompt) - 1 :] for model in models]
    width = max(model.head_size for model in models)
    rows = max(1, min(position_chunk, LARGEST_BLOCK // width))
    for start in range(0, len(emitted), rows):
        part = slice(start, start + rows)
        logits = [_exact(logits_of(m, h[part])) for m, h in zip(models, hidden, strict=True)]
        yield start, torch.tensor(emitted[part]).to(logits[0].device), logits


def _exact(logits: Tensor) -> Tensor:
    """Logits where there is float64; Apple's GPUs have none."""
    return logits.cpu() if logits.device.type == "mps" else logits


def _log_p(model: LoadedModel, logits: Tensor, row: Mapping[str, Any], start: int) -> Tensor:
    """Log-probabilities at T=1 in float64; a fault names the model, the prompt, the position."""
    try:
        return log_law(logits.double(), **UNWARPED)
    except BadLogits as fault:
        raise UserError(
            f"{fault.what} in the logits of {model.name}: prompt {row['prompt_id']}, sample "
            f"{row['sample']}, generated position {start + fault.index[0]}"
        ) from fault


def _text(target, drafts, row, criteria, depth, position_chunk):
    """The parts of one text: of the target, and of each draft."""
    parts: dict[str, list[Columns]] = {draft.name: [] for draft, _ in drafts}
    own: list[Columns] = []
    models = [target, *(draft for draft, _ in drafts)]
    for start, ids, logits in _chunks(models, row, position_chunk):
        log_p = _log_p(target, logits[0], row, start)
        p = log_p.exp()
        entropy = torch.special.entr(p).sum(-1)
        own.append(
            {
                "token_id": ids.cpu().numpy(),
                "log_p": log_p.gather(-1, ids[:, None])[:, 0].cpu().numpy(),
                "entropy": entropy.cpu().numpy(),
                "top": kept(p, entropy, criteria, depth),
            }
        )
        best = logits[0].argmax(-1)
        for (draft, alignment), seen in zip(drafts, logits[1:], strict=True):
            seen = seen.to(p.device)
            masked = torch.tensor(sorted(alignment.masked_ids), dtype=torch.long, device=p.device)
            masked = masked[masked < seen.shape[-1]]
            if len(masked):
                seen = seen.index_fill(-1, masked, -torch.inf)
            log_q = _log_p(draft, seen, row, start)
            parts[draft.name].append(compare(p, log_p, seen, log_q, best))
    key = {name: row[name] for name in ("prompt_id", "sample")}
    key["position"] = np.arange(len(row["token_ids"]), dtype=np.int32)
    width = {"vocabulary": np.full(len(row["token_ids"]), target.head_size, np.int32)}
    return (
        key | width | _joined(own),
        [key | {"draft": name} | _joined(chunks) for name, chunks in parts.items()],
    )


def _joined(chunks: Sequence[Columns]) -> Columns:
    out: Columns = {}
    for name in chunks[0]:
        values = [chunk[name] for chunk in chunks]
        lists = isinstance(values[0], list)
        out[name] = [one for part in values for one in part] if lists else np.concatenate(values)
    return out


def kept(p: Tensor, entropy: Tensor, criteria: Sequence[Criterion], depth: int) -> list[np.ndarray]:
    """The largest probabilities of each row of [n, V], as many as every criterion takes.

    Returns:
        Arrays of float64, descending: `depth` of them, more where that is not enough, up to V.
    """
    width = p.shape[-1]
    deep = min(max(depth, *(criterion.depth for criterion in criteria)), width)
    out: list[np.ndarray] = [np.empty(0)] * len(p)
    nats, places = entropy.cpu().numpy(), np.arange(len(p))
    while len(places):
        rows = p if len(places) == len(p) else p[torch.from_numpy(places).to(p.device)]
        top, own = rows.topk(deep, -1).values.cpu().numpy(), nats[places]
        enough = np.full(len(places), True)
        for criterion in criteria:
            enough &= evaluate(criterion, top, own, deep == width)[1]
        for place, values in zip(places[enough], top[enough], strict=True):
            out[place] = values
        places, deep = places[~enough], min(width, DEEPER * deep)
    return out


def compare(p: Tensor, log_p: Tensor, logits: Tensor, log_q: Tensor, best: Tensor) -> Columns:
    """The draft's side: KL(p || q) and what q's most probable tokens are to p.

    Args:
        p, log_p: [n, V] in float64.
        logits, log_q: [n, W]; ids that the draft must not emit are -inf. W may differ from V: ids
            that only the target has carry q = 0, and p = 0 those that only the draft has.
        best: [n] argmax p.
    """
    common, width = min(p.shape[-1], logits.shape[-1]), logits.shape[-1]
    inside, tail = p[:, :common], p[:, common:].sum(-1)
    ratio = torch.where(inside > 0, log_p[:, :common] - log_q[:, :common], 0.0)
    kl = (inside * ratio).sum(-1).clamp_min(0.0)
    kl = torch.where(tail > 0, torch.inf, kl)
    peak = logits.max(-1, keepdim=True).values
    tied = logits == peak
    p_of_draft = torch.zeros_like(log_q)
    p_of_draft[:, :common] = inside
    of_best = torch.where(
        best < width, logits.gather(-1, best.clamp_max(width - 1)[:, None])[:, 0], -torch.inf
    )
    at_least = (logits >= of_best[:, None]).sum(-1) - (best < width).long()
    missing = torch.isneginf(logits[:, :common])
    return {
        "kl": kl.cpu().numpy(),
        "drafted": logits.argmax(-1).to(torch.int32).cpu().numpy(),
        "p_drafted": p_of_draft.masked_fill(~tied, torch.inf).min(-1).values.cpu().numpy(),
        "draft_rank": at_least.to(torch.int32).cpu().numpy(),
        "draft_entropy": torch.special.entr(log_q.exp()).sum(-1).cpu().numpy(),
        "uncommon_mass": (tail + inside.masked_fill(~missing, 0.0).sum(-1)).cpu().numpy(),
    }


def table(parts: Sequence[Columns], schema: pa.Schema) -> pa.Table:
    """Rows of a schema from the columns of many texts, in their order."""
    if not parts:
        return schema.empty_table()
    arrays = []
    for field in schema:
        values = []
        for part in parts:
            own = part[field.name]
            n = len(part["position"])
            values.append(pa.array([own] * n if np.isscalar(own) else own, field.type))
        arrays.append(pa.chunked_array(values, field.type))
    return pa.Table.from_arrays(arrays, schema=schema)
