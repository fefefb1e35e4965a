"""Battles (pairwise comparisons) of systems as arrays, and their grouping into kinds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from custodes.stats import ABSENT
from custodes.stats.arrays import Bools, Floats, Ints, Signs, table_sums
from custodes.stats.equal_clusters import group_clusters


@dataclass(frozen=True, kw_only=True)
class Battles:
    """Battles between systems; arrays without a stated shape have shape (n,).

    - `first`, `second`: positions of two different systems.
    - `sign` (int8): 1 if the first system won, 0 for a tie, -1 if the second system won, ABSENT without a verdict.
    - `unit`: the cluster, from 0.
    - `weight`: the weight, at least 0.
    - `covariates` (n, k): positive values favour the first system. Presentation order, for example, is 1 if the first
      system was shown first, -1 if the second system was shown first, and 0 if unknown.
    - `times`: number of battles that a row represents, each in a different cluster. The number is equal for all rows of
      a unit; `times` is None if each row is one battle.
    """

    first: Ints
    second: Ints
    sign: Signs
    unit: Ints
    weight: Floats
    covariates: Floats
    times: Ints | None = None

    @property
    def multiplicity(self) -> Ints:
        """Number of battles that each row represents, (n,)."""
        return np.ones(len(self.sign), dtype=np.int64) if self.times is None else self.times

    @property
    def is_usable(self) -> Bools:
        """Whether each battle has a verdict and a positive weight, (n,)."""
        return np.asarray((self.sign != ABSENT) & (self.weight > 0))

    def select_rows(self, row_selection: NDArray[Any]) -> Battles:
        """Return the battles selected by a mask or by positions."""
        return replace(self, **{name: array[row_selection] for name, array in vars(self).items() if array is not None})

    @property
    def clusters(self) -> Ints:
        """Number of clusters that each unit represents, (units,)."""
        cluster_counts = np.ones(int(self.unit.max(initial=-1)) + 1, dtype=np.int64)
        cluster_counts[self.unit] = self.multiplicity
        return cluster_counts

    def merge_equal_clusters(self) -> Battles:
        """Return the battles with identical clusters merged: clusters that contain the same battles become one cluster.

        A row of the merged cluster represents one battle of each cluster that was merged into it.

        >>> grouped = Battles(
        ...     first=np.array([0, 1, 0, 0]), second=np.array([1, 0, 1, 1]), unit=np.arange(4),
        ...     sign=np.array([1, -1, 0, 1], dtype=np.int8), weight=np.ones(4), covariates=np.empty((4, 0)),
        ... ).merge_equal_clusters()
        >>> grouped.sign.tolist(), grouped.times.tolist()
        ([1, 0], [3, 1])
        """
        if not self.is_usable.all():
            return self
        battle_counts = count_by_kind(self, self.multiplicity)
        distinct_weights, weight_code_of_battle = np.unique(self.weight, return_inverse=True)
        outcome_code_of_battle = 3 * battle_counts.kind + 1 - battle_counts.sign
        code_of_battle = outcome_code_of_battle * len(distinct_weights) + weight_code_of_battle
        # Clusters are sorted by their battles, so that grouped and ungrouped battles give the same random draws.
        smallest_code_of_unit = np.full(len(self.clusters), code_of_battle.max(initial=0))
        np.minimum.at(smallest_code_of_unit, self.unit, code_of_battle)
        unit_order = np.argsort(smallest_code_of_unit, kind="stable")
        n_clusters_of_group, rows, group_of_row = group_clusters(
            code_of_battle,
            np.argsort(unit_order)[self.unit],
            n_units=len(unit_order),
            n_clusters_of_unit=self.clusters[unit_order],
        )
        return replace(
            self.select_rows(rows),
            unit=group_of_row,
            times=n_clusters_of_group[group_of_row],
        )

    def without_covariates(self) -> Battles:
        """Return the same battles without covariates."""
        return replace(self, covariates=np.empty((len(self.sign), 0)))

    def components(self, n_systems: int, connection: Literal["weak", "strong"] = "weak") -> Ints:
        """Return the connected component (systems,) of each system in the graph of wins and ties.

        Components are numbered in the order of their smallest system. Systems are comparable only within a weakly
        connected component. Two systems are in one strongly connected component if, in both directions, a chain of
        battles that were won or tied leads from one system to the other. Strengths are finite if each weakly connected
        component is strongly connected.

        >>> battles = Battles(
        ...     first=np.array([0, 2]), second=np.array([1, 3]), sign=np.array([1, 0], dtype=np.int8),
        ...     unit=np.arange(2), weight=np.ones(2), covariates=np.empty((2, 0)),
        ... )
        >>> battles.components(5).tolist(), battles.components(5, "strong").tolist()
        ([0, 0, 1, 1, 2], [0, 1, 2, 2, 3])

        Source: Ford 1957; for ties, Davidson 1970.
        """
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        usable_battles = self.select_rows(self.is_usable)
        pairs = np.stack([usable_battles.first, usable_battles.second])
        edges = np.hstack([pairs[:, usable_battles.sign >= 0], pairs[::-1, usable_battles.sign <= 0]])
        adjacency = coo_array((np.ones(edges.shape[1], dtype=np.int64), edges), shape=(n_systems, n_systems)).tocsr()
        _, first_systems, component_of_system = np.unique(
            connected_components(adjacency, directed=True, connection=connection)[1],
            return_index=True,
            return_inverse=True,
        )
        return np.asarray(np.argsort(np.argsort(first_systems))[component_of_system])


@dataclass(frozen=True, kw_only=True)
class BattleCounts:
    """Battles grouped into kinds; the battles of a kind have the same pair of systems and equal covariates.

    `first` and `second` (kinds,) are the systems, with `first` < `second`, and `covariates` (kinds, k) the covariates.
    `outcomes` (kinds, 3) are the sums of weights of wins, ties and losses of the first system. `kind` (n,) is the kind
    of each battle, and `sign` (n,) its result for the first system of the kind.
    """

    first: Ints
    second: Ints
    covariates: Floats
    outcomes: Floats
    kind: Ints
    sign: Signs


def count_by_kind(battles: Battles, weight: Floats | Ints) -> BattleCounts:
    """Group the battles that have a verdict into kinds; `weight` (n,) is the weight of each battle.

    >>> battles = Battles(
    ...     first=np.array([0, 1, 0]), second=np.array([1, 0, 1]), sign=np.array([1, 1, 0], dtype=np.int8),
    ...     unit=np.arange(3), weight=np.ones(3), covariates=np.empty((3, 0)),
    ... )
    >>> count_by_kind(battles, battles.weight).outcomes.tolist()
    [[1.0, 1.0, 1.0]]
    """
    is_swapped_battle = battles.first > battles.second
    orientation_signs = np.where(is_swapped_battle, -1, 1)
    smaller_systems, larger_systems = np.where(
        is_swapped_battle, (battles.second, battles.first), (battles.first, battles.second)
    )
    oriented_covariates = battles.covariates * orientation_signs[:, np.newaxis] + 0.0  # no -0.0
    oriented_signs = (battles.sign * orientation_signs).astype(np.int8)
    kind_codes = smaller_systems * (int(larger_systems.max(initial=0)) + 1) + larger_systems
    for covariate_values in oriented_covariates.T:
        distinct_covariate_values, covariate_codes = np.unique(covariate_values, return_inverse=True)
        _, kind_codes = np.unique(kind_codes, return_inverse=True)  # renumbered, to avoid integer overflow of products
        kind_codes = kind_codes * len(distinct_covariate_values) + covariate_codes
    _, first_row_of_kind, kind_of_battle = np.unique(kind_codes, return_index=True, return_inverse=True)
    return BattleCounts(
        first=smaller_systems[first_row_of_kind],
        second=larger_systems[first_row_of_kind],
        covariates=oriented_covariates[first_row_of_kind],
        outcomes=table_sums(
            kind_of_battle, 1 - oriented_signs, shape=(len(first_row_of_kind), 3), weights=weight
        ).astype(np.float64),
        kind=kind_of_battle,
        sign=oriented_signs,
    )
