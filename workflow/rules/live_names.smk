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
    "batch",
    "equivalence",
    "greedy",
    "replay",
)


def live_pair(pair):
    """Target, draft and what may differ between them, of a pair that is decoded live."""
    return EXPERIMENT.live.pairs[pair]


def models_of_pair(wildcards):
    """The target and the draft of a pair that decodes live."""
    row = live_pair(wildcards.pair)
    return [row["target"], row["draft"]]


def live_run(run, pair, mode):
    """What a kind of live run decodes and where it computes.

    `speed` is timed, `law` tests losslessness, `divergence` is greedy in a narrow data type,
    `batch` is timed in batches.
    """
    study = EXPERIMENT.settings.lossless
    own = next(
        (c for c in study.configurations if (c.pair, c.mode) == (pair, mode)), None
    )
    shared = {
        "draft_dtype": own.draft_dtype if own else None,
        "allow_special_differences": live_pair(pair)["allow_special_differences"],
        **live_drafting(pair),
        **compute(study),
    }
    if run == "divergence":
        wanted = study.divergence
        return shared | {
            "draft_lengths": [0, wanted.draft_length],
            "prompts": wanted.prompts,
            "budget": wanted.max_new_tokens,
            "samples": 1,
            "repeats": 1,
            "warm_up": 0,
            "batch_size": 1,
            "draft_dtype": None,
            "dtype": wanted.dtype,
        }
    if run == "batch":
        wanted = study.batch
        return shared | {
            "draft_length": wanted.draft_length,
            "sizes": wanted.sizes,
            "prompts": wanted.prompts,
            "budget": study.max_new_tokens,
            "repeats": wanted.repeats,
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
            "batch_size": wanted.batch_size,
        }
    return shared | {
        "draft_lengths": [0, *own.draft_lengths],
        "prompts": study.prompts,
        "budget": study.max_new_tokens,
        "samples": 1,
        "repeats": study.repeats,
        "warm_up": study.warm_up,
        "batch_size": 1,
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


def live_batches():
    """The file of the batches that are timed."""
    own = EXPERIMENT.settings.lossless.batch
    domain = EXPERIMENT.settings.lossless.domain
    return RESULTS / "live/batch" / own.pair / domain / own.mode / "batches.parquet"


def live_configuration(pair, mode, published=None):
    """A pair in a mode, with what the tables of the lossless study say of it."""
    draft = live_pair(pair)["draft"]
    return {
        "pair": pair,
        "domain": EXPERIMENT.settings.lossless.domain,
        "mode": mode,
        "published": published,
        "draft": draft,
        "draft_settings": draft_settings(draft),
        "law": law(mode),
    }


def live_configurations():
    """The configurations of the lossless study."""
    return [
        live_configuration(c.pair, c.mode, c.published)
        for c in EXPERIMENT.settings.lossless.configurations
    ]


def compared_configurations():
    """What greedy texts and replay are compared in: the configurations, then the narrow type."""
    rows = [row | {"run": "speed"} for row in live_configurations()]
    own = EXPERIMENT.settings.lossless.divergence
    if own:
        rows.append(live_configuration(own.pair, own.mode) | {"run": "divergence"})
    return rows


def compared_files(name):
    """One file of each of them; of scores and proposals only where there are such."""
    given = {"scores": has_scores, "proposals": has_proposals}
    return [
        RESULTS
        / "live"
        / row["run"]
        / row["pair"]
        / row["domain"]
        / row["mode"]
        / f"{name}.parquet"
        for row in compared_configurations()
        if name not in given or given[name](row["pair"])
    ]


def has_scores(pair):
    """A draft that is a model; others have no distribution of their own to score."""
    return is_scored(live_pair(pair)["draft"])


def has_proposals(pair):
    """A block drafter whose proposals depend on the text alone, so that they can be replayed."""
    row = live_pair(pair)
    kind = EXPERIMENT.models[row["draft"]]["kind"]
    return kind == "dflash" and row["drafting"] != "sampled"


def live_drafting(pair):
    """How a block drafter chooses its tokens; nothing for other drafts."""
    row = live_pair(pair)
    if EXPERIMENT.models[row["draft"]]["kind"] not in BLOCK_DRAFTS:
        return {}
    return {"drafting": row["drafting"] or "argmax"}


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


def engine(model, dtype):
    """A model, the type of its weights, and what runs it, as the published condition says them."""
    row = EXPERIMENT.models[model]
    if row["kind"] != "llama_cpp":
        return f"{identity(model)} {dtype} transformers"
    # A file of the hub ends in its type: name-q4_k_m.gguf, name-q4_k_m-00001-of-00002.gguf.
    named = re.search(
        r"-([a-z0-9_]+)(-\d{5}-of-\d{5})?\.gguf$", row["file"] or "", re.I
    )
    file_type = row["file_type"] or (named[1].lower() if named else "GGUF")
    return f"{identity(row['base'])} {file_type} llama.cpp"


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
            c.published: f"{engine(live_pair(c.pair)['draft'], c.draft_dtype or study.dtype)}, "
            f"{engine(live_pair(c.pair)['target'], study.dtype)}"
            for c in beside
        },
    }
