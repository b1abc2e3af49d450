"""An experiment with everything that its names stand for, and the sizes of its texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from draftscope.block_study.settings import BlockStudy
from draftscope.certificate_study.settings import CertificateStudy
from draftscope.checkpoints import BLOCK_DRAFTS
from draftscope.domains.settings import TreeStudy
from draftscope.interventions.settings import InterventionStudy
from draftscope.lossless.settings import Live
from draftscope.position.settings import Sweep
from draftscope.stage import DomainUse

if TYPE_CHECKING:
    from draftscope.config import Experiment


@dataclass(frozen=True)
class Resolved:
    """An experiment with the registry rows it uses, as plain dictionaries ready for `params`.

    `pairs`, `domains` and `modes` are those that are generated, scored and replayed; `live` are
    those of the live loop, `trees` those that token trees are scored on,
    `certificates` those that are certified, `interventions` those of
    trained drafts; `losses` and `retrace` those of block drafters; `models` are of all. `calibration` holds the domains whose training prompts some
    of them are quantized on, `training` those that some are trained on; `sweep` has the texts of
    the sweep over temperatures.
    """

    settings: Experiment
    models: Mapping[str, dict]
    pairs: Mapping[str, dict]
    domains: Mapping[str, dict]
    modes: Mapping[str, dict]
    live: Live
    trees: TreeStudy
    calibration: Mapping[str, dict]
    interventions: InterventionStudy = field(default_factory=InterventionStudy)
    training: Mapping[str, dict] = field(default_factory=dict)
    sweep: Sweep = field(default_factory=Sweep)
    certificates: CertificateStudy = field(default_factory=CertificateStudy)
    losses: BlockStudy = field(default_factory=BlockStudy)
    retrace: BlockStudy = field(default_factory=BlockStudy)

    @property
    def replayed(self) -> dict[str, dict]:
        """All pairs that can be scored and replayed: the experiment's, and those of trained drafts."""
        return {**self.pairs, **self.interventions.pairs, **self.losses.pairs}

    @property
    def targets(self) -> list[str]:
        return list(dict.fromkeys(pair["target"] for pair in self.pairs.values()))

    def shards(self, domain: str) -> list[str]:
        """Names of the domain's files of prompts: "0000", "0001", ... in registry order."""
        return self._shards(self.use(domain).prompts)

    def text_shards(self, target: str, domain: str, mode: str) -> list[str]:
        """Names of the shards of a text: those of the domain's files of prompts that it takes."""
        return self._shards(self.text(target, domain, mode).prompts)

    def _shards(self, prompts: int) -> list[str]:
        return [f"{index:04d}" for index in range(-(-prompts // self.settings.shard_size))]

    def shard_bounds(self, domain: str, shard: str) -> tuple[int, int]:
        """First prompt and one past the last of a shard."""
        start = int(shard) * self.settings.shard_size
        return start, min(start + self.settings.shard_size, self.use(domain).prompts)

    def use(self, domain: str) -> DomainUse:
        """How many prompts of a domain are collected, for whatever study, and its budget."""
        for use in self.settings.domains:
            if use.name == domain:
                return use
        uses = self._tree_uses(domain)
        uses += [use for s in (self.losses, self.retrace) if (use := s.use(domain))]
        if domain in self.live.domains:
            live = self.settings.lossless
            sizes = {"prompts": live.most_prompts, "max_new_tokens": live.max_new_tokens}
            uses.append(DomainUse(name=domain, **sizes))
        return max(uses, key=lambda use: use.prompts)

    def text(self, target: str, domain: str, mode: str) -> DomainUse:
        """Prompts and budget of the text by a target: of several users the first decides.

        That it serves the others too is seen to where their settings are resolved.
        """
        if self.generates(target, domain, mode):
            return self.use(domain)
        if self.sweep.generates(target, domain, mode):
            return self.sweep.use
        if own := self.losses.text(target, domain, mode):
            return own
        return self._tree_uses(domain)[0]

    def sweep_shards(self) -> dict[str, int]:
        """Shards of a text that the sweep takes, with how many prompts of each."""
        if self.sweep.use is None:
            return {}
        found = {}
        for shard in self._shards(self.sweep.use.prompts):
            start, stop = self.shard_bounds(self.sweep.use.name, shard)
            found[shard] = min(stop, self.sweep.use.prompts) - start
        return found

    def tree_shards(self, domain: str) -> list[str]:
        """Names of the shards of text that trees are scored on."""
        return self._shards(self._tree_uses(domain)[0].prompts)

    def cuts_prompts(self, target: str, domain: str, mode: str) -> bool:
        """Whether the text continues prompts that are cut to `trees.prompt_tokens`."""
        cut = self.settings.trees.prompt_tokens is not None
        own = self.generates(target, domain, mode) or self.sweep.generates(target, domain, mode)
        return cut and not own and not self.losses.text(target, domain, mode)

    def generates(self, target: str, domain: str, mode: str) -> bool:
        """Whether the experiment generates the text whatever its studies are."""
        return target in self.targets and domain in self.domains and mode in self.modes

    def _tree_uses(self, domain: str) -> list[DomainUse]:
        return [
            use
            for use in self.settings.trees.domains
            if use.name == domain and domain in self.trees.domains
        ]

    def group(self, target: str, draft_group: str) -> list[str]:
        """Drafts scored together in one pass of the target, in the order of the pairs.

        Block drafters are not among them: they have no distribution at every position.
        """
        return list(
            dict.fromkeys(
                pair["draft"]
                for pair in self.replayed.values()
                if pair["target"] == target
                and pair["draft_group"] == draft_group
                and self.models[pair["draft"]]["kind"] not in BLOCK_DRAFTS
            )
        )
