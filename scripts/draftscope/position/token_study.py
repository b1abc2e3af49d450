"""Token types, mismatches at triggers and the model of acceptance, from one pass over each text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from draftscope import seeds
from draftscope.position import by_type, mismatches, texts, within
from draftscope.position.texts import Source, Text
from draftscope.statistics.intervals import bootstrap_columns
from draftscope.tokens.typist import Typist

FILES = ("types", "mismatches", "survival", "model")
NO_TEXT = "no text is that long"
Rows = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class Settings:
    """How the study counts and resamples.

    Attributes:
        lengths: texts that reach each of them are compared up to it, tokens.
        margin: change of acceptance by a doubling of the position that counts as none.
        Others as in `statistics.intervals`.
    """

    lengths: tuple[int, ...]
    margin: float
    confidence: float
    resamples: int
    method: str
    seed: int

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Settings:
        """Settings from JSON values.

        Raises:
            TypeError: an unknown or missing key.
        """
        return cls(**{key: tuple(v) if isinstance(v, list) else v for key, v in settings.items()})

    def options(self, source: Source, *names: str) -> dict[str, Any]:
        """Options of the bootstrap; resamples are a configuration's own, whatever else there is."""
        key = ("position", self.seed, source.pair, source.domain, source.mode, *names)
        return {
            "method": self.method,
            "confidence": self.confidence,
            "resamples": self.resamples,
            "rng": seeds.generator(*key),
        }


def study(
    sources: Sequence[Source], settings: Settings, typist: Callable[[Source], Typist]
) -> Rows:
    """Rows of every file of `FILES`, by name.

    Args:
        typist: gives what types the tokens of a configuration's target.

    Raises:
        UserError: files that are missing, damaged, or of different runs.
    """
    rows: Rows = {name: [] for name in FILES}
    for source in sources:
        for name, added in measure(source, settings, typist(source)).items():
            rows[name] += added
    return rows


def measure(source: Source, settings: Settings, typist: Typist) -> Rows:
    """The rows of one configuration."""
    triggers, published = texts.triggers(source)
    sums = by_type.Sums(triggers, published)
    wrong = mismatches.Mismatches(triggers, typist)
    # A draft without a distribution has no alpha; whether it said the token is what is left.
    outcome = "alpha" if source.scores else "match"
    trend = _Trend(outcome, settings.lengths)
    for text in texts.read(source):
        sums.add(text)
        wrong.add(text)
        trend.add(text)
    return {
        "types": by_type.rows(source, sums, settings.options(source, "types")),
        "mismatches": mismatches.rows(source, wrong, settings.options(source, "mismatches")),
        "survival": trend.survival(source, settings),
        "model": trend.models(source, settings),
    }


@dataclass
class _Trend:
    """Acceptance along the texts that do not loop, of all of them and of those that get far."""

    outcome: str
    lengths: Sequence[int]
    prompts: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.moments = {reached: within.Moments() for reached in (0, *self.lengths)}
        self._reaching: dict[int, dict[str, np.ndarray]] = {n: {} for n in (0, *self.lengths)}

    def add(self, text: Text) -> None:
        if text.problem:
            return
        self.prompts.add(text.prompt_id)
        for reached in (0, *self.lengths):
            if len(text.token) < reached:
                continue
            moments = self.moments[reached]
            moments.add(text.prompt_id, *within.design(text, self.outcome, reached or None))
            held = self._reaching[reached].setdefault(text.prompt_id, np.zeros((2, 2)))
            for line, stop in enumerate((None, min(self.lengths))):
                value = text.values[self.outcome][:stop]
                held[line] += (np.nansum(value), np.sum(~np.isnan(value)))

    def survival(self, source: Source, settings: Settings) -> list[dict[str, Any]]:
        """Rows of `position_survival`."""
        rows = []
        for reached in (0, *self.lengths):
            held = self._reaching[reached]
            row = source.key | {"reached": reached, "prompts": len(held)}
            row |= {"prompts_total": len(self.prompts), "method": "none", "reason": NO_TEXT}
            ends = ("", "_lower", "_upper")
            row |= dict.fromkeys(f"{name}{end}" for name in ("whole", "beginning") for end in ends)
            if held:
                sums = np.stack([each for _, each in sorted(held.items())])
                options = settings.options(source, "survival", str(reached))
                found = bootstrap_columns(sums[:, :, 0], sums[:, :, 1], **options)
                row |= {"method": found[0].method, "reason": found[0].reason or found[1].reason}
                for name, interval in zip(("whole", "beginning"), found, strict=True):
                    interval = interval.within(most=1.0)
                    values = (interval.estimate, interval.low, interval.high)
                    row |= {f"{name}{end}": v for end, v in zip(ends, values, strict=True)}
            rows.append(row)
        return rows

    def models(self, source: Source, settings: Settings) -> list[dict[str, Any]]:
        """Rows of `position_model`."""
        rows = []
        for reached, moments in self.moments.items():
            for model in within.MODELS:
                options = settings.options(source, "model", str(reached), model)
                found = within.estimates(moments, model, margin=settings.margin, options=options)
                key = source.key | {"outcome": self.outcome, "reached": reached}
                rows += [key | row for row in found]
        return rows
