from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from scipy.stats import beta, binom, fisher_exact, norm
from sklearn import metrics as sklearn_metrics

import custodes as cu
from custodes.errors import InputError, OptionError
from custodes.evaluate.rates.comparisons import CONTINUITY, DifferenceTest, has_equivalent_rates
from custodes.evaluate.rates.judge_labels import fisher_p_value, sampling_p_value
from custodes.evaluate.rates.outputs import labelled_outputs
from custodes.stats.rates.posterior import LabelCounts, rate_variance
from tests.messages import exactly


def table(
    n: int = 600, *, rate: float = 0.7, tpr: float = 0.95, tnr: float = 0.7, labelled: float = 0.25, seed: int = 0
) -> pl.DataFrame:
    """Return labels of one application by a judge, and by an expert on a random part."""
    rng = np.random.default_rng(seed)
    good = rng.random(n) < rate
    judge = np.where(good, rng.random(n) < tpr, rng.random(n) >= tnr)
    expert = pl.Series(np.where(good, "pass", "fail")).set(pl.Series(rng.random(n) >= labelled), None)
    return pl.DataFrame({"id": range(n), "judge": np.where(judge, "pass", "fail"), "expert": expert})


def row(frame: pl.DataFrame, **filters: Any) -> dict[str, Any]:
    (only,) = frame.filter(**filters).to_dicts()
    return only


def test_rates_and_measures_equal_their_definitions() -> None:
    data = table()
    result = cu.rates(data)
    both = data.drop_nulls()
    share = data["judge"].eq("pass").mean()
    by_label = [both.filter(judge=label)["expert"].eq("pass").mean() for label in ("pass", "fail")]
    rates = row(result.rates)
    assert rates["judge_rate"] == pytest.approx(share)
    assert rates["human_rate"] == pytest.approx(both["expert"].eq("pass").mean())
    assert rates["corrected_rate"] == pytest.approx(share * by_label[0] + (1 - share) * by_label[1])
    assert rates["corrected_rate_low"] < rates["corrected_rate"] < rates["corrected_rate_high"]
    assert (rates["n"], rates["n_labelled"]) == (600, both.height)
    judge = row(result.judges)
    human, machine = both["expert"].to_list(), both["judge"].to_list()
    assert judge["tpr"] == pytest.approx(sklearn_metrics.recall_score(human, machine, pos_label="pass"))
    assert judge["tnr"] == pytest.approx(sklearn_metrics.recall_score(human, machine, pos_label="fail"))
    assert judge["kappa"] == pytest.approx(sklearn_metrics.cohen_kappa_score(human, machine))
    assert judge["mcc"] == pytest.approx(sklearn_metrics.matthews_corrcoef(human, machine))
    assert result.confusion["n"].sum() == pytest.approx(both.height)


def test_labels_within_those_of_the_judge_have_the_neutral_prior() -> None:
    judge = ["pass"] * 30 + ["fail"] * 970
    human = ["pass"] * 10 + ["fail"] * 5 + [None] * 15 + ["fail"] * 15 + [None] * 955
    data = pl.DataFrame({"id": range(1000), "judge": judge, "human": human})
    draw = np.random.default_rng(1)
    share = draw.beta(30.5, 970.5, size=200_000)
    for sampling, prior in (("by-judge", 1 / 3), ("random", 1 / 2)):
        values = share * draw.beta(10 + prior, 5 + prior, size=200_000)
        values += (1 - share) * draw.beta(prior, 15 + prior, size=200_000)
        rates = row(cu.rates(data, sampling=sampling).rates)
        bounds = [rates["corrected_rate_low"], rates["corrected_rate_high"]]
        assert bounds == pytest.approx(np.quantile(values, [0.025, 0.975]), abs=0.008)  # of 2,000 draws


def versions(rate_a: float, rate_b: float, tnr_b: float, *, seed: int = 1, n: int = 600) -> pl.DataFrame:
    """Return two versions on the same items, labelled by a judge with a TNR of .7 and another."""
    parts = [
        table(n, rate=rate, tnr=tnr, labelled=0.5, seed=seed + k).with_columns(prompt_version=pl.lit(name))
        for k, (name, rate, tnr) in enumerate((("v1", rate_a, 0.7), ("v2", rate_b, tnr_b)))
    ]
    return pl.concat(parts)


def test_a_judge_that_errs_differently_is_named_and_does_not_decide() -> None:
    result = cu.rates(versions(0.5, 0.5, 0.2))
    pair = row(result.differences)
    assert (pair["system_a"], pair["system_b"], pair["favoured"]) == ("v1", "v2", "v2")
    assert pair["decision"] == "="
    assert abs(pair["corrected_difference"]) < 0.1
    text = "\n".join(cu.verdict(versions(0.5, 0.5, 0.2)).lines())
    assert "judge over-rates v2 in the comparison of v1 and v2 by the rate of pass: its TNR differs" in text
    assert "v1 and v2 do not differ significantly" in text
    swapped = {"pass": "fail", "fail": "pass"}  # so that TPR and TNR are exchanged
    relabelled = versions(0.5, 0.5, 0.2).with_columns(pl.col("judge", "expert").replace(swapped))
    text = "\n".join(cu.verdict(relabelled).lines())
    assert "judge over-rates v1 in the comparison of v1 and v2 by the rate of pass: its TPR differs" in text


