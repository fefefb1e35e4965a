"""Sequential tests: group-sequential boundaries, estimates after the last analysis, the predictive probability of a
decision, and Wald's test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats, Ints, bisect_condition, legendre
from custodes.stats.intervals import Inference

_NODES = 32  # minimum number of Gauss-Legendre nodes
_NODES_A_SD = 2  # additional nodes per unit of the distance between the bounds, in standard deviations of a step
_REACH = 12.0  # search range, in standard errors around the fixed-sample estimate


Shape = Callable[[Floats], Floats]

BOUNDARIES: dict[str, Shape | None] = {
    "none": None,
    "pocock": np.ones_like,
    "obrien-fleming": lambda share: 1 / np.sqrt(share),
}
"""Shapes of boundaries; the first is the default.

A shape gives the relative |z| that an interim analysis requires, as a function of the analysis's fraction of the final
information. If the shape is None, every single analysis has the full level.
"""


def group_sequential_bounds(information: Sequence[float] | Floats, *, shape: Shape | None, level: float) -> Floats:
    """Return the critical |z| (looks,) at each analysis, given the increasing `information` (looks,).

    If there is no difference, the probability that |z| ever crosses its bound is `level`. Without a `shape`, `level` is
    instead the probability that a single analysis crosses its bound. Information can have any unit, such as the number
    of annotations.

    >>> group_sequential_bounds([1, 2, 3], shape=BOUNDARIES["pocock"], level=0.05).round(3).tolist()
    [2.289, 2.289, 2.289]
    >>> group_sequential_bounds([1, 2, 3, 4, 5], shape=BOUNDARIES["obrien-fleming"], level=0.05).round(2).tolist()
    [4.56, 3.23, 2.63, 2.28, 2.04]

    Source: Pocock 1977; O'Brien and Fleming 1979; the recursion of Armitage, McPherson and Rowe 1969.
    """
    from scipy.special import ndtri

    information_fractions = np.asarray(information, dtype=np.float64)
    information_fractions = information_fractions / information_fractions[-1]
    # the critical |z| of a single analysis, and Bonferroni's critical |z| for this number of analyses
    single_bound, bonferroni_bound = -ndtri(level / 2), -ndtri(level / 2 / len(information_fractions))
    if shape is None or len(information_fractions) == 1:
        return np.full(len(information_fractions), single_bound)
    relative_bounds = shape(information_fractions)
    bound_factor = bisect_condition(
        lambda factor: crossing_probability(factor * relative_bounds, information_fractions) > level,
        single_bound * 0.999,
        bonferroni_bound * 1.001,
        steps=40,
    )
    return np.asarray(bound_factor * relative_bounds)


def crossing_probability(bounds: Floats, information: Floats) -> float:
    """Return the probability that |z| exceeds its bound in at least one analysis if there is no difference.

    Bounds and information have shape (looks,). The density of the score is truncated at each bound and propagated to
    the next analysis by Gauss-Legendre quadrature.

    >>> round(crossing_probability(np.array([1.96, 1.96]), np.array([1.0, 2.0])), 3)
    0.083

    Source: Armitage, McPherson and Rowe 1969 (their Table 2: 0.083 for two looks at 5 %).
    """
    return float(1 - _propagate_density(np.asarray(bounds), np.asarray(information, dtype=np.float64))[-1][1].sum())


def upper_tail(bounds: Floats, information: Floats) -> Callable[[Floats, Floats], Floats]:
    """Return a function from drifts (m,) and scores (m,) to the probability (m,) of a result at least as large as the
    score at the last analysis.

    `bounds` and `information` (looks,) are the required |z| and the information at each analysis; the bound of the last
    analysis is not used. A result also counts as larger if the score crossed the upper bound at an earlier analysis.
    The score is sufficient for the drift: a drift multiplies the mass at x by exp(drift x - drift^2 information / 2).
    Therefore the distribution of the scores within the earlier bounds is computed only once, without a drift.
    """
    from scipy.special import ndtr

    nodes_and_masses = [(np.zeros(1), np.ones(1))]
    if len(information) > 1:
        nodes_and_masses += _propagate_density(bounds[:-1], information[:-1])
    score_bounds = bounds[:-1] * np.sqrt(information[:-1])
    information_before, step_sds = np.append(0.0, information[:-1]), np.sqrt(np.diff(information, prepend=0.0))

    def tail_probability(drift: Floats, score: Floats) -> Floats:
        probability, drift_column = np.zeros(len(drift)), drift[:, np.newaxis]
        upper_edges = np.column_stack([np.tile(score_bounds, (len(score), 1)), score]).T[..., np.newaxis]
        for (nodes, node_masses), node_information, step_sd, upper_edge in zip(
            nodes_and_masses, information_before, step_sds, upper_edges, strict=True
        ):
            drifted_masses = node_masses * np.exp(drift_column * nodes - drift_column**2 * node_information / 2)
            distances = (nodes + drift_column * step_sd**2 - upper_edge) / step_sd
            probability += (drifted_masses * ndtr(distances)).sum(axis=1)
        return probability

    return tail_probability


def _propagate_density(bounds: Floats, information: Floats) -> list[tuple[Floats, Floats]]:
    """Return for each analysis the nodes of scores that are within its bound and all earlier bounds, and their mass."""
    step_sds = np.sqrt(np.diff(information, prepend=0.0))
    score_bounds = bounds * np.sqrt(information)
    largest_relative_width = float((2 * score_bounds[1:] / step_sds[1:]).max(initial=0.0))
    unit_nodes, unit_weights = legendre(_NODES + int(np.ceil(_NODES_A_SD * largest_relative_width)))
    nodes = score_bounds[0] * unit_nodes
    nodes_and_masses = [(nodes, score_bounds[0] * unit_weights * _normal_density(nodes / step_sds[0]) / step_sds[0])]
    for score_bound, step_sd in zip(score_bounds[1:], step_sds[1:], strict=True):
        next_nodes = score_bound * unit_nodes
        next_node_densities = (
            _normal_density((next_nodes[:, np.newaxis] - nodes) / step_sd) @ nodes_and_masses[-1][1] / step_sd
        )
        nodes = next_nodes
        nodes_and_masses.append((next_nodes, score_bound * unit_weights * next_node_densities))
    return nodes_and_masses


def stagewise(margin: Floats, error: Floats, *, n_annotations: Ints, bounds: Floats, level: float) -> Inference:
    """Return estimates and intervals of margins after group-sequential analyses, by stage-wise ordering.

    `margin` and `error` (pairs,) are the margins and standard errors at the last analysis of these pairs.
    `n_annotations` (looks,) is the number of annotations at each analysis up to the last, and `bounds` (looks,) the
    required |z|. The stage-wise ordering says which of two results is larger. A result is larger if its pair crossed
    the upper bound at an earlier analysis, or if it stopped at the same analysis with a larger score. The estimate is
    median-unbiased: it is the margin at which a result at least as large as the observed result has probability 1/2.
    The lower and upper bounds are the margins at which the probability of such a result is `level` / 2 and 1 - `level`
    / 2, clipped to [-1, 1]. With a single analysis, the interval is margin -+ z error. All results are NaN for a pair
    without a standard error. The last analysis is treated as if it had been planned, so that stopping for futility is
    not taken into account.

    >>> after = stagewise(np.array([0.5, 0.2]), np.array([0.2, 0.2]), n_annotations=np.array([10, 20]),
    ...     bounds=np.array([2.178, 2.178]), level=0.05)
    >>> after.estimate.round(2).tolist(), after.low.round(2).tolist(), after.high.round(2).tolist()
    ([0.47, 0.2], [0.03, -0.19], [0.87, 0.59])

    Source: Fairbanks and Madsen 1982; Tsiatis, Rosner and Mehta 1984; Jennison and Turnbull 2000, Chapter 8.
    """
    margin, error = np.asarray(margin, dtype=np.float64), np.asarray(error, dtype=np.float64)
    inference_rows = np.full((4, len(margin)), np.nan)
    is_defined_pair = np.isfinite(margin) & (error > 0) & np.isfinite(error)
    if not is_defined_pair.any():
        return Inference(*inference_rows)
    # An analysis without new information is merged with the previous analysis; the smaller bound applies.
    distinct_n_annotations, first_analysis_indices = np.unique(n_annotations, return_index=True)
    information = distinct_n_annotations.astype(np.float64)
    tail_probability = upper_tail(
        np.minimum.reduceat(np.asarray(bounds, dtype=np.float64), first_analysis_indices), information
    )
    z_scores = margin[is_defined_pair] / error[is_defined_pair]
    margin_per_drift = error[is_defined_pair] * np.sqrt(information[-1])
    drift_estimate, upper_drift_bound, lower_drift_bound, p_values = _infer_drift(
        tail_probability, np.abs(z_scores) * np.sqrt(information[-1]), information[-1], level=level
    )
    # Losses are computed as mirrored wins, so that swapping the systems negates all results exactly.
    low, high = (
        np.where(z_scores < 0, -upper_drift_bound, lower_drift_bound) * margin_per_drift,
        np.where(z_scores < 0, -lower_drift_bound, upper_drift_bound) * margin_per_drift,
    )
    half_width = (high - low) / 2
    is_zero_margin = z_scores == 0
    inference_rows[:, is_defined_pair] = (
        np.where(is_zero_margin, 0.0, np.where(z_scores < 0, -drift_estimate, drift_estimate) * margin_per_drift),
        np.where(is_zero_margin, -half_width, low),
        np.where(is_zero_margin, half_width, high),
        p_values,
    )
    inference_rows[:3] = np.clip(inference_rows[:3], -1, 1)
    return Inference(*inference_rows)


def _infer_drift(
    tail_probability: Callable[[Floats, Floats], Floats], score: Floats, final_information: float, *, level: float
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the drifts (m,) at which a result at least as large as each score (m,) has probability 1/2, 1 - level/2
    and level/2. Also return the p-values (m,)."""
    target_probabilities, repeated_scores = np.repeat([0.5, 1 - level / 2, level / 2], len(score)), np.tile(score, 3)
    drift_centres, search_half_widths = repeated_scores / final_information, _REACH / np.sqrt(final_information)
    drifts = bisect_condition(
        lambda drifts: tail_probability(drifts, repeated_scores) < target_probabilities,
        drift_centres - search_half_widths,
        drift_centres + search_half_widths,
    )
    p_upper = tail_probability(np.zeros(len(score)), score)
    return (*drifts.reshape(3, -1), 2 * np.minimum(p_upper, 1 - p_upper))


