"""Combination of annotators, whose scores are averaged only if all annotators use the same scale."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from custodes.data.raters import MissingCode, Scale
from custodes.data.study import Study
from custodes.errors import OptionError
from custodes.stats.arrays import Bools, Floats, Ints

TIE = 1e-9
"""Human scores tie if they differ by at most this fraction of the range of the scale."""


class ScalesDifferError(OptionError):
    """Error for annotators whose scores cannot be averaged, because they use different scales."""


def unpaired_count(persons: Floats, *, items: Ints, item: Ints, first: Ints, second: Ints) -> int:
    """Return the number of comparisons that are excluded because no annotator rated both outputs.

    Parameters
    ----------
    persons : array of shape (annotators, k, systems)
        Scores; NaN if not rated.
    items : array of int of shape (k,)
        Positions of the items with scores, in ascending order.
    item, first, second : arrays of int of shape (n,)
        Positions of the item, the first system and the second system of each human preference.

    Examples
    --------
    >>> scores = np.array([[[1.0, 2.0, np.nan]], [[np.nan, 2.0, 3.0]]])
    >>> systems = {"first": np.array([0, 1]), "second": np.array([1, 2])}
    >>> unpaired_count(scores, items=np.array([0]), item=np.array([0, 0]), **systems)
    1
    >>> unpaired_count(scores, items=np.array([0]), item=np.array([0, 5]), **systems)
    2
    """
    is_rated: Bools = np.asarray(np.isfinite(persons).any(axis=0))
    if not is_rated.any():
        return 0
    n_rated = is_rated.sum(axis=1)
    row_of_item = np.searchsorted(items, item).clip(max=len(items) - 1)
    is_compared = (items[row_of_item] == item) & is_rated[row_of_item, first] & is_rated[row_of_item, second]
    return int((n_rated * (n_rated - 1) // 2).sum() - is_compared.sum())


def unpaired_note(count: int, label: str) -> tuple[str, int, str]:
    """Return the rule, the count and the message of the note on comparisons that `unpaired_count` counts."""
    message = (
        f"{count} comparisons{label} are excluded because no annotator rated both outputs; means over different "
        "annotators are not compared"
    )
    return "unpaired", count, message


def without_float_noise(values: Floats) -> Floats:
    """Return the means; means that differ only by floating-point error become equal, and NaN stays NaN.

    >>> without_float_noise(np.array([0.1 + 0.2, 0.3, 4.0])).tolist()
    [0.3, 0.3, 4.0]
    """
    levels = np.unique(values[np.isfinite(values)])
    if not levels.size:
        return values
    is_new_level = np.concatenate([[True], np.diff(levels) > TIE * (levels[-1] - levels[0])])
    representatives = levels[np.flatnonzero(is_new_level)[np.cumsum(is_new_level) - 1]]
    level_index = np.minimum(np.searchsorted(levels, np.where(np.isfinite(values), values, levels[0])), levels.size - 1)
    return np.where(np.isfinite(values), representatives[level_index], np.nan)


def check_same_scale(study: Study, people: Sequence[str], persons: Floats, label: str) -> None:
    """Raise `ScalesDifferError` if annotators use different scales.

    `persons` (annotators, items, systems) are the scores of `people`; `label` names the aspect in the message.
    """
    bounds = study.raters.bounds
    scales = [
        Scale(low=bounds[name][0], high=bounds[name][1], declared=True) if name in bounds else Scale.from_scores(scores)
        for name, scores in zip(people, persons, strict=True)
    ]
    defined_scales = [(name, scale) for name, scale in zip(people, scales, strict=True) if scale.n]
    for name, scale in defined_scales[1:]:
        first, first_scale = defined_scales[0]
        if not scale.comparable(first_scale):
            code_of_rater = {rater: MissingCode.from_scores(persons[people.index(rater)]) for rater in (first, name)}
            codes_text = "; ".join(f"{rater}: {code}" for rater, code in code_of_rater.items() if code)
            advice = (
                f"{codes_text}; if a value means missing, leave the cell empty"
                if codes_text
                else f"select annotators with human={first!r}"
            )
            raise ScalesDifferError(
                f"{first!r} ({first_scale.low:g} to {first_scale.high:g}) and {name!r} ({scale.low:g} to "
                f"{scale.high:g}) use different scales{label}, so their scores cannot be averaged; " + advice
            )
