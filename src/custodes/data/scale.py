"""Rating scales: bounds and direction of a rater's scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FEW_RATINGS = 20
"""Minimum number of ratings per annotator for which the observed range is informative about the scale."""

LEAST_OVERLAP = 0.2
"""Minimum overlap of the ranges of two raters, relative to the union of the ranges, if both raters use one scale. A
rater who used 4 to 5 of a scale from 1 to 5 has an overlap of .25 with a rater who used the full scale; MQM penalties
and 0-100 direct assessments have an overlap of 0."""

RANGE_MARGIN = 0.05
"""Proportion of scores outside declared bounds that gives a warning."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Bounds of a rater's scores, as declared in a raters file. Without a declaration, the bounds are the observed
    range.

    >>> Scale(low=1, high=5).comparable(Scale(low=0, high=100))
    False
    """

    low: float
    high: float
    n: int = FEW_RATINGS
    declared: bool = False

    @classmethod
    def from_scores(cls, scores: NDArray[np.float64]) -> Scale:
        """The observed range of the scores of a rater; NaN is ignored."""
        finite_scores = scores[np.isfinite(scores)]
        if not finite_scores.size:
            return cls(low=np.nan, high=np.nan, n=0)
        return cls(low=float(finite_scores.min()), high=float(finite_scores.max()), n=finite_scores.size)

    def comparable(self, other: Scale) -> bool:
        """Whether scores on this scale and the scale `other` can be averaged.

        The declared bounds must be equal, or the observed ranges must overlap enough.
        """
        if self.declared and other.declared:
            return self.low == other.low and self.high == other.high
        if min(self.n, other.n) < FEW_RATINGS:
            return True
        union_width = max(self.high, other.high) - min(self.low, other.low)
        if union_width == 0:
            return True
        overlap_width = min(self.high, other.high) - max(self.low, other.low)
        smaller_width = min(self.high - self.low, other.high - other.low)
        if smaller_width == 0:
            # A constant rater uses only one point of the scale. If this point is in the range of the other rater,
            # nothing shows that the scales differ.
            return overlap_width >= 0
        return overlap_width / union_width >= LEAST_OVERLAP


LEAST_TOP = 3
"""A scale that starts below 0 and ends below this value may be intended: -1, 0, 1, 2."""


@dataclass(frozen=True, kw_only=True)
class MissingCode:
    """A value that occurs `n` times among scores from `low` to `high`, and that may be a code for a missing score."""

    value: float
    n: int
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:g} occurs {self.n} times among scores from {self.low:.4g} to {self.high:.4g}"

    @classmethod
    def from_scores(cls, scores: NDArray[np.float64]) -> MissingCode | None:
        """The lowest or highest value, if this value may be a code for a missing score; otherwise None.

        A value may be a code in two cases. In the first case, the value is the only negative integer, and the other
        values start at 0 or above and end at `LEAST_TOP` or above. In the second case, all digits of the value are
        nines (99, -999), and the distance of the value to the other values is larger than their range.
        """
        values, counts = np.unique(scores[np.isfinite(scores)], return_counts=True)
        for index, other_values in ((0, values[1:]), (-1, values[:-1])):
            if len(other_values) < 2 or counts.sum() < FEW_RATINGS:
                continue
            value, low, high = float(values[index]), float(other_values[0]), float(other_values[-1])
            is_negative_code = value < 0 <= low and value.is_integer() and high >= LEAST_TOP
            is_nines = value.is_integer() and abs(value) > 9 and set(str(int(abs(value)))) == {"9"}
            if is_negative_code or (is_nines and max(low - value, value - high) > high - low):
                return cls(value=value, n=int(counts[index]), low=low, high=high)
        return None
