# Needs: the registry of models; the network, for models that are fetched.
# Makes: models/{model}/model.json, the record of what a model is: files or hub commit, tokenizer
#   hash, end-of-text ids; for a packaged GGUF also the converted safetensors beside it, and for a
#   model that is quantized here the quantized ones, with the training prompts it was quantized on.
# Why: GPU jobs run offline from a record that pins every revision.

CONVERTED = [
    name
    for name, row in EXPERIMENT.models.items()
    if row["kind"] in ("package_gguf", "gguf")
]
QUANTIZED = [name for name, row in EXPERIMENT.models.items() if row["kind"] == "gptq"]
REQUANTIZED = [
    name
    for name, row in EXPERIMENT.models.items()
    if row["kind"] == "llama_cpp" and (row["file_type"] or not row["repository"])
]
TRAINED = [name for name, row in EXPERIMENT.models.items() if "train" in row]
DERIVED = [
    name
    for name, row in EXPERIMENT.models.items()
    if "base" in row and name not in QUANTIZED + REQUANTIZED + TRAINED
]
RESOLVED = [
    name
    for name in EXPERIMENT.models
    if name not in CONVERTED + DERIVED + QUANTIZED + REQUANTIZED + TRAINED
]
# Beside the record, in weights/.
CONVERTED_FILES = [
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
]


# Before any job: what a job would find out after hours in a queue. A plan (-n) needs no package,
# and environments that Snakemake makes itself are not this one.
onstart:
    lines = []
    if not workflow.deployment_settings.deployment_method:
        lines = missing_packages(workflow.dag.needrun_jobs())
    if lines:
        more = f" ({len(lines) - 1} more models lack theirs)" if lines[1:] else ""
        sys.exit(f"error: {lines[0]}{more}")


localrules:
    calibration_prompts,
    convert_model,
    derive_model,
    make_gguf,
    resolve_model,


rule convert_model:
    input:
        files=lambda wildcards: model_sources(wildcards.model),
    output:
        record=RESULTS / "models/{model}/model.json",
        files=[RESULTS / "models/{model}/weights" / name for name in CONVERTED_FILES],
    log:
        LOGS / "models/{model}.log",
    wildcard_constraints:
        model=alternatives(CONVERTED),
    conda:
        "../../envs/gpu.yaml"
    params:
        settings=lambda wildcards: as_json(**EXPERIMENT.models[wildcards.model]),
        code=lambda wildcards: digest("fetch_model.py", [wildcards.model]),
    shell:
        "python scripts/fetch_model.py --name {wildcards.model:q} --settings {params.settings:q}"
        " --output {output.record:q} 2> {log:q}"


rule resolve_model:
    input:
        files=lambda wildcards: model_sources(wildcards.model),
    output:
        record=RESULTS / "models/{model}/model.json",
    log:
        LOGS / "models/{model}.log",
    wildcard_constraints:
        model=alternatives(RESOLVED),
    conda:
        "../../envs/gpu.yaml"
    params:
        settings=lambda wildcards: as_json(**EXPERIMENT.models[wildcards.model]),
        code=lambda wildcards: digest("fetch_model.py", [wildcards.model]),
    shell:
        "python scripts/fetch_model.py --name {wildcards.model:q} --settings {params.settings:q}"
        " --output {output.record:q} 2> {log:q}"


rule derive_model:
    input:
        base=lambda wildcards: model_file(EXPERIMENT.models[wildcards.model]["base"]),
    output:
        record=RESULTS / "models/{model}/model.json",
    log:
        LOGS / "models/{model}.log",
    wildcard_constraints:
        model=alternatives(DERIVED),
    conda:
        "../../envs/gpu.yaml"
    params:
        settings=lambda wildcards: as_json(**EXPERIMENT.models[wildcards.model]),
        code=lambda wildcards: digest("fetch_model.py", [wildcards.model]),
    shell:
        "python scripts/fetch_model.py --name {wildcards.model:q} --settings {params.settings:q}"
        " --base {input.base:q} --output {output.record:q} 2> {log:q}"


rule make_gguf:
    input:
        base=lambda wildcards: model_file(EXPERIMENT.models[wildcards.model]["base"]),
    output:
        record=RESULTS / "models/{model}/model.json",
        file=RESULTS / "models/{model}/weights/model.gguf",
    log:
        LOGS / "models/{model}.log",
    wildcard_constraints:
        model=alternatives(REQUANTIZED),
    conda:
        "../../envs/gpu.yaml"
    params:
        settings=lambda wildcards: as_json(**EXPERIMENT.models[wildcards.model]),
        code=lambda wildcards: digest("fetch_model.py", [wildcards.model]),
    shell:
        "python scripts/fetch_model.py --name {wildcards.model:q} --settings {params.settings:q}"
        " --base {input.base:q} --output {output.record:q} 2> {log:q}"


rule calibration_prompts:
    input:
        code=lambda wildcards: sources(
            "collect_prompts.py", source_modules(wildcards.calibration)
        ),
        files=lambda wildcards: domain_files(wildcards.calibration),
    output:
        RESULTS / "models/{model}/calibration/{calibration}.parquet",
    log:
        LOGS / "models/{model}/calibration/{calibration}.log",
    wildcard_constraints:
        model=alternatives(QUANTIZED),
        calibration=alternatives(EXPERIMENT.calibration),
    conda:
        "../../envs/gpu.yaml"
    params:
        settings=lambda wildcards: as_json(
            domain=wildcards.calibration,
            **domain_row(wildcards.calibration),
            split="training",
        ),
        prompts=lambda wildcards: calibration_share(
            wildcards.model, wildcards.calibration
        ),
    shell:
        "python scripts/collect_prompts.py --settings {params.settings:q}"
        " --start 0 --stop {params.prompts} --output {output:q} 2> {log:q}"


rule quantize_model:
    input:
        base=lambda wildcards: model_file(EXPERIMENT.models[wildcards.model]["base"]),
        calibration=lambda wildcards: [
            RESULTS / "models" / wildcards.model / "calibration" / f"{domain}.parquet"
            for domain in calibration_of(wildcards.model)["domains"]
        ],
    output:
        record=RESULTS / "models/{model}/model.json",
        files=[RESULTS / "models/{model}/weights" / name for name in CONVERTED_FILES],
    log:
        LOGS / "models/{model}.log",
    wildcard_constraints:
        model=alternatives(QUANTIZED),
    conda:
        "../../envs/gpu.yaml"
    threads: EXPERIMENT.settings.generation.threads
    resources:
        **requests(
            EXPERIMENT.settings.generation,
            lambda wildcards: [EXPERIMENT.models[wildcards.model]["base"]],
        ),
    params:
        settings=lambda wildcards: as_json(
            model=EXPERIMENT.models[wildcards.model],
            templates={
                domain: template(domain)
                for domain in calibration_of(wildcards.model)["domains"]
            },
            threads=EXPERIMENT.settings.generation.threads,
        ),
        code=lambda wildcards: digest("quantize_model.py", [wildcards.model]),
    shell:
        "DRAFTSCOPE_GPUS={resources.gpu}"
        " python scripts/quantize_model.py --name {wildcards.model:q}"
        " --settings {params.settings:q} --base {input.base:q}"
        " --calibration {input.calibration:q} --output {output.record:q} 2> {log:q}"
