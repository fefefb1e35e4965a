"""Intervals of differences of rates from draws, and the correlation of two rates."""

from __future__ import annotations

from itertools import combinations
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

from custodes.data.items import Items
from custodes.evaluate.rates.comparisons import (
    DifferenceTest,
    add_decisions,
    add_findings,
    correlation,
    difference_rows,
    error_tests,
    human_difference,
    rate_difference,
    slice_rows,
)
from custodes.evaluate.rates.estimates import JudgeRates, judge_rates
from custodes.evaluate.rates.judge_labels import judges_of
from custodes.evaluate.slices import slices_of
from custodes.stats.rates.measures import sensitivity, specificity
from custodes.stats.rates.posterior import DRAWS as N_DRAWS
from custodes.stats.rates.posterior import LabelCounts, two_sided_p
from custodes.stats.rates.scores import Interval
from tests.evaluate.rates.labelled import NAN, drawn, labelled, settings

DRAWS = np.random.default_rng(0).normal(0.1, 0.05, 999)


@pytest.mark.parametrize(("confidence", "n_outside"), [(0.95, 25), (0.9, 50), (0.998, 1), (0.996, 2)])
def test_bounds_are_order_statistics(confidence: float, n_outside: int) -> None:
    test = DifferenceTest.from_draws(np.append(0.1, DRAWS))
    found = test.interval(confidence - 1e-9)
    ordered = np.sort(DRAWS)
    assert found == (0.1, ordered[n_outside - 1], ordered[-n_outside])
    wider = test._replace(correction=0.02).interval(confidence - 1e-9)
    assert wider == pytest.approx((0.1, ordered[n_outside - 1] - 0.02, ordered[-n_outside] + 0.02))


def test_few_draws_have_the_tail_of_a_normal_distribution() -> None:
    test = DifferenceTest.from_draws(np.append(0.1, DRAWS))
    low, high = test.interval(1 - 1e-6)[1:]
    half = stats.norm.ppf(1 - 5e-7) * DRAWS.std()
    assert (low, high) == pytest.approx((min(DRAWS.min(), DRAWS.mean() - half), max(DRAWS.max(), DRAWS.mean() + half)))
    assert low < DRAWS.min()
    far = DifferenceTest.from_draws(np.append(0.9, DRAWS)).interval(0.95)
    assert far == (0.9, np.sort(DRAWS)[24], 0.9)  # the interval contains the estimate
    assert DifferenceTest.from_draws(np.append(0.1, 10 * DRAWS)).interval(0.95)[1:] == (
        pytest.approx(max(-1, 10 * np.sort(DRAWS)[24])),
        1.0,
    )
    assert np.isnan(DifferenceTest.from_draws(np.array([np.nan, np.nan])).interval(0.95)).all()


@pytest.mark.parametrize("shift", [-0.22, -0.19, -0.1, 0.0])
def test_intervals_exclude_0_if_and_only_if_the_test_is_significant(shift: float) -> None:
    for confidence in (0.9, 0.95, 0.99):
        _, low, high = DifferenceTest.from_draws(np.append(0.1 + shift, DRAWS + shift)).interval(confidence)
        assert (not low <= 0 <= high) == (two_sided_p(DRAWS + shift) <= 1 - confidence)


def test_correlations_are_of_sums_over_clusters_and_shrunk_by_their_error() -> None:
    rng = np.random.default_rng(0)
    unit, copies = rng.integers(0, 20, 60), rng.integers(1, 4, 20)
    first = rng.normal(size=60)
    second = first + rng.normal(size=60)
    sums = np.array([[values[unit == u].sum() for u in range(20)] for values in (first, second)])
    weight = copies / np.sqrt(((sums**2) * copies).sum(axis=1))[:, None] / copies
    x, y = sums * weight
    r = (copies * x * y).sum()
    error = (copies * (x * y - r / 2 * (x**2 + y**2)) ** 2).sum()
    found = correlation(first, second, unit, copies[unit].astype(float))
    assert found == pytest.approx(r**3 / (r**2 + error))
    assert correlation(first, -second, unit, copies[unit].astype(float)) == pytest.approx(-found)
    assert correlation(first, np.zeros(60), unit, np.ones(60)) == 0
    assert correlation(first, -first, unit, np.ones(60)) == -0.99


