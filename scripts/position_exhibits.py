"""Tables 1 and 2 and Figures 1, 2 and 5 of the position study, from its statistics.

The protocol they state (draft length, intervals, resamples) is the one that the statistics files
say they were made with. Writes table1.csv, .md, .tex, table2.*, figure1.svg, .pdf, figure2.* and figure5.* into --folder.
"""

from __future__ import annotations

from draftscope.errors import command
from draftscope.position import exhibit_files

FILES = ("paired", "pooled", "curves", "quintiles", "halves")


def main() -> None:
    frames, settings, folder = exhibit_files.read(__doc__, FILES)

    from draftscope.exhibits import figures
    from draftscope.position import figures as drawn
    from draftscope.position import tables

    protocol = {key: settings[key] for key in ("draft_length", "confidence", "resamples", "method")}
    for name, table in (
        ("table1", tables.paired_halves(frames["paired"], **protocol)),
        ("table2", tables.pooled_halves(frames["pooled"], **protocol)),
    ):
        table.write(folder / name)
    confidence = settings["confidence"]
    with figures.style():
        figure1 = drawn.acceptance_by_position(
            frames["curves"],
            confidence=confidence,
            support_prompts=settings["support_prompts"],
            draft_length=settings["draft_length"],
        )
        figure2 = drawn.halves(frames["paired"], frames["halves"], confidence=confidence)
        figure5 = drawn.quintiles(frames["quintiles"], confidence=confidence)
        figures.save(figure1, folder / "figure1", "Figure 1. Acceptance by position")
        figures.save(figure2, folder / "figure2", "Figure 2. Acceptance by half")
        figures.save(figure5, folder / "figure5", "Figure 5. Acceptance by fifth of the text")


if __name__ == "__main__":
    command(main)
