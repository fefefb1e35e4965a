"""Halo effect: how much two aspects are associated because the same annotator rated both aspects."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from custodes.answers.tables import with_interval
from custodes.evaluate.ceiling.prediction_target import MODELS, Target
from custodes.stats.arrays import Floats
from custodes.stats.intervals import ANY, CORRELATION
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
    metrics = raters.scores[target.columns["metrics"]]
    sources = (
        (other_aspects[person], mean_of_defined(np.delete(other_aspects, person, axis=0), axis=0), metrics)
        for person in persons
    )
    draws = np.stack(
        [_agreement(target, *rating_and_sources) for rating_and_sources in zip(persons.values(), sources, strict=True)]
    )
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


def _agreement(target: Target, rating: Floats, sources: tuple[Floats, ...]) -> Floats:
    """(1 + B, sources): held-out tau-b of a ridge regression that predicts one annotator's rating from each source.

    `rating` is (items, systems), and each source is (features, items, systems). The value is NaN if all ratings are in
    one fold.
    """
    y = target.rows(rating)
    annotator_target = replace(target, y=y, fold=np.where(np.isfinite(y), target.fold, -1))
    if len(np.unique(annotator_target.fold[annotator_target.fold >= 0])) < 2:
        return np.full((len(target.times), len(sources)), np.nan)
    return annotator_target.agreement(
        annotator_target.predict_from_features(map(target.rows, sources), partial(MODELS["ridge"], seed=0))
    )
