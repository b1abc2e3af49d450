# Needs: expected rounds and loops of every pair, domain and mode.
# Makes: statistics/choice/choice.parquet; exhibits/choice/{choice,choice_all}.{csv,md,tex} and
#   figure{1,2}.{svg,pdf}: which draft and which draft length, with intervals and the runner-up.
# Why: it is the table an engineer comes for.

CANDIDATES = [
    {
        "target": row["target"],
        "pair": pair,
        "draft": row["draft"],
        "domain": domain,
        "mode": mode,
    }
    for pair, row in EXPERIMENT.pairs.items()
    for domain in EXPERIMENT.domains
    for mode in EXPERIMENT.modes
]


rule draft_choice:
    input:
        code=sources("draft_choice.py"),
        expected=[
            RESULTS
            / "expected"
            / row["pair"]
            / row["domain"]
            / f"{row['mode']}.parquet"
            for row in CANDIDATES
        ],
        loops=[
            RESULTS
            / "loops"
            / row["target"]
            / row["domain"]
            / f"{row['mode']}.parquet"
            for row in CANDIDATES
        ],
    output:
        statistics=RESULTS / "statistics/choice/choice.parquet",
        exhibits=report(
            choice_exhibits(),
            category="Draft choice",
            labels={"study": "draft choice"},
        ),
    log:
        LOGS / "choice.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        settings=as_json(
            candidates=CANDIDATES,
            cost_ratios=EXPERIMENT.settings.choice.cost_ratios,
            seed=EXPERIMENT.settings.seed,
            **block(EXPERIMENT.settings.statistics),
        ),
        folder=RESULTS / "exhibits/choice",
    shell:
        "python scripts/draft_choice.py --settings {params.settings:q} --expected {input.expected:q}"
        " --loops {input.loops:q} --output {output.statistics:q} --folder {params.folder:q}"
        " 2> {log:q}"