def test_the_better_version_is_found_and_swapping_versions_swaps_signs() -> None:
    data = versions(0.85, 0.6, 0.7)
    result = cu.rates(data)
    pair = row(result.differences)
    assert pair["decision"] == "+"
    assert pair["corrected_difference_low"] > 0
    swapped = row(cu.rates(data.with_columns(pl.col("prompt_version").replace({"v1": "v2", "v2": "v1"}))).differences)
    assert swapped["decision"] == "-"
    assert swapped["corrected_difference"] == pytest.approx(-pair["corrected_difference"])
    assert "v1 has a significantly higher rate of pass than v2" in str(cu.verdict(data))


def test_scores_beside_several_labels_are_left_out_if_every_output_is_labelled() -> None:
    """A rate of a finite set of labelled outputs is known, so strata by scores change nothing."""
    rng = np.random.default_rng(3)
    marks, items = rng.integers(1, 4, 90), [f"i{k:02}" for k in range(90)]
    human = pl.DataFrame({"item": items, "system": "A", "rater": "ann", "kind": "human", "score": marks.astype(float)})
    scores = human.with_columns(rater=pl.lit("rouge"), kind=pl.lit("metric"), score=pl.Series(rng.random(90)))
    everything = pl.concat([human, scores])
    result = cu.rates(everything)
    assert set(result.rates["metric"]) == {"human"}
    for rates in result.rates.iter_rows(named=True):
        assert rates["human_rate"] == pytest.approx((marks == int(rates["label"])).mean())
    (message,) = [note.message for note in result.notes if note.rule == "all-labelled"]
    assert message.endswith("scores are not used without a positive label")
    assert set(cu.rates(everything, positive="3").judges["metric"]) == {"rouge"}
    assert set(cu.rates(pl.concat([human[:60], scores])).rates["metric"]) == {"rouge"}


def test_labels_saved_have_no_monte_carlo_error_and_follow_from_the_variances() -> None:
    (saved,) = {row(cu.rates(table(), rng=seed).rates)["labels_saved"] for seed in range(3)}
    rates = row(cu.rates(table()).rates)
    widths = [rates[f"{name}_rate_high"] - rates[f"{name}_rate_low"] for name in ("human", "corrected")]
    assert saved == pytest.approx(rates["n_labelled"] * ((widths[0] / widths[1]) ** 2 - 1), rel=0.15)


def test_shared_error_rates_only_where_they_are_equivalent() -> None:
    shared = cu.rates(versions(0.6, 0.7, 0.7, n=20_000), calibration="shared")
    assert set(shared.rates["method"]) == {"rogan-gladen, shared"}
    assert "error-rates-not-shared" not in {note.rule for note in shared.notes}
    assert row(shared.rates, system="v1")["corrected_rate"] == pytest.approx(0.6, abs=0.03)
    few = cu.rates(versions(0.6, 0.7, 0.7), calibration="shared")
    assert set(few.rates["method"]) == {"post-stratified"}
    assert "error-rates-not-shared" in {note.rule for note in few.notes}


def test_slices_name_where_the_judge_fails() -> None:
    good, bad = table(900, rate=0.5, tnr=0.9, labelled=0.5), table(300, rate=0.5, tnr=0.2, labelled=0.5, seed=5)
    data = pl.concat([good, bad.with_columns(pl.col("id") + 900)]).with_columns(
        topic=pl.Series(["a", "b", "c"] * 300 + ["d"] * 300), tokens=pl.int_range(1200)
    )
    result = cu.rates(data, by="topic")
    assert cu.rates(versions(0.5, 0.8, 0.7), by="prompt_version").slices["slice"].to_list() == ["v1", "v2"]
    findings = dict(result.slices.select("slice", "finding").iter_rows())
    assert "lower TNR" in findings["d"]
    assert result.slices["n"].sum() == 1200
    assert cu.rates(data, by="tokens").slices["slice"].len() == 4
    with pytest.raises(
        OptionError, match=r"by='topics': no such column \(did you mean 'topic'\?\); columns: system, topic"
    ):
        cu.rates(data, by="topics")


def test_clusters_widen_the_interval_and_whole_copies_change_nothing() -> None:
    data = table(300)
    conversation = "c" + pl.col("id").cast(pl.String)
    copies = pl.concat([data] * 4).with_columns(id=pl.int_range(1200), conversation_id=conversation)
    once, plain, clustered = cu.rates(data), cu.rates(copies.drop("conversation_id")), cu.rates(copies)
    width = [
        row(part.rates)["corrected_rate_high"] - row(part.rates)["corrected_rate_low"]
        for part in (once, plain, clustered)
    ]
    assert width[1] < 0.6 * width[0]
    assert width[2] == pytest.approx(width[0], rel=0.15)
    both = copies.rename({"conversation_id": "cluster"}).with_columns(user=pl.int_range(1200) % 7)
    assert cu.rates(both).rates.equals(clustered.rates)  # a column `cluster` precedes a column of users


def test_inclusion_probabilities_undo_an_unequal_selection() -> None:
    rng = np.random.default_rng(2)
    n = 20_000
    good = rng.random(n) < 0.7
    hard = rng.random(n) < np.where(good, 0.2, 0.6)
    probability = np.where(hard, 0.4, 0.05)
    labelled = rng.random(n) < probability
    data = pl.DataFrame(
        {
            "id": range(n),
            "judge": np.where(rng.random(n) < 0.5, "pass", "fail"),
            "expert": pl.Series(np.where(good, "pass", "fail")).set(pl.Series(~labelled), None),
            "chosen_with": probability,
        }
    )
    columns = {"item": "id", "score": ["human:{rater:expert}", "metric:{rater:judge}"]}
    weighted = row(cu.rates(cu.read(data, columns={**columns, "probability": "chosen_with"})).rates)
    naive = row(cu.rates(cu.read(data, columns=columns)).rates)
    assert weighted["corrected_rate_low"] < 0.7 < weighted["corrected_rate_high"]
    assert naive["corrected_rate_high"] < 0.7


