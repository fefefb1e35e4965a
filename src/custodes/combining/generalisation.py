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
"""Columns of the items file whose values are held out, and the words for these values in messages."""

GAIN, NO_GAIN = "gain", "no gain"

LEAST_SYSTEMS = 4
"""Minimum number of systems for generalisation to other systems."""

MOST_FOLDS = 20
"""Maximum number of folds of systems. With more systems, several systems are held out together."""


def conclusion(lower_bound: float) -> str | None:
    """Return the conclusion from the lower bound of a gain's interval; None if there is no interval."""
    return None if np.isnan(lower_bound) else GAIN if lower_bound > 0 else NO_GAIN


class WithoutSystems(NamedTuple):
    """Predictions by models that are fitted without the systems of a fold.

    `predicted` (repeats, methods, folds, items, systems) are predictions of all systems on held-out items. `fold`
    (systems,) is the fold of each system, -1 if the system is not rated.
    """

    methods: tuple[str, ...]
    predicted: Floats
    fold: Ints


def estimate_generalisation(
    trial: Trial, rng: np.random.Generator, progress: Progress
) -> tuple[dict[str, Any], list[Note], WithoutSystems | None]:
    """Return the gain of all methods on unseen items, and of some methods on unseen systems and data sets.

    The result has the gains as columns of a table, and notes. It also has the predictions by models that are fitted
    without some systems, if there are such models. `unseen` in the settings selects the methods that are tested on
    unseen systems and data sets.
    """
    settings, combining_methods = trial.terms, [method for method in trial.terms.methods if method.name != BEST.name]
    if not combining_methods:
        return {}, [], None
    system_predictions: WithoutSystems | None = None
    is_item_in_fold = np.asarray((trial.folds[0] >= 0).any(axis=1))
    column_mappings = [
        _rows(
            ITEMS if settings.folds == "item" else settings.folds,
            combining_methods,
            trial.moves.contrast(
                np.array([*(settings.methods.index(method) for method in combining_methods), len(settings.methods)])
            ),
            seen_scores=np.full(len(combining_methods), np.nan),
            resampled_unit="units",
            n_units=len(np.unique(trial.of.design.units[is_item_in_fold])),
            fold_counts=(trial.n_folds, 0),
            confidence=settings.confidence,
        )
    ]
    note_rules_counts_and_messages: list[tuple[str, int, str]] = []
    if settings.folds == "item" and settings.unseen != "none":
        tested_methods = tuple(method for method in combining_methods if method.fast or settings.unseen == "all")
        slow_method_names = [method.name for method in combining_methods if method not in tested_methods]
        note_rules_counts_and_messages.append(
            (
                "unseen-not-tried",
                len(slow_method_names),
                f"fits of {', '.join(slow_method_names)} are slow, so these methods are not tested on unseen systems "
                "and data sets; to test them, set unseen='all'",
            )
        )
        if tested_methods:
            predictions_or_reason = without_systems(trial, (*tested_methods, BEST), rng, progress)
            system_predictions = None if isinstance(predictions_or_reason, str) else predictions_or_reason
            columns_or_reasons = [
                predictions_or_reason
                if isinstance(predictions_or_reason, str)
                else _systems(trial, tested_methods, predictions_or_reason)
            ]
            columns_or_reasons += [_groups(column_name, trial, tested_methods, rng, progress) for column_name in GROUPS]
            column_mappings += [
                columns_or_reason for columns_or_reason in columns_or_reasons if not isinstance(columns_or_reason, str)
            ]
            note_rules_counts_and_messages += [
                ("unseen-not-tested", 1, columns_or_reason)
                for columns_or_reason in columns_or_reasons
                if isinstance(columns_or_reason, str) and columns_or_reason
            ]
    return (
        {
            column_name: np.concatenate([np.asarray(column_mapping[column_name]) for column_mapping in column_mappings])
            for column_name in column_mappings[0]
        },
        build_notes(*note_rules_counts_and_messages, aspect=aspect_of(trial.of.target)),
        system_predictions,
    )


