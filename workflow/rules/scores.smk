# Needs: a shard of trajectories, the target's record and the records of a group of drafts.
# Makes: scores/{target}/{draft_group}/{domain}/{mode}/{shard}.parquet, what both models thought of
#   every emitted token, under the mode's decoding law and at temperature 1.
# Why: one pass of the target serves every draft of the group and every draft length; a draft that
#   is added later joins a new group and costs one more pass.


rule score:
    input:
        trajectories=RESULTS / "trajectories/{target}/{domain}/{mode}/{shard}.parquet",
        prompts=RESULTS / "prompts/{domain}/{shard}.parquet",
        target=RESULTS / "models/{target}/model.json",
        drafts=lambda wildcards: [
            model_file(name)
            for name in EXPERIMENT.group(wildcards.target, wildcards.draft_group)
        ],
    output:
        RESULTS / "scores/{target}/{draft_group}/{domain}/{mode}/{shard}.parquet",
    log:
        LOGS / "score/{target}/{draft_group}/{domain}/{mode}/{shard}.log",
    conda:
        "../../envs/gpu.yaml"
    threads: EXPERIMENT.settings.scoring.threads
    resources:
        **requests(
            EXPERIMENT.settings.scoring,
            lambda wildcards: [
                wildcards.target,
                *EXPERIMENT.group(wildcards.target, wildcards.draft_group),
            ],
            batches_of_mode,
        ),
    params:
        settings=lambda wildcards: as_json(
            domain=wildcards.domain,
            mode=wildcards.mode,
            laws={
                "decoding": law(wildcards.mode),
                "unwarped": {"temperature": 1.0, "top_k": 0, "top_p": 1.0},
                **EXPERIMENT.modes[wildcards.mode]["score_laws"],
            },
            drafts=group_settings(wildcards.target, wildcards.draft_group),
            position_chunk=EXPERIMENT.settings.scoring.position_chunk,
            max_disagreement=EXPERIMENT.settings.scoring.max_disagreement,
            **compute(EXPERIMENT.settings.scoring),
        ),
        code=lambda wildcards: digest(
            "score.py",
            [
                wildcards.target,
                *EXPERIMENT.group(wildcards.target, wildcards.draft_group),
            ],
        ),
    shell:
        "DRAFTSCOPE_GPUS={resources.gpu}"
        " python scripts/score.py --settings {params.settings:q} --target {input.target:q}"
        " --drafts {input.drafts:q} --trajectories {input.trajectories:q}"
        " --prompts {input.prompts:q} --output {output:q} 2> {log:q}"
