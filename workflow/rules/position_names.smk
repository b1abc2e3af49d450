# Needs: the names of common.smk.
# Makes: names that the rules of the position study, of token types and of the sweep over temperatures
#   share.
# Why: the study's own texts, their types and the sweep stand in one set of exhibits.

from snakemake.exceptions import WorkflowError

POSITION = EXPERIMENT.settings.position
POSITION_FILES = ("paired", "pooled", "curves", "quintiles", "halves")
CONFIGURATIONS = [
    {
        "label": configuration.label,
        "pair": configuration.pair,
        "draft": EXPERIMENT.pairs[configuration.pair]["draft"],
        "domain": POSITION.domain,
        "mode": mode,
        "temperature": EXPERIMENT.modes[mode]["temperature"],
        "score_shards": len(score_shards(configuration.pair, POSITION.domain, mode)),
    }
    for configuration in POSITION.configurations
    for mode in EXPERIMENT.modes
]

TYPE_STATISTICS = {
    name: RESULTS / "statistics/position" / f"{name}.parquet"
    for name in ("types", "mismatches", "survival", "model")
}
TYPE_TABLES = (
    "table_types",
    "table_mismatches",
    "table_trend",
    "table_effects",
    "table_survival",
)
TYPE_FIGURES = ("figure3", "figure4", "figure7", "figure_trend")


def position_type_exhibits():
    """Tables and figures about token types and the trend within texts."""
    return [
        RESULTS / "exhibits/position" / f"{stem}.{kind}"
        for stems, types in (
            (TYPE_TABLES, ("csv", "md", "tex")),
            (TYPE_FIGURES, ("svg", "pdf")),
        )
        for stem in stems
        for kind in types
    ]


def position_study_exhibits():
    """Exhibits of the position study that its own texts give."""
    return [*position_exhibits(), *position_type_exhibits()]


def temperatures_targets(wildcards):
    """What the target of the sweep asks for; says why where this experiment cannot have it."""
    if EXPERIMENT.sweep.problem is not None:
        raise WorkflowError(EXPERIMENT.sweep.problem)
    return temperature_exhibits()


def position_sweep():
    """Exhibits of the sweep over temperatures, where the experiment has one."""
    return temperature_exhibits() if EXPERIMENT.sweep.problem is None else []


def of_target(folder, row):
    """A file of a configuration's texts, one a target, domain and mode."""
    target = EXPERIMENT.pairs[row["pair"]]["target"]
    return RESULTS / folder / target / row["domain"] / f"{row['mode']}.parquet"


def texts_of(row):
    return trajectory_shards(
        EXPERIMENT.pairs[row["pair"]]["target"], row["domain"], row["mode"]
    )


def temperature_exhibits():
    """Tables and figures of the sweep over temperatures."""
    return [
        RESULTS / "exhibits/temperatures" / f"{stem}.{kind}"
        for stem, types in (
            ("table3", ("csv", "md", "tex")),
            ("table_slopes", ("csv", "md", "tex")),
            ("figure_temperatures", ("svg", "pdf")),
        )
        for kind in types
    ]


def sweep_condition():
    """What is different of the sweep over temperatures, in the keys of the published condition."""
    sweep = EXPERIMENT.sweep
    if "temperatures" not in EXPERIMENT.settings.studies:
        return {}
    label = {row.pair: row.label for row in POSITION.configurations}.get(sweep.pair)
    sizes = ("prompts", "max_new_tokens")
    return {"label": label} | {key: getattr(sweep.use, key) for key in sizes}
