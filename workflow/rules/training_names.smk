# Needs: the registry of models.
# Makes: names of the texts that drafts are trained on, and of the checks that none of them is measured.
# Why: models that ask for the same texts of a target share them, whatever their names are.

import hashlib


def _training_texts():
    """By key: a target's texts of a domain's training prompts that some model is trained on."""
    found = {}
    for name in EXPERIMENT.models:
        for key, texts in learnt_texts(name).items():
            found.setdefault(key, texts)
    return found


def learnt_texts(model):
    """By key: the texts that a model is trained on, domain by domain; none for one that is not."""
    row, found = EXPERIMENT.models[model], {}
    if "train" not in row:
        return found
    for use in row["train"]["domains"]:
        texts = {
            "teacher": teacher_of(row),
            "domain": use["name"],
            "prompts": use["prompts"],
            "samples": use["samples"],
            "max_new_tokens": use["max_new_tokens"],
            "temperature": row["train"]["temperature"],
        }
        key = hashlib.sha256(as_json(**texts).encode()).hexdigest()[:10]
        found[key] = texts
    return found


TRAINING_TEXTS = _training_texts()


def training_shards(key, kind):
    """The files of a set of training texts: prompts, trajectories or marks."""
    texts, size = TRAINING_TEXTS[key], EXPERIMENT.settings.shard_size
    folder = RESULTS / "training" / texts["teacher"] / texts["domain"] / key
    count = -(-texts["prompts"] // size)
    return [folder / f"{shard:04d}.{kind}.parquet" for shard in range(count)]


def training_bounds(key, shard):
    """First training prompt and one past the last of a shard."""
    size = EXPERIMENT.settings.shard_size
    start = int(shard) * size
    return start, min(start + size, TRAINING_TEXTS[key]["prompts"])


def training_files(model, kind):
    """All files of a model's training texts, in the order of its domains."""
    return [path for key in learnt_texts(model) for path in training_shards(key, kind)]


def training_marks(model):
    """The types of the texts' tokens, for a weighting that asks for them."""
    if EXPERIMENT.models[model].get("weighting") != "reflection":
        return []
    return training_files(model, "marks")


def block_base(model):
    """The record of the DFlash drafter that a ReTrace one starts from; none for others."""
    row = EXPERIMENT.models[model]
    return [model_file(row["base"])] if row["kind"] == "retrace" else []


def may_differ(model):
    """Whether a pair of a trained draft and its target lets special tokens differ."""
    pair = {"draft": model, "target": teacher_of(EXPERIMENT.models[model])}
    return any(
        row["allow_special_differences"]
        for row in EXPERIMENT.replayed.values()
        if pair.items() <= row.items()
    )


def training_settings(model):
    """What the training of a draft depends on, as JSON."""
    return as_json(
        model=EXPERIMENT.models[model],
        allow_special_differences=may_differ(model),
        **compute(EXPERIMENT.settings.training),
    )


def trained_ancestors(model):
    """The model and those that it is made from, as far as they are trained here."""
    line = [model]
    while "base" in EXPERIMENT.models[line[-1]]:
        line.append(EXPERIMENT.models[line[-1]]["base"])
    return [name for name in line if "train" in EXPERIMENT.models[name]]


def instructions_of(model, domain):
    """What stands around the items of a domain, and of those that a model is trained on, as JSON."""
    names = {
        domain,
        *(use["name"] for use in EXPERIMENT.models[model]["train"]["domains"]),
    }
    return as_json(
        **{name: domain_row(name).get("instruction") for name in sorted(names)}
    )


def leak_checks(model, domain):
    """Proofs that a draft was trained on no prompt that it is measured on in a domain."""
    return [
        RESULTS / "models" / name / "leaks" / f"{domain}.json"
        for name in trained_ancestors(model)
    ]
