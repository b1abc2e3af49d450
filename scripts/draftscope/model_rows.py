"""Rows of the registry of models: what each kind of model must and may be told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from draftscope.block_training.rows import Dflash, Retrace
from draftscope.strict import Integer, Name, Strict
from draftscope.training.rows import Distilled, LayerSubset, Lora, TrainingTexts

Positive = Annotated[Integer, Field(ge=1)]


class PackageGguf(Strict):
    kind: Literal["package_gguf"]
    package: str = Field(description="name on the Python package index")
    version: str
    file: str = Field(description="path of the GGUF inside the wheel")
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] = Field(description="of the GGUF")
    tokenizer_probes: dict[str, list[int]] = Field(
        description="texts and the ids that the original tokenizer encodes them as"
    )


class Gguf(Strict):
    kind: Literal["gguf"]
    path: str = Field(description="GGUF file on this machine")
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] = Field(description="of the GGUF")
    tokenizer_probes: dict[str, list[int]] = Field(description="as for package_gguf")


class Hub(Strict):
    kind: Literal["hub"]
    id: str = Field(description="owner/name on the model hub")
    revision: str = Field(description="commit, tag or branch; resolved to a commit and recorded")
    quantization: Literal["gptq"] | None = Field(
        default=None, description="how its weights are quantized, if they are"
    )


class Local(Strict):
    kind: Literal["local"]
    path: str = Field(description="folder with safetensors weights, configuration and tokenizer")


class RoundToNearest(Strict):
    kind: Literal["round_to_nearest"]
    base: Name = Field(description="model whose weights are rounded")
    bits: Annotated[Integer, Field(ge=2, le=8)]
    group_size: Positive = Field(description="weights that share one scale")


class Calibration(Strict):
    domains: list[Name] = Field(
        min_length=1, description="domains whose training prompts are read, in turn"
    )
    texts: Positive = Field(description="prompts in all")
    tokens: Annotated[Integer, Field(ge=16, le=65536)] = Field(
        description="most tokens of each prompt"
    )

    @model_validator(mode="after")
    def _every_domain_gives_text(self) -> Calibration:
        twice = {name for name in self.domains if self.domains.count(name) > 1}
        if twice:
            raise ValueError(f"calibration.domains names {min(twice)!r} twice")
        if self.texts < len(self.domains):
            raise ValueError(
                f"calibration.texts {self.texts} is below the {len(self.domains)} domains"
            )
        return self

    def share(self, domain: str) -> int:
        """How many prompts of a domain are read: the first ones give one more where it is uneven."""
        least, more = divmod(self.texts, len(self.domains))
        return least + (self.domains.index(domain) < more)


class Gptq(Strict):
    kind: Literal["gptq"]
    base: Name = Field(description="model whose weights are quantized")
    bits: Literal[2, 3, 4, 8] = Field(description="of a weight")
    group_size: Literal[16, 32, 64, 128] = Field(description="weights that share one scale")
    calibration: Calibration = Field(description="text that errors are compensated on")


class PromptLookup(Strict):
    kind: Literal["prompt_lookup"]
    max_ngram: Positive = Field(description="longest n-gram that is looked up")
    min_ngram: Positive = Field(description="shortest n-gram that counts as a match")

    @model_validator(mode="after")
    def _from_short_to_long(self) -> PromptLookup:
        if self.min_ngram > self.max_ngram:
            raise ValueError(f"min_ngram {self.min_ngram} is above max_ngram {self.max_ngram}")
        return self


class Bigram(Strict):
    kind: Literal["bigram"]
    target: Name = Field(description="model whose texts are counted")
    train: TrainingTexts


class LlamaCpp(Strict):
    kind: Literal["llama_cpp"]
    base: Name = Field(description="model whose tokenizer it has, and whose GGUF file it runs")
    file_type: Literal[
        "f32", "f16", "bf16", "q8_0", "q6_k", "q5_k_m", "q5_k_s", "q5_1", "q5_0",
        "q4_k_m", "q4_k_s", "q4_1", "q4_0", "q3_k_l", "q3_k_m", "q3_k_s", "q2_k",
    ] | None = Field(default=None, description="quantize the file to this type first")  # fmt: skip
    repository: str | None = Field(
        default=None, description="owner/name on the model hub that holds the GGUF file instead"
    )
    revision: str | None = Field(default=None, description="of the repository, as for hub")
    file: Annotated[str, Field(pattern=r"\.gguf$")] | None = Field(
        default=None, description="the file in the repository; of a split one, the first part"
    )

    @model_validator(mode="after")
    def _a_file_of_the_hub_has_an_address(self) -> LlamaCpp:
        address = {key: getattr(self, key) for key in ("repository", "revision", "file")}
        missing = [key for key, value in address.items() if value is None]
        if 0 < len(missing) < 3:
            raise ValueError(
                f"{missing[0]} is missing; give repository, revision and file, or none"
            )
        return self


MODEL_KINDS: dict[str, type[Strict]] = {
    "package_gguf": PackageGguf,
    "gguf": Gguf,
    "hub": Hub,
    "local": Local,
    "round_to_nearest": RoundToNearest,
    "prompt_lookup": PromptLookup,
    "bigram": Bigram,
    "gptq": Gptq,
    "llama_cpp": LlamaCpp,
    "layer_subset": LayerSubset,
    "distilled": Distilled,
    "lora": Lora,
    "dflash": Dflash,
    "retrace": Retrace,
}


def teacher_of(row: Mapping[str, Any]) -> str | None:
    """The model whose texts and distributions a draft is trained on; None where none is."""
    return (row.get("target") or row["base"]) if "train" in row else None
