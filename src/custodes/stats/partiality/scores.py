"""Placement by scores: effects of systems, people's noise and tastes, and the curvature of the link."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from custodes.stats.agreement.ranks import mid_ranks
from custodes.stats.arrays import Bools, Floats, Ints, unit_of
from custodes.stats.partiality.placement import Placement, by_unit, connected_systems, covariance, units_behind
from custodes.stats.ratios import ratio

_REPEATED = 20  # repeated human ratings from which their noise is known
_CURVE_TRUST = 0.2  # relative error of the curvature seen within systems, where people's noise is known
_CURVE_TRUST_BLIND = 2.0  # where it is not: noise hides curvature
_TASTE_LEVEL = 0.99  # of an F test that people have tastes for systems; an allowance for none would cost power
_TAIL = 0.997  # about Holm's bound for eight systems
_KNOTS = 5
_KNOT_RANGE = (0.01, 0.99)
_SAME = 1e-9  # a scatter that is none


def score_placement(persons: Floats, metric: Floats, *, units: Ints) -> Placement:
    """From scores: persons (people, items, systems), metric (items, systems), NaN where not rated; units (items,) the
    clusters.

    The metric's scores become normal scores of their ranks over all outputs, so that no unit and no outlier matters;
    people's are divided by a unit of their own.
    """
    from scipy.special import ndtri

    counted = np.isfinite(persons).sum(axis=0)
    persons = _level(persons / unit_of(persons))
    mask = (counted > 0) & np.isfinite(metric)
    mask &= mask.sum(axis=1, keepdims=True) > 1
    human = np.where(mask, np.nan_to_num(persons).sum(axis=0) / np.maximum(counted, 1), 0.0)
    seen = np.where(mask, _normal_scores(metric, mask), 0.0)
    own, of_people = _two_way(seen, mask), _two_way(human, mask)
    noise, taste = _noise(persons, counted, mask)
    quality, within, spread = _quality(human, of_people, mask, 0.0 if noise is None else noise)
    curved = _curved(quality, within, mask, own, of_people)
    people, metrics = (by_unit(influence, units) for influence in (of_people.influence, curved.influence))
    cells = mask.astype(np.float64)
    n = cells.T @ cells
    apart = ratio(seen.T @ cells - cells.T @ seen, n)
    rate = _win_rates(seen, mask)
    squares = ratio((seen**2).T @ cells + cells.T @ seen**2 - 2 * seen.T @ seen, n)
    scatter = np.sqrt(np.maximum(squares - apart**2, 0.0))
    # Copies differ by nothing, and a shift would move them by all.
    usual = scatter[scatter > _SAME]
    scatter = np.maximum(scatter, (np.median(usual) if usual.size else 1.0) / 4)
    return Placement(
        human=of_people.effects,
        metric=own.effects - curved.effects,
        hh=covariance(people, people) + taste * np.eye(len(taste)),
        hm=covariance(people, metrics),
        mm=covariance(metrics, metrics),
        curvature=curved.effects,
        trust=_CURVE_TRUST_BLIND if noise is None else _CURVE_TRUST,
        bends=noise is None,
        spread=spread,
        units=units_behind(mask, units),
        connected=connected_systems(mask),
        met=np.ones(len(n), dtype=np.bool_),
        advantage=ndtri(np.clip(rate, 0.5 / np.maximum(n, 1), 1 - 0.5 / np.maximum(n, 1))),
        steepness=1 / scatter,
    )


class _Effects(NamedTuple):
    """Of a two-way fit (item + system): effects (..., systems), what is left (..., items, systems), and what each item
    adds to the error of the effects (..., items, systems)."""

    effects: Floats
    residuals: Floats
    influence: Floats


def _win_rates(scores: Floats, mask: Bools) -> Floats:
    """(systems, systems): how often the first has the higher score of an item that both have, half for a tie."""
    rates = np.full((mask.shape[1], mask.shape[1]), np.nan)
    for s, own in enumerate(scores.T):
        both = mask & mask[:, [s]]
        won = (own[:, None] > scores) + 0.5 * (own[:, None] == scores)
        rates[s] = ratio((won * both).sum(axis=0), both.sum(axis=0))
    return rates


def _two_way(values: Floats, mask: Bools) -> _Effects:
    """Least squares of item + system on (..., items, systems), 0 outside the mask; effects sum to 0."""
    n = np.maximum(mask.sum(axis=1, keepdims=True), 1)
    centred = np.where(mask, values - values.sum(axis=-1, keepdims=True) / n, 0.0)
    seen = mask.astype(np.float64)
    solved = np.linalg.pinv(np.diag(seen.sum(axis=0)) - (seen / n).T @ seen, hermitian=True)
    effects = centred.sum(axis=-2) @ solved
    fitted = effects[..., None, :] - (effects[..., None, :] * mask).sum(axis=-1, keepdims=True) / n
    residuals = np.where(mask, centred - fitted, 0.0)
    return _Effects(effects, residuals, residuals @ solved)


def _level(persons: Floats) -> Floats:
    """People (people, items, systems) brought to one level: who rates low throughout must not make those look bad whom
    he happened to rate."""
    ratings = persons.reshape(len(persons), -1).T
    rated = np.isfinite(ratings)
    own = _two_way(np.where(rated, ratings, 0.0), rated & (rated.sum(axis=1, keepdims=True) > 1)).effects
    return persons - own[:, None, None]


def _noise(persons: Floats, counted: Ints, mask: Bools) -> tuple[float | None, Floats]:
    """The variance of people's mean of an output that their noise makes (None where hardly anything was rated twice),
    and that of their mean of each system (systems,) that their tastes for systems make, which more items do not shrink.
    """
    from scipy.special import fdtri, ndtri, stdtrit

    repeated = (counted > 1) & mask
    freedom = int((counted - 1)[repeated].sum())
    if freedom < _REPEATED:
        return None, np.zeros(mask.shape[1])
    rated = np.isfinite(persons) & repeated
    mean = np.where(rated, np.nan_to_num(persons), 0.0).sum(axis=0) / np.maximum(counted, 1)
    deviation = np.where(rated, np.nan_to_num(persons) - mean, 0.0)
    number = rated.sum(axis=1)  # (people, systems)
    own = np.nan_to_num(ratio(deviation.sum(axis=1), number))
    seen = number > 0
    crossed = int(seen.sum()) - int(seen.any(axis=0).sum()) - int(seen.any(axis=1).sum()) + 1
    within = float((deviation**2).sum() - (number * own**2).sum()) / max(freedom - crossed, 1)
    noise = within * float((1 / counted[mask]).mean())
    if crossed < 1:
        return noise, np.zeros(mask.shape[1])
    between = float((number * own**2).sum()) / crossed
    if between <= within * fdtri(crossed, max(freedom - crossed, 1), _TASTE_LEVEL):
        return noise, np.zeros(mask.shape[1])
    # Few people show how large tastes are, so they count as wide as Student's t does where findings are made.
    wider = float(stdtrit(crossed, _TAIL) / ndtri(_TAIL)) ** 2
    tastes = wider * (between - within) / float(number[seen].mean())
    raters = np.maximum((np.isfinite(persons) & mask).any(axis=1).sum(axis=0), 1)
    return noise, np.asarray(tastes / raters)


def _quality(human: Floats, of_people: _Effects, mask: Bools, noise: float) -> tuple[Floats, float, float]:
    """The expected quality of each output given what people said of it and of its item (items, systems), the
    reliability of what is particular to an output, and the standard deviation of outputs of one system."""
    n_items, n_systems = int(mask.any(axis=1).sum()), int(mask.any(axis=0).sum())
    per_item = np.maximum(mask.sum(axis=1), 1)
    freedom = max(int(mask.sum()) - n_items - n_systems + 1, 1)
    particular = float((of_people.residuals**2).sum() / freedom)
    ease = (human.sum(axis=1) - (of_people.effects * mask).sum(axis=1)) / per_item
    rated = mask.any(axis=1)
    ease = np.where(rated, ease - ease[rated].mean(), 0.0)
    between = float((per_item * ease**2).sum() / max(n_items - 1, 1))
    within = max(0.0, 1 - noise / particular) if particular > 0 else 0.0
    shared = max(0.0, 1 - noise / between) if between > 0 else 0.0
    quality = of_people.effects + shared * ease[:, None] + within * of_people.residuals
    items = max(between - particular, 0.0) / float(per_item[rated].mean())
    return np.where(mask, quality, 0.0), within, float(np.sqrt(max(particular - noise, 0.0) + items))


def _curved(quality: Floats, within: float, mask: Bools, own: _Effects, of_people: _Effects) -> _Effects:
    """What the curved part of the link adds to the metric's mean of each system, and the influence of what remains.

    The link is a natural spline of quality, fitted to outputs within items and systems, so that neither favour nor a
    difference between systems can bend it.
    """
    flat = _Effects(np.zeros_like(own.effects), own.residuals, own.influence)
    if within <= 0:
        return flat
    known = quality[mask]
    scale = float(known.std())
    knots = np.linspace(float(np.quantile(known, _KNOT_RANGE[0])), float(np.quantile(known, _KNOT_RANGE[1])), _KNOTS)
    if scale <= 0 or knots[0] == knots[-1]:
        return flat
    # What is straight in the basis belongs to the line, so that turning both scales round turns nothing else.
    centred = known - known.mean()
    straight = _spline(known / scale, knots / scale) @ centred / (centred @ centred)
    basis = np.where(mask, _spline(quality / scale, knots / scale) - straight[:, None, None] * quality, 0.0)
    line, bends = _two_way(quality, mask), _two_way(basis, mask)
    regressors = np.concatenate([line.residuals[None], bends.residuals])
    gram = np.einsum("jis,kis->jk", regressors, regressors)
    solved = np.linalg.pinv(gram, hermitian=True)
    fitted = solved @ np.einsum("jis,is->j", regressors, own.residuals)
    unexplained = own.residuals - np.einsum("j,jis->is", fitted, regressors)
    error = np.einsum("jk,kis,is->ij", solved, regressors, unexplained)[:, 1:]
    influence = own.influence - np.einsum("j,jis->is", fitted[1:], bends.influence) - error @ bends.effects
    # Quality leans on the mean of the system as far as an output's own rating is noise, and so does the curved part.
    step = 1e-4
    above, below = (_spline(quality / scale + side, knots / scale) for side in (step, -step))
    slopes = (above - below) / (2 * step * scale) - straight[:, None, None]
    steep = ratio(np.where(mask, np.einsum("j,jis->is", fitted[1:], slopes), 0.0).sum(axis=0), mask.sum(axis=0))
    leaning = (1 - within) * np.nan_to_num(steep) * of_people.influence
    left = influence - (leaning - leaning.mean(axis=1, keepdims=True))
    return _Effects(fitted[1:] @ bends.effects, unexplained, np.asarray(left))


def _spline(x: Floats, knots: Floats) -> Floats:
    """The curved part of a natural cubic spline: (...) -> (knots - 2, ...)."""
    cubes = np.maximum(x[None] - knots.reshape(-1, *[1] * x.ndim), 0.0) ** 3
    ends = (cubes[:-1] - cubes[-1]) / (knots[-1] - knots[:-1]).reshape(-1, *[1] * x.ndim)
    return np.asarray(ends[:-1] - ends[-1])


def _normal_scores(values: Floats, mask: Bools) -> Floats:
    """Normal quantiles of mid-ranks over the mask; 0 elsewhere."""
    from scipy.special import ndtri

    scores = np.zeros(values.shape)
    if mask.any():
        scores[mask] = ndtri((mid_ranks(values[mask]) - 0.5) / mask.sum())
    return scores
