"""Prediction of the rank sums of systems (system level), with the compared systems left out of the fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.answers.tables import with_interval
from custodes.errors import InputError
from custodes.evaluate.ceiling.prediction_target import PredictedAspect
from custodes.evaluate.ceiling.predictions import error_columns
from custodes.evaluate.comparable import label_of
from custodes.evaluate.rater_scores import RaterScores
from custodes.memory import check_memory, count_resample_values
from custodes.stats import bootstrap, intervals
from custodes.stats.arrays import Floats, round_for_sorting
from custodes.stats.learning import heldout
from custodes.stats.learning.lasso import ALPHAS, fit_lasso
from custodes.stats.learning.systems_left_out import (
    held_out_errors,
    order_agreement,
    predicted_orders,
    win_matrix,
    win_rates,
)
from custodes.stats.ranks import difference_signs
from custodes.stats.ratios import mean_of_defined, ratio

FEWEST_SYSTEMS = 6
"""Minimum number of systems. Each model is fitted to all systems but two."""


@dataclass(frozen=True, kw_only=True)
class SystemTarget(PredictedAspect):
    """The rank sums of systems by one aspect.

    `systems` (N,) are the systems with a rating of the aspect. `wins` (raters, N, N) counts, for each rater, how often
    the row system beats the column system. `times` (1 + B, N) are bootstrap weights of systems; row 0 is the data."""

    systems: NDArray[np.intp]
    wins: Floats
    times: NDArray[np.uint8]

    @property
    def n_clusters(self) -> int:
        """Number of systems."""
        return len(self.systems)

    @cached_property
    def rates(self) -> Floats:
        """Win rate against all other systems, (raters, N). The win rate is the rank sum, scaled to values from 0 to
        1."""
        return win_rates(self.wins, np.arange(self.n_clusters))

    @cached_property
    def truth(self) -> NDArray[np.int8]:
        """Order of the two systems of each pair by the aspect, (pairs,)."""
        return _pair_orders(self.rates[self.target_index])

    def agreement(self, rater_sets: Sequence[NDArray[np.intp]], fit: heldout.Fit) -> Floats:
        """Tau-b of the predictions from each set of raters, (1 + B, sets).

        The model that predicts a pair of systems is fitted without this pair.
        """
        return order_agreement(
            np.stack(
                [
                    predicted_orders(self.wins[rater_positions], self.wins[self.target_index], fit)
                    for rater_positions in rater_sets
                ]
            ),
            self.truth,
            weights=self.times,
        )

    def unexplained_variance(self, rater_sets: Sequence[NDArray[np.intp]], fit: heldout.Fit) -> Floats:
        """Squared errors of predictions for left-out systems, divided by squared errors of the mean: (1 + B, sets)."""
        model_and_mean_errors = [
            held_out_errors(self.wins[rater_positions], self.wins[self.target_index], fit)
            for rater_positions in rater_sets
        ]
        error_sums_of_model, error_sums_of_mean = (
            bootstrap.weighted_sums(self.times, np.stack(errors_of_sets))
            for errors_of_sets in zip(*model_and_mean_errors, strict=True)
        )
        return ratio(error_sums_of_model, error_sums_of_mean)

    def split_half_columns(self, confidence: float, rng: np.random.Generator) -> dict[str, Any]:
        """Return the columns of `annotators`: agreement of the orders by two halves of the annotators.

        The bound for a predictor is not estimated at the system level.
        """
        if len(self.persons) < 2:
            return {}
        ratings, annotator_halves = self.split_annotators(rng)
        annotator_scores = ratings[:, :, self.systems]

        def order_by_half(annotators_of_half: NDArray[np.intp]) -> NDArray[np.int8]:
            win_matrices = win_matrix(
                mean_of_defined(annotator_scores[annotators_of_half], axis=0)[np.newaxis],
                item_weights=self.rater_scores.design.weights,
            )
            return _pair_orders(win_rates(win_matrices[0], np.arange(self.n_clusters)))

        agreement_draws = [
            order_agreement(order_by_half(first_half)[np.newaxis], order_by_half(second_half), weights=self.times)
            for first_half, second_half in annotator_halves
        ]
        return {
            "annotators": len(annotator_scores),
            **with_interval(
                "split_half",
                mean_of_defined(np.stack(agreement_draws), axis=0),
                confidence,
                clusters=self.n_clusters,
                bounds=intervals.CORRELATION,
            ),
            **dict.fromkeys(("attainable", "attainable_low", "attainable_high"), np.nan),
        }

    def information_columns(self, confidence: float) -> dict[str, Any]:
        """Return the columns of `information`; empty if the annotators rated no other aspect."""
        if "both" not in self.columns:
            return {}
        return error_columns(
            {
                feature_set: held_out_errors(
                    self.wins[self.columns[feature_set]],
                    self.wins[self.target_index],
                    lambda x, y, _: fit_lasso(x, y, alphas=ALPHAS),
                )[0]
                for feature_set in ("metrics", "both")
            },
            self.times,
            self.n_clusters,
            confidence,
            self.n_clusters,
        )


def _pair_orders(win_rate_of_system: Floats) -> NDArray[np.int8]:
    """Order of the two systems of each pair by win rates (N,): (pairs,)."""
    first_systems, second_systems = np.triu_indices(len(win_rate_of_system), 1)
    rounded_win_rates = round_for_sorting(win_rate_of_system)
    return difference_signs(rounded_win_rates[first_systems], rounded_win_rates[second_systems])


def system_target_of(raters: RaterScores, target_index: int, resamples: int, rng: np.random.Generator) -> SystemTarget:
    """Return the target of an aspect at the system level.

    Raises
    ------
    InputError
        If fewer than `FEWEST_SYSTEMS` systems share rated items with other systems.
    """
    win_matrices = win_matrix(raters.scores, item_weights=raters.design.weights)
    # A system needs an opponent even when two of the other systems are left out.
    system_positions = np.flatnonzero(np.isfinite(win_matrices[target_index]).sum(axis=1) > 2)
    if len(system_positions) < FEWEST_SYSTEMS:
        raise InputError(
            f"{len(system_positions)} systems with human ratings{label_of(raters.rater_aspects[target_index])} are "
            f"too few: level='system' needs at least {FEWEST_SYSTEMS}; use level='output'"
        )
    check_memory("resamples", resamples, count_resample_values(resamples, len(system_positions) ** 2 / 2))
    return SystemTarget(
        rater_scores=raters,
        target_index=target_index,
        systems=system_positions,
        wins=win_matrices[:, system_positions[:, np.newaxis], system_positions],
        times=bootstrap.bootstrap_weights(len(system_positions), resamples, rng, dtype=np.uint8),
    )