def predictive_probability(
    margin: NDArray[Any], sd: NDArray[Any], *, information_share: NDArray[Any], bound: float | Floats
) -> Floats:
    """Return the probability (...) that an undecided pair will be decided at its last analysis.

    `margin` and `sd` (...) are the current margin and its standard error. `information_share` (...) is the current
    number of annotations as a proportion of the number at the last analysis. `bound` is the |z| that the last analysis
    requires. The probability is a normal approximation. The standard error at the last analysis will be sd *
    sqrt(share). The margin at the last analysis varies around the current margin with the remaining variance. At a
    share of 1, the probability is 0 or 1.

    >>> margin, sd, share = np.array([0.0, 0.3]), np.array([0.1, 0.1]), np.array([0.5, 0.5])
    >>> predictive_probability(margin, sd, information_share=share, bound=1.96).round(3)
    array([0.05 , 0.989])

    Source: Spiegelhalter, Freedman and Blackburn 1986.
    """
    from scipy.special import ndtr

    margin, sd, information_share = (
        np.asarray(argument, dtype=np.float64) for argument in (margin, sd, information_share)
    )
    required_margin = bound * sd * np.sqrt(information_share)
    remaining_sd = sd * np.sqrt(np.maximum(1 - information_share, 0.0))
    margin_excess = np.stack([margin - required_margin, -margin - required_margin])
    with np.errstate(divide="ignore", invalid="ignore"):
        tail_probabilities = np.where(remaining_sd > 0, ndtr(margin_excess / remaining_sd), margin_excess > 0)
    return np.asarray(tail_probabilities.sum(axis=0))


def sprt(
    n_right: int, n_wrong: int, *, good: float = 0.85, bad: float = 0.45, alpha: float = 0.02, beta: float = 0.1
) -> int:
    """Test an annotator's accuracy on comparisons with known answers by Wald's sequential test.

    The result is 1 for a good annotator, -1 for a bad annotator, and 0 if the test is undecided. `good` and `bad` are
    the accuracies to be distinguished. `alpha` is the maximum probability that a good annotator is ever classified as
    bad, `beta` the maximum probability that a bad annotator is ever classified as good. The test may be repeated after
    every answer; the error rates `alpha` and `beta` hold if the test stops at the first 1 or -1.

    >>> [sprt(right, wrong) for right, wrong in ((3, 0), (4, 0), (0, 2), (1, 4), (10, 2))]
    [0, 1, 0, -1, 1]

    Source: Wald 1945, "Sequential tests of statistical hypotheses".
    """
    log_ratio = n_right * log(bad / good) + n_wrong * log((1 - bad) / (1 - good))
    return -1 if log_ratio >= log((1 - beta) / alpha) else 1 if log_ratio <= log(beta / (1 - alpha)) else 0


def _normal_density(z: Floats) -> Floats:
    return np.asarray(np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi))
