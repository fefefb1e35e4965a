"""Partiality of combined metrics, and the decrease of agreement that a lower partiality causes."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np

from custodes.answers.tables import with_interval
from custodes.combining.generalisation import WithoutSystems, without_systems
from custodes.combining.methods.even_handed import STEPS
from custodes.combining.task import Task, aspect_of
from custodes.combining.trial import Trial, cross_validate
from custodes.data.notes import Note, build_notes
from custodes.progress import Progress
from custodes.stats.arrays import Floats
from custodes.stats.intervals import CORRELATION
from custodes.stats.learning.even_handed import STRENGTHS
from custodes.stats.partiality.largest import largest, rate_partiality
from custodes.stats.partiality.scores import ScoredPeople


def partiality_columns(trial: Trial, system_predictions: WithoutSystems | None) -> dict[str, Any]:
    """Return columns with the largest partiality of each method on held-out items of the first repeat.

    The result has no columns if partiality is undefined for all methods.
    """
    seen_partialities = _held_out_rates(trial)
    if np.isnan(seen_partialities).all():
        return {}
    unseen_partialities = np.full_like(seen_partialities, np.nan)
    if system_predictions is not None:
        tested_partialities = _unseen_rates(trial.of, system_predictions, trial.terms.confidence)
        _, method_indices, tested_indices = np.intersect1d(
            trial.methods, system_predictions.methods, return_indices=True
        )
        unseen_partialities[:, method_indices] = tested_partialities[:, tested_indices]
    return {
        "method": trial.methods,
        **_columns(trial.of, seen_partialities),
        **{
            f"unseen_{column_name}": column_values
            for column_name, column_values in _columns(trial.of, unseen_partialities).items()
        },
    }


def trade_off_columns(
    trial: Trial, chosen_strength: float, rng: np.random.Generator, progress: Progress
) -> tuple[dict[str, Any], list[Note]]:
    """Return columns with the agreement and the largest partiality for each strength of the penalty, and notes.

    `chosen_strength` is the strength that was chosen on all data.
    """
    if trial.terms.folds == "system":
        return {}, []
    step_settings = replace(trial.terms, methods=STEPS, max_partiality=None)
    unseen_rng = rng.spawn(1)[0]
    trial_of_steps = cross_validate(trial.of, step_settings, deepcopy(rng), progress)
    system_predictions = None
    if step_settings.folds == "item" and step_settings.unseen != "none":
        predictions_or_reason = without_systems(trial_of_steps, STEPS, unseen_rng, progress)
        system_predictions = None if isinstance(predictions_or_reason, str) else predictions_or_reason
    partiality_table_columns = partiality_columns(trial_of_steps, system_predictions)
    if not partiality_table_columns:
        return {}, _notes(trial, np.nan)
    step_indices = np.arange(len(STEPS))
    losses_with_influences = trial_of_steps.moves.contrast(np.zeros_like(step_indices), step_indices)
    del partiality_table_columns["method"]
    chosen_step_index = STRENGTHS.index(chosen_strength)
    table_columns = {
        "penalty": STRENGTHS,
        "chosen": np.arange(len(STRENGTHS)) == chosen_step_index,
        **with_interval(
            "score",
            trial_of_steps.scores(),
            step_settings.confidence,
            clusters=trial_of_steps.n_clusters,
            bounds=CORRELATION,
        ),
        **losses_with_influences.columns(
            "loss", "units", confidence=step_settings.confidence, folds=(trial_of_steps.n_folds, 0)
        ),
        **partiality_table_columns,
    }
    return table_columns, _notes(trial, float(partiality_table_columns["largest_partiality"][chosen_step_index]))


def _notes(trial: Trial, largest_partiality: float) -> list[Note]:
    """Return notes on the largest partiality of `even-handed` (NaN if undefined)."""
    max_partiality = trial.terms.max_partiality
    return build_notes(
        (
            "no-partiality",
            np.isnan(largest_partiality),
            "partiality is undefined, because the estimate needs five systems with ten rated items (or clusters) "
            "each; without it, even-handed equals ridge",
        ),
        (
            "bound-not-satisfied",
            max_partiality is not None and largest_partiality > max_partiality,
            f"the largest partiality of even-handed on held-out items is {largest_partiality:.1f} points, above "
            f"max_partiality={max_partiality}",
        ),
        aspect=aspect_of(trial.of.target),
    )


def _held_out_rates(trial: Trial) -> Floats:
    """Return the partiality (3, methods, systems) on held-out items of the first repeat; NaN if it is undefined."""
    task = trial.of
    if task.verdicts or trial.terms.folds == "system" or not (task.rated.sum(axis=1) > 1).any():
        return np.full((3, len(trial.methods), len(task.design.systems)), np.nan)
    return _rates(task, trial.predicted[0], trial.terms.confidence)


def _rates(task: Task, predictions: Floats, confidence: float, systems: Sequence[int] | None = None) -> Floats:
    """Return the partiality of predictions (m, items, systems). The result has the shape (3, m, systems); its first
    axis has the estimate and the two bounds."""
    human_ratings = ScoredPeople(task.persons, units=task.design.units)
    return rate_partiality(
        [human_ratings.placement(predicted_scores) for predicted_scores in predictions],
        confidence=confidence,
        systems=systems,
    )


def _unseen_rates(task: Task, system_predictions: WithoutSystems, confidence: float) -> Floats:
    """Return the partiality (3, methods, systems) to each system, by models fitted without this system."""
    partialities = np.full((3, len(system_predictions.methods), len(system_predictions.fold)), np.nan)
    for system_fold in range(int(system_predictions.fold.max()) + 1):
        system_indices = np.flatnonzero(system_predictions.fold == system_fold)
        partialities[..., system_indices] = _rates(
            task, system_predictions.predicted[0, :, system_fold], confidence, system_indices.tolist()
        )[..., system_indices]
    return partialities


def _columns(task: Task, partialities: Floats) -> dict[str, Any]:
    """Return the columns for partialities (3: estimate, low, high; table rows; systems)."""
    system_labels = np.array([*task.design.systems, ""], dtype=object)  # the last label is for the position -1
    largest_partialities, lower_bounds, upper_bounds, system_of_largest = largest(100 * partialities)
    return {
        "largest_partiality": largest_partialities,
        "largest_partiality_low": lower_bounds,
        "largest_partiality_high": upper_bounds,
        "system": system_labels[system_of_largest].tolist(),
    }
