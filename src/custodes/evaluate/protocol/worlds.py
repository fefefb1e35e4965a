"""Assumptions of a plan: outcome proportions of pairs of systems and errors of a metric, assumed or from a pilot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from custodes.answers.shared_arguments import NONE, PreferenceOptions
from custodes.data.study import Study
from custodes.errors import OptionError, reject
from custodes.evaluate.parallel import labelled_generators
from custodes.evaluate.protocol.annotations import IDEAL, IDEAL_MIXTURE, comparisons_of, shares_of
from custodes.evaluate.rater_comparison import RaterComparison
from custodes.stats.arrays import Floats, table_sums
from custodes.stats.stopping.pilot import Pilot, posterior_shares

MARGINS = (0.0, 0.1, 0.2, 0.3, 0.4)
TIE_RATE = 0.3


@dataclass(frozen=True, kw_only=True)
class World:
    """Assumptions of a plan.

    `shares` (pairs, 3) are outcome proportions, and `possible` (replications, pairs, 3) are posterior draws of these
    proportions. `systems` are the names of the first and the second system of each pair, None without a pilot.
    `channel` (3, 3) [human, metric] is the confusion matrix of the metric; rows sum to 1. `clustered` tells whether
    items of the pilot are clustered.
    """

    aspect: str
    metric: str
    shares: Floats
    possible: Floats
    channel: Floats | None
    systems: tuple[Sequence[str | None], Sequence[str | None]]
    clustered: bool = False


def assumed_world(
    margins: Sequence[float] | None, tie_rate: float, channel: ArrayLike | Literal["ideal"] | None, replications: int
) -> World:
    margin_values = np.asarray(MARGINS if margins is None else margins, dtype=np.float64)
    reject(
        (
            not 0 <= tie_rate < 1,
            f"tie_rate={tie_rate} is not allowed; give a proportion of at least 0 and less than 1",
        ),
        (
            not (np.abs(margin_values) <= 1 - tie_rate + 1e-12).all(),
            f"margins={margins} is not allowed; with tie_rate={tie_rate:g}, a margin lies between -{1 - tie_rate:g} "
            f"and {1 - tie_rate:g}",
        ),
    )
    outcome_shares = np.stack(
        [(1 - tie_rate + margin_values) / 2, np.full(len(margin_values), tie_rate), (1 - tie_rate - margin_values) / 2],
        axis=1,
    ).clip(0, 1)
    outcome_share_draws = np.broadcast_to(outcome_shares, (replications, *outcome_shares.shape))
    metric_name, metric_confusion_matrix = (NONE, None) if channel is None else _channel_of(channel)
    return World(
        aspect="",
        metric=metric_name,
        shares=outcome_shares,
        possible=outcome_share_draws,
        channel=metric_confusion_matrix,
        systems=([None] * len(margin_values), [None] * len(margin_values)),
    )


def _channel_of(channel: ArrayLike | Literal["ideal"]) -> tuple[str, Floats]:
    """Return the name of a metric with this confusion matrix, and the matrix with rows that sum to 1."""
    if isinstance(channel, str):
        if channel != IDEAL:
            raise OptionError(
                f"channel={channel!r} is not allowed; give a 3x3 table (rows: human, columns: metric), or 'ideal'"
            )
        return IDEAL, IDEAL_MIXTURE.T
    try:
        confusion_matrix = np.asarray(channel, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        confusion_matrix = np.zeros(0)
    if (
        confusion_matrix.shape != (3, 3)
        or not (np.isfinite(confusion_matrix) & (confusion_matrix >= 0)).all()
        or not confusion_matrix.sum(axis=1).all()
    ):
        raise OptionError(
            "channel is not a valid confusion matrix; give 3x3 counts or proportions (rows: human, "
            "columns: metric) in the order win, tie, loss; no row may contain only zeros"
        )
    return "channel", confusion_matrix / confusion_matrix.sum(axis=1, keepdims=True)


def pilot_worlds(
    pilot: Study, setting: PreferenceOptions, n_posterior_draws: int, rng: np.random.Generator
) -> Iterator[World]:
    comparisons = comparisons_of(pilot, setting)
    aspect_generators = labelled_generators([comparison.aspect for comparison in comparisons], rng)
    for comparison, posterior_generator in zip(comparisons, aspect_generators, strict=True):
        human_comparisons, design = comparison.preferences.select_rater(0), comparison.design
        # Pairs compared by annotators.
        compared_pair_codes, pair_index_of_comparison = np.unique(human_comparisons.pair, return_inverse=True)
        human_pilot = Pilot(
            pair=pair_index_of_comparison,
            unit=design.units[human_comparisons.item],
            sign=human_comparisons.sign,
            systems=design.pairs[compared_pair_codes],
        )
        outcome_share_draws = posterior_shares(human_pilot, n_draws=n_posterior_draws, rng=posterior_generator)
        first_system_names, second_system_names = np.take(comparison.systems, human_pilot.systems.T).tolist()
        for metric_index, metric in enumerate(comparison.metrics or (NONE,)):
            yield World(
                aspect=comparison.aspect,
                metric=metric,
                shares=shares_of(human_pilot.outcome),
                possible=outcome_share_draws,
                channel=None if metric == NONE else _confusion_matrix(comparison, metric_index),
                systems=(first_system_names, second_system_names),
                clustered=design.has_clusters,
            )


def _confusion_matrix(comparison: RaterComparison, metric_index: int) -> Floats:
    """Return posterior means of the metric's confusion matrix given human preferences; pairs count in both orders."""
    joint_comparisons = comparison.preferences.joint(0, 1 + metric_index)
    human_signs, metric_signs = joint_comparisons.signs[:, joint_comparisons.is_rated_by_all]
    joint_outcome_counts = table_sums(1 - human_signs, 1 - metric_signs, shape=(3, 3))
    return _channel_of(joint_outcome_counts + joint_outcome_counts[::-1, ::-1] + 1)[1]
