"""Scores for one aspect, and tie thresholds of scores.

Only items with scores are stored; the arrays are expanded to all items on demand.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from custodes.answers.shared_arguments import Ties
from custodes.data.comparisons import MOST_CELLS
from custodes.errors import InputError
from custodes.stats.accuracy import acc_eq
from custodes.stats.arrays import Floats, make_read_only
from custodes.stats.bootstrap import with_point

CALIBRATION_FOLDS = 5


@dataclass(frozen=True, kw_only=True)
class ItemScores:
    """Scores of the k items that have scores.

    `items` (k,) are the positions of these items among all `n_items` items, in ascending order. `persons` (annotators,
    k, systems) are the scores of annotators, `human` (k, systems) is the mean over annotators, and `metrics` (metrics,
    k, systems) are the scores of metrics. Scores are NaN if not rated.
    """

    items: NDArray[np.int64]
    n_items: int
    persons: Floats
    human: Floats
    metrics: Floats

    def __post_init__(self) -> None:
        make_read_only(self)

    @classmethod
    def from_all_items(cls, *, persons: Floats, human: Floats, metrics: Floats) -> ItemScores:
        """Return the scores of a study in which every item has scores."""
        return cls(items=np.arange(len(human)), n_items=len(human), persons=persons, human=human, metrics=metrics)

    def spread(self, values: Floats) -> Floats:
        """Return values (..., k, systems) expanded to all items, (..., items, systems); NaN for items without scores.

        Raises `InputError` if the expanded values do not fit into memory, for example with millions of verdicts on
        hundreds of systems.
        """
        if len(self.items) == self.n_items:
            return values
        shape = (*values.shape[:-2], self.n_items, values.shape[-1])
        if 8 * np.prod(shape, dtype=np.float64) > MOST_CELLS:
            raise InputError(
                f"{self.n_items} items x {shape[-1]} systems do not fit into memory for a question about "
                "scores. Select fewer, or use leaderboard, favoritism, ranking or correction, which "
                "read only comparisons"
            )
        expanded_values = np.full(shape, np.nan)
        expanded_values[..., self.items, :] = values
        return make_read_only(expanded_values)

    def on(self, items: NDArray[np.intp]) -> ItemScores:
        """Return the scores of the items at these positions, which are in ascending order."""
        _, rows, positions = np.intersect1d(self.items, items, return_indices=True)
        return replace(
            self,
            items=positions,
            n_items=len(items),
            persons=self.persons[:, rows],
            human=self.human[rows],
            metrics=self.metrics[:, rows],
        )


def tie_thresholds(
    ties: Ties, *, human: Floats, human_tie: float, scores: Floats, units: NDArray[np.int64]
) -> tuple[Floats, Floats]:
    """Return the tie threshold of each metric, and the tie threshold of each metric on each item.

    To calibrate thresholds, clusters are divided into folds. The threshold of an item is fitted on the other folds.
    """
    n_metrics, n_items = scores.shape[:2]
    if ties != "calibrated" or not n_items:
        epsilon = np.full(n_metrics, 0.0 if isinstance(ties, str) else float(ties))
        return epsilon, np.repeat(epsilon[:, None], n_items, axis=1)
    n_units = int(units.max()) + 1
    fold_of_unit = np.arange(n_units) % CALIBRATION_FOLDS
    is_training = np.stack([(fold_of_unit != k).astype(np.float64) for k in range(min(CALIBRATION_FOLDS, n_units))])
    weights = with_point(is_training if n_units > 1 else is_training[:0])
    _, thresholds = acc_eq(human, scores, human_tie=human_tie, units=units, weights=weights, item_weights=None)
    thresholds = np.nan_to_num(thresholds, nan=0.0)
    per_item = (
        thresholds[1:][fold_of_unit[units]].T if n_units > 1 else np.repeat(thresholds[0][:, None], n_items, axis=1)
    )
    return thresholds[0], per_item
