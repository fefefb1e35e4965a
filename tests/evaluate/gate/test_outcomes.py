"""Outcomes of rules as text, exit status and XML."""

from __future__ import annotations

from typing import Any
from xml.etree.ElementTree import fromstring

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.evaluate.gate.left_out import left_out_text, rate_bounds
from custodes.evaluate.gate.outcomes import STATUS, junit, line_of, more_data, outcome_of, summary_of
from custodes.evaluate.rates.estimates import EstimateSettings
from custodes.evaluate.rates.judge_labels import judges_of
from custodes.evaluate.rates.outputs import labelled_outputs

ROW: dict[str, Any] = {
    "statistic": "tpr",
    "metric": "new",
    "against": None,
    "aspect": None,
    "reason": None,
    "system": None,
    "label": None,
    "value": 0.41234,
    "value_low": 0.35,
    "value_high": 0.4789,
    "threshold": 0.3,
    "relation": ">=",
    "outcome": "holds",
}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "tpr of new: 0.412 [0.350, 0.479] >= 0.3"),
        ({"aspect": "style", "label": "pass"}, "tpr of new on style (positive: pass): 0.412 [0.350, 0.479] >= 0.3"),
        ({"against": "old"}, "new not worse than old by tpr: 0.412 [0.350, 0.479] >= 0.3"),
        ({"system": "A"}, "tpr of new for A: 0.412 [0.350, 0.479] >= 0.3"),
        ({"system": "A", "against": "B"}, "tpr of new for A minus B: 0.412 [0.350, 0.479] >= 0.3"),
        ({"reason": "few"}, "tpr of new: 0.412 [0.350, 0.479] >= 0.3 (few)"),
        ({"value": None, "outcome": "open", "reason": "r"}, "tpr of new >= 0.3 (r)"),
    ],
)
def test_a_rule_is_one_line(changes: dict[str, Any], text: str) -> None:
    assert line_of(ROW | changes) == text
    assert ">= 0.3" in line_of(ROW | {"value": None, "value_low": None, "value_high": None, "outcome": "inconclusive"})


@pytest.mark.parametrize(
    ("outcomes", "joint", "text"),
    [
        (["holds"], "holds", "gate: holds (1 rule: 1 hold, 0 fail, 0 inconclusive)"),
        (["holds", "inconclusive", "holds"], "inconclusive", "gate: inconclusive (3 rules: 2 hold, 0 fail, 1 "),
        (["inconclusive", "fails", "holds"], "fails", "gate: fails (3 rules: 1 hold, 1 fail, 1 inconclusive)"),
        (["open", "open"], "open", "gate: open (2 rules)"),
        (["open", "closed"], "closed", "gate: closed (2 rules)"),
    ],
)
def test_the_joint_outcome_is_the_worst(outcomes: list[str], joint: str, text: str) -> None:
    table = pl.DataFrame({"outcome": outcomes})
    assert outcome_of(table) == joint
    assert summary_of(table).startswith(text)
    assert STATUS[joint] == {"holds": 0, "open": 0, "fails": 1, "closed": 1, "inconclusive": 3}[joint]


@pytest.mark.parametrize(
    ("value", "low", "high", "times"),
    [
        (0.6, 0.4, 0.8, 4.0),  # half width .2, distance .1
        (0.4, 0.1, 0.8, 16.0),  # below the threshold, the upper half counts
        (0.6, 0.495, 0.7, 1.1),
        (0.6, 0.49, 0.8, 1.2),
        (0.55, 0.55 - 0.05 * 20**0.5 * 0.9999, 0.6, 20.0),
        (0.55, 0.55 - 0.05 * 20**0.5 * 1.0001, 0.6, None),
        (0.5, 0.4, 0.6, None),
        (0.6, np.nan, 0.8, None),
    ],
)
def test_more_data_narrow_the_half_of_the_interval_that_holds_the_threshold(
    value: float, low: float, high: float, times: float | None
) -> None:
    text = more_data(value, low, high, 0.5, "items")
    assert text == (
        ""
        if times is None
        else f"; if the value stays the same, about {times:.1f} times as many items would decide the rule"
    )


