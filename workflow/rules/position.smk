# Needs: rounds, loops and scores of the study's configurations (pair x mode on its domain).
# Makes: statistics/position/*.parquet; exhibits/position/table{1,2}.{csv,md,tex} and
#   figure{1,2,5}.{svg,pdf}; our value of each published cell, for the scorecard.
# Why: does acceptance decay along a long text? Not in the published study.


# Seconds of drawing: not worth a place in a cluster's queue.
localrules:
    position_exhibits,
    position_measurements,


rule position_statistics:
    input:
        code=sources("position_statistics.py"),
        rounds=[
            RESULTS / "rounds" / row["pair"] / row["domain"] / f"{row['mode']}.parquet"
            for row in CONFIGURATIONS
        ],
        loops=[
            RESULTS
            / "loops"
            / EXPERIMENT.pairs[row["pair"]]["target"]
            / row["domain"]
            / f"{row['mode']}.parquet"
            for row in CONFIGURATIONS
        ],
        scores=[
            path
            for row in CONFIGURATIONS
            for path in score_shards(row["pair"], row["domain"], row["mode"])
        ],
    output:
        **{
            name: RESULTS / "statistics/position" / f"{name}.parquet"
            for name in POSITION_FILES
        },
    log:
        LOGS / "position/statistics.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        settings=as_json(
            configurations=CONFIGURATIONS,
            draft_length=POSITION.draft_length,
            bin_width=POSITION.bin_width,
            support_prompts=POSITION.support_prompts,
            seed=EXPERIMENT.settings.seed,
            **block(EXPERIMENT.settings.statistics),
        ),
        scores=lambda wildcards, input: (
            ["--scores", *input.scores] if input.scores else []
        ),
    shell:
        "python scripts/position_statistics.py --settings {params.settings:q}"
        " --rounds {input.rounds:q} --loops {input.loops:q} {params.scores:q}"
        " --paired {output.paired:q} --pooled {output.pooled:q} --curves {output.curves:q}"
        " --quintiles {output.quintiles:q} --halves {output.halves:q} 2> {log:q}"


rule position_exhibits:
    input:
        **{
            name: RESULTS / "statistics/position" / f"{name}.parquet"
            for name in POSITION_FILES
        },
        code=sources("position_exhibits.py"),
    output:
        report(position_exhibits(), category="Position", labels={"study": "position"}),
    log:
        LOGS / "position/exhibits.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        folder=RESULTS / "exhibits/position",
    shell:
        "python scripts/position_exhibits.py --paired {input.paired:q} --pooled {input.pooled:q}"
        " --curves {input.curves:q} --quintiles {input.quintiles:q} --halves {input.halves:q}"
        " --folder {params.folder:q} 2> {log:q}"


rule position_measurements:
    input:
        code=sources("position_measurements.py"),
        published=local("config/published/position.csv"),
        paired=RESULTS / "statistics/position/paired.parquet",
        pooled=RESULTS / "statistics/position/pooled.parquet",
        curves=RESULTS / "statistics/position/curves.parquet",
        temperatures=(
            RESULTS / "statistics/position/temperatures.parquet"
            if "temperatures" in EXPERIMENT.settings.studies
            else []
        ),
        interventions=lambda wildcards: scored_interventions(),
    output:
        RESULTS / "statistics/position/measurements.parquet",
    log:
        LOGS / "position/measurements.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        settings=as_json(
            domain=POSITION.domain,
            run={
                "target": identity(
                    EXPERIMENT.pairs[POSITION.configurations[0].pair]["target"]
                ),
                "data": data_of(POSITION.domain),
                "prompts": EXPERIMENT.use(POSITION.domain).prompts,
                "max_new_tokens": EXPERIMENT.use(POSITION.domain).max_new_tokens,
                "draft_length": POSITION.draft_length,
                "drafts": {
                    configuration.label: identity(
                        EXPERIMENT.pairs[configuration.pair]["draft"]
                    )
                    for configuration in POSITION.configurations
                },
                "modes": {
                    mode: row["temperature"] for mode, row in EXPERIMENT.modes.items()
                },
                "sweep": sweep_condition(),
            },
            published=PUBLISHED_CONDITIONS["position"],
        ),
        temperatures=lambda wildcards, input: (
            ["--temperatures", input.temperatures] if input.temperatures else []
        ),
        interventions=lambda wildcards, input: (
            [
                "--weightings",
                intervention_weightings(),
                "--interventions",
                *input.interventions,
            ]
            if input.interventions
            else []
        ),
    shell:
        "python scripts/position_measurements.py --settings {params.settings:q}"
        " --published {input.published:q} --paired {input.paired:q} --pooled {input.pooled:q}"
        " --curves {input.curves:q} {params.temperatures:q} {params.interventions:q}"
        " --output {output:q} 2> {log:q}"
