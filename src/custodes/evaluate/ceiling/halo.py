"""Halo effect: how much two aspects are associated because the same annotator rated both aspects."""

from __future__ import annotations

from dataclasses import replace
from itertools import compress
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
    weighted by numbers of rated outputs. An annotator is excluded if all ratings of the annotator are in one fold, or
    if no other annotator rated any of these outputs. The result is empty with one annotator or one aspect.
    """
    rater_scores, ratings_of_annotator = target.rater_scores, target.persons
    # (people, other aspects, items, systems)
    other_aspect_ratings = np.delete(
        rater_scores.annotators, rater_scores.aspects.index(target.aspect), axis=0
    ).swapaxes(0, 1)
    if not other_aspect_ratings.size or len(ratings_of_annotator) < 2:
        return {}, []
    target_ratings = np.stack(list(ratings_of_annotator.values()))
    agreement_draws = np.full((len(target_ratings), len(target.times), len(SOURCES)), np.nan)
    for annotator_positions in equal_positions(
        rated_output_mask.tobytes() for rated_output_mask in np.isfinite(target_ratings)
    ):  # annotators who rated the same outputs
        annotator_indices = [
            list(ratings_of_annotator)[annotator_position] for annotator_position in annotator_positions
        ]
        mean_ratings_of_others = [
            mean_of_defined(np.delete(other_aspect_ratings, annotator_index, axis=0), axis=0)
            for annotator_index in annotator_indices
        ]
        agreement_draws[annotator_positions] = _held_out_agreement(
            target,
            target_ratings[annotator_positions],
            (
                other_aspect_ratings[annotator_indices],
                np.stack(mean_ratings_of_others),
                rater_scores.scores[target.columns["metrics"]],
            ),
        )
    is_predicted_annotator = np.asarray(np.isfinite(agreement_draws[:, 0]).all(axis=1))
    annotator_weights = np.where(
        np.isfinite(agreement_draws).all(axis=2), np.isfinite(target_ratings).sum(axis=(1, 2))[:, np.newaxis], 0.0
    )[is_predicted_annotator, :, np.newaxis]
    mean_agreement = ratio(
        np.where(annotator_weights > 0, annotator_weights * agreement_draws[is_predicted_annotator], 0.0).sum(axis=0),
        annotator_weights.sum(axis=0),
    )
    agreement_lead = mean_agreement - mean_agreement[:, [REFERENCE]]
    agreement_lead[:, REFERENCE] = np.nan
    interval_arguments: dict[str, Any] = {"confidence": confidence, "clusters": target.n_clusters}
    columns_of_halo = (
        {
            "source": SOURCES,
            **with_interval("kendall", mean_agreement, bounds=CORRELATION, **interval_arguments),
            **with_interval("lead", agreement_lead, bounds=ANY, **interval_arguments),
        }
        if is_predicted_annotator.any()
        else {}
    )
    return columns_of_halo, list(compress(ratings_of_annotator, ~is_predicted_annotator))


def _held_out_agreement(target: Target, ratings: Floats, sources: tuple[Floats, Floats, Floats]) -> Floats:
    """Held-out tau-b of ridge regressions that predict each annotator's rating, (annotators, 1 + B, sources).

    `ratings` is (annotators, items, systems); all annotators rated the same outputs. The first two sources are
    (annotators, features, items, systems), and the metrics are (features, items, systems). The value is NaN if all
    ratings are in one fold.
    """
    same_annotator_ratings, other_annotator_ratings, metric_scores = sources
    x = target.rows(np.concatenate([*same_annotator_ratings, *other_annotator_ratings, metric_scores]))
    y = target.rows(ratings).T
    fold_of_row, start_columns = (
        np.where(np.isfinite(y[0]), target.fold, -1),
        np.arange(2 * len(y)) * same_annotator_ratings.shape[1],
    )
    feature_slices = [
        slice(start_column, start_column + same_annotator_ratings.shape[1]) for start_column in start_columns.tolist()
    ]
    feature_slices += [slice(2 * same_annotator_ratings.shape[1] * len(y), None)] * len(y)
    predictions = np.full((len(feature_slices), len(fold_of_row)), np.nan)
    if len(train_test_masks := splits(fold_of_row)) > 1:
        for is_training, is_held_out in train_test_masks:
            predictions[:, is_held_out] = ridge_predictions(
                x, y, feature_slices, groups=target.groups, is_training=is_training, is_held_out=is_held_out
            )
    agreement_draws = replace(target, y=np.tile(y, (len(SOURCES), 1)), fold=fold_of_row).agreement(predictions)
    return agreement_draws.reshape(len(agreement_draws), len(SOURCES), len(y)).transpose(2, 0, 1)
