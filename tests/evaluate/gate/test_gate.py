"""Gates: outcomes of rules by simultaneous intervals, exit status and XML."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest
from scipy import stats

import custodes as cu
from custodes.data.items import Items
from custodes.data.preferences import Preferences
from custodes.data.ratings import Ratings
from custodes.evaluate.agreement.agreement import agreement
from custodes.evaluate.agreement.statistics import STATISTICS
from custodes.evaluate.gate.gate import Gate, gate
from custodes.evaluate.gate.outcomes import junit
from custodes.evaluate.gate.rules import FAILS, HOLDS, INCONCLUSIVE, OF_LABELS
from tests.evaluate.gate.junit_schema import check_junit
from tests.evaluate.studies import study_of
from tests.messages import exactly


def scores(seed: int = 0, items: int = 60, systems: int = 5, noise: tuple[float, ...] = (0.5, 1.0, 1.0)) -> np.ndarray:
    """Return rounded human scores, which have ties, and metrics with this noise, of shape (raters, items, systems)."""
    rng = np.random.default_rng(seed)
    quality = rng.normal(size=(items, systems)) + 0.5 * rng.normal(size=systems)
    ratings = quality + np.array(noise)[:, None, None] * rng.normal(size=(len(noise), items, systems))
    ratings[0] = np.round(ratings[0])
    return ratings


def row(result: Gate, k: int = 0) -> dict[str, Any]:
    return result.rules.row(k, named=True)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_a_requirement_has_the_value_and_about_the_interval_of_agreement(statistic: str) -> None:
    study = study_of(scores())
    gated = row(gate(study, metric="m1", require=f"{statistic}>=0.5", resamples=1000))
    reference = agreement(study, metrics="m1", resamples=1000, compare_by=()).metrics.row(0, named=True)
    # Soft pairwise accuracy uses the same flips, its bounds use separate resamples.
    assert gated["value"] == pytest.approx(reference[statistic], abs=1e-12)
    width = reference[f"{statistic}_high"] - reference[f"{statistic}_low"]
    for end in ("low", "high"):
        assert gated[f"value_{end}"] == pytest.approx(reference[f"{statistic}_{end}"], abs=0.12 * width + 0.01)
    assert gated["n"] == reference["n"]


@pytest.mark.parametrize("statistic", ["kendall_item", "pearson_system"])
def test_the_interval_is_that_of_agreement_with_clusters_of_unequal_sizes(statistic: str) -> None:
    ratings = scores(items=150)
    rows = [{"item": f"i{i}", "cluster": "large" if i < 75 else f"small{i % 25}"} for i in range(150)]
    study = replace(study_of(ratings), items=Items.make(pl.DataFrame(rows))[0])
    gated = row(gate(study, metric="m1", require=f"{statistic}>=0.5", resamples=4000))
    reference = agreement(study, metrics="m1", resamples=4000, compare_by=()).metrics.row(0, named=True)
    for end in ("low", "high"):
        assert gated[f"value_{end}"] == pytest.approx(reference[f"{statistic}_{end}"], abs=0.01)


def test_very_unequal_clusters_have_the_interval_of_agreement() -> None:
    """One cluster of 200 items and 20 of 5 are like 2.25 equal clusters."""
    rows = [{"item": f"i{i}", "cluster": "large" if i < 200 else f"small{i % 20}"} for i in range(300)]
    study = replace(study_of(scores(items=300)), items=Items.make(pl.DataFrame(rows))[0])
    reference = agreement(study, metrics="m1", compare_by=()).metrics.row(0, named=True)
    gated = row(gate(study, metric="m1", require="pearson_system>=0.5"))
    assert [gated[f"value_{end}"] for end in ("low", "high")] == pytest.approx(
        [reference[f"pearson_system_{end}"] for end in ("low", "high")],
        abs=0.2,  # most extreme draws are noisy
    )
    joint = gate(study, metric="m1", require=["pearson_system>=0.5", "kendall_item>=0.2"])
    assert joint.rules["value_low"].null_count() == 0


@pytest.mark.parametrize("statistic", ["kendall_item", "sample_accuracy", "pairwise_accuracy", "pearson_global"])
def test_not_worse_is_the_difference_on_common_ground(statistic: str) -> None:
    ratings = scores()
    ratings[1, 40:] = np.nan  # The new metric lacks some items, the old one some outputs.
    ratings[2, :10, 1] = np.nan
    study = study_of(ratings)
    gated = row(gate(study, metric="m1", not_worse_than="m2", statistic=statistic))
    reference = agreement(study, resamples=1000, compare_by=[statistic]).comparisons.row(0, named=True)
    assert gated["value"] == pytest.approx(reference["difference"], abs=1e-12)
    assert (gated["n"], gated["statistic"], gated["against"]) == (reference["n"], statistic, "m2")
    if statistic == "kendall_item":  # by definition
        shared = np.isfinite(ratings).all(axis=0)
        taus = np.array(
            [
                [stats.kendalltau(ratings[0, i, shared[i]], ratings[m, i, shared[i]]).statistic for m in (1, 2)]
                for i in range(40)
            ]
        )
        assert gated["value"] == pytest.approx(np.nanmean(taus[:, 0] - taus[:, 1]), abs=1e-12)
        for end in ("low", "high"):  # sign flips for one, Student's t for the other
            assert gated[f"value_{end}"] == pytest.approx(reference[f"difference_{end}"], abs=0.02)


def test_documents_make_intervals_wider() -> None:
    rng = np.random.default_rng(1)
    ratings = scores(items=80)
    ratings[1] += np.repeat(rng.normal(size=(8, 5)), 10, axis=0)
    study = study_of(ratings)
    rows = [{"item": f"i{i}", "cluster": f"d{i // 10}"} for i in range(80)]
    clustered = replace(study, items=Items.make(pl.DataFrame(rows))[0])
    first, second = (row(gate(data, metric="m1", require="kendall_item>=0.3")) for data in (study, clustered))
    assert first["value"] == second["value"]
    assert second["value_high"] - second["value_low"] > 1.2 * (first["value_high"] - first["value_low"])


def test_more_rules_make_wider_intervals_and_the_same_rule_makes_none() -> None:
    study = study_of(scores())
    alone = gate(study, metric="m1", require="kendall_item>=0.3")
    twice = gate(study, metric="m1", require=["kendall_item>=0.3", "kendall_item>=0.3"])
    assert twice.rules.equals(alone.rules)
    two = gate(study, metric="m1", require=["kendall_item>=0.3", "kendall_item>=0.4"])
    assert row(two)["value_low"] == pytest.approx(row(alone)["value_low"], abs=0.003)  # a single quantity
    more = gate(study, metric="m1", require=["kendall_item>=0.3", "pearson_system>=0.4"], not_worse_than="m2")
    assert row(more)["value_low"] < row(alone)["value_low"] - 0.005
    assert row(more)["p_value"] >= row(alone)["p_value"]


def both_aspects(ratings: np.ndarray, second: np.ndarray) -> cu.Study:
    frames = [
        study_of(aspect_scores).ratings.frame.with_columns(aspect=pl.lit(name))
        for name, aspect_scores in zip("ab", (ratings, second), strict=True)
    ]
    return replace(study_of(ratings), ratings=Ratings(frame=pl.concat(frames)))


def test_every_rule_is_asked_of_every_aspect_and_aspects_share_their_resamples() -> None:
    ratings = scores()
    rules = {"metric": "m1", "require": "kendall_item>=0.3", "not_worse_than": "m2"}
    alone = gate(both_aspects(ratings, scores(1)), aspect="a", **rules)
    joint_same = gate(both_aspects(ratings, ratings), **rules)
    joint_different = gate(both_aspects(ratings, scores(1)), **rules)
    assert joint_same.rules["aspect"].to_list() == list("aabb")
    assert joint_same.rules["rule"].to_list() == ["kendall_item>=0.3", "not worse than m2"] * 2
    # A second, identical aspect costs no power; a different one does.
    a, same, second = (
        gate_result.rules.filter(aspect="a")["value_low"].to_numpy()
        for gate_result in (alone, joint_same, joint_different)
    )
    np.testing.assert_allclose(same, a, atol=0.003)
    assert (second < a - 0.004).all()


def test_a_metric_without_ratings_of_an_aspect_is_inconclusive_there() -> None:
    study = both_aspects(scores(), scores(1))
    frame = study.ratings.frame.filter((pl.col("aspect") == "a") | (pl.col("rater") != "m1"))
    table = gate(
        replace(study, ratings=Ratings(frame=frame)), metric="m1", require="kendall_item>=0.1", not_worse_than="m2"
    ).rules.filter(aspect="b")
    columns = ("statistic", "n", "value", "outcome", "reason")
    reason = "annotators and m1 rated no common output"
    assert table.select(columns).rows() == [(name, 0, None, INCONCLUSIVE, reason) for name in ("kendall_item", "")]


def test_resamples_that_do_not_fit_into_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("custodes.memory.machine_memory", lambda: 1e9)
    n_gigabytes = 8 * (1 + 10**8) * (60 + 1000) / 1e9  # weights of 60 clusters and 1000 statistics
    with pytest.raises(cu.OptionError, match=f"^resamples=100000000: needs about {n_gigabytes:.0f} GB of memory"):
        gate(study_of(scores()), metric="m1", require="kendall_item>=0.1", resamples=10**8)


def test_outcomes_and_status() -> None:
    study = study_of(scores())
    value = row(gate(study, metric="m1", require="kendall_item>=0.1"))["value"]
    high, low, near = (f"kendall_item>={value + by:.3f}" for by in (0.3, -0.3, 0.01))
    for rules, outcome, status in (([low], HOLDS, 0), ([low, near], INCONCLUSIVE, 3), ([low, near, high], FAILS, 1)):
        result = gate(study, metric="m1", require=rules)
        assert (result.outcome, result.status) == (outcome, status)
    held, undecided, failed = result.rules.to_dicts()
    assert [held["outcome"], undecided["outcome"], failed["outcome"]] == [HOLDS, INCONCLUSIVE, FAILS]
    assert held["p_value"] <= 0.05 < undecided["p_value"]
    assert undecided["reason"].startswith("the interval contains the threshold")
    assert held["reason"] is failed["reason"] is None
    assert held["value_low"] > held["threshold"]
    assert failed["value_high"] < failed["threshold"]


@pytest.mark.parametrize("by", [-0.04, 0.04])
def test_how_many_times_as_many_items_would_tell(by: float) -> None:
    # By definition: with the same ranks on k times as many items, the bound is close to the threshold.
    ratings = scores()
    value = row(gate(study_of(ratings), metric="m1", require="kendall_item>=0.1"))["value"]
    rule = f"kendall_item>={value - by}"
    match = re.search(r"about (\S+) times", row(gate(study_of(ratings), metric="m1", require=rule))["reason"])
    assert match is not None
    times = float(match[1])
    assert 1.1 < times < 5
    gated = row(gate(study_of(np.concatenate([ratings * k for k in range(1, 11)], axis=1)), metric="m1", require=rule))
    assert gated["value"] == pytest.approx(value)
    reach = (gated["value_high"] - gated["value_low"]) / 2 * np.sqrt(10 / times)  # of so many times as many items
    assert reach == pytest.approx(abs(by), rel=0.1)


def test_the_same_metric_twice_is_not_worse_only_where_there_are_items_enough() -> None:
    # Metrics that agree on 60 items may differ on 1 - .025 ** (1 / 60) = 6 % of others, where tau may differ by 2.
    for items, outcome in ((60, INCONCLUSIVE), (500, HOLDS)):
        ratings = scores(items=items)
        ratings[2] = ratings[1]
        gated = row(gate(study_of(ratings), metric="m1", not_worse_than="m2"))
        assert gated["value"] == 0
        # Human ratings tie on a few items.
        assert gated["value_low"] == pytest.approx(-2 * (1 - 0.025 ** (1 / items)), rel=0.01)
        assert gated["outcome"] == outcome


@pytest.mark.parametrize("items", [5, 100])
def test_too_few_clusters_tell_nothing(items: int) -> None:
    ratings = scores(items=items)
    ratings[1, 5:] = np.nan  # only the items that the metric rated count
    result = gate(study_of(ratings), metric="m1", require="kendall_item>=-0.9")
    assert (row(result)["outcome"], result.status) == (INCONCLUSIVE, 3)
    assert row(result)["reason"] == (
        "too few for an interval: 5 clusters of items, or resamples in which the statistic is defined"
    )
    assert row(result)["value"] is not None
    assert row(result)["value_low"] is row(result)["p_value"] is None


def test_undefined_is_null_with_a_reason() -> None:
    constant, separate = scores(), scores()
    constant[1] = 3.0
    separate[1, 30:], separate[2, :30] = np.nan, np.nan
    gated = row(gate(study_of(constant), metric="m1", require="kendall_item>=0.1"))
    assert (gated["value"], gated["outcome"]) == (None, INCONCLUSIVE)
    assert gated["reason"].startswith("kendall_item is undefined for these data, for example because ratings are verd")
    gated = row(gate(study_of(separate), metric="m1", not_worse_than="m2"))
    assert (gated["n"], gated["outcome"]) == (0, INCONCLUSIVE)
    assert gated["reason"] == "annotators and m1 and m2 rated no common output"


def battles(seed: int = 0, items: int = 150) -> cu.Study:
    """Return verdicts of an annotator and two judges on two systems."""
    rng = np.random.default_rng(seed)
    truth = rng.choice([-1, 0, 1], size=items, p=[0.3, 0.2, 0.5])
    items_and_systems = pl.DataFrame({"item": range(items)}).with_columns(system_a=pl.lit("A"), system_b=pl.lit("B"))
    frames = [
        items_and_systems.with_columns(
            rater=pl.lit(name),
            kind=pl.lit("human" if name == "ann" else "metric"),
            preference=np.where(rng.random(items) < right, truth, rng.choice([-1, 0, 1], size=items)),
        )
        for name, right in (("ann", 1.0), ("good", 0.8), ("bad", 0.5))
    ]
    return cu.read(pl.concat(frames))


def test_verdicts_are_judged_by_sample_accuracy() -> None:
    study = battles()
    assert isinstance(study.preferences, Preferences)
    result = gate(study, metric="good", require=["sample_accuracy>=0.6", "kendall_item>=0.1"], not_worse_than="bad")
    assert result.rules["statistic"].to_list() == ["sample_accuracy", "kendall_item", "sample_accuracy"]
    assert result.rules["outcome"].to_list() == [HOLDS, INCONCLUSIVE, HOLDS]
    assert row(result, 1)["reason"].startswith("kendall_item is undefined for these data, for example because")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {},
            "gate: no rule to test; give require='kendall_item>=0.3' or not_worse_than=METRIC (--require, "
            "--not-worse-than)",
        ),
        ({"require": "kendall_item"}, "require='kendall_item': write STATISTIC>=NUMBER, such as 'kendall_item>=0.3'"),
        (
            {"require": "kendall_item>=high"},
            "require='kendall_item>=high': 'high' is not a number; write for example kendall_item>=0.3",
        ),
        (
            {"require": "kendall_item>=nan"},
            "require='kendall_item>=nan': kendall_item lies between -1 and 1; give a threshold strictly between these "
            "bounds",
        ),
        (
            {"require": "sample_accuracy>=70"},
            "require='sample_accuracy>=70': sample_accuracy lies between 0 and 1; give a threshold strictly between "
            "these bounds",
        ),
        (
            {"require": "kendall_item<=0.3"},
            "require='kendall_item<=0.3': for kendall_item, higher is better; write kendall_item>=0.3",
        ),
        ({"not_worse_than": "m1"}, "not_worse_than names the tested metric m1; name another metric"),
        ({"not_worse_than": "m*"}, "not_worse_than='m*' matches 2 metrics; name one of m1, m2"),
        (
            {"not_worse_than": "m2", "margin": -0.1},
            "margin=-0.1 is not allowed; give a number of at least 0, in units of the statistic",
        ),
        (
            {"require": "kendall_item>=0.3", "margin": 0.1},
            "margin=0.1 has no effect: it applies only to the test of not_worse_than; name a metric in not_worse_than",
        ),
        (
            {"require": "kendall_item>=0.3", "statistic": "spa"},
            "statistic='spa' has no effect: it applies only to the test of not_worse_than; name a metric in "
            "not_worse_than",
        ),
        (
            {"not_worse_than": "m2", "statistic": "kendall"},
            f"statistic='kendall'; allowed: {', '.join((*STATISTICS, *OF_LABELS))} (did you mean 'kendall_item'?)",
        ),
        (
            {"require": "kendall_item>=0.3", "ledger_digest": "abc"},
            "ledger_digest='abc' has no effect: it applies only with a ledger",
        ),
        (
            {"require": "kendall_item>=0.3", "ledger": "l"},
            "ledger='l': a ledger is for rules on labels, such as accuracy>=0.8",
        ),
        (
            {"require": "kendall_item>=0.3", "positive": "4"},
            "positive='4' has no effect: it applies only to rules on labels, such as tpr>=0.9",
        ),
        (
            {"require": "kendall_item>=0.3", "resamples": 0},
            "resamples=0 is not allowed, because rules are tested with bootstrap intervals; give at least 20",
        ),
        (
            {"require": "kendall_item>=0.3", "metric": None},
            "gate: no metric is named; give metric='NAME' (--metric). Metrics: m1, m2",
        ),
        (
            {"not_worse_than": "m2", "resamples": 19},
            "resamples=19: too few resamples for an interval; give at least 20, or 0 for no intervals",
        ),
    ],
)
def test_bad_rules_are_one_clear_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(cu.OptionError, match=exactly(message)):
        gate(study_of(scores(items=8)), **{"metric": "m1", **options})


@pytest.fixture(scope="module")
def mixed() -> Gate:
    """Return one rule that holds, one that fails and one that is inconclusive."""
    return gate(
        study_of(scores()), metric="m1", require=["kendall_item>=0.1", "kendall_item>=0.9"], not_worse_than="m2"
    )


def test_junit_has_a_case_a_rule(mixed: Gate) -> None:
    text = mixed.to_junit(1.5)
    assert check_junit(text) == [
        ("m1", "kendall_item>=0.1", "passed"),
        ("m1", "kendall_item>=0.9", "failure"),
        ("m1", "not worse than m2", "skipped"),
    ]
    root = ElementTree.fromstring(text)
    assert root.get("time") == "1.500"
    (failure,) = root.iter("failure")
    assert failure.get("message") == failure.text
    assert "kendall_item of m1: 0." in str(failure.text)


def test_junit_holds_any_name() -> None:
    odd = 'a"<&>\x00\x1b\ud800 \U0001f600é'
    failed = gate(study_of(scores(items=12)), metric="m1", require="kendall_item>=0.99").rules.to_dicts()
    text = junit([failed[0] | {"metric": odd, "rule": odd, "outcome": FAILS}], seconds=0)
    ((group, name, outcome),) = check_junit(text)
    assert group == name == 'a"<&>\ufffd\ufffd\ufffd \U0001f600é'
    assert outcome == "failure"
    text.encode()
