"""A live annotation protocol: start it, get the next questions, record answers, read decisions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from math import comb
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from custodes.answers.question import Rng, resolve_seed
from custodes.arguments import LARGEST_SEED, check_arguments, check_at_least, check_storable, is_collection, is_whole
from custodes.data.comparisons import Comparisons, pairs_of
from custodes.data.loading import read_file_bytes
from custodes.errors import InputError, OptionError, join_labels, reject, short_repr, suggestion
from custodes.evaluate.protocol.concurrent_annotation import ConcurrentAnnotation
from custodes.evaluate.protocol.stopping import USUAL, Stopping, select_estimators_and_rules
from custodes.stats import ABSENT
from custodes.stats.arrays import Ints
from custodes.stats.correction.estimators import ESTIMATORS
from custodes.stats.stopping.allocation import annotation_order
from custodes.stats.stopping.rules import Rule
from custodes.strict_json import decode, digest, is_lossless

__all__ = ["Annotation", "Decision", "State", "decisions", "next_annotations", "record", "start"]

FORMAT = "custodes-protocol"
VERSION = 2
SIGNS = {1, 0, -1, ABSENT}
"""Codes of preferences: 1 (the first system is better), 0 (tie), -1 (the second system is better), ABSENT (refused)."""


@dataclass(frozen=True, kw_only=True)
class State:
    """The state of a live protocol as plain values, which can be saved to a file.

    For each of `pairs`, `answers` maps items to preferences. A preference is 1 (the first system is better), 0 (tie) or
    -1 (the second system is better). It is -128 if the comparison could not be judged. Another item then replaces this
    item. `seed` determines the orders of items and the random numbers of estimators. `metric` (pairs, items) are
    preferences of the metric, empty without a metric. `units` is the cluster of each item. The questions and decisions
    of the protocol follow from the state (see `live_annotation`).
    """

    systems: tuple[str, ...]
    items: tuple[str, ...]
    units: tuple[int, ...]
    metric: tuple[tuple[int, ...], ...]
    estimator: str
    stopping: Stopping
    seed: int
    answers: tuple[dict[str, int], ...]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The two systems of every pair."""
        return list(combinations(self.systems, 2))

    @cached_property
    def rule(self) -> Rule:
        """The stopping rule for these items."""
        return self.stopping.rule(ESTIMATORS[self.estimator], max_annotations=len(self.items), seed=self.seed)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The index of each item."""
        return {item: item_index for item_index, item in enumerate(self.items)}

    @cached_property
    def places(self) -> Ints:
        """Position of each item in the order of each pair, (pairs, items)."""
        return np.argsort(self._orders, axis=1)

    @cached_property
    def _orders(self) -> Ints:
        is_available_item = np.ones((len(self.answers), len(self.items)), dtype=bool)
        return annotation_order(is_available_item, np.array(self.units), np.random.default_rng(self.seed))

    @cached_property
    def live_annotation(self) -> ConcurrentAnnotation:
        """The questions and decisions after the answers of the state; the answers are replayed in an order that the
        protocol allows. Do not change the object.

        Answers that are not allowed in any order are left out.
        """
        live_annotation = ConcurrentAnnotation(
            orders=self._orders.tolist(),
            rule=self.rule,
            systems=np.stack(pairs_of(self.systems), axis=1),
            units=np.array(self.units),
            metric=np.array(self.metric, dtype=np.int8) if self.metric else None,
        )
        answers_to_replay_by_pair = [
            {
                int(self.places[pair_index, self.numbers[item]]): preference
                for item, preference in preference_of_item.items()
            }
            for pair_index, preference_of_item in enumerate(self.answers)
        ]
        while requested_pairs_and_positions := [
            (pair_index, position)
            for pair_index, preference_of_position in enumerate(answers_to_replay_by_pair)
            for position in preference_of_position
            if live_annotation.is_in_current_look(pair_index, position)
        ]:
            for pair_index, position in requested_pairs_and_positions:
                live_annotation.answer(pair_index, position, answers_to_replay_by_pair[pair_index].pop(position))
        return live_annotation

    def after(self, live_annotation: ConcurrentAnnotation, answers: tuple[dict[str, int], ...]) -> State:
        """Return the state after further answers; `live_annotation` has the questions and decisions after these
        answers."""
        state = replace(self, answers=answers)
        # `live_annotation` contains the further answers; the remaining values do not depend on answers.
        state.__dict__.update(live_annotation=live_annotation, rule=self.rule, numbers=self.numbers, places=self.places)
        return state

    def to_json(self) -> bytes:
        """Return the state as JSON, with a digest of the state."""
        return msgspec.json.encode(_File(format=FORMAT, version=VERSION, digest=digest(self), state=self))

    @classmethod
    def from_json(cls, text: bytes | str) -> State:
        """Read a state that `to_json` wrote; raise `InputError` for other files, and for edited files."""
        try:
            json_bytes = text.encode() if isinstance(text, str) else bytes(memoryview(text))
            decoded_file = decode(json_bytes, _FILE)
            reject(
                (
                    (decoded_file.format, decoded_file.version) != (FORMAT, VERSION),
                    f"the format is {short_repr(decoded_file.format)}, version {decoded_file.version}, not {FORMAT!r}, "
                    f"version {VERSION}",
                )
            )
            if not is_lossless(json_bytes, decoded_file):
                raise InputError("fields are missing, or unknown fields are present")
            check(decoded_file.state)
            if digest(decoded_file.state) != decoded_file.digest:
                raise InputError("the content does not match the digest, so the file was edited")
        except (InputError, OptionError, TypeError, UnicodeEncodeError) as problem:
            raise InputError(
                f"not a valid state of a protocol: {problem}. Restore the last valid copy of the file, or start again "
                "with the same seed and enter the answers again"
            ) from None
        return decoded_file.state

    @classmethod
    def read(cls, path: str | Path) -> State:
        """Read the state from a file."""
        return cls.from_json(read_file_bytes(Path(path)))


class _File(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    format: str
    version: int
    digest: str
    state: State


# The decoder is created on import: if several threads look up a type for the first time, the process can crash.
_FILE = msgspec.json.Decoder(_File)


def check(state: State) -> None:
    """Raise `OptionError` for an inconsistent state."""
    n_pairs, n_items = len(state.pairs), len(state.items)
    for label_kind, labels, min_n_labels in (("systems", state.systems, 2), ("items", state.items, 1)):
        check_at_least(label_kind, len(labels), min_n_labels)
        if repeated_labels := sorted(label for label, n_uses in Counter(labels).items() if n_uses > 1):
            raise OptionError(f"{label_kind} must be distinct, but these occur twice: {join_labels(repeated_labels)}")
    distinct_preferences = {
        preference for preference_of_item in state.answers for preference in preference_of_item.values()
    }.union(*state.metric)
    unknown_items = {item for preference_of_item in state.answers for item in preference_of_item} - set(state.items)
    sign_row_lengths = {len(sign_row) for sign_row in state.metric}
    has_valid_units = len(state.units) == n_items and all(
        0 <= cluster_number < n_items for cluster_number in state.units
    )
    reject(
        (list(state.systems) != sorted(state.systems), "systems must be sorted"),
        (not has_valid_units, f"units must hold {n_items} numbers, one for each item, from 0 to {n_items - 1}"),
        (len(state.answers) != n_pairs, f"answers must have an entry for each of the {n_pairs} pairs of systems"),
        (
            len(state.metric) not in (0, n_pairs) or not sign_row_lengths <= {n_items},
            f"metric must have a row for each of the {n_pairs} pairs and a value for each of the {n_items} items",
        ),
        (not distinct_preferences <= SIGNS, f"preferences must be {', '.join(map(str, sorted(SIGNS)))}"),
        (unknown_items, f"answers name an unknown item {short_repr(min(unknown_items, default=''))}"),
        (not 0 <= state.seed <= LARGEST_SEED, f"seed must be a whole number from 0 to {LARGEST_SEED}"),
    )
    select_estimators_and_rules(state.estimator, state.stopping, is_without_metric=not state.metric)
    n_unrequested_answers = sum(
        not state.live_annotation.is_settled(pair_index, state.places[pair_index, state.numbers[item]])
        for pair_index, preference_of_item in enumerate(state.answers)
        for item in preference_of_item
    )
    reject((n_unrequested_answers, f"{n_unrequested_answers} of the answers were never requested"))


class Annotation(NamedTuple):
    """A question to annotators: which of two systems has the better output for this item?"""

    item: str
    system_a: str
    system_b: str


class Decision(NamedTuple):
    """The current result of one pair.

    `decision` is '+' (system_a is better), '-' (system_b is better) or '=' (undecided). `annotations` is the number of
    annotations so far, and `is_open` tells whether more annotations are needed. `margin` and its bounds, `low` and
    `high`, come from the last interim analysis (None before the first analysis). While the pair is open, the bounds
    hold simultaneously for all interim analyses. If the pair ended as planned, the bounds use stage-wise ordering.
    """

    system_a: str
    system_b: str
    decision: str
    annotations: int
    is_open: bool
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
    `clusters` is the document of each item. The protocol takes one item from every document before it takes a second
    item from any document. Annotations that share a document have less weight.

    >>> state = start(["A", "B"], ["i1", "i2", "i3"], stopping=Stopping(batch=2))
    >>> len(next_annotations(state))
    2
    """
    system_names, items = tuple(sorted(_labels("systems", systems))), _labels("items", items)
    item_clusters = items if clusters is None else _labels("clusters", clusters)
    if len(item_clusters) != len(items):
        raise OptionError(f"clusters: {len(item_clusters)} labels for {len(items)} items; give one label per item")
    _, seed_number = resolve_seed(seed)
    if seed_number is None or seed is None:
        raise OptionError(f"seed={short_repr(seed)} cannot be saved in a state file; give a whole number")
    (single_estimator,), (stopping_rule,) = select_estimators_and_rules(
        estimator, stopping, is_without_metric=metric is None
    )
    index_of_cluster = {cluster: cluster_index for cluster_index, cluster in enumerate(dict.fromkeys(item_clusters))}
    state = State(
        systems=system_names,
        items=items,
        units=tuple(index_of_cluster[cluster] for cluster in item_clusters),
        metric=() if metric is None else _metric_rows(metric, system_names, items),
        estimator=single_estimator.name,
        stopping=stopping_rule,
        seed=seed_number,
        answers=({},) * comb(len(system_names), 2),
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
        Annotation(state.items[live_annotation.orders[pair_index][position]], *system_pair)
        for pair_index, system_pair in enumerate(state.pairs)
        for position in live_annotation.free_slots(pair_index)
    ]


