"""Logit slopes: by how much a longer output is preferred, plainly and with people's verdicts held fixed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from custodes.stats.arrays import Floats, Ints, Signs
from custodes.stats.bootstrap import unit_sums
from custodes.stats.intervals import student_quantile

STEPS = 50
LARGEST = 30.0  # a slope beyond is no estimate: the data are separated


class Slopes(NamedTuple):
    """Three slopes on length with the ends of their intervals, (3,) each: of the judge alone, of the judge with
    people's verdicts held fixed, of people alone; NaN where there is none."""

    slope: Floats
    low: Floats
    high: Floats


def logit_slopes(judge: Signs, people: Floats, length: Floats, *, units: Ints, confidence: float) -> Slopes:
    """Logistic regressions without an intercept (swapping two systems turns all signs) on the log ratio of lengths.

    judge (n,) verdicts 1, 0, -1; people (n,) mean verdicts, NaN where nobody gave one; length (n,), units (n,) the
    clusters. Ties are left out. Standard errors by clusters. The middle slope holds noisy people
    fixed, so quality that goes with length is left in it: it describes, and tests nothing.

    >>> length, units = np.tile([-1.0, 1.0], 50), np.arange(100)
    >>> judge = np.sign(length).astype(np.int8) * np.where(np.arange(100) % 4 < 3, 1, -1).astype(np.int8)
    >>> made = logit_slopes(judge, np.full(100, np.nan), length, units=units, confidence=0.95)
    >>> f"{made.slope[0]:.2f}", bool(np.isnan(made.slope[1]))
    ('1.10', True)

    Source: Zheng et al. 2023 and Dubois et al. 2024 regress verdicts on length; Liang and Zeger 1986 for the errors.
    """
    decided = judge != 0
    judge, people, length, units = judge[decided], people[decided], length[decided], units[decided]
    known = np.isfinite(people)
    fits = [
        _fit(judge.astype(np.float64), length[:, None], units, confidence),
        _fit(
            judge[known].astype(np.float64), np.stack([length[known], people[known]], axis=1), units[known], confidence
        ),
        _fit(people[known], length[known, None], units[known], confidence),
    ]
    return Slopes(*np.array(fits).T)


def _fit(outcome: Floats, design: Floats, units: Ints, confidence: float) -> tuple[float, float, float]:
    """The first slope with its interval, by Newton's method."""
    unknown = (np.nan, np.nan, np.nan)
    names, units = np.unique(units, return_inverse=True)
    if len(names) < 2 or np.linalg.matrix_rank(design) < design.shape[1]:
        return unknown
    target, slope = (1 + outcome) / 2, np.zeros(design.shape[1])
    for _ in range(STEPS):
        chance = 1 / (1 + np.exp(-np.clip(design @ slope, -LARGEST, LARGEST)))
        information = (design * (chance * (1 - chance))[:, None]).T @ design
        if np.linalg.cond(information) > 1e12:
            return unknown
        step = np.linalg.solve(information, design.T @ (target - chance))
        slope = slope + step
        if np.abs(step).max() < 1e-10:
            break
    if np.abs(slope).max() > LARGEST:
        return unknown
    scores = unit_sums((design * (target - chance)[:, None]).T, units=units, n_units=len(names))
    inverse = np.linalg.inv(information)
    error = np.sqrt((inverse @ (scores @ scores.T) @ inverse)[0, 0] * len(names) / (len(names) - 1))
    reach = student_quantile(confidence, len(names)) * error
    return float(slope[0]), float(slope[0] - reach), float(slope[0] + reach)
