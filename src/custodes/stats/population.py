"""Population values of system scores, estimated from their noisy means, for intervals of statistics over systems.

The mean of a system over the available items is its population mean plus noise. The noise lowers a correlation over
systems, or a proportion of equally ordered pairs, below its value for unlimited items. A resample adds noise a second
time, so percentile intervals are biased. To avoid this bias, the noise is removed here.
"""

from __future__ import annotations

import numpy as np

from custodes.stats.arrays import Floats, chunks, unit_of
from custodes.stats.ratios import ratio

FEWEST_SYSTEMS = 3

_RIDGE = 1e-10  # relative to the variance between systems; makes matrices invertible if scores have no noise
_SEED = 0  # seed of the nodes of an integral over covariances; fixed, so that it adds no randomness


def population_values(human: Floats, metrics: Floats, *, n_units: int) -> tuple[Floats, Floats]:
    """Draws of the system scores by annotators and by each metric for very many items, given the data and resamples.

    `human` and `metrics` (1 + B, metrics, systems) are system scores: row 0 is the data, and the B further rows are
    resamples of `n_units` clusters. The two results (B, metrics, systems) are centred over systems. A score is NaN if
    the resample lacks the system. With fewer than three systems, resamples are centred but otherwise unchanged, because
    the variation between systems is unknown.

    In the model, the true scores by annotators and a metric are normal over systems with a covariance T. The errors of
    the means are normal with covariance V, the covariance of the resamples (times G / (G - 1) for G clusters, averaged
    over systems). Under Jeffreys' prior, T + V has an inverse Wishart posterior, which is truncated at V. Given T, true
    scores are drawn from their posterior. The errors in these draws keep the distribution and the dependence of the
    resamples.

    >>> rng = np.random.default_rng(0)
    >>> people, metric = (np.arange(5.0) + rng.normal(size=(200, 1, 5)) for _ in range(2))
    >>> [draws.shape for draws in population_values(people, metric, n_units=50)]
    [(199, 1, 5), (199, 1, 5)]

    Source: Lindley and Smith 1972; Everson and Morris 2000 for the posterior of T + V truncated at V.
    """
    draws_shape = (max(len(metrics) - 1, 0), *metrics.shape[1:])
    population_draws = np.full((2, *draws_shape), np.nan)
    distinct_rated_masks, mask_index_of_metric = np.unique(
        np.isfinite(human[0]) & np.isfinite(metrics[0]), axis=0, return_inverse=True
    )
    for mask_index, is_rated_system in enumerate(distinct_rated_masks):
        metric_indices = np.flatnonzero(mask_index_of_metric.reshape(-1) == mask_index)
        for metric_slice in chunks(len(metric_indices), 4 * len(metrics) * max(1, int(is_rated_system.sum()))):
            score_index = np.ix_(np.arange(len(metrics)), metric_indices[metric_slice], is_rated_system)
            draws = _draws_of_pattern(np.stack([human[score_index], metrics[score_index]]), n_units)
            resample_indices, metric_columns, system_indices = np.ix_(
                np.arange(draws_shape[0]), metric_indices[metric_slice], is_rated_system
            )
            population_draws[:, resample_indices, metric_columns, system_indices] = draws
    return population_draws[0], population_draws[1]


def _draws_of_pattern(scores: Floats, n_units: int) -> Floats:
    """Draws for metrics that lack the same systems: (2, 1 + B, metrics, systems) -> (2, B, metrics, systems).

    The first axis is annotators and metric. The missing systems must be left out of the arrays.
    """
    is_defined_score = np.asarray(np.isfinite(scores).all(axis=0))
    n_systems, is_undefined_resample_score = scores.shape[3], ~is_defined_score[1:]
    scores = np.where(is_defined_score, scores, 0.0)
    mean_scores = scores.sum(axis=3, keepdims=True) / np.maximum(is_defined_score.sum(axis=2, keepdims=True), 1)
    scores = np.where(is_defined_score, scores - mean_scores, 0.0)
    # Scores of each rater are scaled, which avoids overflow of squares.
    scale_of_rater = np.array(
        [[unit_of(metric_scores) for metric_scores in rater_scores.swapaxes(0, 1)] for rater_scores in scores]
    )
    scale_of_rater = scale_of_rater[:, np.newaxis, :, np.newaxis]
    scores = scores / scale_of_rater
    if n_systems < FEWEST_SYSTEMS or len(is_undefined_resample_score) < 2 or n_units < 2:
        return np.where(is_undefined_resample_score, np.nan, scores[:, 1:] * scale_of_rater)
    n_defined_resamples = is_defined_score[1:].sum(axis=0)
    observed_scores = scores[:, 0]  # (2, metrics, systems)
    resample_errors = scores[:, 1:] - scores[:, 1:].sum(axis=1, keepdims=True) / np.maximum(n_defined_resamples, 1)
    resample_errors = np.where(is_undefined_resample_score, 0.0, resample_errors) * np.sqrt(n_units / (n_units - 1))
    # Centring removes a part of the noise: the factor is (k - 1) / k for k systems.
    weighted_errors = resample_errors / np.maximum(n_defined_resamples - 1, 1)
    noise_covariance = np.einsum("ibms,jbms->mij", resample_errors, weighted_errors) / (n_systems - 1)
    diagonal_indices = np.arange(2)
    ridge_of_metric = _RIDGE * (
        np.einsum("ims,ims->mi", observed_scores, observed_scores)
        + noise_covariance[:, diagonal_indices, diagonal_indices]
    )
    noise_covariance[:, diagonal_indices, diagonal_indices] += ridge_of_metric + np.finfo(np.float64).tiny ** 0.5
    noise_root = np.linalg.cholesky(noise_covariance)
    # The shrinkage is computed on the scale where the noise has variance 1 in every direction.
    whitening = np.linalg.inv(noise_root)
    shrinkage_entries = _shrinkage(
        np.einsum("mij,jms->ims", whitening, observed_scores), n_systems - 1, len(is_undefined_resample_score)
    )
    draws = np.zeros(resample_errors.shape)
    for matrix_entries, values_to_shrink in zip(
        shrinkage_entries, (observed_scores[:, np.newaxis], resample_errors), strict=True
    ):
        symmetric_entries = np.array([matrix_entries[:2], matrix_entries[1:]])  # (row, column, B, metrics)
        shrinkage = np.einsum("mai,abnm,mjb->ijnm", whitening, symmetric_entries, noise_root, optimize=True)
        for rater in range(2):
            draws[rater] += (shrinkage[:, rater, ..., np.newaxis] * values_to_shrink).sum(axis=0)
    return np.where(is_undefined_resample_score, np.nan, draws * scale_of_rater)


