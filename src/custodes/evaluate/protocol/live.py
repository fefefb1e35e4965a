"""The protocol with people at the other end: state in, next annotations out, answers in, decisions out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, islice
from math import comb
from pathlib import Path
from typing import NamedTuple

import numpy as np

from custodes.answers.setting import at_least
from custodes.data.pairs import PairPreferences, pairs_of
from custodes.errors import InputError, OptionError, listed, suggestion
from custodes.evaluate.protocol.annotations import outcome_of
from custodes.evaluate.protocol.stopping import USUAL, Stopping, asked_for
from custodes.stats import ABSENT
from custodes.stats.arrays import Ints, Signs
from custodes.stats.clusters import is_clustered
from custodes.stats.correction.estimator import Items
from custodes.stats.correction.estimators import ESTIMATORS
from custodes.stats.stopping.allocation import KINDS, annotation_order, granted, kinds_of, tables
from custodes.stats.stopping.rules import Rule, rule_on

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


@dataclass(frozen=True, kw_only=True)
class State:
    """All there is to know of a running protocol; plain values, so that it is a file between two sessions.

    `answers` (pairs): item to preference of the pair's first system (1, 0, -1, or -128: could not be made, so another
    item is asked), in the order of `pairs`. `asked` (pairs): how many usable answers the present look wants of each.
    `seed` makes the orders and an estimator's draws. `metric` (pairs, items) preferences, empty without a metric;
    `units` the cluster of each item.
    """

    systems: tuple[str, ...]
    items: tuple[str, ...]
    units: tuple[int, ...]
    metric: tuple[tuple[int, ...], ...]
    estimator: str
    stopping: Stopping
    seed: int
    look: int
    answers: tuple[dict[str, int], ...]
    asked: tuple[int, ...]
    is_open: tuple[bool, ...]
    decision: tuple[int, ...]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The two systems of every pair."""
        return list(combinations(self.systems, 2))

    @cached_property
    def rule(self) -> Rule:
        """What the stopping means for these items."""
        return self.stopping.rule(ESTIMATORS[self.estimator], most=len(self.items), seed=self.seed)

    @cached_property
    def seen(self) -> Signs:
        """(pairs, items): the answers so far."""
        return np.array([[own.get(item, ABSENT) for item in self.items] for own in self.answers], dtype=np.int8)

    @property
    def usable(self) -> Ints:
        """(pairs,): how many answers there are, without those that could not be made."""
        return np.asarray((self.seen != ABSENT).sum(axis=1))

    @property
    def last(self) -> Ints:
        """(pairs,): how many annotations each can have at its last look."""
        skipped = np.array([len(own) for own in self.answers]) - self.usable
        return np.minimum(self.rule.looks[-1], len(self.items) - skipped)

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
    labels = tuple(sorted(systems))
    for what, names in (("systems", labels), ("items", tuple(items))):
        at_least(what, len(names), 2 if names is labels else 1)
        if doubled := [name for name, n in Counter(names).items() if n > 1]:
            raise OptionError(f"{what} named twice: {listed(sorted(doubled))}")
    if clusters is not None and len(clusters) != len(items):
        raise OptionError(f"{len(clusters)} clusters for {len(items)} items: give one an item")
    (own,), (rule,) = asked_for(estimator, stopping, alone=metric is None)
    n_pairs = comb(len(labels), 2)
    known = {cluster: i for i, cluster in enumerate(dict.fromkeys(clusters or items))}
    state = State(
        systems=labels,
        items=tuple(items),
        units=tuple(known[cluster] for cluster in (clusters or items)),
        metric=() if metric is None else _metric_rows(metric, labels, tuple(items)),
        estimator=own.name,
        stopping=rule,
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
    known = {"item": set(state.items), "system": set(state.systems)}
    answers = dict(zip(state.pairs, map(dict, state.answers), strict=True))
    asked = set(next_annotations(state))
    for item, a, b, preference in verdicts:
        for what, name in (("item", item), ("system", a), ("system", b)):
            if name not in known[what]:
                raise InputError(f"no {what} {name!r} in this protocol{suggestion(name, sorted(known[what]))}")
        if preference not in (1, 0, -1, None):
            raise InputError(f"preference {preference!r} for {item!r}: allowed are 1, 0, -1, or None where impossible")
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
    rows = zip(state.pairs, state.decision, state.usable.tolist(), state.is_open, strict=True)
    return [Decision(*pair, "=+-"[decision], n, is_open, n > 0) for pair, decision, n, is_open in rows]


def _next_look(state: State) -> State:
    """Ask for the annotations of the next look that lacks any, as far as the budget goes."""
    n, last = state.usable, state.last
    left = np.array(max(0, state.rule.budget - int(n.sum())))
    is_open = np.array(state.is_open) & (n < last) & (left > 0)
    look = state.look
    given: Ints = np.zeros(len(n), dtype=np.int64)
    while is_open.any() and not given.any():
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
