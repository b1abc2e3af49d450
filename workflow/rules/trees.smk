# Needs: a shard of greedy trajectories, and the records of the pair that trees are scored on.
# Makes: trees/{pair}/{domain}/{mode}/{shard}.{nodes,trees}.parquet, a token tree at every generated
#   position: what both models thought of each node, and what greedy decoding accepts of it.
# Why: the path that greedy decoding takes through a tree is the text, so all trees of a text are
#   scored together, and nothing is decoded again.


rule tree_nodes:
    input:
        trajectories=lambda wildcards: RESULTS
        / "trajectories"
        / tree_pair(wildcards.pair)["target"]
        / wildcards.domain
        / wildcards.mode
        / f"{wildcards.shard}.parquet",
        prompts=RESULTS / "prompts/{domain}/{shard}.parquet",
        target=lambda wildcards: model_file(tree_pair(wildcards.pair)["target"]),
        draft=lambda wildcards: model_file(tree_pair(wildcards.pair)["draft"]),
    output:
        nodes=RESULTS / "trees/{pair}/{domain}/{mode}/{shard}.nodes.parquet",
        trees=RESULTS / "trees/{pair}/{domain}/{mode}/{shard}.trees.parquet",
    log:
        LOGS / "trees/{pair}/{domain}/{mode}/{shard}.log",
    wildcard_constraints:
        pair=alternatives(EXPERIMENT.trees.pairs),
        mode=alternatives(EXPERIMENT.trees.modes),
    conda:
        "../../envs/gpu.yaml"
    threads: TREES.threads
    resources:
        **requests(TREES, tree_models),
    params:
        settings=lambda wildcards: as_json(
            domain=wildcards.domain,
            mode=wildcards.mode,
            law=law(wildcards.mode),
            shape=tree_shape(),
            prompts=tree_prompts(wildcards.domain, wildcards.shard),
            max_new_tokens=tree_use(wildcards.domain).max_new_tokens,
            allow_special_differences=tree_pair(wildcards.pair)[
                "allow_special_differences"
            ],
            max_disagreement=EXPERIMENT.settings.scoring.max_disagreement,
            **compute(TREES),
        ),
        code=lambda wildcards: digest("tree_nodes.py", tree_models(wildcards)),
    shell:
        "DRAFTSCOPE_GPUS={resources.gpu}"
        " python scripts/tree_nodes.py --settings {params.settings:q}"
        " --target {input.target:q} --draft {input.draft:q}"
        " --trajectories {input.trajectories:q} --prompts {input.prompts:q}"
        " --nodes {output.nodes:q} --trees {output.trees:q} 2> {log:q}"
