"""Scores of a part of the items: missing values fill the rest unless the shapes do not fit."""

from __future__ import annotations

import numpy as np
import pytest

import custodes as cu
from custodes.evaluate.scores import ItemScores


def scores(n_items: int) -> ItemScores:
    """Return scores of two systems on the first and the third of all items."""
    human = np.array([[1.0, 2.0], [3.0, 4.0]])
    return ItemScores(items=np.array([0, 2]), n_items=n_items, persons=human[None], human=human, metrics=-human[None])


def test_items_without_scores_are_missing() -> None:
    missing = [np.nan, np.nan]
    np.testing.assert_array_equal(scores(4).spread(scores(4).human), [[1, 2], missing, [3, 4], missing])


def test_more_cells_than_memory_holds_are_refused() -> None:
    with pytest.raises(cu.InputError, match="1000000000000 items x 2 systems do not fit into memory"):
        scores(10**12).spread(scores(10**12).human)