def _shrinkage(observed_scores: Floats, degrees_of_freedom: int, n_draws: int) -> tuple[list[Floats], list[Floats]]:
    """Shrinkage of values, and shrinkage of their errors, for draws of the covariance.

    Each shrinkage is a symmetric matrix, given by its entries 11, 12 and 22, (n_draws, metrics) each. `observed_scores`
    (2, metrics, systems) are in units of the noise. Their scatter matrix has `degrees_of_freedom`. In a
    direction with true variance s and noise variance 1, values are multiplied by s / (s + 1), and errors by the square
    root of this factor. If the scores by one of the two raters are a linear function of the scores by the other rater,
    values in the direction without variance become 0.
    """
    rng = np.random.default_rng(_SEED)
    first_diagonal, second_diagonal = (np.sqrt(rng.chisquare(degrees_of_freedom - i, (n_draws, 1))) for i in range(2))
    below_diagonal = rng.normal(size=(n_draws, 1))
    tiny = np.finfo(np.float64).tiny
    (xx, xy), (_, yy) = np.einsum("ims,jms->ijm", observed_scores, observed_scores)
    ridge = _RIDGE * (xx + yy) + tiny**0.5  # positive even if all values are equal
    # Cholesky factor of the scatter and the ridge. The second diagonal entry is computed from residuals. A
    # difference of products would be rounding error of either sign if the scores by one rater are nearly a linear
    # function of the scores by the other rater.
    slope = np.nan_to_num(ratio(xy, xx))
    residual_scores = observed_scores[1] - slope[:, np.newaxis] * observed_scores[0]
    root_x = np.sqrt(xx + ridge)
    root_y = np.sqrt(
        np.einsum("ms,ms->m", residual_scores, residual_scores) + ridge + slope * xy * (ridge / (xx + ridge))
    )
    # Inverse Cholesky factor (upper triangular) times the drawn lower triangular matrix.
    inverse_corner = -xy / (xx + ridge) / root_y
    entry_11, entry_12 = first_diagonal / root_x + inverse_corner * below_diagonal, inverse_corner * second_diagonal
    entry_21, entry_22 = below_diagonal / root_y, second_diagonal / root_y
    # Eigenvalues and axes of a symmetric 2 x 2 matrix. The smaller eigenvalue comes from the determinant, for
    # precision.
    matrix_11, matrix_12, matrix_22 = (
        entry_11**2 + entry_12**2,
        entry_11 * entry_21 + entry_12 * entry_22,
        entry_21**2 + entry_22**2,
    )
    larger_eigenvalue = (matrix_11 + matrix_22) / 2 + np.hypot((matrix_11 - matrix_22) / 2, matrix_12)
    determinant = first_diagonal * second_diagonal / (root_x * root_y)
    smaller_eigenvalue = (determinant / np.sqrt(np.maximum(larger_eigenvalue, tiny))) ** 2
    angle = np.arctan2(matrix_12, (matrix_11 - matrix_22) / 2) / 2
    cosine, sine = np.cos(angle), np.sin(angle)
    shrinkage_factors = [
        1 - np.minimum(np.maximum(eigenvalue, tiny), 1.0) for eigenvalue in (larger_eigenvalue, smaller_eigenvalue)
    ]
    entries_of_shrinkage = []
    for first_factor, second_factor in (shrinkage_factors, [np.sqrt(factor) for factor in shrinkage_factors]):
        entries_of_shrinkage.append(
            [
                first_factor * cosine**2 + second_factor * sine**2,
                (first_factor - second_factor) * cosine * sine,
                first_factor * sine**2 + second_factor * cosine**2,
            ]
        )
    return entries_of_shrinkage[0], entries_of_shrinkage[1]
