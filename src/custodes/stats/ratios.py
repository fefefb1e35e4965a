"""Ratios, and means of defined values, without warnings. A result is NaN where it is undefined."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def ratio(numerator: NDArray[Any], denominator: NDArray[Any]) -> NDArray[np.float64]:
    """numerator / denominator; NaN where the denominator is 0 or negative.

    >>> ratio(np.array([1, 0]), np.array([2, 0])).tolist()
    [0.5, nan]
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(np.asarray(denominator) > 0, np.divide(numerator, denominator, dtype=np.float64), np.nan)


def mean_of_defined(values: NDArray[Any], *, axis: int = -1) -> NDArray[np.float64]:
    """Mean over an axis of the values that are not NaN; NaN if there are none.

    >>> mean_of_defined(np.array([[1.0, np.nan, 2.0], [np.nan, np.nan, np.nan]])).tolist()
    [1.5, nan]
    """
    is_defined = ~np.isnan(values)
    return ratio(np.where(is_defined, values, 0.0).sum(axis=axis), is_defined.sum(axis=axis))
