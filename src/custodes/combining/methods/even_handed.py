"""Ridge regression with a penalty on partiality. The strength of the penalty is fixed or chosen in inner folds."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from custodes.combining.methods.linear import formula_from_line
from custodes.combining.methods.method import Formula, Method, TrainingData
from custodes.stats.arrays import Floats
from custodes.stats.learning.even_handed import STRENGTHS
from custodes.stats.learning.folds import splits
from custodes.stats.partiality.largest import largest, rate_partiality
from custodes.stats.partiality.scores import ScoredPeople
from custodes.stats.ratios import mean_of_defined

TOLERATED = 0.01
"""Largest decrease of the objective that is accepted for less partiality, if no bound on the partiality is set."""

_CONFIDENCE = 0.95


def penalised_formula(strength_index: int, training: TrainingData) -> Formula:
    """Return the regression with the penalty of strength `STRENGTHS[strength_index]`."""
    formula = formula_from_line(training, training.even_handed[strength_index])
    # The penalty shrinks predictions, so they are fitted to the scale of the ratings again.
    return (
        replace(training.rescale_to_ratings(formula), strength=STRENGTHS[strength_index]) if strength_index else formula
    )


def even_handed(training: TrainingData) -> Formula:
    """Return the regression with the strength of the penalty that is chosen in inner folds.

    With a bound on the largest partiality, the result has the smallest strength that satisfies the bound, or the
    strength with the least partiality if no strength satisfies the bound. Without a bound, the result has the strength
    with the least partiality among all strengths whose objective decreases by at most `TOLERATED`.
    """
    fold_of_row = training.inner_folds()
    predictions = np.full((len(STRENGTHS), len(training.y)), np.nan)
    for is_training_row, is_held_out_row in splits(fold_of_row):
        training_data_part = training.part(is_training_row)
        for strength_index in range(len(STRENGTHS)):
            predictions[strength_index, is_held_out_row] = penalised_formula(
                strength_index, training_data_part
            ).predict(training.x[is_held_out_row])
    largest_partialities = np.nan_to_num(_largest_partiality(training, predictions), nan=np.inf)
    if training.max_partiality is None:
        mean_objective_of_strength = np.array(
            [
                mean_of_defined(training.fold_scores(predictions_of_strength, fold_of_row))
                for predictions_of_strength in predictions
            ]
        )
        largest_partialities[mean_objective_of_strength < mean_objective_of_strength[0] - TOLERATED] = np.inf
    elif (largest_partialities <= training.max_partiality).any():
        largest_partialities = np.where(largest_partialities <= training.max_partiality, 0.0, np.inf)
    return penalised_formula(int(np.argmin(largest_partialities)), training)


def _largest_partiality(training: TrainingData, predictions: Floats) -> Floats:
    """Return the largest partiality (k,) of predictions (k, rows), in points of win rate; NaN if it is undefined."""
    item_codes, system_codes = (
        np.unique(row_labels, return_inverse=True)[1] for row_labels in (training.items, training.systems)
    )
    rating_grids = np.full((1 + len(predictions), item_codes.max() + 1, system_codes.max() + 1), np.nan)
    rating_grids[:, item_codes, system_codes] = np.concatenate([training.y[np.newaxis], predictions])
    cluster_of_item = np.zeros(len(rating_grids[0]), dtype=np.intp)
    cluster_of_item[item_codes] = np.unique(training.groups, return_inverse=True)[1]
    human_ratings = ScoredPeople(rating_grids[:1], units=cluster_of_item)
    placements = [human_ratings.placement(rating_grid) for rating_grid in rating_grids[1:]]
    return 100 * largest(rate_partiality(placements, confidence=_CONFIDENCE))[0]


STEPS = tuple(
    Method(
        name=f"strength {strength:g}",
        label=f"penalty {strength:g}",
        doc="`even-handed` with a fixed penalty",
        family="weights",
        fit=partial(penalised_formula, step),
        fast=True,
    )
    for step, strength in enumerate(STRENGTHS)
)
"""The regressions with fixed penalties, whose agreement and partiality are reported in `trade_off`."""

EVEN_HANDED = Method(
    name="even-handed",
    label="ridge with a penalty on partiality",
    doc="`ridge` with a second penalty term: λ · Σ (mean prediction of a system − value of a line through the human "
    "means)². With `max_partiality`, λ is the smallest value whose largest partiality in inner folds is "
    "at most `max_partiality`, or the value with the least partiality if all values exceed this limit. By default, λ "
    "is the value with the least partiality among the values that lower the objective by at most .01 (*ours*)",
    family="weights",
    fit=even_handed,
)
