"""The losses by name: what is compared at a position, what weighs it and what divides the sum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Term = Literal["cross_entropy", "log_acceptance", "forward_kl", "renyi_half"]
Weighting = Literal["decay", "confidence", "overlap"]


@dataclass(frozen=True)
class Loss:
    """One loss of a draft block, sum over its positions of weight * term.

    Attributes:
        term: "cross_entropy" -log q(y) at the target's own token y; "log_acceptance"
            -log sum_v min(p, q); "forward_kl" KL(p, q); "renyi_half" -2 log sum_v sqrt(p q).
        weighting: "decay" exp(-(k - 1) / decay) at position k = 1..K; "confidence" and "overlap"
            continuation weights of q(y) and of sum_v min(p, q), smoothed and detached.
        prefix, suffix: which parts of the continuation weights are kept.
        source: where it was published, or "variant" of what.
    """

    term: Term
    weighting: Weighting
    source: str
    prefix: bool = True
    suffix: bool = True

    @property
    def needs_p(self) -> bool:
        """Whether the target's distribution is read, or its token alone."""
        return self.term != "cross_entropy" or self.weighting == "overlap"

    @property
    def reduction(self) -> Literal["weight sum", "blocks"]:
        """What divides the sum: DFlash's code the sum of its weights, D-PACE's a count."""
        return "weight sum" if self.weighting == "decay" else "blocks"


_DFLASH = "DFlash (arXiv:2602.06036), section 4"
_PACE = "D-PACE (arXiv:2605.18810)"
_PAL = "D-PAL (Wu et al. 2026)"

LOSSES: dict[str, Loss] = {
    "ce_decay": Loss("cross_entropy", "decay", _DFLASH),
    "dpace": Loss("cross_entropy", "confidence", _PACE),
    "dpace_prefix": Loss("cross_entropy", "confidence", f"{_PACE}, ablation", suffix=False),
    "dpace_suffix": Loss("cross_entropy", "confidence", f"{_PACE}, ablation", prefix=False),
    "dpal": Loss("log_acceptance", "overlap", _PAL),
    "forward_kl": Loss("forward_kl", "decay", f"variant of {_DFLASH}"),
    "renyi_half": Loss("renyi_half", "decay", f"variant of {_DFLASH}"),
    "dpace_forward_kl": Loss("forward_kl", "confidence", f"variant of {_PACE}"),
    "dpace_renyi_half": Loss("renyi_half", "confidence", f"variant of {_PACE}"),
    "dpal_forward_kl": Loss("forward_kl", "overlap", f"variant of {_PAL}"),
    "dpal_renyi_half": Loss("renyi_half", "overlap", f"variant of {_PAL}"),
}
