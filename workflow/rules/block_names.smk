# Needs: the names of common.smk.
# Makes: names that the rules of the losses and retrace studies share.
# Why: arms are pairs, one for each training, and both studies measure them alike.

from snakemake.exceptions import WorkflowError

LOSSES, RETRACE = EXPERIMENT.settings.losses, EXPERIMENT.settings.retrace
BLOCK_STATISTICS = ("lengths", "differences", "needed", "positions")
NETWORK = (
    "layers",
    "block_size",
    "vocabulary",
    "context",
    "shifted",
    "slots",
    "normalised_features",
    "init",
)
TIMED_STATISTICS = ("speed", "speed_differences")
LOSS_FILES = (*BLOCK_STATISTICS, *(TIMED_STATISTICS if LOSSES.speed else ()))
LOSS_STUDIES = {"losses": LOSSES.arms, "losses_grid": LOSSES.grid}


def block_pair(pair):
    """Target, draft and what may differ between them, of a pair of either study."""
    return {**EXPERIMENT.losses.pairs, **EXPERIMENT.retrace.pairs}[pair]


def trainings(arms):
    """Each training of each arm."""
    return [
        {"arm": arm.label, "pair": pair, "training": number}
        for arm in arms
        for number, pair in enumerate(arm.pairs, 1)
    ]


def block_sources(rows, domains, modes):
    """Each of the rows in each domain and mode."""
    return [
        row | {"domain": domain, "mode": mode, "temperature": law(mode)["temperature"]}
        for mode in modes
        for domain in domains
        for row in rows
    ]


def loss_rows(study):
    """Trainings and baselines of a study of losses."""
    baselines = LOSSES.baselines.items()
    return [
        *trainings(LOSS_STUDIES[study]),
        *({"arm": label, "pair": pair, "training": 0} for label, pair in baselines),
    ]


def loss_text(wildcards):
    """The text that a training of a study of losses is replayed on."""
    target = block_pair(wildcards.pair)["target"]
    return {"target": target, "domain": wildcards.domain, "mode": wildcards.mode}


def loss_shards(paths, domain):
    """Of the shards of a text, those that hold the study's prompts."""
    return paths[: len(prompt_shards(domain, EXPERIMENT.losses.use(domain).prompts))]


def loss_own_text():
    """The shards of text that only the losses study needs."""
    return [
        path
        for target in EXPERIMENT.losses.targets
        for use in LOSSES.domains
        for mode in LOSSES.modes
        if not EXPERIMENT.generates(target, use.name, mode)
        for path in loss_shards(trajectory_shards(target, use.name, mode), use.name)
    ]


def loss_sources(study):
    names = [use.name for use in LOSSES.domains]
    return block_sources(loss_rows(study), names, LOSSES.modes)


def loss_timed(study):
    """What is timed of it; nothing where no speed is asked for."""
    if LOSSES.speed is None:
        return []
    return block_sources(loss_rows(study), LOSSES.speed.domains, LOSSES.speed.modes)


def retrace_sources():
    names = [use.name for use in RETRACE.domains]
    return block_sources(trainings(RETRACE.arms), names, RETRACE.modes)


def retrace_probed():
    """The backbone's part of them: what it holds behind a rejection depends on the text alone."""
    return [row for row in retrace_sources() if row["arm"] == RETRACE.backbone]


def block_files(rows, *folder, name=None):
    """A file of each source below a folder: of its mode, or in a folder of it under a name."""
    found = []
    for row in rows:
        place = RESULTS.joinpath(*folder, row["pair"], row["domain"])
        found.append(
            place / row["mode"] / f"{name}.parquet"
            if name
            else place / f"{row['mode']}.parquet"
        )
    return found


def loss_loops(rows):
    """The loops of the text that each source is replayed on."""
    return [
        RESULTS
        / "losses/loops"
        / block_pair(row["pair"])["target"]
        / row["domain"]
        / f"{row['mode']}.parquet"
        for row in rows
    ]


def block_histories(arms):
    """The learning curve of each training."""
    return [
        RESULTS / "models" / block_pair(row["pair"])["draft"] / "history.parquet"
        for row in trainings(arms)
    ]


def drafter_of(pairs):
    """The row of the first DFlash drafter; others have its network."""
    drafts = (EXPERIMENT.models[block_pair(pair)["draft"]] for pair in pairs)
    return next(row for row in drafts if row["kind"] == "dflash")


def network_of(pairs):
    """What the drafters of a study are, whatever they are trained with."""
    row = drafter_of(pairs)
    return {key: row[key] for key in NETWORK}


