"""Ridge regression with a penalty on the partiality of its predictions to systems."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from custodes.stats.arrays import Floats, Ints
from custodes.stats.learning.folds import inner_folds
from custodes.stats.learning.ridge import Linear, fit_products, fold_products, standardise_columns
from custodes.stats.partiality.placement import sum_by_unit
from custodes.stats.partiality.scores import two_way
from custodes.stats.ratios import ratio

STRENGTHS = (0.0, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
"""Strengths of the penalty; 0 is ridge regression."""


def even_handed(
    x: Floats, y: Floats, *, items: Ints, systems: Ints, groups: Ints, strengths: Sequence[float] = STRENGTHS
) -> list[Linear]:
    """Fit ridge regressions with increasing penalties on the residuals of systems.

    The mean predictions of systems, adjusted for items, are regressed on their mean targets, also adjusted for items.
    The residual of a system is the deviation of its mean prediction from the regression line. The penalty is strength *
    (S - E). S is the sum of squared residuals, weighted by numbers of outputs. E is the value of S that is expected
    from sampling error alone. With E, noise in the means of systems is not penalised. A metric that favours a system
    loses weight, or another metric balances its favoritism. Systems are not inputs of the prediction.

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
    products, columns = fold_products(x, y, inner_folds(groups)), np.arange(x.shape[1])
    penalty_matrix = residual_products(
        standardise_columns(x, products.scaling[0]), y, items=items, systems=systems, groups=groups
    )
    return [
        fit_products(products, columns, len(columns), penalty_matrix=strength * penalty_matrix)
        for strength in strengths
    ]


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
    values = np.column_stack([standardised_x, y - y.mean()]).T
    value_tables = np.full((len(values), len(first_row_of_item), int(system_of_row.max()) + 1), np.nan)
    value_tables[:, item_of_row, system_of_row] = values
    is_rated_output = ~np.isnan(value_tables[-1])
    system_effects, _, effect_influences = two_way(np.nan_to_num(value_tables), is_rated_output)
    output_shares = is_rated_output.sum(axis=0) / len(y)
    # the effects and, below, the influences (columns, 1 + units, systems) of the clusters on them
    effects = np.stack(
        [
            np.vstack([effects_of_column, sum_by_unit(influence, unit_of_item)])
            for effects_of_column, influence in zip(system_effects, effect_influences, strict=True)
        ]
    )
    effects -= (effects @ output_shares)[..., np.newaxis]
    human_effects = effects[-1, 0]
    slope_of_metric = np.nan_to_num(
        ratio(effects[:-1, 0] @ (output_shares * human_effects), human_effects**2 @ output_shares)
    )
    residuals = (effects[:-1] - slope_of_metric[:, np.newaxis, np.newaxis] * effects[-1]) * np.sqrt(output_shares)
    sampling_errors = residuals[:, 1:].reshape(len(residuals), -1)
    eigenvalues, eigenvectors = np.linalg.eigh(
        residuals[:, 0] @ residuals[:, 0].T - sampling_errors @ sampling_errors.T
    )
    return np.asarray((eigenvectors * np.maximum(eigenvalues, 0.0)) @ eigenvectors.T)
