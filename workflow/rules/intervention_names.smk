# Needs: the names of common.smk.
# Makes: names that the rules of the interventions and of distillation share.
# Why: trained drafts are measured on the text of the experiment, but are not among its pairs unless
#   they are named there.

from snakemake.exceptions import WorkflowError

INTERVENTIONS = EXPERIMENT.settings.interventions
INTERVENTION_FILES = ("lengths", "differences", "diagnostics", "accuracy")


def intervention_pair(pair):
    """Target, draft and what may differ between them, of a pair of the study."""
    return EXPERIMENT.interventions.pairs[pair]


def intervention_target():
    return intervention_pair(INTERVENTIONS.base)["target"]


def intervention_arms():
    """Label -> pair, the base first."""
    return {
        "base": INTERVENTIONS.base,
        **{arm.label: arm.pair for arm in INTERVENTIONS.arms},
    }


def intervention_sources():
    """Each arm in each mode."""
    return [
        {
            "arm": arm,
            "pair": pair,
            "domain": INTERVENTIONS.domain,
            "mode": mode,
            "temperature": row["temperature"],
        }
        for mode, row in EXPERIMENT.modes.items()
        for arm, pair in intervention_arms().items()
    ]


def intervention_scores(mode):
    """The scores of all arms in a mode; arms of one draft group stand in one file."""
    paths = [
        path
        for pair in intervention_arms().values()
        for path in score_shards(pair, INTERVENTIONS.domain, mode)
    ]
    return list(dict.fromkeys(paths))


def answer_prompts():
    """The prompts whose answers are judged."""
    return [
        path
        for domain in INTERVENTIONS.accuracy.domains
        for path in prompt_shards(domain, INTERVENTIONS.accuracy.prompts)
    ]


def answer_texts():
    """By arm (target: plain decoding), domain and mode: the files of its texts."""
    target, found = intervention_target(), []
    for domain in INTERVENTIONS.accuracy.domains:
        shards = len(prompt_shards(domain, INTERVENTIONS.accuracy.prompts))
        for mode in EXPERIMENT.modes:
            plain = trajectory_shards(target, domain, mode)[:shards]
            found.append(({"arm": "target", "domain": domain, "mode": mode}, plain))
            for arm, pair in intervention_arms().items():
                folder = RESULTS / "interventions/texts" / pair / domain / mode
                row = {"arm": arm, "domain": domain, "mode": mode}
                found.append((row, [folder / "trajectories.parquet"]))
    return found


def answer_options():
    """By domain: parameters of generated problems."""
    rows = {domain: domain_row(domain) for domain in INTERVENTIONS.accuracy.domains}
    return {domain: row.get("options", {}) for domain, row in rows.items()}


def greedy_mode():
    """The first greedy mode of the experiment, in which greedy match is measured."""
    return next(
        mode for mode, row in EXPERIMENT.modes.items() if row["temperature"] == 0
    )


def match_scores(domain):
    """The scores of the untrained and of the distilled draft on a domain."""
    pairs = (INTERVENTIONS.untrained, INTERVENTIONS.base)
    paths = [
        path for pair in pairs for path in score_shards(pair, domain, greedy_mode())
    ]
    return list(dict.fromkeys(paths))


def history_file(pair):
    """The record of the training of a pair's draft."""
    return RESULTS / "models" / intervention_pair(pair)["draft"] / "history.parquet"


def exhibit_files(study, tables, figures):
    return [
        RESULTS / "exhibits" / study / f"{stem}.{kind}"
        for stems, types in ((tables, ("csv", "md", "tex")), (figures, ("svg", "pdf")))
        for stem in stems
        for kind in types
    ]


def intervention_exhibits():
    """Tables and figures of the interventions."""
    tables = ("table4", "table_differences", "table_accuracy", "table_training")
    return exhibit_files("interventions", tables, ("figure6", "figure8"))


def position_interventions():
    """Table 4 and Figures 6 and 8 of the position study; none where this experiment cannot have them."""
    if EXPERIMENT.interventions.problem is not None:
        return []
    return intervention_exhibits()


def distillation_exhibits():
    """Tables and figure of what distillation gained."""
    return exhibit_files("distillation", ("table1", "table_training"), ("figure1",))


def scored_interventions():
    """Statistics that hold our values of the published cells, where the study is asked for."""
    if "interventions" not in EXPERIMENT.settings.studies:
        return []
    folder = RESULTS / "statistics/interventions"
    return [folder / f"{name}.parquet" for name in INTERVENTION_FILES]


def intervention_weightings():
    """Of each arm how its loss weighs positions, as JSON."""
    pairs = {arm.label: arm.pair for arm in INTERVENTIONS.arms}
    drafts = {arm: intervention_pair(pair)["draft"] for arm, pair in pairs.items()}
    return as_json(
        **{arm: EXPERIMENT.models[name]["weighting"] for arm, name in drafts.items()}
    )


def interventions_targets(wildcards):
    """What the target of the study asks for; says why where this experiment cannot have it."""
    if EXPERIMENT.interventions.problem is not None:
        raise WorkflowError(EXPERIMENT.interventions.problem)
    more = distillation_exhibits() if INTERVENTIONS.untrained else []
    return [*intervention_exhibits(), *more]


def distillation_targets(wildcards):
    """As `interventions_targets`, of the draft that the adapters start from."""
    if EXPERIMENT.interventions.problem is not None:
        raise WorkflowError(EXPERIMENT.interventions.problem)
    if INTERVENTIONS.untrained is None:
        raise WorkflowError(
            "interventions.untrained is null: this experiment distils no draft"
        )
    return distillation_exhibits()
