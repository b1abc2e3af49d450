# Needs: the names of common.smk.
# Makes: names that the rules of the certificates study share.
# Why: what is certified need not be among what is generated, scored and replayed.

from draftscope.certificate_study.schemas import FILES as CERTIFICATE_FILES
from snakemake.exceptions import WorkflowError

CERTIFICATES = EXPERIMENT.settings.certificates
CERTIFIED = EXPERIMENT.certificates
CERTIFICATE_TABLES = (
    "findings",
    *(f"table{n}" for n in range(1, 7)),
    "table_bins",
    "table_drafts",
    "table_equivalence",
    "table_relaxed",
)


def certificate_use(domain):
    """Prompts and tokens of each text that the study takes."""
    return next(use for use in CERTIFICATES.domains if use.name == domain)


def certificate_shards(domain):
    """Names of the shards of a domain that hold the study's prompts."""
    count = -(-certificate_use(domain).prompts // EXPERIMENT.settings.shard_size)
    return [f"{index:04d}" for index in range(count)]


def certificate_bounds(domain, shard):
    """First prompt of the study in a shard, and one past the last."""
    size = EXPERIMENT.settings.shard_size
    start = int(shard) * size
    return start, min(start + size, certificate_use(domain).prompts)


def certificate_share(domain, shard):
    """How many prompts of a shard the study takes, from the first."""
    start, stop = certificate_bounds(domain, shard)
    return stop - start


def certificate_prompts(target, domain, shard):
    """The prompts of a shard: the experiment's, or long ones of the study's own."""
    if (target, domain) in CERTIFIED.shared:
        return RESULTS / "prompts" / domain / f"{shard}.parquet"
    return RESULTS / "certificates/prompts" / target / domain / f"{shard}.parquet"


def certificate_text(target, domain, shard):
    """A shard of text: the experiment's where it generates it anyway, or the study's own."""
    if (target, domain) in CERTIFIED.shared:
        folder = RESULTS / "trajectories"
    else:
        folder = RESULTS / "certificates/trajectories"
    return folder / target / domain / CERTIFICATES.mode / f"{shard}.parquet"


def certificate_drafts(target, draft_group):
    """The drafts that are recorded in one pass of a target."""
    return [row["name"] for row in CERTIFIED.group(target, draft_group)]


def certificate_recordings(kind):
    """The files of targets or of drafts, group by group, domain by domain, shard by shard."""
    groups = dict.fromkeys(
        (pair["target"], pair["draft_group"]) for pair in CERTIFIED.pairs.values()
    )
    return [
        RESULTS
        / "certificates/positions"
        / target
        / group
        / use.name
        / CERTIFICATES.mode
        / f"{shard}.{kind}.parquet"
        for target, group in groups
        for use in CERTIFICATES.domains
        for shard in certificate_shards(use.name)
    ]


def certificate_models(wildcards):
    """Target and draft that decode live with relaxed rules."""
    row = CERTIFIED.pairs[wildcards.pair]
    return [row["target"], row["draft"]]


def certificate_live(name):
    """The files of the texts decoded with relaxed rules, domain by domain."""
    folder = RESULTS / "certificates/live" / CERTIFICATES.relaxed.pair
    return [folder / use.name / f"{name}.parquet" for use in CERTIFICATES.domains]


def certificate_leaks():
    """Proofs that no draft was trained on a prompt that it is certified on."""
    return list(
        dict.fromkeys(
            RESULTS / "certificates/leaks" / model / pair["target"] / f"{use.name}.json"
            for pair in CERTIFIED.pairs.values()
            for use in CERTIFICATES.domains
            for model in trained_ancestors(pair["draft"])
        )
    )


def certificate_live_prompts(target, domain):
    """The prompts that they continue."""
    return [
        certificate_prompts(target, domain, shard)
        for shard in certificate_shards(domain)
    ]


def certificate_rule_rows(rows):
    """Criteria as plain mappings, without the parameters that their kind does not take."""
    return [row.criterion.settings for row in rows]


def certificates_exhibits():
    """Tables and figures of the certificates study."""
    return [
        RESULTS / "exhibits/certificates" / f"{stem}.{kind}"
        for stems, types in (
            (CERTIFICATE_TABLES, ("csv", "md", "tex")),
            ([f"figure{n}" for n in range(1, 5)], ("svg", "pdf")),
        )
        for stem in stems
        for kind in types
    ]


def certificates_targets(wildcards):
    """What the target of the study asks for; says why where this experiment cannot have it."""
    if CERTIFIED.problem is not None:
        raise WorkflowError(CERTIFIED.problem)
    return [
        *certificates_exhibits(),
        RESULTS / "statistics/certificates/measurements.parquet",
    ]


def certificates_beside():
    """Published target -> the target of this run that it is."""
    theirs = PUBLISHED_CONDITIONS["certificates"]["targets"]
    return {
        name: target
        for name, model in theirs.items()
        for target in CERTIFIED.targets
        if identity(target) == model
    }


def certificates_condition():
    """The condition of the certificates study, in the keys of the published one."""
    domain = CERTIFICATES.headline
    own = certificate_use(domain)
    beside = certificates_beside()
    others = [name for name in CERTIFIED.targets if name not in beside.values()]
    theirs = PUBLISHED_CONDITIONS["certificates"]["targets"]
    # A target that is none of the published ones stands beside the first that no other is.
    free = [name for name in theirs if name not in beside]
    beside |= dict(zip(free, others))
    return beside, {
        "targets": {name: identity(target) for name, target in beside.items()},
        "temperature": law(CERTIFICATES.mode)["temperature"],
        "data": data_of(domain),
        "prompts": own.prompts,
        "min_prompt_tokens": CERTIFICATES.min_prompt_tokens,
        "max_new_tokens": own.max_new_tokens,
        "chat_template": template(domain)["chat_template"],
    }


def certificate_own_text():
    """The shards of text that only the study needs."""
    return [
        certificate_text(target, use.name, shard)
        for target in CERTIFIED.targets
        for use in CERTIFICATES.domains
        if (target, use.name) not in CERTIFIED.shared
        for shard in certificate_shards(use.name)
    ]
