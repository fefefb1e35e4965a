"""Agreement of predictions with annotators over a fixed set of pairs of outputs, for several kinds of held-out data.

The results include the influence of each cluster of items, system, and data set. An output is compared with other
outputs by a model that was not trained on its item. If requested, the model was not trained on its system or data set
either. So all kinds of held-out data use the same pairs, and only the training data differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats, Ints
from custodes.stats.bootstrap import unit_sums
from custodes.stats.learning.objective import Objective
from custodes.stats.learning.pair_sums import pair_sums
from custodes.stats.ranks import mid_ranks

Over = Literal["units", "systems", "blocks"]

_ROUNDING = 1e-12


class Moves(NamedTuple):
    """A statistic of predictions (m,), NaN if undefined, with influences.

    There are influences of each cluster of items (units, m), system (systems, m), output (outputs, m) and block
    (blocks, m). The sum of the squared influences of one kind estimates the variance of the statistic over samples of
    this kind. `freedom` contains the degrees of freedom of the variances over units, over systems, and over blocks.
    """

    value: Floats
    units: Floats
    systems: Floats
    outputs: Floats
    blocks: Floats
    freedom: NDArray[Any]

    @classmethod
    def mean(cls, parts: Sequence[Moves]) -> Moves:
        """Mean of the statistics and of their influences over repetitions."""
        return cls(*(np.asarray(np.mean(estimates, axis=0)) for estimates in zip(*parts, strict=True)))

    def contrast(self, first: Ints, second: Ints | None = None) -> Moves:
        """Statistic of the predictions `first` minus the statistic of the predictions `second`, with influences.

        Without `second`, the statistic of the predictions `first`.
        """
        arrays = (draws[..., first] - (0.0 if second is None else draws[..., second]) for draws in self[:-1])
        return Moves(*(*arrays, self.freedom))

    def interval(self, over: Over, *, confidence: float, folds: tuple[int, int] = (0, 0)) -> tuple[Floats, Floats]:
        """Confidence interval of the statistic: lower and upper bounds, (m,) each.

        `over` is what the interval generalises to: other clusters of items ('units'), other clusters of items and other
        systems ('systems'), or other blocks ('blocks'). The bounds are NaN with fewer than two of these units, systems
        or blocks.

        `folds` are the number of folds of items and the number of folds of systems or blocks; 0 means that there are no
        such folds. Models of different folds have nearly the same training data, so their errors are correlated. To
        account for this, variances are multiplied by 1 + folds / (folds - 1). The interval uses Student's t. For
        systems, the variance is the sum of the variances over clusters of items and over systems, minus the variance
        over outputs, which both contain. This variance is at least the larger of the two variances in the sum, and it
        has Satterthwaite's degrees of freedom. No interval is narrower than the interval over items.

        Source: Nadeau and Bengio 2003 (the factor); Cameron, Gelbach and Miller 2011 (clusters of two kinds).
        """
        units, systems, outputs, blocks = ((block**2).sum(axis=0) for block in self[1:-1])
        of_units, of_systems, of_blocks = self.freedom
        by_items, by_others = (1 + n / (n - 1) if n > 1 else 1.0 for n in folds)
        units, systems, blocks = units * by_items, systems * by_others, blocks * by_others
        alone = _half_width(units, of_units, confidence)
        if over == "units":
            reach = alone
        elif over == "blocks":
            reach = _half_width(blocks, of_blocks, confidence)
        else:
            variance = np.maximum(units + systems - outputs, np.maximum(units, systems))
            total, uncertain = units + systems, units**2 / max(of_units, 1) + systems**2 / max(of_systems, 1)
            freedom = np.where(total > 0, total**2 / np.where(total > 0, uncertain, 1.0), 1.0)
            reach = _half_width(variance, freedom if of_systems > 0 else 0, confidence)
        # An interval over more than items is at least as wide as that over items.
        reach = np.maximum(reach, alone)
        return self.value - reach, self.value + reach


def _half_width(variance: Floats, freedom: Floats | int, confidence: float) -> Floats:
    """Half-width of an interval; NaN without degrees of freedom."""
    from scipy.special import stdtrit

    enough = np.asarray(freedom) > 0
    quantile = stdtrit(np.where(enough, freedom, 1.0), (1 + confidence) / 2)
    return np.where(enough, quantile, np.nan) * np.sqrt(variance)


def moves(
    kind: Objective,
    human: Floats,
    predicted: Floats,
    *,
    model: Ints,
    within: Ints,
    block: Ints,
    units: Ints,
    n_units: int,
) -> Moves:
    """Agreement of held-out predictions with human scores, and the influence of each unit on it.

    Every output is compared by a model that was not trained on it. `human` (items, systems) is NaN if not used.
    `predicted` (m, models, items, systems) is finite where `human` is finite. `model` (items, systems) is the model
    that compares an output with other outputs. Only outputs with the same value in `within` (items, systems) are
    compared. The statistic is averaged over the blocks in `block` (items, systems); outputs with the same value in
    `within` are in the same block. `units` (items,) is the cluster of each item. Nothing is refitted.

    The statistic is Daniels' coefficient over these pairs. It uses signs (`kendall`, tau-b), ranks (`spearman`) or
    values (`pearson`). `accuracy` is the proportion of pairs of one item (without human ties) that are in the human
    order. If one model made all predictions, the statistic is the usual coefficient. Ranks are computed among all
    outputs with the same value in `within`.

    >>> human = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> one = np.zeros((2, 2), dtype=int)
    >>> predicted = np.array([[[[1.0, 3.0], [2.0, 4.0]]]])
    >>> design = {"model": one, "within": one, "block": one, "units": np.arange(2), "n_units": 2}
    >>> moves("kendall", human, predicted, **design).value.round(3).tolist()
    [0.667]

    Source: Daniels 1944 (the coefficient); Jaeckel 1972 (the infinitesimal jackknife).
    """
    is_rated, n_systems = np.isfinite(human), human.shape[1]
    blocks, place = np.unique(block[is_rated], return_inverse=True)
    width = 1 + 2 * len(predicted)  # sum of human squares, then for each prediction sums of products and of squares
    total = np.zeros((len(blocks), width))
    by_unit, by_system = np.zeros((len(blocks), n_units, width)), np.zeros((len(blocks), n_systems, width))
    by_output = np.zeros((human.size, width))
    present = [np.zeros(moves.shape[:2], dtype=bool) for moves in (by_unit, by_system)]
    for w in np.unique(within[is_rated]):
        cells = np.flatnonzero((is_rated & (within == w)).ravel())
        b = int(np.searchsorted(blocks, block.ravel()[cells[0]]))
        item, system = np.divmod(cells, n_systems)
        unit, model_of = units[item], model.ravel()[cells]
        for there, label in zip(present, (unit, system), strict=True):
            there[b, label] = True
        people = _read(kind, human.ravel()[cells])
        for k in np.unique(model_of):
            scores = np.stack([_read(kind, scores) for scores in predicted[:, k].reshape(len(predicted), -1)[:, cells]])
            rows = np.flatnonzero(model_of == k)
            sums_of = pair_sums(kind, people, scores, rows, item, (unit, system))
            total[b] += sums_of.row.sum(axis=1)
            by_output[cells[rows]] += sums_of.row.T
            by_output[cells] += sums_of.column.T
            for sums, label, inside in zip((by_unit, by_system), (unit, system), sums_of.inside, strict=True):
                # A pair within a unit (or system) is counted only once if the unit (or system) is removed.
                parts = ((label[rows], sums_of.row - inside), (label, sums_of.column))
                for label_of, values in parts:
                    sums[b] += unit_sums(values, units=label_of, n_units=sums.shape[1]).T
    coefficients = _coefficient(kind, total)
    is_defined = ~np.isnan(coefficients)
    is_defined_block = np.asarray(is_defined.any(axis=1))
    share = is_defined / np.maximum(is_defined.sum(axis=0), 1)
    value = np.where(is_defined.any(axis=0), (share * np.nan_to_num(coefficients)).sum(axis=0), np.nan)
    of_units, of_systems = (
        np.einsum("bpm,bm->pm", _spread(_part_derivatives(kind, total[:, np.newaxis], sums), there), share)
        for sums, there in zip((by_unit, by_system), present, strict=True)
    )
    of_outputs = np.zeros((human.size, len(predicted)))
    of_outputs[is_rated.ravel()] = _part_derivatives(kind, total[place], by_output[is_rated.ravel()]) * share[place]
    return Moves(
        value=value,
        units=of_units,
        systems=of_systems,
        outputs=of_outputs,
        blocks=_spread(np.nan_to_num(share * (coefficients - value))[np.newaxis], is_defined_block[np.newaxis])[0],
        freedom=np.array(
            [present[0].sum() - len(blocks), present[1].any(axis=0).sum() - 1, is_defined_block.sum() - 1]
        ),
    )


def _read(kind: Objective, values: Floats) -> Floats:
    return mid_ranks(values) if kind == "spearman" else values


def _sizes(kind: Objective, total: Floats) -> Floats:
    """Denominators of the coefficients, NaN where they are 0: sums (..., 1 + 2 m) -> (..., m)."""
    people, predictions = total[..., :1], total[..., 2::2]
    size = (
        people + 0 * predictions
        if kind == "accuracy"
        else np.sqrt(np.maximum(people, 0.0) * np.maximum(predictions, 0.0))
    )
    return np.where(size > _ROUNDING * np.abs(total).max(axis=-1, keepdims=True, initial=0.0), size, np.nan)


def _coefficient(kind: Objective, total: Floats) -> Floats:
    """Coefficients from sums (..., 1 + 2 m) -> (..., m)."""
    return np.asarray(total[..., 1::2] / _sizes(kind, total))


def _part_derivatives(kind: Objective, total: Floats, parts: Floats) -> Floats:
    """Derivatives of coefficients with respect to the weights of parts of their sums: sums (..., 1 + 2 m) -> (..., m).

    An undefined derivative is 0.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = parts / total
    people, predictions = shares[..., :1], shares[..., 2::2]
    size = people if kind == "accuracy" else (people + predictions) / 2
    return np.nan_to_num(parts[..., 1::2] / _sizes(kind, total) - _coefficient(kind, total) * size)


def _spread(pulls: Floats, present: NDArray[np.bool_]) -> Floats:
    """Deviations (blocks, parts, m) from the mean of the present parts (blocks, parts); 0 with one part.

    The deviations are scaled so that their sum of squares estimates the variance of the sum over parts.
    """
    there, n = present[..., np.newaxis], present.sum(axis=1)[:, np.newaxis, np.newaxis]
    mean = (pulls * there).sum(axis=1, keepdims=True) / np.maximum(n, 1)
    return np.where(there, (pulls - mean) * np.sqrt(n / np.maximum(n - 1, 1)), 0.0)
