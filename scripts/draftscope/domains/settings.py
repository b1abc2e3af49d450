"""The settings of the domains study, and the registry rows and texts that its trees stand on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from draftscope import registry
from draftscope.block_study.settings import BlockStudy
from draftscope.checkpoints import TEXT_DRAFTS
from draftscope.errors import UserError
from draftscope.prompts import collecting
from draftscope.stage import DomainUse, Fraction, Positive, Stage, no_duplicates
from draftscope.strict import Name, Number, Strict
from draftscope.tree.shape import Shape


class TreeDomain(DomainUse):
    published: Literal["chat", "code", "math", "reasoning"] | None = Field(
        default=None, description="the published domain that it stands beside"
    )


class TreeShape(Strict):
    """The keys of `tree.shape.Shape`, which says what each kind needs; null stands for absent."""

    kind: Literal["breadth_first", "static", "confidence", "paths"] = Field(
        description="how a tree grows"
    )
    max_depth: Positive | None = Field(default=None, description="depth of its deepest node (Dmax)")
    max_branch: Positive | None = Field(default=None, description="children of a node (bmax)")
    max_nodes: Positive | None = Field(default=None, description="nodes of a tree (Nmax)")
    root_branch: Positive | None = Field(
        default=None, description="children of the root, never more than max_branch"
    )
    branching: list[Positive] | None = Field(
        default=None, description="static: children of each node, by depth of the node"
    )
    paths: list[list[Positive]] | None = Field(
        default=None, description="paths: each node as the ranks on its path"
    )

    @model_validator(mode="after")
    def _can_be_grown(self) -> TreeShape:
        try:
            Shape.of(self.model_dump())
        except UserError as error:
            raise ValueError(str(error)) from None
        return self


class TreeEquivalence(Strict):
    level: Fraction = Field(description="p-values below it reject")
    generations: Positive = Field(description="texts of each decoder")
    tokens: Positive = Field(description="tokens of a text")


class Trees(Stage):
    pair: Name = Field(description="target and draft of the trees")
    mode: Name = Field(description="a greedy decoding mode of the registry")
    domains: list[TreeDomain] = Field(min_length=1)
    prompt_tokens: Positive | None = Field(
        default=None, description="longer raw prompts are cut at their end to so many tokens"
    )
    shape: TreeShape
    position_edge: Positive = Field(description="last generated token of the early half")
    entropy_bins: Annotated[Positive, Field(ge=2, le=50)] = Field(
        description="bins of the curves of acceptance over entropy, with equal numbers of nodes"
    )
    node_budgets: list[Annotated[Positive, Field(le=64)]] = Field(
        min_length=1, description="sizes of tree for which the best chain and tree are looked for"
    )
    cost_ratios: list[Annotated[Number, Field(ge=0)]] = Field(
        min_length=1, description="draft step / target pass, for which the fastest are looked for"
    )
    budget_depth: Annotated[Positive, Field(le=64)] = Field(
        description="deepest level of a best chain or tree"
    )
    fewest_reached: Positive = Field(description="reached nodes of a rate that best trees use")
    equivalence: TreeEquivalence

    @model_validator(mode="after")
    def _domains_are_told_apart(self) -> Trees:
        no_duplicates([use.name for use in self.domains], "trees.domains")
        labels = [use.published for use in self.domains if use.published]
        no_duplicates(labels, "the published domains of trees.domains")
        no_duplicates(self.node_budgets, "trees.node_budgets")
        no_duplicates(self.cost_ratios, "trees.cost_ratios")
        return self


@dataclass(frozen=True)
class TreeStudy:
    """Registry rows of what trees are scored on; they need not be among those that are replayed.

    `problem` says why there can be no trees, in an experiment that does not ask for them.
    """

    pairs: Mapping[str, dict] = field(default_factory=dict)
    domains: Mapping[str, dict] = field(default_factory=dict)
    modes: Mapping[str, dict] = field(default_factory=dict)
    problem: str | None = None

    @property
    def targets(self) -> list[str]:
        return [pair["target"] for pair in self.pairs.values()]


def resolve_trees(
    block: Trees, rows: Mapping[str, dict], main: Sequence[DomainUse], shared: bool
) -> TreeStudy:
    """Look up what the study needs, and check it against what the experiment has anyway.

    Args:
        rows: registry -> name -> row, as `registry.load_all` gives them.
        main: domains of the experiment; their files of prompts are the study's too.
        shared: whether the experiment generates the text of its domains by the study's target in
            the study's mode, so that the study takes that text.

    Raises:
        UserError: an unknown name, a draft without probabilities, a mode that samples, or more
            prompts or tokens than the experiment's own files hold.
    """
    study = TreeStudy(
        registry.select(rows["pairs"], [block.pair], "pairs", "pair"),
        registry.select(rows["domains"], [u.name for u in block.domains], "domains", "domain"),
        registry.select(rows["modes"], [block.mode], "modes", "mode"),
    )
    _check_names(block, study, rows["models"])
    own = {use.name: use for use in main}
    for use in block.domains:
        row = study.domains[use.name]
        collecting.check({"domain": use.name, **row}, use.prompts)
        if block.prompt_tokens is not None and row["template"]["chat_template"]:
            raise UserError(
                f"trees.prompt_tokens cuts raw prompts, and domain {use.name!r} has a chat "
                "template (see template in the registry of domains)"
            )
        if use.name in own:
            _check_prompts(use, own[use.name])
        if use.name in own and shared:
            _check_text(block, use, own[use.name], "this experiment")
        elif study.modes[block.mode]["imported"] is not None:
            raise UserError(
                f"trees.mode {block.mode!r} imports its text, and the experiment imports none of "
                f"domain {use.name!r} by the target of pair {block.pair!r}"
            )
    return study


def beside_losses(
    settings: Any, targets: Sequence[str], trees: TreeStudy, losses: BlockStudy
) -> tuple[TreeStudy, BlockStudy]:
    """Trees and losses; where a text cannot serve both, only the one that is asked for.

    Args:
        settings: of the experiment, whose pairs have the `targets`.

    Raises:
        UserError: as `resolve_trees` where the text is the experiment's own, if both are asked for.
    """
    try:
        _check_text_of_losses(settings, targets, trees, losses)
    except UserError as error:
        if {"domains", "losses"} <= set(settings.studies):
            raise
        if "domains" in settings.studies:
            return trees, BlockStudy(problem=str(error))
        first = "" if "losses" in settings.studies else "; domains in studies puts the trees first"
        return TreeStudy(problem=f"{error}{first}"), losses
    return trees, losses


def _check_text_of_losses(
    settings: Any, targets: Sequence[str], trees: TreeStudy, losses: BlockStudy
) -> None:
    """A text that both take has the sizes of the losses study, and whole prompts."""
    block, own = settings.trees, [use.name for use in settings.domains]
    for target in trees.targets:
        shared = target in targets and block.mode in settings.modes
        for use in block.domains:
            text = losses.text(target, use.name, block.mode)
            if text is not None and not (shared and use.name in own):
                _check_prompts(use, text, "losses.domains")
                _check_text(block, use, text, "losses.domains")


def _check_names(block: Trees, study: TreeStudy, models: Mapping[str, dict]) -> None:
    if study.modes[block.mode]["temperature"]:
        raise UserError(
            f"trees.mode {block.mode!r} samples; a tree's accepted path can be read off the text "
            "only where decoding is greedy"
        )
    draft = study.pairs[block.pair]["draft"]
    row = registry.models_of(study.pairs, models)[draft]
    depth = Shape.of(block.shape.model_dump()).depth
    if row["kind"] == "dflash" and depth >= row["block_size"]:
        raise UserError(
            f"trees.shape is {depth} levels deep, and the blocks of {draft!r} have "
            f"{row['block_size'] - 1} drafted tokens; make it no deeper"
        )
    if (kind := row["kind"]) in TEXT_DRAFTS:
        raise UserError(
            f"trees.pair {block.pair!r}: {TEXT_DRAFTS[kind]} gives no probabilities to grow a tree from"
        )


def _check_prompts(use: DomainUse, own: DomainUse, whose: str = "this experiment") -> None:
    if use.prompts > own.prompts:
        raise UserError(
            f"trees.domains wants {use.prompts} prompts of domain {use.name!r}, which has "
            f"{own.prompts} in {whose}"
        )


def _check_text(block: Trees, use: DomainUse, own: DomainUse, whose: str) -> None:
    """The study takes the beginning of text that is there anyway, and cannot change it."""
    if use.max_new_tokens > own.max_new_tokens:
        raise UserError(
            f"trees.domains wants {use.max_new_tokens} tokens of domain {use.name!r}, whose text "
            f"{whose} generates with {own.max_new_tokens}"
        )
    if block.prompt_tokens is not None:
        raise UserError(
            f"trees.prompt_tokens would cut prompts of domain {use.name!r}, whose text {whose} "
            "generates from whole ones; leave it out, or take another pair or mode"
        )
