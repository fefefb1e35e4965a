"""What a pilot leaves possible: shares of wins, ties and losses of every pair, learned from all pairs together."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np

from custodes.stats import ABSENT
from custodes.stats.arrays import Bools, Floats, Ints
from custodes.stats.correction.dirichlet import human_theta
from custodes.stats.correction.estimator import Items, decide
from custodes.stats.resampling.resample import unit_sums
from custodes.stats.stopping.replay import Answers, replay
from custodes.stats.stopping.rules import Rule

_SPREADS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)  # of systems and of pairs, in logits
_TAIL = 2.0  # degrees of freedom of the systems' t distribution: one may lie far from all others
_LIKELY = 0.3  # mean of the spread of pairs: systems explain most of what pairs do
_STEPS = 50
_LONGEST = 2.0  # step of Newton's method, in logits
_NEAR = 1e-6
_WIDE = 3.0  # of the mean chance of a difference, which nothing else bounds


def posterior_shares(pilot: Items, *, draws: int, rng: np.random.Generator) -> Floats:
    """Draws of every pair's shares of wins, ties and losses: (draws, pairs, 3).

    Two logistic models. Of the annotations without a tie the first system wins with the logit s_a - s_b + a deviation
    of the pair; one is no tie with the logit m + u_a + u_b + a deviation of the pair. Systems follow a t distribution,
    as one may be far from all others, deviations a normal one. The data choose the spreads on a grid; before, those of
    pairs are likelier the smaller they are. So ten annotations of a pair borrow from those of all others. Where pairs
    share their items or documents they err together, and all count for less.

    >>> signs = np.array([[1, 1, 1, 0, -1], [1, 1, 1, 1, 1], [0, -1, 1, 1, 0]])
    >>> pilot = Items(human=signs, systems=np.array([[0, 1], [0, 2], [1, 2]]), units=np.arange(5))
    >>> made = posterior_shares(pilot, draws=200, rng=np.random.default_rng(0))
    >>> made.shape, bool((made.sum(axis=2).round(9) == 1).all())
    ((200, 3, 3), True)

    Source: Bradley and Terry 1952 with random effects; Laplace's approximation over a grid (Rue, Martino and Chopin
    2009). Ours in this use.
    """
    each = np.eye(int(pilot.systems.max(initial=-1)) + 1)
    first, second = each[pilot.systems[:, 0]], each[pilot.systems[:, 1]]
    rated = pilot.human != ABSENT
    untied = rated & (pilot.human != 0)
    better = _logits(pilot.human > 0, untied, first - second, pilot.units, centre=False, draws=draws, rng=rng)
    differs = _logits(untied, rated, first + second, pilot.units, centre=True, draws=draws, rng=rng)
    win, apart = (1 / (1 + np.exp(-logit)) for logit in (better, differs))
    return np.stack([apart * win, 1 - apart, apart * (1 - win)], axis=-1)


def continued(counts: Ints, shares: Floats, *, items: int, rng: np.random.Generator) -> Answers:
    """Whole studies of `items` that begin with the pilot's own answers, in any order, and go on by drawn shares: counts
    (pairs, 3), shares (draws, pairs, 3).

    >>> made = continued(np.array([[2, 0, 0]]), np.array([[[0.0, 0.0, 1.0]]]), items=4, rng=np.random.default_rng(0))
    >>> made.kinds.tolist()
    [[[3, 3, 11, 11]]]

    Source: ours.
    """
    place, so_far = np.arange(items), counts.sum(axis=1)[:, np.newaxis]
    edges = np.cumsum(counts, axis=1)[:, np.newaxis, :2]
    known = np.broadcast_to((place[:, np.newaxis] >= edges).sum(axis=-1), (len(shares), len(counts), items))
    turn = np.argsort(rng.random(known.shape) + (place >= so_far), axis=-1)
    limits = np.cumsum(shares, axis=-1)[..., np.newaxis, :2]
    drawn = (rng.random((*known.shape, 1)) > limits).sum(axis=-1)
    human = np.where(place < so_far, np.take_along_axis(known, turn, axis=-1), drawn)
    return Answers(
        kinds=(4 * human + 3).astype(np.int8),
        available=np.full(known.shape[:2], items),
        metric=np.zeros((*known.shape[:2], 3), dtype=np.int64),
    )


def forecast(answers: Answers, rule: Rule) -> tuple[Floats, Floats]:
    """What a protocol with people alone would take and get right on each of some studies, (draws,) each: the share of
    the annotations, mean over pairs, and the share of pairs decided as all annotations decide them.

    Source: ours; the predictive distribution of Spiegelhalter, Freedman and Blackburn 1986, by simulation.
    """
    human = answers.kinds // 4
    wins, losses = ((human == kind).sum(axis=-1) for kind in (0, 2))
    reference = decide(human_theta(wins, losses), gamma=rule.gamma)
    end = replay(answers, rule, reference=reference, truth=np.full((human.shape[1], 3), 1 / 3))
    return (end.n / answers.available).mean(axis=1), end.correct[-1]


class _Mode(NamedTuple):
    """The mode of effects of columns (columns,) and deviations of rows (rows,): the precision of the columns with the
    rows integrated out, and of each row given the columns with how it follows them; the log marginal likelihood."""

    column: Floats
    row: Floats
    column_precision: Floats
    row_precision: Floats
    follows: Floats
    height: float


def _logits(
    hits: Bools, asked: Bools, design: Floats, units: Ints, *, centre: bool, draws: int, rng: np.random.Generator
) -> Floats:
    """Draws of the logits (draws, pairs) of `hits` among those `asked`, (pairs, items) each: effects of the columns of
    the `design` (pairs, systems), and deviations of pairs."""
    whole = np.concatenate([design, np.ones((len(design), int(centre)))], axis=1)
    worth = 1 / _overlap(hits, asked, design, units)
    number, n = (hits & asked).sum(axis=1) * worth, asked.sum(axis=1) * worth
    found = [
        _mode(number, n, whole, np.array([of_column] * design.shape[1] + [_WIDE] * centre), of_row)
        for of_column, of_row in product(_SPREADS, _SPREADS)
    ]
    heights = np.array([mode.height for mode in found])
    chance = np.exp(heights - heights.max())
    times = rng.multinomial(draws, chance / chance.sum()).tolist()
    made = [_drawn(mode, whole, own, rng) for mode, own in zip(found, times, strict=True) if own]
    return np.asarray(rng.permutation(np.concatenate(made)))


def _overlap(hits: Bools, asked: Bools, design: Floats, units: Ints) -> float:
    """How many times the variance of what is said of systems is that of independent annotations, at least 1."""
    n = asked.sum(axis=1, keepdims=True)
    error = np.where(asked, hits - (hits & asked).sum(axis=1, keepdims=True) / np.maximum(n, 1), 0.0)
    together = design.T @ unit_sums(error, units=units, n_units=int(units.max(initial=-1)) + 1)
    alone = (design**2).T @ (error**2).sum(axis=1)
    return max(1.0, float((together**2).sum() / alone.sum())) if alone.any() else 1.0


def _mode(hits: Floats, n: Floats, design: Floats, of_column: Floats, of_row: float) -> _Mode:
    """By Newton's method; the deviations, one a row, are eliminated, so a step costs no more than the columns do."""
    column, row = np.zeros(design.shape[1]), np.zeros(len(design))
    for _ in range(_STEPS):
        chance = 1 / (1 + np.exp(-(design @ column + row)))
        weight, slope = n * chance * (1 - chance), hits - n * chance
        own = weight + 1 / of_row**2
        prior = (_TAIL + 1) / (_TAIL * of_column**2 + column**2)
        precision = (design.T * (weight - weight**2 / own)) @ design + np.diag(prior)
        of_rows = slope - row / of_row**2
        step = np.linalg.solve(precision, design.T @ (slope - weight / own * of_rows) - column * prior)
        row_step = (of_rows - weight * (design @ step)) / own
        largest = max(float(np.abs(step).max()), float(np.abs(row_step).max()))
        scale = min(1.0, _LONGEST / max(largest, _NEAR))
        column, row = column + scale * step, row + scale * row_step
        if largest < _NEAR:
            break
    logit = design @ column + row
    height = (hits * logit - n * np.logaddexp(0, logit)).sum()
    height -= (_TAIL + 1) / 2 * np.log1p((column / of_column) ** 2 / _TAIL).sum() + np.log(of_column).sum()
    height -= np.linalg.slogdet(precision)[1] / 2 + of_row / _LIKELY
    height -= ((row / of_row) ** 2).sum() / 2 + len(row) * np.log(of_row) + np.log(own).sum() / 2
    return _Mode(column, row, precision, own, weight / own, float(height))


def _drawn(mode: _Mode, design: Floats, draws: int, rng: np.random.Generator) -> Floats:
    """Logits (draws, rows)."""
    # precision = L L': the solution of L' x = z has covariance (L L')^-1
    root = np.linalg.cholesky(mode.column_precision).T
    noise = design @ np.linalg.solve(root, rng.standard_normal((len(root), draws)))
    own = rng.standard_normal(noise.shape) / np.sqrt(mode.row_precision)[:, np.newaxis]
    centre = (design @ mode.column + mode.row)[:, np.newaxis]
    return np.asarray((centre + (1 - mode.follows)[:, np.newaxis] * noise + own).T)
