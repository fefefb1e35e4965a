from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import custodes as cu
from tests.pages import blocks
from tests.real.glass_ceiling import TURNED


@pytest.fixture(scope="module")
def hanna(shared_data: Path) -> cu.Study:
    return cu.read(shared_data / "hanna" / "ratings.csv.gz").describe(raters=TURNED)


def test_ridge_on_hanna_relevance_is_as_good_as_the_prototype(hanna: cu.Study, tmp_path: Path) -> None:
    result = cu.combine(
        hanna, target="Relevance", method=["ridge", "best"], systems="!Human", metrics="@noaspect", resamples=0
    )
    ridge, best = result.comparison.iter_rows(named=True)
    # statistics.md, section 9: .294 for ridge regression over ten repeats (sd .01), .270 for the best metric.
    assert ridge["kendall"] >= 0.285
    assert 0.002 < ridge["spread"] < 0.02
    assert ridge["kendall"] > best["kendall"] + 0.02
    assert best["kendall"] == pytest.approx(0.27, abs=0.03)
    assert ridge["metrics_used"] == 72
    file = result.model.save(tmp_path / "relevance.json")
    ratings, notes = cu.CombinedMetric.load(file).score(hanna)
    assert ratings.height == 96 * 11  # Human included, which was not in the training data
    assert {note.rule for note in notes} <= {"clipped", "fitted-on"}
    assert set(ratings["aspect"]) == {"Relevance"}
    turned = {column.metric for column in result.model.columns if not column.higher_is_better}
    assert turned == {name for name in hanna.metrics if name.startswith(("BaryScore", "DepthScore", "InfoLM"))}


def test_reward_models_are_weighed_by_what_people_prefer_in_other_subsets(shared_data: Path) -> None:
    study = cu.read(shared_data / "rewardbench" / "scores.tsv.gz", reader="rewardbench")
    result = cu.combine(
        study,
        method=["pairwise", "best"],
        objective="accuracy",
        folds="group",
        metrics="!metametrics_pred",
        resamples=0,
    )
    results = {row["method"]: row for row in result.comparison.iter_rows(named=True)}
    # statistics.md, section 9: .925 for the best single model, with the benchmark's weights of its four sections.
    assert results["best"]["accuracy"] == pytest.approx(0.925, abs=0.015)
    assert results["pairwise"]["accuracy"] > results["best"]["accuracy"]
    assert result.model.method == "pairwise"
    assert len(result.model.columns) == 9
    assert result.groups.select(pl.col("group").n_unique()).item() == 23
    assert result.groups.filter(method="pairwise")["items"].sum() == 2985
    assert result.favoritism.is_empty()


def test_weights_of_the_page_give_the_published_score_of_rewardbench(
    shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    scores = pl.read_csv(shared_data / "rewardbench" / "scores.tsv.gz", separator="\t")
    scores.write_csv("rewards.csv")
    page = Path(__file__).parents[2] / "docs" / "howto" / "combine-reward-models.md"
    (code,) = (code for _, code in blocks(page, "python") if "SECTIONS" in code)
    exec(code, {"cu": cu, "pl": pl})
    study = cu.read("rewards.csv", reader="rewardbench", items="weights.csv")
    metrics = cu.agreement(study, resamples=0, metrics="metametrics_pred").metrics
    # The paper's table of RewardBench has 93.42.
    assert metrics["sample_accuracy"].item() == pytest.approx(0.9342, abs=5e-5)


def test_auto_is_not_below_the_best_metric_where_the_others_add_noise(summeval: cu.Study) -> None:
    result = cu.combine(
        summeval, target="consistency", human="expert*", method=["auto", "best"], repeats=1, resamples=0, unseen="none"
    )
    auto, best = result.comparison["kendall"]
    assert auto > best - 0.005
    assert result.model.method == "half-blend"
