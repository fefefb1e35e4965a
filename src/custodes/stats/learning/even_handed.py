"""Ridge regression with a penalty on the partiality of its predictions to systems."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from custodes.stats.arrays import Floats, Ints
from custodes.stats.learning.ridge import Linear, ridge_path, scaling, standardise_columns
from custodes.stats.partiality.placement import sum_by_unit
from custodes.stats.partiality.scores import two_way

STRENGTHS = (0.0, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
"""Strengths of the penalty; 0 is ridge regression."""


def even_handed(
    x: Floats, y: Floats, *, items: Ints, systems: Ints, groups: Ints, strengths: Sequence[float] = STRENGTHS
) -> list[Linear]:
    """Fit ridge regressions with increasing penalties on the residuals of systems.

    The mean predictions of systems, adjusted for items, are regressed on their mean targets, also adjusted for items.
    The residual of a system is the deviation of its mean prediction from the regression line. The penalty is strength *
    (sum of squared residuals, weighted by numbers of outputs, minus the expectation of this sum from sampling error).
    So noise in the means of systems is not penalised. A metric that favours a system loses weight, or another metric
    balances its favoritism. Systems are not inputs of the prediction.

    Parameters
    ----------
    x
        Values (rows, p), NaN = missing.
    y
        Target (rows,).
    items, systems
        Item and system of each row (rows,). There is at most one row for each item and system.
    groups
        Cluster of each row (rows,). The items of a cluster stay together in inner folds and in sampling errors.
    strengths
        Multipliers of the penalty, at least 0.

    Returns
    -------
    :
        A linear model for each strength.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> quality = np.linspace(-1, 1, 6) + rng.normal(size=(80, 6))
    >>> favoured, noisy = quality + np.array([0, 0, 2, 0, 0, 0]), quality + rng.normal(size=(80, 6))
    >>> x = np.stack([favoured.ravel(), noisy.ravel()], axis=1)
    >>> item, system = np.divmod(np.arange(480), 6)
    >>> models = even_handed(x, quality.ravel(), items=item, systems=system, groups=item, strengths=(0.0, 10.0))
    >>> [bool(model.weights[0] > model.weights[1]) for model in models]
    [True, False]
    """
    penalty_matrix = residual_products(
        standardise_columns(x, scaling(x)), y, items=items, systems=systems, groups=groups
    )
    return ridge_path(x, y, penalty_matrix, strengths=strengths, groups=groups)


def residual_products(standardised_x: Floats, y: Floats, *, items: Ints, systems: Ints, groups: Ints) -> Floats:
    """For each pair of columns, the sum over systems of the products of residuals, minus the sampling covariance:
    (p, p).

    The mean of each system is computed for `y` (rows,) and for each column of `standardised_x` (rows, p). The means of
    a column are regressed on the means of `y`, which gives the residuals of the column. The products of the residuals
    of two columns are summed over systems, weighted by numbers of outputs. Negative eigenvalues of the result are set
    to 0.
    """
    first_row_of_item, item_of_row = np.unique(items, return_index=True, return_inverse=True)[1:]
    system_of_row = np.unique(systems, return_inverse=True)[1]
    unit_of_item = np.unique(groups[first_row_of_item], return_inverse=True)[1]
    table_shape = (len(first_row_of_item), int(system_of_row.max()) + 1)
    is_rated_output, value_tables = (
        np.zeros(table_shape, dtype=np.bool_),
        np.zeros((standardised_x.shape[1] + 1, *table_shape)),
    )
    is_rated_output[item_of_row, system_of_row] = True
    value_tables[:, item_of_row, system_of_row] = np.column_stack([standardised_x, y - y.mean()]).T
    system_effects, _, effect_influences = two_way(value_tables, is_rated_output)
    output_share_of_system = is_rated_output.sum(axis=0) / len(y)
    effect_influences = np.stack(
        [sum_by_unit(influence_of_column, unit_of_item) for influence_of_column in effect_influences]
    )
    system_effects, effect_influences = (
        effects_or_influences - (effects_or_influences @ output_share_of_system)[..., np.newaxis]
        for effects_or_influences in (system_effects, effect_influences)
    )
    metric_system_effects, human_system_effects = system_effects[:-1], system_effects[-1]
    human_effect_variance = float(human_system_effects**2 @ output_share_of_system)
    slope_of_metric = (
        metric_system_effects @ (output_share_of_system * human_system_effects) / human_effect_variance
        if human_effect_variance > 0
        else np.zeros(len(metric_system_effects))
    )
    weighted_residuals = (metric_system_effects - slope_of_metric[:, np.newaxis] * human_system_effects) * np.sqrt(
        output_share_of_system
    )
    weighted_residual_influences = (
        (effect_influences[:-1] - slope_of_metric[:, np.newaxis, np.newaxis] * effect_influences[-1])
        * np.sqrt(output_share_of_system)
    ).reshape(len(metric_system_effects), -1)
    eigenvalues, eigenvectors = np.linalg.eigh(
        weighted_residuals @ weighted_residuals.T - weighted_residual_influences @ weighted_residual_influences.T
    )
    return np.asarray((eigenvectors * np.maximum(eigenvalues, 0.0)) @ eigenvectors.T)
