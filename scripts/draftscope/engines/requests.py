"""One request of an engine: what is known of its rounds, checked against itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import pyarrow as pa

from draftscope import schemas
from draftscope.engines.fields import MOST, Object

SHORTS, COUNTS = pa.list_(pa.int16()), pa.list_(pa.int64())
# Rounds that offer no draft: listed though engines do not count them, left out, or counted by the
# engine like any other (or there are none, as the caller knows).
INCLUDED, OMITTED, COUNTED = "included", "omitted", "counted"
column = schemas.field


def optional(name: str, type: pa.DataType, description: str, unit: str = "") -> pa.Field:
    return column(name, type, f"{description}; missing where it is not reported", unit, True)


schemas.register(
    "imported_rounds",
    [
        *schemas.KEYS,
        optional("request", pa.string(), "the engine's own id of the request"),
        optional("draft_length", pa.int16(), "most drafts that a round can offer", "tokens"),
        column(
            "without_drafts", pa.string(), "rounds that offer no draft: included, omitted, counted"
        ),
        column("rounds", pa.int64(), "rounds that the engine counted", "rounds"),
        optional("accepted_total", pa.int64(), "accepted drafts of all rounds", "tokens"),
        optional("offered_total", pa.int64(), "offered drafts of all rounds", "tokens"),
        optional("emitted_total", pa.int64(), "tokens that all rounds emitted", "tokens"),
        optional("tokens", pa.int64(), "generated tokens, with those of no round", "tokens"),
        optional("stop", pa.string(), "eos or budget"),
        column("ordered", pa.bool_(), "the lists hold one element a round, in order"),
        optional("accepted", SHORTS, "accepted drafts of a round, or of rounds alike", "tokens"),
        optional("offered", SHORTS, "offered drafts of the same", "tokens"),
        optional("emitted", SHORTS, "emitted tokens of the same", "tokens"),
        optional("count", COUNTS, "how many rounds are alike; all 1 where ordered", "rounds"),
    ],
)


@dataclass(frozen=True)
class Request:
    """A row of the schema `imported_rounds`, except that the sample may still be open.

    Attributes:
        where: file and line.
        sample: None where the file does not number them; then they are numbered by order.
    """

    where: str
    prompt_id: str
    sample: int | None
    request: str | None
    draft_length: int | None
    without_drafts: str
    rounds: int
    accepted_total: int | None
    offered_total: int | None
    emitted_total: int | None
    tokens: int | None
    stop: str | None
    ordered: bool
    accepted: tuple[int, ...] | None
    offered: tuple[int, ...] | None
    emitted: tuple[int, ...] | None
    count: tuple[int, ...] | None

    def row(self, sample: int) -> dict[str, Any]:
        """The row of the schema, as this sample of its prompt."""
        values = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "where"}
        return values | {"sample": sample}


@dataclass
class Rounds:
    """What an object says of its rounds, under the names that the format gives it.

    `names` maps our names to the format's fields, for messages. `exact_offers`: the total of offered
    drafts counts what each round offered, not every round in full. The rest are those of `Request`.
    """

    source: Object
    names: Mapping[str, str]
    draft_length: int | None = None
    without_drafts: str = INCLUDED
    rounds: int | None = None
    accepted_total: int | None = None
    offered_total: int | None = None
    emitted_total: int | None = None
    ordered: bool = False
    accepted: Sequence[int] | None = None
    offered: Sequence[int] | None = None
    emitted: Sequence[int] | None = None
    count: Sequence[int] | None = None
    tokens: int | None = None
    stop: str | None = None
    exact_offers: bool = True

    def take_histogram(self, counts: Mapping[int, int] | None) -> None:
        """Rounds by how many drafts they accepted: no order, and no offers by round."""
        if counts is not None:
            self.accepted = tuple(sorted(counts))
            self.count = tuple(counts[bucket] for bucket in self.accepted)

    def take_joint(self, counts: Mapping[int, Mapping[int, int]] | None) -> None:
        """Rounds by how many drafts they were offered and accepted: no order."""
        if counts is not None:
            cells = [(a, k, n) for k in sorted(counts) for a, n in sorted(counts[k].items())]
            self.accepted, self.offered, self.count = (
                tuple(cell[place] for cell in cells) for place in range(3)
            )

    def request(self, prompt_id: str, sample: int | None, request: str | None) -> Request:
        """The request, once everything that is said of it agrees.

        Raises:
            UserError: lists of different lengths, more accepted than offered, totals that are
                not those of the rounds.
        """
        self.check_lists()
        count = self.count
        if self.accepted is not None and count is None:
            count = (1,) * len(self.accepted)
        rounds = self._agreed("rounds", sum(count) if count is not None else None)
        for name in ("accepted", "offered", "emitted"):
            values = getattr(self, name)
            total = None
            if values is not None:
                total = sum(value * times for value, times in zip(values, count, strict=True))
            setattr(self, f"{name}_total", self._agreed(f"{name}_total", total))
        if rounds is None:
            raise self.source.fault(self._name("rounds"), "is missing; it must be a whole number")
        self._check_totals(rounds)
        offered = self.offered
        full = self.draft_length is not None and self.offered_total == self.draft_length * rounds
        if offered is None and self.accepted is not None and full and self.exact_offers:
            # No round offers more than the draft length: so many drafts are offered only if all do.
            offered = (self.draft_length,) * len(self.accepted)
        return Request(
            self.source.where,
            prompt_id,
            sample,
            request,
            self.draft_length,
            self.without_drafts,
            rounds,
            self.accepted_total,
            self.offered_total,
            self.emitted_total,
            self.tokens,
            self.stop,
            self.ordered,
            *(
                None if values is None else tuple(values)
                for values in (self.accepted, offered, self.emitted, count)
            ),
        )

    def _name(self, ours: str) -> str:
        return self.names.get(ours, ours)

    def check_lists(self) -> None:
        """The lists have one element a round, and each round is possible.

        Raises:
            UserError: they have not, or one is not.
        """
        for name in ("offered", "emitted", "count"):
            values = getattr(self, name)
            if values is None:
                continue
            if self.accepted is None:
                raise self.source.fault(
                    self._name("accepted"), f"is missing beside {self._name(name)}"
                )
            if len(values) != len(self.accepted):
                raise self.source.fault(
                    self._name(name),
                    f"has {len(values)} elements and {self._name('accepted')} "
                    f"{len(self.accepted)}; both must have one a round",
                )
        for place, accepted in enumerate(self.accepted or ()):
            offered = None if self.offered is None else self.offered[place]
            self._check_round(place, accepted, offered)

    def _check_round(self, place: int, accepted: int, offered: int | None) -> None:
        gamma = self.draft_length
        if offered is not None and accepted > offered:
            raise self.source.fault(
                f"{self._name('accepted')}[{place}]",
                f"is {accepted}, but {self._name('offered')}[{place}] is {offered}; no more drafts "
                f"are accepted than were offered; nearest: {offered}",
            )
        for name, value in (("offered", offered), ("accepted", accepted)):
            if value is not None and gamma is not None and value > gamma:
                # The place in a histogram is not the place in its list: name the number itself.
                at = f"[{place}]" if self.ordered or self.count is None else ""
                raise self.source.fault(
                    f"{self._name(name)}{at}",
                    f"has {value} tokens in a round, but {self._name('draft_length')} is {gamma}; "
                    f"nearest: {gamma}",
                )
        if self.emitted is not None and not accepted <= self.emitted[place] <= accepted + 1:
            raise self.source.fault(
                f"{self._name('emitted')}[{place}]",
                f"is {self.emitted[place]}, but a round emits what it accepted ({accepted}) and at "
                f"most one token more; nearest: {accepted + 1}",
            )

    def _agreed(self, name: str, found: int | None) -> int | None:
        """A total that is said and one that follows from the rounds are the same."""
        said = getattr(self, name)
        if found is not None and found > MOST:
            raise self.source.fault(
                self._name(name), f"adds up to {found} by the rounds, more than {MOST}"
            )
        if said is not None and found is not None and said != found:
            raise self.source.fault(
                self._name(name), f"is {said}, but the rounds add up to {found}; nearest: {found}"
            )
        return found if said is None else said

    def _check_totals(self, rounds: int) -> None:
        accepted, offered = self.accepted_total, self.offered_total
        if accepted is not None and offered is not None and accepted > offered:
            raise self.source.fault(
                self._name("accepted_total"),
                f"is {accepted}, but {self._name('offered_total')} is {offered}; no more drafts are "
                f"accepted than were offered; nearest: {offered}",
            )
        emitted = self.emitted_total
        if emitted is not None and accepted is not None:
            low, high = accepted, accepted + rounds
            if not low <= emitted <= high:
                raise self.source.fault(
                    self._name("emitted_total"),
                    f"is {emitted}; {rounds} rounds that accepted {accepted} drafts emit {low} to "
                    f"{high} tokens; nearest: {min(max(emitted, low), high)}",
                )
        if emitted is not None and self.tokens is not None and emitted > self.tokens:
            raise self.source.fault(
                self._name("tokens"),
                f"is {self.tokens}, but the rounds emitted {emitted} tokens, which are among them; "
                f"nearest: {emitted}",
            )
        if self.draft_length is None:
            return
        most = self.draft_length * rounds
        for name, value in (("offered_total", offered), ("accepted_total", accepted)):
            if value is not None and value > most:
                raise self.source.fault(
                    self._name(name),
                    f"is {value}, more than {rounds} rounds of {self.draft_length} drafts; at most "
                    f"{most}, unless a token tree is counted by its nodes: then leave the draft "
                    "length out",
                )
