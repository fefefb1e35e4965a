"""Stopping rules: when a pair is decided, when annotation ends, and which estimators are allowed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, Literal

from custodes.arguments import (
    argument,
    check_at_least,
    check_fields,
    check_one_of,
    is_collection,
    is_number,
    value_list,
)
from custodes.errors import OptionError, reject, short_repr
from custodes.stats.correction.estimator import Estimator
from custodes.stats.correction.estimators import ESTIMATORS
from custodes.stats.stopping.rules import Rule
from custodes.stats.stopping.sequential import BOUNDARIES, group_sequential_bounds


@dataclass(frozen=True, kw_only=True, repr=False)
class Stopping:
    """Rule for deciding a pair and for ending the annotation.

    `stop` sets when a pair is closed. theta is the probability that p_win > p_loss. With 'decided', a pair is closed if
    theta is above 1 - gamma/2 or below gamma/2. `boundary` may replace these limits for theta. With 'futility', a pair
    is also closed if the probability of a decision by the last interim analysis is below `futility`. Every round adds
    `batch` annotations to each undecided pair. `looks` replaces `batch`, and lists the numbers of annotations per pair
    after each round. `budget` is the maximum number of all annotations. `boundary` is the boundary for repeated
    analyses: 'none' (as in the paper), 'pocock', 'obrien-fleming', or the |z| that every analysis requires.

    >>> Stopping(stop="futility", looks=[10, 20], boundary="pocock")
    Stopping(stop='futility', looks=(10, 20), boundary='pocock')
    """

    stop: Literal["decided", "futility"] = "decided"
    batch: int = 10
    looks: Sequence[int] | None = None
    budget: int | None = None
    boundary: str | float = "none"
    futility: float = 0.2
    gamma: float = 0.05

    def __post_init__(self) -> None:
        # All fields are validated, including fields to which the decoder gave the default.
        check_fields(self, {"looks": _looks, "boundary": _boundary})
        check_at_least("batch", self.batch, 1)
        reject(
            *(
                (
                    field_name in self.changed_fields,
                    f"{field_name}={short_repr(vars(self)[field_name])} has no effect: {no_effect_reason}",
                )
                for field_name, no_effect_reason in ineffective_fields(self.stop, self.looks).items()
            )
        )

    @property
    def changed_fields(self) -> dict[str, Any]:
        """The fields that differ from the default values."""
        return {field.name: vars(self)[field.name] for field in fields(self) if vars(self)[field.name] != field.default}

    def __str__(self) -> str:
        value_of_field = {**self.changed_fields, "looks": _format_looks(self.looks)}
        return ", ".join(
            [
                self.stop,
                *(
                    f"{field_name} {value_of_field[field_name]}"
                    for field_name in self.changed_fields
                    if field_name != "stop"
                ),
            ]
        )

    def __repr__(self) -> str:
        arguments_text = ", ".join(
            f"{field_name}={field_value!r}" for field_name, field_value in self.changed_fields.items()
        )
        return f"Stopping({arguments_text})"

    def rule(self, estimator: Estimator, *, max_annotations: int, seed: int) -> Rule:
        """Return the rule for pairs with at most `max_annotations` annotations."""
        annotation_counts = self.looks or (*range(self.batch, max_annotations, self.batch), max_annotations)
        looks = tuple(dict.fromkeys(min(n_annotations, max_annotations) for n_annotations in annotation_counts))
        if isinstance(self.boundary, str):
            boundary_values = group_sequential_bounds(looks, shape=BOUNDARIES[self.boundary], level=self.gamma).tolist()
        else:
            boundary_values = [self.boundary] * len(looks)
        return Rule(
            estimator=estimator,
            gamma=self.gamma,
            looks=looks,
            bounds=tuple(boundary_values),
            futility=self.futility if self.stop == "futility" else None,
            seed=seed,
            budget=self.budget or sys.maxsize,
        )


def _looks(looks: Any) -> tuple[int, ...] | None:
    if looks is None:
        return None
    annotation_counts = (
        tuple(check_at_least("looks", n_annotations, 1) for n_annotations in looks) if is_collection(looks) else ()
    )
    if not annotation_counts or any(
        later_count <= earlier_count for earlier_count, later_count in pairwise(annotation_counts)
    ):
        raise OptionError(
            f"looks={_format_looks(annotation_counts or looks)} is not allowed; give increasing numbers of annotations "
            "per pair, as in 10,20,40"
        )
    return annotation_counts


def _boundary(boundary: Any) -> str | float:
    if isinstance(boundary, str):
        return str(check_one_of("boundary", boundary, BOUNDARIES))
    if not (is_number(boundary) and 0 < boundary < float("inf")):
        raise OptionError(f"boundary={short_repr(boundary)} is not allowed; give a positive, finite |z|")
    return float(argument("boundary", boundary, float))


def ineffective_fields(stop: str, looks: Any) -> dict[str, str]:
    """Return the fields that have no effect with the given `stop` and `looks`, and the reasons."""
    reason_of_field = {} if stop == "futility" else {"futility": "stop is not 'futility'"}
    return reason_of_field if looks is None else reason_of_field | {"batch": "looks set the annotations of each round"}


def _format_looks(looks: Any) -> str:
    return ",".join(map(str, looks)) if isinstance(looks, Sequence) and not isinstance(looks, str) else repr(looks)


USUAL = Stopping()
"""The rule of the paper."""


def select_estimators_and_rules(
    estimator: str | Sequence[str] | None, stopping: Stopping | Sequence[Stopping], *, is_without_metric: bool
) -> tuple[tuple[Estimator, ...], tuple[Stopping, ...]]:
    """Return the requested estimators and stopping rules without duplicates; `is_without_metric` excludes metrics.

    Raise `OptionError` for unknown estimators, and for incompatible combinations.
    """
    if estimator is None:
        estimator = next(
            estimator_name
            for estimator_name, candidate_estimator in ESTIMATORS.items()
            if candidate_estimator.uses_metric is not is_without_metric
        )
    estimator_names = dict.fromkeys(value_list("estimator", estimator))
    estimators = [
        ESTIMATORS[check_one_of("estimator", estimator_name, ESTIMATORS)] for estimator_name in estimator_names
    ]
    stopping_rules: list[Any] = list(stopping) if isinstance(stopping, list | tuple) else [stopping]
    reject(
        *(
            (
                not isinstance(rule, Stopping),
                f"stopping={short_repr(rule)} is not allowed; give cu.Stopping(...), or a list of these",
            )
            for rule in stopping_rules
        )
    )
    rules: tuple[Stopping, ...] = tuple(dict.fromkeys(stopping_rules))
    metric_free_names_text = " or ".join(
        metric_free_estimator.name
        for metric_free_estimator in ESTIMATORS.values()
        if not metric_free_estimator.uses_metric
    )
    reject(
        (
            not estimators or not rules,
            "estimator or stopping is empty; give at least one estimator and one stopping rule",
        ),
        (
            len({rule.gamma for rule in rules}) > 1,
            "stopping: rules with different gamma cannot share the reference decisions; run each gamma separately",
        ),
        *(
            (
                is_without_metric and requested_estimator.uses_metric,
                f"estimator={requested_estimator.name!r} needs a metric, but metrics='none'; select metrics, or use "
                f"{metric_free_names_text}",
            )
            for requested_estimator in estimators
        ),
    )
    return tuple(estimators), rules