def test_a_golden_set_is_corrected_by_its_error_rates() -> None:
    data = table(4000, rate=0.9, tpr=0.9, tnr=0.8, labelled=0)
    rng = np.random.default_rng(0)
    gold = np.arange(400) % 2 == 0
    judge = np.where(gold, rng.random(400) < 0.9, rng.random(400) >= 0.8)
    extra = pl.DataFrame(
        {"id": range(4000, 4400), "judge": np.where(judge, "pass", "fail"), "expert": np.where(gold, "pass", "fail")}
    )
    both = pl.concat([data, extra])
    assert "labelled-part-not-random" in {note.rule for note in cu.rates(both).notes}
    rates = row(cu.rates(both, sampling="by-label").rates)
    assert rates["method"] == "rogan-gladen"
    assert rates["human_rate"] is None
    assert rates["n"] == 4000  # The golden set is not part of the rate.
    share = data["judge"].eq("pass").mean()
    hits, false_alarms = judge[gold].mean(), judge[~gold].mean()
    assert rates["corrected_rate"] == pytest.approx((share - false_alarms) / (hits - false_alarms))
    assert rates["corrected_rate_low"] < 0.9 < rates["corrected_rate_high"]
    alone = cu.rates(extra, sampling="by-label")
    assert row(alone.rates)["corrected_rate"] is None
    assert row(alone.rates)["reason"] == (
        "every output has a human label, so there are no other outputs whose rate could be estimated"
    )
    assert row(alone.judges)["tpr"] == pytest.approx(hits)


def test_categories_have_a_row_each_and_ordered_labels_weighted_kappa() -> None:
    rng = np.random.default_rng(0)
    gold = rng.choice(["billing", "bug", "other"], 400)
    judge = np.where(rng.random(400) < 0.8, gold, rng.choice(["billing", "bug", "other"], 400))
    data = pl.DataFrame({"id": range(400), "llm_label": judge, "human_label": gold})
    result = cu.rates(data)
    assert result.rates["label"].to_list() == ["billing", "bug", "other"]
    assert result.rates["corrected_rate"].sum() == pytest.approx(1, abs=0.01)
    assert row(result.judges)["kappa"] == pytest.approx(sklearn_metrics.cohen_kappa_score(gold, judge))
    assert result.confusion.height == 9
    message = (
        "sampling='by-label' needs two labels, not 3; name the positive label with positive=LABEL, so that all others "
        "count as negative"
    )
    with pytest.raises(OptionError, match=exactly(message)):
        cu.rates(data, sampling="by-label")
    stars = pl.DataFrame({"id": range(400), "judge": rng.integers(1, 6, 400), "human": rng.integers(1, 6, 400)})
    columns = {"item": "id", "score": ["human:{rater:human}", "metric:{rater:judge}"]}
    ordered = cu.rates(cu.read(stars, columns=columns))
    expected = sklearn_metrics.cohen_kappa_score(stars["human"], stars["judge"], weights="quadratic")
    assert row(ordered.judges)["kappa"] == pytest.approx(expected)
    high = cu.rates(cu.read(stars, columns=columns), positive=">=4")
    assert row(high.rates)["human_rate"] == pytest.approx((stars["human"] >= 4).mean())


def test_scores_have_a_threshold_a_curve_and_calibration() -> None:
    rng = np.random.default_rng(0)
    good = rng.random(500) < 0.5
    data = pl.DataFrame(
        {
            "id": range(500),
            "judge_score": rng.normal(good * 1.5, 1),
            "human": pl.Series(np.where(good, "yes", "no")).set(pl.Series(np.arange(500) >= 200), None),
        }
    )
    result = cu.rates(data)
    judge = row(result.judges)
    labelled = data.drop_nulls()
    assert judge["auc"] == pytest.approx(
        sklearn_metrics.roc_auc_score(labelled["human"] == "yes", labelled["judge_score"])
    )
    assert result.roc["chosen"].sum() == 1
    assert result.calibration["n_labelled"].sum() == 200
    assert row(cu.rates(data, threshold="0.5").judges)["threshold"] == 0.5
    strict = row(cu.rates(data, threshold="tnr>=0.95").judges)
    assert strict["threshold"] > judge["threshold"]
    reversed_scores = cu.rates(data.with_columns(-pl.col("judge_score")), threshold="0")
    assert "judge-contradicts-human" in {note.rule for note in reversed_scores.notes}


def test_several_annotators_are_combined_and_agreement_is_beside_the_judge() -> None:
    rng = np.random.default_rng(0)
    data = table(300, labelled=1.0)
    experts = {
        f"expert_{k}": pl.Series(
            np.where(rng.random(300) < 0.9, data["expert"] == "pass", data["expert"] != "pass")
        ).replace_strict({True: "pass", False: "fail"}, return_dtype=pl.String)
        for k in range(3)
    }
    with_experts = data.drop("expert").with_columns(**experts)
    result = cu.rates(with_experts)
    assert 0.75 < row(result.judges)["human_agreement"] < 0.9
    assert row(result.rates)["n_labelled"] == 300
    for consensus in ("dawid-skene", "kept"):
        failing = row(cu.rates(with_experts, consensus=consensus).rates)
        assert failing["corrected_rate"] == pytest.approx(row(result.rates)["corrected_rate"], abs=0.06)
    two = cu.rates(with_experts.drop("expert_2"))
    assert "annotators-undecided" in {note.rule for note in two.notes}


