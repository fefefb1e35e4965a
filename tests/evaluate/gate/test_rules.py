"""Rules of a gate: notation, outcomes, rows, kinds and metrics."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from custodes.errors import OptionError
from custodes.evaluate.gate.rules import (
    ALONE,
    SCORED,
    GateRule,
    kind_of_rules,
    requirement,
    select_metric,
)
from tests.messages import exactly

NAN = np.nan


@pytest.mark.parametrize(
    ("low", "high", "above", "below"),
    [
        (0.51, 0.6, "holds", "fails"),
        (0.5, 0.6, "inconclusive", "inconclusive"),
        (0.4, 0.5, "inconclusive", "inconclusive"),
        (0.4, 0.49, "fails", "holds"),
        (0.4, 0.6, "inconclusive", "inconclusive"),
        (NAN, NAN, "inconclusive", "inconclusive"),
    ],
)
def test_an_interval_above_or_below_the_threshold_decides(low: float, high: float, above: str, below: str) -> None:
    rule = GateRule(text="r", statistic="first_rate", threshold=0.5)
    assert rule.outcome(low, high) == above
    assert GateRule(text="r", statistic="first_rate", threshold=0.5, relation="<=").outcome(low, high) == below


def test_a_row_has_the_fields_of_the_rule_and_a_reason_only_if_undecided() -> None:
    rule = GateRule(text="tpr>=0.5", statistic="tpr", threshold=0.5, against="old")
    assert rule.row("new", "tpr", 7, (0.7, 0.6, 0.8, 0.01), system="A", label="pass", reason="why") == {
        "rule": "tpr>=0.5",
        "metric": "new",
        "against": "old",
        "statistic": "tpr",
        "system": "A",
        "label": "pass",
        "n": 7,
        "value": 0.7,
        "value_low": 0.6,
        "value_high": 0.8,
        "p_value": 0.01,
        "relation": ">=",
        "threshold": 0.5,
        "outcome": "holds",
        "reason": None,
    }
    undecided = rule.row("new", "tpr", 7, (0.7, 0.4, 0.8, 0.01), reason="why")
    assert (undecided["outcome"], undecided["reason"], undecided["system"], undecided["label"]) == (
        "inconclusive",
        "why",
        None,
        None,
    )
    assert rule.row("new", "tpr", 7, (0.7, 0.6, 0.8, 0.01), outcome="closed", reason="why")["reason"] == "why"
    assert rule.row("new", "tpr", 7, outcome="fails", reason="why")["reason"] is None
    assert rule.row("new", "tpr", 7)["reason"] is None
    versions = GateRule(text="r", statistic="corrected_rate", threshold=0.0, reference="v1")
    assert versions.row("new", "corrected_rate", 7)["against"] == "v1"


@pytest.mark.parametrize(
    ("text", "statistic", "relation", "threshold"),
    [
        (" tpr >= 0.9 ", "tpr", ">=", 0.9),
        ("kappa>=-.2", "kappa", ">=", -0.2),
        ("first_rate<=.6", "first_rate", "<=", 0.6),
        ("failure_rate<=0.01", "failure_rate", "<=", 0.01),
        ("mcc>=-0.999", "mcc", ">=", -0.999),
        ("corrected_rate>=1e-3", "corrected_rate", ">=", 0.001),
    ],
)
def test_a_rule_is_a_statistic_a_relation_and_a_number(
    text: str, statistic: str, relation: str, threshold: float
) -> None:
    rule = requirement(text)
    assert (rule.text, rule.statistic, rule.relation, rule.threshold) == (text.strip(), statistic, relation, threshold)
    assert (rule.against, rule.reference) == (None, None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tpr>=0", "tpr lies between 0 and 1; give a threshold strictly between"),
        ("tpr>=1", "tpr lies between 0 and 1"),
        ("kappa>=1", "kappa lies between -1 and 1"),
        ("kappa>=-1", "kappa lies between -1 and 1"),
        ("judge_rate>=1", "judge_rate lies between 0 and 1"),
        ("corrected_rate>=v1-1", "a difference from the corrected rate of v1 lies between -1 and 1"),
        ("corrected_rate>=v1+1", "a difference from the corrected rate of v1 lies between -1 and 1"),
        ("tpr<= 0.9", "for tpr, higher is better; write tpr>=0.9"),
        ("flip_rate>=0.2", "for flip_rate, lower is better; write flip_rate<=0.2"),
        ("tprr>=0.9", "unknown statistic 'tprr'; did you mean 'tpr'"),
        ("tpr>=v1", "'v1' is not a number; write for example tpr>=0.3"),
        ("corrected_rate>=v2-0.1", "'v2-0.1' is not a number; .* systems: v1"),
    ],
)
def test_rules_outside_the_notation_are_refused(text: str, message: str) -> None:
    with pytest.raises(OptionError, match=message.replace("; did you mean 'tpr'", "")):
        requirement(text, ["v1"])
    with pytest.raises(OptionError, match="write STATISTIC>=NUMBER, such as"):
        requirement("tpr")
    with pytest.raises(OptionError, match="write STATISTIC>=NUMBER, such as"):
        requirement(3)  # type: ignore[arg-type]


def test_the_statistics_or_the_study_determine_the_kind_of_rules() -> None:
    with_labels, without = SimpleNamespace(labels={"": 1}), SimpleNamespace(labels={})

    def kind(*names: str | None, study: Any = without, statistic: str | None = None, against: Any = None) -> str:
        rules = [GateRule(text="r", statistic=name, threshold=0.5) for name in names]
        return kind_of_rules(study, rules, statistic, against)

    assert kind() == kind(None) == SCORED
    assert kind(study=with_labels) == "labels"
    assert kind("kendall_item", study=with_labels) == SCORED
    assert kind("tpr", None) == kind(statistic="tpr") == "labels"
    assert kind("first_rate", "judge_rate") == ALONE
    with pytest.raises(OptionError, match=r"rules on labels \(tpr\) and on a judge alone \(first_rate\) cannot be"):
        kind("first_rate", "tpr")
    with pytest.raises(OptionError, match="cannot be tested together"):
        kind("kendall_item", statistic="kappa")
    with pytest.raises(OptionError, match="not_worse_than='old' needs human ratings"):
        kind("first_rate", against="old")
    assert kind("tpr", against="old") == "labels"


def test_a_metric_is_a_name_or_a_glob_of_one_metric() -> None:
    study: Any = SimpleNamespace(systems=("v1", "m1"), metrics=("m1", "m2", "other"))
    assert select_metric(study, "m1", option="not_worse_than") == "m1"  # also the name of a system
    assert select_metric(study, "o*", option="metric") == "other"
    with pytest.raises(OptionError, match=r"metric='m\*' matches 2 metrics; name one of m1, m2"):
        select_metric(study, "m*", option="metric")
    with pytest.raises(OptionError, match=exactly("metric='v1': no such metric; metrics: m1, m2, other")):
        select_metric(study, "v1", option="metric")


def test_a_name_of_a_system_may_end_like_a_margin() -> None:
    systems = ["gpt-4", "llama-3.1", "2024-06-01", "v", "v-0.5", "0.7", "0", "1"]
    for text, expected in {
        "gpt-4-0": ("gpt-4", 0.0),
        "llama-3.1 - .02": ("llama-3.1", -0.02),
        "2024-06-01+0.1": ("2024-06-01", 0.1),
        "v-0.5+0": ("v-0.5", 0.0),
        "v-0.4": ("v", -0.4),
        "0.7-0": ("0.7", 0.0),
        "0.7": (None, 0.7),
        "+0.7": (None, 0.7),
    }.items():
        rule = requirement(f"corrected_rate>={text}", systems)
        assert (rule.reference, rule.threshold) == expected
    with pytest.raises(OptionError, match=">=SYSTEM-0.02; systems: v1"):
        requirement("corrected_rate>=v-0.5", ["v1"])


def test_an_unknown_statistic_is_answered_with_the_known_ones() -> None:
    message = (
        "require='kendal_item>=0.3': unknown statistic 'kendal_item' (did you mean 'kendall_item'?); allowed: "
        "sample_accuracy, system_accuracy, "
        "pairwise_accuracy, pearson_system, pearson_item, pearson_global, spearman_system, spearman_item, "
        "spearman_global, kendall_system, kendall_item, kendall_global, acc_eq, spa; for labels tpr, tnr, ppv, npv, "
        "accuracy, balanced_accuracy, f1, corrected_rate, mcc, kappa, ac1, alpha; without human ratings consistency, "
        "flip_rate, first_rate, agreement_within_order, repeat_agreement, failure_rate, judge_rate"
    )
    with pytest.raises(OptionError, match=exactly(message)):
        requirement("kendal_item>=0.3")
