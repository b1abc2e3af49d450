# Needs: the nodes and trees of every domain of the study.
# Makes: statistics/domains/*.parquet; exhibits/domains/*.{csv,md,tex} and figure{1..4}.{svg,pdf}; our
#   value of each published cell, for the scorecard.
# Why: does acceptance differ between kinds of text, and what is worth speculating for each?

DOMAINS_STATISTICS = [
    RESULTS / "statistics/domains" / f"{name}.parquet" for name in DOMAINS_FILES
]
COUNTED = (
    "position_edge",
    "entropy_bins",
    "node_budgets",
    "cost_ratios",
    "budget_depth",
    "fewest_reached",
)


rule domain_statistics:
    input:
        code=sources("domain_statistics.py"),
        nodes=tree_files("nodes"),
        trees=tree_files("trees"),
        leaks=[
            path
            for use in TREES.domains
            for path in leak_checks(tree_pair(TREES.pair)["draft"], use.name)
        ],
    output:
        DOMAINS_STATISTICS,
    log:
        LOGS / "domains/statistics.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        settings=as_json(
            domains=[use.name for use in TREES.domains],
            seed=EXPERIMENT.settings.seed,
            **{key: block(TREES)[key] for key in COUNTED},
            **block(EXPERIMENT.settings.statistics),
        ),
        folder=RESULTS / "statistics/domains",
    shell:
        "python scripts/domain_statistics.py --settings {params.settings:q}"
        " --nodes {input.nodes:q} --trees {input.trees:q} --folder {params.folder:q} 2> {log:q}"


rule tree_equivalence:
    input:
        code=sources("tree_equivalence.py"),
    output:
        RESULTS / "statistics/domains/equivalence.parquet",
    log:
        LOGS / "domains/equivalence.log",
    conda:
        "../../envs/gpu.yaml"
    params:
        settings=as_json(seed=EXPERIMENT.settings.seed, **block(TREES.equivalence)),
    shell:
        "python scripts/tree_equivalence.py --settings {params.settings:q}"
        " --output {output:q} 2> {log:q}"


rule domain_exhibits:
    input:
        code=sources("domain_exhibits.py"),
        statistics=DOMAINS_STATISTICS,
        equivalence=RESULTS / "statistics/domains/equivalence.parquet",
    output:
        report(domains_exhibits(), category="Domains", labels={"study": "domains"}),
    log:
        LOGS / "domains/exhibits.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        folder=RESULTS / "exhibits/domains",
    shell:
        "python scripts/domain_exhibits.py --statistics {input.statistics:q}"
        " --equivalence {input.equivalence:q} --folder {params.folder:q} 2> {log:q}"


rule domain_measurements:
    input:
        code=sources("domain_measurements.py"),
        published=local("config/published/domains.csv"),
        statistics=DOMAINS_STATISTICS,
    output:
        RESULTS / "statistics/domains/measurements.parquet",
    log:
        LOGS / "domains/measurements.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        settings=as_json(
            labels={use.published: use.name for use in TREES.domains if use.published},
            run=domains_condition(),
            published=PUBLISHED_CONDITIONS["domains"],
        ),
    shell:
        "python scripts/domain_measurements.py --settings {params.settings:q}"
        " --published {input.published:q} --statistics {input.statistics:q} --output {output:q}"
        " 2> {log:q}"
