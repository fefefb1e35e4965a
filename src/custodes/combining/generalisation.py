"""Generalisation: gain over the best single metric on items, systems and data sets that the training did not use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from custodes.combining.methods import BEST, Method
from custodes.combining.task import aspect_of, labelled_folds
from custodes.combining.training import fit_and_predict, hold_out_fold
from custodes.combining.trial import Trial
from custodes.data.notes import Note, build_notes
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


def estimate_generalisation(trial: Trial, rng: np.random.Generator, progress: Progress) -> Generalisation:
    """Return the gain of all methods on unseen items, and of some methods on unseen systems and data sets.

    The setting `unseen` selects these methods.
    """
    terms, combining_methods = trial.terms, [method for method in trial.terms.methods if method.name != BEST.name]
    if not combining_methods:
        return Generalisation({}, [])
    system_predictions: WithoutSystems | None = None
    is_used_item = np.asarray((trial.folds[0] >= 0).any(axis=1))
    method_indices = np.array([*(terms.methods.index(method) for method in combining_methods), len(terms.methods)])
    tables = [
        _rows(
            ITEMS if terms.folds == "item" else terms.folds,
            combining_methods,
            trial.moves.contrast(method_indices),
            seen=np.full(len(combining_methods), np.nan),
            over="units",
            n=len(np.unique(trial.of.design.units[is_used_item])),
            folds=(trial.n_folds, 0),
            confidence=terms.confidence,
        )
    ]
    reasons: list[tuple[str, int, str]] = []
    if terms.folds == "item" and terms.unseen != "none":
        tested_methods = tuple(method for method in combining_methods if method.fast or terms.unseen == "all")
        slow_methods = [method.name for method in combining_methods if method not in tested_methods]
        message = (
            "fits of {} are slow, so these methods are not tested on unseen systems and data sets; to test them, set "
            "unseen='all'"
        )
        reasons.append(("unseen-not-tried", len(slow_methods), message.format(", ".join(slow_methods))))
        if tested_methods:
            held_out = without_systems(trial, (*tested_methods, BEST), rng, progress)
            system_predictions = None if isinstance(held_out, str) else held_out
            tables_or_reasons = [held_out if isinstance(held_out, str) else _systems(trial, tested_methods, held_out)]
            tables_or_reasons += [_groups(column, trial, tested_methods, rng, progress) for column in GROUPS]
            tables += [table_or_reason for table_or_reason in tables_or_reasons if not isinstance(table_or_reason, str)]
            reasons += [
                ("unseen-not-tested", 1, table_or_reason)
                for table_or_reason in tables_or_reasons
                if isinstance(table_or_reason, str) and table_or_reason
            ]
    columns = {name: np.concatenate([np.asarray(table[name]) for table in tables]) for name in tables[0]}
    return Generalisation(columns, build_notes(*reasons, aspect=aspect_of(trial.of.target)), system_predictions)


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
    gain = moves.contrast(np.arange(m), np.full(m, m))
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
    rated_systems = np.flatnonzero(of.rated.any(axis=0))
    if of.verdicts:
        return (
            "unseen systems are not tested, because with verdicts the win rate of an output depends on the "
            "held-out systems"
        )
    if len(rated_systems) < LEAST_SYSTEMS:
        return (
            f"unseen systems are not tested: {LEAST_SYSTEMS} systems are needed, and annotators rated only "
            f"{len(rated_systems)}"
        )
    n_held = min(len(rated_systems), MOST_FOLDS)
    fold_of_system = np.full(len(of.design.systems), -1, dtype=np.intp)
    fold_of_system[rated_systems] = (
        np.arange(n_held) if n_held == len(rated_systems) else grouped_folds(rated_systems, n_folds=n_held, rng=rng)
    )
    model_of_output = np.where(of.rated, fold_of_system, -1)
    predicted = np.full((len(trial.folds), len(methods), n_held, *of.human.shape), np.nan)
    jobs = [(*job, k) for job in trial.jobs for k in range(n_held)]
    training_parts = [hold_out_fold(trial.folds[repeat], out, str((repeat, out, k))) for repeat, out, k in jobs]
    training_parts = [
        training_part._replace(train=training_part.train & (model_of_output != k))
        for training_part, (*_, k) in zip(training_parts, jobs, strict=True)
    ]
    fits = fit_and_predict(of, trial.terms, methods, training_parts, rng=rng, progress=progress, desc="unseen systems")
    for (repeat, _, k), training_part, fit in zip(jobs, training_parts, fits, strict=True):
        predicted[repeat].reshape(len(methods), n_held, -1)[:, k, training_part.held] = fit.predicted
    return WithoutSystems(tuple(method.name for method in methods), predicted, fold_of_system)


def _systems(trial: Trial, methods: Sequence[Method], held_out: WithoutSystems) -> dict[str, Any]:
    """Return table rows for unseen systems: each output is predicted by a model without its item and its system."""
    model_of_output = np.where(trial.of.rated, held_out.fold, -1)
    return _rows(
        SYSTEMS,
        methods,
        trial.prediction_moves(held_out.predicted, model_of_output, within=trial.folds, block=trial.folds),
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
    rated_labels = {label for label, is_rated in zip(labels, np.asarray(of.rated.any(axis=1)), strict=True) if is_rated}
    if len(rated_labels - {""}) < 2 or (column == "group" and _is_same_partition(of.design.dataset, labels)):
        return ""
    try:
        fold_of_output = labelled_folds(of, labels, f"unseen {name}")
    except OptionError as reason:
        return f"the gain is not tested on {reason}"
    methods_and_best = (*methods, BEST)
    predicted = np.full((len(methods_and_best), 1, *of.human.shape), np.nan)
    training_parts = [hold_out_fold(fold_of_output, k, str(k)) for k in range(int(fold_of_output.max()) + 1)]
    fits = fit_and_predict(
        of, trial.terms, methods_and_best, training_parts, rng=rng, progress=progress, desc=f"unseen {name}"
    )
    for training_part, fit in zip(training_parts, fits, strict=True):
        predicted.reshape(len(methods_and_best), -1)[:, training_part.held] = fit.predicted
    # Both columns of scores use comparisons within folds of items, so that they are based on the same comparisons.
    is_used = [(fold_of_output >= 0) & (fold >= 0) for fold in trial.folds]
    comparison_folds: dict[str, Any] = {
        "within": [
            np.where(mask, fold_of_output * len(trial.jobs) + fold, -1)
            for mask, fold in zip(is_used, trial.folds, strict=True)
        ],
        "block": [np.where(mask, fold_of_output, -1) for mask in is_used],
    }
    same_model = np.zeros_like(fold_of_output)
    method_predictions = trial.predicted[:, [trial.terms.methods.index(method) for method in methods], np.newaxis]
    return _rows(
        name,
        methods,
        trial.prediction_moves([predicted] * len(is_used), same_model, **comparison_folds),
        seen=trial.prediction_moves(method_predictions, same_model, **comparison_folds).value,
        over="blocks",
        n=len(training_parts),
        folds=(len(training_parts), len(training_parts)),
        confidence=trial.terms.confidence,
    )


def _is_same_partition(a: Sequence[str], b: Sequence[str]) -> bool:
    """Return whether two labellings define the same partition of the items."""
    return len(set(zip(a, b, strict=True))) == len(set(a)) == len(set(b))
