"""The settings of the certificates study, and the registry rows that it stands on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from draftscope import block_pairs, registry
from draftscope.checkpoints import TEXT_DRAFTS
from draftscope.criteria import KINDS, Criterion
from draftscope.errors import UserError
from draftscope.prompts import collecting
from draftscope.stage import DomainUse, Fraction, Positive, Stage, no_duplicates
from draftscope.strict import Name, Number, Strict


class CriterionRow(Strict):
    """The keys of `criteria.Criterion`, which says what each kind needs; null stands for absent."""

    kind: Literal[tuple(KINDS)] = Field(description="which criterion")
    t: Number | None = Field(default=None, description="additive: accept p(y) > p(x0) - t")
    a: Number | None = Field(default=None, description="multiplicative: accept p(y) > a p(x0)")
    m: Positive | None = Field(default=None, description="top-m and tree: how many tokens")
    epsilon: Number | None = Field(default=None, description="typical: the highest threshold")
    delta: Number | None = Field(default=None, description="typical: times exp(-entropy)")

    @model_validator(mode="after")
    def _has_what_its_kind_needs(self) -> CriterionRow:
        Criterion.of(self.model_dump())
        return self

    @property
    def criterion(self) -> Criterion:
        return Criterion.of(self.model_dump())


class TopM(Strict):
    sizes: list[Positive] = Field(min_length=1, description="m of Table 4")
    tolerances: list[Annotated[Number, Field(gt=0, le=1)]] = Field(
        min_length=1, description="t of Table 4"
    )


class Runs(Strict):
    kl: list[Annotated[Number, Field(ge=0)]] = Field(
        min_length=1, description="KL of Tables 5 and 6, nats: certified is what tolerates more"
    )
    cap: Positive = Field(description="longest run that is counted, in tokens")


class Relaxed(Strict):
    pair: Name = Field(description="the pair that decodes with relaxed rules, one of the pairs")
    draft_length: Annotated[Positive, Field(le=1024)]
    rules: list[CriterionRow] = Field(min_length=1, description="relaxed criteria, none lossless")
    batch_size: Positive = Field(description="texts decoded together")

    @model_validator(mode="after")
    def _rules_are_relaxed(self) -> Relaxed:
        for row in self.rules:
            if row.criterion.lossless:
                raise ValueError(
                    f"certificates.relaxed.rules: {row.criterion.label} is no relaxed rule; greedy "
                    "decoding stands beside them anyway"
                )
        labels = [row.criterion.label for row in self.rules]
        no_duplicates(labels, "certificates.relaxed.rules")
        return self


class RuleTest(Strict):
    level: Fraction = Field(description="p-values below it reject")
    trials: Positive = Field(description="tokens emitted by each rule")


class Certificates(Stage):
    pairs: list[Name] = Field(min_length=1, description="targets, with drafts to certify")
    mode: Name = Field(description="a decoding mode of the registry: whose text is recorded")
    domains: list[DomainUse] = Field(min_length=1)
    headline: Name = Field(description="which of them stands beside the published tables")
    min_prompt_tokens: Positive | None = Field(
        default=None, description="shorter prompts are left out; null: none are"
    )
    candidates: Positive | None = Field(
        default=None, description="prompts looked through for long ones; null: as many as asked for"
    )
    depth: Annotated[Positive, Field(ge=25)] = Field(
        description="largest probabilities of each distribution that are kept, at least"
    )
    position_chunk: Positive = Field(description="positions whose logits exist at one time")
    criteria: list[CriterionRow] = Field(min_length=1, description="of Tables 2, 5, 6 and drafts")
    additive: list[Annotated[Number, Field(gt=0, le=1)]] = Field(description="t of Table 3")
    multiplicative: list[Annotated[Number, Field(gt=0, lt=1)]] = Field(description="a of Table 3")
    top_m: TopM
    runs: Runs
    tolerance: Annotated[Number, Field(ge=0)] = Field(
        description="a draft is certified if its KL plus this is below the certificate, nats"
    )
    relaxed: Relaxed
    equivalence: RuleTest

    @model_validator(mode="after")
    def _names_each_thing_once(self) -> Certificates:
        no_duplicates(self.pairs, "certificates.pairs")
        names = [use.name for use in self.domains]
        no_duplicates(names, "certificates.domains")
        no_duplicates([row.criterion.label for row in self.criteria], "certificates.criteria")
        for key, levels in {
            "additive": self.additive,
            "multiplicative": self.multiplicative,
            "top_m.sizes": self.top_m.sizes,
            "top_m.tolerances": self.top_m.tolerances,
            "runs.kl": self.runs.kl,
        }.items():
            no_duplicates(levels, f"certificates.{key}")
        if self.headline not in names:
            raise ValueError(
                f"certificates.headline {self.headline!r} is not among certificates.domains: "
                f"{', '.join(names)}"
            )
        if self.relaxed.pair not in self.pairs:
            raise ValueError(
                f"certificates.relaxed.pair {self.relaxed.pair!r} is not among certificates.pairs: "
                f"{', '.join(self.pairs)}"
            )
        if self.candidates is not None:
            if self.min_prompt_tokens is None:
                raise ValueError(
                    "certificates.candidates looks for long prompts; say how long with "
                    "min_prompt_tokens, or leave it out"
                )
            for use in self.domains:
                if use.prompts > self.candidates:
                    raise ValueError(
                        f"certificates.candidates {self.candidates} is below the {use.prompts} "
                        f"prompts of domain {use.name!r}"
                    )
        return self

    @property
    def recorded(self) -> list[dict[str, Any]]:
        """Every criterion that a table evaluates, each once: what the recording must be exact for."""
        rows = [row.criterion for row in self.criteria]
        rows += [Criterion("additive", t=t) for t in self.additive]
        rows += [Criterion("multiplicative", a=a) for a in self.multiplicative]
        rows += [
            Criterion("top_m_additive", m=m, t=t)
            for t in self.top_m.tolerances
            for m in self.top_m.sizes
        ]
        return [row.settings for row in dict.fromkeys(rows)]


@dataclass(frozen=True)
class CertificateStudy:
    """Registry rows of what is certified; they need not be among those that are replayed.

    `shared` names the domains whose text the experiment generates anyway, by (target, domain).
    `problem` says why there can be no certificates, in an experiment that does not ask for them.
    """

    pairs: Mapping[str, dict] = field(default_factory=dict)
    domains: Mapping[str, dict] = field(default_factory=dict)
    modes: Mapping[str, dict] = field(default_factory=dict)
    shared: frozenset[tuple[str, str]] = frozenset()
    problem: str | None = None

    @property
    def targets(self) -> list[str]:
        return list(dict.fromkeys(pair["target"] for pair in self.pairs.values()))

    def group(self, target: str, draft_group: str) -> list[dict[str, Any]]:
        """The drafts that share a pass of the target, with what each pair allows to differ."""
        return [
            {"name": row["draft"], "allow_special_differences": row["allow_special_differences"]}
            for row in self.pairs.values()
            if (row["target"], row["draft_group"]) == (target, draft_group)
        ]


def resolve_certificates(
    block: Certificates,
    rows: Mapping[str, dict],
    main: Mapping[str, DomainUse],
    generated: set[str],
) -> CertificateStudy:
    """Look up what the study needs, and which of its text is there anyway.

    Args:
        rows: registry -> name -> row, as `registry.load_all` gives them.
        main: domains of the experiment by name.
        generated: targets whose text the experiment generates in the study's mode.

    Raises:
        UserError: an unknown name, a draft without probabilities, too few prompts, or an imported
            mode whose text the experiment does not hold.
    """
    pairs = registry.select(rows["pairs"], block.pairs, "pairs", "pair")
    names = [use.name for use in block.domains]
    domains = registry.select(rows["domains"], names, "domains", "domain")
    modes = registry.select(rows["modes"], [block.mode], "modes", "mode")
    models = registry.models_of(pairs, rows["models"])
    for name, pair in pairs.items():
        if (kind := models[pair["draft"]]["kind"]) in TEXT_DRAFTS:
            raise UserError(
                f"certificates.pairs: {name!r} drafts by {TEXT_DRAFTS[kind]}, which has no "
                "distribution and so no KL"
            )
    registry.refuse_llama_cpp(pairs, models, ("target", "draft"), "be certified")
    block_pairs.refuse(pairs, models, "be certified: it has no distribution at every position")
    shared = set()
    for use in block.domains:
        collecting.check({"domain": use.name, **domains[use.name]}, block.candidates or use.prompts)
        own = main.get(use.name)
        fits = (
            own is not None
            and block.min_prompt_tokens is None
            and use.prompts <= own.prompts
            and use.max_new_tokens <= own.max_new_tokens
        )
        for target in dict.fromkeys(pair["target"] for pair in pairs.values()):
            if fits and target in generated:
                shared.add((target, use.name))
            elif modes[block.mode]["imported"] is not None:
                raise UserError(
                    f"certificates.mode {block.mode!r} imports its text, and the experiment holds no "
                    f"such text of domain {use.name!r} by {target!r}"
                )
    return CertificateStudy(pairs, domains, modes, frozenset(shared))
