# Needs: the rounds of every pair, domain and mode.
# Makes: statistics/measures/measures.parquet; exhibits/measures/{measures,positions}.{csv,md,tex}.
# Why: papers and engines define acceptance differently; from one log, all of them side by side.


rule acceptance_measures:
    input:
        code=sources("acceptance_measures.py"),
        rounds=all_rounds(),
    output:
        statistics=RESULTS / "statistics/measures/measures.parquet",
        exhibits=report(
            measures_exhibits(),
            category="Measures",
            labels={"study": "measures"},
        ),
    log:
        LOGS / "measures.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        settings=as_json(
            configurations=[
                {"pair": pair, "domain": domain, "mode": mode}
                for pair in EXPERIMENT.pairs
                for domain in EXPERIMENT.domains
                for mode in EXPERIMENT.modes
            ]
        ),
        folder=RESULTS / "exhibits/measures",
    shell:
        "python scripts/acceptance_measures.py --settings {params.settings:q}"
        " --rounds {input.rounds:q} --output {output.statistics:q} --folder {params.folder:q}"
        " 2> {log:q}"
