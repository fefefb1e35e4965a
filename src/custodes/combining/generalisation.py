"""Generalisation: gain over the best single metric on items, systems and data sets that the training did not use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from custodes.combining.methods import BEST, Method
from custodes.combining.task import aspect_of, labelled_folds
from custodes.combining.training import fitted, without
from custodes.combining.trial import Trial
from custodes.data.notes import Note, noted
from custodes.errors import OptionError
from custodes.progress import Progress
from custodes.stats.arrays import Floats, Ints
from custodes.stats.learning.folds import grouped_folds
from custodes.stats.learning.unseen import Moves, Over

ITEMS, SYSTEMS = "items", "systems"
GROUPS = {"dataset": "data sets", "group": "groups"}
"""Columns of the items file whose values are held out, and what messages call these values."""

GAIN, NO_GAIN = "gain", "no gain"

LEAST_SYSTEMS = 4
"""Minimum number of systems for generalisation to other systems."""

MOST_FOLDS = 20
"""Maximum number of folds of systems. With more systems, several systems are held out together."""


def conclusion(low: float) -> str | None:
    """Return the conclusion from the lower bound of a gain's interval; None if there is no interval."""
    return None if np.isnan(low) else GAIN if low > 0 else NO_GAIN


class WithoutSystems(NamedTuple):
    """Predictions by models that are fitted without the systems of a fold.

    `predicted` (repeats, methods, folds, items, systems) are predictions of all systems on held-out items. `fold`
    (systems,) is the fold of each system, -1 if the system is not rated.
    """

    methods: tuple[str, ...]
    predicted: Floats
    fold: Ints


class Generalisation(NamedTuple):
    """Columns of the table, and notes; `systems` has the predictions by models fitted without some systems, if any."""

    columns: dict[str, Any]
    notes: list[Note]
    systems: WithoutSystems | None = None


def generalised(trial: Trial, rng: np.random.Generator, progress: Progress) -> Generalisation:
    """Return the gain of all methods on unseen items, and of some methods on unseen systems and data sets.

    The setting `unseen` selects these methods.
    """
    terms, others = trial.terms, [method for method in trial.terms.methods if method.name != BEST.name]
    if not others:
        return Generalisation({}, [])
    systems: WithoutSystems | None = None
    used = np.asarray((trial.folds[0] >= 0).any(axis=1))
    order = np.array([*(terms.methods.index(method) for method in others), len(terms.methods)])
    rows = [
        _rows(
            ITEMS if terms.folds == "item" else terms.folds,
            others,
            trial.moves.minus(order),
            seen=np.full(len(others), np.nan),
            over="units",
            n=len(np.unique(trial.of.design.units[used])),
            folds=(trial.n_folds, 0),
            confidence=terms.confidence,
        )
    ]
    reasons: list[tuple[str, int, str]] = []
    if terms.folds == "item" and terms.unseen != "none":
        tried = tuple(method for method in others if method.fast or terms.unseen == "all")
        slow = [method.name for method in others if method not in tried]
        message = (
            "fits of {} are slow, so these methods are not tested on unseen systems and data sets; to test them, set "
            "unseen='all'"
        )
        reasons.append(("unseen-not-tried", len(slow), message.format(", ".join(slow))))
        if tried:
            held_out = without_systems(trial, (*tried, BEST), rng, progress)
            systems = None if isinstance(held_out, str) else held_out
            parts = [held_out if isinstance(held_out, str) else _systems(trial, tried, held_out)]
            parts += [_groups(column, trial, tried, rng, progress) for column in GROUPS]
            rows += [part for part in parts if not isinstance(part, str)]
            reasons += [("unseen-not-tested", 1, part) for part in parts if isinstance(part, str) and part]
    columns = {name: np.concatenate([np.asarray(table[name]) for table in rows]) for name in rows[0]}
    return Generalisation(columns, noted(*reasons, aspect=aspect_of(trial.of.target)), systems)


def _rows(
    unseen: str,
    methods: Sequence[Method],
    moves: Moves,
    *,
    seen: Floats,
    over: Over,
    n: int,
    folds: tuple[int, int],
    confidence: float,
) -> dict[str, Any]:
    """Return table rows of the methods for one type of held-out unit.

    - `moves`: objective of each method and, last, of the best single metric.
    - `seen` (methods,): objective on the same comparisons, by models fitted to other items of the unit.
    - `over`: what is resampled for the interval; `n` is the number of resampled units.
    - `folds`: number of folds over items, and number of folds over systems or data sets.

    """
    m = len(methods)
    gain = moves.minus(np.arange(m), np.full(m, m))
    low, high = gain.interval(over, confidence=confidence, folds=folds)
    return {
        "unseen": [unseen] * m,
        "method": [method.name for method in methods],
        "n": [n] * m,
        "score": moves.value[:m],
        "seen": seen,
        "single": np.repeat(moves.value[m:], m),
        "gain": gain.value,
        "gain_low": low,
        "gain_high": high,
        "conclusion": [conclusion(bound) for bound in low],
    }


