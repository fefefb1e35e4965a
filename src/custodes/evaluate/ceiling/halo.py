"""Halo effect: how much two aspects are associated because the same annotator rated both aspects."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from custodes.answers.tables import with_interval
from custodes.evaluate.ceiling.prediction_target import Target
from custodes.stats.arrays import Floats, equal_positions
from custodes.stats.intervals import ANY, CORRELATION
from custodes.stats.learning.folds import splits
from custodes.stats.learning.ridge import ridge_predictions
from custodes.stats.ratios import mean_of_defined, ratio

SOURCES = ("same annotator", "other annotators", "metrics")
REFERENCE = SOURCES.index("other annotators")


def halo_columns(target: Target, confidence: float) -> tuple[dict[str, Any], list[int]]:
    """Return the columns of the table `halo`, and the excluded annotators.

    The ratings of each annotator are predicted from three sources: other aspects rated by the same annotator, other
    aspects rated by other annotators, and metrics. Values are means over the annotators with all three predictions,
    weighted by numbers of rated outputs. An annotator is excluded if all ratings are in one fold, or if the annotator
    shares no output with other annotators. The result is empty with one annotator or one aspect.
    """
    raters, persons = target.who, target.persons
    # (people, other aspects, items, systems)
    other_aspects = np.delete(raters.annotators, raters.aspects.index(target.aspect), axis=0).swapaxes(0, 1)
    if not other_aspects.size or len(persons) < 2:
        return {}, []
    metrics, ratings = raters.scores[target.columns["metrics"]], np.stack(list(persons.values()))
    draws = np.full((len(ratings), len(target.times), len(SOURCES)), np.nan)
    for positions in equal_positions(mask.tobytes() for mask in np.isfinite(ratings)):  # who rated the same outputs
        annotators = [list(persons)[position] for position in positions]
        means = [mean_of_defined(np.delete(other_aspects, person, axis=0), axis=0) for person in annotators]
        draws[positions] = _agreement(target, ratings[positions], (other_aspects[annotators], np.stack(means), metrics))
    is_predicted_annotator = np.asarray(np.isfinite(draws[:, 0]).all(axis=1))
    n_rated = np.array([[np.isfinite(rating).sum()] for rating in persons.values()])
    weight = np.where(np.isfinite(draws).all(axis=2), n_rated, 0.0)[is_predicted_annotator, :, np.newaxis]
    mean_agreement = ratio(
        np.where(weight > 0, weight * draws[is_predicted_annotator], 0.0).sum(axis=0), weight.sum(axis=0)
    )
    lead = mean_agreement - mean_agreement[:, [REFERENCE]]
    lead[:, REFERENCE] = np.nan
    interval_arguments: dict[str, Any] = {"confidence": confidence, "clusters": target.n_clusters}
    kendall_and_lead = with_interval(
        "kendall", mean_agreement, bounds=CORRELATION, **interval_arguments
    ) | with_interval("lead", lead, bounds=ANY, **interval_arguments)
    columns = {"source": SOURCES, **kendall_and_lead} if is_predicted_annotator.any() else {}
    return columns, [
        person for person, is_predicted in zip(persons, is_predicted_annotator, strict=True) if not is_predicted
    ]


def _agreement(target: Target, ratings: Floats, sources: tuple[Floats, Floats, Floats]) -> Floats:
    """(annotators, 1 + B, sources): held-out tau-b of ridge regressions that predict each annotator's rating.

    `ratings` is (annotators, items, systems); all annotators rated the same outputs. The first two sources are
    (annotators, features, items, systems), and the metrics are (features, items, systems). The value is NaN if all
    ratings are in one fold.
    """
    same, others, metrics = sources
    x, y = target.rows(np.concatenate([*same, *others, metrics])), target.rows(ratings).T
    fold, starts = np.where(np.isfinite(y[0]), target.fold, -1), np.arange(2 * len(y)) * same.shape[1]
    subsets = [slice(start, start + same.shape[1]) for start in starts.tolist()]
    subsets += [slice(2 * same.shape[1] * len(y), None)] * len(y)
    predictions = np.full((len(subsets), len(fold)), np.nan)
    if len(masks := splits(fold)) > 1:
        for is_training, is_held_out in masks:
            predictions[:, is_held_out] = ridge_predictions(
                x, y, subsets, groups=target.groups, is_training=is_training, is_held_out=is_held_out
            )
    return np.stack(
        [
            replace(target, y=rating, fold=fold).agreement(predictions[position :: len(y)])
            for position, rating in enumerate(y)
        ]
    )
