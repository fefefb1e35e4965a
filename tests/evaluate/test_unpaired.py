from __future__ import annotations

from itertools import combinations

import numpy as np
import polars as pl
import pytest

import custodes as cu
from tests.evaluate.studies import study_of


def gaps(seed: int, share: float, *, n_humans: int = 3) -> np.ndarray:
    """Return scores of three annotators with gaps, and of a metric."""
    rng = np.random.default_rng(seed)
    scores = rng.integers(1, 6, (n_humans + 1, 40, 4)).astype(float)
    scores[:n_humans][rng.random((n_humans, 40, 4)) < share] = np.nan
    return scores


def count_unpaired(persons: np.ndarray) -> int:
    """Count comparisons by definition: both outputs have a human rating, and no annotator rated both."""
    rated = np.isfinite(persons)
    return sum(
        bool(rated[:, i, a].any() and rated[:, i, b].any() and not (rated[:, i, a] & rated[:, i, b]).any())
        for i in range(persons.shape[1])
        for a, b in combinations(range(persons.shape[2]), 2)
    )


@pytest.mark.parametrize(("share", "aggregate"), [(0.0, "mean"), (0.3, "mean"), (0.6, "vote")])
def test_comparisons_without_a_common_annotator_are_counted(share: float, aggregate: str) -> None:
    scores = gaps(0, share)
    study, expected = study_of(scores, people=3), count_unpaired(scores[:3])
    assert (expected > 0) is (share > 0)
    for question in (cu.agreement, cu.leaderboard, cu.favoritism):
        notes = question(study, resamples=0, aggregate=aggregate).notes  # type: ignore[operator]
        assert [note.count for note in notes if note.rule == "unpaired"] == ([expected] if expected else [])
        assert all(note.message.startswith(f"{expected} comparisons") for note in notes if note.rule == "unpaired")
    checked = cu.check(study, aggregate=aggregate)
    assert checked.summary["unpaired"].to_list() == [expected]
    assert ("unpaired" in set(checked.problems["rule"])) is bool(expected)
    alone = cu.check(study_of(scores[:3], people=3), aggregate=aggregate)
    assert alone.summary["unpaired"].to_list() == [expected]


@pytest.mark.parametrize("columns", [None, {"item": "doc", "system": "sys", "score": ["ann{rater}"]}])
def test_empty_cells_of_a_wide_table_are_cells(columns: dict[str, object] | None) -> None:
    frame = pl.DataFrame(
        {"item": np.repeat(range(10), 2), "system": list("AB") * 10, "ann1": [1.0, None] * 10, "ann2": [None, 2.0] * 10}
    )
    if columns:
        frame = frame.rename({"item": "doc", "system": "sys"})
    study = cu.read(frame, columns=columns)
    message = next(note.message for note in study.notes if note.rule == "missing-score")
    assert message == "table: 20 cells have no score and count as not rated"
    long = pl.DataFrame({"item": ["x", "x"], "system": ["A", "B"], "rater": "h", "score": [1.0, None]})
    message = next(note.message for note in cu.read(long).notes if note.rule == "missing-score")
    assert message == "table: 1 rows have no score and count as not rated"
