# Needs: the first shards of text of every mode of the sweep, and the records of its pair.
# Makes: scores_temperatures/{target}/{mode}/{shard}.parquet, the beginnings of these texts under every
#   law of the sweep; statistics/position/{temperatures,slopes}.parquet; exhibits/temperatures/table3
#   and table_slopes.{csv,md,tex} and figure_temperatures.{svg,pdf}.
# Why: a measure can move with the temperature where acceptance does not; on the same positions it shows.

SWEEP = EXPERIMENT.sweep
SWEEP_SHARDS = EXPERIMENT.sweep_shards()
SWEEP_FILES = [
    (mode, f"{shard}.parquet") for mode in SWEEP.laws for shard in SWEEP_SHARDS
]
TEMPERATURE_STATISTICS = {
    name: RESULTS / "statistics/position" / f"{name}.parquet"
    for name in ("temperatures", "slopes")
}


localrules:
    temperature_exhibits,


rule score_temperatures:
    input:
        trajectories=RESULTS
        / "trajectories"
        / SWEEP.target
        / SWEEP.use.name
        / "{mode}/{shard}.parquet",
        prompts=RESULTS / "prompts" / SWEEP.use.name / "{shard}.parquet",
        target=model_file(SWEEP.target),
        draft=model_file(SWEEP.draft),
    output:
        RESULTS / "scores_temperatures/{mode}/{shard}.parquet",
    log:
        LOGS / "score_temperatures/{mode}/{shard}.log",
    wildcard_constraints:
        mode=alternatives(SWEEP.laws),
    conda:
        "../../envs/gpu.yaml"
    threads: EXPERIMENT.settings.scoring.threads
    resources:
        **requests(
            EXPERIMENT.settings.scoring,
            lambda wildcards: [SWEEP.target, SWEEP.draft],
            batches_of_mode,
        ),
    params:
        settings=lambda wildcards: as_json(
            laws={
                "decoding": SWEEP.laws[wildcards.mode],
                **{
                    name: law
                    for name, law in SWEEP.laws.items()
                    if name != wildcards.mode
                },
            },
            prompts=SWEEP_SHARDS[wildcards.shard],
            max_new_tokens=SWEEP.use.max_new_tokens,
            allow_special_differences=EXPERIMENT.pairs[SWEEP.pair][
                "allow_special_differences"
            ],
            position_chunk=EXPERIMENT.settings.scoring.position_chunk,
            max_disagreement=EXPERIMENT.settings.scoring.max_disagreement,
            **compute(EXPERIMENT.settings.scoring),
        ),
        code=digest("score_temperatures.py", [SWEEP.target, SWEEP.draft]),
    shell:
        "DRAFTSCOPE_GPUS={resources.gpu}"
        " python scripts/score_temperatures.py --settings {params.settings:q}"
        " --target {input.target:q} --draft {input.draft:q}"
        " --trajectories {input.trajectories:q} --prompts {input.prompts:q}"
        " --output {output:q} 2> {log:q}"


rule position_temperatures:
    input:
        code=sources("position_temperatures.py"),
        trajectories=[
            RESULTS / "trajectories" / SWEEP.target / SWEEP.use.name / mode / shard
            for mode, shard in SWEEP_FILES
        ],
        scores=[
            RESULTS / "scores_temperatures" / mode / shard
            for mode, shard in SWEEP_FILES
        ],
        model=model_file(SWEEP.target),
        leaks=leak_checks(SWEEP.draft, SWEEP.use.name),
    output:
        **TEMPERATURE_STATISTICS,
    log:
        LOGS / "position/temperatures.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        settings=as_json(
            pair=SWEEP.pair,
            draft=SWEEP.draft,
            domain=SWEEP.use.name,
            draft_length=EXPERIMENT.settings.position.draft_length,
            temperatures={
                mode: law["temperature"] for mode, law in SWEEP.laws.items()
            },
            prompts=list(SWEEP_SHARDS.values()),
            max_new_tokens=SWEEP.use.max_new_tokens,
            loops=block(EXPERIMENT.settings.loops),
            token_lists=block(EXPERIMENT.settings.tokens),
            seed=EXPERIMENT.settings.seed,
            **block(EXPERIMENT.settings.statistics),
        ),
    shell:
        "python scripts/position_temperatures.py --settings {params.settings:q}"
        " --trajectories {input.trajectories:q} --scores {input.scores:q} --model {input.model:q}"
        " --temperatures {output.temperatures:q} --slopes {output.slopes:q} 2> {log:q}"


rule temperature_exhibits:
    input:
        **TEMPERATURE_STATISTICS,
        code=sources("temperature_exhibits.py"),
    output:
        report(
            temperature_exhibits(),
            category="Temperatures",
            labels={"study": "temperatures"},
        ),
    log:
        LOGS / "position/temperature_exhibits.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        folder=RESULTS / "exhibits/temperatures",
    shell:
        "python scripts/temperature_exhibits.py --temperatures {input.temperatures:q}"
        " --slopes {input.slopes:q} --folder {params.folder:q} 2> {log:q}"
