"""What a draft thought of every position of a mode's texts, with the type of each token.

One text is in memory at a time, whatever their number and length.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from draftscope import columns, records
from draftscope.drafters import Proposer, of_text
from draftscope.errors import UserError
from draftscope.position import inputs
from draftscope.replay.blocks import drafted, read_proposals
from draftscope.tokens import schemas as _token_schemas  # noqa: F401

METRICS = ("def2", "alpha", "match")
DECODING, UNWARPED = "decoding", "unwarped"
NO_TOKEN = -1
_ROWS = 64  # rows of scores read at a time, each as long as a text
_DECODING = ("token_ids", "log_p", "log_q", "log_q_target_argmax", "draft_argmax")
_DECODING += ("target_disagreement",)
_UNWARPED = ("log_p", "log_q", "overlap", "target_entropy")
Key = tuple[str, int]


@dataclass(frozen=True)
class Source:
    """A pair on a domain in a mode, with the files that hold its texts and measurements.

    `draft_settings` is the draft's row in the registry of models, as `of_text.proposer` takes it; a
    draft without scores is asked for its proposals again, unless it is a block drafter: those are in
    files of their own.
    """

    label: str
    pair: str
    draft: str
    domain: str
    mode: str
    temperature: float
    draft_settings: Mapping[str, Any]
    model: str
    types: str
    loops: str
    trajectories: tuple[str, ...]
    scores: tuple[str, ...] = ()
    proposals: tuple[str, ...] = ()

    @property
    def key(self) -> dict[str, Any]:
        """The columns that name the configuration in every row."""
        return {
            "label": self.label,
            "pair": self.pair,
            "domain": self.domain,
            "mode": self.mode,
            "decoding": "sample" if self.temperature > 0 else "greedy",
        }


@dataclass(frozen=True, eq=False)
class Text:
    """One text, arrays [positions]; values are NaN where the draft or the position has none.

    Attributes:
        type, initial, region, trigger: as in `tokens.typist.Typed`.
        token: what was emitted.
        proposal: the draft's most likely token (or the one it proposes), `NO_TOKEN` without one.
        values: metric -> value. alpha: min(1, q(y)/p(y)); def2: q(argmax p); match: the proposal
            is the emitted token.
        entropy: of the target, T=1, nats.
        moved: 1 - overlap at T=1, the probability that the draft has on the wrong tokens.
        p, q: probability of the emitted token by target and draft, T=1.
        repeated: inside the repetition in which the text ends.
        problem: the text repeats itself up to its budget.
    """

    prompt_id: str
    sample: int
    type: np.ndarray
    initial: np.ndarray
    region: np.ndarray
    trigger: np.ndarray
    token: np.ndarray
    proposal: np.ndarray
    values: Mapping[str, np.ndarray]
    entropy: np.ndarray
    moved: np.ndarray
    p: np.ndarray
    q: np.ndarray
    repeated: np.ndarray
    problem: bool


def triggers(source: Source) -> tuple[tuple[str, ...], int]:
    """The triggers of a configuration's types in the order of their numbers; how many of them,
    from the first, the published study names."""
    lists = records.condition(source.types)["token_lists"]
    published = lists["published_triggers"]
    return tuple(published) + tuple(lists["further_triggers"]), len(published)


def read(source: Source) -> Iterator[Text]:
    """Every text of a configuration, in the order of the files.

    Raises:
        UserError: files of different runs, or that do not hold the same texts.
    """
    files = (source.types, source.loops, *source.trajectories[:1], *source.scores)
    files += source.proposals
    inputs.require_one_run(files, {"domain": source.domain, "mode": source.mode})
    types = {_key(row): row for row in _rows([source.types], "token_types", _TYPES)}
    loops = {_key(row): row for row in records.read(source.loops, "loops").to_pylist()}
    measured = _scored(source) if source.scores else _proposed(source)
    seen = 0
    for key, found in measured:
        if key not in types or key not in loops:
            raise UserError(
                f"prompt {key[0]}, sample {key[1]} of draft {source.draft} stands in the scores but "
                f"not in {source.types} and {source.loops}; make them again"
            )
        seen += 1
        yield _text(key, found, types[key], loops[key])
    if seen != len(types):
        raise UserError(
            f"{source.types} holds {len(types)} texts, but there is something about draft "
            f"{source.draft} for {seen} of them; score them again"
        )


_TYPES = ("type", "initial", "region", "trigger")


def _text(key: Key, found: dict[str, Any], typed: dict[str, Any], loop: dict[str, Any]) -> Text:
    tokens = len(found["token"])
    if len(typed["type"]) != tokens:
        raise UserError(
            f"prompt {key[0]}, sample {key[1]} has {tokens} tokens in its scores but types of "
            f"{len(typed['type'])}; make the types again"
        )
    repeated = np.zeros(tokens, dtype=bool)
    if loop["looped"]:
        repeated[loop["onset"] :] = True
    own = {name: np.asarray(typed[name]) for name in _TYPES}
    return Text(*key, **own, **found, repeated=repeated, problem=bool(loop["loop_problem"]))


def _scored(source: Source) -> Iterator[tuple[Key, dict[str, Any]]]:
    waiting: dict[Key, dict[str, dict[str, Any]]] = {}
    wanted = ("draft", "law", *dict.fromkeys((*_DECODING, *_UNWARPED)))
    for row in _rows(source.scores, "scores", wanted, source.draft):
        by_law = waiting.setdefault(_key(row), {})
        by_law[row["law"]] = row
        if DECODING in by_law and UNWARPED in by_law:
            yield _key(row), _measured(**waiting.pop(_key(row)))
    if waiting:
        prompt, sample = next(iter(waiting))
        raise UserError(
            f"{', '.join(source.scores)}: prompt {prompt}, sample {sample} lacks the scores of law "
            f"{DECODING} or {UNWARPED}"
        )


def _measured(decoding: dict[str, Any], unwarped: dict[str, Any], **_: Any) -> dict[str, Any]:
    log_p, log_q = decoding["log_p"].astype(float), decoding["log_q"].astype(float)
    missing = ~np.isfinite(log_p) | np.isnan(log_q) | decoding["target_disagreement"].astype(bool)
    ratio = np.where(missing, 0.0, log_q) - np.where(missing, 0.0, log_p)
    match = (decoding["draft_argmax"] == decoding["token_ids"]).astype(float)
    return {
        "token": decoding["token_ids"],
        "proposal": decoding["draft_argmax"],
        "values": {
            "def2": np.exp(decoding["log_q_target_argmax"].astype(float)),
            "alpha": np.where(missing, np.nan, np.exp(np.minimum(ratio, 0.0))),
            "match": match,
        },
        "entropy": unwarped["target_entropy"].astype(float),
        "moved": 1.0 - unwarped["overlap"].astype(float),
        "p": np.exp(unwarped["log_p"].astype(float)),
        "q": np.exp(unwarped["log_q"].astype(float)),
    }


def _proposed(source: Source) -> Iterator[tuple[Key, dict[str, Any]]]:
    """What a draft proposes at every position, as if a round started there."""
    blocks = {}
    if source.proposals:
        blocks, _ = read_proposals(source.proposals, source.draft)
    for path in source.trajectories:
        table = records.read(path, "trajectories")
        lookup = of_text.proposer(source.draft_settings, records.condition(table))
        for row in table.to_pylist():
            if row["status"] != "ok" or not row["token_ids"]:
                continue
            token = np.array(row["token_ids"])
            if lookup is None:
                said = drafted(blocks, _key(row), token)[:, 0]
            else:
                said = _asked(lookup, row["prompt_token_ids"], row["token_ids"])
            none = np.full(len(token), np.nan)
            values = {"def2": none, "alpha": none, "match": (said == token).astype(float)}
            yield (
                _key(row),
                {"token": token, "proposal": said, "values": values}
                | dict.fromkeys(("entropy", "moved", "p", "q"), none),
            )


def _asked(proposer: Proposer, prompt: Sequence[int], tokens: Sequence[int]) -> np.ndarray:
    proposer.start(prompt)
    proposal = []
    for token in tokens:
        proposal.append(next(iter(proposer.propose(1)), NO_TOKEN))
        proposer.extend([token])
    return np.array(proposal)


def _rows(
    paths: Sequence[str], schema: str, names: Sequence[str], draft: str | None = None
) -> Iterator[dict[str, Any]]:
    """Rows as dictionaries, list columns as arrays; of scores those of one draft."""
    for path in paths:
        for table in columns.batches(path, schema, ("prompt_id", "sample", *names), _ROWS):
            if draft is not None:
                table = table.filter(pc.equal(table["draft"], draft))
            held = {name: _values(table[name]) for name in table.column_names}
            for place in range(table.num_rows):
                yield {name: values[place] for name, values in held.items()}


def _values(column: pa.ChunkedArray) -> list[Any]:
    if not pa.types.is_list(column.type):
        return column.to_pylist()
    arrays: list[np.ndarray] = []
    for chunk in column.chunks:
        flat = chunk.flatten().to_numpy(zero_copy_only=False)
        edges = np.cumsum(chunk.value_lengths().to_numpy(zero_copy_only=False))
        arrays += np.split(flat, edges[:-1]) if len(edges) else []
    return arrays


def _key(row: Mapping[str, Any]) -> Key:
    return row["prompt_id"], row["sample"]
