"""Outcome counts of pairs of systems: the result of a table engine, and the input of many statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl
from numpy.typing import NDArray

from custodes.data.comparisons import HUMAN, Comparisons, pairs_of
from custodes.data.notes import Note
from custodes.data.panel import pair_positions
from custodes.data.table_engines import collect_rows
from custodes.data.ties_and_orders import OUTPUTS
from custodes.errors import OptionError
from custodes.stats.arrays import Bools, Floats, Ints, ReadOnlyArrays, Signs, table_sums
from custodes.stats.clusters import ClusterRows, cluster_rows, outcomes
from custodes.stats.equal_clusters import codes_of, group_clusters, iter_group_weights, sums_of

Sums = Callable[[Floats], NDArray[Any]]

BY_ORDER: dict[Any, Any] = {
    "rater": pl.String,
    "system_a": pl.String,
    "system_b": pl.String,
    "order": pl.Float64,
    "wins": pl.Int64,
    "ties": pl.Int64,
    "losses": pl.Int64,
}
"""Columns of `OutcomeCounts.by_order`."""

SIGNS = {"wins": 1, "ties": 0, "losses": -1}

ABSENT_CODE = 3
CELLS = 15
"""Number of joint outcomes of the annotators and a metric. The code of a joint outcome is 4 * human + metric, where
each outcome is 0 (win), 1 (tie), 2 (loss) or 3 (absent). Comparisons where both are absent are not counted."""


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The options of counting (`how`, the same as the options of `custodes count`), and the `name` and `digest` of the
    file of counts, if there is a file."""

    how: Mapping[str, Any] = field(default_factory=dict)
    name: str = "counts"
    digest: str = ""


def counting_origin(
    *,
    human: str | Sequence[str] | None,
    metrics: str | Sequence[str] | None,
    systems: Sequence[str] | None,
    **settings: Any,
) -> Origin:
    """The `Origin` of counts that were made with these options of `custodes count`; options that are None are omitted.

    >>> counting_origin(human="ann", metrics=None, systems=None, aspect="", ties=0.0).how
    {'human': ['ann'], 'ties': 0.0}
    """
    options = {"human": human, "metrics": metrics, "systems": systems}
    for option_name, name_or_names in options.items():
        if name_or_names:
            options[option_name] = [name_or_names] if isinstance(name_or_names, str) else list(name_or_names)
    return Origin(how={name: value for name, value in (options | settings).items() if value not in (None, "", [], ())})


@dataclass(frozen=True, kw_only=True)
class ClusterCells(ReadOnlyArrays):
    """Preferences of all raters in groups of equal clusters, for resampling sums over clusters.

    Clusters with the same preferences are exchangeable, so one cluster represents each group. The number of draws from
    each group is multinomial. Favi-Scores, accuracies, margins and sign tests are functions of sums over rows. Each row
    is weighted by the number of draws from its group.

    Attributes
    ----------
    number : int array of shape (groups,)
        Number of clusters in each group.
    group, cluster, pair : int arrays of shape (n,)
        Group, cluster and pair of systems of each row. Each group has the rows of one cluster.
    signs : int8 array of shape (raters, n)
        Preferences of every rater, `ABSENT` for no preference.
    n_pairs : int
        Number of pairs of systems.
    """

    number: Ints
    group: Ints
    cluster: Ints
    pair: Ints
    signs: Signs
    n_pairs: int

    @classmethod
    def from_comparisons(cls, comparisons: Comparisons, cluster_of_item: Ints) -> ClusterCells:
        """The preferences of all raters. `cluster_of_item` (items,) has the number of each item's cluster, from 0."""
        joint_preferences = comparisons.joint(*range(len(comparisons.raters)))
        cluster_of_row = cluster_of_item[joint_preferences.item]
        n_clusters_of_group, representative_indices, group_of_row = group_clusters(
            codes_of(joint_preferences.pair, joint_preferences.signs),
            cluster_of_row,
            n_units=int(cluster_of_item.max(initial=-1)) + 1,
        )
        return cls(
            number=n_clusters_of_group,
            group=group_of_row,
            cluster=cluster_of_row[representative_indices],
            pair=joint_preferences.pair[representative_indices],
            signs=joint_preferences.signs[:, representative_indices],
            n_pairs=len(comparisons.pairs),
        )

    def rows(self, cell_codes: Signs, *, width: int) -> ClusterRows:
        """Counts of rows by pair, group and `cell_codes` (n,). Rows whose code is `width` or higher are left out."""
        return cluster_rows(
            self.pair, cell_codes, self.group, n_cells=width, n_tables=self.n_pairs, multiplicity=self.number
        )

    def iter_weights(
        self, resamples: int, rng: np.random.Generator, *, size_per_resample: int
    ) -> Iterator[tuple[slice, Floats]]:
        """Yield blocks of bootstrap weights of groups: a slice of the 1 + B resamples, and weights of shape (groups,
        size of the slice). Resample 0 is the data.

        Blocks are as large as the memory allows, if each resample needs `size_per_resample` numbers.
        """
        return iter_group_weights(self.number, resamples, rng, size_per_column=size_per_resample)

    def sums(self, values: NDArray[Any], is_selected_row: Bools, *, cell: Ints | None = None, width: int = 1) -> Sums:
        """A function that converts weights from `iter_weights` (groups, b) to weighted sums of values
        (pairs * width, b) over the selected rows.

        `values` and `is_selected_row` are of shape (n,). `cell` (n,) has numbers below `width` and defines separate
        sums within a pair.
        """
        return sums_of(
            self.pair[is_selected_row] * width + (0 if cell is None else cell[is_selected_row]),
            self.group[is_selected_row],
            values[is_selected_row],
            n_cells=self.n_pairs * width,
            n_groups=len(self.number),
        )


