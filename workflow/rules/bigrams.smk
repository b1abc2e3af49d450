# Needs: a target's record and its texts of training prompts.
# Makes: models/{model}/model.json and successors.safetensors of a bigram draft.
# Why: the smallest draft that has learnt anything; what a trained draft must beat on the same text.

COUNTED = [name for name in TRAINED if EXPERIMENT.models[name]["kind"] == "bigram"]


localrules:
    count_bigrams,


rule count_bigrams:
    input:
        code=sources("count_bigrams.py"),
        target=lambda wildcards: model_file(
            teacher_of(EXPERIMENT.models[wildcards.model])
        ),
        prompts=lambda wildcards: training_files(wildcards.model, "prompts"),
        trajectories=lambda wildcards: training_files(wildcards.model, "trajectories"),
    output:
        record=RESULTS / "models/{model}/model.json",
        successors=RESULTS / "models/{model}/successors.safetensors",
    log:
        LOGS / "models/{model}.log",
    wildcard_constraints:
        model=alternatives(COUNTED),
    conda:
        "../../envs/gpu.yaml"
    params:
        settings=lambda wildcards: as_json(**EXPERIMENT.models[wildcards.model]),
    shell:
        "python scripts/count_bigrams.py --name {wildcards.model:q} --settings {params.settings:q}"
        " --target {input.target:q} --prompts {input.prompts:q}"
        " --trajectories {input.trajectories:q} --output {output.record:q} 2> {log:q}"
