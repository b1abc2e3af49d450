# Needs: the measurements and exhibits of every study of the experiment.
# Makes: scorecard.{csv,md}, viewer.json and report.html.
# Why: one page that opens from disk and says what was found, and what was not measured.

REPORT_FILES = [
    f"draftscope/exhibits/templates/{name}"
    for name in ("report.html.jinja", "report.css", "report.js")
]
STUDIES = {
    "position": {
        "title": "Acceptance by position",
        "exhibits": position_study_exhibits(),
    },
    "choice": {"title": "Draft choice", "exhibits": choice_exhibits()},
    "measures": {
        "title": "Every measure of acceptance",
        "exhibits": measures_exhibits(),
    },
}
# The published exhibit of each study that the summary speaks of.
HEADLINES = {
    "position": {
        "exhibit": "table1",
        "title": "Second half minus first half of each text",
    },
    "choice": {"exhibit": "choice", "title": "Which draft, which draft length"},
}
SCHEMAS = [
    "draftscope.position.schemas",
    "draftscope.position.token_schemas",
    "draftscope.tokens.schemas",
    "draftscope.choice.schema",
    "draftscope.exhibits.measures",
]
if "temperatures" in EXPERIMENT.settings.studies:
    STUDIES["temperatures"] = {
        "title": "Acceptance by temperature",
        "exhibits": temperature_exhibits(),
    }
if "lossless" in EXPERIMENT.settings.studies:
    STUDIES["lossless"] = {
        "title": "Lossless decoding and its speed",
        "exhibits": lossless_exhibits(),
    }
    HEADLINES["lossless"] = {
        "exhibit": "table3",
        "title": "Plain and speculative decoding, timed",
    }
    SCHEMAS += ["draftscope.live.tables", "draftscope.lossless.schemas"]
if "domains" in EXPERIMENT.settings.studies:
    STUDIES["domains"] = {
        "title": "Token trees in several domains",
        "exhibits": domains_exhibits(),
    }
    HEADLINES["domains"] = {
        "statements": "findings",
        "title": "Domains: the published analysis of this run and the corrected one",
    }
    SCHEMAS += ["draftscope.tree.schemas", "draftscope.domains.schemas"]
if "interventions" in EXPERIMENT.settings.studies:
    STUDIES["interventions"] = {
        "title": "Drafts trained on reflection and on uncertainty",
        "exhibits": intervention_exhibits(),
    }
    if INTERVENTIONS.untrained is not None:
        STUDIES["distillation"] = {
            "title": "What distillation gained",
            "exhibits": distillation_exhibits(),
        }
    HEADLINES["interventions"] = {
        "exhibit": "table_differences",
        "title": "Adapters against the uniform one, in tokens a round",
    }
    SCHEMAS += ["draftscope.training.schemas", "draftscope.interventions.schemas"]
if PROPOSERS:
    SCHEMAS += ["draftscope.drafters.proposal_schemas"]
# The interventions and the sweep are cells of the position study.
SCORED = [
    name
    for name in EXPERIMENT.settings.studies
    if name not in ("interventions", "temperatures")
]
if "certificates" in EXPERIMENT.settings.studies:
    STUDIES["certificates"] = {
        "title": "Certificates of acceptance",
        "exhibits": certificates_exhibits(),
    }
    HEADLINES["certificates"] = {
        "statements": "findings",
        "title": "Certificates: how close a draft must be to be sure of acceptance",
    }
    SCHEMAS += [
        "draftscope.certificate_study.record_schemas",
        "draftscope.certificate_study.schemas",
    ]
for _study, _title, _exhibits in (
    ("losses", "Losses of block drafters", loss_exhibits("losses")),
    ("retrace", "A memory of rejected tokens", retrace_exhibits()),
):
    if _study in EXPERIMENT.settings.studies:
        STUDIES[_study] = {"title": _title, "exhibits": _exhibits}
        HEADLINES[_study] = {"statements": "findings", "title": f"{_title}, in words"}
        SCHEMAS += [
            "draftscope.block_training.schemas",
            "draftscope.block_study.schemas",
            "draftscope.live.tables",
        ]
