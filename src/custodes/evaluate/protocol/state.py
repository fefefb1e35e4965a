"""The state of a live protocol: plain values that are saved to a file between sessions and validated when read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path

import msgspec
import numpy as np

from custodes.arguments import LARGEST_SEED, check_at_least
from custodes.data.comparisons import pairs_of
from custodes.data.loading import read_small_file
from custodes.errors import InputError, OptionError, join_labels, short_repr
from custodes.evaluate.protocol.concurrent_annotation import ConcurrentAnnotation
from custodes.evaluate.protocol.stopping import Stopping, select_estimators_and_rules
from custodes.stats import ABSENT
from custodes.stats.arrays import Ints
from custodes.stats.correction.estimators import ESTIMATORS
from custodes.stats.stopping.allocation import annotation_order
from custodes.stats.stopping.rules import Rule
from custodes.strict_json import decode, digest, is_lossless

FORMAT = "custodes-protocol"
VERSION = 2
SIGNS = {1, 0, -1, ABSENT}
"""Codes of preferences: 1 if the first system of the pair is better, 0 for a tie, -1 if it is worse, else a refusal."""


@dataclass(frozen=True, kw_only=True)
class State:
    """The state of a live protocol as plain values, which can be saved to a file.

    `answers` has, for each of `pairs`, a mapping from items to preferences of the first system: 1, 0, -1, or -128 if
    the comparison could not be judged, so that another item replaces it. `seed` determines the orders of items and the
    random numbers of estimators. `metric` (pairs, items) are preferences of the metric, empty without a metric. `units`
    is the cluster of each item. Questions and decisions follow from these values (see
    `live_annotation`).
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
        return self.stopping.rule(ESTIMATORS[self.estimator], most=len(self.items), seed=self.seed)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The index of each item."""
        return {item: k for k, item in enumerate(self.items)}

    @cached_property
    def places(self) -> Ints:
        """(pairs, items): position of each item in the order of each pair."""
        return np.argsort(self._orders, axis=1)

    @cached_property
    def _orders(self) -> Ints:
        available = np.ones((len(self.answers), len(self.items)), dtype=bool)
        return annotation_order(available, np.array(self.units), np.random.default_rng(self.seed))

    @cached_property
    def live_annotation(self) -> ConcurrentAnnotation:
        """The questions and decisions after these answers. Do not change the returned object."""
        return self._answer_replay[0]

    @cached_property
    def _answer_replay(self) -> tuple[ConcurrentAnnotation, int]:
        """Replay of the answers in an allowed order, and the number of answers that are not allowed in any order."""
        live_annotation = ConcurrentAnnotation(
            orders=self._orders.tolist(),
            rule=self.rule,
            systems=np.stack(pairs_of(self.systems), axis=1),
            units=np.array(self.units),
            metric=np.array(self.metric, dtype=np.int8) if self.metric else None,
        )
        remaining_answers = [
            {int(self.places[pair, self.numbers[item]]): value for item, value in answers.items()}
            for pair, answers in enumerate(self.answers)
        ]
        while requested := [
            (pair, position)
            for pair, answers in enumerate(remaining_answers)
            for position in answers
            if live_annotation.is_in_current_look(pair, position)
        ]:
            for pair, position in requested:
                live_annotation.answer(pair, position, remaining_answers[pair].pop(position))
        return live_annotation, sum(map(len, remaining_answers))

    def after(self, live_annotation: ConcurrentAnnotation, answers: tuple[dict[str, int], ...]) -> State:
        """Return the state after further answers; `live_annotation` has the questions and decisions after them."""
        state = replace(self, answers=answers)
        # The values below do not depend on the answers.
        state.__dict__.update(live_annotation=live_annotation, rule=self.rule, numbers=self.numbers, places=self.places)
        return state

    def to_json(self) -> bytes:
        """Return the state as JSON, with a digest of the state."""
        return msgspec.json.encode(_File(format=FORMAT, version=VERSION, digest=digest(self), state=self))

    @classmethod
    def from_json(cls, text: bytes | str) -> State:
        """Read a state that `to_json` wrote; raise `InputError` for other files, and for edited files."""
        try:
            content = text.encode() if isinstance(text, str) else bytes(memoryview(text))
            header = decode(content, _HEAD)
            if header.format != FORMAT:
                raise InputError(f"the format is {short_repr(header.format)}, not {FORMAT!r}")
            if header.version != VERSION:
                raise InputError(f"the file has version {header.version} of the format, but {VERSION} is required")
            file = decode(content, _FILE)
            if not is_lossless(content, file):
                raise InputError("fields are missing, or unknown fields are present")
            check(file.state)
            if digest(file.state) != file.digest:
                raise InputError("the content does not match the digest, so the file was edited")
        except (InputError, OptionError, TypeError, UnicodeEncodeError) as problem:
            raise InputError(
                f"not a valid state of a protocol: {problem}. Restore the last valid copy of the file, or start again "
                "with the same seed and enter the answers again"
            ) from None
        return file.state

    @classmethod
    def read(cls, path: str | Path) -> State:
        """Read the state from a file."""
        try:
            text = read_small_file(Path(path), "a state")
        except (OSError, TypeError, ValueError) as problem:
            reason = problem.strerror if isinstance(problem, OSError) else problem
            raise InputError(f"cannot read {short_repr(path)}: {reason}") from None
        return cls.from_json(text)


class _Head(msgspec.Struct):
    """Fields that all versions of the file have."""

    format: str = ""
    version: int = 0


class _File(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    format: str
    version: int
    digest: str
    state: State


# The decoders are created on import: if several threads look up a type for the first time, the process can crash.
_HEAD = msgspec.json.Decoder(_Head)
_FILE = msgspec.json.Decoder(_File)


def check(state: State) -> None:
    """Raise `OptionError` for an inconsistent state."""
    n_pairs, n_items = len(state.pairs), len(state.items)
    for kind, names, minimum in (("systems", state.systems, 2), ("items", state.items, 1)):
        check_at_least(kind, len(names), minimum)
        if repeated_names := sorted(name for name, n in Counter(names).items() if n > 1):
            raise OptionError(f"{kind} must be distinct, but these occur twice: {join_labels(repeated_names)}")
    preferences = {value for answers in state.answers for value in answers.values()}.union(*state.metric)
    unknown_items = {item for answers in state.answers for item in answers} - set(state.items)
    row_lengths = {len(row) for row in state.metric}
    has_units = len(state.units) == n_items and all(0 <= unit < n_items for unit in state.units)
    for is_valid, requirement in (
        (list(state.systems) == sorted(state.systems), "systems must be sorted"),
        (has_units, f"units must be a number from 0 to {n_items - 1} for each of the {n_items} items"),
        (len(state.answers) == n_pairs, f"answers must have an entry for each of the {n_pairs} pairs of systems"),
        (
            len(state.metric) in (0, n_pairs) and row_lengths <= {n_items},
            f"metric must have a row for each of the {n_pairs} pairs and a value for each of the {n_items} items",
        ),
        (preferences <= SIGNS, f"preferences must be {', '.join(map(str, sorted(SIGNS)))}"),
        (not unknown_items, f"answers name an unknown item {short_repr(min(unknown_items, default=''))}"),
        (0 <= state.seed <= LARGEST_SEED, f"seed must be a whole number from 0 to {LARGEST_SEED}"),
    ):
        if not is_valid:
            raise OptionError(requirement)
    select_estimators_and_rules(state.estimator, state.stopping, alone=not state.metric)
    if state._answer_replay[1]:
        raise OptionError(f"{state._answer_replay[1]} of the answers were never requested")