def test_ties_of_annotators_are_no_missing_labels() -> None:
    """Two annotators tie more often on outputs that fail, so without ties the rate would be too high."""
    rng = np.random.default_rng(0)
    hard = rng.random(1000) < 0.3
    probability = np.where(hard, 0.4, 0.98)
    passed = [rng.random(1000) < p for p in (np.where(hard, 0.3, 0.95), probability, probability)]
    names = ("judge", "expert_1", "expert_2")
    columns = {name: np.where(x, "pass", "fail") for name, x in zip(names, passed, strict=True)}
    data = pl.DataFrame({"id": range(1000), **columns}).with_columns(
        pl.when(pl.int_range(1000) % 2 == 0).then(pl.col(name)).alias(name) for name in names[1:]
    )
    vote, kept = cu.rates(data), cu.rates(data, consensus="kept")
    assert row(vote.rates) == row(kept.rates)
    assert row(vote.judges) == row(kept.judges)
    assert row(vote.rates)["n_labelled"] == 500
    assert row(vote.rates)["corrected_rate_low"] < probability.mean() < row(vote.rates)["corrected_rate_high"]
    assert {note.rule for note in vote.notes} == {"label-columns", "annotators-undecided"}
    scores = data.with_columns(judge_score=np.where(hard, 0.3, 0.9) + 0.05 * rng.random(1000)).drop("judge")
    result = cu.rates(scores, threshold="0.6")
    chosen = result.roc.row(by_predicate=pl.col("chosen"), named=True)
    assert row(result.judges)["tpr"] == pytest.approx(chosen["tpr"])
    assert row(result.judges)["tnr"] == pytest.approx(1 - chosen["fpr"])


@pytest.mark.parametrize("consensus", ["vote", "dawid-skene", "kept"])
@pytest.mark.parametrize("positive", [">=4", "4,5"])
def test_annotators_are_combined_by_the_positive_label(consensus: str, positive: str) -> None:
    """The labels 4 and 5 of two annotators are one positive label, as in a table with pass and fail."""
    rng = np.random.default_rng(0)
    columns = {name: rng.integers(1, 6, 300) for name in ("judge", "human_1", "human_2")}
    numbers = pl.DataFrame({"id": range(300), **columns})
    words = numbers.with_columns(
        pl.when(pl.col(name) >= 4).then(pl.lit("pass")).otherwise(pl.lit("fail")).alias(name) for name in columns
    )
    mapping = {"item": "id", "score": ["human:{rater:human_1,human_2}", "metric:{rater:judge}"]}
    of_numbers = cu.rates(cu.read(numbers, columns=mapping), positive=positive, consensus=consensus)  # type: ignore[arg-type]
    of_words = cu.rates(words, consensus=consensus)  # type: ignore[arg-type]
    for table_name in ("rates", "judges"):
        frames = [
            result.to_frame(table_name).drop("system", "label", strict=False) for result in (of_numbers, of_words)
        ]
        assert_frame_equal(*frames, abs_tol=1e-9)
    undecided = [
        [n.count for n in result.notes if n.rule == "annotators-undecided"] for result in (of_numbers, of_words)
    ]
    assert undecided[0] == undecided[1]
    assert bool(undecided[0]) == (consensus == "vote")
    for question in (cu.route, cu.labelling):
        if consensus == "vote":
            notes = question(words.with_columns(judge_confidence=pl.lit(0.9))).notes
            assert "annotators-undecided" in {note.rule for note in notes}


def test_annotators_alone_and_judges_alone_have_the_rates_that_they_allow() -> None:
    human = cu.read(table(labelled=1.0).drop("judge"), columns={"item": "id", "score": ["human:{rater:expert}"]})
    rates = row(cu.rates(human).rates)
    assert (rates["metric"], rates["judge_rate"]) == ("human", None)
    assert rates["human_rate_low"] < rates["human_rate"] < rates["human_rate_high"]
    assert rates["corrected_rate"] == pytest.approx(rates["human_rate"])
    with pytest.raises(
        OptionError, match=exactly("sampling='by-label' needs labels of a metric, but table has only human labels")
    ):
        cu.rates(human, sampling="by-label")
    judge = cu.rates(table(labelled=0.0))
    alone = row(judge.rates)
    assert alone["corrected_rate"] is None
    assert alone["reason"] == "no human labels"
    assert "no-human-labels" in {note.rule for note in judge.notes}
    assert "Without human labels the true rate is unknown" in "".join(cu.verdict(table(labelled=0.0)).lines())


def test_versions_and_slices_are_compared_by_human_labels_alone() -> None:
    human = versions(0.85, 0.5, 0.7).drop("judge")
    columns = {"item": "id", "system": "prompt_version", "score": ["human:{rater:expert}"]}
    study = cu.read(human, columns=columns)
    pair = row(cu.rates(study).differences)
    assert (pair["metric"], pair["decision"], pair["favoured"]) == ("human", "+", "")
    assert pair["tpr_difference"] is None
    assert pair["corrected_difference"] == pytest.approx(pair["human_difference"])
    assert "v1 has a significantly higher rate of pass than v2" in str(cu.verdict(study))
    assert cu.rates(study, by="system").slices["finding"].to_list() == ["higher rate", "lower rate"]


