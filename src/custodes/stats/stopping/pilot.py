"""Posterior of every pair's outcome proportions from a pilot study, with partial pooling over pairs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from custodes.stats.arrays import Bools, Floats, Ints, Signs, chunks, table_sums
from custodes.stats.correction.dirichlet import human_theta
from custodes.stats.correction.estimator import decide
from custodes.stats.stopping.replay import Answers, replay
from custodes.stats.stopping.rules import Rule

_SPREADS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)  # standard deviations of system effects and pair deviations, in logits
_TAIL = 2.0  # degrees of freedom of the t distribution of system effects; allows outliers
_LIKELY = 0.3  # prior mean of the pair deviations' standard deviation: system effects explain most differences
_STEPS = 50
_LONGEST = 2.0  # maximum step of Newton's method, in logits
_NEAR = 1e-6
_WIDE = 3.0  # prior standard deviation of the mean m in the logit of 'not a tie'

_WIDER = 1.2
_WIDER_SHARED = 0.4
"""Constants of `share_interval`.

`python -m tests.real.calibrate_forecast` fits these constants to replayed pilots of all real data sets. It evaluates
each data set with constants that are fitted to the remaining data sets.
"""


@dataclass(frozen=True, kw_only=True)
class Pilot:
    """Annotations of a pilot study.

    For each annotation, `pair` (n,) is the position of its pair, `unit` (n,) the cluster of its item, and `sign` (n,)
    the preference 1, 0 or -1. `systems` (pairs, 2) are the two systems of each pair.
    """

    pair: Ints
    unit: Ints
    sign: Signs
    systems: Ints

    @property
    def outcome(self) -> Ints:
        """Numbers of wins, ties and losses of each pair, (pairs, 3)."""
        return table_sums(self.pair, 1 - self.sign, shape=(len(self.systems), 3))


def posterior_shares(pilot: Pilot, *, draws: int, rng: np.random.Generator) -> Floats:
    """Return posterior draws (draws, pairs, 3) of every pair's proportions of wins, ties and losses.

    There are two logistic models, for an annotation of systems a and b. The logit of the probability of 'not a tie' is
    m + u_a + u_b + a deviation of the pair. If there is no tie, the logit of the probability that the first system wins
    is s_a - s_b + a deviation of the pair. System effects have a t distribution, which allows outliers; deviations have
    a normal distribution. The standard deviations of system effects and of deviations are estimated on a grid, with a
    prior that favours small deviations. A pair with ten annotations thus borrows strength from all pairs. If pairs
    share items or documents, their errors are correlated, and all annotations get less weight.

    >>> signs = np.array([1, 1, 1, 0, -1, 1, 1, 1, 1, 1, 0, -1, 1, 1, 0])
    >>> pair, unit = np.repeat(np.arange(3), 5), np.tile(np.arange(5), 3)
    >>> pilot = Pilot(pair=pair, unit=unit, sign=signs, systems=np.array([[0, 1], [0, 2], [1, 2]]))
    >>> result = posterior_shares(pilot, draws=200, rng=np.random.default_rng(0))
    >>> result.shape, bool((result.sum(axis=2).round(9) == 1).all())
    ((200, 3, 3), True)

    Source: Bradley and Terry 1952 with random effects; Laplace's approximation over a grid (Rue, Martino and Chopin
    2009). The application to pilots is ours.
    """
    untied = pilot.sign != 0
    better = _logits(pilot, pilot.sign > 0, untied, difference=True, draws=draws, rng=rng)
    differs = _logits(pilot, untied, untied | True, difference=False, draws=draws, rng=rng)
    win, untied_rate = (1 / (1 + np.exp(-logit)) for logit in (better, differs))
    return np.stack([untied_rate * win, 1 - untied_rate, untied_rate * (1 - win)], axis=-1)


def continue_pilot(counts: Ints, shares: Floats, *, items: int, rng: np.random.Generator) -> Answers:
    """Return one simulated study per draw, with a number of `items` annotated for each pair.

    The annotations of the pilot, `counts` (pairs, 3), come first, in random order. All further annotations are drawn
    with the proportions `shares` (draws, pairs, 3).

    >>> rng = np.random.default_rng(0)
    >>> result = continue_pilot(np.array([[2, 0, 0]]), np.array([[[0.0, 0.0, 1.0]]]), items=4, rng=rng)
    >>> result.kinds.tolist()
    [[[3, 3, 11, 11]]]

    Source: ours.
    """
    place, so_far = np.arange(items), counts.sum(axis=1)[:, np.newaxis]
    edges = np.cumsum(counts, axis=1)[:, np.newaxis, :2]
    answered = (place[:, np.newaxis] >= edges).sum(axis=-1).astype(np.int8)
    kinds = np.empty((*shares.shape[:2], items), dtype=np.int8)
    for block in chunks(len(kinds), kinds[0].size):
        shape = kinds[block].shape
        turn = np.argsort(rng.random(shape) + (place >= so_far), axis=-1)
        kinds[block] = np.take_along_axis(np.broadcast_to(answered, shape), turn, axis=-1)
    for block in chunks(len(kinds), kinds[0].size):
        kinds[block] = np.where(place < so_far, kinds[block], drawn_kinds(shares[block], items, rng))
    kinds *= 4
    kinds += 3
    return Answers(
        kinds=kinds,
        available=np.full(kinds.shape[:2], items),
        metric=np.zeros((*kinds.shape[:2], 3), dtype=np.int64),
    )


def drawn_kinds(shares: Floats, items: int, rng: np.random.Generator) -> Signs:
    """Return random outcomes 0, 1 or 2 (..., items) with proportions (..., 3).

    >>> drawn_kinds(np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), 2, np.random.default_rng(0)).tolist()
    [[1, 1], [2, 2]]

    Source: by definition.
    """
    limits = np.cumsum(shares, axis=-1)[..., np.newaxis, :2]
    number = rng.random((*shares.shape[:-1], items))
    return np.asarray((number > limits[..., 0]).astype(np.int8) + (number > limits[..., 1]))


def forecast(answers: Answers, rule: Rule) -> tuple[Floats, Floats]:
    """Return two results (draws,) of a protocol without a metric in simulated studies.

    The first is the proportion of annotations used, averaged over pairs. The second is the proportion of pairs with the
    same decision as with all annotations.

    Source: ours; simulates the predictive distribution of Spiegelhalter, Freedman and Blackburn 1986.
    """
    human = answers.kinds // 4
    wins, losses = ((human == kind).sum(axis=-1) for kind in (0, 2))
    reference = decide(human_theta(wins, losses), gamma=rule.gamma)
    end = replay(answers, rule, reference=reference, truth=np.full((human.shape[1], 3), 1 / 3))
    return (end.n / answers.available).mean(axis=1), end.correct[-1]


def shared_items(pilot: Pilot) -> float:
    """Return the mean proportion of a pair's items that another pair shares.

    It is 0 if there is only one pair, and 1 if all pairs have the same items.

    >>> pair, unit = np.array([0, 0, 1, 1]), np.array([0, 1, 1, 2])
    >>> shared_items(Pilot(pair=pair, unit=unit, sign=np.ones(4, dtype=np.int8), systems=np.array([[0, 1], [0, 2]])))
    0.5

    Source: by definition.
    """
    cells = np.unique(np.stack([pilot.pair, pilot.unit]), axis=1)
    pairs = np.bincount(cells[1])
    return float((pairs * (pairs - 1)).sum() / max(1, pairs.sum() * (len(pilot.systems) - 1)))


def share_interval(shares: Floats, *, confidence: float, shared: float) -> tuple[float, float]:
    """Return an interval for the proportion of annotations used, given draws `shares` (draws,) of this proportion.

    The shortest interval that contains `confidence` of the draws is widened by a factor around its centre. The square
    of the factor increases linearly with `shared`, the result of `shared_items`: the errors of pairs that share items
    are correlated, and the draws do not fully include this correlation. The interval contains the mean of the draws.

    >>> low, high = share_interval(np.linspace(0, 1, 101), confidence=0.9, shared=0.0)
    >>> round((high - low) / 0.9, 3) == _WIDER
    True

    Source: ours; calibrated like a conformal interval with normalised errors (Lei et al. 2018).
    """
    middle, reach = shortest_interval(shares, confidence=confidence)
    reach *= _WIDER * float(np.sqrt(1 + _WIDER_SHARED * shared))
    mean = float(shares.mean())
    return min(middle - reach, mean), max(middle + reach, mean)


def shortest_interval(values: Floats, *, confidence: float) -> tuple[float, float]:
    """Return the centre and half-width of the shortest interval that contains `confidence` of the values (n,).

    If several intervals are equally short, the middle interval is returned.

    >>> shortest_interval(np.array([0.0, 4.0, 5.0, 5.0, 6.0]), confidence=0.8)
    (5.0, 1.0)

    Source: by definition.
    """
    sorted_values = np.sort(values)
    n_inside = math.ceil(confidence * len(sorted_values) - _NEAR)
    width = sorted_values[n_inside - 1 :] - sorted_values[: len(sorted_values) - n_inside + 1]
    places = np.flatnonzero(width <= width.min() + 1e-12)
    start = places[len(places) // 2]
    low, high = sorted_values[start], sorted_values[start + n_inside - 1]
    return float((low + high) / 2), float((high - low) / 2)


class _Modes(NamedTuple):
    """Modes of the effects of columns (systems) and of the deviations of rows (pairs), at every point of the grid.

    - `column` (grid, columns), `row` (grid, rows): the modes.
    - `column_precision` (grid, columns, columns): precision of the effects, with the deviations integrated out.
    - `row_precision` (grid, rows): precision of each deviation given the effects.
    - `follows` (grid, rows): how strongly the mean of each deviation depends on the effects.
    - `height` (grid,): log marginal likelihood.
    """

    column: Floats
    row: Floats
    column_precision: Floats
    row_precision: Floats
    follows: Floats
    height: Floats


def _logits(
    pilot: Pilot, hits: Bools, among: Bools, *, difference: bool, draws: int, rng: np.random.Generator
) -> Floats:
    """Return draws (draws, pairs) of the logit of each pair's probability of a hit.

    `hits` (n,) marks the annotations that are hits, and `among` (n,) the annotations that are counted. If `difference`
    is true, a logit is the difference of two system effects plus a deviation of the pair. Otherwise it is the sum of a
    mean, two system effects and a deviation.
    """
    from scipy.sparse import csr_array

    n_pairs, n_systems = len(pilot.systems), int(pilot.systems.max(initial=-1)) + 1
    sign, width = (-1, 2) if difference else (1, 3)
    columns = np.column_stack([pilot.systems, np.full(n_pairs, n_systems)])[:, :width]
    cells = np.tile([1.0, sign, 1.0][:width], n_pairs), (np.repeat(np.arange(n_pairs), width), columns.ravel())
    design = csr_array(cells, shape=(n_pairs, n_systems + width - 2))
    pair, unit, hit = pilot.pair[among], pilot.unit[among], hits[among]
    number, n = (np.bincount(pairs, minlength=n_pairs).astype(np.float64) for pairs in (pair[hit], pair))
    worth = 1 / overlap(pilot.systems[pair], unit, hit - (number / np.maximum(n, 1))[pair], sign)
    of_system, of_row = np.array(list(product(_SPREADS, _SPREADS))).T
    of_column = np.column_stack(
        [np.tile(of_system[:, np.newaxis], n_systems), np.full((len(of_row), width - 2), _WIDE)]
    )
    modes = _modes(number * worth, n * worth, design, of_column, of_row)
    chance = np.exp(modes.height - modes.height.max())
    times = rng.multinomial(draws, chance / chance.sum())
    drawn = [_draw_logits(modes, g, design, int(times[g]), rng) for g in np.flatnonzero(times).tolist()]
    return np.asarray(rng.permutation(np.concatenate(drawn)))


def overlap(systems: Ints, unit: Ints, error: Floats, sign: int) -> float:
    """Return the variance inflation of system effects relative to independent annotations; it is at least 1.

    For each annotation, `systems` (n, 2) are its two systems, `unit` (n,) the cluster of its item, `error` (n,) the
    residual, and `sign` the sign of the second system in the model.
    """
    cells = systems.T.ravel() * (int(unit.max(initial=-1)) + 1) + np.tile(unit, 2)
    _, place = np.unique(cells, return_inverse=True)
    joint = np.bincount(place, np.concatenate([error, sign * error]))
    alone = 2 * (error**2).sum()
    return max(1.0, float((joint**2).sum() / alone)) if alone else 1.0


def _modes(hits: Floats, n: Floats, design: Any, of_column: Floats, of_row: Floats) -> _Modes:
    """Modes for every pair of standard deviations, of_column (grid, columns) and of_row (grid,), by Newton's method.

    Deviations of rows are eliminated, so a step solves equations with one unknown per column.
    """
    from scipy.sparse import csr_array

    (grid, columns), spread = of_column.shape, of_row[:, np.newaxis]
    entries = int(design.indptr[1])  # number of entries of each row
    places, values = design.indices.reshape(-1, entries), design.data.reshape(-1, entries)
    cells = (places[:, :, np.newaxis] * columns + places[:, np.newaxis]).reshape(len(n), -1)
    products = (values[:, :, np.newaxis] * values[:, np.newaxis]).reshape(len(n), -1)
    outer = csr_array((products.ravel(), cells.ravel(), np.arange(len(n) + 1) * entries**2), shape=(len(n), columns**2))
    column, row = np.zeros((grid, columns)), np.zeros((grid, len(n)))
    for _ in range(_STEPS):
        chance = 1 / (1 + np.exp(-(column @ design.T + row)))
        weight, slope = n * chance * (1 - chance), hits - n * chance
        row_precision = weight + 1 / spread**2
        prior = (_TAIL + 1) / (_TAIL * of_column**2 + column**2)
        precision = ((weight - weight**2 / row_precision) @ outer).reshape(grid, columns, columns)
        precision[:, np.arange(columns), np.arange(columns)] += prior
        of_rows = slope - row / spread**2
        pull = (slope - weight / row_precision * of_rows) @ design - column * prior
        step = np.linalg.solve(precision, pull[:, :, np.newaxis])[:, :, 0]
        row_step = (of_rows - weight * (step @ design.T)) / row_precision
        largest = np.maximum(np.abs(step).max(axis=1), np.abs(row_step).max(axis=1))[:, np.newaxis]
        scale = np.minimum(1.0, _LONGEST / np.maximum(largest, _NEAR))
        column, row = column + scale * step, row + scale * row_step
        if (largest < _NEAR).all():
            break
    logit = column @ design.T + row
    height = (hits * logit - n * np.logaddexp(0, logit)).sum(axis=1)
    height -= (_TAIL + 1) / 2 * np.log1p((column / of_column) ** 2 / _TAIL).sum(axis=1) + np.log(of_column).sum(axis=1)
    height -= np.linalg.slogdet(precision)[1] / 2 + of_row / _LIKELY
    height -= ((row / spread) ** 2).sum(axis=1) / 2 + len(n) * np.log(of_row) + np.log(row_precision).sum(axis=1) / 2
    return _Modes(column, row, precision, row_precision, weight / row_precision, height)


def _draw_logits(modes: _Modes, g: int, design: Any, draws: int, rng: np.random.Generator) -> Floats:
    """Draws of the logits (draws, rows) at point `g` of the grid."""
    # with precision = L L' and standard normal z, the solution x of L' x = z has covariance (L L')^-1
    root = np.linalg.cholesky(modes.column_precision[g]).T
    noise = design @ np.linalg.solve(root, rng.standard_normal((len(root), draws)))
    deviation = rng.standard_normal(noise.shape) / np.sqrt(modes.row_precision[g])[:, np.newaxis]
    centre = ((design @ modes.column[g]) + modes.row[g])[:, np.newaxis]
    return np.asarray((centre + (1 - modes.follows[g])[:, np.newaxis] * noise + deviation).T)