TPR, TNR = (
    np.append(value, np.random.default_rng(7 + k).normal(value, 0.03, N_DRAWS)) for k, value in enumerate((0.8, 0.7))
)


def rates_of(value: float, *, n_labels: tuple[float, float] = (20, 20), seed: int = 0, **changes: Any) -> JudgeRates:
    """Return rates whose draws have a standard deviation of .02, and error rates of .8 and .7."""
    rng = np.random.default_rng(seed)
    fields: dict[str, Any] = {
        "rate_draws": rng.normal(value, 0.02, N_DRAWS),
        "rate_variance": 0.0004,
        "unjudged": np.zeros((1, 2)),
        "pairs": SimpleNamespace(
            counts=LabelCounts(np.array([[n / 4, n * 3 / 4] for n in n_labels]).T, np.ones(2)),
            values=lambda statistic: {sensitivity: TPR, specificity: TNR}[statistic] + seed / 50,
        ),
        "influence": np.array([0.01, -0.01, 0.02, 0.0]),
        "human_influence": np.array([0.0, 0.02, -0.02, 0.01]),
        "corrected": Interval(value, value - 0.04, value + 0.04),
        "human": Interval(value + 0.1, 0, 1),
        "judge": Interval(0.5, 0, 1),
        "n": 50,
        "n_labelled": 40,
        "n_both_labels": 40,
        "n_unjudged": 0,
        "n_left_out": 0,
        "rarer": 20.0,
        "judge_n": 50.0,
        "human_n": 40.0,
        "unlabelled": 0.0,
    }
    return JudgeRates(**{**fields, **changes})


@pytest.mark.parametrize(
    ("labels", "is_tested"), [((10, 30), True), ((9.51, 30), True), ((9.5, 30), False), ((30, 9), False)]
)
def test_error_rates_are_tested_with_a_correction_for_continuity(
    labels: tuple[float, float], *, is_tested: bool
) -> None:
    first = rates_of(0.5, n_labels=(30, labels[0]), seed=3)
    second = rates_of(0.5, n_labels=(40, labels[1]))
    tests = error_tests(first, second)
    assert list(tests) == ["tpr", "tnr"]
    tpr, tnr = tests.values()
    assert (np.isfinite(tpr.p_value), np.isfinite(tnr.p_value)) == (is_tested, True)
    assert tpr.correction == pytest.approx(0.3 / labels[0] + 0.3 / labels[1])
    assert tnr.correction == pytest.approx(0.3 / 30 + 0.3 / 40)
    assert tnr.value == pytest.approx(3 / 50)
    none = error_tests(first, rates_of(0.5, n_labels=(0, 20)))["tnr"]
    assert (none.correction, np.isnan(none.p_value)) == (1, True)
    human = error_tests(rates_of(0.5, pairs=None), rates_of(0.5, pairs=None))["tpr"]
    assert human.correction == 1
    assert np.isnan([human.p_value, human.value]).all()
    no_labels = error_tests(first, rates_of(0.5, n_both_labels=0))["tpr"]
    assert np.isnan(no_labels.value)


@pytest.mark.parametrize("shift", [-0.12, -0.03, 0.03, 0.12])
def test_draws_of_a_difference_are_moved_towards_0_by_at_most_the_correction(shift: float) -> None:
    test = DifferenceTest.from_draws(np.append(0.3, DRAWS - 0.1 + shift), continuity_correction=0.05)
    median = np.median(DRAWS - 0.1 + shift)
    moved = DRAWS - 0.1 + shift - np.sign(median) * min(abs(median), 0.05)
    assert test.p_value == pytest.approx(float(two_sided_p(moved)))
    assert (test.value, test.correction) == (0.3, 0.05)


