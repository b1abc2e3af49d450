# Needs: a shard of prompts and the target's record (and its weights).
# Makes: trajectories/{target}/{domain}/{mode}/{shard}.parquet, the target's own text as token ids.
# Why: the only expensive autoregressive step; everything else replays what it emitted.

TEXT_MODES = {
    **EXPERIMENT.modes,
    **EXPERIMENT.trees.modes,
    **EXPERIMENT.sweep.modes,
    **EXPERIMENT.losses.modes,
}
GENERATED = [name for name, row in TEXT_MODES.items() if row["imported"] is None]
IMPORTED = [name for name, row in TEXT_MODES.items() if row["imported"] is not None]


rule generate:
    input:
        prompts=lambda wildcards: text_prompts(**wildcards),
        model=RESULTS / "models/{target}/model.json",
    output:
        RESULTS / "trajectories/{target}/{domain}/{mode}/{shard}.parquet",
    log:
        LOGS / "generate/{target}/{domain}/{mode}/{shard}.log",
    wildcard_constraints:
        mode=alternatives(GENERATED),
    conda:
        "../../envs/gpu.yaml"
    threads: EXPERIMENT.settings.generation.threads
    resources:
        **requests(
            EXPERIMENT.settings.generation,
            lambda wildcards: [wildcards.target],
            batches_of_mode,
        ),
    params:
        settings=lambda wildcards: as_json(
            domain=wildcards.domain,
            mode=wildcards.mode,
            law=law(wildcards.mode),
            samples=row_of("modes", wildcards.mode)["samples"],
            budget=text_budget(**wildcards),
            template=template(wildcards.domain),
            batch_size=EXPERIMENT.settings.generation.batch_size,
            engine=EXPERIMENT.settings.generation.engine,
            seed=EXPERIMENT.settings.seed,
            **compute(EXPERIMENT.settings.generation),
        ),
        code=lambda wildcards: digest("generate.py", [wildcards.target]),
    shell:
        "DRAFTSCOPE_GPUS={resources.gpu}"
        " python scripts/generate.py --settings {params.settings:q} --model {input.model:q}"
        " --prompts {input.prompts:q} --output {output:q} 2> {log:q}"


rule import_trajectories:
    input:
        code=sources("import_trajectories.py"),
        trajectories=lambda wildcards: local(
            row_of("modes", wildcards.mode)["imported"][wildcards.domain]
        ),
        prompts=RESULTS / "prompts/{domain}/{shard}.parquet",
        model=RESULTS / "models/{target}/model.json",
    output:
        RESULTS / "trajectories/{target}/{domain}/{mode}/{shard}.parquet",
    log:
        LOGS / "import/{target}/{domain}/{mode}/{shard}.log",
    wildcard_constraints:
        mode=alternatives(IMPORTED),
    conda:
        "../../envs/gpu.yaml"
    params:
        settings=lambda wildcards: as_json(
            domain=wildcards.domain,
            mode=wildcards.mode,
            law=law(wildcards.mode),
            samples=row_of("modes", wildcards.mode)["samples"],
            budget=text_budget(**wildcards),
            template=template(wildcards.domain),
        ),
    shell:
        "python scripts/import_trajectories.py --settings {params.settings:q}"
        " --model {input.model:q} --prompts {input.prompts:q}"
        " --trajectories {input.trajectories:q} --output {output:q} 2> {log:q}"
