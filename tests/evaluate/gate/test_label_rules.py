"""Rules of a gate on labels have the estimates and intervals of `rates`."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn import metrics as sklearn_metrics

import custodes as cu
from custodes.errors import OptionError


def labels(n: int = 400, *, n_labelled: int = 200, seed: int = 0, tnr: float = 0.7) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    good = rng.random(n) < 0.7

    def judge(tpr: float, tnr: float) -> np.ndarray:
        return np.where(np.where(good, rng.random(n) < tpr, rng.random(n) >= tnr), "pass", "fail")

    expert = pl.Series(np.where(good, "pass", "fail")).set(pl.Series(np.arange(n) >= n_labelled), None)
    return pl.DataFrame({"id": range(n), "judge_new": judge(0.95, tnr), "judge_old": judge(0.9, 0.6), "expert": expert})


def rows(*args: Any, **options: Any) -> list[dict[str, Any]]:
    return cu.gate(*args, **options).rules.to_dicts()


def test_a_rule_has_the_value_and_the_interval_of_rates() -> None:
    data = labels()
    judge = cu.rates(data, metrics="judge_new").judges.row(0, named=True)
    for name in ("tpr", "tnr", "ppv", "npv", "accuracy", "balanced_accuracy", "f1", "mcc", "kappa", "ac1", "alpha"):
        (rule,) = rows(data, metric="judge_new", require=f"{name}>=0.5")
        assert rule["value"] == pytest.approx(judge[name])
        for end in ("_low", "_high"):
            assert rule[f"value{end}"] == pytest.approx(judge[f"{name}{end}"], abs=0.01)
        assert rule["n"] == 200
    rate = cu.rates(data, metrics="judge_new").rates.row(0, named=True)
    (rule,) = rows(data, metric="judge_new", require="corrected_rate>=0.2")
    assert (rule["value"], rule["outcome"]) == (pytest.approx(rate["corrected_rate"]), "holds")
    assert rule["system"] == rate["system"]


def test_outcomes_follow_intervals_that_widen_with_the_number_of_rules() -> None:
    data = labels()
    result = cu.gate(data, metric="judge_new", require=["tpr>=0.8", "tnr>=0.95", "kappa>=0.7"])
    assert result.rules["outcome"].to_list()[:2] == ["holds", "fails"]
    assert (result.outcome, result.status) == ("fails", 1)
    (alone,) = rows(data, metric="judge_new", require="kappa>=0.7")
    together = result.rules.row(2, named=True)
    assert together["value_low"] < alone["value_low"] < alone["value_high"] < together["value_high"]
    assert together["p_value"] == pytest.approx(min(1, 3 * alone["p_value"]), rel=0.05)


def test_two_judges_are_compared_on_the_same_outputs() -> None:
    data = labels()
    (rule,) = rows(data, metric="judge_new", not_worse_than="judge_old", margin=0.3)
    part = data.drop_nulls()
    kappas = [sklearn_metrics.cohen_kappa_score(part["expert"], part[name]) for name in ("judge_new", "judge_old")]
    assert rule["statistic"] == "kappa"
    assert rule["value"] == pytest.approx(kappas[0] - kappas[1])
    assert rule["outcome"] == "holds"
    (swapped,) = rows(data, metric="judge_old", not_worse_than="judge_new", margin=0.0)
    assert swapped["value"] == pytest.approx(-rule["value"])
    assert swapped["value_low"] == pytest.approx(-rule["value_high"])
    with pytest.raises(OptionError, match="can be compared only on outputs"):
        cu.gate(data, metric="judge_new", not_worse_than="judge_old", sampling="by-judge")


def test_rates_of_each_version_are_tested() -> None:
    versions = pl.concat([labels(seed=k).with_columns(prompt_version=pl.lit(f"v{k}")) for k in range(2)])
    tested = rows(versions, metric="judge_new", require="corrected_rate>=0.5")
    assert [(rule["system"], rule["outcome"]) for rule in tested] == [("v0", "holds"), ("v1", "holds")]


def test_what_cannot_be_said_is_inconclusive_with_a_reason() -> None:
    (rule,) = rows(labels(n_labelled=0), metric="judge_new", require="tpr>=0.5")
    assert (rule["outcome"], rule["value"]) == ("inconclusive", None)
    assert rule["reason"] == "there are no human labels"
    some = labels(n_labelled=40)
    kappa = cu.rates(some, metrics="judge_new").judges["kappa"][0]
    (few,) = rows(some, metric="judge_new", require=f"kappa>={kappa - 0.1:.2f}")
    assert few["outcome"] == "inconclusive"
    assert "times as many human labels would decide the rule" in few["reason"]
    topics = np.random.default_rng(0).choice(["a", "b", "c"], 60)
    several = pl.DataFrame({"id": range(60), "judge_label": topics, "human_label": topics})
    (rule,) = rows(several, require="tpr>=0.5")
    assert rule["reason"] == "tpr needs two labels; name one of a, b, c with positive=LABEL"
    assert rows(several, require="tpr>=0.5", positive="a")[0]["outcome"] == "holds"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"require": ["tpr>=0.9", "kendall_item>=0.3"]},
            r"rules on scores or preferences .* and on labels \(tpr\) cannot be tested together; use a gate",
        ),
        ({"require": "tpr>=1.5"}, "tpr lies between 0 and 1"),
        ({"require": "specificity>=0.5"}, "for labels tpr, tnr, ppv"),
        ({"not_worse_than": "judge_old", "statistic": "corrected_rate"}, "name a measure of agreement"),
        ({"require": "tpr>=0.9", "sampling": "some"}, "allowed: random, by-judge, by-label"),
    ],
)
def test_bad_rules_have_one_clear_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        cu.gate(labels(), metric="judge_new", **options)