@pytest.mark.parametrize("names", [("v1", "v2"), ("v2", "v1")])
def test_a_system_without_labels_of_the_judge_is_compared_by_human_labels(names: tuple[str, str]) -> None:
    first = table(labelled=0.5)
    second = first.with_columns(judge=pl.lit(None, dtype=pl.String), expert=pl.when(pl.col("id") != 9).then("expert"))
    parts = [part.with_columns(version=pl.lit(name)) for part, name in zip((first, second), names, strict=True)]
    result = cu.rates(pl.concat(parts))
    (difference,) = result.differences.to_dicts()
    assert (difference["corrected_difference"], difference["decision"]) == (None, "")
    low, high = difference["human_difference_low"], difference["human_difference_high"]
    assert -0.02 < low < 0 < high < 0.02  # both systems have the same human labels


def test_a_system_without_human_labels_gets_no_decision() -> None:
    data = table(400, labelled=0.5).with_columns(version=pl.Series(["v1", "v2"] * 200))
    is_labelled = pl.col("version") == "v1"
    result = cu.rates(data.with_columns(expert=pl.when(is_labelled).then("expert")))
    (pair,) = result.differences.filter(metric="judge").to_dicts()
    assert (pair["p_adjusted"], pair["decision"]) == (None, "")


def test_p_values_of_rate_differences_are_adjusted_for_the_pairs_of_each_metric() -> None:
    data = table(600, labelled=0.5).with_columns(version=pl.Series(["v1", "v2", "v3"] * 200), judge_b=pl.col("judge"))
    differences = cu.rates(data).differences.filter(pl.col("metric") != "human")
    assert differences["metric"].n_unique() == 2
    alone = cu.rates(data.drop("judge_b")).differences.filter(metric="judge")
    assert differences.filter(metric="judge")["p_adjusted"].equals(alone["p_adjusted"])


HALF = table(400, labelled=0.5)
IS_PASS = pl.col("judge") == "pass"


@pytest.mark.parametrize(
    ("data", "options", "rule", "text"),
    [
        (
            HALF.with_columns(expert=pl.when(IS_PASS).then("expert")),
            {"sampling": "by-judge"},
            "labels-of-a-judge-unchecked",
            "have a label of this judge that no human-labelled output of the same system has",
        ),
        (
            HALF.with_columns(judge=pl.coalesce("expert", "judge")),
            {},
            "judge-equals-human",
            "check that judge is not a copy of the human labels",
        ),
        (
            HALF.with_columns(expert=pl.when(pl.col("expert") == "pass").then("expert")),
            {},
            "few-of-a-label",
            "no human label is 'fail', but",
        ),
        (
            HALF.with_columns(
                expert=pl.when(pl.col("expert").is_not_null()).then(pl.lit("pass")),
                expert_2=pl.when(pl.col("expert").is_not_null() & pl.col("expert").is_not_null().cum_sum().eq(1)).then(
                    pl.lit("fail")
                ),
            ),
            {},
            "few-of-a-label",
            "only 0.5 human labels are 'fail', but",
        ),
        (
            HALF.with_columns(pl.col("judge", "expert").replace(["pass", "fail"], ["blue", "red"])),
            {},
            "positive-by-order",
            "'red', the last in order, counts as positive",
        ),
    ],
)
def test_notes_name_labels_that_mislead(data: pl.DataFrame, options: dict[str, Any], rule: str, text: str) -> None:
    result = cu.rates(data, **options)
    (message,) = [note.message for note in result.notes if note.rule == rule]
    assert text in message
    if rule == "few-of-a-label" and text.startswith("no"):
        assert row(result.judges)["tnr"] is None
        assert rule in cu.check(data).problems["rule"].to_list()
    if rule == "labels-of-a-judge-unchecked":
        assert row(result.rates)["reason"].startswith("for some labels (or score bins) of the metric, no output")
    if rule == "positive-by-order":
        assert text in "\n".join(cu.verdict(data).lines())


@pytest.mark.parametrize("gap", [None, "unsure"])
def test_outputs_without_a_label_of_the_judge_are_one_more_stratum(gap: str | None) -> None:
    data = table(2000, labelled=0.3, seed=4)
    rng = np.random.default_rng(0)
    is_gap = (data["judge"] == "fail") & pl.Series(rng.random(2000) < 0.5)
    data = data.with_columns(judge=data["judge"].set(is_gap, gap), version=pl.lit("v1"))
    result = cu.rates(data)
    rates, both = row(result.rates), data.filter(pl.col("judge").is_in(["pass", "fail"])).drop_nulls("expert")
    groups = data.with_columns(pl.col("judge").fill_null("unsure"), positive=pl.col("expert") == "pass").group_by(
        "judge"
    )
    expected = groups.agg(pl.len(), pl.col("positive").mean())
    assert rates["corrected_rate"] == pytest.approx((expected["len"] * expected["positive"]).sum() / 2000)
    assert rates["human_rate"] == pytest.approx((data["expert"].drop_nulls() == "pass").mean())
    assert (rates["n"], rates["n_labelled"]) == (2000, data["expert"].drop_nulls().len())
    assert row(result.judges)["n_labelled"] == both.height
    assert "outputs-without-judge-label" in {note.rule for note in result.notes}
    gate = row(cu.gate(data, require="corrected_rate>=0.5").rules)
    assert gate["value"] == pytest.approx(rates["corrected_rate"])


