"""Repeated labels of one output by one rater: agreement and alpha by hand and from the `krippendorff` package."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.stats.annotator_models import AnnotatorLabels
from custodes.stats.reliability import alpha, coincidences

WORDS = np.array(["bug", "praise", "refund"])


def repeated(n: int = 60, runs: int = 3, n_words: int = 3) -> tuple[pl.DataFrame, np.ndarray]:
    """Return labels of a judge, run by run, and their codes (outputs, runs)."""
    rng = np.random.default_rng(20_260_220)
    first = rng.integers(n_words, size=n)
    codes = np.where(rng.random((n, runs)) < 0.75, first[:, None], rng.integers(n_words, size=(n, runs)))
    rows = {
        "id": np.repeat(np.arange(n), runs),
        "run": np.tile(np.arange(runs), n),
        "human_label": WORDS[np.repeat(first, runs)],
        "judge_label": WORDS[codes.ravel()],
    }
    return pl.DataFrame(rows), codes


def test_repeats_are_compared_output_by_output() -> None:
    frame, codes = repeated()
    row = cu.consistency(frame).repeated_labels.row(0, named=True)
    pairs = [codes[:, i] == codes[:, j] for i in range(3) for j in range(3) if i != j]
    assert row["rater"] == "judge_label"
    assert (row["outputs"], row["runs"]) == (60, 3.0)
    assert row["agreement"] == pytest.approx(np.mean(pairs))
    assert row["changed"] == pytest.approx(np.mean(codes.min(axis=1) < codes.max(axis=1)))
    task, run = np.indices(codes.shape).reshape(2, -1)
    labels = AnnotatorLabels.from_labels(task, run, codes.ravel(), n_tasks=60, n_workers=3, n_labels=3)
    counts = coincidences(labels, units=np.zeros(60, dtype=int), n_units=1)[0]
    assert row["alpha"] == pytest.approx(float(alpha(counts, scale="nominal")))
    assert row["agreement_low"] < row["agreement"] < row["agreement_high"]


def test_a_human_label_beside_every_run_was_given_once() -> None:
    frame, _ = repeated()
    study = cu.read(frame)
    assert study.ratings.frame.filter(rater="human_label").height == 60
    assert cu.consistency(study).repeated_labels["rater"].to_list() == ["judge_label"]
    assert cu.rates(study, positive="refund").rates["n"].to_list() == [60]


def test_labels_once_are_refused_in_one_line() -> None:
    frame, _ = repeated()
    with pytest.raises(cu.CustodesError, match="no output that a rater labelled several times; give verdicts, scores"):
        cu.consistency(frame.filter(run=0))


def test_categories_are_not_compared_as_numbers() -> None:
    frame, _ = repeated(n=40)
    two = pl.concat([frame.with_columns(system=pl.lit(name)) for name in ("a", "b")])
    answer = cu.consistency(two)
    assert answer.repeats.is_empty()
    assert answer.repeated_labels["outputs"].to_list() == [80]


def test_repeated_scores_of_few_whole_numbers_are_labels() -> None:
    rng = np.random.default_rng(20_260_221)
    scores = {"item": np.repeat(np.arange(40), 2), "repeat": [0, 1] * 40, "system": "a", "rater": "j", "kind": "metric"}
    whole = pl.DataFrame(scores | {"score": rng.integers(1, 6, 80)})
    row = cu.consistency(whole).repeated_labels.row(0, named=True)
    values = whole["score"].to_numpy().reshape(40, 2)
    assert row["agreement"] == pytest.approx(np.mean(values[:, 0] == values[:, 1]))
    with pytest.raises(cu.CustodesError, match="no verdicts"):
        cu.consistency(pl.DataFrame(scores | {"score": rng.normal(size=80)}))
