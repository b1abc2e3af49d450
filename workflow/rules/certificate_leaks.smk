# Needs: the training prompts of drafts that are trained here, and the prompts of the certificates study.
# Makes: certificates/leaks/{model}/{target}/{domain}.json, that none of these is among those.
# Why: the study may measure other prompts of a domain than the experiment does.


localrules:
    certificate_leaks,


rule certificate_leaks:
    input:
        code=sources("check_leaks.py"),
        training=lambda wildcards: training_files(wildcards.model, "prompts"),
        measured=lambda wildcards: certificate_live_prompts(
            wildcards.certified, wildcards.certified_domain
        ),
    output:
        RESULTS / "certificates/leaks/{model}/{certified}/{certified_domain}.json",
    log:
        LOGS / "certificates/leaks/{model}/{certified}/{certified_domain}.log",
    wildcard_constraints:
        model=alternatives(TRAINED),
    conda:
        "../../envs/analysis.yaml"
    params:
        instructions=lambda wildcards: instructions_of(
            wildcards.model, wildcards.certified_domain
        ),
    shell:
        "python scripts/check_leaks.py --model {wildcards.model:q} --training {input.training:q}"
        " --measured {input.measured:q} --instructions {params.instructions:q}"
        " --output {output:q} 2> {log:q}"
