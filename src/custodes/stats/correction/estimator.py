"""An estimator is a value: how it tells, from few people and many automatic ratings, how often one system is better."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats, require
from custodes.stats.multiple_testing import SIGMAS
from custodes.stats.ratios import ratio


class Counts(NamedTuple):
    """How often each preference was given, in the order win, tie, loss: `paired` (..., 3, 3) [human, metric] by both,
    `metric_only` and `human_only` (..., 3) on items that one alone rated."""

    paired: NDArray[Any]
    metric_only: NDArray[Any]
    human_only: NDArray[Any]

    @property
    def human(self) -> NDArray[Any]:
        """(..., 3): people's, on all items they rated."""
        return np.asarray(self.paired.sum(axis=-1) + self.human_only)

    @property
    def metric(self) -> NDArray[Any]:
        """(..., 3): the metric's, on all items it rated."""
        return np.asarray(self.paired.sum(axis=-2) + self.metric_only)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the tables."""
        same = (*self.metric_only.shape, 3) == (*self.human_only.shape, 3) == self.paired.shape
        require(same, "counts: paired is (..., 3, 3), metric_only and human_only are (..., 3)")
        return self.paired.shape[:-2]

    @property
    def flat(self) -> Counts:
        """The tables (...) as one row of tables (n,)."""
        return Counts(self.paired.reshape(-1, 3, 3), self.metric_only.reshape(-1, 3), self.human_only.reshape(-1, 3))

    @property
    def rows(self) -> NDArray[Any]:
        """(..., 15): nine paired, three metric-only and three human-only counts."""
        return np.concatenate([self.paired.reshape((*self.shape, 9)), self.metric_only, self.human_only], axis=-1)

    @classmethod
    def of_row(cls, row: NDArray[Any]) -> Counts:
        """Tables from `rows` (..., 15), as floats."""
        values = row.astype(np.float64)
        return cls(values[..., :9].reshape((*row.shape[:-1], 3, 3)), values[..., 9:12], values[..., 12:])

    def effective(self, divisor: Floats) -> Counts:
        """As many independent items as these in clusters are worth: every count of a table divided by its `divisor`
        (...)."""
        return Counts.of_row(self.rows / divisor[..., np.newaxis])

    def distinct(self) -> Distinct:
        """Every table once up to its mirror image, so that equal tables get equal answers and a swap of the systems
        gives the mirror image."""
        parts = (self.paired.reshape(-1, 9), *self.flat[1:])
        tables, mirrors = (np.concatenate([part[:, ::step] for part in parts], axis=1) for step in (1, -1))
        differ = (tables != mirrors).argmax(axis=1)[:, np.newaxis]
        swapped = (np.take_along_axis(tables, differ, axis=1) < np.take_along_axis(mirrors, differ, axis=1))[:, 0]
        larger = np.where(swapped[:, np.newaxis], mirrors, tables)
        rows, first, where = np.unique(larger, axis=0, return_index=True, return_inverse=True)
        even = (tables == mirrors).all(axis=1)[first]
        # NumPy 2.0 alone keeps a second axis
        return Distinct(rows, even, where.reshape(self.shape), swapped.reshape(self.shape))


class Distinct(NamedTuple):
    """Tables of which none is another's mirror image: `rows` (k, 15) as for `Counts.of_row`, `even` (k,) whether a row
    is its own mirror image; of every original table (...) its place `where` among the rows, and whether it is the
    mirror image of the row (`swapped`)."""

    rows: NDArray[Any]
    even: NDArray[np.bool_]
    where: NDArray[np.int64]
    swapped: NDArray[np.bool_]

    def restored(self, estimate: Estimate) -> Estimate:
        """Estimates of the original tables (...) from those of the rows (k,)."""
        return estimate.at(self.where).mirrored(self.swapped)


def stream_key(row: NDArray[Any]) -> tuple[int, ...]:
    """Whole numbers that say which table (15,) it is: its counts, and the bits of effective ones."""
    whole = row.astype(np.int64)
    return tuple((whole if (whole == row).all() else row.astype(np.float64).view(np.uint64)).tolist())


def people_margin(counts: Counts) -> Floats:
    """Of people's answers on all items they rated, tables (...) -> (...)."""
    return margin_of(counts.human)


