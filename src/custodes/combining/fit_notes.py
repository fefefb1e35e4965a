"""Notes on the fit of a combined metric."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from custodes.combining.methods import Formula, Method
from custodes.combining.normalise import Normalisation, contradictions
from custodes.combining.task import Task, aspect_of
from custodes.combining.trial import Trial
from custodes.data.notes import Note, build_notes
from custodes.data.raters import RANGE_MARGIN
from custodes.errors import join_labels
from custodes.evaluate.rater_scores import few_clusters_notes
from custodes.stats.arrays import Floats


def fit_notes(
    trial: Trial, formula: Formula, method: Method, normalisation: Normalisation, scores_of_repeats: Sequence[Floats]
) -> list[Note]:
    """Return notes on a fit; `scores_of_repeats` has the scores (folds, methods) of each repeat."""
    task, settings = trial.of, trial.terms
    first_method_name = settings.methods[0].name
    odd_direction_metrics = contradictions(task.metrics.names, task.directions, x=task.rows(np.arange(task.human.size)))
    n_unused_outputs = int((task.rated & (trial.folds[0] < 0)).sum())
    n_undefined_folds_of_method = dict(
        zip(trial.methods, np.isnan(np.concatenate(scores_of_repeats)).sum(axis=0).tolist(), strict=True)
    )
    undefined_folds_text = ", ".join(
        f"{method_name} {n_undefined_folds}"
        for method_name, n_undefined_folds in n_undefined_folds_of_method.items()
        if n_undefined_folds
    )
    metrics_beyond_scale_texts = _metrics_beyond_scale(task, normalisation)
    general_notes = build_notes(
        (
            "direction",
            len(odd_direction_metrics),
            f"{join_labels(odd_direction_metrics)}: the direction contradicts the usual direction; check "
            "higher_is_better",
        ),
        (
            "same-items",
            settings.folds == "system",
            "folds='system' trains on other outputs of the held-out items, so the scores may be too high",
        ),
        (
            "first-method",
            len(trial.methods) > 1,
            f"the result contains the model of {first_method_name}, the first method; if you choose another method "
            "because of its high score, expect a lower score on new data",
        ),
        (
            "no-weight-intervals",
            method.family == "weights" and method.refits is None,
            f"{method.name} is too slow for bootstrap refits, so the weights have no intervals",
        ),
    )
    target_notes = build_notes(
        ("auto", bool(formula.chosen), f"{first_method_name} chose {formula.chosen} on all data"),
        (
            "not-in-folds",
            n_unused_outputs,
            f"{n_unused_outputs} rated outputs are in no fold, so these outputs are not used "
            f"(folds={settings.folds!r})",
        ),
        (
            # A method without predictions on some folds is scored on fewer folds than other methods.
            "undefined-folds",
            sum(n_undefined_folds_of_method.values()),
            f"predictions are constant in some folds, where {settings.objective} is undefined. These folds are left "
            f"out of the means (method and number of folds: {undefined_folds_text})",
        ),
        (
            "beyond-declared",
            len(metrics_beyond_scale_texts),
            f"scores of {join_labels(metrics_beyond_scale_texts)} beyond the bounds in the raters file are clipped; "
            "check the bounds",
        ),
        aspect=aspect_of(task.target),
    )
    return [*general_notes, *target_notes, *few_clusters_notes(task.design.n_units, settings.resamples)]


def _metrics_beyond_scale(task: Task, normalisation: Normalisation) -> list[str]:
    """Return texts: each metric with too many scores outside its declared scale, and the proportion of such scores."""
    metric_scores = task.rows(np.flatnonzero(task.rated))
    with np.errstate(invalid="ignore"):
        n_scores_beyond_scale = ((metric_scores < normalisation.low) | (metric_scores > normalisation.high)).sum(axis=0)
    shares_beyond_scale = n_scores_beyond_scale / np.maximum(np.isfinite(metric_scores).sum(axis=0), 1)
    is_beyond_scale = (np.asarray(normalisation.source) == "declared") & (shares_beyond_scale > RANGE_MARGIN)
    return [
        f"{task.metrics.names[metric_index]} ({shares_beyond_scale[metric_index]:.0%})"
        for metric_index in np.flatnonzero(is_beyond_scale)
    ]
