"""How many annotations will it take? Answered before anybody is paid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal, Unpack

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from custodes.data.notes import Note
from custodes.data.panel import Floats
from custodes.data.study import Study
from custodes.errors import OptionError
from custodes.evaluate.comparison import Comparison, Setting, compare, settings
from custodes.evaluate.protocol.annotations import IDEAL, IDEAL_MIXTURE, NONE, asked_of, people_alone
from custodes.evaluate.protocol.protocol import ERRORS
from custodes.evaluate.protocol.stopping import (
    ALONE,
    checked_boundary,
    checked_estimators,
    checked_looks,
    checked_stops,
    rule_of,
)
from custodes.evaluate.result import Result, Rng, at_least, between, columns, provenance, seeded, stacked
from custodes.progress import Progress, silent
from custodes.stats import ABSENT
from custodes.stats.decisions.outcome import error_types
from custodes.stats.stopping.power import human_power, margin_width, preference_correlation
from custodes.stats.stopping.replay import Answers, Replayed, replay
from custodes.stats.stopping.rules import HUMAN, POOLED, Boundary

MARGINS = (0.0, 0.1, 0.2, 0.3, 0.4)
TIE_RATE = 0.3
CURVE = (10, 20, 40, 60, 80, 100, 150, 200, 300, 400)
"""Annotations a pair at which the power curve is drawn, up to the number of items."""


@dataclass(frozen=True, kw_only=True)
class Plan(Result):
    """`plan` (estimator x stop x batch x budget), `power` (margin x annotations of a pair), `saving` (margin): what
    the metric can save. See `plan`."""

    plan: pl.DataFrame
    power: pl.DataFrame
    saving: pl.DataFrame


def plan(
    pilot: Study | None = None,
    *,
    margins: Sequence[float] | None = None,
    tie_rate: float | None = None,
    channel: ArrayLike | Literal["ideal"] | None = None,
    items: int = 100,
    metric_items: int = 0,
    estimator: str | Sequence[str] | None = None,
    batch: int | Sequence[int] = 10,
    looks: Sequence[int] | None = None,
    budget: int | Sequence[int] | None = None,
    boundary: Boundary | float = "none",
    stop: str | Sequence[str] = "decided",
    futility: float = 0.2,
    equivalence: float | None = None,
    replications: int = 100,
    gamma: float = 0.05,
    rng: Rng = 0,
    progress: Progress = silent,
    **setting: Unpack[Setting],
) -> Plan:
    """What the protocol will cost and how often it will err, from assumptions or from a pilot study.

    Each of `margins` (p_win - p_loss, one a pair; default 0 to 0.4) with the share of ties `tie_rate` (default 0.3) is
    a pair of systems; with a `pilot` the pairs are its own and their outcome shares are drawn from what it leaves
    possible, anew in every replication. `channel` (3, 3) [human, metric], counts or shares, says how a metric answers
    ('ideal': as in the paper's Appendix E; a pilot brings its own with `metrics`); the metric rates all `items` and
    `metric_items` more. `batch` and `budget` (annotations in all) may be several; other options as in `protocol`.

    `plan`: expected `annotations` a pair (and sd over replications), share of pairs `decided`; `correct` (the better
    system found, or no difference where there is none), `inversion`, `omission`, `insertion`; `interval_width` of the
    margin at the end; `saving`, the share of annotations saved against people alone under the same rule (null for
    people). `power`: by `margin` and `annotations` of a pair annotated once and for all, the exact chance that people
    alone find the better system (`power`) or the worse one (`wrong`), and `interval_width`. `saving`: `correlation` of
    the metric's preferences with people's, and the share of annotations it saves an estimator of the margin, at most
    (unlimited metric ratings) and with the ratings there are.

    Source: the protocol of Deriu et al. 2023 by simulation; savings by Angelopoulos et al. 2023 (variance 1 -
    correlation^2) with the limit of Dorner et al. 2025; the exact power is ours.

    >>> result = plan(margins=[0.0, 0.5], tie_rate=0.2, items=50, replications=20)
    >>> result.power.filter(pl.col("margin") == 0.5)["power"].is_between(0.2, 1).all()
    True
    """
    between("gamma", gamma, 0, 1)
    between("futility", futility, 0, 1)
    at_least("replications", replications, 1)
    at_least("items", items, 1)
    at_least("metric_items", metric_items, 0)
    if pilot is not None:
        for name, value in (("margins", margins), ("tie_rate", tie_rate), ("channel", channel)):
            if value is not None:
                raise OptionError(f"{name} and a pilot study contradict each other; give one of them")
    elif setting:
        raise OptionError(f"{next(iter(setting))} selects from a pilot study, and there is none")
    if POOLED in ([estimator] if isinstance(estimator, str) else estimator or []):
        raise OptionError("estimator='pooled' needs the items of a whole study, which a plan does not draw; use human")
    generator, seed = seeded(rng)
    worlds = _assumed(margins, tie_rate, channel) if pilot is None else _piloted(pilot, setting)
    alone = worlds[0].channel is None
    estimators = checked_estimators(estimator, alone=alone)
    if HUMAN not in estimators:
        estimators = (HUMAN, *estimators)
    batches = (batch,) if isinstance(batch, int) else tuple(batch)
    budgets = (budget,) if budget is None or isinstance(budget, int) else tuple(budget)
    for value in budgets:
        if value is not None:
            at_least("budget", value, 1)
    places = [(size, checked_looks(size, looks)) for size in (batches if looks is None else batches[:1])]
    options: dict[str, Any] = {
        "margins": None if margins is None else list(margins),
        "tie_rate": tie_rate,
        "channel": channel if channel is None or isinstance(channel, str) else np.asarray(channel).tolist(),
        "items": items,
        "metric_items": metric_items,
        "estimator": list(estimators),
        "batch": batch,
        "looks": None if looks is None else list(looks),
        "budget": budget,
        "boundary": checked_boundary(boundary),
        "stop": list(checked_stops(stop, equivalence)),
        "futility": futility,
        "equivalence": equivalence,
        "replications": replications,
        "gamma": gamma,
    }
    anytime = [name for name in options["stop"] if "anytime" in name]
    if anytime and len(estimators) > 1:
        raise OptionError(f"stop={anytime[0]!r} bets on people's annotations alone; leave the metric out")
    rows = []
    for world in progress(worlds, total=len(worlds), desc="plan"):
        drawn = _drawn(world, options, generator)
        for (size, spots), paid, ending in product(places, budgets, options["stop"]):
            people: Replayed | None = None
            for name in estimators:
                rule = rule_of(
                    estimator=name,
                    stop=ending,
                    batch=size,
                    looks=spots,
                    most=items,
                    boundary=boundary,
                    futility=futility,
                    equivalence=equivalence,
                    gamma=gamma,
                    seed=int(generator.integers(2**63)),
                )
                reference = np.sign(drawn.shares[..., 0] - drawn.shares[..., 2]).astype(np.int8)
                end = replay(drawn.answers, rule, budget=paid, reference=reference, truth=drawn.shares, together=None)
                people = people or end
                row: dict[str, Any] = {
                    "aspect": world.aspect,
                    "metric": NONE if name in ALONE else world.metric,
                    "estimator": name,
                }
                row |= {"stop": ending, "batch": None if spots else size, "looks": spots, "budget": paid}
                rows.append(_row(row, world, drawn, end, people, reference, options))
    notes = _notes(worlds)
    made = provenance("plan", pilot, options={**options, **setting}, seed=seed, notes=notes)
    return Plan(
        provenance=replace(made, study="assumptions") if pilot is None else made,
        notes=notes,
        plan=stacked(rows),
        power=stacked([_power(world, options) for world in worlds]),
        saving=stacked([_saving(world, options) for world in worlds]),
    )


@dataclass(frozen=True, kw_only=True)
class _World:
    """What is assumed: `counts` (pairs, 3) of a pilot, or else known `shares` (pairs, 3); `channel` (3, 3) [human,
    metric], rows summing to 1."""

    aspect: str
    metric: str
    counts: NDArray[np.int64] | None
    shares: Floats
    channel: Floats | None


@dataclass(frozen=True, kw_only=True)
class _Drawn:
    """Answers of simulated studies, and the true `shares` (replications, pairs, 3) behind them."""

    answers: Answers
    shares: Floats


def _assumed(
    margins: Sequence[float] | None, tie_rate: float | None, channel: ArrayLike | Literal["ideal"] | None
) -> list[_World]:
    ties = TIE_RATE if tie_rate is None else tie_rate
    if not 0 <= ties < 1:
        raise OptionError(f"tie_rate={ties}: the share of ties is at least 0 and less than 1")
    given = np.asarray(MARGINS if margins is None else margins, dtype=np.float64)
    if given.ndim != 1 or not len(given) or not (np.abs(given) <= 1 - ties + 1e-12).all():
        raise OptionError(f"margins={margins}: with {ties:g} ties a margin lies between -{1 - ties:g} and {1 - ties:g}")
    shares = np.stack([(1 - ties + given) / 2, np.full(len(given), ties), (1 - ties - given) / 2], axis=1)
    if isinstance(channel, str):
        if channel != IDEAL:
            raise OptionError(f"channel={channel!r}: give a 3x3 table [human, metric], or 'ideal'")
        table: Floats | None = IDEAL_MIXTURE.T
    else:
        table = None if channel is None else _normalised(np.asarray(channel, dtype=np.float64))
    name = NONE if channel is None else IDEAL if isinstance(channel, str) else "channel"
    return [_World(aspect="", metric=name, counts=None, shares=np.clip(shares, 0, 1), channel=table)]


def _normalised(table: Floats) -> Floats:
    if table.shape != (3, 3) or not (np.isfinite(table) & (table >= 0)).all() or not table.sum(axis=1).all():
        raise OptionError(
            "channel: needs 3x3 counts or shares [human, metric] in the order win, tie, loss, no row all zero"
        )
    return np.asarray(table / table.sum(axis=1, keepdims=True))


def _piloted(pilot: Study, setting: Setting) -> list[_World]:
    alone = setting.get("metrics") in (None, NONE)
    full = settings({**setting, "metrics": None} if alone else setting)
    worlds = []
    for comparison in compare(people_alone(pilot, full["human"]) if alone else pilot, **full):
        for metric in [NONE] if alone else comparison.metrics:
            counts = asked_of(comparison, metric).outcome
            shares = (counts + 1) / (counts.sum(axis=1, keepdims=True) + 3)
            channel = None if metric == NONE else _channel(comparison, metric)
            worlds.append(
                _World(aspect=comparison.aspect, metric=metric, counts=counts, shares=shares, channel=channel)
            )
    return worlds


def _channel(comparison: Comparison, metric: str) -> Floats:
    """How the metric answers what people answered, over all pairs and both orders of each; posterior means."""
    asked = asked_of(comparison, metric)
    both = (asked.human != ABSENT) & (asked.metric != ABSENT)
    table = np.zeros((3, 3))
    np.add.at(table, (1 - asked.human[both], 1 - asked.metric[both]), 1)
    table = table + table[::-1, ::-1] + 1
    return np.asarray(table / table.sum(axis=1, keepdims=True))


def _drawn(world: _World, options: dict[str, Any], rng: np.random.Generator) -> _Drawn:
    shape = (options["replications"], len(world.shares))
    if world.counts is None:
        shares = np.broadcast_to(world.shares, (*shape, 3))
    else:
        gammas = rng.standard_gamma(world.counts + 1.0, size=(*shape, 3))
        shares = gammas / gammas.sum(axis=-1, keepdims=True)
    edges = np.cumsum(shares, axis=-1)[..., np.newaxis, :2]
    human = (rng.random((*shape, options["items"], 1)) > edges).sum(axis=-1)
    metric = np.full(human.shape, 3)
    total = np.zeros((*shape, 3), dtype=np.int64)
    if world.channel is not None:
        limits = np.cumsum(world.channel, axis=1)[:, :2][human]
        metric = (rng.random((*human.shape, 1)) > limits).sum(axis=-1)
        total = np.stack([(metric == kind).sum(axis=-1) for kind in range(3)], axis=-1)
        answered = shares @ world.channel
        total += rng.multinomial(options["metric_items"], answered / answered.sum(axis=-1, keepdims=True))
    answers = Answers(
        kinds=(4 * human + metric).astype(np.int8),
        available=np.full(shape, options["items"], dtype=np.int64),
        metric=total,
    )
    return _Drawn(answers=answers, shares=np.asarray(shares))


def _row(
    row: dict[str, Any],
    world: _World,
    drawn: _Drawn,
    end: Replayed,
    people: Replayed,
    reference: NDArray[np.int8],
    options: dict[str, Any],
) -> pl.DataFrame:
    n = end.n.mean(axis=1)
    helps = row["estimator"] not in ALONE
    saved = np.zeros(end.n.shape)
    if helps and world.channel is not None:
        rated = options["items"] + options["metric_items"]
        saved = preference_correlation(drawn.shares, world.channel) ** 2 * (1 - end.n / rated)
    width = margin_width(drawn.shares, end.n, gamma=options["gamma"]) * np.sqrt(1 - saved)
    boundary = options["boundary"]
    table = columns(
        {
            **{name: [value] for name, value in row.items() if name != "looks"},
            "looks": [",".join(map(str, row["looks"])) if row["looks"] else None],
            "boundary": [boundary if isinstance(boundary, str) else f"{boundary:g}"],
            "replications": [len(n)],
            "annotations": np.array([n.mean()]),
            "annotations_sd": np.array([n.std(ddof=1) if len(n) > 1 else np.nan]),
            "decided": np.array([(end.decision != 0).mean()]),
            **{
                name: np.array([values.mean()])
                for name, values in zip(ERRORS, error_types(reference, end.decision).T, strict=True)
            },
            "interval_width": np.array([width.mean()]),
            "saving": np.array([1 - n.mean() / people.n.mean() if helps else np.nan]),
        }
    )
    return table.with_columns(pl.col("batch", "budget").cast(pl.Int64), pl.col("looks").cast(pl.String))


def _power(world: _World, options: dict[str, Any]) -> pl.DataFrame:
    """Exact, for people alone; of a pilot one row a pair."""
    places = np.array([n for n in CURVE if n < options["items"]] + [options["items"]])
    n_pairs = len(world.shares)
    shares, n = np.repeat(world.shares, len(places), axis=0), np.tile(places, n_pairs)
    margin = np.round(shares[:, 0] - shares[:, 2], 12)  # an assumed .3 comes back as .3
    better, worse = human_power(shares, n, gamma=options["gamma"])
    return columns(
        {
            "aspect": [world.aspect] * len(n),
            "pair": np.repeat(np.arange(1, n_pairs + 1), len(places)),
            "margin": margin,
            "ties": shares[:, 1],
            "annotations": n,
            "power": np.where(margin >= 0, better, worse),
            "wrong": np.where(margin >= 0, worse, better),
            "interval_width": margin_width(shares, n, gamma=options["gamma"]),
        }
    )


def _saving(world: _World, options: dict[str, Any]) -> pl.DataFrame:
    """Closed form: the variance of the margin falls by correlation^2, as far as there are more metric ratings."""
    n_pairs = len(world.shares) if world.channel is not None else 0
    shares = world.shares[:n_pairs]
    channel = np.full((3, 3), 1 / 3) if world.channel is None else world.channel
    correlation = preference_correlation(shares, channel)
    size = options["batch"] if isinstance(options["batch"], int) else min(options["batch"])
    first = min(options["looks"] or [size])
    rated = options["items"] + options["metric_items"]
    return columns(
        {
            "aspect": [world.aspect] * n_pairs,
            "metric": [world.metric] * n_pairs,
            "pair": np.arange(1, n_pairs + 1),
            "margin": shares[:, 0] - shares[:, 2],
            "correlation": correlation,
            "saving_most": correlation**2,
            "saving": correlation**2 * max(0.0, 1 - first / rated),
        }
    ).with_columns(pl.col("aspect", "metric").cast(pl.String))


def _notes(worlds: list[_World]) -> tuple[Note, ...]:
    if worlds[0].channel is None:
        return ()
    message = (
        "a metric saves at most the square of its correlation with people; a judge no better than the systems it judges"
        " can at most halve the annotations (Dorner et al. 2025)"
    )
    return (Note(rule="most-saved", message=message),)
