# Needs: the registry of models; the network, for models that are fetched.
# Makes: models/{model}/model.json, the record of what a model is: files or hub commit, tokenizer
#   hash, end-of-text ids; for a packaged GGUF also the converted safetensors beside it.
# Why: GPU jobs run offline from a record that pins every revision.

CONVERTED = [
    name
    for name, row in EXPERIMENT.models.items()
    if row["kind"] in ("package_gguf", "gguf")
]
DERIVED = [name for name, row in EXPERIMENT.models.items() if "base" in row]
RESOLVED = [name for name in EXPERIMENT.models if name not in CONVERTED + DERIVED]
# Beside the record, in weights/.
CONVERTED_FILES = [
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
]


localrules:
    convert_model,
    derive_model,
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
