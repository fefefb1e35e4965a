"""Placement: position of every system by annotators and by one metric, with sampling covariances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from custodes.stats.arrays import Bools, Floats, Ints
from custodes.stats.bootstrap import unit_sums
from custodes.stats.system_scores import blocks_of, common_items

POWERS = (0.5, 0.2)
"""Prior standard deviations of the coefficients of the square and the cube of quality in the link, in normal scores of
the metric, for quality with a standard deviation of 1."""


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Position of every system by annotators and by one metric.

    `human` and `metric` (systems,), with sampling covariances `hh`, `hm`, `mm` (systems, systems). `powers` (powers,
    systems): mean square and cube of the quality of each system. Their effect through the link, as estimated within
    systems, is already subtracted from `metric`; the coefficients have errors with `powers_covariance` (powers,
    powers). `spread`: standard deviation of outputs of one system. `units` (systems,): clusters of each; `connected`
    (systems,): whether common items connect it to the others; `met` (systems,): whether it was compared with all
    connected systems. `advantage` (systems, systems): preference of the metric for the system of the row over that of
    the column, as a normal deviate; `steepness`: its increase per unit of `metric`.
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
    """Sums over the items of each unit: (items, systems) -> (units, systems)."""
    return unit_sums(influence.T, units=units, n_units=int(units.max()) + 1).T


def covariance(first: Floats, second: Floats) -> Floats:
    """Covariance of sums over units: influences (units, systems) -> (systems, systems)."""
    n = int((first != 0).any(axis=1).sum())
    return np.asarray(first.T @ second * (n / max(n - 1, 1)))


def units_behind(mask: Bools, units: Ints) -> Ints:
    """(systems,): number of clusters with an output of each system."""
    return np.asarray((unit_sums(mask.T, units=units, n_units=int(units.max()) + 1) > 0).sum(axis=1))


def connected_systems(mask: Bools) -> Bools:
    """(systems,): whether each system belongs to the largest set of systems that common items (items, systems)
    connect."""
    return largest_block(common_items(mask), np.asarray(mask.any(axis=0)))


def largest_block(joined: Bools, there: Bools) -> Bools:
    """(systems,): whether each is present and in the largest set connected by `joined` (systems, systems)."""
    part = blocks_of(joined)
    return np.asarray((part == np.bincount(part).argmax()) & there)
