"""Test of the assumption that annotated comparisons are a random part of the comparisons of each metric."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

import numpy as np

from custodes.answers.wording import p_value_phrase
from custodes.data.interim_analyses import SEQUENTIAL_RULE
from custodes.data.notes import Note, build_notes
from custodes.errors import join_labels
from custodes.evaluate.comparable import label_of
from custodes.evaluate.leaderboard.bradley_terry import NOT_RANDOM, match_comparisons
from custodes.evaluate.rater_comparison import RaterComparison
from custodes.stats.arrays import Floats
from custodes.stats.strength.random_part import p_random_within_pairs


def random_part_p_values(comparison: RaterComparison) -> Floats:
    """Return the p-value (metrics,) of 'within each pair of systems, the annotated items are a random part'.

    The result is NaN for a metric without ratings of items that are not annotated, and for studies with interim
    analyses, which draw items at random but stop by the answers.
    """
    preferences, p_values = comparison.preferences, np.full(len(comparison.metrics), np.nan)
    human = preferences.select_rater(0)
    if not len(human) or any(note.rule == SEQUENTIAL_RULE for note in comparison.notes):
        return p_values
    for metric_index in range(len(p_values)):
        metric = preferences.select_rater(1 + metric_index)
        if len(metric):
            p_values[metric_index] = p_random_within_pairs(
                metric.first,
                metric.second,
                metric.sign,
                match_comparisons(human, metric)[1],
                unit=comparison.design.units[metric.item],
                n_systems=len(comparison.systems),
            )
    return p_values


def not_random_note(metrics: Sequence[str], p_values: Floats, consequence: str, *, aspect: str) -> list[Note]:
    """Return the note on the metrics with a significant result of `random_part_p_values`; empty without such metrics.

    `consequence` is a clause on the results of the question.
    """
    is_selected = p_values < NOT_RANDOM
    p_value_text = p_value_phrase(p_values[is_selected].max()) if is_selected.any() else ""
    metrics_text = join_labels(list(compress(metrics, is_selected)), limit=4)
    message = (
        f"{metrics_text}{label_of(aspect)}: the annotated items are not a random part of the items that the metric "
        f"rated ({p_value_text}), {consequence}. Let annotators rate a random part of the items"
    )
    return build_notes(("not-random", int(is_selected.sum()), message), aspect=aspect)
