# Needs: the training prompts of a domain, and the records of a draft's base and of its target.
# Makes: training/{teacher}/{training}/{texts}/{shard}.{prompts,trajectories,marks}.parquet, the target's
#   texts of training prompts; models/{model}/ with the weights or the adapter of a draft that is trained
#   on them, and history.parquet; models/{model}/leaks/{domain}.json, that no prompt of a domain is
#   among what it was trained on.
# Why: a draft worth measuring needs no model hub, and arms of an intervention share texts and steps.

TRAINING = EXPERIMENT.settings.training
DISTILLED = [name for name in TRAINED if EXPERIMENT.models[name]["kind"] == "distilled"]
ADAPTED = [name for name in TRAINED if EXPERIMENT.models[name]["kind"] == "lora"]


wildcard_constraints:
    teacher=alternatives({each["teacher"]: 0 for each in TRAINING_TEXTS.values()}),
    training=alternatives(EXPERIMENT.training),
    texts=alternatives(TRAINING_TEXTS),


localrules:
    check_leaks,
    training_prompts,


rule training_prompts:
    input:
        code=lambda wildcards: sources(
            "collect_prompts.py", source_modules(wildcards.training)
        ),
        files=lambda wildcards: domain_files(wildcards.training),
    output:
        RESULTS / "training/{teacher}/{training}/{texts}/{shard}.prompts.parquet",
    log:
        LOGS / "training/{teacher}/{training}/{texts}/{shard}.prompts.log",
    conda:
        "../../envs/gpu.yaml"
    params:
        settings=lambda wildcards: as_json(
            domain=wildcards.training,
            **domain_row(wildcards.training),
            split="training",
        ),
        bounds=lambda wildcards: training_bounds(wildcards.texts, wildcards.shard),
    shell:
        "python scripts/collect_prompts.py --settings {params.settings:q}"
        " --start {params.bounds[0]} --stop {params.bounds[1]} --output {output:q} 2> {log:q}"


rule training_texts:
    input:
        prompts=RESULTS
        / "training/{teacher}/{training}/{texts}/{shard}.prompts.parquet",
        model=lambda wildcards: model_file(wildcards.teacher),
    output:
        RESULTS / "training/{teacher}/{training}/{texts}/{shard}.trajectories.parquet",
    log:
        LOGS / "training/{teacher}/{training}/{texts}/{shard}.log",
    conda:
        "../../envs/gpu.yaml"
    threads: EXPERIMENT.settings.generation.threads
    resources:
        **requests(
            EXPERIMENT.settings.generation,
            lambda wildcards: [wildcards.teacher],
            lambda wildcards: batches_of_shard(
                TRAINING_TEXTS[wildcards.texts]["samples"]
            ),
        ),
    params:
        settings=lambda wildcards: as_json(
            domain=wildcards.training,
            mode="training",
            law={
                "temperature": TRAINING_TEXTS[wildcards.texts]["temperature"],
                "top_k": 0,
                "top_p": 1.0,
            },
            samples=TRAINING_TEXTS[wildcards.texts]["samples"],
            budget=TRAINING_TEXTS[wildcards.texts]["max_new_tokens"],
            template=template(wildcards.training),
            batch_size=EXPERIMENT.settings.generation.batch_size,
            engine=EXPERIMENT.settings.generation.engine,
            seed=EXPERIMENT.settings.seed,
            **compute(EXPERIMENT.settings.generation),
        ),
        code=lambda wildcards: digest("generate.py", [wildcards.teacher]),
    shell:
        "DRAFTSCOPE_GPUS={resources.gpu}"
        " python scripts/generate.py --settings {params.settings:q} --model {input.model:q}"
        " --prompts {input.prompts:q} --output {output:q} 2> {log:q}"


rule training_marks:
    input:
        code=sources("token_types.py"),
        prompts=RESULTS
        / "training/{teacher}/{training}/{texts}/{shard}.prompts.parquet",
        trajectories=RESULTS
        / "training/{teacher}/{training}/{texts}/{shard}.trajectories.parquet",
        model=lambda wildcards: model_file(wildcards.teacher),
    output:
        RESULTS / "training/{teacher}/{training}/{texts}/{shard}.marks.parquet",
    log:
        LOGS / "training/{teacher}/{training}/{texts}/{shard}.marks.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        settings=as_json(**block(EXPERIMENT.settings.tokens)),
    shell:
        "python scripts/token_types.py --settings {params.settings:q} --model {input.model:q}"
        " --trajectories {input.trajectories:q} --prompts {input.prompts:q} --output {output:q}"
        " 2> {log:q}"


