# Needs: all trajectories of one target, domain and mode, and the target's tokenizer.
# Makes: loops/{target}/{domain}/{mode}.parquet, one row a trajectory: does its end repeat itself.
# Why: looping text is easy to draft; every headline also stands with loops removed.


rule find_loops:
    input:
        code=sources("find_loops.py"),
        trajectories=lambda wildcards: trajectory_shards(**wildcards),
        prompts=lambda wildcards: text_prompt_shards(**wildcards),
        model=RESULTS / "models/{target}/model.json",
    output:
        RESULTS / "loops/{target}/{domain}/{mode}.parquet",
    log:
        LOGS / "loops/{target}/{domain}/{mode}.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        settings=as_json(**block(EXPERIMENT.settings.loops)),
    shell:
        "python scripts/find_loops.py --settings {params.settings:q} --model {input.model:q}"
        " --trajectories {input.trajectories:q} --prompts {input.prompts:q} --output {output:q} 2> {log:q}"
