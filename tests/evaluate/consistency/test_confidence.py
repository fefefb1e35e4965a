from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy.stats import t

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
    assert [row["brier_skill"] for row in (calm, loud)] == [
        pytest.approx(1 - row["brier"] / 0.5) for row in (calm, loud)
    ]
    assert calm["brier_skill_low"] < calm["brier_skill"] < calm["brier_skill_high"] < 1
    assert calm["ece"] < 1.5 * calm["expected_ece"]
    assert loud["ece"] > 2 * loud["expected_ece"]
    findings = result.findings.filter(kind="confidence").rows(named=True)
    assert [(row["rater"], row["finding"]) for row in findings] == [("calm", ""), ("loud", "is overconfident")]
    assert findings[0]["estimate_low"] < 0 < findings[0]["estimate_high"]
    assert findings[1]["estimate"] == pytest.approx(100 * (loud["mean_confidence"] - loud["accuracy"]))
    curve = result.reliability.filter(rater="loud")
    assert curve["verdicts"].sum() == 2 * N
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
        result = cu.consistency(study(people(), judge), resamples=20, orders=orders)
        row = result.confidence.row(0, named=True)
        assert (row["comparisons"], result.reliability["verdicts"].sum()) == (N, n)
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
    finding = result.findings.filter(kind="confidence").row(0, named=True)
    assert finding["finding"] == ""
    assert abs(finding["estimate"]) < 5
    curve = result.reliability
    assert (
        (curve["accuracy_low"] <= curve["mean_confidence"]) & (curve["mean_confidence"] <= curve["accuracy_high"])
    ).all()


def test_a_second_run_that_says_the_same_proves_nothing_more() -> None:
    single = confident_judge(1.0, orders=("ab",))
    repeats = [single.with_columns(repeat=pl.lit(str(run))) for run in range(4)]
    alone, often = (cu.consistency(study(people(), *frames), resamples=0) for frames in ([single], repeats))
    estimates = [
        [
            *result.confidence.select("comparisons", "brier", "mean_confidence").row(0),
            *result.findings.filter(kind="confidence").select("estimate", "estimate_low", "estimate_high").row(0),
        ]
        for result in (alone, often)
    ]
    assert estimates[0] == pytest.approx(estimates[1])


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
    assert result.confidence["comparisons"].item() == 8
    row = result.findings.filter(kind="confidence").row(0, named=True)
    assert row["reason"].startswith("fewer than 12 items")
    assert row["estimate_low"] is None
    assert row["finding"] == "inconclusive"


def test_scores_of_forecasts_by_their_definitions() -> None:
    """Repeats are averaged within orders and orders within comparisons; every verdict is one forecast."""
    rng = np.random.default_rng(4)
    human = rng.choice([1, 0, -1], 90, p=[0.5, 0.2, 0.3])
    rows = [
        (item, order, repeat, *rng.dirichlet([3.0 + 4 * (human[item] == 1), 1.0, 3.0 + 4 * (human[item] == -1)]))
        for item in range(90)
        for order in ("ab", "ba")
        for repeat in range(int(rng.integers(1, 4)))
    ]
    chances = np.array([row[3:] for row in rows])
    frame = pl.DataFrame(rows, schema=["item", "order", "repeat", "p_a", "p_tie", "p_b"], orient="row").with_columns(
        preference=1 - chances.argmax(axis=1), rater=pl.lit("judge"), kind=pl.lit("metric")
    )
    person = pl.DataFrame({"item": range(90), "preference": human, "rater": "ann", "kind": "human"})
    both = pl.concat([frame, person], how="diagonal_relaxed").with_columns(system_a=pl.lit("A"), system_b=pl.lit("B"))
    both = both.with_columns(pl.col("order", "repeat").cast(pl.String).fill_null(""))
    row, result = (result := cu.consistency(cu.read(both), resamples=300)).confidence.row(0, named=True), result
    item, first = np.array([row[0] for row in rows]), np.array([row[1] == "ab" for row in rows])
    outcome = np.eye(3)[1 - human]
    means = [
        np.mean([chances[(item == i) & (first == order)].mean(axis=0) for order in (True, False)], axis=0)
        for i in range(90)
    ]
    losses = ((np.array(means) - outcome) ** 2).sum(axis=1)
    ties = (human == 0).mean()
    constant = ((np.array([(1 - ties) / 2, ties, (1 - ties) / 2]) - outcome) ** 2).sum(axis=1)
    assert row["comparisons"] == 90
    assert row["brier"] == pytest.approx(losses.mean())
    assert row["brier_skill"] == pytest.approx(1 - losses.mean() / constant.mean())
    sure, right = chances.max(axis=1), chances.argmax(axis=1) == 1 - human[item]
    assert (row["mean_confidence"], row["accuracy"]) == pytest.approx((sure.mean(), right.mean()))
    half = t.ppf(0.975, 89) * losses.std(ddof=1) / np.sqrt(90)
    assert (row["brier_low"], row["brier_high"]) == pytest.approx((losses.mean() - half, losses.mean() + half), rel=0.1)
    residual = losses / constant.mean() - constant * losses.mean() / constant.mean() ** 2  # influence on the ratio
    half = t.ppf(0.975, 89) * residual.std(ddof=1) / np.sqrt(90)
    bounds = (row["brier_skill"] - half, row["brier_skill"] + half)
    assert (row["brier_skill_low"], row["brier_skill_high"]) == pytest.approx(bounds, abs=0.03)
    curve = result.reliability
    parts = np.split(np.argsort(sure, kind="stable"), curve["verdicts"].cum_sum().to_numpy()[:-1])
    assert curve["mean_confidence"].to_list() == pytest.approx([sure[part].mean() for part in parts])
    assert curve["accuracy"].to_list() == pytest.approx([right[part].mean() for part in parts])
    error = sum(len(part) * abs(sure[part].mean() - right[part].mean()) for part in parts) / len(rows)
    assert row["ece"] == pytest.approx(error)
    finding = result.findings.filter(kind="confidence").row(0, named=True)
    assert finding["estimate"] == pytest.approx(100 * (sure.mean() - right.mean()))


@pytest.mark.parametrize(("n_items", "tested"), [(11, False), (12, True)])
def test_twelve_items_are_tested(n_items: int, *, tested: bool) -> None:
    result = cu.consistency(study(people().head(n_items), confident_judge(4.0)), resamples=0)
    row = result.findings.filter(kind="confidence").row(0, named=True)
    assert (row["p_value"] is not None, row["reason"] == "") == (tested, tested)
