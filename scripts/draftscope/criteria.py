"""When is a drafted token accepted? The rules that ask how probable the target finds it.

Each accepts a token y where p(y) lies above a threshold that depends on the target's distribution
p alone (Sharma, arXiv 2606.30265, sections 4 and 5). All but strict greedy and tree coverage emit
tokens that the target would not: they are not lossless. Ties count against the draft, which is
why every test is "above" and never "at least".
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

# kind -> the parameters it takes.
KINDS: dict[str, tuple[str, ...]] = {
    "strict": (),
    "additive": ("t",),
    "multiplicative": ("a",),
    "top_m_additive": ("m", "t"),
    "top_m_multiplicative": ("m", "a"),
    "typical": ("epsilon", "delta"),
    "tree": ("m",),
}
LOSSLESS = ("strict", "tree")
_NAMES = {
    "strict": "strict greedy",
    "top_m_additive": "top-m additive",
    "top_m_multiplicative": "top-m multiplicative",
}


@dataclass(frozen=True)
class Criterion:
    """An acceptance criterion with its parameters; those that its kind does not take are None.

    Attributes:
        kind: one of `KINDS`.
        t: additive tolerance in probability, above 0 and at most 1: p(y) > p(x0) - t.
        a: share of the largest probability, above 0 and below 1: p(y) > a p(x0).
        m: how many most probable tokens may be accepted; for a tree, how many the draft offers.
        epsilon, delta: typical acceptance, p(y) > min(epsilon, delta exp(-H(p))).
    """

    kind: str
    t: float | None = None
    a: float | None = None
    m: int | None = None
    epsilon: float | None = None
    delta: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or self.kind not in KINDS:
            raise ValueError(f"criterion {self.kind!r} is not one of {', '.join(KINDS)}")
        for name in ("t", "a", "m", "epsilon", "delta"):
            value, wanted = getattr(self, name), name in KINDS[self.kind]
            if wanted and value is None:
                raise ValueError(f"criterion {self.kind} needs {name}")
            if not wanted and value is not None:
                raise ValueError(f"criterion {self.kind} takes no {name}")
            if wanted and (not isinstance(value, Real) or isinstance(value, bool)):
                raise ValueError(f"{name}={value!r} is not a number")
            if wanted and not math.isfinite(value):
                raise ValueError(f"{name}={value} is not finite")
        if self.t is not None and not 0 < self.t <= 1:
            raise ValueError(f"t={self.t} is not above 0 and at most 1")
        if self.a is not None and not 0 < self.a < 1:
            raise ValueError(f"a={self.a} is not between 0 and 1")
        if self.m is not None and (self.m < 1 or not isinstance(self.m, Integral)):
            raise ValueError(f"m={self.m} is not a whole number of at least 1")
        for name in ("epsilon", "delta"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ValueError(f"{name}={value} is not above 0")

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Criterion:
        """From a mapping such as {"kind": "additive", "t": 0.3}; keys that are None count as absent.

        Raises:
            ValueError: an unknown kind or key, or a parameter that is missing or out of range.
        """
        given = {key: value for key, value in settings.items() if value is not None}
        if unknown := sorted(set(given) - {"kind", *_PARAMETERS}):
            raise ValueError(f"a criterion has no {unknown[0]!r}")
        if "kind" not in given:
            raise ValueError(f"a criterion needs a kind, one of {', '.join(KINDS)}")
        return cls(**given)

    @property
    def settings(self) -> dict[str, Any]:
        """The mapping that `of` takes."""
        return {"kind": self.kind} | {name: getattr(self, name) for name in KINDS[self.kind]}

    @property
    def lossless(self) -> bool:
        """Whether greedy decoding with it emits the target's own greedy text."""
        return self.kind in LOSSLESS

    @property
    def label(self) -> str:
        """Its name in tables: "additive t=0.3"."""
        parts = [f"{name}={getattr(self, name):g}" for name in KINDS[self.kind]]
        return " ".join([_NAMES.get(self.kind, self.kind), *parts])

    @property
    def depth(self) -> int:
        """How many of the largest probabilities the threshold is made from."""
        return 2 if self.kind == "strict" else (self.m or 0) + 1

    def threshold(self, top: np.ndarray, entropy: np.ndarray) -> np.ndarray:
        """What p(y) has to exceed, [...]; below 0 where every token is accepted.

        Args:
            top: [..., K] the largest probabilities, descending; at least `depth` of them, or all.
            entropy: [...] entropy of the whole distribution, nats (typical acceptance only).

        Raises:
            ValueError: the criterion is tree coverage, which tests a set of tokens.
        """
        if self.kind == "tree":
            raise ValueError("tree coverage tests the draft's candidates, not one token")
        first = top[..., 0]
        if self.kind == "strict":
            return _at(top, 1)
        if self.kind == "typical":
            return np.minimum(self.epsilon, self.delta * np.exp(-np.asarray(entropy)))
        relaxed = first - self.t if self.t is not None else self.a * first
        return relaxed if self.m is None else np.maximum(relaxed, _at(top, self.m))

    def accepts(
        self,
        top: np.ndarray,
        entropy: np.ndarray,
        p_drafted: np.ndarray,
        draft_rank: np.ndarray,
    ) -> np.ndarray:
        """Whether the draft's proposal is accepted, [...] booleans.

        Args:
            top, entropy: as in `threshold`.
            p_drafted: [...] p of the draft's most probable token, the least of them where it ties.
            draft_rank: [...] tokens other than x0 that the draft finds at least as probable as x0.
        """
        if self.kind == "tree":
            return np.asarray(draft_rank) < self.m
        return np.asarray(p_drafted) > self.threshold(top, entropy)


_PARAMETERS = ("t", "a", "m", "epsilon", "delta")


def _at(top: np.ndarray, place: int) -> np.ndarray:
    """The probability at a place of the order, from 0; -1 where the vocabulary ends before it."""
    if place < top.shape[-1]:
        return top[..., place]
    return np.full(top.shape[:-1], -1.0)