@dataclass(frozen=True, kw_only=True)
class OutcomeCounts(ReadOnlyArrays):
    """Wins, ties and losses of pairs of systems, by human ratings and by each metric.

    Counts are sufficient for Favi-Scores, sample accuracy, sign tests, the mixture model and strengths without
    covariates. Counts are sums over items and do not record which comparisons share an item.

    Attributes
    ----------
    paired : int array of shape (pairs, metrics, 3, 3)
        Numbers of items with human and metric ratings, by human outcome and metric outcome: win, tie, loss of
        `system_a`.
    metric_only, human_only : int arrays of shape (pairs, metrics, 3)
        Numbers of items rated only by the metric, or only by annotators.
    system_a, system_b, metrics : tuple of str
        Labels.
    by_order : data frame or None
        Wins, ties and losses of system_a by rater, pair and order. The rater 'human' is the combined annotators. The
        order is 1 if system_a was shown first, -1 if system_b was shown first, and 0 if it is unknown or both. None if
        presentation orders are unknown.
    items : mapping of str to int
        Number of items in the comparisons of each rater. Raters with an unknown number are omitted.
    origin, notes
        The options of counting, and notes on excluded rows.
    """

    paired: Ints
    metric_only: Ints
    human_only: Ints
    system_a: tuple[str, ...]
    system_b: tuple[str, ...]
    metrics: tuple[str, ...]
    by_order: pl.DataFrame | None = None
    items: Mapping[str, int] = field(default_factory=dict)
    origin: Origin = field(default_factory=Origin)
    notes: tuple[Note, ...] = ()

    @classmethod
    def from_tables(
        cls, tables: Ints, *, systems: Sequence[str], metrics: Sequence[str], **other_fields: Any
    ) -> OutcomeCounts:
        """Outcome counts from tables (pairs, metrics, 4, 4) over all pairs of the sorted systems.

        The last two axes are the human and the metric outcome, where the last index means absent.
        """
        first_system_positions, second_system_positions = pairs_of(systems)
        return cls(
            paired=tables[:, :, :3, :3].copy(),
            metric_only=tables[:, :, 3, :3].copy(),
            human_only=tables[:, :, :3, 3].copy(),
            system_a=tuple(systems[system_position] for system_position in first_system_positions),
            system_b=tuple(systems[system_position] for system_position in second_system_positions),
            metrics=tuple(metrics),
            **other_fields,
        )

    @classmethod
    def from_comparisons(cls, comparisons: Comparisons) -> OutcomeCounts:
        """Outcome counts of the first rater (the annotators) jointly with each further rater."""
        n_pairs = len(comparisons.pairs)
        outcome_tables = np.empty((n_pairs, len(comparisons.raters) - 1, 4, 4), dtype=np.int64)
        for metric_position in range(1, len(comparisons.raters)):
            joint_preferences = comparisons.joint(0, metric_position)
            human_outcome_codes, metric_outcome_codes = outcomes(joint_preferences.signs)
            outcome_tables[:, metric_position - 1] = table_sums(
                joint_preferences.pair, human_outcome_codes, metric_outcome_codes, shape=(n_pairs, 4, 4)
            )
        return cls.from_tables(outcome_tables, systems=comparisons.systems, metrics=comparisons.raters[1:])

    @property
    def human(self) -> Ints:
        """(pairs, 3): outcomes by human ratings, over all items that annotators rated."""
        pair_metric_human_counts = self.paired.sum(axis=3) + self.human_only  # all metrics have the same total
        return np.asarray(pair_metric_human_counts[:, 0] if self.metrics else pair_metric_human_counts.sum(axis=1))

    @property
    def metric(self) -> Ints:
        """(pairs, metrics, 3): outcomes by each metric, over all items that the metric rated."""
        return np.asarray(self.paired.sum(axis=2) + self.metric_only)

    def check_both_sides(self) -> None:
        """Raise `OptionError` if there are no joint counts of annotators and a metric."""
        if not (self.metrics and self.human.any()):
            raise OptionError(
                "these counts have no comparison that annotators and a metric rated, but this question "
                "compares annotators and metrics; count human and metric ratings together"
            )

    @cached_property
    def outcomes(self) -> pl.DataFrame:
        """Wins, ties and losses in the form of `by_order`. If orders were not counted, all orders are 0 (unknown)."""
        if self.by_order is not None:
            return self.by_order
        return (
            pl.concat(
                [
                    pl.DataFrame({"system_a": self.system_a, "system_b": self.system_b}).with_columns(
                        rater=pl.lit(rater_name),
                        order=0.0,
                        **dict(zip(SIGNS, map(pl.Series, outcome_counts.T), strict=True)),
                    )
                    for rater_name, outcome_counts in zip(
                        (HUMAN, *self.metrics), (self.human, *self.metric.swapaxes(0, 1)), strict=True
                    )
                ]
            )
            .select(*BY_ORDER)
            .cast(BY_ORDER)
            .filter(pl.sum_horizontal(list(SIGNS)) > 0)
        )

    @cached_property
    def raters(self) -> tuple[str, ...]:
        """The raters with comparisons, annotators first."""
        return tuple(sorted(self.outcomes["rater"].unique(), key=lambda name: (name != HUMAN, name)))

    @cached_property
    def systems(self) -> tuple[str, ...]:
        """The systems that were compared, sorted."""
        return tuple(sorted({*self.outcomes["system_a"], *self.outcomes["system_b"]}))


