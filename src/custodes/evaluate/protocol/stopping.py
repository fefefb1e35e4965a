"""Stopping: when a pair is decided, when nobody is asked any more, and what the estimators must allow for it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

from custodes.arguments import argument, at_least, between, declared, is_number, one_of, several, value_list
from custodes.errors import OptionError, shown
from custodes.stats.correction.estimator import Estimator
from custodes.stats.correction.estimators import ESTIMATORS
from custodes.stats.stopping.rules import STOPS, Rule
from custodes.stats.stopping.sequential import BOUNDARIES, group_sequential_bounds


@dataclass(frozen=True, kw_only=True, repr=False)
class Stopping:
    """When a pair is decided, and when nobody is asked any more.

    `stop`: what closes a pair, joined by '+': 'decided' (theta is beyond 1 - gamma/2 or below gamma/2; always on),
    'futility' (its chance of being decided by the last look is below `futility`), 'equivalence' (its margin lies within
    +-`equivalence`), 'anytime' (decisions by betting on people's annotations: valid however often one looks, per pair).
    Every round adds `batch` annotations to each open pair, or goes on to the next of `looks`, annotations of a pair.
    `budget`: annotations in all. `boundary` of repeated looks: 'none' (as in the paper), 'pocock', 'obrien-fleming', or
    the |z| that every look asks.

    >>> Stopping(stop="decided+futility", looks=[10, 20], boundary="pocock")
    Stopping(stop='futility', looks=(10, 20), boundary='pocock')
    """

    stop: str = "decided"
    batch: int = 10
    looks: Sequence[int] | None = None
    budget: int | None = None
    boundary: str | float = "none"
    futility: float = 0.2
    equivalence: float | None = None
    gamma: float = 0.05

    def __post_init__(self) -> None:
        kinds = declared(Stopping)
        # All fields are set: what a file leaves out would not be an attribute of its own.
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in ("batch", "budget", "futility", "equivalence", "gamma"):
            values[name] = argument(name, values[name], kinds[name])
        for name, check in {"stop": _stop, "looks": _looks, "boundary": _boundary}.items():
            values[name] = check(values[name])
        for name, value in values.items():
            object.__setattr__(self, name, value)
        for name, count in (("batch", self.batch), ("budget", self.budget)):
            at_least(name, 1 if count is None else count, 1)
        for name, share in (("futility", self.futility), ("equivalence", self.equivalence)):
            between(name, 0.5 if share is None else share, 0, 1)
        if self.equivalence is None and "equivalence" in self.parts:
            raise OptionError("stop 'equivalence' asks for a margin: equivalence=0.1 settles pairs within 0.1 of a tie")
        for name, why in idle(self.stop, self.looks).items():
            if name in self.given:
                raise OptionError(f"{name}={shown(self.given[name])} would change nothing: {why}")

    @property
    def given(self) -> dict[str, Any]:
        """What is not as by default."""
        return {field.name: vars(self)[field.name] for field in fields(self) if vars(self)[field.name] != field.default}

    def __str__(self) -> str:
        words = {**self.given, "looks": _listed(self.looks)}
        return ", ".join([self.stop, *(f"{name} {words[name]}" for name in self.given if name != "stop")])

    def __repr__(self) -> str:
        return f"Stopping({', '.join(f'{name}={value!r}' for name, value in self.given.items())})"

    @property
    def parts(self) -> list[str]:
        """The parts of `stop`."""
        return self.stop.split("+")

    def rule(self, estimator: Estimator, *, most: int, seed: int) -> Rule:
        """What this means where a pair has at most `most` annotations."""
        counts = self.looks or (*range(self.batch, most, self.batch), most)
        looks = tuple(dict.fromkeys(min(n, most) for n in counts))
        if isinstance(self.boundary, str):
            bounds = group_sequential_bounds(looks, shape=BOUNDARIES[self.boundary], level=self.gamma).tolist()
        else:
            bounds = [float(self.boundary)] * len(looks)
        return Rule(
            estimator=estimator,
            gamma=self.gamma,
            looks=looks,
            bounds=tuple(bounds),
            anytime="anytime" in self.parts,
            futility=self.futility if "futility" in self.parts else None,
            equivalence=self.equivalence if "equivalence" in self.parts else None,
            seed=seed,
            budget=self.budget or sys.maxsize,
        )


def _stop(stop: Any) -> str:
    """The parts of `stop` in their order, without the one that is always on."""
    if not isinstance(stop, str):
        raise OptionError(f"stop={shown(stop)}: one text, its parts joined by '+', such as 'decided+futility'")
    parts = [one_of("stop", part.strip(), STOPS) for part in stop.split("+")]
    return "+".join(name for name in STOPS[1:] if name in parts) or STOPS[0]


def _looks(looks: Any) -> tuple[int, ...] | None:
    if looks is None:
        return None
    counts = tuple(at_least("looks", look, 1) for look in looks) if several(looks) else ()
    if not counts or any(b <= a for a, b in pairwise(counts)):
        raise OptionError(f"looks={_listed(counts or looks)}: annotations of a pair at each look, increasing: 10,20,40")
    return counts


def _boundary(boundary: Any) -> str | float:
    if isinstance(boundary, str):
        return str(one_of("boundary", boundary, BOUNDARIES))
    if not (is_number(boundary) and 0 < boundary < float("inf")):
        raise OptionError(f"boundary={shown(boundary)}: a |z| is positive and finite")
    return float(argument("boundary", boundary, float))


def idle(stop: str, looks: Any) -> dict[str, str]:
    """What changes nothing beside this `stop` and these `looks`, and why."""
    parts = [part.strip() for part in stop.split("+")]
    reasons = {
        "futility": "" if "futility" in parts else "stop does not name 'futility'",
        "equivalence": "" if "equivalence" in parts else "stop does not name 'equivalence'",
        "batch": "" if looks is None else "looks say how many annotations each round brings",
        "boundary": "stop='anytime' is valid however often one looks" if "anytime" in parts else "",
    }
    return {name: why for name, why in reasons.items() if why}


def _listed(looks: Any) -> str:
    return ",".join(map(str, looks)) if isinstance(looks, Sequence) and not isinstance(looks, str) else repr(looks)


USUAL = Stopping()
"""As in the paper."""


def asked_for(
    estimator: str | Sequence[str] | None, stopping: Stopping | Sequence[Stopping], *, alone: bool
) -> tuple[tuple[Estimator, ...], tuple[Stopping, ...]]:
    """Estimators and stopping rules, each once; `alone` says that there is no metric.

    Raises `OptionError` for unknown estimators, and for what does not go together.
    """
    if estimator is None:
        estimator = next(name for name, each in ESTIMATORS.items() if each.uses_metric is not alone)
    names = dict.fromkeys(value_list("estimator", estimator))
    estimators = [ESTIMATORS[one_of("estimator", name, ESTIMATORS)] for name in names]
    stoppings: list[Any] = list(stopping) if isinstance(stopping, list | tuple) else [stopping]
    for rule in stoppings:
        if not isinstance(rule, Stopping):
            raise OptionError(f"stopping={shown(rule)}: give cu.Stopping(...), or several of them")
    rules: tuple[Stopping, ...] = tuple(dict.fromkeys(stoppings))
    if not estimators or not rules:
        raise OptionError("estimator and stopping: give one of each, or several")
    if len({rule.gamma for rule in rules}) > 1:
        raise OptionError("stopping: all rows share one reference, so one gamma; ask for each gamma by itself")
    for each in estimators:
        if alone and each.uses_metric:
            others = " or ".join(other.name for other in ESTIMATORS.values() if not other.uses_metric)
            raise OptionError(
                f"estimator={each.name!r} needs a metric, and metrics='none'; choose metrics, or {others}"
            )
        if not each.bets and any("anytime" in rule.parts for rule in rules):
            raise OptionError(
                f"stop 'anytime' bets on people's annotations alone, not on estimator={each.name!r}; use human"
            )
    return tuple(estimators), rules
