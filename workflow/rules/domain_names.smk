# Needs: the names of common.smk.
# Makes: names that the rules of token trees and of the domains study share.
# Why: what trees are scored on need not be among what is generated, scored and replayed.

from draftscope.domains.files import FILES as DOMAINS_FILES
from snakemake.exceptions import WorkflowError

TREES = EXPERIMENT.settings.trees
DOMAINS_TABLES = (
    "claims",
    "findings",
    *(f"table{n}" for n in range(1, 7)),
    "table_budgets",
    "table_contrasts",
    "table_effects",
    "table_equivalence",
    "table_factors",
    "table_paradox",
    "table_path_rates",
    "table_speeds",
)


def tree_pair(pair):
    """Target, draft and what may differ between them, of the pair that trees are scored on."""
    return EXPERIMENT.trees.pairs[pair]


def tree_models(wildcards):
    return [tree_pair(wildcards.pair)[role] for role in ("target", "draft")]


def tree_use(domain):
    """Prompts and tokens of each text that the study takes."""
    return next(use for use in TREES.domains if use.name == domain)


def tree_prompts(domain, shard):
    """How many prompts of a shard the study takes, from the first."""
    start, stop = EXPERIMENT.shard_bounds(domain, shard)
    return min(stop, tree_use(domain).prompts) - start


def tree_shape():
    """The keys of a shape that are given."""
    return TREES.shape.model_dump(exclude_none=True)


def tree_files(kind):
    """The files of nodes or of trees, shard by shard, domain by domain."""
    folder = RESULTS / "trees" / TREES.pair
    return [
        folder / use.name / TREES.mode / f"{shard}.{kind}.parquet"
        for use in TREES.domains
        for shard in EXPERIMENT.tree_shards(use.name)
    ]


def tree_text():
    """The shards of text that only the study needs."""
    target = tree_pair(TREES.pair)["target"]
    return [
        path
        for use in TREES.domains
        if not EXPERIMENT.generates(target, use.name, TREES.mode)
        for path in trajectory_shards(target, use.name, TREES.mode)
    ]


def domains_exhibits():
    """Tables and figures of the domains study."""
    return [
        RESULTS / "exhibits/domains" / f"{stem}.{kind}"
        for stems, types in (
            (DOMAINS_TABLES, ("csv", "md", "tex")),
            ([f"figure{n}" for n in range(1, 5)], ("svg", "pdf")),
        )
        for stem in stems
        for kind in types
    ]


def domains_targets(wildcards):
    """What the target of the study asks for; says why where this experiment cannot have it."""
    if EXPERIMENT.trees.problem is not None:
        raise WorkflowError(EXPERIMENT.trees.problem)
    return [*domains_exhibits(), RESULTS / "statistics/domains/measurements.parquet"]


def domains_condition():
    """The condition of the domains study, in the keys of the published one."""
    pair = tree_pair(TREES.pair)
    beside = {use.published: use for use in TREES.domains if use.published}
    return {
        "target": identity(pair["target"]),
        "draft": identity(pair["draft"]),
        "temperature": law(TREES.mode)["temperature"],
        "prompt_tokens": TREES.prompt_tokens,
        "dtype": TREES.dtype,
        "shape": tree_shape(),
        "position_edge": TREES.position_edge,
        "data": {label: data_of(use.name) for label, use in beside.items()},
        "prompts": {label: use.prompts for label, use in beside.items()},
        "max_new_tokens": {label: use.max_new_tokens for label, use in beside.items()},
        "chat_template": {
            label: template(use.name)["chat_template"] for label, use in beside.items()
        },
    }
