"""Placement: where humans and one metric place every system, with sampling covariances, from scores or verdicts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from custodes.stats.arrays import Bools, Floats, Ints
from custodes.stats.bootstrap import unit_sums
from custodes.stats.system_scores import blocks_of, common_items

POWERS = (0.5, 0.2)
"""Prior standard deviations of the coefficients of the square and the cube of quality in the link, in normal scores of
the metric where quality has a standard deviation of 1."""


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Where humans and one metric place every system.

    `human` and `metric` (systems,), with sampling covariances `hh`, `hm`, `mm` (systems, systems). `powers` (powers,
    systems): mean square and cube of the quality of each system. Their part of the link, as far as it was seen within
    systems, is already taken off `metric`; their coefficients have errors of `powers_covariance` (powers, powers).
    `spread`: standard deviation of outputs of one system. `units` (systems,): clusters behind each; `connected`
    (systems,): joined to the others by common items; `met` (systems,): compared with all of these. `advantage`
    (systems, systems): by how much the metric prefers the first of two, as a normal deviate; `steepness`: what one unit
    of `metric` adds to it.
    """

    human: Floats
    metric: Floats
    hh: Floats
    hm: Floats
    mm: Floats
    powers: Floats
    powers_covariance: Floats
    spread: float
    units: Ints
    connected: Bools
    met: Bools
    advantage: Floats
    steepness: Floats


def by_unit(influence: Floats, units: Ints) -> Floats:
    """(items, systems) -> (units, systems)."""
    return unit_sums(influence.T, units=units, n_units=int(units.max()) + 1).T


def covariance(first: Floats, second: Floats) -> Floats:
    """Of sums over units: influences (units, systems) -> (systems, systems)."""
    n = int((first != 0).any(axis=1).sum())
    return np.asarray(first.T @ second * (n / max(n - 1, 1)))


def units_behind(mask: Bools, units: Ints) -> Ints:
    """(systems,): clusters in which each system was seen."""
    return np.asarray((unit_sums(mask.T, units=units, n_units=int(units.max()) + 1) > 0).sum(axis=1))


def connected_systems(mask: Bools) -> Bools:
    """(systems,): whether each belongs to the largest set of systems that common items (items, systems) join."""
    return largest_block(common_items(mask), np.asarray(mask.any(axis=0)))


def largest_block(joined: Bools, there: Bools) -> Bools:
    """(systems,): whether each is there and in the largest set that is joined (systems, systems)."""
    part = blocks_of(joined)
    return np.asarray((part == np.bincount(part).argmax()) & there)
