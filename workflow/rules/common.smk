# Needs: the merged configuration. Makes: names that the other rule files share.
# Why: wildcard values come from the configuration and nowhere else, and every setting that a
# number depends on reaches its job through `params` as plain JSON.

import functools
import json
import re
import sys
from pathlib import Path

ROOT = Path(workflow.basedir).parent
sys.path.insert(0, str(ROOT / "scripts"))

from draftscope import block_training, closure, drafters, extras
from draftscope.checkpoints import BLOCK_DRAFTS, TEXT_DRAFTS, local_files
from draftscope.config import load as load_experiment
from draftscope.errors import UserError
from draftscope.model_rows import Calibration, teacher_of
from draftscope.strict import load_yaml

# Jobs use the Python that runs Snakemake, whether or not its environment is activated, unless
# Snakemake itself is asked to make the environments from envs/.
if not workflow.deployment_settings.deployment_method:
    shell.prefix(
        f"export PATH={str(Path(sys.executable).parent)!r}:$PATH; set -euo pipefail; "
    )

try:
    EXPERIMENT = load_experiment(config, ROOT)
except UserError as error:
    sys.exit(f"error: {error}")

RESULTS = Path("results") / EXPERIMENT.settings.experiment
LOGS = RESULTS / "logs"
PUBLISHED_CONDITIONS = load_yaml(ROOT / "config/published/conditions.yaml")


def alternatives(names):
    """A wildcard constraint that matches exactly these names."""
    return "|".join(re.escape(name) for name in names) or "(?!)"


wildcard_constraints:
    model=alternatives(EXPERIMENT.models),
    target=alternatives(
        [*EXPERIMENT.targets, *EXPERIMENT.trees.targets, *EXPERIMENT.losses.targets]
    ),
    pair=alternatives(
        {
            **EXPERIMENT.replayed,
            **EXPERIMENT.live.pairs,
            **EXPERIMENT.trees.pairs,
            **EXPERIMENT.retrace.pairs,
        }
    ),
    draft_group=alternatives(
        {pair["draft_group"] for pair in EXPERIMENT.replayed.values()}
    ),
    domain=alternatives(
        {
            **EXPERIMENT.domains,
            **EXPERIMENT.live.domains,
            **EXPERIMENT.trees.domains,
            **EXPERIMENT.losses.domains,
            **EXPERIMENT.retrace.domains,
        }
    ),
    mode=alternatives(
        {
            **EXPERIMENT.modes,
            **EXPERIMENT.live.modes,
            **EXPERIMENT.trees.modes,
            **EXPERIMENT.sweep.modes,
            **EXPERIMENT.losses.modes,
            **EXPERIMENT.retrace.modes,
        }
    ),
    shard="[0-9]+",


def as_json(**settings):
    """Settings as one line of JSON, in the order given, so that equal settings are equal text."""
    return json.dumps(
        settings, ensure_ascii=False, separators=(",", ":"), allow_nan=False
    )


def block(settings):
    """A block of the configuration as a plain dictionary."""
    return settings.model_dump()


def sources(script, also=()):
    """For `input:` of a cheap rule: the script and the library files it imports.

    Files of the project are `local`: where results are in remote storage, they are not.
    """
    return [local(path.relative_to(ROOT)) for path in sources_of(script, tuple(also))]


# What scripts load by name to draft with kinds that read their target's hidden states, or train them.
OPENED = {
    "live_decode.py": drafters.LIVE,
    "batch_decode.py": drafters.LIVE,
    "tree_nodes.py": drafters.TREES,
    "train_block_draft.py": block_training.MAKERS,
}


def digest(script, models=(), also=()):
    """For `params:` of a GPU rule: what its code means, with the loaders of these models."""
    found = kinds(models)
    loaders = [f"draftscope/models/{kind}.py" for kind in found]
    opened = OPENED.get(script, {})
    loaders += [
        f"{opened[kind].replace('.', '/')}.py" for kind in found if kind in opened
    ]
    return digest_of(script, (*also, *loaders))


# The code does not change while the workflow is read, and thousands of jobs ask.
digest_of = functools.cache(closure.digest)
sources_of = functools.cache(closure.sources)


def kinds(models):
    """The kinds of the named models and of those that are loaded for them, sorted."""
    found, queue = set(), list(models)
    while queue:
        row = EXPERIMENT.models[queue.pop()]
        found.add(row["kind"])
        # What was quantized or distilled here is a checkpoint of its own, without its base.
        if "base" in row and row["kind"] not in ("gptq", "distilled", "retrace"):
            queue.append(row["base"])
    return sorted(found)


def compute(stage):
    """What a job of this stage may use, and what of that its numbers depend on."""
    return {
        key: getattr(stage, key) for key in ("device", "dtype", "attention", "threads")
    }


def model_file(name):
    return RESULTS / "models" / name / "model.json"


def row_of(kind, name):
    """The registry row of a domain or mode, of whichever study it is."""
    users = (
        EXPERIMENT,
        EXPERIMENT.live,
        EXPERIMENT.trees,
        EXPERIMENT.certificates,
        EXPERIMENT.sweep,
        EXPERIMENT.losses,
        EXPERIMENT.retrace,
    )
    found = [getattr(user, kind) for user in users]
    if kind == "domains":
        found += [EXPERIMENT.calibration, EXPERIMENT.training]
    return next(rows[name] for rows in found if name in rows)


