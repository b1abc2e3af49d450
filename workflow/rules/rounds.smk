# Needs: all trajectories of one target, domain and mode, and the scores of one draft on them.
# Makes: rounds/{pair}/{domain}/{mode}.parquet, the rounds of a speculative loop for every draft
#   length, and expected/{pair}/{domain}/{mode}.parquet, their expectation without sampling noise.
# Why: given what the target emitted, a loop needs no model: another draft length costs nothing.


rule replay_rounds:
    input:
        code=sources("replay_rounds.py"),
        trajectories=lambda wildcards: trajectory_shards(
            EXPERIMENT.replayed[wildcards.pair]["target"],
            wildcards.domain,
            wildcards.mode,
        ),
        prompts=lambda wildcards: text_prompt_shards(
            EXPERIMENT.replayed[wildcards.pair]["target"],
            wildcards.domain,
            wildcards.mode,
        ),
        scores=lambda wildcards: score_shards(**wildcards),
        proposals=lambda wildcards: proposal_shards(**wildcards),
        record=lambda wildcards: draft_records(
            EXPERIMENT.replayed[wildcards.pair]["draft"]
        ),
        leaks=lambda wildcards: leak_checks(
            EXPERIMENT.replayed[wildcards.pair]["draft"], wildcards.domain
        ),
    output:
        rounds=RESULTS / "rounds/{pair}/{domain}/{mode}.parquet",
        expected=RESULTS / "expected/{pair}/{domain}/{mode}.parquet",
    log:
        LOGS / "rounds/{pair}/{domain}/{mode}.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        settings=lambda wildcards: as_json(
            pair=wildcards.pair,
            domain=wildcards.domain,
            mode=wildcards.mode,
            draft=EXPERIMENT.replayed[wildcards.pair]["draft"],
            draft_settings=draft_settings(
                EXPERIMENT.replayed[wildcards.pair]["draft"]
            ),
            draft_lengths=EXPERIMENT.settings.draft_lengths,
            law=law(wildcards.mode),
            seed=EXPERIMENT.settings.seed,
        ),
        scores=lambda wildcards, input: (
            ["--scores", *input.scores] if input.scores else []
        ),
        proposals=lambda wildcards, input: (
            ["--proposals", *input.proposals] if input.proposals else []
        ),
    shell:
        "python scripts/replay_rounds.py --settings {params.settings:q}"
        " --trajectories {input.trajectories:q} --prompts {input.prompts:q} {params.scores:q}"
        " {params.proposals:q}"
        " --rounds {output.rounds:q} --expected {output.expected:q} 2> {log:q}"
