"""The interface of estimators of human win rates from few human and many metric ratings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats
from custodes.stats.multiple_testing import SIGMAS
from custodes.stats.ratios import ratio


class Counts(NamedTuple):
    """Counts of preferences in the order win, tie, loss.

    `paired` (..., 3, 3) [human, metric] for items rated by both, `metric_only` and `human_only` (..., 3) for items
    rated by one alone.
    """

    paired: NDArray[Any]
    metric_only: NDArray[Any]
    human_only: NDArray[Any]

    @property
    def human(self) -> NDArray[Any]:
        """(..., 3): human counts on all items with human ratings."""
        return np.asarray(self.paired.sum(axis=-1) + self.human_only)

    @property
    def metric(self) -> NDArray[Any]:
        """(..., 3): metric counts on all items with metric ratings."""
        return np.asarray(self.paired.sum(axis=-2) + self.metric_only)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array of tables."""
        return self.paired.shape[:-2]

    @property
    def flat(self) -> Counts:
        """The tables (...) flattened to (n,)."""
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
        """Effective counts: every count of a table divided by its `divisor` (...), such as a design effect."""
        return Counts.of_row(self.rows / divisor[..., np.newaxis])

    def distinct(self) -> Distinct:
        """Distinct tables up to mirror images, so that equal tables get equal results, and swapping the systems gives
        the mirrored result."""
        parts = (self.paired.reshape(-1, 9), *self.flat[1:])
        tables, mirrors = (np.concatenate([part[:, ::step] for part in parts], axis=1) for step in (1, -1))
        differ = (tables != mirrors).argmax(axis=1)[:, np.newaxis]
        swapped = (np.take_along_axis(tables, differ, axis=1) < np.take_along_axis(mirrors, differ, axis=1))[:, 0]
        larger = np.where(swapped[:, np.newaxis], mirrors, tables)
        rows, first, where = np.unique(larger, axis=0, return_index=True, return_inverse=True)
        even = (tables == mirrors).all(axis=1)[first]
        # NumPy 2.0 keeps a second axis
        return Distinct(rows, even, where.reshape(self.shape), swapped.reshape(self.shape))


class Distinct(NamedTuple):
    """Tables without duplicates, where the mirror image of a table counts as a duplicate.

    `rows` (k, 15) are as for `Counts.of_row`; `even` (k,): whether a row is its own mirror image. For every
    original table (...), `where` is its position among the rows, and `swapped` whether it is the mirror image of that
    row.
    """

    rows: NDArray[Any]
    even: NDArray[np.bool_]
    where: NDArray[np.int64]
    swapped: NDArray[np.bool_]

    def restored(self, estimate: Estimate) -> Estimate:
        """Estimates of the original tables (...) from those of the rows (k,)."""
        return estimate.at(self.where).mirrored(self.swapped)


def stream_key(row: NDArray[Any]) -> tuple[int, ...]:
    """Integers that identify a table (15,): its counts, or the bits of effective counts."""
    whole = row.astype(np.int64)
    return tuple((whole if (whole == row).all() else row.astype(np.float64).view(np.uint64)).tolist())


def margin_of(outcome: NDArray[Any]) -> Floats:
    """Wins minus losses, divided by the sum of wins, ties and losses: (..., 3) -> (...), NaN for a sum of 0."""
    return ratio(outcome[..., 0] - outcome[..., 2], outcome.sum(axis=-1))


