"""What a number means: the bounds of a rater's scale and its direction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FEW_RATINGS = 20
"""Below this many ratings per person's range says nothing about the scale."""

LEAST_OVERLAP = 0.2
"""Two ranges that share less of their union than this are taken for two scales (a 1-5 rater who never went under 4
shares .25 with one who used it all; MQM penalties and 0-100 direct assessments share 0)."""

BEYOND = 0.05
"""Share of scores beyond declared bounds that is worth a warning."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Bounds of a rater's scores; declared in a raters file, else the range seen.

    >>> Scale(low=1, high=5).comparable(Scale(low=0, high=100))
    False
    """

    low: float
    high: float
    n: int = FEW_RATINGS
    declared: bool = False

    @classmethod
    def seen(cls, scores: NDArray[np.float64]) -> Scale:
        """The range of the scores a rater gave (NaN ignored)."""
        defined = scores[np.isfinite(scores)]
        if not defined.size:
            return cls(low=np.nan, high=np.nan, n=0)
        return cls(low=float(defined.min()), high=float(defined.max()), n=defined.size)

    def comparable(self, other: Scale) -> bool:
        """Whether averaging scores of the two makes sense: equal declared bounds, or ranges that overlap enough."""
        if self.declared and other.declared:
            return self.low == other.low and self.high == other.high
        if min(self.n, other.n) < FEW_RATINGS:
            return True
        union = max(self.high, other.high) - min(self.low, other.low)
        if union == 0:
            return True
        shared = min(self.high, other.high) - max(self.low, other.low)
        narrowest = min(self.high - self.low, other.high - other.low)
        if narrowest == 0:
            # A constant rater shows one point of the scale; inside the other's range it proves nothing.
            return shared >= 0
        return shared / union >= LEAST_OVERLAP


LEAST_TOP = 3
"""A scale from below 0 to under this may be meant: -1, 0, 1, 2."""


@dataclass(frozen=True, kw_only=True)
class MissingCode:
    """A value that stands `n` times among scores from `low` to `high`, and may mean that there is none."""

    value: float
    n: int
    low: float
    high: float

    def __str__(self) -> str:
        return (
            f"{self.value:g} occurs {self.n} times among scores from {self.low:g} to {self.high:g}; "
            "if it means missing, leave the cell empty"
        )

    @classmethod
    def of(cls, scores: NDArray[np.float64]) -> MissingCode | None:
        """The lowest or highest value, where it is so: the one negative whole number below a scale that begins at 0 or
        above, or one written with nines only (99, -999) that is further off than the scale is wide."""
        values, counts = np.unique(scores[np.isfinite(scores)], return_counts=True)
        for at, rest in ((0, values[1:]), (-1, values[:-1])):
            if len(rest) < 2 or counts.sum() < FEW_RATINGS:
                continue
            value, low, high = float(values[at]), float(rest[0]), float(rest[-1])
            below = value < 0 <= low and value.is_integer() and high >= LEAST_TOP
            nines = value.is_integer() and abs(value) > 9 and set(str(int(abs(value)))) == {"9"}
            if below or (nines and max(low - value, value - high) > high - low):
                return cls(value=value, n=int(counts[at]), low=low, high=high)
        return None
