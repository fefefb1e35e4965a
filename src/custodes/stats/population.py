"""Population values of system scores, estimated from their noisy means, for intervals of statistics over systems.

The mean of a system over the available items is its population mean plus noise. The noise lowers a correlation over
systems, or a proportion of equally ordered pairs, below its value for unlimited items. A resample adds noise a second
time, so percentile intervals are biased. To avoid biased intervals, this module removes the noise.
"""

from __future__ import annotations

import numpy as np

from custodes.stats.arrays import Floats, chunks
from custodes.stats.ratios import ratio

FEWEST_SYSTEMS = 3

_RIDGE = 1e-10  # relative to the variance between systems; makes matrices invertible if scores have no noise
_CACHE = 16  # divisor of the size of temporary arrays, so that they fit the cache
_SEED = 0  # seed of the nodes of an integral over covariances; fixed, so that it adds no randomness


def population_values(human: Floats, metrics: Floats, *, n_units: float) -> tuple[Floats, Floats]:
    """Draws of the scores that systems would have by annotators and by each metric with very many items.

    `human` and `metrics` (1 + B, metrics, systems) are system scores. Row 0 is the data, and the B further rows are
    resamples of clusters. `n_units` is the (effective) number of clusters. The two results (B, metrics, systems) are
    centred over systems. A score is NaN if the resample lacks the system. With fewer than three systems, resamples are
    centred but otherwise unchanged, because the variation between systems is unknown.

    In the model, the true scores by annotators and a metric are normal over systems with a covariance T. The errors of
    the means are normal with covariance V. V is the covariance of the resamples, times G / (G - 1) for G clusters,
    averaged over systems. Under Jeffreys' prior, T + V has an inverse Wishart posterior, which is truncated at V. Given
    T, true scores are drawn from their posterior. The errors in these draws keep the distribution and the dependence of
    the resamples.

    >>> rng = np.random.default_rng(0)
    >>> people, metric = (np.arange(5.0) + rng.normal(size=(200, 1, 5)) for _ in range(2))
    >>> [draws.shape for draws in population_values(people, metric, n_units=50)]
    [(199, 1, 5), (199, 1, 5)]

    Source: Lindley and Smith 1972; Everson and Morris 2000 for the posterior of T + V truncated at V.
    """
    n_samples, n_metrics, n_systems = metrics.shape
    # Computations are several times as fast with resamples as the last axis in memory.
    population_draws = np.full((2, n_systems, n_metrics, max(n_samples - 1, 0)), np.nan)
    distinct_rated_masks, mask_index_of_metric = np.unique(
        np.isfinite(human[0]) & np.isfinite(metrics[0]), axis=0, return_inverse=True
    )
    for mask_index, is_rated_system in enumerate(distinct_rated_masks):
        metric_indices = np.flatnonzero(mask_index_of_metric == mask_index)
        rated_system_indices = np.flatnonzero(is_rated_system)[:, np.newaxis]
        for metric_slice in chunks(len(metric_indices), _CACHE * n_samples * max(1, len(rated_system_indices))):
            score_indices = rated_system_indices, metric_indices[metric_slice]
            population_draws[:, *score_indices] = _draws_of_pattern(
                np.stack([human.T[score_indices], metrics.T[score_indices]]), n_units
            )
    return population_draws[0].T, population_draws[1].T


def _draws_of_pattern(scores: Floats, n_units: float) -> Floats:
    """Draws for metrics that lack the same systems: (2, systems, metrics, 1 + B) -> (2, systems, metrics, B).

    The first axis is annotators and metric. The missing systems must be left out of the arrays.
    """
    is_defined_score = np.asarray(np.isfinite(scores).all(axis=0))
    n_systems, n_resamples, is_undefined_score = scores.shape[1], scores.shape[3] - 1, ~is_defined_score
    scores[:, is_undefined_score] = 0.0
    scores -= scores.sum(axis=1, keepdims=True) / np.maximum(is_defined_score.sum(axis=0), 1)
    scores[:, is_undefined_score] = 0.0
    # Scores of each rater are scaled by a power of two, which avoids overflow of squares.
    scale_of_rater = np.exp2(np.frexp(np.abs(scores).max(axis=(1, 3), keepdims=True, initial=0.0))[1])
    scores /= scale_of_rater
    observed_scores, resampled_scores, is_undefined_resample_score = (
        scores[..., 0],
        scores[..., 1:],
        is_undefined_score[..., 1:],
    )
    if n_systems < FEWEST_SYSTEMS or n_resamples < 2 or n_units < 2:
        return np.where(is_undefined_resample_score, np.nan, resampled_scores * scale_of_rater)
    n_defined_resamples, error_variance_factor = is_defined_score[..., 1:].sum(axis=2), n_units / (n_units - 1)
    resample_deviations = (
        resampled_scores - (resampled_scores.sum(axis=3) / np.maximum(n_defined_resamples, 1))[..., np.newaxis]
    )
    resample_deviations[:, is_undefined_resample_score] = 0.0
    # Centring removes a part of the noise: the factor is (k - 1) / k for k systems.
    noise_covariance = np.einsum(
        "ijsm,sm->mij",
        np.einsum("ismb,jsmb->ijsm", resample_deviations, resample_deviations),
        error_variance_factor / (np.maximum(n_defined_resamples - 1, 1) * (n_systems - 1)),
    )
    noise_variances = np.einsum("mii->mi", noise_covariance)  # a view
    ridge_of_metric = _RIDGE * (np.einsum("ism,ism->mi", observed_scores, observed_scores) + noise_variances)
    noise_variances += ridge_of_metric + np.finfo(np.float64).tiny ** 0.5
    noise_cholesky = np.linalg.cholesky(noise_covariance)
    # The shrinkage is computed on the scale where the noise has variance 1 in every direction.
    whitening_matrix = np.linalg.inv(noise_cholesky)
    value_and_error_shrinkage = _shrinkage(
        np.einsum("mij,jsm->ims", whitening_matrix, observed_scores), n_systems - 1, n_resamples
    )
    population_draws = np.zeros(resample_deviations.shape)
    for triangle_entries, values_to_shrink, noise_scale in zip(
        value_and_error_shrinkage,
        (observed_scores[..., np.newaxis], resample_deviations),
        (1.0, np.sqrt(error_variance_factor)),
        strict=True,
    ):
        symmetric_matrices = np.array([triangle_entries[:2], triangle_entries[1:]])  # (row, column, metrics, B)
        shrinkage_matrices = np.einsum(
            "mjb,bimn->jimn",
            noise_cholesky * noise_scale,
            np.einsum("mai,abmn->bimn", whitening_matrix, symmetric_matrices),
        )
        for rater_draws, shrinkage_row in zip(population_draws, shrinkage_matrices, strict=True):
            for shrinkage_coefficients, values in zip(shrinkage_row, values_to_shrink, strict=True):
                rater_draws += shrinkage_coefficients * values
    population_draws *= scale_of_rater
    population_draws[:, is_undefined_resample_score] = np.nan
    return population_draws


