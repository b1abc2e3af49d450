# Needs: the compute blocks of the configuration. Makes: what a job of a model asks a scheduler for.
# Why: a larger model and more samples ask for more, and a job that a profile submits again for more
#   still; never for another batch size, which the numbers depend on.


def requests(stage, models, samples=lambda wildcards: 1):
    """For `resources:` of a rule that loads models.

    `models` names those that the job holds, `samples` how many texts of each prompt it makes or
    reads; both take the wildcards. Memory grows with the attempt; time does not, since a job that
    asks for more than its partition allows waits in the queue for ever.
    """

    def gpu(wildcards):
        return stage.asks("gpus", models(wildcards))

    def mem_mb(wildcards, attempt):
        return attempt * stage.asks("memory_mb", models(wildcards))

    def runtime(wildcards):
        return samples(wildcards) * stage.asks("runtime_minutes", models(wildcards))

    return {"gpu": gpu, "mem_mb": mem_mb, "runtime": runtime}


def samples_of_mode(wildcards):
    """How many texts of each prompt a decoding mode asks for."""
    return row_of("modes", wildcards.mode)["samples"]
