# Needs: scores, rounds, loops and token types of the experiment's text, for every arm's pair.
# Makes: interventions/texts/{pair}/{domain}/{mode}/, what each arm's live loop emits;
#   statistics/interventions/*.parquet, exhibits/interventions/{table4,figure6,figure8,...}; and
#   statistics/distillation/match.parquet, exhibits/distillation/*, what distillation gained.
# Why: does training a draft on reflection or on uncertainty help where it fails? Not in the published
#   study; and is the distilled draft worth measuring?


localrules:
    intervention_exhibits,
    score_answers,


rule intervention_texts:
    input:
        prompts=lambda wildcards: prompt_shards(
            wildcards.domain, INTERVENTIONS.accuracy.prompts
        ),
        target=lambda wildcards: model_file(intervention_pair(wildcards.pair)["target"]),
        draft=lambda wildcards: model_file(intervention_pair(wildcards.pair)["draft"]),
    output:
        trajectories=RESULTS
        / "interventions/texts/{pair}/{domain}/{mode}/trajectories.parquet",
        rounds=RESULTS / "interventions/texts/{pair}/{domain}/{mode}/rounds.parquet",
        timings=RESULTS / "interventions/texts/{pair}/{domain}/{mode}/timings.parquet",
    log:
        LOGS / "interventions/texts/{pair}/{domain}/{mode}.log",
    wildcard_constraints:
        pair=alternatives(EXPERIMENT.interventions.pairs),
    conda:
        "../../envs/gpu.yaml"
    threads: INTERVENTIONS.threads
    resources:
        **requests(
            INTERVENTIONS,
            lambda wildcards: [
                intervention_pair(wildcards.pair)[role] for role in ("target", "draft")
            ],
        ),
    params:
        settings=lambda wildcards: as_json(
            domain=wildcards.domain,
            mode=wildcards.mode,
            law=law(wildcards.mode),
            template=template(wildcards.domain),
            draft_lengths=[INTERVENTIONS.accuracy.draft_length],
            prompts=INTERVENTIONS.accuracy.prompts,
            budget=EXPERIMENT.use(wildcards.domain).max_new_tokens,
            samples=1,
            repeats=1,
            warm_up=0,
            batch_size=INTERVENTIONS.accuracy.batch_size,
            allow_special_differences=intervention_pair(wildcards.pair)[
                "allow_special_differences"
            ],
            draft_dtype=None,
            seed=EXPERIMENT.settings.seed,
            **compute(INTERVENTIONS),
        ),
        code=lambda wildcards: digest(
            "live_decode.py",
            [intervention_pair(wildcards.pair)[role] for role in ("target", "draft")],
        ),
    shell:
        "DRAFTSCOPE_GPUS={resources.gpu}"
        " python scripts/live_decode.py --settings {params.settings:q} --target {input.target:q}"
        " --draft {input.draft:q} --prompts {input.prompts:q}"
        " --trajectories {output.trajectories:q} --rounds {output.rounds:q}"
        " --timings {output.timings:q} 2> {log:q}"


rule score_answers:
    input:
        code=sources("score_answers.py"),
        model=model_file(intervention_target()),
        prompts=answer_prompts(),
        trajectories=[path for _, paths in answer_texts() for path in paths],
    output:
        RESULTS / "statistics/interventions/answers.parquet",
    log:
        LOGS / "interventions/answers.log",
    conda:
        "../../envs/gpu.yaml"
    params:
        settings=as_json(
            texts=[row | {"files": len(paths)} for row, paths in answer_texts()],
            prompts=INTERVENTIONS.accuracy.prompts,
            options=answer_options(),
            checkers=INTERVENTIONS.accuracy.checkers,
        ),
    shell:
        "python scripts/score_answers.py --settings {params.settings:q} --model {input.model:q}"
        " --prompts {input.prompts:q} --trajectories {input.trajectories:q} --output {output:q}"
        " 2> {log:q}"


