"""The interface of estimators of human win rates from few human ratings and many metric ratings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats
from custodes.stats.ratios import ratio
from custodes.stats.step_down import SIGMAS

_MIRRORED_CELLS = (*range(8, -1, -1), 11, 10, 9, 14, 13, 12)  # cells of `Counts.rows` after swapping the systems


class Counts(NamedTuple):
    """Counts of preferences in the order win, tie, loss.

    `paired` (..., 3, 3) counts the items that have human and metric ratings; its last axes are [human, metric].
    `metric_only` (..., 3) counts the items that have only metric ratings, `human_only` (..., 3) the items that have
    only human ratings.
    """

    paired: NDArray[Any]
    metric_only: NDArray[Any]
    human_only: NDArray[Any]

    @property
    def human(self) -> NDArray[Any]:
        """Human preferences (..., 3) over all items that have human ratings."""
        return np.asarray(self.paired.sum(axis=-1) + self.human_only)

    @property
    def metric(self) -> NDArray[Any]:
        """Metric preferences (..., 3) over all items that have metric ratings."""
        return np.asarray(self.paired.sum(axis=-2) + self.metric_only)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array of tables."""
        return self.paired.shape[:-2]

    @property
    def rows(self) -> NDArray[Any]:
        """The tables as rows (..., 15) of nine paired, three metric-only and three human-only counts."""
        return np.concatenate([self.paired.reshape((*self.shape, 9)), self.metric_only, self.human_only], axis=-1)

    @classmethod
    def from_rows(cls, rows: NDArray[Any]) -> Counts:
        """Return the tables of rows (..., 15), the format of `rows`, as floats."""
        float_rows = rows.astype(np.float64)
        return cls(float_rows[..., :9].reshape((*rows.shape[:-1], 3, 3)), float_rows[..., 9:12], float_rows[..., 12:])

    def effective(self, divisor: Floats) -> Counts:
        """Return effective counts: each table's counts divided by the table's `divisor` (...), e.g. a design effect."""
        return Counts.from_rows(self.rows / divisor[..., np.newaxis])

    def distinct_tables(self) -> DistinctTables:
        """Return the distinct tables in the format of `from_rows`; of two mirror images, only one is returned. Equal
        tables thus get equal results, and a table with swapped systems gets exactly the mirrored result.
        """
        tables = self.rows.reshape(-1, 15)
        return DistinctTables.from_tables(tables, tables[:, _MIRRORED_CELLS], shape=self.shape)


class DistinctTables(NamedTuple):
    """Tables without duplicates, where the mirror image of a table counts as a duplicate.

    `rows` (k, cells) are the distinct tables. `even` (k,) is true if the row equals
    its mirror image. For each original table, `where` (...) is the position of the corresponding row, and
    `swapped` (...) is true if the table is the mirror image of this row.
    """

    rows: NDArray[Any]
    even: NDArray[np.bool_]
    where: NDArray[np.int64]
    swapped: NDArray[np.bool_]

    @classmethod
    def from_tables(
        cls, tables: NDArray[Any], mirror_tables: NDArray[Any], *, shape: tuple[int, ...]
    ) -> DistinctTables:
        """Return the distinct tables, given tables and their mirror images (n, cells); `shape` is the shape (...) of
        the array of tables.

        Of a table and its mirror image, the one that is lexicographically larger is kept.
        """
        first_difference_index = (tables != mirror_tables).argmax(axis=1)[:, np.newaxis]
        first_different_counts, first_different_mirror_counts = (
            np.take_along_axis(table_rows, first_difference_index, axis=1) for table_rows in (tables, mirror_tables)
        )
        is_swapped_table = first_different_counts < first_different_mirror_counts
        distinct_rows, first_table_indices, distinct_row_indices = np.unique(
            np.where(is_swapped_table, mirror_tables, tables), axis=0, return_index=True, return_inverse=True
        )
        is_symmetric_row = (tables == mirror_tables).all(axis=1)[first_table_indices]
        return cls(
            distinct_rows, is_symmetric_row, distinct_row_indices.reshape(shape), is_swapped_table.reshape(shape)
        )

    def expand_estimate(self, estimate: Estimate) -> Estimate:
        """Return the estimates of the original tables (...), given the estimates of the rows (k,)."""
        return estimate.at(self.where).swap_systems(self.swapped)


def stream_key(table_row: NDArray[Any]) -> tuple[int, ...]:
    """Return integers that identify a table (15,). They are the counts if all counts are whole numbers, otherwise the
    bits of the counts."""
    integer_counts = table_row.astype(np.int64)
    return tuple(
        (
            integer_counts if (integer_counts == table_row).all() else table_row.astype(np.float64).view(np.uint64)
        ).tolist()
    )


def margin_of(outcome_counts: NDArray[Any]) -> Floats:
    """Return (wins - losses) / (wins + ties + losses) of outcomes (..., 3). NaN if the denominator is 0."""
    return ratio(outcome_counts[..., 0] - outcome_counts[..., 2], outcome_counts.sum(axis=-1))


