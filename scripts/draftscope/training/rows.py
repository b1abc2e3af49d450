"""Rows of the registry of models for drafts that are cut out of a model or trained here."""

from __future__ import annotations

import itertools
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from draftscope.strict import Integer, Name, Number, Strict

Positive = Annotated[Integer, Field(ge=1)]
Layers = Annotated[list[Annotated[Integer, Field(ge=0)]], Field(min_length=1)]


def _ascending(layers: list[int] | None) -> list[int] | None:
    if layers is not None and any(b <= a for a, b in itertools.pairwise(layers)):
        raise ValueError(
            f"layers {layers} do not ascend: each layer once, in the order of the base"
        )
    return layers


class LayerSubset(Strict):
    kind: Literal["layer_subset"]
    base: Name = Field(description="model whose layers are kept")
    layers: Layers = Field(description="layers that are kept, from 0")

    _order = field_validator("layers")(_ascending)


class TrainingDomain(Strict):
    name: Name = Field(description="domain whose training prompts are used")
    prompts: Positive = Field(description="how many of them, from the first")
    samples: Positive = Field(default=1, description="texts of the target a prompt")
    max_new_tokens: Annotated[Positive, Field(le=1_000_000)] = Field(
        description="budget of a text, in tokens"
    )


class TrainingTexts(Strict):
    domains: list[TrainingDomain] = Field(min_length=1)
    temperature: Annotated[Number, Field(ge=0)] = Field(
        description="that the target's texts are sampled at; a loss is at temperature 1"
    )

    @model_validator(mode="after")
    def _each_domain_once(self) -> TrainingTexts:
        names = [domain.name for domain in self.domains]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"train.domains names {twice!r} twice")
        return self


class Train(TrainingTexts):
    held_out: Annotated[Number, Field(gt=0, lt=1)] = Field(
        description="share of each domain's training prompts that only early stopping looks at"
    )
    steps: Positive = Field(description="most optimizer steps")
    batch: Positive = Field(description="texts of a step")
    lr: Annotated[Number, Field(gt=0)] = Field(description="highest learning rate, of AdamW")
    warm_up: Annotated[Integer, Field(ge=0)] = Field(
        description="steps until it is reached; from there it falls to a tenth, as a cosine"
    )
    evaluate_every: Positive = Field(
        description="steps between two looks at the held-out texts, each with a checkpoint"
    )
    patience: Positive = Field(description="looks without improvement after which training ends")
    seed: Annotated[Integer, Field(ge=0)] = Field(description="of the order of texts, and of LoRA")

    @model_validator(mode="after")
    def _can_be_done(self) -> Train:
        for domain in self.domains:
            if domain.prompts < 2:
                raise ValueError(
                    f"train.domains: {domain.name!r} has one prompt, which would be trained on and "
                    "held out at once; give at least 2"
                )
        if self.warm_up >= self.steps:
            raise ValueError(f"train.warm_up {self.warm_up} leaves none of {self.steps} steps")
        return self


class Distilled(Strict):
    kind: Literal["distilled"]
    base: Name = Field(description="model that training starts from")
    layers: Layers | None = Field(
        default=None, description="layers of the base that are kept; left out: all"
    )
    target: Name | None = Field(
        default=None, description="model whose distributions are learnt; left out: the base"
    )
    train: Train

    _order = field_validator("layers")(_ascending)


class Lora(Strict):
    kind: Literal["lora"]
    base: Name = Field(description="draft that the adapter is added to")
    target: Name = Field(description="model whose distributions are learnt")
    weighting: Literal["uniform", "reflection", "entropy"] = Field(
        description="which generated positions count more in the loss"
    )
    emphasis: Annotated[Number, Field(ge=1)] = Field(
        default=4.0, description="weight of a reflection trigger, where others have 1"
    )
    rank: Positive = Field(description="of the adapter's matrices")
    alpha: Annotated[Number, Field(gt=0)] = Field(
        description="the update is scaled by alpha / rank"
    )
    modules: list[str] | None = Field(
        default=None, description="names of the linear layers that it changes; left out: all"
    )
    train: Train