def test_cases_are_counted_and_hold_their_messages() -> None:
    first, *others = [
        ROW | {"metric": metric, "rule": rule, "outcome": outcome, "reason": reason}
        for metric, rule, outcome, reason in [
            ("g", "a", "fails", "no"),
            ("g", "b", "inconclusive", "why"),
            ("h", "c", "holds", "ok\x00"),
            ("h", "d", "closed", "no"),
        ]
    ]
    text = junit([first | {"aspect": "style", "system": "A"}, *others], seconds=1.23456)
    suite = fromstring(text.encode())[0]
    expected = {"tests": "4", "failures": "2", "errors": "0", "skipped": "1", "time": "1.235"}
    assert {name: suite.get(name) for name in expected} == expected
    details = [(case.get("classname"), case.get("name"), case[0].tag, case[0].attrib, case[0].text) for case in suite]
    failed = "fails: tpr of g for A on style: 0.412 [0.350, 0.479] >= 0.3 (no)"
    assert details[0] == ("g (style)", "a for A", "failure", {"message": failed, "type": "rule"}, failed)
    skipped = "inconclusive: tpr of g: 0.412 [0.350, 0.479] >= 0.3 (why)"
    assert details[1] == ("g", "b", "skipped", {"message": skipped}, None)
    assert details[2] == ("h", "c", "system-out", {}, "holds: tpr of h: 0.412 [0.350, 0.479] >= 0.3 (ok\ufffd)")


def test_outputs_that_are_left_out_are_counted_by_system() -> None:
    settings: Any = {"sampling": "random"}
    text = left_out_text({"A": 3, "B": 0, "C": 2}, "judge", settings)
    assert text == (
        "annotators labelled none of the 3 outputs of A and 2 outputs of C without a label of judge, and these outputs "
        "could change the outcome; let annotators label some of these outputs, or exclude the outputs from the file if "
        "they do not belong to the population"
    )
    by_label = left_out_text({"A": 3}, "judge", {**settings, "sampling": "by-label"})
    assert by_label == (
        "3 outputs of A have no label of judge, and these outputs could change the outcome; add these labels, or "
        "exclude the outputs from the file if they do not belong to the population"
    )
    assert left_out_text({"A": 0}, "judge", settings) == ""


def test_left_out_outputs_are_counted_as_negative_and_as_positive() -> None:
    rng = np.random.default_rng(0)
    good = rng.random(300) < 0.7
    judge = np.where(rng.random(300) < 0.85, good, ~good)
    frame = pl.DataFrame(
        {
            "id": range(300),
            "human_label": np.where(good, "pass", "fail"),
            "judge_label": np.where(judge, "pass", "fail"),
        }
    ).with_columns(
        human_label=pl.when(pl.col("id") < 120).then("human_label"),
        judge_label=pl.when(pl.col("id") < 240).then("judge_label"),
    )
    (outputs,) = labelled_outputs(cu.read(frame), consensus="kept")
    (judge_labels,) = judges_of(outputs, None)
    settings: EstimateSettings = {"sampling": "random", "confidence": 0.95, "rng": np.random.default_rng(0)}
    rates = judge_labels.rates(outputs, **settings)
    everything = np.ones(300, dtype=bool)
    low, high = rate_bounds(rates, outputs, everything, judge_labels, settings)
    share, rate = 0.2, rates.corrected.value
    assert low.corrected.value == pytest.approx(0.8 * rate)
    assert high.corrected.value == pytest.approx(0.8 * rate + share)
    assert (low.rate_draws < high.rate_draws).all()
    assert low.rate_draws.mean() == pytest.approx(0.8 * rates.rate_draws.mean(), abs=0.01)
    is_left_out = np.isnan(judge_labels.labels)
    for bound, value in ((low, 0.0), (high, 1.0)):
        # the derivative of (1 - share) rate + share x value
        np.testing.assert_allclose(
            bound.influence, 0.8 * rates.influence + (value - rate) * (is_left_out - share) / 300, atol=1e-12
        )
    assert rate_bounds(rates, outputs, ~is_left_out, judge_labels, settings) == (rates, rates)
    by_label: EstimateSettings = {**settings, "sampling": "by-label"}
    some = np.arange(300) % 3 > 0
    for chosen, options in ((some, settings), (everything, by_label), (some, by_label)):
        rates = judge_labels.rates(outputs, chosen, **options)
        low, high = rate_bounds(rates, outputs, chosen, judge_labels, options)
        counted = chosen & (~outputs.has_human_label if options is by_label else True)
        share = is_left_out[counted].mean()
        assert high.corrected.value - low.corrected.value == pytest.approx(share)
        assert (high.rate_draws - low.rate_draws).mean() == pytest.approx(share, abs=0.01)
        binomial = np.sqrt(share * (1 - share) / counted.sum())
        assert (high.rate_draws - low.rate_draws).std() == pytest.approx(binomial, rel=0.1)
        expected = (1 - share) * rates.influence - rates.corrected.value * np.where(
            counted, is_left_out - share, 0
        ) / counted.sum()
        np.testing.assert_allclose(low.influence, expected, atol=1e-12)
