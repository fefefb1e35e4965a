"""Covariates: differences of outputs in words and in scores, and their names."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.data.comparisons import Comparisons
from custodes.errors import OptionError
from custodes.evaluate.leaderboard.covariates import check_names, covariate
from custodes.stats import ABSENT


def test_differences_are_those_of_the_two_outputs(tmp_path: Path) -> None:
    words = {("i1", "A"): 3, ("i1", "B"): 0, ("i2", "A"): 1, ("i2", "B"): 8, ("i2", "C"): 2}
    texts = [{"item": i, "outputs": {s: " w" * n for (j, s), n in words.items() if i == j}} for i in ("i1", "i2")]
    (tmp_path / "o.jsonl").write_text("\n".join(json.dumps(row) for row in texts))
    scores = {("i1", "A"): 1.0, ("i1", "B"): 4.0, ("i2", "A"): 2.0, ("i2", "B"): 7.0, ("i2", "C"): 3.0}
    rows = [
        (i, s, "m", "metric", aspect, x + shift)
        for aspect, shift in (("x", 0), ("y", 5))
        for (i, s), x in scores.items()
    ]
    rows += [("i2", "C", "m", "metric", "x", 5.0)]  # a repeated score counts by its mean, 4
    names = ["item", "system", "rater", "kind", "aspect", "score"]
    frame = pl.DataFrame(rows, schema=names, orient="row").with_columns(
        repeat=pl.int_range(pl.len()).over("item", "system", "aspect").cast(pl.String)
    )
    frame.write_csv(tmp_path / "r.csv")
    study = cu.read(tmp_path / "r.csv", tmp_path / "o.jsonl")
    signs = np.array([[[1, 1]], [[ABSENT, 0]], [[ABSENT, -1]]], dtype=np.int8)  # pairs AB, AC, BC of i1 and i2
    comparisons = Comparisons.from_signs(signs, raters=["h"], items=["i1", "i2"], systems="ABC")
    by_length = covariate("length", study, aspect="x")
    logs = {key: np.log(max(n, 1)) for key, n in words.items()}
    pairs = [("i1", "A", "B"), ("i2", "A", "B"), ("i2", "A", "C"), ("i2", "B", "C")]
    expected = [logs[i, a] - logs[i, b] for i, a, b in pairs]
    assert by_length.differences(comparisons).tolist() == pytest.approx(expected)
    means = scores | {("i2", "C"): 4.0}
    sd = np.std(list(means.values()), ddof=1)
    by_score = covariate("m", study, aspect="x")
    expected = [(means[i, a] - means[i, b]) / sd for i, a, b in pairs]
    assert by_score.differences(comparisons).tolist() == pytest.approx(expected)
    missing = cu.read(tmp_path / "r.csv").ratings.frame.filter(pl.col("item") == "i2")
    partly = covariate("m", cu.read(missing.with_columns(kind=pl.lit("metric"))), aspect="y")
    assert np.isnan(partly.differences(comparisons)).tolist() == [True, False, False, False]
    check_names(["length", "m"], study)
    with pytest.raises(OptionError, match=r"no rater with this name gave scores.*allowed are length .* \(m\)"):
        check_names(["mm"], study)
    with pytest.raises(OptionError, match="has no texts whose words could be counted"):
        check_names(["length"], cu.read(tmp_path / "r.csv"))


def test_constant_scores_are_no_division_by_zero() -> None:
    frame = pl.DataFrame(
        {"item": ["i1", "i1"], "system": ["A", "B"], "rater": "m", "kind": "metric", "score": [2.0, 2.0]}
    )
    comparisons = Comparisons.from_signs(np.ones((1, 1, 1), dtype=np.int8), raters=["h"], items=["i1"], systems="AB")
    assert covariate("m", cu.read(frame), aspect="").differences(comparisons).tolist() == [0]