@dataclass(frozen=True, kw_only=True)
class PairItems:
    """Input of an estimator that uses all pairs jointly: `human` (..., pairs, items) of 1, 0, -1 or `ABSENT`, `systems`
    (pairs, 2) of each pair, `units` (items,) the cluster of each item."""

    human: NDArray[np.int8]
    systems: NDArray[np.integer[Any]]
    units: NDArray[np.integer[Any]]


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Estimates for tables of shape (...).

    `p`, `p_low`, `p_high` (..., 3) are win, tie and loss probabilities with bounds (NaN for estimators of the margin
    alone); `margin`, `margin_low`, `margin_high` (...) the same for p_win - p_loss; `theta` (...) the posterior or
    confidence probability that p_win > p_loss; `effective_draws` (...) the effective number of Monte Carlo draws (NaN
    without draws); `theta_error` (...) the Monte Carlo standard error of theta, 0 if exact; `sd` (...) the standard
    deviation of the margin if there is no interval, else NaN or the same value.
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
        """The estimates at some positions (...) of tables (k,), or of the tables of a mask."""
        return Estimate(**{part.name: getattr(self, part.name)[where] for part in fields(Estimate)})

    def mirrored(self, which: NDArray[np.bool_]) -> Estimate:
        """The estimates with the two systems exchanged in some of the tables (...)."""
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
        """The estimates, averaged with the mirrored estimates for tables (...) that equal their mirror image: theta is
        then exactly 1/2."""
        mirror = self.mirrored(which)
        names = ("p", "p_low", "p_high", "margin", "margin_low", "margin_high", "theta")
        means = {name: (getattr(self, name) + getattr(mirror, name)) / 2 for name in names}
        return replace(self, **means, theta_error=np.where(which, 0.0, self.theta_error))

    @classmethod
    def joined(cls, parts: Sequence[tuple[NDArray[np.integer[Any]], Estimate]]) -> Estimate:
        """One estimate (k,) from estimates of its parts, each with the positions of its tables."""
        order = np.argsort(np.concatenate([places for places, _ in parts]))
        columns = {part_field.name: [getattr(part, part_field.name) for _, part in parts] for part_field in fields(cls)}
        return cls(**{name: np.concatenate(column)[order] for name, column in columns.items()})

    def at_threshold(self, *, gamma: float) -> NDArray[np.bool_]:
        """Whether other random numbers might change the decision: theta (...) lies within four standard errors of
        gamma/2 or 1 - gamma/2."""
        distance = np.minimum(np.abs(self.theta - gamma / 2), np.abs(self.theta - (1 - gamma / 2)))
        return np.asarray(distance < SIGMAS * self.theta_error)

    def resolved(self, *, gamma: float) -> Estimate:
        """The estimate as input of a stopping rule, made with confidence 1 - gamma or without intervals.

        `sd` is derived from the interval if there is one. With n effective draws, probabilities below 1 / n cannot be
        estimated, so `theta` is kept at least that far from 0 and 1.
        """
        from scipy.special import ndtri

        low, high = self.margin_low, self.margin_high
        sd = np.where(np.isnan(low), self.sd, (high - low) / (-2 * ndtri(gamma / 2)))
        nearest = np.nan_to_num(1 / (self.effective_draws + 2), nan=0.0)
        return replace(self, theta=np.clip(self.theta, nearest, 1 - nearest), sd=sd)

    @classmethod
    def of_margin(cls, margin: Floats, low: Floats, high: Floats, theta: Floats) -> Estimate:
        """An estimate of only the margin, without draws: (...) each."""
        none = np.full((*np.shape(margin), 3), np.nan)
        ends = {"margin": margin, "margin_low": low, "margin_high": high}
        return cls(p=none, p_low=none, p_high=none, **ends, theta=theta, effective_draws=none[..., 0])

    @classmethod
    def by_t(cls, margin: Floats, error: Floats, freedom: Floats, *, confidence: float) -> Estimate:
        """An estimate of only the margin, from a standard error and degrees of freedom (inf: normal), (...) each.

        Interval and margin are clipped to [-1, 1]; if the error is NaN, the interval is [-1, 1] and theta 1/2.
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
    """A note on an estimate, with the number of cases that it concerns (0 if not countable)."""

    rule: str
    message: str
    count: int = 0


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimator:
    """A method of estimating outcomes.

    `estimate` takes `Counts`, or `PairItems` if it `needs_items`, and `confidence`, `gamma` (the error level of
    decisions, up to which draws continue until theta is clear) and `rng`.

    `point` is its margin (approximately) as a function of `Counts`, from which the effect of clusters is derived.
    `uses_metric` and `uses_people`: which ratings it uses. `quick`: `estimate` accepts `confidence=None` for estimates
    without intervals, only as precise as decisions at `gamma` need, of very many tables. `assumes`: assumptions to
    state with every result; `remarks`: notes on a result, given the estimate and ' for aspect ...' or ''.
    """

    name: str
    label: str
    doc: str
    estimate: Callable[..., Estimate]
    point: Callable[[Counts], Floats] = lambda counts: margin_of(counts.human)
    uses_metric: bool = True
    uses_people: bool = True
    needs_items: bool = False
    quick: bool = False
    assumes: Remark | None = None
    remarks: Callable[[Any, str], Iterable[Remark]] = lambda estimate, where: ()


def decide(theta: NDArray[Any], *, gamma: float) -> NDArray[np.int8]:
    """Decision from theta (...): 1 where theta > 1 - gamma/2, -1 where theta < gamma/2, else 0 (also for NaN).

    >>> decide(np.array([0.99, 0.6, 0.01, np.nan]), gamma=0.05).tolist()
    [1, 0, -1, 0]

    Source: Deriu et al. 2023, Algorithm 1, lines 12 to 19.
    """
    theta = np.asarray(theta, dtype=np.float64)
    return (theta > 1 - gamma / 2).astype(np.int8) - (theta < gamma / 2).astype(np.int8)
