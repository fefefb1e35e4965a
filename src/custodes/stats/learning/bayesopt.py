"""Bayesian optimisation: find the maximum of an expensive function on the unit cube with a Gaussian process."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

import numpy as np

from custodes.stats.arrays import Floats

_LENGTHS = np.geomspace(0.05, 5.0, 16)  # length scales of the kernel, in units of sqrt(n_dims)
_NOISES = (1e-6, 1e-4, 1e-2)  # noise variances, relative to the variance of the function
_REFIT = 5  # number of evaluations after which length scale and noise are fitted again
_RANDOM, _LOCAL = 500, 250  # random candidates; candidates near the best, in each of several rounds
_ROUNDS = 3
_STARTS = 5  # number of best points to move
_MOVED = 5  # mean number of coordinates moved at once; few, because an optimum has many coordinates at a bound
_STEPS = (0.01, 0.5)  # standard deviation of a move
_ROUNDING = 1e-13  # an objective with a smaller range, relative to the largest value, counts as constant
_TINY = 1e-300


def maximise(
    objective: Callable[[Floats], Floats],
    *,
    n_dims: int,
    n_initial: int,
    n_iterations: int,
    rng: np.random.Generator,
) -> Floats:
    """The best point (n_dims,) for an objective on the cube [0, 1]^n_dims in n_initial + n_iterations evaluations.

    The objective maps points (m, n_dims) to values (m,). The first points are random. Each further point has the
    largest expected improvement among random candidates and points near the best points. The expected improvement is
    computed with a Gaussian process with a Matern 5/2 kernel. The length scale and the noise are refitted by marginal
    likelihood every few evaluations. NaN counts as the lowest observed value. If the objective is always NaN, the best
    point is NaN. Adding a constant to the objective, or multiplying it by a positive number, does not
    change the evaluated points. After n evaluations, the next one takes n^3 steps, so the method is meant for a few
    hundred evaluations.

    >>> top = maximise(
    ...     lambda points: -((points - 0.3) ** 2).sum(axis=1),
    ...     n_dims=2,
    ...     n_initial=5,
    ...     n_iterations=20,
    ...     rng=np.random.default_rng(0),
    ... )
    >>> top.round(1).tolist()
    [0.3, 0.3]

    Source: Jones, Schonlau and Welch 1998, expected improvement; Snoek, Larochelle and Adams 2012, the kernel;
    Winata et al. 2024, "MetaMetrics", Section 3.3.1, the use for metrics.
    """
    points = rng.random((n_initial, n_dims))
    values = objective(points)
    for iteration in range(n_iterations):
        standardised_values = _standardise_values(values)
        if iteration % _REFIT == 0:
            length_scale, noise_variance = _fit_hyperparameters(points, standardised_values)
        next_point = _propose_candidate(
            _expected_improvement(points, standardised_values, length_scale, noise_variance),
            points[np.argsort(-standardised_values, kind="stable")[:_STARTS]],
            rng,
        )
        points, values = np.concatenate([points, next_point]), np.concatenate([values, objective(next_point)])
    return np.full(n_dims, np.nan) if np.isnan(values).all() else np.asarray(points[np.nanargmax(values)])


def _standardise_values(objective_values: Floats) -> Floats:
    """Values with mean 0 and variance 1, after each NaN is replaced by the lowest value; all 0 if the values are
    equal."""
    lowest_value = np.nan_to_num(np.fmin.reduce(objective_values), nan=0.0)
    filled_values = np.where(np.isnan(objective_values), lowest_value, objective_values)
    is_constant = filled_values.std() <= _ROUNDING * np.abs(filled_values).max()
    return np.asarray((filled_values - filled_values.mean()) / (np.inf if is_constant else filled_values.std()))


def _kernel(row_points: Floats, column_points: Floats, length_scales: Floats | float) -> Floats:
    """Matern 5/2 kernel (..., m, n) of points (m, n_dims) and points (n, n_dims), for each length scale (..., 1, 1)."""
    from scipy.spatial.distance import cdist

    distances = math.sqrt(5) * cdist(row_points, column_points) / length_scales
    return np.asarray((1 + distances + distances * distances / 3) * np.exp(-distances))


def _fit_hyperparameters(points: Floats, standardised_values: Floats) -> tuple[float, float]:
    """Length scale and noise with the largest marginal likelihood. The scale of the process is optimised in closed
    form."""
    n_points, n_dims = points.shape
    length_scales, noise_variances = np.array([*product(_LENGTHS * math.sqrt(n_dims), _NOISES)]).T
    kernel_matrices = _kernel(points, points, length_scales[:, np.newaxis, np.newaxis])
    cholesky_factors = np.linalg.cholesky(
        kernel_matrices + noise_variances[:, np.newaxis, np.newaxis] * np.eye(n_points)
    )
    whitened_values = np.linalg.solve(cholesky_factors, standardised_values[:, np.newaxis])[..., 0]
    process_variances = np.maximum((whitened_values * whitened_values).mean(axis=1), _TINY)
    half_log_determinants = np.log(np.diagonal(cholesky_factors, axis1=1, axis2=2)).sum(axis=1)
    best_index = int(np.argmin(n_points / 2 * np.log(process_variances) + half_log_determinants))
    return float(length_scales[best_index]), float(noise_variances[best_index])


def _expected_improvement(
    points: Floats, standardised_values: Floats, length_scale: float, noise_variance: float
) -> Callable[[Floats], Floats]:
    """Condition the Gaussian process on values at points (n, n_dims), and return a function from candidates (m, n_dims)
    to their expected improvement (m,) over the best value."""
    from scipy.special import ndtr

    kernel_matrix = _kernel(points, points, length_scale)
    whitening_matrix = np.linalg.inv(np.linalg.cholesky(kernel_matrix + noise_variance * np.eye(len(points))))
    whitened_values = whitening_matrix @ standardised_values
    process_sd = math.sqrt(max(float(whitened_values @ whitened_values) / len(points), _TINY))

    def improvement(candidates: Floats) -> Floats:
        whitened_correlations = _kernel(candidates, points, length_scale) @ whitening_matrix.T
        explained_variances = np.vecdot(whitened_correlations, whitened_correlations)
        posterior_sds = process_sd * np.sqrt(np.maximum(1 - explained_variances, 1e-12))
        gains = (whitened_correlations @ whitened_values - standardised_values.max()) / posterior_sds
        return np.asarray(posterior_sds * (gains * ndtr(gains) + (np.exp(-gains * gains / 2) / math.sqrt(2 * math.pi))))

    return improvement


def _propose_candidate(
    expected_improvement: Callable[[Floats], Floats], best_points: Floats, rng: np.random.Generator
) -> Floats:
    """Candidate (1, n_dims) with the largest expected improvement.

    The first candidates are random points and points near the best points. In each of several rounds, points near the
    best candidates are added.
    """
    candidates = np.concatenate([rng.random((_RANDOM, best_points.shape[1])), _perturb_points(best_points, rng)])
    improvements = expected_improvement(candidates)
    for _ in range(_ROUNDS):
        best_indices = np.argsort(-improvements, kind="stable")[:_STARTS]
        perturbed_points = _perturb_points(candidates[best_indices], rng)
        candidates = np.concatenate([candidates[best_indices], perturbed_points])
        improvements = np.concatenate([improvements[best_indices], expected_improvement(perturbed_points)])
    return np.asarray(candidates[[np.argmax(improvements)]])


def _perturb_points(points: Floats, rng: np.random.Generator) -> Floats:
    """Randomly selected points, with some coordinates moved by normal steps of several sizes. The results lie in the
    cube."""
    start_points = points[rng.integers(0, len(points), _LOCAL)]
    is_moved_coordinate = rng.random(start_points.shape) < _MOVED / start_points.shape[1]
    step_sizes = np.exp(rng.uniform(math.log(_STEPS[0]), math.log(_STEPS[1]), (_LOCAL, 1)))
    moves = is_moved_coordinate * step_sizes * rng.normal(size=start_points.shape)
    return np.asarray(np.clip(start_points + moves, 0.0, 1.0))
