# Needs: all trajectories of one target, domain and mode, and the target's tokenizer.
# Makes: tokens/{target}/{domain}/{mode}.parquet, the type of every generated token.
# Why: acceptance differs more between kinds of tokens than along a text.


rule token_types:
    input:
        code=sources("token_types.py"),
        trajectories=lambda wildcards: trajectory_shards(**wildcards),
        prompts=lambda wildcards: all_prompt_shards(wildcards.domain),
        model=RESULTS / "models/{target}/model.json",
    output:
        RESULTS / "tokens/{target}/{domain}/{mode}.parquet",
    log:
        LOGS / "tokens/{target}/{domain}/{mode}.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        settings=as_json(**block(EXPERIMENT.settings.tokens)),
    shell:
        "python scripts/token_types.py --settings {params.settings:q} --model {input.model:q}"
        " --trajectories {input.trajectories:q} --prompts {input.prompts:q} --output {output:q}"
        " 2> {log:q}"