def _shrinkage(observed_scores: Floats, degrees_of_freedom: int, n_draws: int) -> tuple[list[Floats], list[Floats]]:
    """Shrinkage of values, and shrinkage of their errors, for draws of the covariance.

    Each shrinkage is a symmetric matrix, given by its entries 11, 12 and 22, (metrics, n_draws) each. `observed_scores`
    (2, metrics, systems) are in units of the noise. Their scatter matrix has `degrees_of_freedom`. Consider a direction
    with true variance s and noise variance 1. Values are multiplied by s / (s + 1), and errors by the square root of
    this factor. If the scores by one of the two raters are a linear function of the scores by the other rater, values
    in the direction without variance become 0.
    """
    rng = np.random.default_rng(_SEED)
    first_diagonal_draws, second_diagonal_draws = (
        np.sqrt(rng.chisquare(degrees_of_freedom - column, n_draws)) for column in range(2)
    )
    below_diagonal_draws = rng.normal(size=n_draws)
    smallest_float = np.finfo(np.float64).tiny
    (scatter_11, scatter_12), (_, scatter_22) = np.einsum("ims,jms->ijm", observed_scores, observed_scores)[
        ..., np.newaxis
    ]
    ridge = _RIDGE * (scatter_11 + scatter_22) + smallest_float**0.5  # positive even if all values are equal
    # Cholesky factor of the scatter and the ridge. The second diagonal entry is computed from residuals. A
    # difference of products would be rounding error of either sign if the scores by one rater are nearly a linear
    # function of the scores by the other rater.
    slope = np.nan_to_num(ratio(scatter_12, scatter_11))
    residual_scores = observed_scores[1] - slope * observed_scores[0]
    scatter_root_11 = np.sqrt(scatter_11 + ridge)
    scatter_root_22 = np.sqrt(
        np.einsum("ms,ms->m", residual_scores, residual_scores)[:, np.newaxis]
        + ridge
        + slope * scatter_12 * (ridge / (scatter_11 + ridge))
    )
    # Inverse Cholesky factor (upper triangular) times the drawn lower triangular matrix.
    inverse_root_12 = -scatter_12 / (scatter_11 + ridge) / scatter_root_22
    factor_11, factor_12 = (
        first_diagonal_draws / scatter_root_11 + inverse_root_12 * below_diagonal_draws,
        inverse_root_12 * second_diagonal_draws,
    )
    factor_21, factor_22 = below_diagonal_draws / scatter_root_22, second_diagonal_draws / scatter_root_22
    # Eigenvalues and axes of a symmetric 2 x 2 matrix. The smaller eigenvalue comes from the determinant, for
    # precision.
    precision_11, precision_12, precision_22 = (
        factor_11**2 + factor_12**2,
        factor_11 * factor_21 + factor_12 * factor_22,
        factor_21**2 + factor_22**2,
    )
    larger_eigenvalue = (precision_11 + precision_22) / 2 + np.hypot((precision_11 - precision_22) / 2, precision_12)
    determinant_root = first_diagonal_draws * second_diagonal_draws / (scatter_root_11 * scatter_root_22)
    smaller_eigenvalue = (determinant_root / np.sqrt(np.maximum(larger_eigenvalue, smallest_float))) ** 2
    axis_angle = np.arctan2(precision_12, (precision_11 - precision_22) / 2) / 2
    cosine, sine = np.cos(axis_angle), np.sin(axis_angle)
    shrinkage = 1 - np.clip([larger_eigenvalue, smaller_eigenvalue], smallest_float, 1.0)
    value_shrinkage, error_shrinkage = (
        [
            first_factor * cosine**2 + second_factor * sine**2,
            (first_factor - second_factor) * cosine * sine,
            first_factor * sine**2 + second_factor * cosine**2,
        ]
        for first_factor, second_factor in (shrinkage, np.sqrt(shrinkage))
    )
    return value_shrinkage, error_shrinkage
