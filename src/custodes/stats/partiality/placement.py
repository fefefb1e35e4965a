"""Placement: position of every system by human ratings and by one metric, with sampling covariances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from custodes.stats.arrays import Bools, Floats, Ints
from custodes.stats.bootstrap import unit_sums
from custodes.stats.system_scores import blocks_of, common_items

POWERS = (0.5, 0.2)
"""Prior standard deviations of the link's coefficients for squared and cubed quality.

The coefficients are in normal scores of the metric, and quality has a standard deviation of 1.
"""


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Position of every system by human ratings and by one metric.

    - `human`, `metric` (systems,): the positions, with sampling covariances `hh`, `hm`, `mm` (systems, systems).
    - `powers` (powers, systems): mean of squared and of cubed quality of each system. Their effect through the link, as
      estimated within systems, is already subtracted from `metric`.
    - `powers_covariance` (powers, powers): covariance of the errors of the link's coefficients for `powers`.
    - `spread`: standard deviation of outputs of one system.
    - `units` (systems,): number of clusters with outputs of the system.
    - `connected` (systems,): whether the system belongs to the largest set of systems that common items connect.
    - `met` (systems,): whether the system was compared with all connected systems.
    - `advantage` (systems, systems): how strongly the metric prefers the system of the row to the system of the column,
      as a normal deviate.
    - `steepness` (systems, systems): increase of `advantage` per unit of `metric`.
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


def sum_by_unit(influence: Floats, units: Ints) -> Floats:
    """Return the sums (units, systems) of `influence` (items, systems) over the items of each unit."""
    return unit_sums(influence.T, units=units, n_units=int(units.max()) + 1).T


def covariance(first: Floats, second: Floats) -> Floats:
    """Return the covariance (systems, systems) of sums over units, given two influences (units, systems)."""
    n_units = int((first != 0).any(axis=1).sum())
    return np.asarray(first.T @ second * (n_units / max(n_units - 1, 1)))


def count_clusters(mask: Bools, units: Ints) -> Ints:
    """Return the number (systems,) of clusters that contain an output of the system."""
    return np.asarray((unit_sums(mask.T, units=units, n_units=int(units.max()) + 1) > 0).sum(axis=1))


def connected_systems(mask: Bools) -> Bools:
    """Return whether each system (systems,) belongs to the largest set of systems that are connected by common items.

    `mask` (items, systems) marks the outputs that exist.
    """
    return largest_block(common_items(mask), np.asarray(mask.any(axis=0)))


def largest_block(is_connected: Bools, is_present: Bools) -> Bools:
    """Return whether each system (systems,) is present and in the largest set that `is_connected` connects.

    `is_connected` (systems, systems) marks the pairs with a direct connection, `is_present` (systems,) the present
    systems.
    """
    component_of_system = blocks_of(is_connected)
    return np.asarray((component_of_system == np.bincount(component_of_system).argmax()) & is_present)
