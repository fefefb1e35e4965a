"""The sum of outcome counts of disjoint items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import polars as pl

from custodes.data.origin import Origin, digest_of
from custodes.data.outcome_counts import BY_ORDER, SIGNS, OutcomeCounts
from custodes.data.panel import pair_positions
from custodes.errors import InputError, listed, shown

RULES = ("aspect", "aggregate", "ties", "human_ties", "orders")
"""Options of counting that must be equal."""

SELECTIONS = ("human", "metrics", "systems", "lower")
"""Options of counting whose lists are united."""


def sum_counts(parts: Sequence[OutcomeCounts]) -> OutcomeCounts:
    """The sum of the counts of several tables without a common item. The result has the raters and systems of all
    tables.

    Raises `InputError` if the options of counting differ.
    """
    first, *others = parts
    if not others:
        return first
    for place, part in enumerate(parts[1:], start=1):
        for earlier in parts[:place]:
            _check_additive(earlier, part)
    for part in parts:
        pairs = list(zip(part.system_a, part.system_b, strict=True))
        if len({*pairs}) < len(pairs) or any(a >= b for a, b in pairs):
            raise InputError(f"{part.origin.name}: give each pair of systems once, in alphabetical order")
    systems = sorted({*chain.from_iterable((*part.system_a, *part.system_b) for part in parts)})
    metrics = list(dict.fromkeys(chain.from_iterable(part.metrics for part in parts)))
    tables = np.zeros((len(systems) * (len(systems) - 1) // 2, len(metrics), 4, 4), dtype=np.int64)
    for part in parts:
        rows = pair_positions(pl.DataFrame({"system_a": part.system_a, "system_b": part.system_b}), systems)
        for place, metric in enumerate(metrics):
            if metric in part.metrics:
                m = part.metrics.index(metric)
                tables[rows, place, :3, :3] += part.paired[:, m]
                tables[rows, place, 3, :3] += part.metric_only[:, m]
                tables[rows, place, :3, 3] += part.human_only[:, m]
            else:
                tables[rows, place, :3, 3] += part.human
    return OutcomeCounts.of_tables(
        tables,
        systems=systems,
        metrics=metrics,
        by_order=_by_order(parts),
        items=_items(parts),
        notes=tuple(
            replace(note, message=f"{part.origin.name}: {note.message}") for part in parts for note in part.notes
        ),
        origin=Origin(
            how=_how(parts),
            name=" + ".join(part.origin.name for part in parts),
            digest=digest_of(*(part.origin.digest for part in parts)),
        ),
    )


def _check_additive(one: OutcomeCounts, other: OutcomeCounts) -> None:
    """Raise `InputError` for identical counts, or counts with different kinds, rules, directions or roles of raters."""
    names = f"{one.origin.name} and {other.origin.name} cannot be added"
    if one.origin.digest and one.origin.digest == other.origin.digest:
        raise InputError(f"{names}: both files hold the same counts; give each file once")
    if (one.by_order is None) != (other.by_order is None):
        raise InputError(f"{names}: one file counts scores and one counts verdicts; give counts of one kind")
    if bool(one.metrics) != bool(other.metrics):
        raise InputError(f"{names}: only one file counts metrics; count both tables with the same raters")
    how, how_other = one.origin.how, other.origin.how
    for rule in RULES:
        if (value := how.get(rule)) != (value_other := how_other.get(rule)):
            raise InputError(
                f"{names}: {rule} is {shown(value)} in one file and {shown(value_other)} in the other file; count "
                "both tables with the same options"
            )
    human, human_other = set(how.get("human", ())), set(how_other.get("human", ()))
    if both := sorted(human & set(other.metrics) | human_other & set(one.metrics)):
        raise InputError(
            f"{names}: these raters are human in one file and metrics in the other file: {listed(both)}; give each "
            "rater one kind"
        )
    turned = set(how.get("lower", ())) ^ set(how_other.get("lower", ()))
    shared = {*one.metrics, *human} & {*other.metrics, *human_other}
    if opposite := sorted(turned & shared):
        raise InputError(
            f"{names}: lower is better for {listed(opposite)} in only one file; count both tables with the same "
            f"option lower"
        )


def _by_order(parts: Sequence[OutcomeCounts]) -> pl.DataFrame | None:
    keys = [name for name in BY_ORDER if name not in SIGNS]
    frames = [part.by_order for part in parts if part.by_order is not None]
    return pl.concat(frames).group_by(keys).agg(pl.col(list(SIGNS)).sum()).sort(keys) if frames else None


def _items(parts: Sequence[OutcomeCounts]) -> dict[str, int]:
    """The number of items of each rater. If the number is unknown in one part, the rater is omitted."""
    raters = sorted({*chain.from_iterable(part.items for part in parts)})
    unknown = {rater for part in parts for rater in part.raters if rater not in part.items}
    return {rater: sum(part.items.get(rater, 0) for part in parts) for rater in raters if rater not in unknown}


def _how(parts: Sequence[OutcomeCounts]) -> dict[str, Any]:
    """The options of counting for the sum. An option that selects raters or systems is kept only if all parts have this
    option."""
    hows = [part.origin.how for part in parts]
    rules = {name: value for name, value in hows[0].items() if name not in SELECTIONS}
    selections = {
        name: list(dict.fromkeys(chain.from_iterable(how.get(name, ()) for how in hows)))
        for name in SELECTIONS
        if all(name in how for how in hows) or (name == "lower" and any(name in how for how in hows))
    }
    return rules | selections