def decided(
    p_value: float, difference: float, errors: dict[str, DifferenceTest], metric: str = "judge"
) -> dict[str, Any]:
    return {
        "metric": metric,
        "system_a": "A",
        "system_b": "B",
        "corrected_difference": difference,
        "p_value": p_value,
        "errors": errors,
    }


def error_test(p_value: float, value: float) -> DifferenceTest:
    draws = np.append(value, value + np.linspace(-0.05, 0.05, 999))
    return DifferenceTest.from_draws(draws, continuity_correction=0.01)._replace(p_value=p_value)


def test_decisions_are_adjusted_for_their_family_and_name_the_favoured_system() -> None:
    none = {"tpr": error_test(NAN, NAN), "tnr": error_test(NAN, NAN)}
    rows = [
        decided(0.025, 0.2, {"tpr": error_test(0.01, 0.3), "tnr": error_test(0.2, 0.1)}),
        decided(0.0251, -0.2, {"tpr": error_test(0.2, 0.3), "tnr": error_test(0.01, 0.3)}),
        decided(NAN, NAN, {"tpr": error_test(0.01, 0.3), "tnr": error_test(0.01, 0.3)}),
        decided(0.05, -0.2, {"tpr": error_test(0.01, -0.3), "tnr": error_test(NAN, NAN)}, "second"),
        decided(0.9, -0.2, none, "third"),
        decided(0.9, 0.2, {"tpr": error_test(0.2, 0.2), "tnr": error_test(0.001, -0.2)}, "third"),
    ]
    found = list(add_decisions(rows, alpha=0.09, confidence=0.91))
    assert [row["decision"] for row in found] == ["+", "-", "", "-", "=", "="]
    found = list(add_decisions(rows, alpha=0.05, confidence=0.95))
    assert [row["decision"] for row in found] == ["+", "=", "", "-", "=", "="]
    np.testing.assert_allclose([row["p_adjusted"] for row in found], [0.05, 0.0502, NAN, 0.05, 1, 1])
    # Nine tests of error rates.
    np.testing.assert_allclose([row["p_tpr"] for row in found], [0.09, 1, 0.09, 0.09, NAN, 1])
    assert [row["favoured"] for row in found] == ["", "", "", "", "", "A"]
    wide = list(add_decisions(rows, alpha=0.09, confidence=0.91))
    assert [row["favoured"] for row in wide] == ["A", "B", "", "B", "", "A"]
    bounds = rows[0]["errors"]["tpr"].interval(1 - 0.05 / 9)
    assert [found[0][f"tpr_difference{end}"] for end in ("", "_low", "_high")] == list(bounds)
    assert "errors" not in found[0]
    assert "p_value" not in found[0]
    (untested,) = add_decisions(rows[4:5], alpha=0.05, confidence=0.95)
    assert np.isnan([untested["p_tpr"], untested["tnr_difference"]]).all()


def test_differences_have_joint_levels_and_draws_that_shared_clusters_correlate() -> None:
    outputs = labelled([1, 0, 1, 0], unit=np.array([0, 0, 1, 2]))
    systems = {
        "A": rates_of(0.6, seed=1),
        "B": rates_of(0.5, seed=2),
        "C": rates_of(NAN, seed=3),
        "D": rates_of(0.55, seed=4, influence=np.array([0.03, -0.03, 0.01, 0.005])),
    }
    rows = list(
        difference_rows(
            outputs, "judge", "pass", systems, confidence=0.95, rng=np.random.default_rng(0), n_distinct_labels=2
        )
    )
    assert [(row["system_a"], row["system_b"]) for row in rows] == [*combinations("ABCD", 2)]
    first, undefined = rows[0], rows[1]
    assert (first["metric"], first["label"]) == ("judge", "pass")
    r = correlation(systems["A"].influence, systems["B"].influence, outputs.unit, outputs.number)
    sd = np.sqrt(2 * (1 - r)) * 0.02
    assert first["corrected_difference"] == pytest.approx(0.1)
    half = stats.norm.ppf(1 - 0.025 / 6) * sd  # three pairs of defined rates, two labels
    assert first["corrected_difference_high"] - first["corrected_difference_low"] == pytest.approx(2 * half, rel=0.1)
    assert np.isnan([undefined["corrected_difference"], undefined["p_value"]]).all()
    assert first["p_value"] == pytest.approx(2 * stats.norm.cdf(-0.1 / sd), rel=0.9)
    # By human labels: beta posteriors of 40 labels with Jeffreys' prior.
    assert first["human_difference"] == pytest.approx(0.1)
    draws = human_difference(systems["A"], systems["B"], outputs, np.random.default_rng(1))[1:]
    betas = [stats.beta(40 * p + 0.5, 40 * (1 - p) + 0.5) for p in (0.7, 0.6)]
    r = correlation(systems["A"].human_influence, systems["B"].human_influence, outputs.unit, outputs.number)
    variances = [beta.var() for beta in betas]
    assert draws.mean() == pytest.approx(betas[0].mean() - betas[1].mean(), abs=0.005)
    assert draws.var() == pytest.approx(sum(variances) - 2 * r * np.sqrt(np.prod(variances)), rel=0.1)
    no_human = rates_of(0.5, human=Interval(NAN, NAN, NAN))
    assert np.isnan(human_difference(systems["A"], no_human, outputs, np.random.default_rng(1))).all()
    assert np.isnan(rate_difference(systems["C"], systems["A"], outputs, np.random.default_rng(1))).all()


