"""Files beside an option that takes several values, in whichever order they are given."""

from __future__ import annotations


def give_back(files: list[str], values: list[str], wanted: int) -> tuple[list[str], list[str]]:
    """The files and the values of an option, when the option has taken files that stood behind it.

    Such an option takes every word up to the next option: of `--measure def1 A B` the files too.

    Args:
        files, values: as they were parsed.
        wanted: how many files there must be.
    """
    # An option that is there has a value of its own.
    taken = min(max(wanted - len(files), 0), max(len(values) - 1, 0))
    kept = len(values) - taken
    return files + values[kept:], values[:kept]
