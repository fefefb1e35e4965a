"""People's side of a placement by scores: effects of systems, people's noise and tastes, what may curve the link."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from custodes.stats.arrays import Bools, Floats, Ints
from custodes.stats.partiality.placement import by_unit, connected_systems, covariance, units_behind
from custodes.stats.ratios import ratio

_REPEATED = 20  # repeated human ratings from which their noise is known
_TASTE_LEVEL = 0.99  # of an F test that people have tastes for systems; an allowance for none would cost power
_TAIL = 0.997  # about Holm's bound for eight systems
_KNOTS = 5
_KNOT_RANGE = (0.01, 0.99)


class Effects(NamedTuple):
    """Of a two-way fit (item + system): effects (..., systems), what is left (..., items, systems), and what each item
    adds to the error of the effects (..., items, systems)."""

    effects: Floats
    residuals: Floats
    influence: Floats


class _Bend(NamedTuple):
    """What may curve the link, whatever the metric: the line and the spline (k, items, systems) within items and
    systems, the inverse of their products (k, k), effects (k - 1, systems) and influences (k - 1, items, systems) of
    the spline, its slope summed over the outputs of each system (k - 1, systems), and what people's noise adds to the
    mean of each system (items, systems)."""

    regressors: Floats
    inverse: Floats
    effects: Floats
    influence: Floats
    slopes: Floats
    noise: Floats


class Side(NamedTuple):
    """People on the outputs of a mask (items, systems), as `Placement` has it; `people` (units, systems) is what each
    unit adds to the error of their effects, `n` (systems, systems) the items that two systems share; no `bend` where
    nothing tells of one."""

    mask: Bools
    effects: Floats
    people: Floats
    covariance: Floats
    noise_known: bool
    spread: float
    n: Floats
    units: Ints
    connected: Bools
    bend: _Bend | None


def side_of(persons: Floats, counted: Ints, mask: Bools, units: Ints) -> Side:
    human = np.where(mask, np.nan_to_num(persons).sum(axis=0) / np.maximum(counted, 1), 0.0)
    of_people = two_way(human, mask)
    noise, taste = _noise(persons, counted, mask)
    quality, within, spread = _quality(human, of_people, mask, 0.0 if noise is None else noise)
    people, cells = by_unit(of_people.influence, units), mask.astype(np.float64)
    return Side(
        mask=mask,
        effects=of_people.effects,
        people=people,
        covariance=covariance(people, people) + taste * np.eye(len(taste)),
        noise_known=noise is not None,
        spread=spread,
        n=cells.T @ cells,
        units=units_behind(mask, units),
        connected=connected_systems(mask),
        bend=_bend(quality, within, mask, of_people),
    )


def two_way(values: Floats, mask: Bools) -> Effects:
    """Least squares of item + system on (..., items, systems), 0 outside the mask; effects sum to 0."""
    n = np.maximum(mask.sum(axis=1, keepdims=True), 1)
    centred = np.where(mask, values - values.sum(axis=-1, keepdims=True) / n, 0.0)
    seen = mask.astype(np.float64)
    solved = np.linalg.pinv(np.diag(seen.sum(axis=0)) - (seen / n).T @ seen, hermitian=True)
    effects = centred.sum(axis=-2) @ solved
    fitted = effects[..., None, :] - (effects[..., None, :] * mask).sum(axis=-1, keepdims=True) / n
    residuals = np.where(mask, centred - fitted, 0.0)
    return Effects(effects, residuals, residuals @ solved)


def level(persons: Floats) -> Floats:
    """People (people, items, systems) brought to one level: who rates low throughout must not make those look bad whom
    he happened to rate."""
    ratings = persons.reshape(len(persons), -1).T
    rated = np.isfinite(ratings)
    own = two_way(np.where(rated, ratings, 0.0), rated & (rated.sum(axis=1, keepdims=True) > 1)).effects
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


def _quality(human: Floats, of_people: Effects, mask: Bools, noise: float) -> tuple[Floats, float, float]:
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


def _bend(quality: Floats, within: float, mask: Bools, of_people: Effects) -> _Bend | None:
    """The curved part of the link is a natural spline of quality, fitted to outputs within items and systems, so that
    neither favour nor a difference between systems can bend it."""
    if within <= 0:
        return None
    known = quality[mask]
    scale = float(known.std())
    knots = np.linspace(float(np.quantile(known, _KNOT_RANGE[0])), float(np.quantile(known, _KNOT_RANGE[1])), _KNOTS)
    if scale <= 0 or knots[0] == knots[-1]:
        return None
    # What is straight in the basis belongs to the line, so that turning both scales round turns nothing else.
    centred = known - known.mean()
    straight = _spline(known / scale, knots / scale) @ centred / (centred @ centred)
    basis = np.where(mask, _spline(quality / scale, knots / scale) - straight[:, None, None] * quality, 0.0)
    line, bends = two_way(quality, mask), two_way(basis, mask)
    regressors = np.concatenate([line.residuals[None], bends.residuals])
    gram = np.einsum("jis,kis->jk", regressors, regressors)
    step = 1e-4
    above, below = (_spline(quality / scale + side, knots / scale) for side in (step, -step))
    slopes = (above - below) / (2 * step * scale) - straight[:, None, None]
    return _Bend(
        regressors=regressors,
        inverse=np.linalg.pinv(gram, hermitian=True),
        effects=bends.effects,
        influence=bends.influence,
        slopes=np.where(mask, slopes, 0.0).sum(axis=1),
        # Quality leans on the mean of the system as far as an output's own rating is noise.
        noise=(1 - within) * of_people.influence,
    )


def _spline(x: Floats, knots: Floats) -> Floats:
    """The curved part of a natural cubic spline: (...) -> (knots - 2, ...)."""
    cubes = np.maximum(x[None] - knots.reshape(-1, *[1] * x.ndim), 0.0) ** 3
    ends = (cubes[:-1] - cubes[-1]) / (knots[-1] - knots[:-1]).reshape(-1, *[1] * x.ndim)
    return np.asarray(ends[:-1] - ends[-1])