def margin_of(outcome: NDArray[Any]) -> Floats:
    """Wins minus losses over all (..., 3) -> (...), NaN where there are none."""
    return ratio(outcome[..., 0] - outcome[..., 2], outcome.sum(axis=-1))


@dataclass(frozen=True, kw_only=True)
class PairItems:
    """What an estimator needs that looks at all pairs together: `human` (..., pairs, items) of 1, 0, -1 or `ABSENT`,
    `systems` (pairs, 2) of each pair, `units` (items,) the cluster of each item."""

    human: NDArray[np.int8]
    systems: NDArray[np.integer[Any]]
    units: NDArray[np.integer[Any]]


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What an estimator says of tables of shape (...).

    `p`, `p_low`, `p_high` (..., 3) are win, tie and loss shares with their interval (NaN for estimators of the margin
    alone); `margin`, `margin_low`, `margin_high` (...) the same of p_win - p_loss; `theta` (...) the posterior or
    confidence probability that p_win > p_loss; `effective_draws` (...) what Monte Carlo draws are worth (NaN where
    there are none); `theta_error` (...) the standard error that draws leave in theta, 0 where it is not computed; `sd`
    (...) the standard deviation of the margin where there is no interval, else NaN or the same in another way.
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
        for name in ("theta_error", "sd"):
            object.__setattr__(self, name, np.broadcast_to(getattr(self, name), np.shape(self.theta)))

    def at(self, where: NDArray[np.integer[Any] | np.bool_]) -> Estimate:
        """The estimates of tables (k,) at some places (...), or of the tables of a mask."""
        return Estimate(**{part.name: getattr(self, part.name)[where] for part in fields(Estimate)})

    def mirrored(self, which: NDArray[np.bool_]) -> Estimate:
        """The same estimates with the two systems exchanged in some of the tables (...)."""
        cells = which[..., np.newaxis]
        return replace(
            self,
            p=np.where(cells, self.p[..., ::-1], self.p),
            p_low=np.where(cells, self.p_low[..., ::-1], self.p_low),
            p_high=np.where(cells, self.p_high[..., ::-1], self.p_high),
            margin=np.where(which, -self.margin, self.margin),
            margin_low=np.where(which, -self.margin_high, self.margin_low),
            margin_high=np.where(which, -self.margin_low, self.margin_high),
            theta=np.where(which, 1 - self.theta, self.theta),
        )

    def symmetric(self, which: NDArray[np.bool_]) -> Estimate:
        """The mean of the estimates and their mirror images for some of the tables (...), which are mirror images of
        themselves: theta is 1/2, without error."""
        mirror = self.mirrored(which)
        names = ("p", "p_low", "p_high", "margin", "margin_low", "margin_high", "theta")
        means = {name: (getattr(self, name) + getattr(mirror, name)) / 2 for name in names}
        return replace(self, **means, theta_error=np.where(which, 0.0, self.theta_error))

    @classmethod
    def joined(cls, parts: Sequence[tuple[NDArray[np.integer[Any]], Estimate]]) -> Estimate:
        """One estimate (k,) from estimates of its parts, each with the places of its tables."""
        order = np.argsort(np.concatenate([places for places, _ in parts]))
        columns = {part_field.name: [getattr(part, part_field.name) for _, part in parts] for part_field in fields(cls)}
        return cls(**{name: np.concatenate(column)[order] for name, column in columns.items()})

    def at_threshold(self, *, gamma: float) -> NDArray[np.bool_]:
        """Whether other random numbers might decide otherwise: theta (...) lies within four of its errors from gamma/2
        or 1 - gamma/2."""
        return np.asarray(threshold_distance(self.theta, gamma=gamma) < SIGMAS * self.theta_error)

    def resolved(self, *, gamma: float) -> Estimate:
        """What a stopping rule reads of an estimate made with confidence 1 - gamma, or without intervals: `sd` follows
        from the interval where there is one. Draws worth n resolve no probability below 1 / n, so `theta` is kept that
        far from 0 and 1: a boundary may ask for more."""
        from scipy.special import ndtri

        low, high = self.margin_low, self.margin_high
        sd = np.where(np.isnan(low), self.sd, (high - low) / (-2 * ndtri(gamma / 2)))
        nearest = np.nan_to_num(1 / (self.effective_draws + 2), nan=0.0)
        return replace(self, theta=np.clip(self.theta, nearest, 1 - nearest), sd=sd)

    @classmethod
    def of_margin(cls, margin: Floats, low: Floats, high: Floats, theta: Floats) -> Estimate:
        """Of the margin alone, without draws: (...) each."""
        none = np.full((*np.shape(margin), 3), np.nan)
        ends = {"margin": margin, "margin_low": low, "margin_high": high}
        return cls(p=none, p_low=none, p_high=none, **ends, theta=theta, effective_draws=none[..., 0])

    @classmethod
    def by_t(cls, margin: Floats, error: Floats, freedom: Floats, *, confidence: float) -> Estimate:
        """Of the margin alone from its standard error and degrees of freedom (inf: normal), (...) each.

        Interval and margin are clipped to [-1, 1]; where the error is NaN they are [-1, 1] and theta is 1/2.
        """
        from scipy.special import stdtr, stdtrit

        has_error = np.isfinite(error)
        freedom = np.where(has_error, freedom, 1.0)
        reach = stdtrit(freedom, (1 + confidence) / 2) * np.where(has_error, error, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.where(margin == 0, 0.0, margin / error)
        return cls.of_margin(
            np.clip(margin, -1, 1),
            np.where(has_error, np.clip(margin - reach, -1, 1), -1.0),
            np.where(has_error, np.clip(margin + reach, -1, 1), 1.0),
            np.where(has_error, stdtr(freedom, np.where(has_error, t, 0.0)), 0.5),
        )


@dataclass(frozen=True)
class Remark:
    """Something a reader must know, and how often it happened (0 where counting makes no sense)."""

    rule: str
    message: str
    count: int = 0


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimator:
    """One way to estimate outcomes. `estimate` takes `Counts`, or `PairItems` where it `needs_items`, and `confidence`,
    `gamma` (the error level of decisions, for what draws until theta is clear) and `rng`.

    `point`: its margin (approximately) as a function of `Counts`, which says how clusters of items act on it.
    `uses_metric` and `uses_people`: whose ratings it reads. `quick`: `estimate` takes `confidence=None`, for estimates
    without intervals that are only as precise as decisions at `gamma` need, of very many tables. `assumes`: what a
    reader should know before any answer, `remarks` of an answer (and ' for aspect ...', or '') what after it.
    """

    name: str
    label: str
    doc: str
    estimate: Callable[..., Estimate]
    point: Callable[[Counts], Floats] = people_margin
    uses_metric: bool = True
    uses_people: bool = True
    needs_items: bool = False
    quick: bool = False
    assumes: Remark | None = None
    remarks: Callable[[Any, str], Iterable[Remark]] = lambda estimate, where: ()


def decide(theta: NDArray[Any], *, gamma: float) -> NDArray[np.int8]:
    """Which system is better: theta (...) -> 1 where theta > 1 - gamma/2, -1 where theta < gamma/2, else 0 (also NaN).

    >>> decide(np.array([0.99, 0.6, 0.01, np.nan]), gamma=0.05).tolist()
    [1, 0, -1, 0]

    Source: Deriu et al. 2023, Algorithm 1, lines 12 to 19.
    """
    theta = np.asarray(theta, dtype=np.float64)
    return (theta > 1 - gamma / 2).astype(np.int8) - (theta < gamma / 2).astype(np.int8)


def threshold_distance(theta: NDArray[Any], *, gamma: float) -> Floats:
    """How far theta (...) is from the nearer of gamma/2 and 1 - gamma/2."""
    theta = np.asarray(theta, dtype=np.float64)
    return np.asarray(np.minimum(np.abs(theta - gamma / 2), np.abs(theta - (1 - gamma / 2))))
