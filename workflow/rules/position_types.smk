# Needs: types, loops, texts and scores of the position study's configurations.
# Makes: statistics/position/{types,mismatches,survival,model}.parquet; exhibits/position/table_types,
#   table_mismatches, table_trend, table_effects and table_survival.{csv,md,tex}; figure3, figure4, figure7 and
#   figure_trend.{svg,pdf}.
# Why: which tokens a draft misses, and whether acceptance falls along a text once texts are compared
#   with themselves.


localrules:
    position_type_exhibits,


rule position_tokens:
    input:
        code=sources("position_tokens.py"),
        types=[of_target("tokens", row) for row in CONFIGURATIONS],
        loops=[of_target("loops", row) for row in CONFIGURATIONS],
        models=[
            model_file(EXPERIMENT.pairs[row["pair"]]["target"])
            for row in CONFIGURATIONS
        ],
        records=[path for row in CONFIGURATIONS for path in draft_records(row["draft"])],
        trajectories=[path for row in CONFIGURATIONS for path in texts_of(row)],
        scores=[
            path
            for row in CONFIGURATIONS
            for path in score_shards(row["pair"], row["domain"], row["mode"])
        ],
        proposals=[
            path
            for row in CONFIGURATIONS
            for path in proposal_shards(row["pair"], row["domain"], row["mode"])
        ],
        leaks=[
            path
            for row in CONFIGURATIONS
            for path in leak_checks(row["draft"], row["domain"])
        ],
    output:
        **TYPE_STATISTICS,
    log:
        LOGS / "position/tokens.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        settings=as_json(
            configurations=[
                row
                | {
                    "draft_settings": draft_settings(row["draft"]),
                    "trajectory_shards": len(texts_of(row)),
                    "proposal_shards": len(
                        proposal_shards(row["pair"], row["domain"], row["mode"])
                    ),
                }
                for row in CONFIGURATIONS
            ],
            seed=EXPERIMENT.settings.seed,
            **block(POSITION.trend),
            **block(EXPERIMENT.settings.statistics),
        ),
        scores=lambda wildcards, input: (
            ["--scores", *input.scores] if input.scores else []
        ),
        proposals=lambda wildcards, input: (
            ["--proposals", *input.proposals] if input.proposals else []
        ),
    shell:
        "python scripts/position_tokens.py --settings {params.settings:q}"
        " --token-types {input.types:q} --loops {input.loops:q} --models {input.models:q}"
        " --trajectories {input.trajectories:q} {params.scores:q}"
        " {params.proposals:q} --types {output.types:q}"
        " --mismatches {output.mismatches:q} --survival {output.survival:q}"
        " --model {output.model:q} 2> {log:q}"


rule position_type_exhibits:
    input:
        **TYPE_STATISTICS,
        code=sources("position_type_exhibits.py"),
    output:
        report(
            position_type_exhibits(),
            category="Position",
            labels={"study": "position"},
        ),
    log:
        LOGS / "position/type_exhibits.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        folder=RESULTS / "exhibits/position",
    shell:
        "python scripts/position_type_exhibits.py --types {input.types:q}"
        " --mismatches {input.mismatches:q} --survival {input.survival:q} --model {input.model:q}"
        " --folder {params.folder:q} 2> {log:q}"