def test_outputs_that_neither_judge_nor_annotators_labelled_are_left_out_with_a_warning() -> None:
    data = table(1000, labelled=0.3).with_columns(pl.when(pl.col("id") % 2 == 0).then(pl.col("judge", "expert")))
    data = data.with_columns(id=pl.int_range(1000))
    judged = data.drop_nulls("judge")
    for sampling in ("random", "by-judge", "by-label"):
        result, of_judged = (cu.rates(part, sampling=sampling) for part in (data, judged))
        assert result.rates.drop("system").equals(of_judged.rates.drop("system"))
        (message,) = [note.message for note in result.notes if note.rule == "outputs-left-out"]
        assert "500 of 1000 outputs of table" in message
    assert "500 of 1000 outputs" in "\n".join(cu.verdict(data).lines())
    certain = data.with_columns(judge_confidence=pl.lit(0.5))
    for plan in (cu.labelling(data), cu.route(certain, disagreement=0.5)):
        (message,) = [note.message for note in plan.notes if note.rule == "outputs-without-judge-label"]
        assert message.startswith("500 outputs have no usable label of judge")
    notes = cu.gate(data, require="corrected_rate>=0.5").notes
    assert "outputs-left-out" in {note.rule for note in notes}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"positive": "passed"},
            "positive='passed' selects no label; allowed: a label (fail, pass) (did you mean 'pass'?)",
        ),
        ({"sampling": "randomly"}, "sampling='randomly'; allowed: random, by-judge, by-label (did you mean 'random'?)"),
        (
            {"threshold": "best"},
            "threshold='best' is not allowed; give a number, youden, tpr>=R or tnr>=R, with R from 0 to 1",
        ),
        ({"threshold": "0.5"}, "threshold='0.5': table has no metric that gives scores; leave out threshold"),
        (
            {"calibration": "shared"},
            "calibration='shared' needs at least two systems; leave out calibration if the study has one system",
        ),
        ({"confidence": 1.0}, "confidence=1.0: must lie between 0 and 1, both excluded"),
    ],
)
def test_bad_options_have_one_clear_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=exactly(message)):
        cu.rates(table(), **options)


@pytest.mark.parametrize(("words", "positive"), [(("approve", "reject"), None), (("great", "poor"), "great,pass")])
def test_two_vocabularies_are_paired_by_their_positive_labels(words: tuple[str, str], positive: str | None) -> None:
    data = table()
    renamed = data.with_columns(pl.col("expert").replace(["pass", "fail"], list(words)))
    result, expected = cu.rates(renamed, positive=positive), cu.rates(data)
    assert result.rates.drop("label").equals(expected.rates.drop("label"))
    if positive:
        for question in (cu.rates, cu.verdict, cu.agreement):
            with pytest.raises(InputError, match="judge and the annotators have no label in common"):
                question(renamed)


def test_a_confidence_is_no_judge_and_a_threshold_outside_the_scores_is_noted() -> None:
    data = table().with_columns(judge_confidence=pl.Series(np.linspace(0.5, 1, 600)), version=pl.lit("v1"))
    assert cu.rates(data).judges["metric"].to_list() == ["judge"]
    scores = data.drop("judge").rename({"judge_confidence": "judge_score"})
    assert "threshold-outside-scores" not in {note.rule for note in cu.rates(scores, threshold="0.7").notes}
    (message,) = [n.message for n in cu.rates(scores, threshold="5").notes if n.rule == "threshold-outside-scores"]
    assert "scores of judge_score lie between 0.5 and 1" in message


def test_scores_are_refused_with_the_question_that_answers_them() -> None:
    rng = np.random.default_rng(0)
    rows = [
        (f"i{k}", s, r, kind, rng.random())
        for k in range(9)
        for s in "AB"
        for r, kind in (("ann", "human"), ("m", "metric"))
    ]
    study = cu.read(pl.DataFrame(rows, schema=["item", "system", "rater", "kind", "score"], orient="row"))
    with pytest.raises(InputError, match="replace the scores by labels, .* or use leaderboard or agreement"):
        cu.rates(study)


def test_a_report_of_labels_has_rates_and_no_leaderboard() -> None:
    page = cu.report(versions(0.8, 0.6, 0.7))
    assert set(page.results) == {"check", "rates"}
    assert "Rate of each system" in page.html
    assert "Annotators would label about" in page.html


def test_one_system_is_referred_to_rates_by_other_questions() -> None:
    for question in (cu.leaderboard, cu.ranking, cu.favoritism):
        with pytest.raises(
            InputError,
            match=r"table: only 1 system \(table\).*for rates of labels.*use rates, which needs only one system",
        ):
            question(table())


