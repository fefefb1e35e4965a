"""The protocol with people at the other end: state in, next annotations out, answers in, decisions out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.data.pairs import PairPreferences, pairs_of
from custodes.errors import InputError, OptionError, listed, suggestion
from custodes.evaluate.protocol.annotations import Asked, pooled_evidence
from custodes.evaluate.protocol.stopping import (
    checked_boundary,
    checked_estimators,
    checked_looks,
    checked_stops,
    rule_of,
)
from custodes.evaluate.result import at_least, between
from custodes.stats import ABSENT
from custodes.stats.stopping.allocation import KINDS, annotation_order, granted, kinds_of, tables
from custodes.stats.stopping.rules import HUMAN, POOLED, Boundary, Rule, rule_on

Signs = NDArray[np.int8]
Ints = NDArray[np.int64]

SKIPPED = -128
"""Recorded for an annotation that could not be made: another item is asked instead."""


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


@dataclass(frozen=True, kw_only=True)
class State:
    """All there is to know of a running protocol; plain values, so that it is a file between two sessions.

    `answers` (pairs): item position to preference of the pair's first system (1, 0, -1, or -128: could not be made), in
    the order of `pairs_of(systems)`. `asked` (pairs): how many usable answers the present look wants of each. `seed`
    makes the orders. `metric` (pairs, items) preferences, empty without a metric; `units` the cluster of each item.
    """

    systems: tuple[str, ...]
    items: tuple[str, ...]
    units: tuple[int, ...]
    metric: tuple[tuple[int, ...], ...]
    rule: Rule
    budget: int | None
    seed: int
    look: int
    answers: tuple[dict[int, int], ...]
    asked: tuple[int, ...]
    is_open: tuple[bool, ...]
    decision: tuple[int, ...]

    def to_json(self) -> bytes:
        """The state as JSON."""
        import msgspec

        return msgspec.json.encode(self)

    @classmethod
    def from_json(cls, text: bytes | str) -> State:
        """The state that `to_json` wrote; raises `InputError` for anything else."""
        import msgspec

        try:
            return msgspec.json.decode(text, type=cls)
        except msgspec.DecodeError as problem:
            raise InputError(f"this is no state of a protocol: {problem}") from None

    @classmethod
    def read(cls, path: str | Path) -> State:
        """The state in a file."""
        try:
            return cls.from_json(Path(path).read_bytes())
        except OSError as problem:
            raise InputError(f"cannot read {path}: {problem.strerror}") from None


def start(
    systems: Sequence[str],
    items: Sequence[str],
    *,
    metric: PairPreferences | None = None,
    clusters: Sequence[str] | None = None,
    estimator: str | None = None,
    batch: int = 10,
    looks: Sequence[int] | None = None,
    budget: int | None = None,
    boundary: Boundary | float = "none",
    stop: str = "decided",
    futility: float = 0.2,
    equivalence: float | None = None,
    gamma: float = 0.05,
    seed: int = 0,
) -> State:
    """Begin a protocol on these systems and items; options as in `protocol`.

    `metric`: preferences of one rater over the same systems and items, for estimators that use one. `clusters`: the
    document of each item, for the pooled estimator.

    >>> state = start(["A", "B"], ["i1", "i2", "i3"], batch=2)
    >>> len(next_annotations(state))
    2
    """
    labels = tuple(sorted(systems))
    for what, names in (("system", labels), ("item", tuple(items))):
        doubled = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
        if doubled:
            raise OptionError(f"{what}s named twice: {listed(doubled)}")
    at_least("systems", len(labels), 2)
    at_least("items", len(items), 1)
    if clusters is not None and len(clusters) != len(items):
        raise OptionError(f"{len(clusters)} clusters for {len(items)} items: give one an item")
    between("gamma", gamma, 0, 1)
    between("futility", futility, 0, 1)
    (name,) = checked_estimators(estimator, alone=metric is None)
    (parts,) = checked_stops(stop, equivalence)
    if "anytime" in parts and name != HUMAN:
        raise OptionError(f"stop 'anytime' bets on people's annotations alone, not on estimator={name!r}; use human")
    rule = rule_of(
        estimator=name,
        stop=parts,
        batch=batch,
        looks=checked_looks(batch, looks),
        most=len(items),
        boundary=checked_boundary(boundary),
        futility=futility,
        equivalence=equivalence,
        gamma=gamma,
        seed=seed,
    )
    n_pairs = len(labels) * (len(labels) - 1) // 2
    known = {cluster: i for i, cluster in enumerate(dict.fromkeys(clusters or items))}
    state = State(
        systems=labels,
        items=tuple(items),
        units=tuple(known[cluster] for cluster in (clusters or items)),
        metric=() if metric is None else _metric_rows(metric, labels, tuple(items)),
        rule=rule,
        budget=None if budget is None else at_least("budget", budget, 1),
        seed=at_least("seed", seed, 0),
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
    first, second = pairs_of(state.systems)
    orders = _orders(state)
    wanted = []
    for pair, (answers, asked) in enumerate(zip(state.answers, state.asked, strict=True)):
        lacking = asked - _usable(answers)
        fresh = (int(item) for item in orders[pair] if int(item) not in answers) if lacking > 0 else iter(())
        for _, item in zip(range(lacking), fresh, strict=False):
            wanted.append(Annotation(state.items[item], state.systems[first[pair]], state.systems[second[pair]]))
    return wanted


def record(state: State, verdicts: Iterable[tuple[str, str, str, int | None]]) -> State:
    """The state after some answers: (item, system_a, system_b, preference of system_a: 1, 0, -1, or None: impossible).

    Answers may come in any order and in parts; the systems of a pair may be swapped. A round is judged when its last
    answer is in, and the next one begins. Raises `InputError` for what was not asked now, or is answered differently a
    second time.

    >>> state = record(start(["A", "B"], ["i1"]), [("i1", "B", "A", 1)])
    >>> decisions(state)[0].annotations, next_annotations(state)
    (1, [])
    """
    item_place = {name: i for i, name in enumerate(state.items)}
    pair_place = {pair: k for k, pair in enumerate(zip(*pairs_of(state.systems), strict=True))}
    system_place = {name: i for i, name in enumerate(state.systems)}
    answers = [dict(own) for own in state.answers]
    asked = set(next_annotations(state))
    for item, a, b, preference in verdicts:
        for name, known, what in ((item, item_place, "item"), (a, system_place, "system"), (b, system_place, "system")):
            if name not in known:
                raise InputError(f"no {what} {name!r} in this protocol{suggestion(name, known)}")
        if preference not in (1, 0, -1, None):
            raise InputError(f"preference {preference!r} for {item!r}: allowed are 1, 0, -1, or None where impossible")
        swap = system_place[a] > system_place[b]
        low, high = (b, a) if swap else (a, b)
        if low == high:
            raise InputError(f"{item!r}: {a!r} is compared with itself")
        pair = pair_place[system_place[low], system_place[high]]
        value = SKIPPED if preference is None else -preference if swap else preference
        before = answers[pair].get(item_place[item])
        if before is None and Annotation(item, low, high) not in asked:
            raise InputError(f"{low!r} against {high!r} on {item!r} is not asked now; see next_annotations")
        if before not in (None, value):
            raise InputError(f"{low!r} against {high!r} on {item!r} is already answered, and differently")
        answers[pair][item_place[item]] = value
    state = replace(state, answers=tuple(answers))
    while _is_complete(state) and any(state.asked):
        state = _next_look(_judged(state))
    return state


def decisions(state: State) -> list[Decision]:
    """What is known of every pair so far."""
    signs = {1: "+", 0: "=", -1: "-"}
    rows = zip(*pairs_of(state.systems), state.decision, state.answers, state.is_open, strict=True)
    return [
        Decision(
            system_a=state.systems[a],
            system_b=state.systems[b],
            decision=signs[decision],
            annotations=_usable(answers),
            is_open=is_open,
            annotated=_usable(answers) > 0,
        )
        for a, b, decision, answers, is_open in rows
    ]


def _usable(answers: dict[int, int]) -> int:
    return sum(value != SKIPPED for value in answers.values())


def _orders(state: State) -> Ints:
    available = np.ones((len(state.answers), len(state.items)), dtype=bool)
    return annotation_order(available, np.random.default_rng(state.seed))


def _seen(state: State) -> Signs:
    """(pairs, items): answers so far."""
    seen = np.full((len(state.answers), len(state.items)), ABSENT, dtype=np.int8)
    for own, answers in zip(seen, state.answers, strict=True):
        own[list(answers)] = list(answers.values())
    return seen


def _last(state: State) -> Ints:
    """(pairs,): how many annotations each can have at its last look."""
    skipped = [len(answers) - _usable(answers) for answers in state.answers]
    return np.asarray(np.minimum(state.rule.looks[-1], len(state.items) - np.array(skipped)))


def _is_complete(state: State) -> bool:
    return all(
        _usable(answers) >= asked or len(answers) == len(state.items)
        for answers, asked in zip(state.answers, state.asked, strict=True)
    )


def _next_look(state: State) -> State:
    """Ask for the annotations of the next look that lacks any, as far as the budget goes."""
    n = np.array([_usable(answers) for answers in state.answers])
    last = _last(state)
    left = np.iinfo(np.int64).max if state.budget is None else max(0, state.budget - int(n.sum()))
    is_open = np.array(state.is_open) & (n < last) & (left > 0)
    look, given = state.look, np.zeros(len(n), dtype=np.int64)
    while is_open.any() and not given.any():
        look += 1
        given = granted(
            np.where(is_open, np.maximum(np.minimum(state.rule.looks[look], last) - n, 0), 0), np.array(left)
        )
    asked = np.where(given > 0, n + given, 0)
    return replace(state, look=look, asked=tuple(asked.tolist()), is_open=tuple(is_open.tolist()))


def _judged(state: State) -> State:
    """Decide and close pairs by the answers of a complete round."""
    seen = _seen(state)
    metric = np.array(state.metric, dtype=np.int8) if state.metric else np.full_like(seen, ABSENT)
    counts = np.stack([(kinds_of(seen, metric) == kind).sum(axis=1) for kind in range(KINDS)], axis=1)
    total = np.stack([(metric == kind).sum(axis=1) for kind in (1, 0, -1)], axis=1)
    # A pair whose items were all skipped has nothing to be judged by.
    judged = (np.array(state.asked) > 0) & (counts.sum(axis=1) > 0)
    evidence = None
    if state.rule.estimator == POOLED:
        pairs = Asked(
            human=seen,
            metric=metric,
            metric_more=np.zeros_like(total),
            systems=np.stack(pairs_of(state.systems), axis=1),
            units=np.array(state.units),
        )
        evidence = pooled_evidence(seen, pairs, gamma=state.rule.gamma, seed=state.rule.seed).where(judged)
    parts = tables(counts[judged], total[judged])
    ruling = rule_on(state.rule, *parts, look=state.look, last=_last(state)[judged], evidence=evidence)
    decision, is_open = np.array(state.decision), np.array(state.is_open)
    decision[judged], is_open[judged] = ruling.decision, ~ruling.closed
    return replace(state, decision=tuple(decision.tolist()), is_open=tuple(is_open.tolist()))


def _metric_rows(
    metric: PairPreferences, systems: tuple[str, ...], items: tuple[str, ...]
) -> tuple[tuple[int, ...], ...]:
    """(pairs, items) preferences of the one rater, in the order of the state."""
    if len(metric.raters) != 1:
        raise OptionError(f"metric: preferences of {len(metric.raters)} raters ({listed(metric.raters)}); give one")
    rows = {(a, b): own for a, b, own in zip(metric.system_a, metric.system_b, metric.signs[:, 0], strict=True)}
    place = {name: i for i, name in enumerate(metric.items)}
    missing = [item for item in items if item not in place]
    first, second = pairs_of(systems)
    made = np.full((len(first), len(items)), ABSENT, dtype=np.int8)
    columns = [k for k, item in enumerate(items) if item in place]
    for own, a, b in zip(made, first, second, strict=True):
        pair = (systems[a], systems[b])
        if pair in rows:
            own[columns] = rows[pair][[place[items[k]] for k in columns]]
    if len(missing) == len(items) or (made == ABSENT).all():
        raise InputError(f"metric: no pair and item in common with this protocol (items {listed(items, limit=3)})")
    return tuple(tuple(own.tolist()) for own in made)
