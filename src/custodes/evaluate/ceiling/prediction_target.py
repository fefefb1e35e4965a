"""One aspect of the human ratings that the other raters predict, with folds and resamples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from custodes.data.patterns import Patterns, select_labels
from custodes.evaluate.rater_scores import METRIC, RaterScores
from custodes.stats import split_half
from custodes.stats.arrays import Floats
from custodes.stats.learning import boost, heldout, ridge
from custodes.stats.learning.folds import grouped_folds, plain_folds
from custodes.stats.pooled_correlation import pooled_correlation

Folds = Literal["item", "plain"]

Model = Literal["xgboost", "ridge"]
N_FOLDS = 5
SPLITS = 20
"""Number of random splits of the annotators into halves. If there are fewer different splits, all of them are used."""

MODELS: Mapping[Model, Callable[..., heldout.Predictor]] = {
    "xgboost": lambda x, y, groups, *, seed: boost.fit_trees(x, y, seed=seed, **boost.SETTINGS)[0].predict,
    "ridge": lambda x, y, groups, *, seed: partial(ridge.predict, ridge.ridge(x, y, groups=groups)),
}
"""For each model, the function that fits the model to training data."""


@dataclass(frozen=True, kw_only=True)
class PredictedAspect:
    """The human ratings of one aspect, at position `target_index` in `rater_scores`, which other raters predict."""

    rater_scores: RaterScores
    target_index: int

    @property
    def aspect(self) -> str:
        """Name of the aspect."""
        return self.rater_scores.rater_aspects[self.target_index]

    @property
    def n_effective_clusters(self) -> float:
        """Effective number of clusters of items with human ratings, for means over items."""
        return self.rater_scores.design.on(
            np.flatnonzero(np.isfinite(self.rater_scores.scores[self.target_index]).any(axis=1))
        ).n_effective_units

    @cached_property
    def columns(self) -> dict[str, NDArray[np.intp]]:
        """Positions of the raters in each set of features. If annotators rated no other aspect, `metrics` is the only
        set."""
        metric_positions, human_positions = (
            self.rater_scores.select_kind(METRIC),
            self.rater_scores.select_kind("human"),
        )
        other_aspect_positions = human_positions[human_positions != self.target_index]
        return (
            {
                "metrics": metric_positions,
                "humans": other_aspect_positions,
                "both": np.concatenate([metric_positions, other_aspect_positions]),
            }
            if len(other_aspect_positions)
            else {"metrics": metric_positions}
        )

    def split_annotators(
        self, rng: np.random.Generator
    ) -> tuple[Floats, list[tuple[split_half.Half, split_half.Half]]]:
        """Return the ratings (annotators, items, systems), and the splits of the annotators into two halves."""
        # Annotators are sorted by name, so that halves do not depend on the order of input.
        ratings = np.stack(
            [
                self.persons[annotator_index]
                for annotator_index in sorted(self.persons, key=self.rater_scores.people.__getitem__)
            ]
        )
        return ratings, split_half.halves(len(ratings), most=SPLITS, rng=rng)

    @property
    def persons(self) -> dict[int, Floats]:
        """Ratings (items, systems) of each annotator who rated this aspect, by position of the annotator."""
        return {
            annotator_index: ratings
            for annotator_index, ratings in enumerate(
                self.rater_scores.annotators[self.rater_scores.aspects.index(self.aspect)]
            )
            if np.isfinite(ratings).any()
        }


@dataclass(frozen=True, kw_only=True)
class Target(PredictedAspect):
    """An aspect to predict for single outputs.

    Four arrays (rows,) describe the outputs with a human rating. `row` is the flat position in the grid, `y` is the
    rating, `groups` is the cluster, and `fold` is the fold. `whole` tells whether folds contain whole items. `times` (1
    + B, clusters) are bootstrap weights; row 0 is the data.
    """

    row: NDArray[np.intp]
    y: Floats
    groups: NDArray[np.int64]
    fold: NDArray[np.intp]
    whole: bool
    times: NDArray[np.uint8]

    @cached_property
    def x(self) -> Floats:
        """The features, (rows, raters)."""
        return self.rows(self.rater_scores.scores)

    @property
    def n_clusters(self) -> int:
        """Number of clusters with human ratings; clusters without human ratings do not affect a resample."""
        return len(np.unique(self.groups))

    def rows(self, scores: Floats) -> Floats:
        """Return the values at the rated outputs: (..., items, systems) -> (rows, ...)."""
        return np.asarray(scores.reshape(*scores.shape[:-2], -1)[..., self.row].T)

    def predict_from_raters(self, rater_sets: Iterable[NDArray[np.intp]], fit: heldout.Fit) -> Floats:
        """Out-of-fold predictions from m sets of raters, (m, rows)."""
        return np.stack(
            [
                heldout.predict_out_of_fold(self.x[:, rater_positions], self.y, self.fold, groups=self.groups, fit=fit)
                for rater_positions in rater_sets
            ]
        )

    def agreement(self, predictions: Floats) -> Floats:
        """Held-out tau-b of predictions (m, rows) in every resample: (1 + B, m).

        `y` may be (m, rows), with a target for each prediction.
        """
        return heldout.held_out_statistic(
            partial(pooled_correlation, "kendall"),
            # Each output is a separate item, so that all outputs of a fold are ranked together.
            self.y[..., np.newaxis],
            heldout.round_predictions(predictions)[..., np.newaxis],
            self.fold[:, np.newaxis],
            units=self.groups,
            weights=self.times,
        )


def target_of(raters: RaterScores, target_index: int, folds: Folds, resamples: int, rng: np.random.Generator) -> Target:
    """Return the target for an aspect that annotators rated on at least two items or clusters."""
    flat_ratings = raters.scores[target_index].ravel()
    rated_output_positions = np.flatnonzero(np.isfinite(flat_ratings))
    cluster_of_rated_output = raters.design.units[rated_output_positions // raters.scores.shape[2]]
    return Target(
        rater_scores=raters,
        target_index=target_index,
        row=rated_output_positions,
        y=flat_ratings[rated_output_positions],
        groups=cluster_of_rated_output,
        fold=(grouped_folds if folds == "item" else plain_folds)(
            cluster_of_rated_output, n_folds=min(N_FOLDS, len(np.unique(cluster_of_rated_output))), rng=rng
        ),
        whole=folds == "item",
        times=raters.design.draw_weights(resamples, rng, dtype=np.uint8),
    )


def without_lone_items(raters: RaterScores) -> RaterScores:
    """Return the raters without the human aspects that were rated on only one item or cluster."""
    aspect_of_unusable_rater = {
        raters.names[rater_index]: raters.rater_aspects[rater_index]
        for rater_index in raters.select_kind("human")
        if count_clusters(raters, rater_index) < 2
    }
    return replace(
        raters,
        scores=np.where(
            np.array([rater in aspect_of_unusable_rater for rater in raters.names])[:, np.newaxis, np.newaxis],
            np.nan,
            raters.scores,
        ),
        annotators=np.where(
            np.array([aspect in aspect_of_unusable_rater.values() for aspect in raters.aspects])[
                :, np.newaxis, np.newaxis, np.newaxis
            ],
            np.nan,
            raters.annotators,
        ),
        constant=(*raters.constant, *aspect_of_unusable_rater),
        left_out=(
            *raters.left_out,
            *(
                (rater, "annotators rated only one item or cluster, but cross-validation needs two")
                for rater in aspect_of_unusable_rater
            ),
        ),
    )


def count_clusters(raters: RaterScores, rater_index: int) -> int:
    """Return the number of clusters of items that a rater rated."""
    return len(np.unique(raters.design.units[np.isfinite(raters.scores[rater_index]).any(axis=1)]))


def match_metrics(raters: RaterScores, patterns: Patterns) -> NDArray[np.intp]:
    """Return the positions (among the metrics) of the metrics that match the patterns.

    If a pattern matches the name of a rater, the scores of this rater under all aspects match.
    """
    aspect_and_rater_names = [(raters.names[index], raters.raters[index]) for index in raters.select_kind(METRIC)]
    selected_names = select_labels(
        patterns, list(dict.fromkeys(chain(*zip(*aspect_and_rater_names, strict=True)))), option="in_use", what="metric"
    )
    return np.flatnonzero([not {*name_pair}.isdisjoint(selected_names) for name_pair in aspect_and_rater_names])