def test_findings_are_adjusted_over_slices_and_tests() -> None:
    rows = [
        {"slice": "a", "p_rate": 0.01, "p_tpr": 0.02, "p_tnr": NAN, "signs": [0.1, -0.1, NAN]},
        {"slice": "b", "p_rate": 0.5, "p_tpr": 0.03, "p_tnr": 0.0125, "signs": [0.0, 0.2, 0.3]},
    ]
    first, second = add_findings(rows, alpha=0.05)
    assert list(first) == ["slice", "p_rate", "p_tpr", "p_tnr", "finding"]
    assert (first["finding"], first["p_rate"], first["p_tpr"]) == ("higher rate", 0.05, pytest.approx(0.06))
    assert np.isnan(first["p_tnr"])
    assert second["finding"] == "higher TNR"
    assert (second["p_tnr"], second["p_tpr"], second["p_rate"]) == (0.05, pytest.approx(0.06), 0.5)
    assert [row["finding"] for row in add_findings(rows, alpha=0.1)] == [
        "higher rate, lower TPR",
        "higher TPR, higher TNR",
    ]


def test_a_slice_is_compared_with_all_other_outputs_that_have_a_slice() -> None:
    human, judge = drawn(300, 200)
    names = np.array(["a", "b", "c", ""])[np.arange(300) % 4]
    judge[names == "c"] = NAN
    outputs = labelled(human, judge)
    attributes = outputs.table.with_columns(topic=pl.Series([name or None for name in names]))
    study: Any = SimpleNamespace(attributes=attributes, items=Items(), notes=[], labels=True)
    (judge_labels,) = judges_of(outputs, None)
    rows = list(slice_rows(outputs, judge_labels, slices_of(study, outputs.table, "topic"), settings()))
    assert [row["slice"] for row in rows] == ["a", "b"]
    inside, outside = names == "a", (names == "b") | (names == "c")
    pair = [judge_rates(outputs, judge, mask, **settings()) for mask in (inside, outside)]
    row = rows[0]
    assert (row["n"], row["n_labelled"]) == (75, pair[0].n_labelled)
    assert row["signs"][0] == pytest.approx(pair[0].corrected.value - pair[1].corrected.value)
    both = [mask & ~np.isnan(human) & ~np.isnan(judge) for mask in (inside, outside)]
    for k, label in ((1, 1), (2, 0)):
        first, second = ((judge == label)[mask & (human == label)].mean() for mask in both)
        assert row["signs"][k] == pytest.approx(first - second)
        assert row[("", "tpr", "tnr")[k]] == pytest.approx(first)
        assert row[("", "p_tpr", "p_tnr")[k]] > 0
    assert row["corrected_rate"] == pytest.approx(pair[0].corrected.value)
    assert 0 < row["p_rate"] <= 1