def _rows(
    unseen_name: str,
    methods: Sequence[Method],
    scores_with_influences: Moves,
    *,
    seen_scores: Floats,
    resampled_unit: Over,
    n_units: int,
    fold_counts: tuple[int, int],
    confidence: float,
) -> dict[str, Any]:
    """Return table rows of the methods for one type of held-out unit.

    - `scores_with_influences`: objective of each method, followed by that of the best single metric.
    - `seen_scores` (methods,): objective on the same comparisons, by models fitted to other items of the unit.
    - `resampled_unit`: what is resampled for the interval; `n_units` is the number of resampled units.
    - `fold_counts`: number of folds over items, and number of folds over systems or data sets.

    """
    n_methods = len(methods)
    gain_columns = scores_with_influences.contrast(np.arange(n_methods), np.full(n_methods, n_methods)).columns(
        "gain", resampled_unit, confidence=confidence, folds=fold_counts
    )
    return {
        "unseen": [unseen_name] * n_methods,
        "method": [method.name for method in methods],
        "n": [n_units] * n_methods,
        "score": scores_with_influences.value[:n_methods],
        "seen": seen_scores,
        "single": np.repeat(scores_with_influences.value[n_methods:], n_methods),
        **gain_columns,
        "conclusion": [conclusion(gain_lower_bound) for gain_lower_bound in gain_columns["gain_low"]],
    }


def without_systems(
    trial: Trial, methods: Sequence[Method], rng: np.random.Generator, progress: Progress
) -> WithoutSystems | str:
    """Return predictions by models that are fitted without the held-out items and without some systems.

    If models without some systems cannot be fitted, return the reason.
    """
    task = trial.of
    rated_system_indices = np.flatnonzero(task.rated.any(axis=0))
    if task.verdicts:
        return (
            "unseen systems are not tested, because with verdicts the win rate of an output depends on the "
            "held-out systems"
        )
    if len(rated_system_indices) < LEAST_SYSTEMS:
        return (
            f"unseen systems are not tested: {LEAST_SYSTEMS} systems are needed, and annotators rated only "
            f"{len(rated_system_indices)}"
        )
    n_system_folds = min(len(rated_system_indices), MOST_FOLDS)
    fold_of_system = np.full(len(task.design.systems), -1, dtype=np.intp)
    fold_of_system[rated_system_indices] = (
        np.arange(n_system_folds)
        if n_system_folds == len(rated_system_indices)
        else grouped_folds(rated_system_indices, n_folds=n_system_folds, rng=rng)
    )
    system_fold_of_output = np.where(task.rated, fold_of_system, -1)
    predictions = np.full((len(trial.folds), len(methods), n_system_folds, *task.human.shape), np.nan)
    repeats_and_folds = [
        (*repeat_and_fold, system_fold) for repeat_and_fold in trial.jobs for system_fold in range(n_system_folds)
    ]
    splits = [
        hold_out_fold(trial.folds[repeat], item_fold, str((repeat, item_fold, system_fold)))
        for repeat, item_fold, system_fold in repeats_and_folds
    ]
    splits = [
        split._replace(train=split.train & (system_fold_of_output != system_fold))
        for split, (*_, system_fold) in zip(splits, repeats_and_folds, strict=True)
    ]
    *_, predictions_of_splits = fit_and_predict(
        task, trial.terms, methods, splits, rng=rng, progress=progress, desc="unseen systems"
    )
    for (repeat, _, system_fold), split, split_predictions in zip(
        repeats_and_folds, splits, predictions_of_splits, strict=True
    ):
        predictions[repeat].reshape(len(methods), n_system_folds, -1)[:, system_fold, split.held] = split_predictions
    return WithoutSystems(tuple(method.name for method in methods), predictions, fold_of_system)


