"""Agreement of choices as rows: the numbers of the dense arrays, and the same law of resamples."""

from __future__ import annotations

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import custodes as cu
from tests.evaluate.sparse import choose, study


def asked(
    monkeypatch: pytest.MonkeyPatch, *, sparse: bool, seed: int = 4, rng: int = 0, **options: int
) -> cu.Agreement:
    choose(monkeypatch, sparse=sparse)
    return cu.agreement(study(seed, scores=False, **options), resamples=300, rng=rng)


@pytest.mark.parametrize("options", [{}, {"per_cluster": 4}, {"n_items": 90}])
def test_rows_say_what_all_cells_say(monkeypatch: pytest.MonkeyPatch, options: dict[str, int]) -> None:
    dense, rows = (asked(monkeypatch, sparse=sparse, **options) for sparse in (False, True))
    drawn = pl.selectors.ends_with("_low", "_high")
    assert_frame_equal(dense.metrics.drop(drawn), rows.metrics.drop(drawn))
    assert_frame_equal(dense.common, rows.common)
    assert dense.notes == rows.notes
    # 300 resamples leave an end of an interval by up to a tenth of its width
    names = ["metric_a", "metric_b", "statistic", "n", "difference"]
    assert_frame_equal(dense.comparisons.select(names), rows.comparisons.select(names))
    known = ["metric", "statistic", "value", "chance", "side"]
    assert_frame_equal(dense.standing.select(known), rows.standing.select(known))
    for name in ("sample_accuracy_low", "sample_accuracy_high", "system_accuracy_low", "system_accuracy_high"):
        one, other = dense.metrics[name], rows.metrics[name]
        assert one.is_null().to_list() == other.is_null().to_list()
        assert (one - other).abs().max() < 0.08, name
