# Needs: prompts, the target's record and the draft's.
# Makes: live/{run}/{pair}/{domain}/{mode}/{trajectories,rounds,timings}.parquet, what the live loop
#   emitted at each draft length, its rounds, and the time of each phase of each round;
#   live/latency/{target}.parquet, the time of one pass against the number of its tokens; and
#   live/batch/{pair}/{domain}/{mode}/batches.parquet, the times of texts decoded together.
# Why: speed cannot be replayed, and the live loop is what replay is judged by.

LIVE = EXPERIMENT.settings.lossless


rule live_decode:
    input:
        prompts=lambda wildcards: prompt_shards(
            wildcards.domain,
            live_run(wildcards.run, wildcards.pair, wildcards.mode)["prompts"],
        ),
        target=lambda wildcards: model_file(live_pair(wildcards.pair)["target"]),
        draft=lambda wildcards: model_file(live_pair(wildcards.pair)["draft"]),
    output:
        trajectories=RESULTS / "live/{run}/{pair}/{domain}/{mode}/trajectories.parquet",
        rounds=RESULTS / "live/{run}/{pair}/{domain}/{mode}/rounds.parquet",
        timings=RESULTS / "live/{run}/{pair}/{domain}/{mode}/timings.parquet",
    log:
        LOGS / "live/{run}/{pair}/{domain}/{mode}.log",
    wildcard_constraints:
        run="speed|law|divergence",
    conda:
        "../../envs/gpu.yaml"
    threads: LIVE.threads
    resources:
        **requests(LIVE, models_of_pair),
    params:
        settings=lambda wildcards: as_json(
            domain=wildcards.domain,
            mode=wildcards.mode,
            law=law(wildcards.mode),
            template=template(wildcards.domain),
            **live_run(wildcards.run, wildcards.pair, wildcards.mode),
            seed=EXPERIMENT.settings.seed,
        ),
        code=lambda wildcards: digest(
            "live_decode.py",
            models_of_pair(wildcards),
        ),
    shell:
        "DRAFTSCOPE_GPUS={resources.gpu}"
        " python scripts/live_decode.py --settings {params.settings:q} --target {input.target:q}"
        " --draft {input.draft:q} --prompts {input.prompts:q}"
        " --trajectories {output.trajectories:q} --rounds {output.rounds:q}"
        " --timings {output.timings:q} 2> {log:q}"


rule batch_decode:
    input:
        prompts=lambda wildcards: prompt_shards(wildcards.domain, LIVE.batch.prompts),
        target=lambda wildcards: model_file(live_pair(wildcards.pair)["target"]),
        draft=lambda wildcards: model_file(live_pair(wildcards.pair)["draft"]),
    output:
        RESULTS / "live/batch/{pair}/{domain}/{mode}/batches.parquet",
    log:
        LOGS / "live/batch/{pair}/{domain}/{mode}.log",
    conda:
        "../../envs/gpu.yaml"
    threads: LIVE.threads
    resources:
        **requests(LIVE, models_of_pair),
    params:
        settings=lambda wildcards: as_json(
            domain=wildcards.domain,
            mode=wildcards.mode,
            law=law(wildcards.mode),
            template=template(wildcards.domain),
            **live_run("batch", wildcards.pair, wildcards.mode),
            seed=EXPERIMENT.settings.seed,
        ),
        code=lambda wildcards: digest(
            "batch_decode.py",
            models_of_pair(wildcards),
        ),
    shell:
        "DRAFTSCOPE_GPUS={resources.gpu}"
        " python scripts/batch_decode.py --settings {params.settings:q} --target {input.target:q}"
        " --draft {input.draft:q} --prompts {input.prompts:q} --output {output:q} 2> {log:q}"


rule verify_latency:
    input:
        target=RESULTS / "models/{target}/model.json",
    output:
        RESULTS / "live/latency/{target}.parquet",
    log:
        LOGS / "live/latency/{target}.log",
    wildcard_constraints:
        target=alternatives(live_targets()),
    conda:
        "../../envs/gpu.yaml"
    threads: LIVE.threads
    resources:
        **requests(LIVE, lambda wildcards: [wildcards.target]),
    params:
        settings=as_json(**block(LIVE.verify_latency), **compute(LIVE)),
        code=lambda wildcards: digest("verify_latency.py", [wildcards.target]),
    shell:
        "DRAFTSCOPE_GPUS={resources.gpu}"
        " python scripts/verify_latency.py --settings {params.settings:q}"
        " --target {input.target:q} --output {output:q} 2> {log:q}"
