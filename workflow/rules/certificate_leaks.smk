# Needs: the training prompts of drafts that are trained here, and the prompts of the certificates study.
# Makes: certificates/leaks/{model}/{target}/{domain}.json, that none of these is among those.
# Why: the study may measure other prompts of a domain than the experiment does.


localrules:
    certificate_leaks,


use rule check_leaks as certificate_leaks with:
    input:
        code=rules.check_leaks.input.code,
        training=lambda wildcards: training_files(wildcards.model, "prompts"),
        measured=lambda wildcards: certificate_live_prompts(
            wildcards.certified, wildcards.certified_domain
        ),
    output:
        RESULTS / "certificates/leaks/{model}/{certified}/{certified_domain}.json",
    log:
        LOGS / "certificates/leaks/{model}/{certified}/{certified_domain}.log",
    params:
        instructions=lambda wildcards: instructions_of(
            wildcards.model, wildcards.certified_domain
        ),
