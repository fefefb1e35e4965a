"""Correlations behind verdicts: of what a rater sees before it says win, tie or loss, if that is normal.

A judge may be steep (hardly ever unsure) and people flat, or the reverse; their verdicts then hang on quality by curves
of unlike shape. The correlations behind the verdicts do not depend on these curves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats

GRID = 0.999 * np.sin(np.linspace(0.0, np.pi / 2, 257))  # closer together where the correlation is high


def normal_scores(values: Floats) -> Floats:
    """Differences (n,) as normal scores of their size with their sign, so that swapping two things turns the sign.

    >>> normal_scores(np.array([2.0, -1.0, 0.0])).round(2).tolist()
    [1.15, -0.67, 0.0]
    """
    from scipy.special import ndtri
    from scipy.stats import rankdata

    ranks = rankdata(np.abs(values)) / (len(values) + 1)
    return np.asarray(np.sign(values) * ndtri((1 + ranks) / 2))


def threshold(ties: NDArray[Any]) -> Floats:
    """How large a normal difference must be not to tie, from the share of ties (...).

    >>> threshold(np.array([0.0, 0.3829])).round(3).tolist()
    [0.0, 0.5]
    """
    from scipy.special import ndtri

    return np.asarray(ndtri((1 + np.clip(ties, 0.0, 1 - 1e-9)) / 2))


def behind_verdicts(product: NDArray[Any], first: float | Floats, second: float | Floats) -> Floats:
    """The correlation behind two raters' verdicts (1, 0, -1): of the mean of their products (...) and both thresholds.

    Without ties it is sin(pi/2 times the mean). Products beyond what a correlation of .999 gives are cut.

    >>> behind_verdicts(np.array([1 / 3, -1 / 3]), 0.0, 0.0).round(4).tolist()
    [0.5, -0.5]

    Source: Pearson 1900 (tetrachoric), Olsson 1979 (polychoric correlations); Plackett 1954 for the derivative of the
    bivariate normal integral.
    """
    spare = 1 - GRID**2

    def density(a: float | Floats, b: float | Floats) -> Floats:
        return np.asarray(np.exp(-(a**2 + b**2 - 2 * GRID * a * b) / (2 * spare)) / (2 * np.pi * np.sqrt(spare)))

    height = 2 * (density(first, second) + density(first, -second))
    # An integral over the angle, where the density stays bounded.
    steps = np.diff(np.arcsin(GRID))
    height = height * np.sqrt(spare)
    mean = np.concatenate([[0.0], np.cumsum(steps * (height[1:] + height[:-1]) / 2)])
    return np.asarray(np.sign(product) * np.interp(np.abs(product), mean, GRID))


def behind_verdict_and_score(product: NDArray[Any], cut: float | Floats) -> Floats:
    """The correlation of what is behind verdicts with a standard normal score, from the mean product (...).

    >>> behind_verdict_and_score(np.array([np.sqrt(2 / np.pi) / 2]), 0.0).round(4).tolist()
    [0.5]

    Source: Pearson 1909 (biserial correlation), with a threshold on both sides.
    """
    density = np.exp(-(cut**2) / 2) / np.sqrt(2 * np.pi)
    return np.asarray(np.clip(np.asarray(product) / (2 * density), -0.999, 0.999))
