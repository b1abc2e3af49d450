# Needs: texts of a target, its record and the record of a block drafter of it.
# Makes: proposals/{target}/{draft}/{domain}/{mode}/{shard}.parquet, what the drafter would draft at
#   every position of a shard of trajectories.
# Why: what it proposes depends on the text alone, so a loop with any draft length can be replayed.

PROPOSERS = [name for name, row in EXPERIMENT.models.items() if row["kind"] == "dflash"]


rule propose:
    input:
        trajectories=RESULTS / "trajectories/{target}/{domain}/{mode}/{shard}.parquet",
        prompts=RESULTS / "prompts/{domain}/{shard}.parquet",
        target=RESULTS / "models/{target}/model.json",
        draft=lambda wildcards: model_file(wildcards.draft),
    output:
        RESULTS / "proposals/{target}/{draft}/{domain}/{mode}/{shard}.parquet",
    log:
        LOGS / "propose/{target}/{draft}/{domain}/{mode}/{shard}.log",
    wildcard_constraints:
        draft=alternatives(PROPOSERS),
    conda:
        "../../envs/gpu.yaml"
    threads: EXPERIMENT.settings.scoring.threads
    resources:
        **requests(
            EXPERIMENT.settings.scoring,
            lambda wildcards: [wildcards.target, wildcards.draft],
            batches_of_mode,
        ),
    params:
        settings=as_json(**compute(EXPERIMENT.settings.scoring)),
        code=lambda wildcards: digest(
            "propose_blocks.py", [wildcards.target, wildcards.draft]
        ),
    shell:
        "DRAFTSCOPE_GPUS={resources.gpu}"
        " python scripts/propose_blocks.py --settings {params.settings:q}"
        " --target {input.target:q} --draft {input.draft:q}"
        " --trajectories {input.trajectories:q} --prompts {input.prompts:q}"
        " --output {output:q} 2> {log:q}"
