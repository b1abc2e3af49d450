"""What was recorded of one target on one domain, position by position, with its drafts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from draftscope import records
from draftscope.certificate_study import record_schemas  # noqa: F401  (registers its schemas)
from draftscope.certificates import bounds
from draftscope.certificates.functions import evaluate
from draftscope.criteria import Criterion
from draftscope.errors import UserError


@dataclass(frozen=True)
class DraftLog:
    """A draft's side of the same positions, arrays [positions]."""

    name: str
    kl: np.ndarray
    drafted: np.ndarray
    p_drafted: np.ndarray
    rank: np.ndarray


@dataclass(frozen=True)
class Log:
    """Positions of one target on one domain.

    Attributes:
        prompt: [positions] index of the prompt, from 0.
        text: [positions] index of the text; a text's positions follow one another.
        texts: which prompt and sample each text is of, in words.
        token_id: [positions] the emitted token.
        entropy: [positions] nats.
        depths: distinct (rows, largest probabilities [rows, K] descending, whether that is all).
        drafts: by name.
    """

    target: str
    domain: str
    prompts: int
    prompt: np.ndarray
    text: np.ndarray
    texts: Sequence[str]
    token_id: np.ndarray
    entropy: np.ndarray
    depths: Sequence[tuple[np.ndarray, np.ndarray, bool]]
    drafts: Mapping[str, DraftLog]

    def __len__(self) -> int:
        return len(self.prompt)

    def values(self, criterion: Criterion) -> np.ndarray:
        """Exact certificates, [positions] nats.

        Raises:
            UserError: too few probabilities were recorded for this criterion.
        """
        out = np.empty(len(self))
        for rows, top, whole in self.depths:
            value, enough = evaluate(criterion, top, self.entropy[rows], whole)
            if not enough.all():
                raise UserError(
                    f"what was recorded of {self.target} on {self.domain} is not deep enough for "
                    f"{criterion.label}; delete the recordings and run again"
                )
            out[rows] = value
        return out

    def lower_bounds(self, criterion: Criterion) -> np.ndarray:
        """The closed-form lower bound of each certificate, [positions] nats."""
        out = np.empty(len(self))
        for rows, top, _ in self.depths:
            if criterion.kind == "tree":
                last = top[:, criterion.m] if criterion.m < top.shape[-1] else 0.0
                out[rows] = bounds.tree(top[:, 0] - last, criterion.m)
                continue
            theta = criterion.threshold(top, self.entropy[rows])
            out[rows] = np.where(theta < 0, np.inf, bounds.threshold(top[:, 0], theta.clip(0)))
        return out

    def mass(self, k: int) -> np.ndarray:
        """Probability of the k most probable tokens, [positions]."""
        out = np.empty(len(self))
        for rows, top, _ in self.depths:
            out[rows] = top[:, :k].sum(-1)
        return out

    @cached_property
    def margin(self) -> np.ndarray:
        """p(x0) - p(x1), [positions]; 1 - 0 where the vocabulary has one token."""
        out = np.empty(len(self))
        for rows, top, _ in self.depths:
            out[rows] = top[:, 0] - (top[:, 1] if top.shape[-1] > 1 else 0.0)
        return out

    def place(self, position: int) -> str:
        """Where a recorded position stands, in words."""
        text = self.text[position]
        start = int(np.searchsorted(self.text, text))
        return f"{self.texts[text]}, generated position {position - start}"

    def accepts(self, criterion: Criterion, draft: DraftLog) -> np.ndarray:
        """Whether the draft's proposal is accepted, [positions] booleans."""
        out = np.empty(len(self), dtype=bool)
        for rows, top, _ in self.depths:
            out[rows] = criterion.accepts(
                top, self.entropy[rows], draft.p_drafted[rows], draft.rank[rows]
            )
        return out


