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

SEEN, UNSEEN = "", "unseen_"
"""Prefixes of columns: partiality to systems in the training part, and to systems that are left out of the training
part."""


def partiality_columns(trial: Trial, unseen: WithoutSystems | None) -> dict[str, Any]:
    """Return columns with the largest partiality of each method on held-out items of the first repeat.

    There are no columns if partiality is undefined for all methods.
    """
    of = trial.of
    if of.verdicts or trial.terms.folds == "system" or not (of.rated.sum(axis=1) > 1).any():
        return {}
    n_methods = len(trial.methods)
    rates = np.full((2, 3, n_methods, len(of.design.systems)), np.nan)
    rates[0] = _rates(of, trial.predicted[0], trial.terms.confidence)
    if unseen is not None:
        rates_unseen = _unseen_rates(of, unseen, trial.terms.confidence)
        for k, name in enumerate(trial.methods):
            if name in unseen.methods:
                rates[1, :, k] = rates_unseen[:, unseen.methods.index(name)]
    if np.isnan(rates).all():
        return {}
    return {"method": trial.methods} | _columns(of, rates)


def trade_off_columns(
    trial: Trial, strength: float, rng: np.random.Generator, progress: Progress
) -> tuple[dict[str, Any], list[Note]]:
    """Return columns with the agreement and largest partiality for each strength of the penalty, and notes.

    `strength` is the strength that was chosen on all data.
    """
    if trial.terms.folds == "system":
        return {}, []
    terms = replace(trial.terms, methods=STEPS, max_partiality=None)
    unseen_rng = rng.spawn(1)[0]
    trial_of_steps = cross_validate(trial.of, terms, deepcopy(rng), progress)
    unseen = None
    if terms.folds == "item" and terms.unseen != "none":
        held_out = without_systems(trial_of_steps, STEPS, unseen_rng, progress)
        unseen = None if isinstance(held_out, str) else held_out
    partiality = partiality_columns(trial_of_steps, unseen)
    if not partiality:
        return {}, _notes(trial, np.nan)
    all_steps = np.arange(len(STEPS))
    loss = trial_of_steps.moves.contrast(np.zeros_like(all_steps), all_steps)
    low, high = loss.interval("units", confidence=terms.confidence, folds=(trial_of_steps.n_folds, 0))
    del partiality["method"]
    chosen_step = STRENGTHS.index(strength)
    columns = {
        "penalty": STRENGTHS,
        "chosen": np.arange(len(STRENGTHS)) == chosen_step,
        **with_interval(
            "score", trial_of_steps.scores(), terms.confidence, clusters=trial_of_steps.n_clusters, bounds=CORRELATION
        ),
        "loss": loss.value,
        "loss_low": low,
        "loss_high": high,
        **partiality,
    }
    return columns, _notes(trial, float(partiality["largest_partiality"][chosen_step]))


def _notes(trial: Trial, size: float) -> list[Note]:
    """Return notes on `size`, the largest partiality of `even-handed`, which is NaN if it is undefined."""
    bound = trial.terms.max_partiality
    return build_notes(
        (
            "no-partiality",
            np.isnan(size),
            "partiality is undefined, because it needs five systems with ten rated items each; even-handed is "
            "the same as ridge here",
        ),
        (
            "bound-not-satisfied",
            bound is not None and size > bound,
            f"the largest partiality of even-handed on held-out items is {size:.1f} points, above "
            f"max_partiality={bound}",
        ),
        aspect=aspect_of(trial.of.target),
    )


def _rates(of: Task, predicted: Floats, confidence: float, systems: Sequence[int] | None = None) -> Floats:
    """Return the partiality (3, m, systems) of predictions (m, items, systems), as in `rate_partiality`."""
    human_ratings = ScoredPeople(of.persons, units=of.design.units)
    placements = [human_ratings.placement(values) for values in predicted]
    return rate_partiality(placements, confidence=confidence, systems=systems)


def _unseen_rates(of: Task, unseen: WithoutSystems, confidence: float) -> Floats:
    """Return the partiality (3, methods, systems) to each system, by models fitted without this system."""
    rates = np.full((3, len(unseen.methods), len(unseen.fold)), np.nan)
    for k in range(int(unseen.fold.max()) + 1):
        systems = np.flatnonzero(unseen.fold == k)
        rates[..., systems] = _rates(of, unseen.predicted[0, :, k], confidence, systems.tolist())[..., systems]
    return rates


def _columns(of: Task, rates: Floats) -> dict[str, Any]:
    """Return the columns for rates (2, 3, rows, systems); the first axis is for seen systems and unseen systems."""
    labels = np.array([*of.design.systems, ""], dtype=object)  # the last one for the position -1
    columns: dict[str, Any] = {}
    for prefix, partialities in zip((SEEN, UNSEEN), rates, strict=True):
        size, low, high, system = largest(100 * partialities)
        values_by_suffix = zip(("", "_low", "_high"), (size, low, high), strict=True)
        columns |= {f"{prefix}largest_partiality{end}": column_values for end, column_values in values_by_suffix}
        columns[f"{prefix}system"] = labels[system].tolist()
    return columns
