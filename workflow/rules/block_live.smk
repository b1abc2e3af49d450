# Needs: prompts, the record of a target and of a block drafter or a baseline.
# Makes: live/{losses,retrace}/{pair}/{domain}/{mode}/{trajectories,rounds,timings}.parquet, what the live
#   loop emitted at the study's draft length beside plain decoding, and the time of each phase.
# Why: speed cannot be replayed, nor can a drafter that remembers what was rejected.


rule block_live:
    input:
        prompts=lambda wildcards: prompt_shards(
            wildcards.domain,
            block_live(wildcards.study, wildcards.pair, wildcards.domain)["prompts"],
        ),
        target=lambda wildcards: model_file(block_pair(wildcards.pair)["target"]),
        draft=lambda wildcards: model_file(block_pair(wildcards.pair)["draft"]),
    output:
        trajectories=RESULTS
        / "live/{study}/{pair}/{domain}/{mode}/trajectories.parquet",
        rounds=RESULTS / "live/{study}/{pair}/{domain}/{mode}/rounds.parquet",
        timings=RESULTS / "live/{study}/{pair}/{domain}/{mode}/timings.parquet",
    log:
        LOGS / "live/{study}/{pair}/{domain}/{mode}.log",
    wildcard_constraints:
        study="losses",
        pair=alternatives(EXPERIMENT.losses.pairs),
    conda:
        "../../envs/gpu.yaml"
    threads: LOSSES.threads
    resources:
        **requests(
            LOSSES,
            lambda wildcards: [
                block_pair(wildcards.pair)[role] for role in ("target", "draft")
            ],
        ),
    params:
        settings=lambda wildcards: as_json(
            domain=wildcards.domain,
            mode=wildcards.mode,
            law=law(wildcards.mode),
            template=template(wildcards.domain),
            **block_live(wildcards.study, wildcards.pair, wildcards.domain),
            seed=EXPERIMENT.settings.seed,
        ),
        code=lambda wildcards: digest(
            "live_decode.py",
            [block_pair(wildcards.pair)[role] for role in ("target", "draft")],
        ),
    shell:
        "DRAFTSCOPE_GPUS={resources.gpu}"
        " python scripts/live_decode.py --settings {params.settings:q} --target {input.target:q}"
        " --draft {input.draft:q} --prompts {input.prompts:q}"
        " --trajectories {output.trajectories:q} --rounds {output.rounds:q}"
        " --timings {output.timings:q} 2> {log:q}"


use rule block_live as retrace_live with:
    wildcard_constraints:
        study="retrace",
        pair=alternatives(EXPERIMENT.retrace.pairs),
    threads: RETRACE.threads
    resources:
        **requests(
            RETRACE,
            lambda wildcards: [
                block_pair(wildcards.pair)[role] for role in ("target", "draft")
            ],
        ),
