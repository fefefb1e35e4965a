"""Weights in [0, 1] by Bayesian optimisation of the objective (paper, section 3.3.1)."""

from __future__ import annotations

import numpy as np

from custodes.combining.methods.method import Formula, Method, TrainingData
from custodes.stats.learning.bayesopt import maximise

INITIAL, ITERATIONS = 5, 100
"""Number of random points, and number of selected points, where the objective is evaluated (paper, appendix C.2)."""


def gaussian_process(training: TrainingData) -> Formula:
    """Return the weighted sum with the highest objective among all evaluated weights."""
    imputed_scores, _ = training.mean_imputation
    scored_metric_indices = np.flatnonzero(np.isfinite(training.x).any(axis=0))
    scored_metric_scores = np.ascontiguousarray(imputed_scores[:, scored_metric_indices].T)
    best_weights = maximise(
        lambda weights: training.score(weights @ scored_metric_scores),
        n_dims=len(scored_metric_indices),
        n_initial=INITIAL,
        n_iterations=ITERATIONS,
        rng=training.rng,
    )
    weights = np.zeros(imputed_scores.shape[1])
    weights[scored_metric_indices] = np.nan_to_num(best_weights, nan=0.0)  # if the objective is never defined
    return training.formula_from_weights(weights)


GP = Method(
    name="gp",
    label="Bayesian optimisation",
    doc=(
        "a + b·Σ w·x, where weights w in [0, 1] maximise the objective by Bayesian optimisation: 5 "
        "random points, then 100 selected points (section 3.3.1)"
    ),
    family="weights",
    fit=gaussian_process,
)