def law(mode):
    """The decoding law of a mode."""
    row = row_of("modes", mode)
    return {key: row[key] for key in ("temperature", "top_k", "top_p")}


def domain_row(domain):
    """Where the prompts of a domain come from."""
    return row_of("domains", domain)


def template(domain):
    """Chat-template arguments of a domain."""
    return domain_row(domain).get("template", {"chat_template": True})


def identity(model):
    """What a model is, whatever its name in the registry: the published condition is told by it."""
    row = EXPERIMENT.models[model]
    return row["id"] if row["kind"] == "hub" else model


def data_of(domain):
    """What a domain's prompts are, whatever its name in the registry."""
    row = domain_row(domain)
    return row["repository"] if row["source"] == "hub" else domain


def all_prompt_shards(domain):
    return [
        RESULTS / "prompts" / domain / f"{shard}.parquet"
        for shard in EXPERIMENT.shards(domain)
    ]


def text_prompt_shards(target, domain, mode):
    """The shards of prompts that a target's text continues."""
    return [
        RESULTS / "prompts" / domain / f"{shard}.parquet"
        for shard in EXPERIMENT.text_shards(target, domain, mode)
    ]


def text_prompts(target, domain, mode, shard):
    """The prompts that a target's text continues: cut ones where only the trees need the text."""
    if EXPERIMENT.cuts_prompts(target, domain, mode):
        return RESULTS / "prompts_cut" / target / domain / f"{shard}.parquet"
    return RESULTS / "prompts" / domain / f"{shard}.parquet"


def text_budget(target, domain, mode, **_):
    """Most tokens of a text by a target."""
    return EXPERIMENT.text(target, domain, mode).max_new_tokens


def trajectory_shards(target, domain, mode):
    return [
        RESULTS / "trajectories" / target / domain / mode / f"{shard}.parquet"
        for shard in EXPERIMENT.text_shards(target, domain, mode)
    ]


def is_scored(draft):
    """Whether a draft has a distribution at every position; others propose tokens."""
    return EXPERIMENT.models[draft]["kind"] not in TEXT_DRAFTS | BLOCK_DRAFTS


def proposal_shards(pair, domain, mode):
    """The shards that hold what a block drafter proposes; none for another draft."""
    row = EXPERIMENT.replayed[pair]
    if EXPERIMENT.models[row["draft"]]["kind"] not in BLOCK_DRAFTS:
        return []
    folder = RESULTS / "proposals" / row["target"] / row["draft"] / domain / mode
    shards = EXPERIMENT.text_shards(row["target"], domain, mode)
    return [folder / f"{shard}.parquet" for shard in shards]


def score_shards(pair, domain, mode):
    """The shards that hold a pair's scores; none for a draft that has no distribution of its own."""
    row = EXPERIMENT.replayed[pair]
    if not is_scored(row["draft"]):
        return []
    folder = RESULTS / "scores" / row["target"] / row["draft_group"] / domain / mode
    return [folder / f"{shard}.parquet" for shard in EXPERIMENT.shards(domain)]


def draft_settings(draft):
    """A draft's row in the registry of models; of bigrams also where their record lies."""
    row = EXPERIMENT.models[draft]
    return row | {"record": str(path) for path in draft_records(draft)}


def draft_records(draft):
    """The record of a draft that has no model but a file; none for others."""
    return [model_file(draft)] if EXPERIMENT.models[draft]["kind"] == "bigram" else []


def first_shards(paths):
    """Of each folder of shards, the first."""
    return [path for path in paths if path.stem == "0000"]


def all_trajectories():
    return [
        path
        for target in EXPERIMENT.targets
        for domain in EXPERIMENT.domains
        for mode in EXPERIMENT.modes
        for path in trajectory_shards(target, domain, mode)
    ]


def all_scores():
    return [
        path
        for pair in EXPERIMENT.pairs
        for domain in EXPERIMENT.domains
        for mode in EXPERIMENT.modes
        for path in score_shards(pair, domain, mode)
    ]


def all_rounds():
    return [
        RESULTS / "rounds" / pair / domain / f"{mode}.parquet"
        for pair in EXPERIMENT.pairs
        for domain in EXPERIMENT.domains
        for mode in EXPERIMENT.modes
    ]


def model_sources(model):
    """Files of this machine that a model is made from: another content is another model."""
    row = EXPERIMENT.models[model]
    if row["kind"] == "gguf":
        return [local(row["path"])]
    return local(local_files(row["path"])) if row["kind"] == "local" else []


def source_modules(domain):
    """Library files that are loaded by name for a domain's source."""
    source = domain_row(domain)["source"]
    return [f"draftscope/prompts/{name}.py" for name in ("collecting", source)]


def domain_files(domain):
    """Files of the project that a domain reads its prompts from."""
    row = domain_row(domain)
    return [local(row["file"])] if row["source"] == "jsonl" else []


def group_settings(target, draft_group):
    """The drafts of a group, with what each pair allows to differ."""
    return [
        {
            "name": pair["draft"],
            "allow_special_differences": pair["allow_special_differences"],
        }
        for pair in EXPERIMENT.replayed.values()
        if pair["target"] == target
        and pair["draft_group"] == draft_group
        and pair["draft"] in EXPERIMENT.group(target, draft_group)
    ]