@check_arguments
def record(state: State, verdicts: Iterable[tuple[str, str, str, int | None]]) -> State:
    """Return the state after recording answers.

    An answer is (item, system_a, system_b, preference). The preference is 1 if system_a is better, 0 for a tie, -1 if
    system_b is better, or None if the comparison cannot be judged. Answers may come in any order and in parts, and the
    systems of a pair may be swapped. When the interim analysis of a pair is complete, the pair is decided or continues
    with the next analysis. A pair waits for other pairs if the estimator uses all pairs, if answers share documents, or
    if the budget is nearly spent. `InputError` is raised for an answer that was not requested, and for an answer that
    contradicts a recorded answer.

    >>> state = record(start(["A", "B"], ["i1"]), [("i1", "B", "A", 1)])
    >>> decisions(state)[0].annotations, next_annotations(state)
    (1, [])
    """
    index_of_pair = {system_pair: pair_index for pair_index, system_pair in enumerate(state.pairs)}
    answers_of_pairs, new_pair_position_signs = [dict(answers) for answers in state.answers], []
    for item, system_a, system_b, preference in _verdicts(verdicts):
        for label_kind, label, allowed_labels in (
            ("item", item, state.numbers),
            ("system", system_a, state.systems),
            ("system", system_b, state.systems),
        ):
            if label not in allowed_labels:
                raise InputError(
                    f"this protocol has no {label_kind} {short_repr(label)}{suggestion(label, sorted(allowed_labels))}"
                )
        if system_a == system_b:
            raise InputError(f"{item!r}: {system_a!r} is compared with itself; give two different systems")
        first_system, second_system = sorted((system_a, system_b))
        signed_preference = ABSENT if preference is None else preference if system_a == first_system else -preference
        pair_index = index_of_pair[first_system, second_system]
        position = int(state.places[pair_index, state.numbers[item]])
        is_known = item in answers_of_pairs[pair_index]
        reject(
            (
                answers_of_pairs[pair_index].get(item, signed_preference) != signed_preference,
                f"{first_system!r} against {second_system!r} on {item!r} already has a different answer; omit this "
                "answer",
            ),
            (
                not is_known and not state.live_annotation.is_in_current_look(pair_index, position),
                f"{first_system!r} against {second_system!r} on {item!r} is not requested now; answer only questions "
                "of next_annotations",
            ),
            error=InputError,
        )
        if not is_known:
            answers_of_pairs[pair_index][item] = signed_preference
            new_pair_position_signs.append((pair_index, position, signed_preference))
    live_annotation = state.live_annotation.copy()
    for pair_position_sign in new_pair_position_signs:
        live_annotation.answer(*pair_position_sign)
    return state.after(live_annotation, tuple(answers_of_pairs))


