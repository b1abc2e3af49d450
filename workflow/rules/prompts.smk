# Needs: a domain's source (a package, a file of the project, or a data set on the hub).
# Makes: prompts/{domain}/{shard}.parquet, a fixed block of prompts in registry order; for the trees,
#   if they ask for it, prompts_cut/{target}/{domain}/{shard}.parquet, none longer than so many tokens.
# Why: one file a shard, so that more prompts make new files and leave the old ones alone.


localrules:
    collect_prompts,
    cut_prompts,


rule collect_prompts:
    input:
        code=lambda wildcards: sources(
            "collect_prompts.py", source_modules(wildcards.domain)
        ),
        files=lambda wildcards: domain_files(wildcards.domain),
    output:
        RESULTS / "prompts/{domain}/{shard}.parquet",
    log:
        LOGS / "prompts/{domain}/{shard}.log",
    conda:
        "../../envs/gpu.yaml"
    params:
        settings=lambda wildcards: as_json(
            domain=wildcards.domain, **domain_row(wildcards.domain)
        ),
        bounds=lambda wildcards: EXPERIMENT.shard_bounds(
            wildcards.domain, wildcards.shard
        ),
    shell:
        "python scripts/collect_prompts.py --settings {params.settings:q}"
        " --start {params.bounds[0]} --stop {params.bounds[1]} --output {output:q} 2> {log:q}"


rule cut_prompts:
    input:
        code=sources("cut_prompts.py"),
        prompts=RESULTS / "prompts/{domain}/{shard}.parquet",
        model=RESULTS / "models/{target}/model.json",
    output:
        RESULTS / "prompts_cut/{target}/{domain}/{shard}.parquet",
    log:
        LOGS / "prompts_cut/{target}/{domain}/{shard}.log",
    conda:
        "../../envs/gpu.yaml"
    params:
        tokens=EXPERIMENT.settings.trees.prompt_tokens,
    shell:
        "python scripts/cut_prompts.py --tokens {params.tokens} --model {input.model:q}"
        " --prompts {input.prompts:q} --output {output:q} 2> {log:q}"
