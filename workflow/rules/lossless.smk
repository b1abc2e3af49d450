# Needs: what the live loop gave, for every configuration (pair x mode) of the study.
# Makes: statistics/lossless/*.parquet; exhibits/lossless/*.{csv,md,tex} and figure{1..5}.{svg,pdf};
#   our value of each published cell, for the scorecard.
# Why: is the emitted text the target's own, and what is gained in time, and why?

LOSSLESS_STATISTICS = RESULTS / "statistics/lossless"
LOSSLESS_FILES = (
    "speed",
    "positions",
    "phases",
    "latency",
    "batch",
    "replay",
    "greedy",
    "equivalence",
)
SCORED_WITH = (
    "allow_special_differences",
    "draft_dtype",
    "device",
    "dtype",
    "attention",
    "threads",
)
LIVE_LAW = (
    RESULTS
    / "live/law"
    / LIVE.equivalence.pair
    / LIVE.domain
    / LIVE.equivalence.mode
    / "trajectories.parquet"
)


rule lossless_scores:
    input:
        trajectories=RESULTS / "live/{run}/{pair}/{domain}/{mode}/trajectories.parquet",
        target=lambda wildcards: model_file(live_pair(wildcards.pair)["target"]),
        draft=lambda wildcards: model_file(live_pair(wildcards.pair)["draft"]),
    output:
        RESULTS / "live/{run}/{pair}/{domain}/{mode}/scores.parquet",
    log:
        LOGS / "live/scores/{run}/{pair}/{domain}/{mode}.log",
    wildcard_constraints:
        run="speed|divergence",
    conda:
        "../../envs/gpu.yaml"
    threads: LIVE.threads
    resources:
        **requests(LIVE, models_of_pair),
    params:
        settings=lambda wildcards: as_json(
            law=law(wildcards.mode),
            position_chunk=EXPERIMENT.settings.scoring.position_chunk,
            **{
                key: value
                for key, value in live_run(
                    wildcards.run, wildcards.pair, wildcards.mode
                ).items()
                if key in SCORED_WITH
            },
        ),
        code=lambda wildcards: digest(
            "lossless_scores.py",
            [live_pair(wildcards.pair)[role] for role in ("target", "draft")],
        ),
    shell:
        "DRAFTSCOPE_GPUS={resources.gpu}"
        " python scripts/lossless_scores.py --settings {params.settings:q}"
        " --target {input.target:q} --draft {input.draft:q}"
        " --trajectories {input.trajectories:q} --output {output:q} 2> {log:q}"


rule lossless_proposals:
    input:
        trajectories=RESULTS / "live/{run}/{pair}/{domain}/{mode}/trajectories.parquet",
        target=lambda wildcards: model_file(live_pair(wildcards.pair)["target"]),
        draft=lambda wildcards: model_file(live_pair(wildcards.pair)["draft"]),
    output:
        RESULTS / "live/{run}/{pair}/{domain}/{mode}/proposals.parquet",
    log:
        LOGS / "live/proposals/{run}/{pair}/{domain}/{mode}.log",
    wildcard_constraints:
        run="speed|divergence",
    conda:
        "../../envs/gpu.yaml"
    threads: LIVE.threads
    resources:
        **requests(LIVE, models_of_pair),
    params:
        settings=lambda wildcards: as_json(
            **{
                key: value
                for key, value in live_run(
                    wildcards.run, wildcards.pair, wildcards.mode
                ).items()
                if key in ("draft_dtype", "device", "dtype", "attention", "threads")
            },
        ),
        code=lambda wildcards: digest("propose_blocks.py", models_of_pair(wildcards)),
    shell:
        "DRAFTSCOPE_GPUS={resources.gpu}"
        " python scripts/propose_blocks.py --settings {params.settings:q} --live"
        " --target {input.target:q} --draft {input.draft:q}"
        " --trajectories {input.trajectories:q} --output {output:q} 2> {log:q}"


