"""The engine of a study, made from its file; and looks as rows, written with the answers that complete them."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Sequence

import numpy as np

from custodes.annotate.ballots import Ballots
from custodes.annotate.orders import clusters_of
from custodes.annotate.people import Unit
from custodes.annotate.plan import StudyPlan
from custodes.annotate.quota import Quota
from custodes.annotate.rules import budget_of, rule_of
from custodes.evaluate.protocol.asking import Asking, Ruling
from custodes.stats import ABSENT
from custodes.stats.arrays import Signs


def add_pairs(ballots: Ballots, base: sqlite3.Connection, plan: StudyPlan, *, total: int, last: int) -> None:
    """Give the ballots the pairs of the file up to so many, with units up to the `last`, and the engine their orders;
    what is there stays, new items stand behind it."""
    items = base.execute("SELECT item, cluster FROM item ORDER BY item").fetchall()
    place = {item: k for k, (item, _) in enumerate(items)}
    pairs = base.execute("SELECT pair, first, second FROM pair ORDER BY pair").fetchall()[:total]
    number = {pair: k for k, (pair, _, _) in enumerate(pairs)}
    rows = base.execute("SELECT unit, pair, item FROM unit WHERE unit <= ? ORDER BY pair, place", (last,))
    orders: list[list[Unit]] = [[] for _ in pairs]
    for unit, pair, item in rows:
        if (k := number.get(pair)) is not None:
            orders[k].append(Unit(id=unit, pair=k, place=len(orders[k]), item=item))
    known = len(ballots.places)
    later = {k: own[len(ballots.places[k]) :] for k, own in enumerate(orders[:known])}
    new, metric = orders[known:], _metric_of(base, orders, place)
    for (pair, _, _), own in zip(pairs[known:], new, strict=True):
        ballots.add_pair(pair, own)
    for k, own in later.items():
        ballots.add_places(k, own)
    asked = [[place[unit.item] for unit in own] for own in new]
    engine = ballots.asking
    if plan.question.mode == "rate":
        if engine is None:
            engine = Quota(orders=asked, budget=budget_of(plan))
        else:
            assert isinstance(engine, Quota)
            engine.add(asked)
    else:
        most = max([1, *map(len, orders)])
        rule = rule_of(plan, pairs=total, items=most, has_metric=metric is not None)
        systems = np.array([(first, second) for _, first, second in pairs], dtype=np.int64).reshape(-1, 2)
        if engine is None:
            units = clusters_of([cluster for _, cluster in items])
            engine = Asking(orders=asked, rule=rule, systems=systems, units=units, metric=metric)
        else:
            assert isinstance(engine, Asking)
            engine.rule = rule
            for k, order in enumerate(asked, start=known):
                engine.add(order, systems[k], None if metric is None else metric[k])
    for k, own in later.items():
        if own:
            engine.extend(k, [place[unit.item] for unit in own])
    ballots.asking = engine
    ballots.changed()


def _metric_of(base: sqlite3.Connection, orders: Sequence[Sequence[Unit]], place: dict[int, int]) -> Signs | None:
    """(pairs, items) preferences of the metric that helps, if there is one."""
    said = dict(base.execute("SELECT unit, preference FROM metric").fetchall())
    if not said:
        return None
    made = np.full((len(orders), len(place)), ABSENT, dtype=np.int8)
    for own in orders:
        for unit in own:
            made[unit.pair, place[unit.item]] = said.get(unit.id, ABSENT)
    return made


LookRow = tuple[
    int, int, int, int, int, int, int, int, float | None, float | None, float | None, float | None, str, float
]


def look_row(ruling: Ruling, *, pair: int, at: float) -> LookRow:
    """A look as it is kept. `pair`: its number in the file."""
    numbers = [None if math.isnan(own) else own for own in (ruling.theta, ruling.margin, ruling.low, ruling.high)]
    counts = (ruling.n, ruling.wins, ruling.ties, ruling.losses, ruling.decision, int(ruling.is_open))
    return (pair, ruling.look, *counts, *numbers, json.dumps(ruling.used), at)  # type: ignore[return-value]