def without_systems(
    trial: Trial, methods: Sequence[Method], rng: np.random.Generator, progress: Progress
) -> WithoutSystems | str:
    """Return predictions of held-out items by models that are also fitted without some systems.

    If this is not possible, return the reason.
    """
    of = trial.of
    rated = np.flatnonzero(of.rated.any(axis=0))
    if of.verdicts:
        return (
            "unseen systems are not tested, because with verdicts the win rate of an output depends on the "
            "held-out systems"
        )
    if len(rated) < LEAST_SYSTEMS:
        return (
            f"unseen systems are not tested: {LEAST_SYSTEMS} systems are needed, and annotators rated only {len(rated)}"
        )
    n_held = min(len(rated), MOST_FOLDS)
    held = np.full(len(of.design.systems), -1, dtype=np.intp)
    held[rated] = np.arange(n_held) if n_held == len(rated) else grouped_folds(rated, n_folds=n_held, rng=rng)
    model = np.where(of.rated, held, -1)
    predicted = np.full((len(trial.folds), len(methods), n_held, *of.human.shape), np.nan)
    jobs = [(*job, k) for job in trial.jobs for k in range(n_held)]
    parts = [without(trial.folds[repeat], out, str((repeat, out, k))) for repeat, out, k in jobs]
    parts = [part._replace(train=part.train & (model != k)) for part, (*_, k) in zip(parts, jobs, strict=True)]
    fits = fitted(of, trial.terms, methods, parts, rng=rng, progress=progress, desc="unseen systems")
    for (repeat, _, k), part, fit in zip(jobs, parts, fits, strict=True):
        predicted[repeat].reshape(len(methods), n_held, -1)[:, k, part.held] = fit.predicted
    return WithoutSystems(tuple(method.name for method in methods), predicted, held)


def _systems(trial: Trial, methods: Sequence[Method], held_out: WithoutSystems) -> dict[str, Any]:
    """Return table rows for unseen systems: each output is predicted by a model without its item and its system."""
    model = np.where(trial.of.rated, held_out.fold, -1)
    return _rows(
        SYSTEMS,
        methods,
        trial.compared(held_out.predicted, model, within=trial.folds, block=trial.folds),
        seen=trial.moves.value[[trial.terms.methods.index(method) for method in methods]],
        over="systems",
        n=int((held_out.fold >= 0).sum()),
        folds=(trial.n_folds, held_out.predicted.shape[2]),
        confidence=trial.terms.confidence,
    )


def _groups(
    column: str, trial: Trial, methods: Sequence[Method], rng: np.random.Generator, progress: Progress
) -> dict[str, Any] | str:
    """Return table rows for unseen data sets (or groups): each is predicted by models fitted without it.

    If this is not possible, return the reason; the reason is empty if there are no data sets (or groups).
    """
    of, name = trial.of, GROUPS[column]
    labels = {"dataset": of.design.dataset, "group": of.design.group}[column]
    present = {label for label, is_rated in zip(labels, np.asarray(of.rated.any(axis=1)), strict=True) if is_rated}
    if len(present - {""}) < 2 or (column == "group" and _alike(of.design.dataset, labels)):
        return ""
    try:
        group = labelled_folds(of, labels, f"unseen {name}")
    except OptionError as reason:
        return f"the gain is not tested on {reason}"
    every = (*methods, BEST)
    predicted = np.full((len(every), 1, *of.human.shape), np.nan)
    parts = [without(group, k, str(k)) for k in range(int(group.max()) + 1)]
    fits = fitted(of, trial.terms, every, parts, rng=rng, progress=progress, desc=f"unseen {name}")
    for part, fit in zip(parts, fits, strict=True):
        predicted.reshape(len(every), -1)[:, part.held] = fit.predicted
    # Both columns of scores use comparisons within folds of items, so that they are based on the same comparisons.
    used = [(group >= 0) & (fold >= 0) for fold in trial.folds]
    design: dict[str, Any] = {
        "within": [
            np.where(mask, group * len(trial.jobs) + fold, -1) for mask, fold in zip(used, trial.folds, strict=True)
        ],
        "block": [np.where(mask, group, -1) for mask in used],
    }
    one = np.zeros_like(group)
    ours = trial.predicted[:, [trial.terms.methods.index(method) for method in methods], np.newaxis]
    return _rows(
        name,
        methods,
        trial.compared([predicted] * len(used), one, **design),
        seen=trial.compared(ours, one, **design).value,
        over="blocks",
        n=len(parts),
        folds=(len(parts), len(parts)),
        confidence=trial.terms.confidence,
    )


def _alike(a: Sequence[str], b: Sequence[str]) -> bool:
    """Return whether two labellings define the same partition of the items."""
    return len(set(zip(a, b, strict=True))) == len(set(a)) == len(set(b))