def _systems(trial: Trial, methods: Sequence[Method], system_predictions: WithoutSystems) -> dict[str, Any]:
    """Return table rows for unseen systems: each output is predicted by a model without its item and its system."""
    return _rows(
        SYSTEMS,
        methods,
        trial.prediction_moves(
            system_predictions.predicted,
            np.where(trial.of.rated, system_predictions.fold, -1),
            groups_of_repeats=trial.folds,
            blocks_of_repeats=trial.folds,
        ),
        seen_scores=trial.moves.value[[trial.terms.methods.index(method) for method in methods]],
        resampled_unit="systems",
        n_units=int((system_predictions.fold >= 0).sum()),
        fold_counts=(trial.n_folds, system_predictions.predicted.shape[2]),
        confidence=trial.terms.confidence,
    )


def _groups(
    column_name: str, trial: Trial, methods: Sequence[Method], rng: np.random.Generator, progress: Progress
) -> dict[str, Any] | str:
    """Return table rows for unseen data sets (or groups), predicted by models fitted without them.

    If unseen data sets (or groups) cannot be tested, return the reason; the reason is empty if there are no data sets
    (or groups).
    """
    task, unit_noun = trial.of, GROUPS[column_name]
    label_of_item = {"dataset": task.design.dataset, "group": task.design.group}[column_name]
    rated_labels = {
        label for label, is_rated in zip(label_of_item, np.asarray(task.rated.any(axis=1)), strict=True) if is_rated
    }
    groups_are_datasets = (
        len(set(zip(task.design.dataset, label_of_item, strict=True)))
        == len(set(label_of_item))
        == len(set(task.design.dataset))
    )
    if len(rated_labels - {""}) < 2 or (column_name == "group" and groups_are_datasets):
        return ""
    try:
        fold_of_output = labelled_folds(task, label_of_item, f"unseen {unit_noun}")
    except OptionError as reason:
        return f"the gain is not tested on {reason}"
    methods_and_best = (*methods, BEST)
    predictions = np.full((len(methods_and_best), 1, *task.human.shape), np.nan)
    splits = [
        hold_out_fold(fold_of_output, fold_number, str(fold_number))
        for fold_number in range(int(fold_of_output.max()) + 1)
    ]
    *_, predictions_of_splits = fit_and_predict(
        task, trial.terms, methods_and_best, splits, rng=rng, progress=progress, desc=f"unseen {unit_noun}"
    )
    for split, held_out_predictions in zip(splits, predictions_of_splits, strict=True):
        predictions.reshape(len(methods_and_best), -1)[:, split.held] = held_out_predictions
    # Both columns of scores use comparisons within folds of items, so that they are based on the same comparisons.
    compared_output_masks = [(fold_of_output >= 0) & (item_fold_of_output >= 0) for item_fold_of_output in trial.folds]
    fold_arguments: dict[str, Any] = {
        "groups_of_repeats": [
            np.where(is_compared_output, fold_of_output * len(trial.jobs) + item_fold_of_output, -1)
            for is_compared_output, item_fold_of_output in zip(compared_output_masks, trial.folds, strict=True)
        ],
        "blocks_of_repeats": [
            np.where(is_compared_output, fold_of_output, -1) for is_compared_output in compared_output_masks
        ],
    }
    model_index_of_output = np.zeros_like(fold_of_output)
    return _rows(
        unit_noun,
        methods,
        trial.prediction_moves([predictions] * len(compared_output_masks), model_index_of_output, **fold_arguments),
        seen_scores=trial.prediction_moves(
            trial.predicted[:, [trial.terms.methods.index(method) for method in methods], np.newaxis],
            model_index_of_output,
            **fold_arguments,
        ).value,
        resampled_unit="blocks",
        n_units=len(splits),
        fold_counts=(len(splits), len(splits)),
        confidence=trial.terms.confidence,
    )
