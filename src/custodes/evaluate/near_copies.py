"""Near copies: metrics that rank the outputs of an item almost equally and have the same finding of partiality."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from custodes.evaluate.partiality_table import DISFAVOURED, FAVOURED
from custodes.evaluate.rater_comparison import RaterComparison
from custodes.stats.arrays import Floats, Ints, chunks
from custodes.stats.rank_distance import rank_distances
from custodes.stats.system_scores import weighted_item_mean

NEAR_COPY = 0.2
"""Maximum complementarity of near copies, which corresponds to a Kendall's tau-b within items of at least .6.

Variants of one metric (ROUGE-n, BLEU-n, precision and F1) have a complementarity between 0 and .17 on SummEval, HANNA
and DialSummEval.
"""


def near_copies(comparison: RaterComparison, finding: Sequence[str]) -> list[list[str]]:
    """Return the names of the near copies with the same finding, for each metric and system.

    `finding` and the returned list have one entry per metric and system, in the order of the table `partiality`.
    Metrics without scores of outputs have no near copies.
    """
    n_metrics, n_systems = len(comparison.metrics), len(comparison.systems)
    codes = np.select([np.array(finding) == name for name in (FAVOURED, DISFAVOURED)], [1, -1], 0)
    codes = codes.reshape(n_metrics, n_systems)
    first, second = np.triu_indices(n_metrics, 1)
    shared = np.concatenate(
        [
            ((codes[first[some]] == codes[second[some]]) & (codes[first[some]] != 0)).any(axis=1)
            for some in chunks(len(first), n_systems)
        ]
        or [np.zeros(0, dtype=bool)]
    )
    first, second = first[shared], second[shared]
    near = _complementarity(comparison, first, second) <= NEAR_COPY
    copies: list[list[str]] = [[] for _ in finding]
    for a, b in zip(first[near].tolist(), second[near].tolist(), strict=True):
        for system in np.flatnonzero((codes[a] == codes[b]) & (codes[a] != 0)).tolist():
            copies[a * n_systems + system].append(comparison.metrics[b])
            copies[b * n_systems + system].append(comparison.metrics[a])
    return copies


def _complementarity(comparison: RaterComparison, first: Ints, second: Ints) -> Floats:
    """Return the complementarity of each pair of metrics at the system level by tau-b distance; NaN if undefined."""
    scores, design = comparison.scores, comparison.design
    units = design.units[scores.items]
    weights = None if design.item_weights is None else design.item_weights[scores.items]
    means = [
        weighted_item_mean(
            rank_distances(scores.metrics, first[some], second[some], rule="tau-b"),
            units=units,
            weights=np.ones((1, design.n_units)),
            item_weights=weights,
        )[0]
        for some in chunks(len(first), len(units))
    ]
    return np.concatenate(means) if means else np.zeros(0)
