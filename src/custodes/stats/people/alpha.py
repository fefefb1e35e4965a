"""Krippendorff's alpha: how much less people disagree than by chance."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats, Ints
from custodes.stats.people.answers import Answers
from custodes.stats.ratios import ratio

Scale = Literal["nominal", "ordinal"]


def of_two(table: NDArray[Any]) -> Floats:
    """Coincidences of two codings of the same things: counts (..., k, k) of one by the other -> (..., k, k)."""
    paired = np.asarray(table, dtype=np.float64)
    return paired + np.swapaxes(paired, -1, -2)


def coincidences(answers: Answers, *, units: Ints, n_units: int) -> Floats:
    """How often two labels of a task meet, in each unit of tasks: units (tasks,) -> (units, labels, labels).

    Each answer of a task with m answers meets m - 1 others and counts once; tasks with one answer do not count.
    """
    votes, asked = answers.votes, answers.asked
    share = np.where(asked > 1, 1 / np.maximum(asked - 1, 1), 0.0)
    made = np.zeros((n_units, answers.n_labels, answers.n_labels))
    for one in range(answers.n_labels):
        for other in range(one + 1):
            met = votes[:, one] * (votes[:, other] - (one == other)) * share
            made[:, one, other] = made[:, other, one] = np.bincount(units, weights=met, minlength=n_units)
    return made


def alpha(coincidences: NDArray[Any], *, scale: Scale) -> Floats:
    """Krippendorff's alpha from coincidences (..., k, k), labels in order: 1 - observed over expected disagreement.

    NaN where all answers are of one kind, or none meet.

    >>> alpha(of_two(np.array([[40, 10], [10, 40]])), scale="nominal").round(3).item()
    0.602

    Source: Krippendorff 1970; 2019, "Content Analysis", chapter 12 (coincidences; differences of nominal and ordinal
    data).
    """
    both = np.asarray(coincidences, dtype=np.float64)
    kinds = both.sum(axis=-1)
    total = kinds.sum(axis=-1)
    apart = _apart(kinds, scale)
    observed = (both * apart).sum(axis=(-1, -2))
    expected = ratio((kinds[..., :, np.newaxis] * kinds[..., np.newaxis, :] * apart).sum(axis=(-1, -2)), total - 1)
    return np.asarray(1 - ratio(observed, expected))


def _apart(kinds: Floats, scale: Scale) -> Floats:
    """(..., k) -> (..., k, k): the squared difference of two labels."""
    n = kinds.shape[-1]
    if scale == "nominal":
        return 1 - np.eye(n)
    # All that lies between two labels, each of the two by half.
    middle = np.cumsum(kinds, axis=-1) - kinds / 2
    return np.asarray((middle[..., :, np.newaxis] - middle[..., np.newaxis, :]) ** 2)


def moments(task: Ints, value: Floats, *, units: Ints, n_units: int) -> Floats:
    """What alpha of numbers is made of, in each unit of tasks: task, value (n,), units (tasks,) -> (units, 4)."""
    n_tasks = len(units)
    known = value - value.mean() if len(value) else value
    spread = np.sqrt((known**2).mean()) if len(value) else 0.0
    known = known / spread if spread > 0 else known
    number = np.bincount(task, minlength=n_tasks).astype(np.float64)
    total, square = (np.bincount(task, weights=own, minlength=n_tasks) for own in (known, known**2))
    several = number > 1
    inner = np.where(several, 2 * (number * square - total**2) / np.maximum(number - 1, 1), 0.0)
    parts = (np.where(several, own, 0.0) for own in (inner, number, total, square))
    return np.stack([np.bincount(units, weights=own, minlength=n_units) for own in parts], axis=1)


def interval_alpha(moments: NDArray[Any]) -> Floats:
    """Krippendorff's alpha of numbers by their squared differences: sums of `moments` (..., 4) -> (...).

    >>> two = moments(np.array([0, 0, 1, 1]), np.array([1.0, 1.0, 3.0, 3.0]), units=np.array([0, 1]), n_units=2)
    >>> interval_alpha(two.sum(axis=0)).item()
    1.0

    Source: Krippendorff 2019, chapter 12 (interval data).
    """
    inner, number, total, square = np.moveaxis(np.asarray(moments, dtype=np.float64), -1, 0)
    expected = ratio(2 * (number * square - total**2), number - 1)
    return np.asarray(1 - ratio(inner, np.where(expected > 1e-9 * number, expected, 0.0)))