@dataclass(frozen=True, kw_only=True)
class PairItems:
    """Input of an estimator that uses all pairs of systems jointly.

    `human` (..., pairs, items) holds the human preferences 1, 0, -1 or `ABSENT`. `systems` (pairs, 2) holds the two
    systems of each pair. `units` (items,) holds the cluster of each item.
    """

    human: NDArray[np.int8]
    systems: NDArray[np.integer[Any]]
    units: NDArray[np.integer[Any]]


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Estimates for tables of shape (...).

    - `p`, `p_low`, `p_high` (..., 3): win, tie and loss probabilities and the bounds of their intervals; NaN if the
      estimator gives only a margin.
    - `margin`, `margin_low`, `margin_high` (...): the margin p_win - p_loss and the bounds of its interval.
    - `theta` (...): posterior or confidence probability that p_win > p_loss.
    - `effective_draws` (...): effective number of Monte Carlo draws; NaN if the estimator does not draw.
    - `theta_error` (...): Monte Carlo standard error of theta; 0 if theta is exact.
    - `sd` (...): standard deviation of the margin. An estimate without an interval always has `sd`; in an estimate with
      an interval, `sd` may be NaN.
    """

    p: Floats
    p_low: Floats
    p_high: Floats
    margin: Floats
    margin_low: Floats
    margin_high: Floats
    theta: Floats
    effective_draws: Floats
    theta_error: Floats = field(default_factory=lambda: np.zeros(()))
    sd: Floats = field(default_factory=lambda: np.full((), np.nan))

    def __post_init__(self) -> None:
        for field_name in ("theta_error", "sd"):
            object.__setattr__(self, field_name, np.broadcast_to(getattr(self, field_name), np.shape(self.theta)))

    def at(self, selection: NDArray[np.integer[Any] | np.bool_]) -> Estimate:
        """Return the estimates of the tables selected by positions (...) or by a mask."""
        return Estimate(
            **{array_field.name: getattr(self, array_field.name)[selection] for array_field in fields(Estimate)}
        )

    def swap_systems(self, is_swapped: NDArray[np.bool_]) -> Estimate:
        """Return the estimates with the two systems swapped in the tables for which `is_swapped` (...) is true."""
        is_swapped_cell = is_swapped[..., np.newaxis]
        return replace(
            self,
            p=np.where(is_swapped_cell, self.p[..., ::-1], self.p),
            p_low=np.where(is_swapped_cell, self.p_low[..., ::-1], self.p_low),
            p_high=np.where(is_swapped_cell, self.p_high[..., ::-1], self.p_high),
            margin=np.where(is_swapped, -self.margin, self.margin),
            margin_low=np.where(is_swapped, -self.margin_high, self.margin_low),
            margin_high=np.where(is_swapped, -self.margin_low, self.margin_high),
            theta=np.where(is_swapped, 1 - self.theta, self.theta),
        )

    def symmetrise(self, is_symmetric: NDArray[np.bool_]) -> Estimate:
        """Return the estimates with exact symmetry in the tables (...) that equal their mirror image.

        In the tables for which `is_symmetric` is true, each estimate is averaged with its mirror image, so that theta
        is exactly 1/2. The estimates of all remaining tables do not change.
        """
        mirror_estimate = self.swap_systems(is_symmetric)
        mean_of_field = {
            field_name: (getattr(self, field_name) + getattr(mirror_estimate, field_name)) / 2
            for field_name in ("p", "p_low", "p_high", "margin", "margin_low", "margin_high", "theta")
        }
        return replace(self, **mean_of_field, theta_error=np.where(is_symmetric, 0.0, self.theta_error))

    @classmethod
    def from_parts(cls, indices_and_estimates: Sequence[tuple[NDArray[np.integer[Any]], Estimate]]) -> Estimate:
        """Return one estimate (k,), given the estimates of its parts and the positions of the tables of each part."""
        table_order = np.argsort(np.concatenate([table_indices for table_indices, _ in indices_and_estimates]))
        arrays_of_field = {
            estimate_field.name: [getattr(estimate, estimate_field.name) for _, estimate in indices_and_estimates]
            for estimate_field in fields(cls)
        }
        return cls(
            **{
                field_name: np.concatenate(field_arrays)[table_order]
                for field_name, field_arrays in arrays_of_field.items()
            }
        )

    def at_threshold(self, *, gamma: float) -> NDArray[np.bool_]:
        """Return whether other random numbers might change the decision.

        The decision might change if theta (...) lies within four standard errors of gamma/2 or 1 - gamma/2.
        """
        distance_to_threshold = np.minimum(np.abs(self.theta - gamma / 2), np.abs(self.theta - (1 - gamma / 2)))
        return np.asarray(distance_to_threshold < SIGMAS * self.theta_error)

    def stopping_estimate(self, *, gamma: float) -> Estimate:
        """Return the estimate in the form that a stopping rule needs; its intervals, if any, have level 1 - gamma.

        If there is an interval, `sd` is computed from its width. With n effective draws, probabilities below about
        1 / n cannot be estimated. Therefore `theta` is clipped to [1 / (n + 2), 1 - 1 / (n + 2)].
        """
        from scipy.special import ndtri

        sd_of_interval = (self.margin_high - self.margin_low) / (-2 * ndtri(gamma / 2))
        smallest_theta = np.nan_to_num(1 / (self.effective_draws + 2), nan=0.0)
        return replace(
            self,
            theta=np.clip(self.theta, smallest_theta, 1 - smallest_theta),
            sd=np.where(np.isnan(self.margin_low), self.sd, sd_of_interval),
        )

    @classmethod
    def from_margin(cls, margin: Floats, low: Floats, high: Floats, theta: Floats) -> Estimate:
        """Return an estimate that has a margin but no win, tie and loss probabilities; all arguments have shape
        (...)."""
        undefined_probabilities = np.full((*np.shape(margin), 3), np.nan)
        return cls(
            p=undefined_probabilities,
            p_low=undefined_probabilities,
            p_high=undefined_probabilities,
            margin=margin,
            margin_low=low,
            margin_high=high,
            theta=theta,
            effective_draws=undefined_probabilities[..., 0],
        )

    @classmethod
    def from_student_t(
        cls, margin: Floats, error: Floats, degrees_of_freedom: Floats, *, confidence: float
    ) -> Estimate:
        """Return an estimate of the margin from its standard error and the degrees of freedom of Student's t.

        All arguments have shape (...); infinite degrees of freedom mean the normal distribution. The margin and its
        interval are clipped to [-1, 1]. If the error is NaN, the interval is [-1, 1] and theta is 1/2.
        """
        from scipy.special import stdtr, stdtrit

        has_error = np.isfinite(error)
        degrees_of_freedom = np.where(has_error, degrees_of_freedom, 1.0)
        half_width = stdtrit(degrees_of_freedom, (1 + confidence) / 2) * np.where(has_error, error, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            t_statistic = np.where(margin == 0, 0.0, margin / error)
        return cls.from_margin(
            np.clip(margin, -1, 1),
            np.where(has_error, np.clip(margin - half_width, -1, 1), -1.0),
            np.where(has_error, np.clip(margin + half_width, -1, 1), 1.0),
            np.where(has_error, stdtr(degrees_of_freedom, np.where(has_error, t_statistic, 0.0)), 0.5),
        )


@dataclass(frozen=True)
class Remark:
    """A note on an estimate; `count` is the number of cases that the note concerns, 0 if they cannot be counted."""

    rule: str
    message: str
    count: int = 0


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimator:
    """A method that estimates the outcome of a comparison of two systems.

    - `estimate`: a function of `Counts`, or of `PairItems` if `needs_items` is true, and of `confidence`, `gamma` and
      `rng`. `gamma` is the error level of decisions; an estimator with Monte Carlo draws adds draws until the
      decision is clear.
    - `point`: a function of `Counts` that returns the estimated margin, at least approximately. This function is used
      to compute the design effect of clusters.
    - `uses_metric`, `uses_people`: whether the estimator uses metric ratings and human ratings.
    - `adjusts_for_selection`: whether the estimate remains valid if items were selected for annotation by the metric's
      rating.
    - `quick`: whether `estimate` accepts `confidence=None`. With None, `estimate` gives no intervals and is only as
      precise as decisions at `gamma` require, so that very many tables can be analysed.
    - `assumes`: an assumption that is stated with every result.
    - `remarks`: a function that returns notes on a result, given the estimate and the text ' for aspect ...' (empty
      without aspects).
    """

    name: str
    estimate: Callable[..., Estimate]
    point: Callable[[Counts], Floats] = lambda counts: margin_of(counts.human)
    uses_metric: bool = True
    uses_people: bool = True
    needs_items: bool = False
    adjusts_for_selection: bool = False
    quick: bool = False
    assumes: Remark | None = None
    remarks: Callable[[Any, str], Iterable[Remark]] = lambda estimate, aspect_suffix: ()


def decide(theta: NDArray[Any], *, gamma: float) -> NDArray[np.int8]:
    """Return the decisions for theta (...). A decision is 1 if theta > 1 - gamma/2, -1 if theta < gamma/2, and
    otherwise 0.

    If theta is NaN, the decision is 0.

    >>> decide(np.array([0.99, 0.6, 0.01, np.nan]), gamma=0.05).tolist()
    [1, 0, -1, 0]

    Source: Deriu et al. 2023, Algorithm 1, lines 12 to 19.
    """
    theta = np.asarray(theta, dtype=np.float64)
    return (theta > 1 - gamma / 2).astype(np.int8) - (theta < gamma / 2).astype(np.int8)
