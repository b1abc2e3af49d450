# Needs: the names of common.smk.
# Makes: names of the exhibits that every experiment has.
# Why: the rules that draw them and the report ask for the same files.


def position_exhibits():
    """Tables and figures of the position study."""
    tables = [f"table{n}.{kind}" for n in (1, 2) for kind in ("csv", "md", "tex")]
    figures = [f"figure{n}.{kind}" for n in (1, 2, 5) for kind in ("svg", "pdf")]
    return [RESULTS / "exhibits/position" / name for name in tables + figures]


def measures_exhibits():
    """Tables of every measure of acceptance."""
    return [
        RESULTS / "exhibits/measures" / f"{stem}.{kind}"
        for stem in ("measures", "positions")
        for kind in ("csv", "md", "tex")
    ]


def choice_exhibits():
    """Tables and figures of the draft choice."""
    return [
        RESULTS / "exhibits/choice" / f"{stem}.{kind}"
        for stems, types in (
            (("choice", "choice_all"), ("csv", "md", "tex")),
            (("figure1", "figure2"), ("svg", "pdf")),
        )
        for stem in stems
        for kind in types
    ]
