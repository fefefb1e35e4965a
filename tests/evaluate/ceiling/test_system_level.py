from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.errors import InputError, OptionError
from custodes.evaluate.ceiling.ceiling import Ceiling
from tests.evaluate.ceiling.planted import Planted, ceiling_of, rows
from tests.evaluate.judged_studies import judged
from tests.messages import exactly

SYSTEMS = 14


def many_systems(n: int = SYSTEMS) -> Planted:
    """Return qualities of systems: `a` predicts style, no metric predicts truth, and `noise` is random."""
    rng = np.random.default_rng(5)
    style, truth, *noise = rng.normal(size=(5, n))
    error = rng.normal(size=(8, 30, n))
    return {
        ("ann", "style"): style + error[0],
        ("bob", "style"): style + error[1],
        ("ann", "truth"): truth + error[2],
        ("ann", "fact"): truth + error[3],
        ("a", ""): style + error[4],
        **{(f"noise{k}", ""): values + error[5 + k] for k, values in enumerate(noise)},
    }


@pytest.fixture(scope="module")
def result() -> Ceiling:
    return ceiling_of(many_systems(), level="system", resamples=50)


def test_metrics_predict_systems_by_what_they_know(result: Ceiling) -> None:
    style, truth = (rows(result.prediction, target, "features") for target in ("style", "truth"))
    assert style["metrics"]["kendall"] > 0.6
    assert style["metrics"]["kendall_low"] > 0
    assert style["metrics"]["r2"] > 0.7
    assert truth["metrics"]["kendall"] < 0.3
    assert truth["metrics"]["r2"] < 0.2
    assert truth["humans"]["kendall"] > 0.6  # fact
    for row in (*style.values(), *truth.values()):
        assert row["n"] == SYSTEMS
        assert row["kendall_item"] is None
        assert row["kendall_low"] < row["kendall"] < row["kendall_high"]
        assert row["r2_low"] < row["r2"] < row["r2_high"] <= 1
    gap = rows(result.gaps, "truth", "features_a", "features_b")["humans", "metrics"]
    assert gap["difference"] == pytest.approx(truth["humans"]["kendall"] - truth["metrics"]["kendall"])


def test_other_aspects_are_missing_information_and_stay_longest_in_the_lasso(result: Ceiling) -> None:
    best = result.information.filter(target="truth").sort("mse_both").row(0, named=True)
    assert best["mse_ratio"] < 0.5
    first = result.lasso.filter(pl.col("weight") != 0, target="truth").sort("alpha", descending=True)
    assert first["rater"][0] == "human:fact"


def test_halves_of_annotators_are_compared_and_paths_are_empty(result: Ceiling) -> None:
    assert result.annotators["target"].to_list() == ["style"]
    assert result.annotators["split_half"][0] > 0.5
    assert result.annotators["attainable"].is_null().all()
    for table in (result.forward, result.next, result.halo):
        assert table.is_empty()


def test_too_few_systems_are_refused() -> None:
    scores = {key: values[:, :5] for key, values in many_systems().items()}
    with pytest.raises(
        InputError,
        match=exactly(
            "5 systems with human ratings for aspect 'style' are too few: level='system' needs at least 6; "
            "use level='output'"
        ),
    ):
        ceiling_of(scores, level="system")
    few = ceiling_of({key: values[:, :6] for key, values in many_systems().items()}, level="system", resamples=20)
    assert "few-systems" in [note.rule for note in few.notes]


@pytest.mark.parametrize("options", [{"folds": "plain"}, {"in_use": "a"}])
def test_options_of_outputs_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(
        OptionError,
        match=exactly(
            "folds and in_use are for level='output', but level='system' is set; omit folds and in_use, or "
            "set level='output'"
        ),
    ):
        ceiling_of(many_systems(), level="system", **options)


def test_the_order_of_systems_does_not_matter(result: Ceiling) -> None:
    reversed_scores = {key: values[:, ::-1] for key, values in many_systems().items()}
    reversed_result = cu.ceiling(judged(reversed_scores), level="system", resamples=0)
    for column in ("kendall", "r2"):
        np.testing.assert_allclose(reversed_result.prediction[column], result.prediction[column], atol=1e-6)


def test_history_is_of_systems_too() -> None:
    dates = pl.DataFrame({"rater": ["a", "noise0"], "date": ["2020", "2019"]})
    study = judged(many_systems(8)).describe(raters=dates)
    history = cu.ceiling(study, level="system", aspect="style", resamples=0).history
    assert history["date"].to_list() == ["2019", "2020"]
    assert history["kendall"][1] > history["kendall"][0] + 0.3