def test_replacement_needs_three_annotators_and_is_told_in_the_verdict() -> None:
    rng = np.random.default_rng(0)
    good = rng.random(200) < 0.6
    flip = lambda share: np.where(rng.random(200) < share, ~good, good)  # noqa: E731
    columns = {f"expert_{k}": np.where(flip(0.2), "pass", "fail") for k in range(3)}
    data = pl.DataFrame(
        {
            "id": range(200),
            **columns,
            "judge_good": np.where(flip(0.1), "pass", "fail"),
            "judge_bad": np.where(flip(0.6), "pass", "fail"),
        }
    )
    result = cu.rates(data)
    assert dict(result.replacement.select("metric", "may_replace").iter_rows()) == {
        "judge_good": True,
        "judge_bad": False,
    }
    assert result.replacement_annotators.height == 6
    text = "\n".join(cu.verdict(data).lines())
    assert "Judges that may replace an annotator: judge_good (100 %)" in text
    assert "Judges that are not shown to be able to replace an annotator: judge_bad (0 %)" in text
    two = row(cu.rates(data.drop("expert_2", "judge_bad")).replacement)
    assert (two["winning_rate"], two["may_replace"]) == (None, None)
    assert "fewer than 3 annotators" in two["reason"]
    assert cu.rates(data.drop("expert_1", "expert_2")).replacement.is_empty()
    stricter = row(cu.rates(data, epsilon=0.0).replacement, metric="judge_good")
    assert stricter["winning_rate"] <= 1
    truth = pl.Series(np.where(good, "pass", "fail"))
    half_random = data.select("id", "expert_0", "expert_1", expert_2=truth, expert_3=truth, judge=truth)
    equal = row(cu.rates(half_random, epsilon=0.0).replacement)
    assert (equal["winning_rate"], equal["may_replace"]) == (0.5, True)
    with pytest.raises(OptionError, match=r"epsilon=2: must be at least 0 and below 1"):
        cu.rates(data, epsilon=2)


def test_the_test_of_random_sampling_counts_equal_outputs() -> None:
    judge = ["pass"] * 13 + ["fail"] * 17 + ["pass"] * 30 + ["fail"] * 70
    table = pl.DataFrame({"id": range(130), "judge": judge, "human": [*judge[:30], *[None] * 100]})
    counts = table.group_by("judge", "human", maintain_order=True).agg(pl.col("id").first(), number=pl.len())
    counts = pl.concat(
        [table.head(30).with_columns(number=1), counts.filter(pl.col("human").is_null())], how="diagonal_relaxed"
    )
    for study in (cu.read(table), cu.read(counts, columns={"n_outputs": "number"})):
        (outputs,) = labelled_outputs(study.select(one_side=True), consensus="vote")
        expected = fisher_exact([[13, 17], [30, 70]]).pvalue
        assert sampling_p_value(outputs, outputs.judged[0]) == pytest.approx(expected)


def test_the_test_of_random_sampling_is_exact_for_rare_labels_and_looks_within_versions() -> None:
    for table in np.random.default_rng(0).integers(0, 12, (50, 2, 2)):
        assert fisher_p_value(table) == pytest.approx(fisher_exact(table).pvalue)
    # 2 of 4 rare labels are among 100 of 1,000 outputs: p = .05, but .006 by a z-test.
    judge = np.where(np.isin(np.arange(1000), [0, 1, 998, 999]), "fail", "pass")
    human = pl.Series(judge).set(pl.Series(np.arange(1000) >= 100), None)
    rare = pl.DataFrame({"id": range(1000), "judge": judge, "human": human})
    assert "labelled-part-not-random" not in {note.rule for note in cu.rates(rare).notes}
    # Each version has a random sample, but the versions differ in the rate of the judge and in the number of labels.
    other = table_of_versions(n_labelled=(300, 60))
    assert "labelled-part-not-random" not in {note.rule for note in cu.rates(other).notes}
    selected = other.with_columns(
        expert=pl.when(~((pl.col("model") == "b") & (pl.col("judge") == "pass"))).then("expert")
    )
    (message,) = [note.message for note in cu.rates(selected).notes if note.rule == "labelled-part-not-random"]
    assert message.startswith("the outputs of b with a human label are not a random sample")


def table_of_versions(*, n_labelled: tuple[int, ...]) -> pl.DataFrame:
    """Return versions with different rates, of which annotators labelled the first outputs."""
    return pl.concat(
        [
            table(600, rate=0.9 - 0.5 * k, labelled=1, seed=k).with_columns(
                expert=pl.when(pl.col("id") < n).then("expert"), model=pl.lit("ab"[k])
            )
            for k, n in enumerate(n_labelled)
        ]
    )


@pytest.mark.parametrize(("sd", "is_equivalent"), [(0.0175, True), (0.0195, False)])
def test_equivalence_is_two_one_sided_tests_at_level_alpha(sd: float, *, is_equivalent: bool) -> None:
    # The difference is .02, so the distance from the margin of .05 is 1.71 or 1.54 standard errors (quantile 1.645).
    quantiles = norm.ppf((np.arange(2000) + 0.5) / 2000)
    none = np.zeros(2001)
    first, second = (
        SimpleNamespace(n_both_labels=50, error_rates={"tpr": tpr, "tnr": none}, pairs=None)
        for tpr in (0.02 + np.append(0.0, sd * quantiles), none)
    )
    assert has_equivalent_rates([first, second], alpha=0.05) is is_equivalent  # type: ignore[list-item]


@pytest.mark.parametrize("n", [9, 10])
def test_error_rates_of_systems_are_tested_with_ten_labels_of_a_kind(n: int) -> None:
    rows = [
        (i, system, "pass" if (i + (system == "a")) % 2 else "fail", "pass" if i < n else None)
        for system in "ab"
        for i in range(40)
    ]
    row = cu.rates(pl.DataFrame(rows, schema=["item", "model", "judge", "expert"], orient="row")).differences
    assert (row["p_tpr"].is_null().all(), row["p_tnr"].is_null().all()) == (n < 10, True)


