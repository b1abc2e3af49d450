# Needs: the target's greedy text (or prompts of its own to continue), records of targets and drafts.
# Makes: certificates/positions/{target}/{draft_group}/{domain}/{mode}/{shard}.{targets,drafts}.parquet,
#   the target's distribution at every position and each draft's KL to it; certificates/live/{pair}/
#   {domain}/{texts,rounds}.parquet, texts decoded with relaxed rules; statistics/certificates/*.parquet
#   and exhibits/certificates/*.
# Why: how close to the target must a draft be to be sure of acceptance, and how close are drafts?

CERTIFICATE_STATISTICS = [
    RESULTS / "statistics/certificates" / f"{name}.parquet"
    for name in CERTIFICATE_FILES
]


wildcard_constraints:
    certified=alternatives(CERTIFIED.targets),
    certified_domain=alternatives(CERTIFIED.domains),


localrules:
    certificate_prompts,


rule certificate_prompts:
    input:
        code=lambda wildcards: sources(
            "certificate_prompts.py", source_modules(wildcards.certified_domain)
        ),
        files=lambda wildcards: domain_files(wildcards.certified_domain),
        model=RESULTS / "models/{certified}/model.json",
    output:
        RESULTS / "certificates/prompts/{certified}/{certified_domain}/{shard}.parquet",
    log:
        LOGS / "certificates/prompts/{certified}/{certified_domain}/{shard}.log",
    conda:
        "../../envs/gpu.yaml"
    params:
        settings=lambda wildcards: as_json(
            domain={
                "domain": wildcards.certified_domain,
                **domain_row(wildcards.certified_domain),
            },
            template=template(wildcards.certified_domain),
            min_tokens=CERTIFICATES.min_prompt_tokens or 0,
            candidates=CERTIFICATES.candidates
            or certificate_use(wildcards.certified_domain).prompts,
        ),
        bounds=lambda wildcards: certificate_bounds(
            wildcards.certified_domain, wildcards.shard
        ),
    shell:
        "python scripts/certificate_prompts.py --settings {params.settings:q}"
        " --start {params.bounds[0]} --stop {params.bounds[1]} --model {input.model:q}"
        " --output {output:q} 2> {log:q}"


rule certificate_text:
    input:
        prompts=RESULTS
        / "certificates/prompts/{certified}/{certified_domain}/{shard}.parquet",
        model=RESULTS / "models/{certified}/model.json",
    output:
        RESULTS
        / "certificates/trajectories/{certified}/{certified_domain}"
        / CERTIFICATES.mode
        / "{shard}.parquet",
    log:
        LOGS / "certificates/generate/{certified}/{certified_domain}/{shard}.log",
    conda:
        "../../envs/gpu.yaml"
    threads: EXPERIMENT.settings.generation.threads
    resources:
        **requests(
            EXPERIMENT.settings.generation, lambda wildcards: [wildcards.certified]
        ),
    params:
        settings=lambda wildcards: as_json(
            domain=wildcards.certified_domain,
            mode=CERTIFICATES.mode,
            law=law(CERTIFICATES.mode),
            samples=row_of("modes", CERTIFICATES.mode)["samples"],
            budget=certificate_use(wildcards.certified_domain).max_new_tokens,
            template=template(wildcards.certified_domain),
            batch_size=EXPERIMENT.settings.generation.batch_size,
            engine=EXPERIMENT.settings.generation.engine,
            seed=EXPERIMENT.settings.seed,
            **compute(EXPERIMENT.settings.generation),
        ),
        code=lambda wildcards: digest("generate.py", [wildcards.certified]),
    shell:
        "DRAFTSCOPE_GPUS={resources.gpu}"
        " python scripts/generate.py --settings {params.settings:q} --model {input.model:q}"
        " --prompts {input.prompts:q} --output {output:q} 2> {log:q}"


