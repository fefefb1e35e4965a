"""Correlations of the latent normal variables behind verdicts (win, tie or loss).

If a judge gives hardly any ties and annotators give many (or the reverse), their verdicts depend on quality through
curves of different shapes. The latent correlations do not depend on these curves. They are computed within strata
(pairs of systems), so that only variation between items has an effect, not differences between systems.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats, Ints, Signs, chunks
from custodes.stats.ranks import ranks_within
from custodes.stats.ratios import ratio

GRID = 0.999 * np.sin(np.linspace(-np.pi / 2, np.pi / 2, 129))  # denser where the correlation is high


def normal_scores(values: Floats, strata: Ints) -> Floats:
    """Normal scores (n,) of values (n,) within each stratum (n,), with mean 0 and variance 1; 0 if all values are
    equal.

    >>> normal_scores(np.array([2.0, -1.0, 0.5, 7.0, 7.0]), np.array([0, 0, 0, 1, 1])).round(2).tolist()
    [1.22, -1.22, 0.0, 0.0, 0.0]

    Source: van der Waerden 1952.
    """
    from scipy.special import ndtri

    count = np.bincount(strata)
    scores = stratum_deviations(ndtri(ranks_within(values, strata) / (count[strata] + 1)), strata)
    score_sd = np.sqrt(np.bincount(strata, scores**2) / np.maximum(count, 1))[strata]
    return np.where(score_sd > 1e-9, scores / np.maximum(score_sd, 1e-9), 0.0)


def stratum_deviations(values: NDArray[Any], strata: Ints) -> Floats:
    """Values (n,) minus the mean of their stratum (n,).

    >>> stratum_deviations(np.array([1, 0, 1]), np.array([0, 0, 1])).tolist()
    [0.5, -0.5, 0.0]
    """
    mean = np.bincount(strata, values) / np.maximum(np.bincount(strata), 1)
    return np.asarray(values - mean[strata])


def cuts(verdicts: Signs, strata: Ints, n: int) -> Floats:
    """Thresholds of a latent normal variable in each of n strata: (n, 2).

    The first threshold is between loss and tie, the second between tie and win. They are estimated from verdicts (m,)
    with their strata (m,). Half a verdict is added to each side, so that both thresholds are finite if one side always
    won.

    >>> cuts(np.array([1, 1, 0, -1], dtype=np.int8), np.zeros(4, dtype=int), 1).round(2).tolist()
    [[-0.52, 0.0]]
    """
    from scipy.special import ndtri

    losses, wins = (np.bincount(strata[verdicts == outcome], minlength=n) for outcome in (-1, 1))
    n_verdicts = np.bincount(strata, minlength=n)
    return np.asarray(ndtri(np.stack([losses + 0.5, n_verdicts - wins + 0.5], axis=1) / (n_verdicts + 1)[:, None]))


def polychoric_correlation(product: NDArray[Any], first: Floats, second: Floats, *, weight: NDArray[Any]) -> Floats:
    """Latent correlation of two raters' verdicts (1, 0, -1), common to all strata (polychoric).

    `product` (...) is the mean product of the two verdicts, each centred within strata. `first` and `second` (strata,
    2) are the thresholds of the two raters (see `cuts`). `weight` (strata,) is the number of verdicts per stratum.

    In one stratum without ties and with centred verdicts, the correlation is sin(pi/2 times the mean product). Products
    that exceed those of a correlation of .999 are clipped.

    >>> middle = np.zeros((1, 2))
    >>> polychoric_correlation(np.array([1 / 3, -1 / 3]), middle, middle, weight=np.ones(1)).round(4).tolist()
    [0.5, -0.5]

    Source: Pearson 1900 (tetrachoric), Olsson 1979 (polychoric correlations); Plackett 1954 for the derivative of the
    bivariate normal integral.
    """
    residual_variance = 1 - GRID**2
    density_sums = np.zeros(len(GRID))
    for chunk in chunks(len(weight), len(GRID)):
        for a in first[chunk].T[..., None]:
            for b in second[chunk].T[..., None]:
                density_sums += weight[chunk] @ np.exp(-(a**2 + b**2 - 2 * GRID * a * b) / (2 * residual_variance))
    # An integral over the angle, for which the density stays bounded.
    density_sums /= 2 * np.pi * np.maximum(weight.sum(), 1e-12)
    angle_steps = np.diff(np.arcsin(GRID))
    expected_products = np.concatenate([[0.0], np.cumsum(angle_steps * (density_sums[1:] + density_sums[:-1]) / 2)])
    zero_index = (len(GRID) - 1) // 2
    return np.asarray(np.interp(product, expected_products - expected_products[zero_index], GRID))


def polyserial_correlation(product: NDArray[Any], cut: Floats, *, weight: NDArray[Any]) -> Floats:
    """Polyserial correlation between the latent variable behind verdicts and a score.

    The score is standard normal in each stratum. `product` (...) is the mean product of verdict and score. `cut`
    (strata, 2) are the thresholds of the verdicts (see `cuts`), and `weight` (strata,) is the number of verdicts per
    stratum.

    >>> product = np.array([np.sqrt(2 / np.pi) / 2])
    >>> polyserial_correlation(product, np.zeros((1, 2)), weight=np.ones(1)).round(4).tolist()
    [0.5]

    Source: Pearson 1909 (biserial correlation), with two thresholds.
    """
    return np.asarray(np.clip(ratio(np.asarray(product) * weight.sum(), weight @ density(cut)), -0.999, 0.999))


def density(cut: Floats) -> Floats:
    """Sum of the normal densities at both thresholds `cut` (..., 2): the mean product of a verdict and its latent
    variable.

    >>> density(np.zeros((1, 2))).round(2).tolist()
    [0.8]
    """
    return np.asarray(np.exp(-(cut**2) / 2).sum(axis=-1) / np.sqrt(2 * np.pi))
