from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import beta
from sklearn import metrics as sklearn_metrics

import custodes as cu
from custodes.errors import InputError, OptionError
from custodes.stats.rates.posterior import LabelCounts, rate_variance
from tests.evaluate.rates.tables import row, table
from tests.messages import exactly


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


def test_one_system_is_referred_to_rates_by_other_questions() -> None:
    for question in (cu.leaderboard, cu.ranking, cu.favoritism):
        with pytest.raises(
            InputError,
            match=r"table: only 1 system \(table\).*for rates of labels.*use rates, which needs only one system",
        ):
            question(table())


def test_outputs_that_only_another_judge_labelled_belong_to_the_population() -> None:
    data = table().with_columns(other=pl.col("expert").fill_null("pass")).rename({"other": "judge_b"})
    data = data.with_columns(judge=pl.when(pl.int_range(pl.len()) % 4 > 0).then("judge"))
    both, alone = cu.rates(data).rates.filter(metric="judge"), cu.rates(data, metrics="judge").rates
    assert alone.select("n", "n_labelled").equals(both.select("n", "n_labelled"))
    assert alone["n"].item() == 600


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


def test_notes_name_their_criterion() -> None:
    labels = {f"{rater}_{name}": ["pass", "fail"] * 20 for rater in ("judge", "human") for name in ("tone", "facts")}
    labels["judge_tone"] = [None, *labels["judge_tone"][1:]]
    result = cu.rates(cu.read(pl.DataFrame({"id": range(40), **labels})))
    (message,) = [note.message for note in result.notes if note.rule == "outputs-without-judge-label"]
    assert message.startswith(
        "judge gives no usable label to 1 of 40 outputs of table for aspect 'tone'; these outputs"
    )