def load(targets: Sequence[str], drafts: Sequence[str]) -> tuple[list[Log], dict]:
    """Read recordings; one log a (target, domain), in the order of the files.

    Several recordings of one target and domain are its shards, or further groups of drafts.

    Args:
        targets, drafts: files of schemas certificate_targets and certificate_drafts, in pairs.

    Returns:
        The logs, and what their conditions have in common.

    Raises:
        UserError: files that do not belong together or differ in their condition, or nothing was
            recorded.
    """
    if len(targets) != len(drafts) or not targets:
        raise UserError(f"{len(targets)} recordings of targets, {len(drafts)} of drafts")
    parts: dict[tuple[str, str], dict[str, list[tuple[pa.Table, pa.Table]]]] = {}
    conditions: dict[tuple[str, str], dict[str, dict]] = {}
    for path, other in zip(targets, drafts, strict=True):
        table, beside = (
            records.read(name, f"certificate_{kind}")
            for name, kind in ((path, "targets"), (other, "drafts"))
        )
        condition = records.condition(table)
        if records.condition(beside) != condition:
            raise UserError(f"{path} and {other} were not recorded together")
        key = condition["target"], condition["domain"]
        group = ", ".join(sorted(condition["drafts"]))
        parts.setdefault(key, {}).setdefault(group, []).append((table, beside))
        conditions.setdefault(key, {})[str(path)] = condition
    for of_key in conditions.values():
        records.require_same_condition(of_key, ("drafts",))
    logs = [_log(*key, groups) for key, groups in parts.items()]
    logs = [log for log in logs if len(log)]
    if not logs:
        raise UserError("no position was recorded: every prompt was skipped")
    return logs, records.common_condition([*targets])


def _log(
    target: str, domain: str, groups: Mapping[str, Sequence[tuple[pa.Table, pa.Table]]]
) -> Log:
    tables = {name: pa.concat_tables(t for t, _ in group) for name, group in groups.items()}
    first = next(iter(tables.values()))
    keys = ("prompt_id", "sample", "position")
    for name, table in tables.items():
        if not all(table[key].equals(first[key]) for key in (*keys, "token_id")):
            raise UserError(f"recordings of {target} on {domain} with {name} are of other texts")
    ids, samples = (np.asarray(first[key].to_pylist()) for key in ("prompt_id", "sample"))
    known, prompt = np.unique(ids, return_inverse=True)
    new = np.ones(len(ids), dtype=bool)
    new[1:] = (ids[1:] != ids[:-1]) | (samples[1:] != samples[:-1])
    lengths = first["top"].combine_chunks().value_lengths().to_numpy(zero_copy_only=False)
    width = np.asarray(first["vocabulary"])
    flat = first["top"].combine_chunks().flatten().to_numpy()
    starts = np.concatenate(([0], np.cumsum(lengths)))[:-1]
    depths = []
    for length in np.unique(lengths):
        for whole in (False, True):
            rows = np.flatnonzero((lengths == length) & ((width == length) == whole))
            if len(rows):
                depths.append((rows, flat[starts[rows][:, None] + np.arange(length)], whole))
    drafts = {}
    for group in groups.values():
        beside = pa.concat_tables(d for _, d in group)
        for name in dict.fromkeys(beside["draft"].to_pylist()):
            own = beside.filter(pc.equal(beside["draft"], name))
            if not all(own[key].equals(first[key]) for key in keys):
                raise UserError(
                    f"the recording of draft {name} holds other positions than {target}'s"
                )
            drafts[name] = DraftLog(
                name,
                *(np.asarray(own[key]) for key in ("kl", "drafted", "p_drafted", "draft_rank")),
            )
    texts = [f"prompt {ids[i]}, sample {samples[i]}" for i in np.flatnonzero(new)]
    token_id, entropy = (np.asarray(first[key]) for key in ("token_id", "entropy"))
    text = np.cumsum(new) - 1
    return Log(target, domain, len(known), prompt, text, texts, token_id, entropy, depths, drafts)
