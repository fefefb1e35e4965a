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
from custodes.evaluate.ceiling.missing_information import error_columns, lasso_columns
from custodes.evaluate.ceiling.prediction_target import PredictedAspect
from custodes.evaluate.ceiling.predictions import SPLITS
from custodes.evaluate.comparable import label_of
from custodes.evaluate.rater_scores import RaterScores
from custodes.memory import check_memory, count_resample_values
from custodes.stats import bootstrap, intervals, split_half
from custodes.stats.arrays import Floats, round_for_sorting
from custodes.stats.learning import heldout
from custodes.stats.learning.lasso import ALPHAS
from custodes.stats.learning.systems_left_out import (
    held_out_errors,
    lasso_held_out_errors,
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
        """(raters, N): win rate against all other systems. This is the rank sum, scaled to values from 0 to 1."""
        return win_rates(self.wins, np.arange(self.n_clusters))

    @cached_property
    def truth(self) -> NDArray[np.int8]:
        """(pairs,): order of the two systems of each pair by the aspect."""
        return _orders(self.rates[self.me])

    def agreement(self, sets: Sequence[NDArray[np.intp]], fit: heldout.Fit) -> Floats:
        """(1 + B, sets): tau-b of the predictions from each set of raters.

        The model that predicts a pair of systems is fitted without this pair.
        """
        orders = [predicted_orders(self.wins[columns], self.wins[self.me], fit) for columns in sets]
        return order_agreement(np.stack(orders), self.truth, weights=self.times)

    def unexplained_variance(self, sets: Sequence[NDArray[np.intp]], fit: heldout.Fit) -> Floats:
        """(1 + B, sets): squared errors of predictions for left-out systems, divided by squared errors of the mean."""
        error_pairs = [held_out_errors(self.wins[columns], self.wins[self.me], fit) for columns in sets]
        errors, errors_of_mean = (
            bootstrap.weighted_sums(self.times, np.stack(arrays)) for arrays in zip(*error_pairs, strict=True)
        )
        return ratio(errors, errors_of_mean)

    def split_half_columns(self, confidence: float, rng: np.random.Generator) -> dict[str, Any]:
        """Return the columns of `annotators`: agreement of the orders by two halves of the annotators.

        The bound for a predictor is not estimated at this level.
        """
        if len(self.persons) < 2:
            return {}
        sorted_persons = sorted(
            self.persons, key=self.who.people.__getitem__
        )  # halves do not depend on the input order
        scores = np.stack([self.persons[person] for person in sorted_persons])[:, :, self.systems]
        weights = self.who.design.item_weights

        def order_by_half(half: NDArray[np.intp]) -> NDArray[np.int8]:
            wins = win_matrix(mean_of_defined(scores[half], axis=0)[np.newaxis], item_weights=weights)
            return _orders(win_rates(wins[0], np.arange(self.n_clusters)))

        draws = [
            order_agreement(order_by_half(first_half)[np.newaxis], order_by_half(second_half), weights=self.times)
            for first_half, second_half in split_half.halves(len(scores), most=SPLITS, rng=rng)
        ]
        mean_agreement = mean_of_defined(np.stack(draws), axis=0)
        return {
            "annotators": len(scores),
            **with_interval(
                "split_half", mean_agreement, confidence, clusters=self.n_clusters, bounds=intervals.CORRELATION
            ),
            **dict.fromkeys(("attainable", "attainable_low", "attainable_high"), np.nan),
        }

    def information_columns(self, confidence: float) -> dict[str, Any]:
        """Return the columns of `information`; empty if the annotators rated no other aspect."""
        if "both" not in self.columns:
            return {}
        errors = {
            features: lasso_held_out_errors(self.wins[self.columns[features]], self.wins[self.me], alphas=ALPHAS)
            for features in ("metrics", "both")
        }
        return error_columns(errors, self.times, self.n_clusters, confidence, self.n_clusters)

    def lasso_columns(self) -> dict[str, Any]:
        """Return the columns of `lasso`: weights fitted to all systems."""
        return lasso_columns(self, self.rates.T, self.rates[self.me])


def _orders(rates: Floats) -> NDArray[np.int8]:
    """(pairs,): order of the two systems of each pair by win rates (N,)."""
    first, second = np.triu_indices(len(rates), 1)
    rates = round_for_sorting(rates)
    return difference_signs(rates[first], rates[second])


def system_target_of(raters: RaterScores, target_index: int, resamples: int, rng: np.random.Generator) -> SystemTarget:
    """Return the target of an aspect at the system level.

    Raises
    ------
    InputError
        If fewer than `FEWEST_SYSTEMS` systems share rated items with other systems.
    """
    item_weights = raters.design.item_weights
    wins = win_matrix(raters.scores, item_weights=item_weights)
    # A system needs an opponent when a pair of other systems is left out.
    systems = np.flatnonzero(np.isfinite(wins[target_index]).sum(axis=1) > 2)
    if len(systems) < FEWEST_SYSTEMS:
        raise InputError(
            f"{len(systems)} systems with human ratings{label_of(raters.rater_aspects[target_index])} are too few: "
            f"level='system' needs at least {FEWEST_SYSTEMS}; use level='output'"
        )
    check_memory("resamples", resamples, count_resample_values(resamples, len(systems) ** 2 / 2))
    return SystemTarget(
        who=raters,
        me=target_index,
        systems=systems,
        wins=wins[:, systems[:, np.newaxis], systems],
        times=bootstrap.bootstrap_weights(len(systems), resamples, rng, dtype=np.uint8),
    )
