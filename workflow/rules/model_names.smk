# Needs: the registry of models.
# Makes: names that the rules of models use.
# Why: a model may be made from another, from prompts, or by a package that is not installed.


def calibration_of(model):
    return EXPERIMENT.models[model]["calibration"]


def calibration_share(model, domain):
    """How many training prompts of a domain a model is quantized on."""
    return Calibration.model_validate(calibration_of(model)).share(domain)


def missing_packages(jobs):
    """A line for each model that these jobs load or make and that lacks a package here."""
    files = {Path(str(file)) for job in jobs for file in [*job.input, *job.output]}
    names = {file.parent.name for file in files if file.name == "model.json"}
    return extras.missing(
        {name: row for name, row in EXPERIMENT.models.items() if name in names}
    )