rule lossless_statistics:
    input:
        code=sources("lossless_statistics.py"),
        timings=live_files("timings"),
        rounds=live_files("rounds"),
        passes=[
            RESULTS / "live/latency" / f"{target}.parquet" for target in live_targets()
        ],
        batches=live_batches(),
        leaks=[
            path
            for pair in EXPERIMENT.live.pairs
            for path in leak_checks(live_pair(pair)["draft"], LIVE.domain)
        ],
    output:
        **{name: LOSSLESS_STATISTICS / f"{name}.parquet" for name in LOSSLESS_FILES[:5]},
    log:
        LOGS / "lossless/statistics.log",
    conda:
        "../../envs/gpu.yaml"
    params:
        settings=as_json(
            configurations=live_configurations(),
            batch={
                "pair": LIVE.batch.pair,
                "domain": LIVE.domain,
                "mode": LIVE.batch.mode,
            },
            seed=EXPERIMENT.settings.seed,
            **block(EXPERIMENT.settings.statistics),
        ),
    shell:
        "python scripts/lossless_statistics.py --settings {params.settings:q}"
        " --timings {input.timings:q} --rounds {input.rounds:q} --passes {input.passes:q}"
        " --speed {output.speed:q} --positions {output.positions:q} --phases {output.phases:q}"
        " --latency {output.latency:q} --batches {input.batches:q} --batch {output.batch:q}"
        " 2> {log:q}"


rule lossless_replay:
    input:
        code=sources("lossless_replay.py"),
        trajectories=compared_files("trajectories"),
        rounds=compared_files("rounds"),
        scores=compared_files("scores"),
        proposals=compared_files("proposals"),
        records=[
            path
            for row in compared_configurations()
            for path in draft_records(row["draft"])
        ],
    output:
        replay=LOSSLESS_STATISTICS / "replay.parquet",
        greedy=LOSSLESS_STATISTICS / "greedy.parquet",
    log:
        LOGS / "lossless/replay.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        settings=as_json(
            configurations=compared_configurations(),
            replays=LIVE.replays,
            margin=LIVE.margin,
            seed=EXPERIMENT.settings.seed,
            **block(EXPERIMENT.settings.statistics),
        ),
        scores=lambda wildcards, input: (
            ["--scores", *input.scores] if input.scores else []
        ),
        proposals=lambda wildcards, input: (
            ["--proposals", *input.proposals] if input.proposals else []
        ),
    shell:
        "python scripts/lossless_replay.py --settings {params.settings:q}"
        " --trajectories {input.trajectories:q} --rounds {input.rounds:q} {params.scores:q}"
        " {params.proposals:q} --replay {output.replay:q} --greedy {output.greedy:q} 2> {log:q}"


rule lossless_equivalence:
    input:
        code=sources("lossless_equivalence.py"),
        trajectories=LIVE_LAW,
    output:
        LOSSLESS_STATISTICS / "equivalence.parquet",
    log:
        LOGS / "lossless/equivalence.log",
    conda:
        "../../envs/gpu.yaml"
    params:
        settings=as_json(
            seed=EXPERIMENT.settings.seed,
            **{
                key: value
                for key, value in block(LIVE.equivalence).items()
                if key
                in ("level", "trials", "generations", "tokens", "pair", "draft_length")
            },
        ),
    shell:
        "python scripts/lossless_equivalence.py --settings {params.settings:q}"
        " --trajectories {input.trajectories:q} --output {output:q} 2> {log:q}"


rule lossless_exhibits:
    input:
        **{name: LOSSLESS_STATISTICS / f"{name}.parquet" for name in LOSSLESS_FILES},
        code=sources("lossless_exhibits.py"),
    output:
        report(lossless_exhibits(), category="Lossless", labels={"study": "lossless"}),
    log:
        LOGS / "lossless/exhibits.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        draft_length=LIVE.draft_length,
        folder=RESULTS / "exhibits/lossless",
    shell:
        "python scripts/lossless_exhibits.py --speed {input.speed:q}"
        " --positions {input.positions:q} --phases {input.phases:q} --latency {input.latency:q}"
        " --batch {input.batch:q} --replay {input.replay:q} --greedy {input.greedy:q}"
        " --equivalence {input.equivalence:q} --draft-length {params.draft_length}"
        " --folder {params.folder:q} 2> {log:q}"


rule lossless_measurements:
    input:
        **{
            name: LOSSLESS_STATISTICS / f"{name}.parquet"
            for name in LOSSLESS_FILES
            if name not in ("replay", "batch")
        },
        code=sources("lossless_measurements.py"),
        published=local("config/published/lossless.csv"),
    output:
        LOSSLESS_STATISTICS / "measurements.parquet",
    log:
        LOGS / "lossless/measurements.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        settings=as_json(
            draft_length=LIVE.draft_length,
            run=lossless_condition(),
            published=PUBLISHED_CONDITIONS["lossless"],
        ),
    shell:
        "python scripts/lossless_measurements.py --settings {params.settings:q}"
        " --published {input.published:q} --speed {input.speed:q}"
        " --positions {input.positions:q} --phases {input.phases:q} --latency {input.latency:q}"
        " --greedy {input.greedy:q} --equivalence {input.equivalence:q} --output {output:q}"
        " 2> {log:q}"