SCHEMAS = list(dict.fromkeys(SCHEMAS))
# What a bare run promises. A failed job takes its exhibit away and leaves a report that stands above
# it, from which alone Snakemake would not see that it is missing.
EXHIBITS = [path for study in STUDIES.values() for path in study["exhibits"]]
# Text that the report counts: the experiment's, and what a study of it has of its own. What the trees
# and the losses both need is one text, and counts once.
TEXTS = list(
    dict.fromkeys(
        [
            *all_trajectories(),
            *(tree_text() if "domains" in EXPERIMENT.settings.studies else []),
            *(
                certificate_own_text()
                if "certificates" in EXPERIMENT.settings.studies
                else []
            ),
            *(loss_own_text() if "losses" in EXPERIMENT.settings.studies else []),
        ]
    )
)


# Seconds of reading results: not worth a place in a cluster's queue.
localrules:
    report,
    scorecard,
    viewer,


rule scorecard:
    input:
        code=sources("scorecard.py"),
        published=[local(f"config/published/{study}.csv") for study in SCORED],
        readings=local("config/published/readings.csv"),
        measurements=[
            RESULTS / "statistics" / study / "measurements.parquet" for study in SCORED
        ],
    output:
        csv=report(RESULTS / "scorecard.csv", category="Scorecard"),
        markdown=RESULTS / "scorecard.md",
    log:
        LOGS / "scorecard.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        settings=as_json(
            experiment=EXPERIMENT.settings.experiment,
            **block(EXPERIMENT.settings.scorecard),
        ),
    shell:
        "python scripts/scorecard.py --settings {params.settings:q} --published {input.published:q}"
        " --readings {input.readings:q} --measurements {input.measurements:q}"
        " --csv {output.csv:q} --markdown {output.markdown:q} 2> {log:q}"


rule viewer:
    input:
        code=sources("viewer.py"),
        models=[model_file(target) for target in EXPERIMENT.targets],
        trajectories=first_shards(all_trajectories()),
        scores=first_shards(all_scores()),
        rounds=all_rounds(),
    output:
        RESULTS / "viewer.json",
    log:
        LOGS / "viewer.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        settings=as_json(
            draft_length=POSITION.draft_length,
            trajectories=EXPERIMENT.settings.report.viewer_trajectories,
        ),
        scores=lambda wildcards, input: (
            ["--scores", *input.scores] if input.scores else []
        ),
    shell:
        "python scripts/viewer.py --settings {params.settings:q} --models {input.models:q}"
        " --trajectories {input.trajectories:q} --rounds {input.rounds:q} {params.scores:q}"
        " --output {output:q} 2> {log:q}"


rule report:
    input:
        code=sources("report.py", REPORT_FILES),
        exhibits=[
            path
            for study in STUDIES.values()
            for path in study["exhibits"]
            if path.suffix in (".csv", ".md", ".svg")
        ],
        scorecard=RESULTS / "scorecard.csv",
        viewer=RESULTS / "viewer.json",
        trajectories=TEXTS,
        rounds=all_rounds(),
    output:
        RESULTS / "report.html",
    log:
        LOGS / "report.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        settings=as_json(
            title=EXPERIMENT.settings.report.title,
            experiment=EXPERIMENT.settings.experiment,
            studies={name: study["title"] for name, study in STUDIES.items()},
            headline=HEADLINES,
            not_measured=EXPERIMENT.settings.report.not_measured,
            command=f"snakemake --cores all --configfile {workflow.configfiles[-1]}",
            schemas=SCHEMAS,
        ),
    shell:
        "python scripts/report.py --settings {params.settings:q} --exhibits {input.exhibits:q}"
        " --scorecard {input.scorecard:q} --viewer {input.viewer:q}"
        " --trajectories {input.trajectories:q} --rounds {input.rounds:q} --output {output:q}"
        " 2> {log:q}"
