# Needs: the compute blocks of the configuration. Makes: what a job of a model asks a scheduler for.
# Why: a larger model, a larger shard and more samples ask for more, and a job that a profile submits
#   again for more still; never for another batch size, which the numbers depend on.


def requests(stage, models, batches=lambda wildcards: 1):
    """For `resources:` of a rule that loads models.

    `models` names those that the job holds, `batches` how many batches of texts it makes or reads;
    both take the wildcards. Memory grows with the attempt; time does not, since a job that asks for
    more than its partition allows waits in the queue for ever.
    """

    def gpu(wildcards):
        return stage.asks("gpus", models(wildcards))

    def mem_mb(wildcards, attempt):
        return attempt * stage.asks("memory_mb", models(wildcards))

    def runtime(wildcards):
        return batches(wildcards) * stage.asks("runtime_minutes", models(wildcards))

    return {"gpu": gpu, "mem_mb": mem_mb, "runtime": runtime}


def batches_of_shard(samples):
    """How many batches of texts a shard is, with so many texts of each prompt."""
    settings = EXPERIMENT.settings
    return samples * settings.shard_size // settings.generation.batch_size


def batches_of_mode(wildcards):
    """Those of a shard in a decoding mode."""
    return batches_of_shard(row_of("modes", wildcards.mode)["samples"])