@check_arguments
def decisions(state: State) -> list[Decision]:
    """Return the current result of every pair.

    >>> [(pair.decision, pair.is_open) for pair in decisions(start(["A", "B"], ["i1"]))]
    [('=', True)]
    """
    live_annotation = state.live_annotation
    margin_and_bounds_of_pair = {
        ruling.pair: (ruling.margin, ruling.low, ruling.high) for ruling in live_annotation.rulings
    }
    return [
        Decision(
            *system_pair,
            "=+-"[decision_sign],
            n_answers,
            is_open,
            *margin_and_bounds_of_pair.get(pair_index, ()),
        )
        for pair_index, (system_pair, decision_sign, n_answers, is_open) in enumerate(
            zip(state.pairs, live_annotation.decision, live_annotation.n, live_annotation.is_open, strict=True)
        )
    ]


def _verdicts(answers: Iterable[tuple[str, str, str, int | None]]) -> Iterator[tuple[str, str, str, int | None]]:
    """Yield the answers with labels and preferences as Python objects, for input from any library."""
    expected_text = "give item, system_a, system_b and 1, 0, -1, or None if the comparison cannot be judged"
    if not is_collection(answers):
        raise InputError(f"verdicts {short_repr(answers)}: {expected_text}, one entry per answer")
    for answer in answers:
        *labels, preference = tuple(answer) if is_collection(answer) and tuple(answer) else (None,)
        has_labels = len(labels) == 3 and all(isinstance(label, str) for label in labels)
        if not has_labels or not (preference is None or (is_whole(preference) and preference in (1, 0, -1))):
            raise InputError(f"verdict {short_repr(answer)}: {expected_text}")
        item, system_a, system_b = map(str, labels)
        yield item, system_a, system_b, None if preference is None else int(preference)


