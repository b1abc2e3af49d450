# Needs: the names of common.smk.
# Makes: names that the rules of the live loop and of the lossless study share.
# Why: what is decoded live need not be among what is generated and replayed.

from snakemake.exceptions import WorkflowError

LOSSLESS_TABLES = (
    "configurations",
    "sweep",
    "positions",
    "phases",
    "verify_latency",
    "equivalence",
    "greedy",
    "replay",
)


def live_pair(pair):
    """Target, draft and what may differ between them, of a pair that is decoded live."""
    return EXPERIMENT.live.pairs[pair]


def live_run(run, pair, mode):
    """What one of the two kinds of live runs decodes: `speed` is timed, `law` tests losslessness."""
    study = EXPERIMENT.settings.lossless
    own = next(
        (c for c in study.configurations if (c.pair, c.mode) == (pair, mode)), None
    )
    shared = {
        "draft_dtype": own.draft_dtype if own else None,
        "allow_special_differences": live_pair(pair)["allow_special_differences"],
    }
    if run == "law":
        wanted = study.equivalence
        return shared | {
            "draft_lengths": [0, wanted.draft_length],
            "prompts": wanted.prompts,
            "budget": wanted.max_new_tokens,
            "samples": wanted.samples,
            "repeats": 1,
            "warm_up": 0,
        }
    return shared | {
        "draft_lengths": [0, *own.draft_lengths],
        "prompts": study.prompts,
        "budget": study.max_new_tokens,
        "samples": 1,
        "repeats": study.repeats,
        "warm_up": study.warm_up,
    }


def prompt_shards(domain, prompts):
    """The shards that hold the first prompts of a domain."""
    count = -(-prompts // EXPERIMENT.settings.shard_size)
    return all_prompt_shards(domain)[:count]


def live_files(name):
    """One file of each configuration of the lossless study, in its order."""
    study = EXPERIMENT.settings.lossless
    return [
        RESULTS / "live/speed" / c.pair / study.domain / c.mode / f"{name}.parquet"
        for c in study.configurations
    ]


def live_configurations():
    """The configurations of the lossless study, with what its tables say of them."""
    study = EXPERIMENT.settings.lossless
    return [
        {
            "pair": c.pair,
            "domain": study.domain,
            "mode": c.mode,
            "published": c.published,
            "draft": live_pair(c.pair)["draft"],
            "draft_settings": EXPERIMENT.models[live_pair(c.pair)["draft"]],
            "law": law(c.mode),
        }
        for c in study.configurations
    ]


def has_scores(pair):
    """A draft that is a model; text drafts have no distribution of their own to score."""
    return EXPERIMENT.models[live_pair(pair)["draft"]]["kind"] != "prompt_lookup"


def live_targets():
    """Targets of the lossless study, each once."""
    pairs = [c.pair for c in EXPERIMENT.settings.lossless.configurations]
    return list(dict.fromkeys(live_pair(pair)["target"] for pair in pairs))


def lossless_exhibits():
    """Tables and figures of the lossless study."""
    return [
        RESULTS / "exhibits/lossless" / f"{stem}.{kind}"
        for stems, types in (
            (LOSSLESS_TABLES, ("csv", "md", "tex")),
            ([f"figure{n}" for n in range(1, 6)], ("svg", "pdf")),
        )
        for stem in stems
        for kind in types
    ]


def lossless_targets(wildcards):
    """What the target of the study asks for; says why where this experiment cannot have it."""
    if EXPERIMENT.live.problem is not None:
        raise WorkflowError(EXPERIMENT.live.problem)
    return [*lossless_exhibits(), RESULTS / "statistics/lossless/measurements.parquet"]


def lossless_condition():
    """The condition of the lossless study, in the keys of the published one."""
    study = EXPERIMENT.settings.lossless
    beside = [c for c in study.configurations if c.published]
    return {
        "data": data_of(study.domain),
        "prompts": study.prompts,
        "max_new_tokens": study.max_new_tokens,
        "draft_length": study.draft_length,
        "temperature": law(beside[0].mode)["temperature"] if beside else None,
        "configurations": {
            c.published: f"{identity(live_pair(c.pair)['draft'])} "
            f"{c.draft_dtype or study.dtype} transformers, "
            f"{identity(live_pair(c.pair)['target'])} {study.dtype} transformers"
            for c in beside
        },
    }
