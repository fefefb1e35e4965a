"""Design of a study: items and systems, clusters for resampling, and weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import DTypeLike, NDArray

from custodes.data.comparisons import pairs_of
from custodes.data.panel import label_codes
from custodes.data.study import Study
from custodes.memory import check_memory, count_resample_values
from custodes.stats import bootstrap
from custodes.stats.arrays import Floats, ReadOnlyArrays
from custodes.stats.clusters import effective_clusters, is_clustered

MOST_BLOCKS = 2000
"""Maximum number of blocks of clusters; more clusters are grouped into blocks, which are treated as independent."""


@dataclass(frozen=True, kw_only=True)
class Design(ReadOnlyArrays):
    """Items and systems of a comparison, with clusters and weights.

    `clusters` are the names of the clusters; an item without a declared cluster is a cluster of one item. `units`
    (items,) is the position of the cluster of each item, and `weights` (items,) is the weight of each item.
    `probability` (items,) is the probability that an item was annotated, NaN if unknown. `group` and `dataset` have a
    value for each item, '' if unknown.
    """

    items: tuple[str, ...]
    systems: tuple[str, ...]
    clusters: tuple[str, ...]
    units: NDArray[np.int64]
    weights: Floats
    probability: Floats
    group: tuple[str, ...]
    dataset: tuple[str, ...]

    @classmethod
    def from_study(cls, study: Study, *, items: Sequence[str], systems: Sequence[str]) -> Design:
        """Return the design of these items and systems, with clusters and weights from the items table of the study."""
        item_labels, n_items = tuple(items), len(items)
        if study.items.frame.is_empty():  # then each item is a separate cluster
            return cls(
                items=item_labels,
                systems=tuple(systems),
                clusters=item_labels,
                units=np.arange(n_items),
                weights=np.ones(n_items),
                probability=np.full(n_items, np.nan),
                group=("",) * n_items,
                dataset=("",) * n_items,
            )
        item_table = study.items.item_rows(pl.Series(item_labels, dtype=pl.String))
        cluster_name_of_item = item_table.select(
            pl.when(pl.col("cluster") != "").then("cluster").otherwise("item")
        ).to_series()
        # sorted, so that resamples do not depend on the order of items
        distinct_cluster_names = tuple(cluster_name_of_item.unique().sort())
        return cls(
            items=item_labels,
            systems=tuple(systems),
            clusters=distinct_cluster_names,
            units=label_codes(cluster_name_of_item, distinct_cluster_names),
            weights=item_table["weight"].fill_null(1.0).to_numpy(),
            probability=item_table["probability"].fill_null(np.nan).to_numpy(),
            group=tuple(item_table["group"]),
            dataset=tuple(item_table["dataset"]),
        )

    def on(self, item_positions: NDArray[np.intp]) -> Design:
        """Return the design of the items at these positions."""
        distinct_units, renumbered_units = np.unique(self.units[item_positions], return_inverse=True)
        return replace(
            self,
            items=tuple(self.items[item_position] for item_position in item_positions),
            clusters=tuple(self.clusters[unit] for unit in distinct_units),
            units=renumbered_units.reshape(-1),
            weights=self.weights[item_positions],
            probability=self.probability[item_positions],
            group=tuple(self.group[item_position] for item_position in item_positions),
            dataset=tuple(self.dataset[item_position] for item_position in item_positions),
        )

    def group_into_blocks(self) -> Design:
        """Return the design with clusters grouped into at most `MOST_BLOCKS` blocks."""
        return replace(self, units=self.units % MOST_BLOCKS, clusters=self.clusters[:MOST_BLOCKS])

    @property
    def n_units(self) -> int:
        """Number of clusters."""
        return len(self.clusters)

    @property
    def n_effective_units(self) -> float:
        """Effective number of clusters (Kish 1965), computed from the weights of items; at least 2 if there are several
        clusters."""
        return effective_clusters(np.bincount(self.units, weights=self.weights, minlength=self.n_units))

    @property
    def has_clusters(self) -> bool:
        """Whether some clusters have several items."""
        return is_clustered(self.units)

    @property
    def has_item_weights(self) -> bool:
        """Whether some items have a weight other than 1."""
        return not (self.weights == 1).all()

    @property
    def selected_unequally(self) -> bool:
        """Whether items were selected for human ratings with different known probabilities."""
        return len(np.unique(self.probability[np.isfinite(self.probability)])) > 1

    @property
    def weighted_by_selection(self) -> Design:
        """The design for human ratings, with weights divided by the probability of selection where it is known
        (Horvitz and Thompson 1952)."""
        return replace(self, weights=self.weights / np.where(np.isnan(self.probability), 1.0, self.probability))

    @property
    def pairs(self) -> NDArray[np.int64]:
        """Positions of the two systems of each pair, (pairs, 2)."""
        return np.stack(pairs_of(self.systems), axis=1)

    def draw_weights(self, resamples: int, rng: np.random.Generator, *, dtype: DTypeLike = np.float64) -> NDArray[Any]:
        """Return the bootstrap weights (1 + B, clusters) of B resamples; row 0 has the weights of the data.

        A single cluster is never resampled. Integers of one byte (`uint8`) are enough for `bootstrap.weighted_sums`.
        """
        check_memory(
            "resamples", resamples, count_resample_values(resamples, self.n_units * np.dtype(dtype).itemsize / 8)
        )
        return bootstrap.bootstrap_weights(self.n_units, resamples if self.n_units > 1 else 0, rng, dtype=dtype)
