"""From options to stopping rules: what may be asked for, and what it means for a number of items."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from custodes.errors import OptionError, suggestion
from custodes.evaluate.result import at_least, between
from custodes.stats.correction.estimate import ESTIMATORS
from custodes.stats.stopping.rules import BOUNDARIES, HUMAN, POOLED, STOPS, Boundary, Rule, boundary_of, looks_every

ALONE = (HUMAN, POOLED)
"""Estimators that use people's annotations alone."""

KNOWN = (*ESTIMATORS, POOLED)


def checked_estimators(estimator: str | Sequence[str] | None, *, alone: bool) -> tuple[str, ...]:
    """The estimators asked for; `alone` says that there is no metric. Raises `OptionError` for unknown ones."""
    if estimator is None:
        return (HUMAN,) if alone else (KNOWN[0],)
    names = (estimator,) if isinstance(estimator, str) else tuple(dict.fromkeys(estimator))
    for name in names:
        if name not in KNOWN:
            raise OptionError(f"estimator={name!r}; allowed: {', '.join(KNOWN)}{suggestion(name, KNOWN)}")
        if alone and name not in ALONE:
            raise OptionError(
                f"estimator={name!r} needs a metric, and metrics='none'; choose metrics, or human or pooled"
            )
    if not names:
        raise OptionError(f"estimator is empty; allowed: {', '.join(KNOWN)}")
    return names


def checked_stops(stop: str | Sequence[str], equivalence: float | None) -> tuple[str, ...]:
    """Stopping rules in one spelling: parts in their order, 'decided' (always on) named only where it is alone."""
    given = (stop,) if isinstance(stop, str) else tuple(stop)
    made = []
    for entry in given:
        parts = [part.strip() for part in entry.split("+")]
        for part in parts:
            if part not in STOPS:
                raise OptionError(
                    f"stop={entry!r}: {part!r} is none of {', '.join(STOPS)} (joined by '+'){suggestion(part, STOPS)}"
                )
        made.append("+".join(name for name in STOPS[1:] if name in parts) or STOPS[0])
    if not made:
        raise OptionError(f"stop is empty; allowed: {', '.join(STOPS)}")
    if equivalence is None and any("equivalence" in name for name in made):
        raise OptionError("stop 'equivalence' asks for a margin: equivalence=0.1 settles pairs within 0.1 of a tie")
    if equivalence is not None:
        between("equivalence", equivalence, 0, 1)
    return tuple(dict.fromkeys(made))


def checked_looks(batch: int, looks: Sequence[int] | None) -> tuple[int, ...] | None:
    """The looks asked for (None: every `batch`); raises `OptionError` where they do not increase."""
    at_least("batch", batch, 1)
    if looks is None:
        return None
    given = tuple(at_least("looks", look, 1) for look in looks)
    if not given or any(b <= a for a, b in pairwise(given)):
        raise OptionError(
            f"looks={','.join(map(str, given))}: annotations of a pair at each look, increasing: 10,20,40"
        )
    return given


def checked_boundary(boundary: Boundary | float) -> Boundary | float:
    """The boundary asked for: a name, or a positive |z|."""
    if isinstance(boundary, str):
        if boundary not in BOUNDARIES:
            raise OptionError(
                f"boundary={boundary!r}; allowed: {', '.join(BOUNDARIES)}, or a |z|{suggestion(boundary, BOUNDARIES)}"
            )
    elif not 0 < boundary < float("inf"):
        raise OptionError(f"boundary={boundary}: a |z| is positive and finite")
    return boundary


def rule_of(
    *,
    estimator: str,
    stop: str,
    batch: int,
    looks: tuple[int, ...] | None,
    most: int,
    boundary: Boundary | float,
    futility: float,
    equivalence: float | None,
    gamma: float,
    seed: int,
) -> Rule:
    """The rule that checked options mean where a pair has at most `most` annotations."""
    parts = stop.split("+")
    places = looks_every(batch, most) if looks is None else (*(n for n in looks if n < most), min(looks[-1], most))
    places = tuple(dict.fromkeys(places))
    return Rule(
        estimator=estimator,
        gamma=gamma,
        looks=places,
        bounds=boundary_of(places, boundary=boundary, gamma=gamma),
        anytime="anytime" in parts,
        futility=futility if "futility" in parts else None,
        equivalence=equivalence if "equivalence" in parts else None,
        seed=seed,
    )