rule distill_model:
    input:
        base=lambda wildcards: model_file(EXPERIMENT.models[wildcards.model]["base"]),
        target=lambda wildcards: model_file(
            teacher_of(EXPERIMENT.models[wildcards.model])
        ),
        prompts=lambda wildcards: training_files(wildcards.model, "prompts"),
        trajectories=lambda wildcards: training_files(wildcards.model, "trajectories"),
    output:
        record=RESULTS / "models/{model}/model.json",
        history=RESULTS / "models/{model}/history.parquet",
        files=[RESULTS / "models/{model}/weights" / name for name in CONVERTED_FILES],
    log:
        LOGS / "models/{model}.log",
    wildcard_constraints:
        model=alternatives(DISTILLED),
    conda:
        "../../envs/gpu.yaml"
    threads: TRAINING.threads
    resources:
        **requests(
            TRAINING,
            lambda wildcards: [
                wildcards.model,
                teacher_of(EXPERIMENT.models[wildcards.model]),
            ],
        ),
    params:
        settings=lambda wildcards: training_settings(wildcards.model),
        cache=TRAINING.teacher_cache_mb,
        recompute="--recompute" if TRAINING.recompute else "",
        code=lambda wildcards: digest(
            "train_draft.py",
            [
                EXPERIMENT.models[wildcards.model]["base"],
                teacher_of(EXPERIMENT.models[wildcards.model]),
            ],
        ),
    shell:
        "DRAFTSCOPE_GPUS={resources.gpu}"
        " python scripts/train_draft.py --name {wildcards.model:q}"
        " --settings {params.settings:q} --teacher-cache-mb {params.cache} {params.recompute}"
        " --base {input.base:q}"
        " --target {input.target:q} --prompts {input.prompts:q}"
        " --trajectories {input.trajectories:q} --history {output.history:q}"
        " --code {params.code:q} --output {output.record:q} 2> {log:q}"


rule adapt_model:
    input:
        base=lambda wildcards: model_file(EXPERIMENT.models[wildcards.model]["base"]),
        target=lambda wildcards: model_file(
            teacher_of(EXPERIMENT.models[wildcards.model])
        ),
        prompts=lambda wildcards: training_files(wildcards.model, "prompts"),
        trajectories=lambda wildcards: training_files(wildcards.model, "trajectories"),
        marks=lambda wildcards: training_marks(wildcards.model),
    output:
        record=RESULTS / "models/{model}/model.json",
        history=RESULTS / "models/{model}/history.parquet",
        adapter=RESULTS / "models/{model}/adapter/adapter_model.safetensors",
        settings=RESULTS / "models/{model}/adapter/adapter_config.json",
    log:
        LOGS / "models/{model}.log",
    wildcard_constraints:
        model=alternatives(ADAPTED),
    conda:
        "../../envs/gpu.yaml"
    threads: TRAINING.threads
    resources:
        **requests(
            TRAINING,
            lambda wildcards: [
                wildcards.model,
                teacher_of(EXPERIMENT.models[wildcards.model]),
            ],
        ),
    params:
        settings=lambda wildcards: training_settings(wildcards.model),
        cache=TRAINING.teacher_cache_mb,
        recompute="--recompute" if TRAINING.recompute else "",
        marks=lambda wildcards, input: (
            ["--marks", *input.marks] if input.marks else []
        ),
        code=lambda wildcards: digest(
            "train_draft.py",
            [
                wildcards.model,
                teacher_of(EXPERIMENT.models[wildcards.model]),
            ],
        ),
    shell:
        "DRAFTSCOPE_GPUS={resources.gpu}"
        " python scripts/train_draft.py --name {wildcards.model:q}"
        " --settings {params.settings:q} --teacher-cache-mb {params.cache} {params.recompute}"
        " --base {input.base:q}"
        " --target {input.target:q} --prompts {input.prompts:q}"
        " --trajectories {input.trajectories:q} {params.marks:q} --history {output.history:q}"
        " --code {params.code:q} --output {output.record:q} 2> {log:q}"


rule check_leaks:
    input:
        code=sources("check_leaks.py"),
        training=lambda wildcards: training_files(wildcards.model, "prompts"),
        measured=lambda wildcards: all_prompt_shards(wildcards.domain),
    output:
        RESULTS / "models/{model}/leaks/{domain}.json",
    log:
        LOGS / "models/{model}/leaks/{domain}.log",
    wildcard_constraints:
        model=alternatives(TRAINED),
    conda:
        "../../envs/analysis.yaml"
    params:
        instructions=lambda wildcards: instructions_of(
            wildcards.model, wildcards.domain
        ),
    shell:
        "python scripts/check_leaks.py --model {wildcards.model:q} --training {input.training:q}"
        " --measured {input.measured:q} --instructions {params.instructions:q}"
        " --output {output:q} 2> {log:q}"
