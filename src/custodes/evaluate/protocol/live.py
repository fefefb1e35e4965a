"""A live annotation protocol: start it, get the next questions, record answers, read decisions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from math import comb
from typing import NamedTuple

from custodes.answers.question import Rng, resolve_seed
from custodes.arguments import check_arguments, check_storable, is_collection, is_whole
from custodes.data.comparisons import Comparisons
from custodes.errors import InputError, OptionError, join_labels, short_repr, suggestion
from custodes.evaluate.protocol.state import State, check
from custodes.evaluate.protocol.stopping import USUAL, Stopping, select_estimators_and_rules
from custodes.stats import ABSENT

__all__ = ["Annotation", "Decision", "State", "decisions", "next_annotations", "record", "start"]


class Annotation(NamedTuple):
    """A question to annotators: which of two systems has the better output for this item?"""

    item: str
    system_a: str
    system_b: str


class Decision(NamedTuple):
    """The current result of one pair.

    `decision` is '+' (system_a is better), '-' (system_b is better) or '=' (undecided). `annotations` is the number of
    annotations so far, and `is_open` tells whether more annotations are needed. `annotated` is False if the decision
    uses no annotation. `margin` and its bounds, `low` and `high`, come from the last interim analysis (None before the
    first analysis). While the pair is open, the bounds hold simultaneously over all analyses. If the pair ended as
    planned, the bounds use stage-wise ordering.
    """

    system_a: str
    system_b: str
    decision: str
    annotations: int
    is_open: bool
    annotated: bool
    margin: float | None = None
    low: float | None = None
    high: float | None = None


@check_arguments
def start(
    systems: Sequence[str],
    items: Sequence[str],
    *,
    metric: Comparisons | None = None,
    clusters: Sequence[str] | None = None,
    estimator: str | None = None,
    stopping: Stopping = USUAL,
    seed: Rng = 0,
) -> State:
    """Start a protocol on the given systems and items. `estimator` and `stopping` have the same meaning as in
    `protocol`.

    `metric` has the preferences of one rater on the same systems and items, for estimators that use a metric.
    `clusters` is the document of each item. Every document gives one item before any document gives a second item.
    Annotations that share a document have less weight.

    >>> state = start(["A", "B"], ["i1", "i2", "i3"], stopping=Stopping(batch=2))
    >>> len(next_annotations(state))
    2
    """
    names, items = tuple(sorted(_labels("systems", systems))), _labels("items", items)
    documents = items if clusters is None else _labels("clusters", clusters)
    if len(documents) != len(items):
        raise OptionError(f"clusters: {len(documents)} labels for {len(items)} items; give one label per item")
    _, seed_number = resolve_seed(seed)
    if seed_number is None or seed is None:
        raise OptionError(f"seed={short_repr(seed)} cannot be saved in a state file; give a whole number")
    (single_estimator,), (rule,) = select_estimators_and_rules(estimator, stopping, alone=metric is None)
    units = {cluster: i for i, cluster in enumerate(dict.fromkeys(documents))}
    state = State(
        systems=names,
        items=items,
        units=tuple(units[cluster] for cluster in documents),
        metric=() if metric is None else _metric_rows(metric, names, items),
        estimator=single_estimator.name,
        stopping=rule,
        seed=seed_number,
        answers=({},) * comb(len(names), 2),
    )
    check(state)
    return state


@check_arguments
def next_annotations(state: State) -> list[Annotation]:
    """Return the open questions of the current interim analyses.

    The list changes only when answers are recorded, and it is empty at the end.

    >>> next_annotations(start(["B", "A"], ["i1"]))
    [Annotation(item='i1', system_a='A', system_b='B')]
    """
    live_annotation = state.live_annotation
    return [
        Annotation(state.items[live_annotation.orders[number][position]], *pair)
        for number, pair in enumerate(state.pairs)
        for position in live_annotation.free_slots(number)
    ]


@check_arguments
def record(state: State, verdicts: Iterable[tuple[str, str, str, int | None]]) -> State:
    """Return the state after recording answers.

    An answer is (item, system_a, system_b, preference). The preference is 1 if system_a is better, 0 for a tie, -1 if
    system_b is better, or None if the comparison cannot be judged. Answers may come in any order and in parts, and the
    systems of a pair may be swapped. When the interim analysis of a pair is complete, the pair is decided or continues
    with the next analysis. A pair waits for other pairs if the estimator uses all pairs, if answers share documents, or
    at the end of a budget. `InputError` is raised for an answer that was not requested, and for an answer that
    contradicts a recorded answer.

    >>> state = record(start(["A", "B"], ["i1"]), [("i1", "B", "A", 1)])
    >>> decisions(state)[0].annotations, next_annotations(state)
    (1, [])
    """
    pairs = {pair: number for number, pair in enumerate(state.pairs)}
    answers, new_answers = list(state.answers), []
    for item, system_a, system_b, preference in _verdicts(verdicts):
        for kind, name, names in (
            ("item", item, state.numbers),
            ("system", system_a, state.systems),
            ("system", system_b, state.systems),
        ):
            if name not in names:
                raise InputError(f"this protocol has no {kind} {short_repr(name)}{suggestion(name, sorted(names))}")
        if system_a == system_b:
            raise InputError(f"{item!r}: {system_a!r} is compared with itself; give two different systems")
        first_system, second_system = sorted((system_a, system_b))
        value = ABSENT if preference is None else preference if system_a == first_system else -preference
        pair = pairs[first_system, second_system]
        if item in answers[pair]:
            if answers[pair][item] != value:
                raise InputError(
                    f"{first_system!r} against {second_system!r} on {item!r} already has a different answer; "
                    "omit this answer"
                )
            continue
        position = int(state.places[pair, state.numbers[item]])
        if not state.live_annotation.is_in_current_look(pair, position):
            raise InputError(
                f"{first_system!r} against {second_system!r} on {item!r} is not requested now; answer only "
                "questions of next_annotations"
            )
        if answers[pair] is state.answers[pair]:
            answers[pair] = dict(answers[pair])
        answers[pair][item] = value
        new_answers.append((pair, position, value))
    live_annotation = state.live_annotation.copy()
    for answer in new_answers:
        live_annotation.answer(*answer)
    return state.after(live_annotation, tuple(answers))


@check_arguments
def decisions(state: State) -> list[Decision]:
    """Return the current result of every pair.

    >>> [(pair.decision, pair.is_open) for pair in decisions(start(["A", "B"], ["i1"]))]
    [('=', True)]
    """
    live_annotation = state.live_annotation
    last_margins = {ruling.pair: (ruling.margin, ruling.low, ruling.high) for ruling in live_annotation.rulings}
    rows = enumerate(
        zip(state.pairs, live_annotation.decision, live_annotation.n, live_annotation.is_open, strict=True)
    )
    return [
        Decision(*pair, "=+-"[decision], n, is_open, n > 0, *last_margins.get(k, ()))
        for k, (pair, decision, n, is_open) in rows
    ]


def _verdicts(answers: Iterable[tuple[str, str, str, int | None]]) -> Iterator[tuple[str, str, str, int | None]]:
    """Yield the answers with labels and preferences as Python objects, for input from any library."""
    expected_text = "give item, system_a, system_b and 1, 0, -1 or None"
    if not is_collection(answers):
        raise InputError(f"verdicts {short_repr(answers)}: {expected_text}, one entry per answer")
    for row in answers:
        if len(fields := tuple(row) if is_collection(row) else ()) != 4 or not all(
            isinstance(name, str) for name in fields[:3]
        ):
            raise InputError(f"verdict {short_repr(row)}: {expected_text}")
        item, system_a, system_b, preference = fields
        if preference is not None and not (is_whole(preference) and preference in (1, 0, -1)):
            raise InputError(
                f"preference {short_repr(preference)} for {item!r} is not allowed; allowed: 1, 0, -1, or None "
                "if the comparison cannot be judged"
            )
        yield str(item), str(system_a), str(system_b), None if preference is None else int(preference)


def _labels(argument_name: str, labels: Sequence[str]) -> tuple[str, ...]:
    """Return the labels as Python strings, which a state file can contain."""
    texts = (labels,) if isinstance(labels, str) else tuple(map(str, labels))
    check_storable(argument_name, texts)
    return texts


def _metric_rows(metric: Comparisons, systems: tuple[str, ...], items: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    """(pairs, items): preferences of the metric, in the order of the state."""
    if len(metric.raters) != 1:
        raise OptionError(
            f"metric: preferences of {len(metric.raters)} raters ({join_labels(metric.raters)}); give preferences of "
            "one rater"
        )
    pairs, columns = list(zip(metric.system_a, metric.system_b, strict=True)), (metric.pair, metric.item, metric.sign)
    signs = {
        (*pairs[k], metric.items[i]): sign for k, i, sign in zip(*(column.tolist() for column in columns), strict=True)
    }
    rows = tuple(tuple(signs.get((*pair, item), ABSENT) for item in items) for pair in combinations(systems, 2))
    if {sign for row in rows for sign in row} == {ABSENT}:
        raise InputError(
            f"metric: no comparison has a pair and an item of this protocol (items {join_labels(items, limit=3)}); "
            "use the names of systems and items from the protocol"
        )
    return rows
