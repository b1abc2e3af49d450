"""How every figure looks and how it is saved: the same bytes for the same data.

Series differ in color, line style and marker at once, so that a figure is readable in grey and
without telling hues apart. The colors are Okabe and Ito's, in an order whose lightness alternates.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # no display on a cluster node
import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns

from draftscope.writing import atomic

# The library that embeds fonts in PDF narrates every table it prunes.
logging.getLogger("fontTools").setLevel(logging.WARNING)

SETTINGS = {
    "svg.hashsalt": "draftscope",
    # Text stays text: it can be searched, read aloud and restyled. Arial and Helvetica are
    # narrower than the font used for the layout, so a substitute does not run over.
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Arial", "Helvetica", "sans-serif"],
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "axes.labelsize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "grid.color": "#e3e3e3",
    "grid.linewidth": 0.6,
}


@dataclass(frozen=True)
class Series:
    """What one series looks like, in every figure of a study."""

    color: str
    linestyle: Any
    marker: str
    filled: bool

    def line(self) -> dict[str, Any]:
        """Keyword arguments of `Axes.plot` and `Axes.errorbar`."""
        return {
            "color": self.color,
            "linestyle": self.linestyle,
            "marker": self.marker,
            "markerfacecolor": self.color if self.filled else "white",
            "markeredgecolor": self.color,
            "markeredgewidth": 1.1,
        }


_LOOKS = (
    Series("#0072b2", "-", "o", True),
    Series("#d55e00", (0, (5, 2)), "s", False),
    Series("#009e73", (0, (1, 1.4)), "^", True),
    Series("#5e2f66", (0, (6, 1.5, 1, 1.5)), "D", False),
    Series("#e69f00", "-", "v", False),
    Series("#333333", (0, (2, 1)), "P", True),
    Series("#56b4e9", (0, (5, 2)), "X", True),
    Series("#a0527d", (0, (1, 1.4)), "<", False),
)


def series(names: list[str]) -> dict[str, Series]:
    """A look for each name, in order; beyond eight names the looks repeat."""
    return {name: _LOOKS[i % len(_LOOKS)] for i, name in enumerate(dict.fromkeys(names))}


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Draw inside this context; the caller's matplotlib settings come back afterwards."""
    before = set(plt.get_fignums())
    try:
        with sns.axes_style("ticks"), sns.plotting_context("paper"), plt.rc_context(SETTINGS):
            yield
    finally:
        for number in set(plt.get_fignums()) - before:
            plt.close(number)


def where(frame: pd.DataFrame, **values: Any) -> pd.DataFrame:
    """The rows of a frame whose columns hold these values."""
    for name, value in values.items():
        frame = frame[frame[name] == value]
    return frame


def empty(axes: plt.Axes, reason: str) -> None:
    """Say in the panel why it shows nothing."""
    axes.text(
        0.5,
        0.5,
        textwrap.fill(reason, 30),
        transform=axes.transAxes,
        ha="center",
        va="center",
        fontsize=8,
        color="#555555",
    )
    axes.set_xticks([])
    axes.set_yticks([])


def caption(figure: plt.Figure, text: str) -> None:
    """Write the caption below everything else, wrapped to the width of the figure."""
    columns = int(figure.get_figwidth() * 16.5)
    wrapped = "\n".join(textwrap.fill(line, columns) for line in text.splitlines())
    # Below the lower edge: `save` grows the page to hold it, so it never covers a panel.
    figure.text(0.005, -0.015, wrapped, ha="left", va="top", fontsize=8, color="#222222")
    figure.caption_text = text


def save(figure: plt.Figure, stem: str | os.PathLike, title: str) -> list[Path]:
    """Write `stem`.svg and `stem`.pdf, each whole or not at all, without dates.

    The title and the caption travel in the files' metadata (SVG description, PDF subject).

    Returns:
        The two paths.
    """
    about = getattr(figure, "caption_text", "")
    metadata = {
        "svg": {"Title": title, "Description": about, "Date": None, "Creator": "draftscope"},
        "pdf": {
            "Title": title,
            "Subject": about,
            "CreationDate": None,
            "Creator": "draftscope",
            "Producer": None,
        },
    }
    paths = []
    for suffix, keys in metadata.items():
        path = Path(f"{os.fspath(stem)}.{suffix}")
        # matplotlib draws into memory first: a failure in drawing leaves the old file alone.
        buffer = io.BytesIO()
        with plt.rc_context({key: SETTINGS[key] for key in SETTINGS if key[:3] in ("svg", "pdf")}):
            figure.savefig(
                buffer, format=suffix, metadata=keys, bbox_inches="tight", pad_inches=0.08
            )
        with atomic(path, "wb") as file:
            file.write(buffer.getvalue())
        paths.append(path)
    return paths