rule certificate_record:
    input:
        trajectories=lambda wildcards: certificate_text(
            wildcards.certified, wildcards.certified_domain, wildcards.shard
        ),
        prompts=lambda wildcards: certificate_prompts(
            wildcards.certified, wildcards.certified_domain, wildcards.shard
        ),
        target=RESULTS / "models/{certified}/model.json",
        drafts=lambda wildcards: [
            model_file(name)
            for name in certificate_drafts(wildcards.certified, wildcards.group)
        ],
    output:
        targets=RESULTS
        / "certificates/positions/{certified}/{group}/{certified_domain}"
        / CERTIFICATES.mode
        / "{shard}.targets.parquet",
        drafts=RESULTS
        / "certificates/positions/{certified}/{group}/{certified_domain}"
        / CERTIFICATES.mode
        / "{shard}.drafts.parquet",
    log:
        LOGS / "certificates/record/{certified}/{group}/{certified_domain}/{shard}.log",
    wildcard_constraints:
        group=alternatives({pair["draft_group"] for pair in CERTIFIED.pairs.values()}),
    conda:
        "../../envs/gpu.yaml"
    threads: CERTIFICATES.threads
    resources:
        **requests(
            CERTIFICATES,
            lambda wildcards: [
                wildcards.certified,
                *certificate_drafts(wildcards.certified, wildcards.group),
            ],
        ),
    params:
        settings=lambda wildcards: as_json(
            domain=wildcards.certified_domain,
            mode=CERTIFICATES.mode,
            prompts=certificate_share(wildcards.certified_domain, wildcards.shard),
            max_new_tokens=certificate_use(wildcards.certified_domain).max_new_tokens,
            criteria=CERTIFICATES.recorded,
            depth=CERTIFICATES.depth,
            position_chunk=CERTIFICATES.position_chunk,
            drafts=CERTIFIED.group(wildcards.certified, wildcards.group),
            **compute(CERTIFICATES),
        ),
        code=lambda wildcards: digest(
            "certificate_record.py",
            [
                wildcards.certified,
                *certificate_drafts(wildcards.certified, wildcards.group),
            ],
        ),
    shell:
        "DRAFTSCOPE_GPUS={resources.gpu}"
        " python scripts/certificate_record.py --settings {params.settings:q}"
        " --target {input.target:q} --drafts {input.drafts:q}"
        " --trajectories {input.trajectories:q} --prompts {input.prompts:q}"
        " --of-target {output.targets:q} --of-drafts {output.drafts:q} 2> {log:q}"


rule certificate_live:
    input:
        prompts=lambda wildcards: certificate_live_prompts(
            CERTIFIED.pairs[wildcards.pair]["target"], wildcards.certified_domain
        ),
        target=lambda wildcards: model_file(CERTIFIED.pairs[wildcards.pair]["target"]),
        draft=lambda wildcards: model_file(CERTIFIED.pairs[wildcards.pair]["draft"]),
    output:
        texts=RESULTS / "certificates/live/{pair}/{certified_domain}/texts.parquet",
        rounds=RESULTS / "certificates/live/{pair}/{certified_domain}/rounds.parquet",
    log:
        LOGS / "certificates/live/{pair}/{certified_domain}.log",
    wildcard_constraints:
        pair=alternatives(CERTIFIED.pairs),
    conda:
        "../../envs/gpu.yaml"
    threads: CERTIFICATES.threads
    resources:
        **requests(CERTIFICATES, certificate_models),
    params:
        settings=lambda wildcards: as_json(
            domain=wildcards.certified_domain,
            template=template(wildcards.certified_domain),
            prompts=certificate_use(wildcards.certified_domain).prompts,
            budget=certificate_use(wildcards.certified_domain).max_new_tokens,
            rules=certificate_rule_rows(CERTIFICATES.relaxed.rules),
            draft_length=CERTIFICATES.relaxed.draft_length,
            batch_size=CERTIFICATES.relaxed.batch_size,
            position_chunk=CERTIFICATES.position_chunk,
            allow_special_differences=CERTIFIED.pairs[wildcards.pair][
                "allow_special_differences"
            ],
            seed=EXPERIMENT.settings.seed,
            **compute(CERTIFICATES),
        ),
        code=lambda wildcards: digest(
            "certificate_live.py", certificate_models(wildcards)
        ),
    shell:
        "DRAFTSCOPE_GPUS={resources.gpu}"
        " python scripts/certificate_live.py --settings {params.settings:q}"
        " --target {input.target:q} --draft {input.draft:q} --prompts {input.prompts:q}"
        " --texts {output.texts:q} --rounds {output.rounds:q} 2> {log:q}"


