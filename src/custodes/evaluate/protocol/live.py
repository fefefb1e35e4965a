"""The protocol with people at the other end: state in, next annotations out, answers in, decisions out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations, islice
from math import comb
from typing import Any, NamedTuple

import numpy as np

from custodes.answers.question import recorded
from custodes.arguments import argument, at_least, check_storable, is_whole, several
from custodes.data.pairs import PairPreferences, pairs_of
from custodes.errors import InputError, OptionError, listed, shown, suggestion
from custodes.evaluate.protocol.annotations import outcome_of
from custodes.evaluate.protocol.state import State
from custodes.evaluate.protocol.stopping import USUAL, Stopping, asked_for
from custodes.stats import ABSENT
from custodes.stats.arrays import Ints
from custodes.stats.clusters import is_clustered
from custodes.stats.correction.estimator import Items
from custodes.stats.stopping.allocation import KINDS, annotation_order, granted, kinds_of, tables
from custodes.stats.stopping.rules import rule_on

__all__ = ["Annotation", "Decision", "State", "decisions", "next_annotations", "record", "start"]


class Annotation(NamedTuple):
    """One question to people: which system's output for this item is better?"""

    item: str
    system_a: str
    system_b: str


class Decision(NamedTuple):
    """What is known of one pair: `decision` '+' (system_a better), '=' or '-'; `annotations` so far; `is_open` while
    more are wanted; `annotated` False where it is answered without any annotation."""

    system_a: str
    system_b: str
    decision: str
    annotations: int
    is_open: bool
    annotated: bool


def start(
    systems: Sequence[str],
    items: Sequence[str],
    *,
    metric: PairPreferences | None = None,
    clusters: Sequence[str] | None = None,
    estimator: str | None = None,
    stopping: Stopping = USUAL,
    seed: int = 0,
) -> State:
    """Begin a protocol on these systems and items; `estimator` and `stopping` as in `protocol`.

    `metric`: preferences of one rater over the same systems and items, for estimators that use one. `clusters`: the
    document of each item; documents take turns, and annotations that share one count for less.

    >>> state = start(["A", "B"], ["i1", "i2", "i3"], stopping=Stopping(batch=2))
    >>> len(next_annotations(state))
    2
    """
    labels, items = tuple(sorted(_labels("systems", systems))), _labels("items", items)
    for what, names, least in (("systems", labels, 2), ("items", items, 1)):
        at_least(what, len(names), least)
        if doubled := [name for name, n in Counter(names).items() if n > 1]:
            raise OptionError(f"{what} named twice: {listed(sorted(doubled))}")
    documents = items if clusters is None else _labels("clusters", clusters)
    if len(documents) != len(items):
        raise OptionError(f"{len(documents)} clusters for {len(items)} items: give one an item")
    if not (metric is None or isinstance(metric, PairPreferences)):
        raise OptionError(f"metric={shown(metric)}: give the PairPreferences of one rater")
    _, fixed = recorded(seed)
    if fixed is None or seed is None:
        raise OptionError(f"seed={shown(seed)}: a state is a file, so its seed is a whole number")
    named = argument("estimator", estimator, str | None)
    if not isinstance(stopping, Stopping):
        raise OptionError(f"stopping={shown(stopping)}: give one cu.Stopping(...)")
    (own,), (rule,) = asked_for(named, stopping, alone=metric is None)
    n_pairs = comb(len(labels), 2)
    known = {cluster: i for i, cluster in enumerate(dict.fromkeys(documents))}
    state = State(
        systems=labels,
        items=items,
        units=tuple(known[cluster] for cluster in documents),
        metric=() if metric is None else _metric_rows(metric, labels, items),
        estimator=own.name,
        stopping=rule,
        seed=fixed,
        look=-1,
        answers=({},) * n_pairs,
        asked=(0,) * n_pairs,
        is_open=(True,) * n_pairs,
        decision=(0,) * n_pairs,
    )
    return _next_look(state)


def next_annotations(state: State) -> list[Annotation]:
    """What to ask people now: what the present round still lacks, the same list until it is recorded; empty at the end.

    >>> next_annotations(start(["B", "A"], ["i1"]))
    [Annotation(item='i1', system_a='A', system_b='B')]
    """
    _check_state(state)
    available = np.ones((len(state.answers), len(state.items)), dtype=bool)
    orders = annotation_order(available, np.array(state.units), np.random.default_rng(state.seed)).tolist()
    rows = zip(state.pairs, state.answers, (state.asked - state.usable).tolist(), orders, strict=True)
    return [
        Annotation(item, *pair)
        for pair, answers, lacking, order in rows
        for item in islice((state.items[i] for i in order if state.items[i] not in answers), max(0, lacking))
    ]


def record(state: State, verdicts: Iterable[tuple[str, str, str, int | None]]) -> State:
    """The state after some answers: (item, system_a, system_b, preference of system_a: 1, 0, -1, or None: impossible).

    Answers may come in any order and in parts; the systems of a pair may be swapped. A round is judged when its last
    answer is in, and the next one begins. Raises `InputError` for what was not asked now, or is answered differently a
    second time.

    >>> state = record(start(["A", "B"], ["i1"]), [("i1", "B", "A", 1)])
    >>> decisions(state)[0].annotations, next_annotations(state)
    (1, [])
    """
    _check_state(state)
    known = {"item": set(state.items), "system": set(state.systems)}
    answers = dict(zip(state.pairs, map(dict, state.answers), strict=True))
    asked = set(next_annotations(state))
    for item, a, b, preference in _verdicts(verdicts):
        for what, name in (("item", item), ("system", a), ("system", b)):
            if name not in known[what]:
                raise InputError(f"no {what} {shown(name)} in this protocol{suggestion(name, sorted(known[what]))}")
        if a == b:
            raise InputError(f"{item!r}: {a!r} is compared with itself")
        low, high = sorted((a, b))
        value = ABSENT if preference is None else preference if a == low else -preference
        if item not in answers[low, high] and Annotation(item, low, high) not in asked:
            raise InputError(f"{low!r} against {high!r} on {item!r} is not asked now; see next_annotations")
        if answers[low, high].setdefault(item, value) != value:
            raise InputError(f"{low!r} against {high!r} on {item!r} is already answered, and differently")
    state = replace(state, answers=tuple(answers.values()))
    while any(state.asked) and not next_annotations(state):
        state = _next_look(_judged(state))
    return state


