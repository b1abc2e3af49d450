# Needs: the target's texts of training prompts, its record and, for ReTrace, that of its DFlash drafter.
# Makes: models/{model}/ with the weights of a block drafter, and history.parquet, its learning curve.
# Why: arms of a study differ in their loss, variant or seed alone; texts and target are shared.

BLOCK_TRAINING = EXPERIMENT.settings.block_training
TRAINED_BLOCKS = [
    name for name in TRAINED if EXPERIMENT.models[name]["kind"] in BLOCK_DRAFTS
]


rule train_block_draft:
    input:
        base=lambda wildcards: block_base(wildcards.model),
        target=lambda wildcards: model_file(
            teacher_of(EXPERIMENT.models[wildcards.model])
        ),
        prompts=lambda wildcards: training_files(wildcards.model, "prompts"),
        trajectories=lambda wildcards: training_files(wildcards.model, "trajectories"),
    output:
        record=RESULTS / "models/{model}/model.json",
        history=RESULTS / "models/{model}/history.parquet",
        weights=RESULTS / "models/{model}/weights/draft.safetensors",
    log:
        LOGS / "models/{model}.log",
    wildcard_constraints:
        model=alternatives(TRAINED_BLOCKS),
    conda:
        "../../envs/gpu.yaml"
    threads: BLOCK_TRAINING.threads
    resources:
        **requests(
            BLOCK_TRAINING,
            lambda wildcards: [teacher_of(EXPERIMENT.models[wildcards.model])],
        ),
    params:
        settings=lambda wildcards: as_json(
            model=EXPERIMENT.models[wildcards.model],
            **compute(BLOCK_TRAINING),
        ),
        cache=BLOCK_TRAINING.teacher_cache_mb,
        base=lambda wildcards, input: ["--base", *input.base] if input.base else [],
        code=lambda wildcards: digest(
            "train_block_draft.py",
            [wildcards.model, teacher_of(EXPERIMENT.models[wildcards.model])],
        ),
    shell:
        "DRAFTSCOPE_GPUS={resources.gpu}"
        " python scripts/train_block_draft.py --name {wildcards.model:q}"
        " --settings {params.settings:q} --teacher-cache-mb {params.cache} {params.base:q}"
        " --target {input.target:q} --prompts {input.prompts:q}"
        " --trajectories {input.trajectories:q} --history {output.history:q}"
        " --code {params.code:q} --output {output.record:q} 2> {log:q}"
