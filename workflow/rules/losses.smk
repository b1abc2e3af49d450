# Needs: texts of the target, its loops, and block drafters that were trained with several losses.
# Makes: losses/{rounds,expected}/{pair}/{domain}/{mode}.parquet, each training replayed at the study's
#   draft length; losses/loops/{target}/{domain}/{mode}.parquet, loops of that text; statistics and
#   exhibits of losses and of losses_grid.
# Why: does a loss that weighs positions by what acceptance they bring beat one that does not, beyond
#   what another seed does?


localrules:
    loss_exhibits,
    losses_measurements,


# Of the study's prompts alone, so that no further text is generated for it.
use rule find_loops as losses_loops with:
    input:
        code=rules.find_loops.input.code,
        trajectories=lambda wildcards: loss_shards(
            trajectory_shards(**wildcards), wildcards.domain
        ),
        prompts=lambda wildcards: loss_shards(
            text_prompt_shards(**wildcards), wildcards.domain
        ),
        model=RESULTS / "models/{target}/model.json",
    output:
        RESULTS / "losses/loops/{target}/{domain}/{mode}.parquet",
    log:
        LOGS / "losses/loops/{target}/{domain}/{mode}.log",


# With a draft length and prompts of its own, so that what the experiment replays is what it lists.
use rule replay_rounds as losses_rounds with:
    input:
        code=rules.replay_rounds.input.code,
        trajectories=lambda wildcards: loss_shards(
            trajectory_shards(**loss_text(wildcards)), wildcards.domain
        ),
        prompts=lambda wildcards: loss_shards(
            text_prompt_shards(**loss_text(wildcards)), wildcards.domain
        ),
        scores=[],
        proposals=lambda wildcards: loss_shards(
            proposal_shards(**wildcards), wildcards.domain
        ),
        record=lambda wildcards: draft_records(block_pair(wildcards.pair)["draft"]),
        leaks=lambda wildcards: leak_checks(
            block_pair(wildcards.pair)["draft"], wildcards.domain
        ),
    output:
        rounds=RESULTS / "losses/rounds/{pair}/{domain}/{mode}.parquet",
        expected=RESULTS / "losses/expected/{pair}/{domain}/{mode}.parquet",
    log:
        LOGS / "losses/rounds/{pair}/{domain}/{mode}.log",
    wildcard_constraints:
        pair=alternatives(EXPERIMENT.losses.pairs),
    params:
        settings=lambda wildcards: as_json(
            pair=wildcards.pair,
            domain=wildcards.domain,
            mode=wildcards.mode,
            draft=block_pair(wildcards.pair)["draft"],
            draft_settings=draft_settings(block_pair(wildcards.pair)["draft"]),
            draft_lengths=[LOSSES.draft_length],
            prompts=EXPERIMENT.losses.use(wildcards.domain).prompts,
            law=law(wildcards.mode),
            seed=EXPERIMENT.settings.seed,
        ),
        scores=[],
        proposals=lambda wildcards, input: (
            ["--proposals", *input.proposals] if input.proposals else []
        ),


rule loss_statistics:
    input:
        code=sources("block_statistics.py"),
        rounds=lambda wildcards: block_files(
            loss_sources(wildcards.losses), "losses/rounds"
        ),
        loops=lambda wildcards: loss_loops(loss_sources(wildcards.losses)),
        timings=lambda wildcards: block_files(
            loss_timed(wildcards.losses), "live/losses", name="timings"
        ),
    output:
        [RESULTS / "statistics/{losses}" / f"{name}.parquet" for name in LOSS_FILES],
    log:
        LOGS / "{losses}/statistics.log",
    wildcard_constraints:
        losses=alternatives(LOSS_STUDIES),
    conda:
        "../../envs/analysis.yaml"
    params:
        settings=lambda wildcards: as_json(
            sources=loss_sources(wildcards.losses),
            timed=loss_timed(wildcards.losses),
            probed=[],
            draft_length=LOSSES.draft_length,
            references=[LOSSES.reference],
            baselines=list(LOSSES.baselines),
            paired=False,
            effect=LOSSES.effect,
            loops=block(EXPERIMENT.settings.loops),
            confidence=EXPERIMENT.settings.statistics.confidence,
        ),
        timings=lambda wildcards, input: (
            ["--timings", *input.timings] if input.timings else []
        ),
        folder=lambda wildcards: RESULTS / "statistics" / wildcards.losses,
    shell:
        "python scripts/block_statistics.py --settings {params.settings:q}"
        " --rounds {input.rounds:q} --loops {input.loops:q} {params.timings:q}"
        " --folder {params.folder:q} 2> {log:q}"


rule loss_exhibits:
    input:
        **{
            name: RESULTS / "statistics/{losses}" / f"{name}.parquet"
            for name in LOSS_FILES
        },
        code=sources("loss_exhibits.py"),
        histories=lambda wildcards: block_histories(LOSS_STUDIES[wildcards.losses]),
    output:
        report(
            loss_exhibits("{losses}"),
            category="Block drafters",
            labels={"study": "{losses}"},
        ),
    log:
        LOGS / "{losses}/exhibits.log",
    wildcard_constraints:
        losses=alternatives(LOSS_STUDIES),
    conda:
        "../../envs/analysis.yaml"
    params:
        settings=lambda wildcards: trained_drafts(LOSS_STUDIES[wildcards.losses]),
        folder=lambda wildcards: RESULTS / "exhibits" / wildcards.losses,
        files=lambda wildcards, input: [
            part for name in LOSS_FILES for part in (f"--{name}", input[name])
        ],
    shell:
        "python scripts/loss_exhibits.py {params.files:q} --settings {params.settings:q}"
        " --histories {input.histories:q} --folder {params.folder:q} 2> {log:q}"


rule losses_measurements:
    input:
        **{
            name: RESULTS / "statistics/losses" / f"{name}.parquet"
            for name in ("lengths", "differences")
        },
        code=sources("block_measurements.py"),
        published=local("config/published/losses.csv"),
        speed=(
            [RESULTS / "statistics/losses/speed_differences.parquet"]
            if LOSSES.speed
            else []
        ),
    output:
        RESULTS / "statistics/losses/measurements.parquet",
    log:
        LOGS / "losses/measurements.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        settings=as_json(
            study="losses",
            run=block_condition("losses"),
            published=PUBLISHED_CONDITIONS["losses"],
            losses={
                arm.label: EXPERIMENT.models[block_pair(arm.pairs[0])["draft"]]["loss"]
                for arm in LOSSES.arms
            },
        ),
        speed=lambda wildcards, input: (
            ["--speed-differences", *input.speed] if input.speed else []
        ),
    shell:
        "python scripts/block_measurements.py --settings {params.settings:q}"
        " --published {input.published:q} --lengths {input.lengths:q}"
        " --differences {input.differences:q} {params.speed:q} --output {output:q} 2> {log:q}"
