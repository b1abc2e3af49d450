"""How figures are drawn and saved: the same bytes for the same data, readable without color."""

from __future__ import annotations

import itertools
import re

import matplotlib.pyplot as plt
import pytest
from draftscope.exhibits import figures
from matplotlib.colors import to_rgb


def draw(title="Title"):
    figure, axis = plt.subplots()
    for name, look in figures.series(["greedy", "sample"]).items():
        axis.plot([0, 1, 2], [len(name), 2, 3], **look.line(), label=name)
    axis.set_xlabel("Position (tokens)")
    figure.legend()
    figures.caption(figure, "A caption that says n = 3 & more.")
    return figure


def test_same_data_same_bytes(tmp_path):
    for folder in ("a", "b"):
        with figures.style():
            paths = figures.save(draw(), tmp_path / folder / "figure1", "Title")
        assert [path.suffix for path in paths] == [".svg", ".pdf"]
    for suffix in ("svg", "pdf"):
        first = (tmp_path / "a" / f"figure1.{suffix}").read_bytes()
        assert first == (tmp_path / "b" / f"figure1.{suffix}").read_bytes()
        assert not re.search(rb"CreationDate|dc:date|20[0-9]{2}-[01][0-9]-", first)


def test_other_data_other_bytes(tmp_path):
    with figures.style():
        figures.save(draw(), tmp_path / "a", "Title")
        figure = draw()
        figure.axes[0].plot([0, 1], [0, 9])
        figures.save(figure, tmp_path / "b", "Title")
    assert (tmp_path / "a.svg").read_bytes() != (tmp_path / "b.svg").read_bytes()


def test_text_stays_text_and_carries_title_and_caption(tmp_path):
    with figures.style():
        figures.save(draw(), tmp_path / "figure1", "Figure 1. Acceptance")
    text = (tmp_path / "figure1.svg").read_text(encoding="utf-8")
    assert ">Position (tokens)<" in text
    assert "Figure 1. Acceptance" in text
    assert "A caption that says n = 3 &amp; more." in text


def test_dots_in_a_name_are_kept(tmp_path):
    with figures.style():
        paths = figures.save(draw(), tmp_path / "qwen2.5", "Title")
    assert [path.name for path in paths] == ["qwen2.5.svg", "qwen2.5.pdf"]


def test_settings_of_the_caller_come_back_and_figures_are_closed():
    before, still_open = dict(plt.rcParams), plt.get_fignums()
    with figures.style():
        draw()
        assert plt.rcParams["svg.hashsalt"] == "draftscope"
    assert dict(plt.rcParams) == before
    assert plt.get_fignums() == still_open


def test_series_differ_in_marker_line_and_lightness():
    looks = list(figures.series([str(i) for i in range(8)]).values())
    assert len({look.marker for look in looks}) == 8
    assert len({look.color for look in looks}) == 8
    for one, other in itertools.pairwise(looks):
        assert (one.linestyle, one.filled) != (other.linestyle, other.filled)

    def lightness(color):
        red, green, blue = to_rgb(color)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    # Adjacent series are told apart in grey by line and marker; the first two also by lightness.
    assert abs(lightness(looks[0].color) - lightness(looks[1].color)) > 0.05


def test_names_keep_their_look_and_repeat_beyond_eight():
    names = [f"mode {i}" for i in range(10)]
    looks = figures.series(names)
    assert looks["mode 8"] == looks["mode 0"]
    assert figures.series(names[:3])["mode 2"] == looks["mode 2"]


def test_empty_panel_says_why(tmp_path):
    with figures.style():
        figure, axis = plt.subplots()
        figures.empty(axis, "fewer than 10 prompts in every bin of this panel")
        figures.save(figure, tmp_path / "empty", "Title")
    text = (tmp_path / "empty.svg").read_text(encoding="utf-8")
    assert "fewer than 10 prompts in every" in text


def test_failure_leaves_the_old_file(tmp_path):
    with figures.style():
        figures.save(draw(), tmp_path / "a", "Title")
        before = (tmp_path / "a.svg").read_bytes()
        figure = draw()
        figure.savefig = None
        with pytest.raises(TypeError):
            figures.save(figure, tmp_path / "a", "Title")
    assert (tmp_path / "a.svg").read_bytes() == before
