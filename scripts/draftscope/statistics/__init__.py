"""Statistics with the prompt as the unit: intervals resample prompts, tests pair prompts.

Results are small frozen records; p-values are under `.p`, the number of units under `.n`, and
`.reason` says why something is missing. Degenerate input has a stated answer, never NaN.
"""

from draftscope.statistics.bins import Quintiles, position_curve, quintiles, value_bins
from draftscope.statistics.contingency import ChiSquare, McNemar, chi_square, mcnemar
from draftscope.statistics.dependence import (
    Correlation,
    CorrelationByPrompt,
    spearman,
    spearman_by_prompt,
)
from draftscope.statistics.halves import (
    PairedHalves,
    PooledDifference,
    paired_halves,
    pooled_difference,
)
from draftscope.statistics.intervals import Interval, bootstrap, bootstrap_columns
from draftscope.statistics.multiple import Adjusted, holm
from draftscope.statistics.observations import (
    Observations,
    exclude_loops,
    observe_positions,
    observe_rounds,
)
from draftscope.statistics.paired import (
    Equivalence,
    PairedDifference,
    equivalence,
    paired_difference,
    paired_differences,
    prompts_needed,
    smallest_difference,
)
from draftscope.statistics.regression import Coefficient, LogisticFit, logistic
from draftscope.statistics.sign import (
    SignTest,
    Wilcoxon,
    sign_test,
    sign_test_from_counts,
    wilcoxon,
)

__all__ = [
    "Adjusted",
    "ChiSquare",
    "Coefficient",
    "Correlation",
    "CorrelationByPrompt",
    "Equivalence",
    "Interval",
    "LogisticFit",
    "McNemar",
    "Observations",
    "PairedDifference",
    "PairedHalves",
    "PooledDifference",
    "Quintiles",
    "SignTest",
    "Wilcoxon",
    "bootstrap",
    "bootstrap_columns",
    "chi_square",
    "equivalence",
    "exclude_loops",
    "holm",
    "logistic",
    "mcnemar",
    "observe_positions",
    "observe_rounds",
    "paired_difference",
    "paired_differences",
    "paired_halves",
    "pooled_difference",
    "position_curve",
    "prompts_needed",
    "quintiles",
    "sign_test",
    "sign_test_from_counts",
    "smallest_difference",
    "spearman",
    "spearman_by_prompt",
    "value_bins",
    "wilcoxon",
]
