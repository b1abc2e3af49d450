"""Sums of observations: what the statistics of position need of them.

The functions take observations that are in memory, or a `PositionSums` that was filled block by
block: its memory grows with prompts and bins, not with values, and every sum in it is made of
the same numbers in the same order, so the statistics are the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from draftscope.statistics.observations import Observations, Table, column_of, prompt_ids_of
from draftscope.statistics.running import RunningMean

Pair = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class Sides:
    """Values before and from a split on.

    Attributes:
        split: median start of all values; a value at it counts as late. None without values.
        early, late: sum of values and number of values of each prompt, both of shape [prompts].
        early_mean, late_mean: over all values of a side; None of none.
    """

    split: float | None
    early: Pair
    late: Pair
    early_mean: float | None
    late_mean: float | None


def window_sums(data: Observations | PositionSums, windows: int) -> Pair:
    """Sum of values and number of values in each equal part of each trajectory.

    Part floor(windows * start / tokens). Both of shape [trajectories, windows].
    """
    if isinstance(data, PositionSums):
        return data.window_sums(windows)
    window = windows * data.start // data.tokens[data.trajectory]
    cell = data.trajectory * windows + window
    size = len(data.prompt) * windows
    sums = np.bincount(cell, data.value, size).reshape(-1, windows)
    return sums, np.bincount(cell, minlength=size).reshape(-1, windows)


def bin_sums(data: Observations | PositionSums, edges: np.ndarray) -> Pair:
    """Sum of values / scale and number of values that start in each bin, [prompts, bins]."""
    if isinstance(data, PositionSums):
        return data.bin_sums(edges)
    bins, prompts = len(edges) - 1, len(data.prompt_ids)
    bin_of = np.searchsorted(edges, data.start, side="right") - 1
    inside = (bin_of >= 0) & (bin_of < bins)
    cell = data.prompt[data.trajectory[inside]] * bins + bin_of[inside]
    sums = np.bincount(cell, data.value[inside] / data.scale, prompts * bins)
    counts = np.bincount(cell, minlength=prompts * bins)
    return sums.reshape(prompts, bins), counts.reshape(prompts, bins)


def sides(data: Observations | PositionSums) -> Sides:
    """The values of each prompt before and from the median start of all of them on."""
    if isinstance(data, PositionSums):
        return data.sides
    split = float(np.median(data.start)) if len(data.start) else None
    late = data.start >= (split or 0.0)
    owner, prompts = data.prompt[data.trajectory], len(data.prompt_ids)
    pairs, means = [], []
    for side in (~late, late):
        sums = np.bincount(owner[side], data.value[side] / data.scale, prompts)
        pairs.append((sums, np.bincount(owner[side], minlength=prompts)))
        mean = RunningMean()
        mean.add(data.value[side])
        means.append(_scaled(mean, data.scale))
    return Sides(split, *pairs, *means)


def _scaled(mean: RunningMean, scale: float) -> float | None:
    return None if mean.mean is None else mean.mean / scale


def bin_edges(tokens: np.ndarray, width: int) -> np.ndarray:
    """Edges of bins of `width` tokens that hold every position of texts of these lengths."""
    if width < 1:
        raise ValueError(f"bins of {width} tokens")
    longest = int(tokens.max()) if len(tokens) else 0
    return np.arange(0, longest + width, width)


class Texts:
    """The trajectories of a table of loops, sorted by prompt and sample.

    Attributes:
        prompt_ids: sorted, shape [prompts].
        prompt, sample, tokens: index of its prompt, which of several it is, and length, of each
            trajectory; [trajectories].
    """

    def __init__(self, loops: Table) -> None:
        prompt_ids, sample = prompt_ids_of(loops), column_of(loops, "sample").astype(np.int64)
        tokens = column_of(loops, "tokens").astype(np.int64)
        codes, self.prompt_ids = pd.factorize(prompt_ids, sort=True)
        order = np.lexsort((sample, codes))
        self.prompt, self.sample, self.tokens = codes[order], sample[order], tokens[order]
        self._index = pd.MultiIndex.from_arrays([prompt_ids[order], self.sample])
        if self._index.has_duplicates:
            raise ValueError(f"two rows for {self._index[self._index.duplicated()][0]}")

    def rows(self, data: Observations) -> np.ndarray:
        """The place of each trajectory of the observations, shape [their trajectories].

        Raises:
            ValueError: a trajectory that the table does not list.
        """
        keys = [data.prompt_ids[data.prompt], data.sample]
        rows = self._index.get_indexer(pd.MultiIndex.from_arrays(keys))
        if (rows < 0).any():
            lost = int(np.flatnonzero(rows < 0)[0])
            raise ValueError(f"no row for prompt {keys[0][lost]}, sample {keys[1][lost]}")
        return rows

    def require_same_lengths(self, data: Observations) -> None:
        """Raises ValueError where observations of whole texts are of texts of another length."""
        rows = self.rows(data)
        if (odd := np.flatnonzero(data.tokens != self.tokens[rows])).size:
            prompt, sample = self._index[rows[odd[0]]]
            raise ValueError(
                f"prompt {prompt}, sample {sample} has {data.tokens[odd[0]]} tokens here and "
                f"{self.tokens[rows[odd[0]]]} in its loops file"
            )


class PositionSums:
    """Sums of observations that come block by block, twice: the split is known after the first time.

    Give every block to `add`, then every block again, in the same order, to `add_sides`. Blocks hold
    whole trajectories, each in one block only. Attributes are as of `Observations`.
    """

    def __init__(
        self, texts: Texts, width: int | None = None, windows: Sequence[int] = (2, 5)
    ) -> None:
        """
        Args:
            texts: every trajectory that can come, at its full length.
            width: tokens in a bin of positions; without it there are no bins.
            windows: numbers of equal parts of a text that will be asked for.
        """
        trajectories, prompts = len(texts.prompt), len(texts.prompt_ids)
        self.quantity, self.scale = "", 1.0
        self._texts, self._width = texts, width
        self._held = np.zeros(trajectories, dtype=bool)
        self._tokens = np.zeros(trajectories, dtype=np.int64)
        self._windows = {
            parts: (np.zeros((trajectories, parts)), np.zeros((trajectories, parts), np.int64))
            for parts in windows
        }
        self._edges = np.zeros(1, np.int64) if width is None else bin_edges(texts.tokens, width)
        cells = prompts * (len(self._edges) - 1)
        self._bins = np.zeros(cells), np.zeros(cells, np.int64)
        self._starts = np.zeros(int(texts.tokens.max(initial=0)), dtype=np.int64)
        self._lost: dict[str, int] = {}
        self._sides: list[tuple[np.ndarray, np.ndarray, RunningMean]] = []

    def add(self, block: Observations) -> None:
        """Raises ValueError for a trajectory that came before, or that the texts do not list."""
        rows = self._texts.rows(block)
        if self._held[rows].any():
            raise ValueError("a trajectory stands in two rows: one draft and one law at a time")
        self.quantity, self.scale = block.quantity, block.scale
        self._held[rows], self._tokens[rows] = True, block.tokens
        for parts, (sums, counts) in self._windows.items():
            sums[rows], counts[rows] = window_sums(block, parts)
        if self._width is not None:
            bins = len(self._edges) - 1
            cell = self._texts.prompt[rows][block.trajectory] * bins + block.start // self._width
            # In the order of the values, whichever block they are in: rounding depends on it.
            np.add.at(self._bins[0], cell, block.value / block.scale)
            np.add.at(self._bins[1], cell, np.ones(len(cell), np.int64))
        self._starts += np.bincount(block.start, minlength=len(self._starts))
        for reason, count in block.dropped.items():
            self._lost[reason] = self._lost.get(reason, 0) + count

    def add_sides(self, block: Observations) -> None:
        """The same blocks a second time."""
        prompts, late = len(self._texts.prompt_ids), block.start >= (self.split or 0.0)
        if not self._sides:
            self._sides = [
                (np.zeros(prompts), np.zeros(prompts, np.int64), RunningMean()) for _ in range(2)
            ]
        owner = self._texts.prompt[self._texts.rows(block)][block.trajectory]
        for side, (sums, counts, mean) in zip((~late, late), self._sides, strict=True):
            np.add.at(sums, owner[side], block.value[side] / block.scale)
            counts += np.bincount(owner[side], minlength=prompts)
            mean.add(block.value[side])

    @property
    def count(self) -> int:
        """Number of values."""
        return int(self._starts.sum())

    @property
    def dropped(self) -> dict[str, int]:
        return dict(self._lost)

    @property
    def prompt_ids(self) -> np.ndarray:
        return self._texts.prompt_ids[self._kept]

    @property
    def prompt(self) -> np.ndarray:
        return np.unique(self._texts.prompt[self._held], return_inverse=True)[1]

    @property
    def tokens(self) -> np.ndarray:
        return self._tokens[self._held]

    @property
    def _kept(self) -> np.ndarray:
        return np.unique(self._texts.prompt[self._held])

    @property
    def split(self) -> float | None:
        """Median start of all values."""
        if not self.count:
            return None
        below = np.cumsum(self._starts)
        middle = [(self.count - 1) // 2, self.count // 2]
        return float(np.searchsorted(below, middle, side="right").mean())

    def window_sums(self, windows: int) -> Pair:
        sums, counts = self._windows[windows]
        return sums[self._held], counts[self._held]

    def bin_sums(self, edges: np.ndarray) -> Pair:
        bins = len(edges) - 1
        if not np.array_equal(edges, self._edges[: bins + 1]):
            raise ValueError(f"these sums are not of the bins asked for: {self._width=}")
        shape = len(self._texts.prompt_ids), len(self._edges) - 1
        sums, counts = (cells.reshape(shape) for cells in self._bins)
        return sums[self._kept, :bins], counts[self._kept, :bins]

    @property
    def sides(self) -> Sides:
        """Raises ValueError unless every block has come twice."""
        kept = self._kept
        if sum(mean.count for *_, mean in self._sides) != self.count:
            raise ValueError("the blocks have not all come a second time")
        if not self._sides:
            nothing = np.zeros(len(kept)), np.zeros(len(kept), np.int64)
            return Sides(None, nothing, nothing, None, None)
        pairs = [(sums[kept], counts[kept]) for sums, counts, _ in self._sides]
        means = [_scaled(mean, self.scale) for *_, mean in self._sides]
        return Sides(self.split, *pairs, *means)
