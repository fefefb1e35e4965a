from __future__ import annotations

import polars as pl
import pytest

import custodes as cu
from custodes.errors import OptionError
from tests.evaluate.consistency.confident_judges import N, confident_judge, people, study
from tests.simulation.calibrated_judges import Sight, calibrated


def test_one_whose_chances_are_right_is_not_accused_and_one_who_is_too_sure_is() -> None:
    result = cu.consistency(
        study(people(), confident_judge(1.0, name="calm"), confident_judge(4.0, name="loud")), resamples=200
    )
    calm, loud = result.confidence.rows(named=True)
    assert calm["comparisons"] == loud["comparisons"] == N
    assert calm["brier"] < loud["brier"]
    assert calm["brier_constant"] == loud["brier_constant"] == pytest.approx(0.5)
    assert calm["brier_skill"] == pytest.approx(1 - calm["brier"] / 0.5)
    assert calm["brier_skill_low"] < calm["brier_skill"] < calm["brier_skill_high"] < 1
    assert calm["overconfidence_low"] < 0 < calm["overconfidence_high"]
    assert loud["overconfidence"] == pytest.approx(100 * (loud["mean_confidence"] - loud["accuracy"]))
    assert calm["ece"] < 1.5 * calm["expected_ece"]
    assert loud["ece"] > 2 * loud["expected_ece"]
    findings = result.findings.filter(kind="confidence").select("rater", "finding").rows()
    assert findings == [("calm", ""), ("loud", "is overconfident")]
    curve = result.reliability.filter(rater="loud")
    assert curve["verdicts"].sum() == loud["verdicts"] == 2 * N
    assert curve["mean_confidence"].is_sorted()
    assert (curve["accuracy_low"] <= curve["accuracy"]).all()
    drawn = cu.plots.judge_calibration(result, "loud").to_dict()
    rows = drawn["layer"][1].get("data", drawn.get("data"))["values"]
    assert [row["mean_confidence"] for row in rows] == curve["mean_confidence"].to_list()


def test_each_verdict_is_a_forecast_and_the_brier_score_is_that_of_their_mean() -> None:
    judge = confident_judge(1.0).with_columns(
        p_a=pl.when(pl.col("order") == "ab").then(1.0).otherwise(0.5), preference=pl.lit(1)
    )
    judge = judge.with_columns(p_b=1 - pl.col("p_a"), p_tie=pl.lit(0.0))
    won = (people()["preference"] == 1).mean()
    # Half of the verdicts state .5 for either system, and half of these occur; the mean of both orders is (.75, 0,
    # .25).
    mean, single = (won + 0.5) / 2, won
    scores = {"mean": 2 * (won * 0.25**2 + (1 - won) * 0.75**2), "first": 2 * (1 - won)}
    for orders, sure, confirmed, n in (("mean", 0.75, mean, 2 * N), ("first", 1.0, single, N)):
        row = cu.consistency(study(people(), judge), resamples=20, orders=orders).confidence.row(0, named=True)
        assert (row["comparisons"], row["verdicts"]) == (N, n)
        assert row["mean_confidence"] == pytest.approx(sure)
        assert row["accuracy"] == pytest.approx(confirmed)
        assert row["brier"] == pytest.approx(scores[orders])


@pytest.mark.parametrize(
    ("sight", "orders"),
    [
        (Sight(), "consistent"),
        (Sight(runs=2, shared=0.5), "mean"),
        (Sight(orders=("ab",), runs=3), "mean"),
        (Sight(people=3, blur=1.0), "mean"),
    ],
)
def test_a_judge_that_is_right_in_each_order_and_run_is_not_accused(sight: Sight, orders: str) -> None:
    # The mean over orders is about 10 points less confident than accurate, or 4 with half of the noise shared.
    result = cu.consistency(calibrated(sight, 600, 1), resamples=0, orders=orders, alpha=0.001, confidence=0.999)
    assert result.findings.filter(kind="confidence")["finding"].item() == ""
    assert abs(result.confidence["overconfidence"].item()) < 5
    curve = result.reliability
    assert (
        (curve["accuracy_low"] <= curve["mean_confidence"]) & (curve["mean_confidence"] <= curve["accuracy_high"])
    ).all()


def test_a_second_run_that_says_the_same_proves_nothing_more() -> None:
    single = confident_judge(1.0, orders=("ab",))
    repeats = [single.with_columns(repeat=pl.lit(str(run))) for run in range(4)]
    alone, often = (cu.consistency(study(people(), *frames), resamples=0) for frames in ([single], repeats))
    columns = ("comparisons", "brier", "mean_confidence", "overconfidence", "overconfidence_low", "overconfidence_high")
    for left, right in zip(*(frames.confidence.select(columns).row(0) for frames in (alone, often)), strict=True):
        assert left == pytest.approx(right)


def test_half_judged_and_half_known_comparisons_are_not_forecasts() -> None:
    lost = pl.when((pl.col("item") < 40) & (pl.col("order") == "ba"))
    judge = confident_judge(1.0).with_columns(lost.then(None).otherwise("preference").alias("preference"))
    incomplete = judge.with_columns(
        pl.when(pl.col("preference").is_null()).then(None).otherwise(name).alias(name)
        for name in ("p_a", "p_tie", "p_b")
    )
    unknown = confident_judge(1.0).with_columns(
        lost.then(None).otherwise(name).alias(name) for name in ("p_a", "p_tie", "p_b")
    )
    for study_data in (incomplete, unknown):
        assert cu.consistency(study(people(), study_data), resamples=20).confidence["comparisons"].item() == N - 40


def test_without_people_or_chances_there_is_no_row() -> None:
    for study_data in (study(confident_judge(1.0)), study(people(), confident_judge(1.0).drop("p_a", "p_tie", "p_b"))):
        result = cu.consistency(study_data, resamples=20)
        assert result.confidence.is_empty()
        assert result.reliability.is_empty()
        assert "confidence" not in set(result.findings["kind"])
        with pytest.raises(OptionError, match="no judge gave outcome probabilities"):
            cu.plots.judge_calibration(result, "judge")


def test_few_items_are_shown_and_not_tested() -> None:
    result = cu.consistency(study(people().head(8), confident_judge(4.0)), resamples=20)
    row = result.confidence.row(0, named=True)
    assert row["comparisons"] == 8
    assert row["reason"].startswith("fewer than 12 items")
    assert row["overconfidence_low"] is None
    assert result.findings.filter(kind="confidence")["finding"].item() == "inconclusive"