rule intervention_statistics:
    input:
        code=sources("intervention_statistics.py"),
        rounds=[
            RESULTS / "rounds" / row["pair"] / row["domain"] / f"{row['mode']}.parquet"
            for row in intervention_sources()
        ],
        expected=[
            RESULTS
            / "expected"
            / row["pair"]
            / row["domain"]
            / f"{row['mode']}.parquet"
            for row in intervention_sources()
        ],
        loops=[
            RESULTS
            / "loops"
            / intervention_target()
            / row["domain"]
            / f"{row['mode']}.parquet"
            for row in intervention_sources()
        ],
        scores=[path for mode in EXPERIMENT.modes for path in intervention_scores(mode)],
        types=[
            RESULTS
            / "tokens"
            / intervention_target()
            / INTERVENTIONS.domain
            / f"{mode}.parquet"
            for mode in EXPERIMENT.modes
        ],
        prompts=all_prompt_shards(INTERVENTIONS.domain),
        answers=RESULTS / "statistics/interventions/answers.parquet",
    output:
        [
            RESULTS / "statistics/interventions" / f"{name}.parquet"
            for name in INTERVENTION_FILES
        ],
    log:
        LOGS / "interventions/statistics.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        settings=as_json(
            sources=intervention_sources(),
            drafts={
                arm: intervention_pair(pair)["draft"]
                for arm, pair in intervention_arms().items()
            },
            score_files=len(intervention_scores(next(iter(EXPERIMENT.modes)))),
            draft_length=INTERVENTIONS.draft_length,
            control=INTERVENTIONS.control,
            diagnostic_prompts=INTERVENTIONS.diagnostic_prompts,
            entropy_bins=INTERVENTIONS.entropy_bins,
            seed=EXPERIMENT.settings.seed,
            **block(EXPERIMENT.settings.statistics),
        ),
        folder=RESULTS / "statistics/interventions",
    shell:
        "python scripts/intervention_statistics.py --settings {params.settings:q}"
        " --rounds {input.rounds:q} --expected {input.expected:q} --loops {input.loops:q}"
        " --scores {input.scores:q} --types {input.types:q} --prompts {input.prompts:q}"
        " --answers {input.answers:q} --folder {params.folder:q} 2> {log:q}"


rule intervention_exhibits:
    input:
        **{
            name: RESULTS / "statistics/interventions" / f"{name}.parquet"
            for name in INTERVENTION_FILES
        },
        code=sources("intervention_exhibits.py"),
        histories=[history_file(arm.pair) for arm in INTERVENTIONS.arms],
    output:
        report(
            intervention_exhibits(),
            category="Position",
            labels={"study": "interventions"},
        ),
    log:
        LOGS / "interventions/exhibits.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        folder=RESULTS / "exhibits/interventions",
    shell:
        "python scripts/intervention_exhibits.py --lengths {input.lengths:q}"
        " --differences {input.differences:q} --diagnostics {input.diagnostics:q}"
        " --accuracy {input.accuracy:q} --histories {input.histories:q}"
        " --folder {params.folder:q} 2> {log:q}"


if INTERVENTIONS.untrained is not None:

    localrules:
        distillation_exhibits,
        distillation_match,

    rule distillation_match:
        input:
            code=sources("distillation_match.py"),
            scores=[
                path for domain in EXPERIMENT.domains for path in match_scores(domain)
            ],
            loops=[
                RESULTS
                / "loops"
                / intervention_target()
                / domain
                / f"{greedy_mode()}.parquet"
                for domain in EXPERIMENT.domains
            ],
            leaks=[
                path
                for domain in EXPERIMENT.domains
                for path in leak_checks(
                    intervention_pair(INTERVENTIONS.base)["draft"], domain
                )
            ],
        output:
            RESULTS / "statistics/distillation/match.parquet",
        log:
            LOGS / "distillation/match.log",
        conda:
            "../../envs/analysis.yaml"
        params:
            settings=as_json(
                domains={
                    domain: len(match_scores(domain)) for domain in EXPERIMENT.domains
                },
                untrained=intervention_pair(INTERVENTIONS.untrained)["draft"],
                distilled=intervention_pair(INTERVENTIONS.base)["draft"],
                mode=greedy_mode(),
                margin=INTERVENTIONS.margin,
                seed=EXPERIMENT.settings.seed,
                **block(EXPERIMENT.settings.statistics),
            ),
        shell:
            "python scripts/distillation_match.py --settings {params.settings:q}"
            " --scores {input.scores:q} --loops {input.loops:q} --output {output:q} 2> {log:q}"

    rule distillation_exhibits:
        input:
            code=sources("distillation_exhibits.py"),
            match=RESULTS / "statistics/distillation/match.parquet",
            history=history_file(INTERVENTIONS.base),
        output:
            report(
                distillation_exhibits(),
                category="Position",
                labels={"study": "distillation"},
            ),
        log:
            LOGS / "distillation/exhibits.log",
        conda:
            "../../envs/analysis.yaml"
        params:
            folder=RESULTS / "exhibits/distillation",
        shell:
            "python scripts/distillation_exhibits.py --match {input.match:q}"
            " --history {input.history:q} --folder {params.folder:q} 2> {log:q}"
