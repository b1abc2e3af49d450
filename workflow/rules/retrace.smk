# Needs: block drafters with and without a memory of rejected tokens, and their target.
# Makes: live/retrace/{pair}/{domain}/{mode}/probes.parquet, what the backbone holds behind a rejection;
#   statistics/retrace/*.parquet and exhibits/retrace/*.
# Why: is what a drafter had to say about rejected places worth keeping for the next round?


localrules:
    retrace_exhibits,
    retrace_measurements,


rule probe_rejections:
    input:
        target=lambda wildcards: model_file(block_pair(wildcards.pair)["target"]),
        draft=lambda wildcards: model_file(block_pair(wildcards.pair)["draft"]),
        trajectories=RESULTS
        / "live/retrace/{pair}/{domain}/{mode}/trajectories.parquet",
        rounds=RESULTS / "live/retrace/{pair}/{domain}/{mode}/rounds.parquet",
    output:
        RESULTS / "live/retrace/{pair}/{domain}/{mode}/probes.parquet",
    log:
        LOGS / "live/retrace/{pair}/{domain}/{mode}.probes.log",
    wildcard_constraints:
        pair=alternatives(EXPERIMENT.retrace.pairs),
    conda:
        "../../envs/gpu.yaml"
    threads: RETRACE.threads
    resources:
        **requests(
            RETRACE,
            lambda wildcards: [
                block_pair(wildcards.pair)[role] for role in ("target", "draft")
            ],
        ),
    params:
        settings=lambda wildcards: as_json(
            draft_length=RETRACE.draft_length,
            seed=EXPERIMENT.settings.seed,
            domain=wildcards.domain,
            **compute(RETRACE),
        ),
        code=lambda wildcards: digest(
            "probe_rejections.py",
            [block_pair(wildcards.pair)[role] for role in ("target", "draft")],
        ),
    shell:
        "DRAFTSCOPE_GPUS={resources.gpu}"
        " python scripts/probe_rejections.py --settings {params.settings:q}"
        " --target {input.target:q} --draft {input.draft:q}"
        " --trajectories {input.trajectories:q} --rounds {input.rounds:q} --output {output:q}"
        " 2> {log:q}"


rule retrace_statistics:
    input:
        code=sources("block_statistics.py"),
        rounds=block_files(retrace_sources(), "live/retrace", name="rounds"),
        texts=block_files(retrace_sources(), "live/retrace", name="trajectories"),
        timings=block_files(retrace_sources(), "live/retrace", name="timings"),
        probes=block_files(retrace_probed(), "live/retrace", name="probes"),
        leaks=block_leaks(retrace_sources()),
    output:
        [
            RESULTS / "statistics/retrace" / f"{name}.parquet"
            for name in (*BLOCK_STATISTICS, *TIMED_STATISTICS, "probes")
        ],
    log:
        LOGS / "retrace/statistics.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        settings=as_json(
            sources=retrace_sources(),
            timed=retrace_sources(),
            probed=retrace_probed(),
            draft_length=RETRACE.draft_length,
            references=[RETRACE.backbone, RETRACE.control],
            baselines=[],
            paired=True,
            effect=RETRACE.effect,
            loops=block(EXPERIMENT.settings.loops),
            confidence=EXPERIMENT.settings.statistics.confidence,
        ),
        folder=RESULTS / "statistics/retrace",
    shell:
        "python scripts/block_statistics.py --settings {params.settings:q}"
        " --rounds {input.rounds:q} --texts {input.texts:q} --timings {input.timings:q}"
        " --probes {input.probes:q} --folder {params.folder:q} 2> {log:q}"


rule retrace_exhibits:
    input:
        **{
            name: RESULTS / "statistics/retrace" / f"{name}.parquet"
            for name in (*BLOCK_STATISTICS, *TIMED_STATISTICS, "probes")
        },
        code=sources("retrace_exhibits.py"),
        histories=block_histories(RETRACE.arms),
    output:
        report(
            retrace_exhibits(),
            category="Block drafters",
            labels={"study": "retrace"},
        ),
    log:
        LOGS / "retrace/exhibits.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        settings=trained_drafts(RETRACE.arms),
        folder=RESULTS / "exhibits/retrace",
    shell:
        "python scripts/retrace_exhibits.py --lengths {input.lengths:q}"
        " --differences {input.differences:q} --needed {input.needed:q}"
        " --positions {input.positions:q} --speed {input.speed:q}"
        " --speed_differences {input.speed_differences:q} --probes {input.probes:q}"
        " --settings {params.settings:q} --histories {input.histories:q}"
        " --folder {params.folder:q} 2> {log:q}"


rule retrace_measurements:
    input:
        **{
            name: RESULTS / "statistics/retrace" / f"{name}.parquet"
            for name in (
                "lengths",
                "differences",
                "speed",
                "speed_differences",
                "probes",
            )
        },
        code=sources("block_measurements.py"),
        published=local("config/published/retrace.csv"),
    output:
        RESULTS / "statistics/retrace/measurements.parquet",
    log:
        LOGS / "retrace/measurements.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        settings=as_json(
            study="retrace",
            run=block_condition("retrace"),
            published=PUBLISHED_CONDITIONS["retrace"],
            benchmarks={
                use.published: use.name for use in RETRACE.domains if use.published
            },
            backbone=RETRACE.backbone,
            variants={
                arm.label: EXPERIMENT.models[block_pair(arm.pairs[0])["draft"]].get(
                    "variant"
                )
                for arm in RETRACE.arms
            },
        ),
    shell:
        "python scripts/block_measurements.py --settings {params.settings:q}"
        " --published {input.published:q} --lengths {input.lengths:q}"
        " --differences {input.differences:q} --speed {input.speed:q}"
        " --speed-differences {input.speed_differences:q} --probes {input.probes:q}"
        " --output {output:q} 2> {log:q}"
