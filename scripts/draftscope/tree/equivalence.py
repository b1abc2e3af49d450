"""The loop over trees on stochastic matrices: is what it emits the target's own?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch

from draftscope import seeds
from draftscope.live.loop import decode
from draftscope.live.rules import RULES
from draftscope.lossless.decoder_level import GREEDY, GREEDY_TEXTS, GREEDY_TOKENS, T1, VOCABULARY
from draftscope.lossless.judgement import Outcome, Subject, row, transitions_fit
from draftscope.lossless.markov import pair
from draftscope.tree.controls import CHOSEN_AS_DRAWN, TREE_GROSS, TREE_MILD, ChosenDraft
from draftscope.tree.draft import TreeDraft
from draftscope.tree.loop import decode_tree
from draftscope.tree.markov import TreeMarkov
from draftscope.tree.rules import TREE_RULES, TreeRule
from draftscope.tree.shape import Shape

LEVEL_OF_DECODERS = 2
NOISE = 2.0  # a draft so far off that second children are often put to the test
PUBLISHED = Shape("breadth_first", max_depth=3, max_branch=2, max_nodes=8, root_branch=3)
BUSHY = Shape("static", branching=(4, 2, 1))
SHALLOW = Shape("static", branching=(3,))  # so that paths are often accepted whole
CONFIDENT = Shape("confidence", max_depth=4, max_branch=3, max_nodes=8)
PATHS = Shape("paths", paths=((1,), (2,), (1, 1), (2, 1), (1, 1, 1), (1, 1, 1, 1)))
CHAIN = Shape("static", branching=(1, 1, 1))
SHARP = T1 | {"temperature": 0.5}  # surer of itself than right: first children are often rejected
TWO_TOKENS = T1 | {"top_k": 2}  # fewer than the children of a node


class Run(NamedTuple):
    """A decoder under test; a shape None is plain decoding."""

    name: str
    rule: TreeRule
    shape: Shape | None
    drafter: TreeDraft | None
    correct: bool

    def texts(
        self, target: TreeMarkov, generations: int, tokens: int, key: tuple[int | str, ...]
    ) -> np.ndarray:
        """Sampled texts [generations, 1 + tokens], each with the one token of its prompt."""
        out = np.empty((generations, 1 + tokens), np.int64)
        for i in range(generations):
            prompt = [i % target.width]
            rng = seeds.generator("level 2, trees", *key, self.name, self.rule.name, i)
            settings: dict[str, Any] = {"law": T1, "budget": tokens, "eos_ids": frozenset()}
            if self.shape is None:
                decoded = decode(target, None, prompt, gamma=0, rng=rng, **settings)
            else:
                decoded = decode_tree(
                    target,
                    self.drafter,
                    prompt,
                    shape=self.shape,
                    rule=self.rule,
                    rng=rng,
                    **settings,
                )
            out[i] = prompt + decoded.token_ids
        return out


def runs(draft: TreeMarkov) -> Iterator[Run]:
    """The decoders that have to pass, and the faulty ones that have to be caught."""
    drawn, chosen = TREE_RULES["without_replacement"], TREE_RULES["point_mass"]
    model, sharp = TreeDraft(draft, T1), TreeDraft(draft, SHARP)
    yield Run("tree drawn, 2-4-2 nodes", drawn, PUBLISHED, model, True)
    yield Run("tree drawn, 4-8-8 nodes", drawn, BUSHY, sharp, True)
    yield Run("chain drawn as a tree", drawn, CHAIN, model, True)
    yield Run("tree drawn from two tokens", drawn, BUSHY, TreeDraft(draft, TWO_TOKENS), True)
    yield Run("tree chosen, 2-4-2 nodes", chosen, PUBLISHED, model, True)
    yield Run("tree chosen by confidence", chosen, CONFIDENT, model, True)
    for name, rule in TREE_GROSS.items():
        shape = SHALLOW if name == "bonus_from_draft" else BUSHY
        yield Run("faulty tree", rule, shape, sharp, False)
    yield Run("faulty tree", CHOSEN_AS_DRAWN, BUSHY, ChosenDraft(draft, SHARP), False)
    yield Run("faulty tree", TREE_MILD, BUSHY, sharp, False)


def level2_trees(
    generations: int, tokens: int, seed: int, level: float, vocabulary: int = VOCABULARY
) -> list[dict[str, Any]]:
    """Rows of the schema `lossless_equivalence` for the loop over trees.

    Plain decoding and six correct decoders have to pass, the faulty ones have to be caught. Sampled
    texts are tested transition by transition against the matrix; greedy texts have to be plain
    decoding's.

    Args:
        generations: texts of each decoder, correct or faulty.
        tokens: of each text.
        level: p-values below it reject.
    """
    target, draft = map(TreeMarkov.of, pair(vocabulary, seed, noise=NOISE, order=1))
    law = torch.softmax(target.matrix, -1).numpy()
    plain = Run("plain decoding", RULES["speculative_sampling"], None, None, True)
    rows = []
    for run in (plain, *runs(draft)):
        emitted = run.texts(target, generations, tokens, (seed,))
        subject = Subject(
            LEVEL_OF_DECODERS,
            run.name,
            run.rule.name,
            run.correct,
            generations,
            generations * tokens,
        )
        counts = np.zeros_like(law)
        np.add.at(counts, (emitted[:, :-1].ravel(), emitted[:, 1:].ravel()), 1)
        rows.append(row(subject, transitions_fit(counts, law, level), level))
    shapes = {"2-4-2 nodes": PUBLISHED, "by confidence": CONFIDENT, "4-8-8 nodes": BUSHY}
    shapes |= {"by paths": PATHS}
    return rows + [_greedy(name, shape, seed, level, vocabulary) for name, shape in shapes.items()]


def _greedy(name: str, shape: Shape, seed: int, level: float, vocabulary: int) -> Mapping[str, Any]:
    """Greedy texts of second-order matrices, so that a cache a token off gives another text."""
    target, draft = map(TreeMarkov.of, pair(vocabulary, seed, noise=0.5))
    drafter = TreeDraft(draft, GREEDY)
    settings: dict[str, Any] = {
        "law": GREEDY,
        "budget": GREEDY_TOKENS,
        "eos_ids": frozenset(),
        "rng": seeds.generator("greedy takes nothing from it"),
    }
    different = 0
    for i in range(GREEDY_TEXTS):
        prompt = [i % vocabulary, (7 * i) % vocabulary]
        wanted = decode(target, None, prompt, gamma=0, **settings).token_ids
        found = decode_tree(target, drafter, prompt, shape=shape, **settings).token_ids
        different += found != wanted
    subject = Subject(
        LEVEL_OF_DECODERS, "tree chosen", "greedy", True, GREEDY_TEXTS, GREEDY_TEXTS * GREEDY_TOKENS
    )
    reason = f"{different} of {GREEDY_TEXTS} texts differ" if different else "texts are identical"
    return row(subject, Outcome(f"greedy, {name}", rejected=different > 0, reason=reason), level)