def decisions(state: State) -> list[Decision]:
    """What is known of every pair so far.

    >>> [(pair.decision, pair.is_open) for pair in decisions(start(["A", "B"], ["i1"]))]
    [('=', True)]
    """
    _check_state(state)
    rows = zip(state.pairs, state.decision, state.usable.tolist(), state.is_open, strict=True)
    return [Decision(*pair, "=+-"[decision], n, is_open, n > 0) for pair, decision, n, is_open in rows]


def _check_state(state: State) -> None:
    """Raise InputError for anything but a state."""
    if not isinstance(state, State):
        raise InputError(f"state={shown(state)}: give a State; State.read(path) reads one")


def _verdicts(given: Iterable[tuple[str, str, str, int | None]]) -> Iterator[tuple[str, str, str, int | None]]:
    """The answers with labels and preferences as Python's own, whatever library they came from."""
    wanted = "give item, system_a, system_b and 1, 0, -1 or None"
    if not several(given):
        raise InputError(f"verdicts {shown(given)}: {wanted}, one of these an answer")
    for row in given:
        if len(parts := tuple(row) if several(row) else ()) != 4 or not all(
            isinstance(name, str) for name in parts[:3]
        ):
            raise InputError(f"verdict {shown(row)}: {wanted}")
        item, a, b, preference = parts
        if preference is not None and not (is_whole(preference) and preference in (1, 0, -1)):
            raise InputError(
                f"preference {shown(preference)} for {item!r}: allowed are 1, 0, -1, or None where impossible"
            )
        yield str(item), str(a), str(b), None if preference is None else int(preference)


def _labels(what: str, given: Sequence[str]) -> tuple[str, ...]:
    """Labels as Python's own text, which is what a file holds."""
    made: list[Any] = list(given) if several(given) else [None]
    if not all(isinstance(own, str) for own in made):
        raise OptionError(f"{what}={shown(given)}: must be a list of text")
    check_storable(what, made)
    return tuple(map(str, made))


def _next_look(state: State) -> State:
    """Ask for the annotations of the next look that lacks any, as far as the budget goes."""
    n, last = state.usable, state.last
    left = np.array(max(0, state.rule.budget - int(n.sum())))
    is_open = np.array(state.is_open) & (n < last) & (left > 0)
    look = state.look
    given: Ints = np.zeros(len(n), dtype=np.int64)
    while is_open.any() and not given.any() and look + 1 < len(state.rule.looks):
        look += 1
        target = np.minimum(state.rule.looks[look], last)
        given = granted(np.where(is_open, np.maximum(target - n, 0), 0), left)
    asked = np.where(given > 0, n + given, 0)
    return replace(state, look=look, asked=tuple(asked.tolist()), is_open=tuple(is_open.tolist()))


def _judged(state: State) -> State:
    """Decide and close pairs by the answers of a complete round."""
    metric = np.array(state.metric, dtype=np.int8) if state.metric else np.full_like(state.seen, ABSENT)
    # A pair whose items were all skipped has nothing to be judged by.
    judged = (np.array(state.asked) > 0) & (state.usable > 0)
    kinds = kinds_of(state.seen, metric)
    counts = np.stack([(kinds == kind).sum(axis=1) for kind in range(KINDS)], axis=1)
    systems, units = np.stack(pairs_of(state.systems), axis=1), np.array(state.units)
    needed = state.rule.estimator.needs_items or is_clustered(units)
    items = Items(human=state.seen, systems=systems, units=units) if needed else None
    known = tables(counts[judged], outcome_of(metric)[judged])
    decision, is_open = np.array(state.decision), np.array(state.is_open)
    decision[judged], is_open[judged], _ = rule_on(
        state.rule, known, look=state.look, last=state.last[judged], items=items, judged=judged
    )
    return replace(state, decision=tuple(decision.tolist()), is_open=tuple(is_open.tolist()))


def _metric_rows(
    metric: PairPreferences, systems: tuple[str, ...], items: tuple[str, ...]
) -> tuple[tuple[int, ...], ...]:
    """(pairs, items) preferences of the one rater, in the order of the state."""
    if len(metric.raters) != 1:
        raise OptionError(f"metric: preferences of {len(metric.raters)} raters ({listed(metric.raters)}); give one")
    named = zip(metric.system_a, metric.system_b, metric.signs[:, 0].tolist(), strict=True)
    rows = {(a, b): dict(zip(metric.items, own, strict=True)) for a, b, own in named}
    made = tuple(tuple(rows.get(pair, {}).get(item, ABSENT) for item in items) for pair in combinations(systems, 2))
    if {sign for own in made for sign in own} == {ABSENT}:
        raise InputError(f"metric: no pair and item in common with this protocol (items {listed(items, limit=3)})")
    return made
