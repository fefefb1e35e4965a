"""Rules of a gate on labels have the estimates and intervals of `rates`."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats
from sklearn import metrics as sklearn_metrics

import custodes as cu
from custodes.errors import InputError, OptionError
from custodes.evaluate.gate.label_rules import LabelTest, LabelTests, label_tests
from custodes.evaluate.gate.rules import GateRule, requirement
from tests.evaluate.gate.junit_schema import check_junit
from tests.messages import exactly


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
    names = ("tpr", "tnr", "ppv", "npv", "accuracy", "balanced_accuracy", "f1", "mcc", "kappa", "ac1", "alpha")
    joint = rows(data, metric="judge_new", require=[f"{name}>=0.5" for name in names])
    for name, rule in zip(names, joint, strict=True):
        assert (rule["value"], rule["n"]) == (pytest.approx(judge[name]), 200)
    for name in ("tnr", "f1", "kappa"):
        (rule,) = rows(data, metric="judge_new", require=f"{name}>=0.5")
        for end in ("_low", "_high"):
            assert rule[f"value{end}"] == pytest.approx(judge[f"{name}{end}"], abs=0.01)
    scores = pl.Series(np.random.default_rng(5).normal(data["judge_new"] == "pass").round(2))
    scored = data.select("id", "expert", judge_score=scores)
    (rule,) = rows(scored, require="tpr>=0.5")
    assert rule["value"] == pytest.approx(cu.rates(scored).judges["tpr"].item())
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
    assert swapped["value_low"] == pytest.approx(-rule["value_high"], abs=0.01)
    with pytest.raises(
        OptionError,
        match=exactly(
            "sampling='by-judge': two metrics (not_worse_than) can be compared only on outputs that were "
            "selected at random; omit one of these two options"
        ),
    ):
        cu.gate(data, metric="judge_new", not_worse_than="judge_old", sampling="by-judge")


def test_rates_of_each_version_are_tested() -> None:
    versions = pl.concat([labels(seed=k).with_columns(prompt_version=pl.lit(f"v{k}")) for k in range(2)])
    tested = rows(versions, metric="judge_new", require="corrected_rate>=0.5")
    assert [(rule["system"], rule["outcome"]) for rule in tested] == [("v0", "holds"), ("v1", "holds")]


def test_what_cannot_be_said_is_inconclusive_with_a_reason() -> None:
    one = pl.concat([labels(n_labelled=k).with_columns(version=pl.lit(f"v{k}")) for k in (0, 200)])
    unlabelled, labelled = rows(one, metric="judge_new", require="corrected_rate>=0.5")
    assert (unlabelled["system"], unlabelled["n"], unlabelled["value"]) == ("v0", 0, None)
    assert (unlabelled["reason"], labelled["reason"]) == ("the corrected rate is undefined", None)
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


def labels_of_fails(*, only: bool = False) -> pl.DataFrame:
    """Return labels for which people labelled most outputs that the judge fails, and few (or none) that it passes."""
    data, uniform = labels(n_labelled=400), np.random.default_rng(7).random(400)
    is_labelled = np.where(data["judge_new"] == "fail", uniform < 0.8, uniform < (0.0 if only else 0.15))
    return data.with_columns(expert=pl.when(pl.Series(is_labelled)).then("expert"))


@pytest.mark.parametrize("rule", ["corrected_rate>=0.3", "accuracy>=0.5", "tpr>=0.99"])
def test_a_sample_that_is_not_random_decides_no_rule(rule: str, tmp_path: Path) -> None:
    data, ledger = labels_of_fails(), tmp_path / "gate.jsonl"
    (row,) = rows(data, metric="judge_new", require=rule)
    assert row["outcome"] == "inconclusive"
    start, p_text, advice = re.split(r"\(p = (.*?)\); ", row["reason"])
    assert float(p_text) < 0.01
    assert start == "the outputs with a human label are not a random sample with respect to the labels of judge_new "
    assert advice == (
        "give sampling='by-judge' if these outputs are a random sample within each label of the judge; otherwise "
        "give inclusion "
        "probabilities, or label a random sample"
    )
    (of_two,) = rows(data, metric="judge_new", not_worse_than="judge_old")
    assert of_two["reason"].endswith("); give inclusion probabilities, or label a random sample")
    assert rows(data, metric="judge_new", require=rule, sampling="by-judge")[0]["outcome"] != "inconclusive"
    recorded = cu.gate(data, metric="judge_new", require=rule, ledger=ledger)
    assert (recorded.outcome, ledger.read_bytes()) == ("inconclusive", b"")


def test_versions_with_different_proportions_of_labels_are_random_samples() -> None:
    versions = [
        labels(n_labelled=n, seed=k, tnr=tnr).with_columns(prompt_version=pl.lit(f"v{k}"))
        for k, (n, tnr) in enumerate(((350, 0.95), (60, 0.1)))
    ]
    result = cu.gate(pl.concat(versions), metric="judge_new", require="corrected_rate>=0.4")
    assert result.outcome == "holds"
    assert "labelled-part-not-random" not in {note.rule for note in result.notes}  # within each version
    assert cu.gate(pl.concat(versions), metric="judge_new", require="accuracy>=0.4").outcome == "inconclusive"


def test_notes_of_rates_are_notes_of_the_gate(tmp_path: Path) -> None:
    data = labels_of_fails(only=True).select("id", "judge_new", "expert")
    notes = {note.message for note in cu.rates(data).notes}
    assert notes == {note.message for note in cu.gate(data, require="corrected_rate>=0.3").notes}
    assert len(notes) > 2
    gap = labels(n_labelled=150).select("id", "judge_new", "expert")
    gap = gap.with_columns(judge_new=pl.when(pl.col("id") < 380).then("judge_new"), version=pl.Series(["a", "b"] * 200))
    for sampling in ("random", "by-judge", "by-label"):
        notes = {note.message for note in cu.rates(gap, sampling=sampling).notes}
        assert notes == {note.message for note in cu.gate(gap, require="corrected_rate>=0.3", sampling=sampling).notes}
        assert any("gives no usable label to 10 of 200 outputs of a, 10 of 200 outputs of b" in text for text in notes)
    copy = data.with_columns(judge_new=pl.coalesce("expert", "judge_new"))
    for options, is_noted in (({}, True), ({"ledger": tmp_path / "gate.jsonl"}, False)):
        rules = {note.rule for note in cu.gate(copy, require="accuracy>=0.3", **options).notes}
        assert ("judge-equals-human" in rules) == is_noted


@pytest.mark.parametrize("rule", ["corrected_rate>=0.2", "tpr>=0.2"])
def test_an_unknown_positive_label_decides_no_rule(rule: str) -> None:
    names = {"pass": "blue", "fail": "red"}
    data = labels().with_columns(pl.col("judge_new", "expert").replace(names)).select("id", "judge_new", "expert")
    (row,) = rows(data, require=rule)
    assert row["outcome"] == "inconclusive"
    assert row["reason"] == "it is unknown which label is positive; give positive='red' or positive='blue'"
    result = cu.gate(data, require=rule, positive="blue")
    assert result.outcome == "holds"
    assert " (positive: blue): " in next(result.lines())
    assert rows(data, require="accuracy>=0.2")[0]["outcome"] == "holds"
    with pytest.raises(
        InputError,
        match=exactly(
            "gate: judge_rate needs to know which label is positive; give positive=LABEL, such as positive='red'"
        ),
    ):
        cu.gate(data, require="judge_rate>=0.2")


def test_rates_of_two_versions_are_compared() -> None:
    versions = pl.concat([labels(seed=k).with_columns(prompt_version=pl.lit(f"v{k}")) for k in range(3)])
    expected = cu.rates(versions, metrics="judge_new", systems=["v0", "v1"]).differences.row(0, named=True)
    result = cu.gate(versions, metric="judge_new", systems=["v0", "v1"], require="corrected_rate >= v1 - 0.3")
    (rule,) = result.rules.to_dicts()
    assert (rule["system"], rule["against"], rule["threshold"], rule["outcome"]) == ("v0", "v1", -0.3, "holds")
    assert rule["value"] == pytest.approx(expected["corrected_difference"])
    assert rule["value_low"] == pytest.approx(expected["corrected_difference_low"], abs=0.01)
    assert " for v0 minus v1 (positive: pass): " in next(result.lines())
    assert [
        case[1]
        for case in check_junit(cu.gate(versions, metric="judge_new", require="corrected_rate>=v1-0.3").to_junit())
    ] == ["corrected_rate>=v1-0.3 for v0", "corrected_rate>=v1-0.3 for v2"]
    with pytest.raises(OptionError, match="write .*>=SYSTEM-0.02; systems: v0, v1, v2"):
        cu.gate(versions, metric="judge_new", require="corrected_rate>=v9")
    with pytest.raises(OptionError, match="'v2' has no selected outputs; systems: v0, v1"):
        cu.gate(versions, metric="judge_new", systems=["v0", "v1"], require="corrected_rate>=v2-0")
    with pytest.raises(OptionError, match="there is no other system; systems: v1"):
        cu.gate(versions, metric="judge_new", systems="v1", require="corrected_rate>=v1-0.3")
    with pytest.raises(OptionError, match="not_worse_than='v1': no such metric"):
        cu.gate(versions, metric="judge_new", not_worse_than="v1")
    assert "status" not in str(result.provenance)


@pytest.mark.parametrize("sampling", ["random", "by-judge", "by-label"])
def test_outputs_without_a_label_of_the_judge_may_prevent_a_decision(sampling: str, tmp_path: Path) -> None:
    data = labels(1000, n_labelled=300).select("id", "judge_new", "expert")
    outcomes = {}
    for n_missing, threshold in ((20, 0.5), (300, 0.6), (300, 0.5)):
        is_missing = pl.col("id") >= 1000 - n_missing
        left_out = data.with_columns(judge_new=pl.when(~is_missing).then("judge_new"))
        (row,) = rows(left_out, require=f"corrected_rate>={threshold}", sampling=sampling)
        outcomes[n_missing, threshold] = row["outcome"]
    assert outcomes == {(20, 0.5): "holds", (300, 0.6): "inconclusive", (300, 0.5): "inconclusive"}
    assert "300 outputs of table" in row["reason"]
    assert row["reason"].endswith("exclude the outputs from the file if they do not belong to the population")
    kept = left_out.drop_nulls("judge_new")
    for k, (table, outcome) in enumerate(((kept, "open"), (left_out, "closed"))):
        ledger = tmp_path / f"{k}.jsonl"
        assert cu.gate(table, require="corrected_rate>=0.5", sampling=sampling, ledger=ledger).outcome == outcome


def test_outputs_left_out_of_one_version_may_prevent_a_decision_on_a_difference() -> None:
    versions = [labels(1000, n_labelled=300, seed=k).with_columns(prompt_version=pl.lit(f"v{k}")) for k in range(2)]
    versions[1] = versions[1].with_columns(judge_new=pl.when(pl.col("id") < 750).then("judge_new"))
    data = pl.concat(versions).drop("judge_old")
    for margin, outcome in ((0.15, "inconclusive"), (0.4, "holds")):
        (row,) = rows(data, metric="judge_new", require=f"corrected_rate>=v0-{margin}")
        assert row["outcome"] == outcome


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"require": ["tpr>=0.9", "kendall_item>=0.3"]},
            "gate: rules on scores or preferences (kendall_item) and on labels (tpr) cannot be tested together; "
            "use a gate for each kind of rule",
        ),
        (
            {"require": "tpr>=1.5"},
            "require='tpr>=1.5': tpr lies between 0 and 1; give a threshold strictly between these bounds",
        ),
        (
            {"not_worse_than": "judge_old", "statistic": "corrected_rate"},
            "statistic='corrected_rate' describes systems, not metrics; name a measure of agreement, such as kappa",
        ),
        ({"require": "tpr>=0.9", "sampling": "some"}, "sampling='some'; allowed: random, by-judge, by-label"),
    ],
)
def test_bad_rules_have_one_clear_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=exactly(message)):
        cu.gate(labels(), metric="judge_new", **options)


def test_the_interval_of_a_difference_is_that_of_paired_labels() -> None:
    data = labels(2000, n_labelled=1500)
    (rule,) = rows(data, metric="judge_new", not_worse_than="judge_old", margin=0.3, statistic="accuracy")
    part = data.drop_nulls()
    right = np.stack([part[name] == part["expert"] for name in ("judge_new", "judge_old")]).astype(float)
    low, high = stats.ttest_rel(*right).confidence_interval(0.95)
    assert rule["value"] == pytest.approx(right.mean(axis=1) @ [1, -1])
    assert (rule["value_low"], rule["value_high"]) == (pytest.approx(low, abs=2e-3), pytest.approx(high, abs=2e-3))
    groups = data.with_columns(cluster=pl.col("id") // 4)  # larger clusters, fewer of them
    (rule,) = rows(groups, metric="judge_new", not_worse_than="judge_old", margin=0.3, statistic="accuracy")
    sums = (right[0] - right[1] - (right[0] - right[1]).mean()).reshape(-1, 4).sum(axis=1)
    error = np.sqrt((sums**2).sum() * 375 / 374) / 1500
    half = stats.t.ppf(0.975, 374) * error
    assert (rule["value_high"] - rule["value_low"]) / 2 == pytest.approx(half, rel=0.03)


@pytest.mark.parametrize(("statistic", "margin"), [("accuracy", 0.02), ("balanced_accuracy", 0.02), ("kappa", 0.04)])
@pytest.mark.parametrize(("n", "outcome"), [(200, "inconclusive"), (2000, "holds")])
def test_one_error_among_few_outputs_does_not_show_that_a_judge_is_not_worse(
    statistic: str, margin: float, n: int, outcome: str
) -> None:
    """A judge that errs with a probability of .02 makes at most one error in 200 outputs with a probability of .09."""
    expert = np.where(np.arange(n) % 2, "pass", "fail")
    judge = np.append("pass", expert[1:])
    data = pl.DataFrame({"id": np.arange(n), "judge_new": judge, "judge_old": expert, "expert": expert})
    (rule,) = rows(data, metric="judge_new", not_worse_than="judge_old", margin=margin, statistic=statistic)
    assert rule["outcome"] == outcome


def test_a_difference_without_common_labels_or_without_an_interval_has_a_reason() -> None:
    data = labels()
    equal = data.with_columns(judge_old="judge_new")
    (rule,) = rows(equal, metric="judge_new", not_worse_than="judge_old")
    assert (rule["value"], rule["n"], rule["outcome"]) == (0, 200, "inconclusive")
    assert rule["reason"] == "the labels of the two metrics do not differ, so there is no interval"
    is_labelled = pl.col("expert").is_not_null()
    apart = data.with_columns(
        judge_old=pl.when(is_labelled).then("judge_old"), judge_new=pl.when(~is_labelled).then("judge_new")
    )
    (rule,) = rows(apart, metric="judge_new", not_worse_than="judge_old")
    assert (rule["value"], rule["n"]) == (None, 0)
    assert rule["reason"] == "no output has labels by annotators, judge_new and judge_old"
    only_pass = data.with_columns(expert=pl.when(is_labelled).then(pl.lit("pass")))
    (rule,) = rows(only_pass, metric="judge_new", require="tnr>=0.3")
    assert (rule["value"], rule["n"], rule["reason"]) == (None, 200, "tnr is undefined for these labels")
    (rule,) = rows(only_pass, metric="judge_new", not_worse_than="judge_old", statistic="tnr")
    assert (rule["value"], rule["n"], rule["reason"]) == (None, 200, "tnr is undefined for these labels")
    topics = np.random.default_rng(0).choice(["a", "b", "c"], 60)
    several = pl.DataFrame({"id": range(60), "judge_1": topics, "judge_2": np.roll(topics, 1), "human_label": topics})
    for options in ({"not_worse_than": "judge_2", "statistic": "tpr"}, {"require": "corrected_rate>=0.3"}):
        (rule,) = rows(several, metric="judge_1", **options)
        name = options.get("statistic", "corrected_rate")
        assert rule["reason"] == f"{name} needs two labels; name one of a, b, c with positive=LABEL"
        assert (rule["n"], rule["outcome"]) == (60, "inconclusive")


def test_tests_have_the_scores_and_the_precision_of_counts_or_draws() -> None:
    rule = requirement("tpr>=0.8", [])
    counted = LabelTest(rule=rule, statistic="tpr", n=200, counts=(177.0, 200.0), values=np.full(9, 0.885))
    expected = stats.norm.isf(stats.binom.sf(176, 200, 0.8))
    assert counted.score == pytest.approx(expected)
    assert counted.precision()[:] == (0.8, 200.0, 0.0, True)
    assert not replace(counted, counts=(177.5, 200.0)).precision().whole
    influence, unit = np.array([0.1, -0.2, 0.4, 0.1]), np.array([0, 0, 1, 2])
    drawn = LabelTest(rule=rule, statistic="tpr", n=4, values=np.array([0.8, 0.7, 0.9]), influence=influence, unit=unit)
    assert drawn.precision() == (0.8, 0.0, pytest.approx(np.sqrt(0.1**2 + 0.4**2 + 0.1**2)), False)
    assert drawn.has_interval
    assert not replace(drawn, values=np.full(1, 0.8)).has_interval
    assert not replace(drawn, values=np.full(3, np.nan)).has_interval
    assert drawn.bounds == (0, 1)
    assert replace(drawn, rule=replace(rule, against="old")).bounds == (-1, 1)
    draws = np.append(0.5, np.random.default_rng(0).beta(8, 8, 4000))
    from_draws = LabelTest(rule=requirement("corrected_rate>=0.3"), statistic="corrected_rate", n=9, values=draws)
    logits = np.log(draws[1:] / (1 - draws[1:]))
    assert from_draws.score == pytest.approx((logits.mean() - np.log(0.3 / 0.7)) / logits.std())
    assert from_draws.p_value == pytest.approx(2 * (np.sum(draws[1:] <= 0.3) + 1) / 4001)
    assert from_draws.interval(0.9) == pytest.approx((0.5, *np.quantile(draws[1:], [0.05, 0.95])))
    lower = replace(from_draws, extremes=(draws - 0.05, draws + 0.05))
    assert lower.score < from_draws.score
    difference = replace(from_draws, rule=replace(from_draws.rule, reference="v1"))
    logits = np.log((draws[1:] + 1) / (1 - draws[1:]))
    assert difference.score == pytest.approx((logits.mean() - np.log(1.3 / 0.7)) / logits.std())


@pytest.mark.parametrize(("threshold", "low", "high", "text"), [(0.2, 0, 0.1, ""), (0.2, -0.2, 0.1, "left out")])
def test_left_out_outputs_prevent_a_decision_if_an_extreme_decides_otherwise(
    threshold: float, low: float, high: float, text: str
) -> None:
    draws = np.linspace(0.3, 0.6, 101)
    test = LabelTest(
        rule=requirement(f"corrected_rate>={threshold}"),
        statistic="corrected_rate",
        n=9,
        values=draws,
        extremes=(draws + low, draws + high),
        left_out="left out",
    )
    assert test.objection_at(0.95) == text
    assert replace(test, objection="why").objection_at(0.95) == "why"
    assert replace(test, extremes=()).objection_at(0.95) == ""
    undecided = replace(test, rule=replace(test.rule, threshold=0.5))
    assert undecided.objection_at(0.95) == ""
    assert replace(test, values=np.full(1, np.nan)).objection_at(0.95) == ""


def rule_tests(data: pl.DataFrame, *rules: GateRule | str, metric: str = "judge_new", **options: Any) -> LabelTests:
    parsed = [requirement(rule, ["v0", "v1"]) if isinstance(rule, str) else rule for rule in rules]
    arguments = {"positive": None, "sampling": "random", "confidence": 0.95, "rng": np.random.default_rng(0)}
    (found,) = label_tests(cu.read(data), parsed, metric, **(arguments | options))
    return found


def not_worse(statistic: str | None = None) -> GateRule:
    return GateRule(text="not worse than judge_old", statistic=statistic, threshold=-0.1, against="judge_old")


def test_tests_of_proportions_have_their_counts_and_the_influence_of_each_output() -> None:
    data = labels(200, n_labelled=120)
    part = data.drop_nulls()
    judge, human = ((part[name] == "pass").to_numpy() for name in ("judge_new", "expert"))
    names = ("accuracy", "tpr", "tnr", "ppv", "npv", "kappa")
    found = rule_tests(data, *(f"{name}>=0.5" for name in names))
    masks = {"accuracy": human | True, "tpr": human, "tnr": ~human, "ppv": judge, "npv": ~judge}
    for test in found.tests[:-1]:
        mask, is_right = masks[test.statistic], judge == human
        assert test.counts == pytest.approx(((mask & is_right).sum(), mask.sum()))
        assert test.values[0] == pytest.approx(is_right[mask].mean())
        expected = np.where(mask, is_right - is_right[mask].mean(), 0) / mask.sum()
        np.testing.assert_allclose(test.influence[:120], expected, rtol=0.15, atol=0.002)
        assert not test.influence[120:].any()
        assert (test.n, test.objection, test.extremes) == (120, "", ())
    assert found.tests[-1].counts is None
    assert [test.label for test in found.tests] == ["", "pass", "pass", "pass", "pass", ""]
    assert rule_tests(data, "accuracy>=0.5", sampling="by-judge").tests[0].counts is None
    assert found.labels == dict(zip([(str(item), "") for item in part["id"]], part["expert"], strict=True))
    assert sorted(found.units) == sorted(map(str, range(200)))
    clustered = rule_tests(data.with_columns(cluster=100 + pl.col("id") // 2), "accuracy>=0.5")
    assert set(clustered.units) == {min(str(k), str(k + 1)) for k in range(0, 200, 2)}


def test_the_influences_on_a_difference_are_of_outputs_with_labels_of_both_judges() -> None:
    data = labels(30, n_labelled=20).with_columns(cluster=pl.col("id") // 2)
    rule = not_worse("accuracy")
    (test,) = rule_tests(data.drop("cluster"), rule).tests
    part = data.drop_nulls()
    right = [(part[name] == part["expert"]).to_numpy().astype(float) for name in ("judge_new", "judge_old")]
    difference = right[0] - right[1]
    assert (len(set(test.unit)), test.n) == (20, 20)
    assert test.values[0] == pytest.approx(difference.mean())
    # The counts of Agresti and Min: 4 pseudo-outputs, of which a quarter is an error of one judge alone.
    assert test.values[1:].mean() == pytest.approx(difference.sum() / 24, abs=3e-3)
    assert test.values[1:].var() == pytest.approx(
        ((difference**2).sum() + 2 - difference.sum() ** 2 / 24) / 24 / 25, rel=0.05
    )
    np.testing.assert_allclose(test.influence, (difference - difference.mean()) / 20, rtol=0.1, atol=0.002)
    (clustered,) = rule_tests(data, rule).tests
    assert len(set(clustered.unit)) == 10
    # Outputs with labels of one judge only are left out.
    gap = data.drop("cluster").with_columns(judge_old=pl.when(pl.col("id") > 1).then("judge_old"))
    assert (len(set(rule_tests(gap, rule).tests[0].unit)), rule_tests(gap, rule).tests[0].n) == (18, 18)
    (missing,) = rule_tests(data.drop("judge_old"), rule).tests
    assert (missing.reason, missing.n) == ("there are no labels by judge_old", 0)
    (standard,) = rule_tests(data, not_worse()).tests
    assert standard.statistic == "kappa"


def test_corrected_rates_have_a_test_per_system_and_their_influences() -> None:
    versions = pl.concat(
        [labels(200, seed=k, n_labelled=80).with_columns(prompt_version=pl.lit(f"v{k}")) for k in (0, 1)]
    )
    data = versions.drop("judge_old").with_columns(
        judge_new=pl.when((pl.col("id") < 180) | (pl.col("prompt_version") == "v0")).then("judge_new")
    )
    both = rule_tests(data, "corrected_rate>=0.5").tests
    assert [(test.system, test.n, len(test.extremes)) for test in both] == [("v0", 80, 0), ("v1", 80, 2)]
    assert both[1].left_out.startswith("annotators labelled none of the 20 outputs of v1 without a label of judge_new")
    assert both[0].left_out == ""
    (difference,) = rule_tests(data, "corrected_rate>=v0-0.1").tests
    assert (difference.system, difference.n, len(difference.extremes)) == ("v1", 160, 2)
    assert difference.values[0] == pytest.approx(both[1].values[0] - both[0].values[0])
    np.testing.assert_allclose(difference.influence, both[1].influence - both[0].influence)
    low, high = (extreme[0] for extreme in difference.extremes)
    assert (high - low, low) == (pytest.approx(0.1), pytest.approx(0.9 * both[1].values[0] - both[0].values[0]))
    (other,) = rule_tests(data, "corrected_rate>=v1-0.1").tests
    low, high = (extreme[0] for extreme in other.extremes)
    assert low == pytest.approx(both[0].values[0] - 0.9 * both[1].values[0] - 0.1)
    assert high - low == pytest.approx(0.1)
    # The influence is that on the smallest value, at which left-out outputs of v1 are positive.
    assert other.influence[380:] == pytest.approx(-(1 - both[1].values[0]) * 0.9 / 200, abs=1e-4)
    assert other.influence[:200] == pytest.approx(both[0].influence[:200])


def test_intervals_and_p_values_are_adjusted_for_the_tests_that_have_an_interval() -> None:
    data = labels(100, n_labelled=80)
    third = pl.when(pl.col("id") % 5 == 0).then(pl.lit("fail")).otherwise("judge_old")
    data = data.with_columns(judge_c=third, judge_same="judge_new", expert=pl.col("expert"))
    others = ["judge_old", "judge_c", "judge_same"]
    joint = rows(data, metric="judge_new", not_worse_than=others, margin=0.05, statistic="accuracy")
    alone = rows(
        data, metric="judge_new", not_worse_than="judge_c", margin=0.05, statistic="accuracy", confidence=0.975
    )
    for end in ("", "_low", "_high"):
        assert joint[1][f"value{end}"] == pytest.approx(alone[0][f"value{end}"], abs=0.01)
    assert joint[1]["p_value"] == pytest.approx(2 * alone[0]["p_value"], rel=0.3)  # the equal metric has no interval
    assert joint[1]["threshold"] == -0.05
    assert (joint[2]["p_value"], joint[2]["value_low"]) == (None, None)
    worse = rows(data, metric="judge_new", not_worse_than=others, margin=0.9, statistic="accuracy")
    assert worse[0]["p_value"] < 1e-6
    even = rows(data, metric="judge_new", require=["accuracy>=0.84", "kappa>=0.5"])
    assert max(row["p_value"] for row in even) <= 1


def test_reasons_name_what_more_data_would_decide() -> None:
    data = labels(300, n_labelled=150)
    rate = cu.rates(data, metrics="judge_new").rates["corrected_rate"].item()
    (of_rate,) = rows(data, metric="judge_new", require=f"corrected_rate>={rate - 0.03:.3f}")
    assert "times as many outputs and human labels would decide the rule" in of_rate["reason"]
    accuracy = cu.rates(data, metrics="judge_new").judges["accuracy"].item()
    (of_labels,) = rows(data, metric="judge_new", require=f"accuracy>={accuracy - 0.03:.3f}")
    assert "times as many human labels would decide the rule" in of_labels["reason"]
    result = cu.gate(data, metric="judge_new", require="accuracy>=0.5")
    for seconds in (-0.1, np.inf, np.nan):
        with pytest.raises(OptionError, match="give a finite number of at least 0"):
            result.to_junit(seconds)
    assert 'time="0.000"' in result.to_junit()
    with pytest.raises(OptionError, match="margin=inf is not allowed"):
        cu.gate(data, metric="judge_new", not_worse_than="judge_old", margin=np.inf)
    zero = rows(data, metric="judge_new", not_worse_than="judge_old", margin=0.0)
    assert np.copysign(1, zero[0]["threshold"]) == 1