def test_outputs_that_only_another_judge_labelled_belong_to_the_population() -> None:
    data = table().with_columns(other=pl.col("expert").fill_null("pass")).rename({"other": "judge_b"})
    data = data.with_columns(judge=pl.when(pl.int_range(pl.len()) % 4 > 0).then("judge"))
    both, alone = cu.rates(data).rates.filter(metric="judge"), cu.rates(data, metrics="judge").rates
    assert alone.select("n", "n_labelled").equals(both.select("n", "n_labelled"))
    assert alone["n"].item() == 600


def test_ten_labels_of_a_kind_give_few_false_findings() -> None:
    """Without the correction for continuity, the probability of a false finding is .087."""
    draws = np.random.default_rng(0).beta(np.arange(11)[:, None] + 0.5, 10.5 - np.arange(11)[:, None], (11, 4000))
    test = partial(DifferenceTest.from_draws, continuity_correction=2 * CONTINUITY / 10)
    p_values = np.array([[test(a - b).p_value for a in draws] for b in draws[:, ::-1]])
    for rate in (0.1, 0.22, 0.35, 0.5):
        probabilities = binom.pmf(np.arange(11), 10, rate)
        assert probabilities @ (p_values <= 0.05) @ probabilities < 0.06


def test_intervals_of_differences_are_simultaneous_as_the_tests_are() -> None:
    parts = [
        table(300, rate=rate, tnr=tnr, labelled=0.5, seed=k).with_columns(model=pl.lit(f"v{k}"))
        for k, (rate, tnr) in enumerate(((0.5, 0.9), (0.5, 0.75), (0.6, 0.6), (0.75, 0.5)))
    ]
    differences = cu.rates(pl.concat(parts)).differences
    assert (differences["p_adjusted"] <= 0.05).to_list() == (differences["decision"] != "=").to_list()
    for name, p_name in (("corrected", "p_adjusted"), ("tpr", "p_tpr"), ("tnr", "p_tnr")):
        low, high = (differences[f"{name}_difference_{end}"] for end in ("low", "high"))
        is_significant = differences[p_name] <= 0.05
        assert ((low > 0) | (high < 0)).to_list() == is_significant.to_list()
        assert set(is_significant) == ({False} if name == "tpr" else {True, False})
    pair = cu.rates(pl.concat(parts[:2])).differences.row(0, named=True)  # 2 tests of error rates instead of 12
    assert pair["p_tnr"] == pytest.approx(differences["p_tnr"][0] / 6, rel=0.5)
    assert pair["tnr_difference_low"] > differences["tnr_difference_low"][0] + 0.02


def one_system(**columns: list[str | None]) -> dict[str, Any]:
    (found,) = cu.rates(pl.DataFrame({"id": range(len(columns["judge"])), **columns})).rates.to_dicts()
    return found


def test_a_rate_has_the_reason_for_what_is_uncertain_and_the_labels_saved() -> None:
    judge = ["pass"] * 40 + ["fail"] * 20
    human = (["pass"] * 18 + ["fail"] * 2 + [None] * 20) + (["fail"] * 8 + ["pass"] * 2 + [None] * 10)
    certain = one_system(judge=judge, expert=human)
    assert (certain["reason"], certain["method"], certain["label"]) == ("", "post-stratified", "pass")
    cells, total = np.array([[8.0, 2.0], [2.0, 18.0]]), np.array([20.0, 40.0])
    saved = 30 * (beta(20.5, 10.5).var() / rate_variance(LabelCounts(cells, total)) - 1)
    assert certain["labels_saved"] == round(saved) > 0
    lopsided = one_system(judge=judge, expert=["pass"] * 17 + ["fail"] * 3 + [None] * 20 + ["pass"] + [None] * 19)
    assert (lopsided["labels_saved"], lopsided["n"], lopsided["n_labelled"]) == (0, 60, 21)
    few = one_system(judge=judge, expert=["pass"] * 20 + [None] * 20 + ["pass"] * 8 + ["fail"] * 2 + [None] * 10)
    assert few["reason"] == "fewer than 3 human labels are positive, or fewer than 3 are negative"
    three = one_system(judge=judge, expert=["pass"] * 20 + [None] * 20 + ["pass"] * 7 + ["fail"] * 3 + [None] * 10)
    assert three["reason"] == ""
    unseen = one_system(judge=judge, expert=["pass"] * 10 + ["fail"] * 10 + [None] * 40)
    assert unseen["reason"] == "for some labels (or score bins) of the metric, no output has a human label"
    apart = one_system(judge=[None] * 30 + judge, expert=["pass", "fail"] * 15 + [None] * 60)
    assert apart["reason"] == "no output has both a label of the metric and a human label"
    assert (apart["method"], apart["labels_saved"], apart["n_labelled"]) == ("", None, 30)
    golden = pl.DataFrame({"id": range(60), "judge": judge, "expert": human})
    reversed_judge = golden.with_columns(expert=pl.col("expert").replace({"pass": "fail", "fail": "pass"}))
    (chance,) = cu.rates(reversed_judge, sampling="by-label").rates.to_dicts()
    assert (chance["reason"], chance["method"]) == ("the metric's labels are no better than chance", "rogan-gladen")
    assert chance["labels_saved"] is None
    for epsilon in (-0.01, 1.0):
        with pytest.raises(OptionError, match="must be at least 0 and below 1"):
            cu.rates(golden, epsilon=epsilon)
    assert cu.rates(golden, epsilon=0.0).rates.equals(cu.rates(golden).rates)
    assert cu.rates(golden, by="system").slices.height == 1
    assert cu.rates(golden).slices.is_empty()