def _labels(argument_name: str, labels: Sequence[str]) -> tuple[str, ...]:
    """Return the labels as Python strings, which a state file can contain."""
    label_texts = (labels,) if isinstance(labels, str) else tuple(map(str, labels))
    check_storable(argument_name, label_texts)
    return label_texts


def _metric_rows(metric: Comparisons, systems: tuple[str, ...], items: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    """Preferences of the metric, in the order of the state: (pairs, items)."""
    if len(metric.raters) != 1:
        raise OptionError(
            f"metric: preferences of {len(metric.raters)} raters ({join_labels(metric.raters)}); give preferences of "
            "one rater"
        )
    systems_of_pair_code = list(zip(metric.system_a, metric.system_b, strict=True))
    sign_of_comparison = {
        (*systems_of_pair_code[pair_code], metric.items[item_code]): sign
        for pair_code, item_code, sign in zip(
            metric.pair.tolist(), metric.item.tolist(), metric.sign.tolist(), strict=True
        )
    }
    sign_rows = tuple(
        tuple(sign_of_comparison.get((*system_pair, item), ABSENT) for item in items)
        for system_pair in combinations(systems, 2)
    )
    if {sign for sign_row in sign_rows for sign in sign_row} == {ABSENT}:
        raise InputError(
            f"metric: no comparison has a pair and an item of this protocol (items {join_labels(items, limit=3)}); "
            "use the names of systems and items from the protocol"
        )
    return sign_rows