def count_joint_outcomes(preferences: nw.LazyFrame[Any], metrics: Sequence[str]) -> pl.DataFrame:
    """Outcome counts of annotators and metrics on the same items, computed in the engine of the table.

    Parameters
    ----------
    preferences : table
        Columns rater, item, system_a, system_b and sign, with one row per rater and comparison. The rater of annotators
        is `HUMAN`.
    metrics : sequence of str
        The metrics, in the order of the result.

    Returns
    -------
    data frame
        One row per pair with system_a, system_b, and one column METRIC_CELL for each metric (by position) and each of
        the `CELLS` joint outcomes.
    """
    rater_of_column = {HUMAN: HUMAN} | {
        f"metric{metric_position}": rater_name for metric_position, rater_name in enumerate(metrics)
    }
    # A rater has one preference per comparison, so the maximum is that preference, null without one.
    return count_cells(
        preferences.select(
            *OUTPUTS,
            **{
                column_name: nw.when(nw.col("rater") == rater_name).then(nw.col("sign"))
                for column_name, rater_name in rater_of_column.items()
            },
        )
        .group_by(*OUTPUTS)
        .agg(*(nw.col(column_name).max() for column_name in rater_of_column)),
        list(rater_of_column)[1:],
    )


def count_cells(comparison_rows: nw.LazyFrame[Any], metric_column_names: Sequence[str]) -> pl.DataFrame:
    """Counts from a table with one row per comparison: system_a, system_b, and the signs of `HUMAN` and of each metric
    (null: no preference)."""
    code_expression_of_column = {
        column_name: (1 - nw.col(column_name)).fill_null(ABSENT_CODE).cast(nw.Int64)
        for column_name in (HUMAN, *metric_column_names)
    }
    # A sum of indicators for every cell: one group-by whose result does not grow with the items.
    indicator_of_column = {
        f"{metric_position}_{joint_code}": (nw.col(column_name) == joint_code).cast(nw.Int32)
        for metric_position, column_name in enumerate(metric_column_names)
        for joint_code in range(CELLS)
    }
    return collect_rows(
        comparison_rows.select(
            "system_a",
            "system_b",
            **{
                column_name: 4 * code_expression_of_column[HUMAN] + code_expression_of_column[column_name]
                for column_name in metric_column_names
            },
        )
        .select("system_a", "system_b", **indicator_of_column)
        .group_by("system_a", "system_b")
        .agg(*(nw.col(column_name).sum() for column_name in indicator_of_column))
    )


def sum_batches(batch_counts: Iterable[pl.DataFrame], *, systems: Sequence[str], metrics: Sequence[str]) -> Ints:
    """Tables (pairs, metrics, 4, 4) over all pairs of the sorted systems, from the rows of all batches of items."""
    n_pairs = len(systems) * (len(systems) - 1) // 2
    outcome_tables = np.zeros((n_pairs, len(metrics), CELLS + 1), dtype=np.int64)
    for batch_frame in batch_counts:
        # A pair occurs once per batch, so no row overwrites another.
        outcome_tables[pair_positions(batch_frame, systems), :, :CELLS] += (
            batch_frame.drop("system_a", "system_b")
            .cast(pl.Int64)
            .to_numpy()
            .reshape(len(batch_frame), len(metrics), CELLS)
        )
    return outcome_tables.reshape(n_pairs, len(metrics), 4, 4)
