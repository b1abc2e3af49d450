"""Names of the study's files below statistics/domains/, for the workflow and its readers."""

FILES = (
    "rates",
    "lengths",
    "depths",
    "changes",
    "positions",
    "correlations",
    "curves",
    "contrasts",
    "paradox",
    "models",
    "comparisons",
    "coefficients",
    "path_rates",
    "budgets",
    "claims",
)
