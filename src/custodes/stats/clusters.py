"""Design effects of clusters: items of one document contain less information than equally many items of different
documents.

Each item has an influence on a statistic of counts. If items are independent, the sum of the squared influences of
items is the variance of the statistic. If only clusters are independent, influences are first summed within clusters,
and the variance is the sum of the squares of these sums. The design effect is the variance by clusters divided by the
variance by items. Counts divided by the design effect are effective counts. A statistic of effective counts has the
variance that the clusters imply.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.stats import ABSENT
from custodes.stats.arrays import Bools, Floats, Ints, Signs, chunks
from custodes.stats.bootstrap import unit_sums
from custodes.stats.ratios import ratio

FEWEST_CLUSTERS = 6
"""With fewer effective clusters, a correlation within clusters is not estimated, but counts as 1."""

_STEP = 1e-4  # step of numerical derivatives, to either side of a count
_SPREAD = 1.0  # total pseudo-count; with it, each cluster counts as one answer if all answers are equal
_DIGITS = 4  # rounding, so that swapping systems gives exactly symmetric results

# cell of each outcome [human, metric]; in the last row and the last column, the rating is absent
_CELL = np.array([[0, 1, 2, 12], [3, 4, 5, 13], [6, 7, 8, 14], [9, 10, 11, 15]], dtype=np.int8)


def is_clustered(units: NDArray[np.integer[Any]]) -> bool:
    """Whether some items share a cluster, given the cluster of each item (items,)."""
    return len(np.unique(units)) < len(units)


def effective_clusters(sizes: NDArray[Any]) -> float:
    """Effective number of clusters with these sizes: with this number of equal clusters, a mean has the same variance.

    The effective number is at least 2 if several clusters have a positive size.

    >>> effective_clusters(np.array([5, 5, 5, 0])), round(effective_clusters(np.array([100] + [5] * 25)), 2)
    (3.0, 4.76)

    Source: Kish 1965.
    """
    return float(effective_clusters_by_row(sizes))


def effective_clusters_by_row(sizes: NDArray[Any]) -> Floats:
    """Effective number of clusters (...) for each row of cluster sizes (..., clusters); see `effective_clusters`.

    >>> effective_clusters_by_row(np.array([[5, 5, 0], [7, 0, 0], [0, 0, 0]])).tolist()
    [2.0, 1.0, 0.0]
    """
    n_clusters = (sizes > 0).sum(axis=-1)
    n_effective_clusters = ratio(sizes.sum(axis=-1) ** 2, (sizes**2).sum(axis=-1))
    return np.where(n_clusters > 1, np.fmax(n_effective_clusters, 2.0), n_clusters)


class DesignEffect(NamedTuple):
    """Design effects of statistics (...).

    `effect` is the variance by clusters divided by the variance by items, at least 1. With a single cluster, the
    variance by clusters is unknown, and `effect` is inf. `clusters` is the effective number of equal clusters.
    `clusters` is inf if no two items share a cluster.
    """

    effect: Floats
    clusters: Floats

    def divisor(self, confidence: float) -> Floats:
        """Divisor of counts (...): the design effect, increased if there are few clusters, because the design effect is
        then uncertain.

        For few clusters, the factor is the squared ratio of two quantiles: of t with clusters - 1 degrees of freedom,
        and of the normal distribution. An interval from effective counts is then as wide as an interval by Student's t.
        The divisor is at least 1, and it is 1 without ratings.
        """
        from scipy.special import ndtri, stdtrit

        is_effect_estimated = np.isfinite(self.effect) & np.isfinite(self.clusters)
        degrees_of_freedom = np.maximum(np.where(is_effect_estimated, self.clusters, 2.0) - 1, 0.1)
        squared_quantile_ratio = (stdtrit(degrees_of_freedom, (1 + confidence) / 2) / ndtri((1 + confidence) / 2)) ** 2
        return np.asarray(
            np.round(np.fmax(self.effect * np.where(is_effect_estimated, squared_quantile_ratio, 1.0), 1.0), _DIGITS)
        )


def joint_outcomes(human: Signs, metric: Signs) -> Signs:
    """Cell of each item in a row of `Counts`, given the signs (..., items) of annotators and metric; 15 if both are
    absent.

    >>> joint_outcomes(np.array([1, -1, ABSENT], dtype=np.int8), np.array([1, ABSENT, ABSENT], dtype=np.int8)).tolist()
    [0, 14, 15]
    """
    return np.asarray(_CELL[outcomes(human), outcomes(metric)])


def outcomes(signs: Signs) -> Signs:
    """Outcomes of signs (..., items): 0 win, 1 tie, 2 loss, 3 absent."""
    return np.where(signs == ABSENT, np.int8(3), np.int8(1) - signs)


class ClusterRows(NamedTuple):
    """Counts of items, with one row for each table and cluster that has items.

    `counts` (n, cells) is the number of items of the row in each cell. `table` and `cluster` (n,) identify each row;
    rows are sorted by table, then by cluster. `number` (n,) is the number of identical clusters that are merged in a
    row. `n_tables` is the number of tables.
    """

    counts: NDArray[np.int64]
    table: Ints
    cluster: Ints
    number: Ints
    n_tables: int

    def total(self, values: NDArray[Any]) -> Floats:
        """Sums of `values` (n,) over the clusters of each table: (tables,)."""
        return np.bincount(self.table, weights=self.number * values, minlength=self.n_tables).astype(np.float64)


def cluster_rows(
    table_of_item: Ints,
    cell_of_item: Signs,
    cluster_of_item: Ints,
    *,
    n_cells: int,
    n_tables: int,
    multiplicity: Ints | None = None,
) -> ClusterRows:
    """Count items by table and cluster.

    Parameters
    ----------
    table_of_item, cell_of_item, cluster_of_item : int arrays of shape (n,)
        Table, cell and cluster of each item. Items in cells of `n_cells` or more are not counted.
    n_cells, n_tables : int
        Number of cells, and number of tables.
    multiplicity : int array of shape (clusters,), optional
        Number of identical clusters that are merged in each cluster, 1 by default.

    Examples
    --------
    >>> rows = cluster_rows(np.array([1, 1, 0]), np.array([0, 2, 2]), np.array([5, 5, 7]), n_cells=3, n_tables=2)
    >>> rows.counts.tolist(), rows.table.tolist(), rows.cluster.tolist()
    ([[0, 0, 1], [1, 0, 1]], [0, 1], [7, 5])
    """
    is_counted_item = cell_of_item < n_cells
    n_clusters = int(cluster_of_item.max(initial=0)) + 1
    table_and_cluster_keys, row_of_counted_item = np.unique(
        table_of_item[is_counted_item].astype(np.int64) * n_clusters + cluster_of_item[is_counted_item],
        return_inverse=True,
    )
    counts_of_row = np.bincount(
        row_of_counted_item * n_cells + cell_of_item[is_counted_item], minlength=len(table_and_cluster_keys) * n_cells
    ).reshape(-1, n_cells)
    table_of_row, cluster_of_row = np.divmod(table_and_cluster_keys, n_clusters)
    return ClusterRows(
        counts_of_row,
        table_of_row,
        cluster_of_row,
        np.ones_like(cluster_of_row) if multiplicity is None else multiplicity[cluster_of_row],
        n_tables,
    )


def influence(statistic: Callable[[Floats], Floats], counts: NDArray[Any]) -> Floats:
    """Influence of one more item in a cell on a statistic of tables: (..., cells) -> (..., cells).

    The influences are central differences. One pseudo-item, spread evenly over all cells, is first added to the counts.

    >>> influence(lambda counts: counts[..., 0] / counts.sum(axis=-1), np.array([60, 39])).round(4).tolist()
    [0.004, -0.0061]

    Source: Hampel 1974; the sum of squared influences is the variance by linearisation (Binder 1983).
    """
    smoothed_counts = counts + _SPREAD / counts.shape[-1]
    step_sizes = np.moveaxis(_STEP * smoothed_counts, -1, 0)
    influences = np.zeros(step_sizes.shape)
    for cell_slice in chunks(len(step_sizes), smoothed_counts.size):
        count_steps = np.zeros((len(step_sizes[cell_slice]), *smoothed_counts.shape))
        count_steps[np.arange(len(count_steps)), ..., np.arange(len(step_sizes))[cell_slice]] = step_sizes[cell_slice]
        influences[cell_slice] = (
            statistic(smoothed_counts + count_steps) - statistic(smoothed_counts - count_steps)
        ) / (2 * step_sizes[cell_slice])
    return np.nan_to_num(np.moveaxis(influences, 0, -1))


def design_effect(statistic: Callable[[Floats], Floats], rows: ClusterRows) -> DesignEffect:
    """Design effect of a statistic of tables (..., cells) whose counts are sums over clusters: (tables,).

    A table has 3 cells or 15 cells. 3 cells are the wins, ties and losses of one rater. 15 cells are the fields of
    `Counts` in their order (9 + 3 + 3). The sum of squares over clusters is multiplied by C / (C - 1), because the mean
    was subtracted. C is the effective number of clusters: each cluster is weighted by its expected contribution to the
    variance, which depends on its number of items and on their similarity. With one very large cluster, C is near 1.
    The design effect is NaN without ratings.

    >>> table = np.zeros(20, dtype=int)
    >>> rows = cluster_rows(table, np.repeat([0, 2, 0, 2], 5), np.repeat(np.arange(4), 5), n_cells=3, n_tables=1)
    >>> effect, clusters = design_effect(lambda counts: counts[..., 0] / counts.sum(axis=-1), rows)
    >>> round(float(effect[0]), 2), round(float(clusters[0]), 2)  # the five items of a cluster are equal
    (6.67, 4.0)

    Source: Kish 1965; Liang and Zeger 1986 (the variance by clusters); Carter, Schnepel and Steigerwald 2017 (effective
    number of unequal clusters).
    """
    counts, table_of_row, sum_by_table = rows.counts, rows.table, rows.total

    def sum_by_cluster(cell_values: Floats) -> Floats:
        return np.asarray(np.einsum("nk,nk->n", counts, np.nan_to_num(cell_values)[table_of_row]))

    cell_totals = np.stack([sum_by_table(cell_counts) for cell_counts in counts.T], axis=-1)
    influences = influence(statistic, cell_totals)
    # Expected contribution of one item to the variance, for each kind of item (rated by both raters, or by one alone).
    kind_of_cell = np.repeat([0, 1, 2], [9, 3, 3])[: counts.shape[1]]
    square_sums, item_sums = (
        unit_sums(values, units=kind_of_cell, n_units=3) for values in (influences**2 * cell_totals, cell_totals)
    )
    mean_squared_influences = ratio(square_sums, item_sums)[..., kind_of_cell]
    # Mean of the expected and the observed variance. With the observed variance alone, a few losses could reduce the
    # effective number of clusters to one (wide intervals). With the expected variance alone, intervals of one-sided
    # pairs are too narrow (measured in tests/simulation).
    independent_variance_of_cluster, n_relevant_items_of_cluster = (
        sum_by_cluster((mean_squared_influences + influences**2) / 2),
        sum_by_cluster(np.where(mean_squared_influences > 0, 1.0, 0.0)),
    )
    independent_variance_of_table = sum_by_table(independent_variance_of_cluster)
    largest_cluster_size = np.zeros(rows.n_tables)
    np.maximum.at(largest_cluster_size, table_of_row, n_relevant_items_of_cluster)
    variance_ratio = ratio(sum_by_table(sum_by_cluster(influences) ** 2), independent_variance_of_table)
    # With similar items, the variance of a large cluster grows with the square of its size.
    correlation_within_cluster = np.clip(
        ratio(
            variance_ratio - 1,
            ratio(
                sum_by_table(independent_variance_of_cluster * n_relevant_items_of_cluster),
                independent_variance_of_table,
            )
            - 1,
        ),
        0,
        1,
    )
    variance_of_cluster = independent_variance_of_cluster * (
        1 + (n_relevant_items_of_cluster - 1) * np.nan_to_num(correlation_within_cluster)[table_of_row]
    )
    n_effective_clusters = ratio(sum_by_table(variance_of_cluster) ** 2, sum_by_table(variance_of_cluster**2))
    is_one_item_per_cluster = largest_cluster_size <= 1
    effect = np.select(
        [independent_variance_of_table == 0, is_one_item_per_cluster, ~(n_effective_clusters > 1 + 1e-9)],
        [np.nan, 1.0, np.inf],
        np.fmax(variance_ratio * ratio(n_effective_clusters, n_effective_clusters - 1), 1.0),
    )
    return DesignEffect(
        np.round(effect, _DIGITS),
        np.where(is_one_item_per_cluster & (independent_variance_of_table > 0), np.inf, n_effective_clusters),
    )


def multiplicity_by_unit(multiplicity: Floats, *, units: Ints, n_units: int) -> Floats:
    """Number of identical clusters that are merged in each cluster: values by output (n,) -> values by cluster
    (n_units,)."""
    multiplicity_of_unit = np.zeros(n_units)
    multiplicity_of_unit[units] = multiplicity
    return multiplicity_of_unit


def influence_design_effect(
    influence: Floats, units: Ints, *, kind: Bools | None = None, multiplicity: Floats | None = None
) -> DesignEffect:
    """Design effect of an estimate from the influences of outputs (n,), given the cluster of each output (`units`,
    (n,)).

    The design effect is the variance by clusters, times C / (C - 1), divided by the variance by outputs. It is at least
    1. C is the effective number of clusters. Clusters are weighted by the mean of expected and observed variance, as in
    `design_effect`. `kind` (n,) marks two kinds of outputs with different expected influences, such as outputs with and
    without a human label. `multiplicity` (n,) is the number of identical clusters that are merged in the cluster of an
    output, 1 by default.

    >>> effect, clusters = influence_design_effect(np.repeat([1.0, -1.0, 1.0, -1.0], 5), np.repeat(np.arange(4), 5))
    >>> round(float(effect), 2), float(clusters)
    (6.67, 4.0)

    Source: Kish 1965; Liang and Zeger 1986.
    """
    n_units = int(units.max(initial=-1)) + 1
    multiplicity = np.ones(len(influence)) if multiplicity is None else multiplicity
    multiplicity_of_unit = multiplicity_by_unit(multiplicity, units=units, n_units=n_units)
    squared_influences = influence**2
    if not squared_influences.any():
        return DesignEffect(np.array(np.nan), np.array(np.inf))
    kind_of_output = np.zeros(len(influence), dtype=np.intp) if kind is None else kind.astype(np.intp)
    square_sums, n_outputs = (
        np.bincount(kind_of_output, values) for values in (squared_influences * multiplicity, multiplicity)
    )
    expected_squared_influences = np.nan_to_num(ratio(square_sums, n_outputs))[kind_of_output]
    if np.bincount(units[expected_squared_influences > 0], minlength=n_units).max(initial=0) <= 1:
        return DesignEffect(np.array(1.0), np.array(np.inf))
    # Up to a factor, which cancels, the variance by cluster is the mean of the expected and the observed variance.
    variance_by_cluster = unit_sums(expected_squared_influences + squared_influences, units=units, n_units=n_units)
    n_effective_clusters = ratio(
        np.array((variance_by_cluster * multiplicity_of_unit).sum() ** 2),
        np.array((variance_by_cluster**2 * multiplicity_of_unit).sum()),
    )
    effect = (
        (unit_sums(influence, units=units, n_units=n_units) ** 2 * multiplicity_of_unit).sum()
        / square_sums.sum()
        * ratio(n_effective_clusters, n_effective_clusters - 1)
    )
    return DesignEffect(np.where(n_effective_clusters > 1, np.fmax(effect, 1.0), np.inf), n_effective_clusters)


def null_effect(wins_and_losses: NDArray[Any], cluster_square_sums: NDArray[Any], n_clusters: NDArray[Any]) -> Floats:
    """Number, at least 1, by which a sign test divides its counts to allow for clusters; all arrays have shape (...).

    For `cluster_square_sums`, signs are summed within each cluster, and the squares of these sums are summed over
    clusters. The result is the variance of wins - losses under the null hypothesis. If every item is a cluster, the
    result is the number of wins and losses. Because this variance holds under the null hypothesis, no t quantiles are
    needed, and the test is also valid at small levels. With C = `n_clusters`, |z| is at most sqrt(C). If there are
    fewer than twelve clusters, this limit would allow p-values below 2^(1 - C), the smallest p-value of sign flips of
    whole clusters. The divisor is then increased so that no p-value is below 2^(1 - C).

    >>> null_effect(np.array([20, 20]), np.array([20, 100]), np.array([20, 20])).tolist()
    [1.0, 5.0]

    Source: developed for custodes; the score form of a variance by clusters (Cameron, Gelbach and Miller 2008 impose
    the null likewise).
    """
    return np.asarray(np.fmax(ratio(cluster_square_sums, wins_and_losses) * few_clusters(n_clusters), 1.0))


def few_clusters(n_clusters: NDArray[Any]) -> Floats:
    """Factor by which a variance (...) that is estimated from C clusters is multiplied. With this factor, |z| is at
    most the |z| that sign flips of clusters can reach.

    >>> few_clusters(np.array([6, 12, 40])).round(2).tolist()
    [1.29, 1.0, 1.0]
    """
    from scipy.special import ndtri

    largest_z = ndtri(np.exp2(-np.maximum(n_clusters, 2.0)))  # the largest |z| that sign flips can reach
    return np.asarray(np.maximum(n_clusters / largest_z**2, 1.0))


def pooled_design_effect(signs: Signs, *, units: NDArray[np.integer[Any]]) -> Floats:
    """Design effect of each pair, estimated from all pairs jointly: signs (..., pairs, items), units (items,) -> (...,
    pairs).

    The design effect is 1 + (k - 1) rho, at least 1. For each annotation of a pair, count the annotations of this pair
    in the same cluster, including the annotation itself. k is the mean of these counts. rho is the correlation within
    clusters, with each pair centred on its mean. One rho is estimated for all pairs of a study. Because an estimate of
    rho from few clusters is uncertain, its standard error over clusters is added. The n annotations of a pair have n /
    k effective clusters. If this is fewer than `FEWEST_CLUSTERS`, rho is 1 for this pair, so that its annotations count
    as n / k annotations. The design effect is exactly 1 if no two annotations of a pair share a cluster.

    >>> signs = np.array([[1, 1, -1, -1, 1, 1, -1, -1]])
    >>> pooled_design_effect(signs, units=np.array([0, 0, 1, 1, 2, 2, 3, 3])).tolist()
    [2.0]
    >>> pooled_design_effect(signs, units=np.arange(8)).tolist()
    [1.0]

    Source: Kish 1965, "Survey Sampling" (the design effect); the moment estimator of one correlation was developed for
    custodes.
    """
    is_annotated = signs != ABSENT
    n_units = int(units.max(initial=-1)) + 1
    n_annotations_by_cluster = unit_sums(is_annotated, units=units, n_units=n_units)  # (..., pairs, units)
    n_annotations = n_annotations_by_cluster.sum(axis=-1)
    mean_cluster_size = (n_annotations_by_cluster**2).sum(axis=-1) / np.maximum(n_annotations, 1)
    if (mean_cluster_size <= 1).all():
        return np.ones(n_annotations.shape)
    mean_sign_of_pair = np.where(is_annotated, signs, 0).sum(axis=-1) / np.maximum(n_annotations, 1)
    residuals = np.where(is_annotated, signs - mean_sign_of_pair[..., np.newaxis], 0.0)
    # Residuals are centred on the mean of the pair, so both sums of squares are too small, by the inverses of these
    # factors; for the sums of equal clusters, the factor is n / (n - 1) for n clusters.
    n = np.maximum(n_annotations, 1)
    square_sum, cube_sum = ((n_annotations_by_cluster**power).sum(axis=-1) for power in (2, 3))
    item_factor = n / np.maximum(n - 1, 1)
    cluster_factor = ratio(square_sum, square_sum - 2 * cube_sum / n + (square_sum / n) ** 2)
    has_shared_cluster = mean_cluster_size > 1
    residual_square_sums_by_cluster, squared_residual_sums_by_cluster = (
        sums_by_cluster * np.where(has_shared_cluster, np.nan_to_num(factor), 0.0)[..., np.newaxis]
        for sums_by_cluster, factor in (
            (unit_sums(residuals**2, units=units, n_units=n_units), item_factor),
            (unit_sums(residuals, units=units, n_units=n_units) ** 2, cluster_factor),
        )
    )
    excess_by_cluster = (squared_residual_sums_by_cluster - residual_square_sums_by_cluster).sum(
        axis=-2
    )  # (..., units)
    excess_if_rho_is_one = ((mean_cluster_size - 1)[..., np.newaxis] * residual_square_sums_by_cluster).sum(axis=-2)
    total_excess_if_rho_is_one = excess_if_rho_is_one.sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        rho = excess_by_cluster.sum(axis=-1, keepdims=True) / total_excess_if_rho_is_one
        rho_error = (
            np.sqrt(((excess_by_cluster - rho * excess_if_rho_is_one) ** 2).sum(axis=-1, keepdims=True))
            / total_excess_if_rho_is_one
        )
    # Without variation, rho cannot be estimated: annotations may agree because they share a document.
    rho_upper_bound = np.clip(np.where(total_excess_if_rho_is_one > 0, rho + rho_error, 1.0), 0.0, 1.0)
    rho_upper_bound = np.where(n_annotations < FEWEST_CLUSTERS * mean_cluster_size, 1.0, rho_upper_bound)
    return np.asarray(1 + np.maximum(mean_cluster_size - 1, 0.0) * rho_upper_bound)