def trained_drafts(arms):
    """Arm, number and draft of each training, and the network that all share, as JSON."""
    rows = trainings(arms)
    return as_json(
        network=network_of(row["pair"] for row in rows),
        trained=[
            {
                "arm": row["arm"],
                "training": row["training"],
                "draft": block_pair(row["pair"])["draft"],
            }
            for row in rows
        ],
    )


def block_leaks(rows):
    """Proofs that no draft was trained on a prompt that it is measured on."""
    return list(
        dict.fromkeys(
            path
            for row in rows
            for path in leak_checks(block_pair(row["pair"])["draft"], row["domain"])
        )
    )


def block_live(study, pair, domain):
    """What a live run of a study decodes, and where it computes."""
    own = LOSSES if study == "losses" else RETRACE
    sizes = LOSSES.speed
    if study == "retrace":
        sizes = EXPERIMENT.retrace.use(domain)
    timing = LOSSES.speed if study == "losses" else RETRACE
    row = block_pair(pair)
    drafting = {}
    if EXPERIMENT.models[row["draft"]]["kind"] in BLOCK_DRAFTS:
        drafting["drafting"] = row["drafting"] or "argmax"
    return {
        "draft_lengths": [0, own.draft_length],
        "prompts": sizes.prompts,
        "budget": sizes.max_new_tokens,
        "samples": 1,
        "repeats": timing.repeats,
        "warm_up": timing.warm_up,
        "batch_size": 1,
        "draft_dtype": None,
        "allow_special_differences": row["allow_special_differences"],
        **drafting,
        **compute(own),
    }


def exhibits_of(study, tables, figures):
    return [
        RESULTS / "exhibits" / study / f"{stem}.{kind}"
        for stems, types in ((tables, ("csv", "md", "tex")), (figures, ("svg", "pdf")))
        for stem in stems
        for kind in types
    ]


def loss_exhibits(study):
    """Tables and figures of a study of losses."""
    timed = LOSSES.speed is not None
    return exhibits_of(
        study,
        ["findings", *(f"table{n}" for n in range(1, 6)), "table_training"]
        + ["table7", "table8"] * timed,
        ["figure1", "figure2", "figure3"] + ["figure4"] * timed,
    )


def retrace_exhibits():
    """Tables and figures of the retrace study."""
    numbers = [*range(1, 8), "8a", "8b", "_training"]
    return exhibits_of(
        "retrace",
        ["findings", *(f"table{n}" for n in numbers)],
        [f"figure{n}" for n in range(1, 6)],
    )


def losses_targets(wildcards):
    """What the target of the study asks for; says why where this experiment cannot have it."""
    if EXPERIMENT.losses.problem is not None:
        raise WorkflowError(EXPERIMENT.losses.problem)
    return [
        *loss_exhibits("losses"),
        RESULTS / "statistics/losses/measurements.parquet",
    ]


def losses_grid_targets(wildcards):
    """As `losses_targets`, with every arm of the grid."""
    if EXPERIMENT.losses.problem is not None:
        raise WorkflowError(EXPERIMENT.losses.problem)
    if not LOSSES.grid:
        raise WorkflowError("losses.grid is empty: this experiment has no grid of arms")
    return loss_exhibits("losses_grid")


def retrace_targets(wildcards):
    """As `losses_targets`, of the retrace study."""
    if EXPERIMENT.retrace.problem is not None:
        raise WorkflowError(EXPERIMENT.retrace.problem)
    return [
        *retrace_exhibits(),
        RESULTS / "statistics/retrace/measurements.parquet",
    ]


def block_condition(study):
    """The condition of a study of block drafters, in the keys of the published one."""
    own = getattr(EXPERIMENT, study)
    block = LOSSES if study == "losses" else RETRACE
    first = drafter_of(own.pairs)
    names = [use.name for use in block.domains]
    uses = {name: own.use(name) for name in names}
    budgets = {name: use.max_new_tokens for name, use in uses.items()}
    return {
        "target": identity(own.targets[0]),
        "block_size": first["block_size"],
        "drafter": network_of(own.pairs),
        "training_data": ", ".join(
            data_of(use["name"]) for use in first["train"]["domains"]
        ),
        "draft_length": block.draft_length,
        "data": {name: data_of(name) for name in names},
        "prompts": {name: use.prompts for name, use in uses.items()},
        "max_new_tokens": budgets,
        "laws": {mode: law(mode) for mode in block.modes},
    }