rule certificate_statistics:
    input:
        code=sources("certificate_statistics.py"),
        targets=certificate_recordings("targets"),
        drafts=certificate_recordings("drafts"),
        texts=certificate_live("texts"),
        rounds=certificate_live("rounds"),
        leaks=certificate_leaks(),
        prompts=[
            path
            for use in CERTIFICATES.domains
            for path in certificate_live_prompts(
                CERTIFIED.pairs[CERTIFICATES.relaxed.pair]["target"], use.name
            )
        ],
    output:
        CERTIFICATE_STATISTICS,
    log:
        LOGS / "certificates/statistics.log",
    conda:
        "../../envs/gpu.yaml"
    params:
        settings=as_json(
            criteria=certificate_rule_rows(CERTIFICATES.criteria),
            all=CERTIFICATES.recorded,
            kl=CERTIFICATES.runs.kl,
            cap=CERTIFICATES.runs.cap,
            tolerance=CERTIFICATES.tolerance,
            pairs={
                name: {"target": pair["target"], "draft": pair["draft"]}
                for name, pair in CERTIFIED.pairs.items()
            },
            relaxed={
                "pair": CERTIFICATES.relaxed.pair,
                "draft_length": CERTIFICATES.relaxed.draft_length,
                "rules": certificate_rule_rows(CERTIFICATES.relaxed.rules),
            },
            options={
                use.name: domain_row(use.name).get("options") or {}
                for use in CERTIFICATES.domains
            },
            equivalence=block(CERTIFICATES.equivalence),
            seed=EXPERIMENT.settings.seed,
            **block(EXPERIMENT.settings.statistics),
        ),
        folder=RESULTS / "statistics/certificates",
    shell:
        "python scripts/certificate_statistics.py --settings {params.settings:q}"
        " --targets {input.targets:q} --drafts {input.drafts:q} --texts {input.texts:q}"
        " --rounds {input.rounds:q} --prompts {input.prompts:q} --folder {params.folder:q}"
        " 2> {log:q}"


rule certificate_exhibits:
    input:
        code=sources("certificate_exhibits.py"),
        statistics=CERTIFICATE_STATISTICS,
    output:
        report(
            certificates_exhibits(),
            category="Certificates",
            labels={"study": "certificates"},
        ),
    log:
        LOGS / "certificates/exhibits.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        folder=RESULTS / "exhibits/certificates",
    shell:
        "python scripts/certificate_exhibits.py --statistics {input.statistics:q}"
        " --folder {params.folder:q} 2> {log:q}"


rule certificate_measurements:
    input:
        code=sources("certificate_measurements.py"),
        published=local("config/published/certificates.csv"),
        statistics=CERTIFICATE_STATISTICS,
    output:
        RESULTS / "statistics/certificates/measurements.parquet",
    log:
        LOGS / "certificates/measurements.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        settings=as_json(
            targets=certificates_condition()[0],
            domain=CERTIFICATES.headline,
            run=certificates_condition()[1],
            published=PUBLISHED_CONDITIONS["certificates"],
        ),
    shell:
        "python scripts/certificate_measurements.py --settings {params.settings:q}"
        " --published {input.published:q} --statistics {input.statistics:q} --output {output:q}"
        " 2> {log:q}"
