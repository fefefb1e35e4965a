"""Routing: accepted judgements, outputs to label, and the rate from both."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import beta, binomtest, norm

import custodes as cu
from custodes.errors import InputError, OptionError
from custodes.stats.rates.sample_size import allocation, rate_shares
from custodes.stats.rates.selective import e_values, error_rates
from tests.messages import exactly


def traces(n: int = 2000, *, labelled: int = 400, auc: float = 0.9, seed: int = 0) -> pl.DataFrame:
    """Return outputs of a judge with 15 % errors; its confidence separates errors with an area `auc` under the ROC
    curve."""
    rng = np.random.default_rng(seed)
    good, errors = rng.random(n) < 0.7, rng.random(n) < 0.15
    latent = rng.normal(size=n) + np.sqrt(2) * norm.ppf(auc) * errors
    words = np.array(["fail", "pass"])
    truth = words[good.astype(int)]
    return pl.DataFrame(
        {
            "id": np.arange(n).astype(str),
            "judge": words[(good ^ errors).astype(int)],
            "judge_confidence": 1 / (1 + np.exp(latent - 2.5)),
            "human": pl.Series(truth).set(pl.Series(np.arange(n) >= labelled), None),
            "truth": truth,
        }
    )


def route(data: pl.DataFrame, **options: Any) -> cu.Route:
    return cu.route(data.drop("truth"), **options)


def only(table: pl.DataFrame) -> dict[str, Any]:
    assert table.height == 1
    return table.row(0, named=True)


def with_labels(data: pl.DataFrame, result: cu.Route) -> pl.DataFrame:
    """Return the data with the requested labels and their probabilities."""
    assert result.outputs["item"].to_list() == data["id"].to_list()
    label_next = result.outputs["label_next"]
    return data.select(
        "id",
        "judge",
        human=pl.when(label_next).then("truth").otherwise("human"),
        probability=result.outputs["probability"],
    )


def rate(data: pl.DataFrame) -> dict[str, Any]:
    columns = {"item": "id", "score": ["human:{rater:human}", "metric:{rater:judge}"], "probability": "probability"}
    return only(cu.rates(cu.read(data, columns=columns)).rates)


def test_threshold_is_the_last_of_the_sequence_that_passes() -> None:
    data = traces()
    result = route(data)
    row = only(result.threshold)
    labelled = data.filter(pl.col("human").is_not_null() & (pl.col("judge_confidence") >= row["threshold"]))
    n_wrong = labelled.filter(pl.col("judge") != pl.col("human")).height
    assert (row["n_labelled"], row["disagreement"]) == (labelled.height, n_wrong / labelled.height)
    exact = binomtest(n_wrong, labelled.height, alternative="less").proportion_ci(0.95).high
    assert row["disagreement_bound"] == pytest.approx(exact)
    assert exact <= 0.1
    levels = np.quantile(data["judge_confidence"], np.arange(20) / 20, method="lower")
    (position,) = np.flatnonzero(levels == row["threshold"])
    lower = data.filter(pl.col("human").is_not_null() & (pl.col("judge_confidence") >= levels[position - 1]))
    n_wrong = lower.filter(pl.col("judge") != pl.col("human")).height
    assert binomtest(n_wrong, lower.height, alternative="less").proportion_ci(0.95).high > 0.1


def test_outputs_that_are_not_accepted_are_labelled_and_a_part_of_the_others() -> None:
    data = traces()
    outputs = route(data).outputs.with_columns(label=data["judge"])
    free = outputs.filter(data["human"].is_null())
    assert free.filter(~pl.col("accepted"))["label_next"].all()
    accepted = free.filter("accepted").group_by("label").agg(pl.len(), n=pl.col("label_next").sum())
    assert accepted["n"].to_list() == [int(np.ceil(0.05 * n)) for n in accepted["len"]]
    assert not outputs.filter(data["human"].is_not_null())["label_next"].any()
    shares = outputs.with_columns(has=pl.col("label_next") | data["human"].is_not_null())
    for row in (
        shares.group_by("label", "accepted").agg(pl.col("has").mean(), pl.col("probability").unique()).to_dicts()
    ):
        assert row["probability"] == pytest.approx([row["has"]])


@pytest.mark.parametrize("options", [{}, {"add": 150}])
def test_the_rate_from_both_is_that_of_the_truth(options: dict[str, Any]) -> None:
    errors, inside = [], 0
    for seed in range(5):
        data = traces(seed=seed, labelled=200)
        truth = (data["truth"] == "pass").mean()
        estimate = rate(with_labels(data, route(data, rng=seed, **options)))
        errors.append(estimate["corrected_rate"] - truth)
        inside += estimate["corrected_rate_low"] <= truth <= estimate["corrected_rate_high"]
    assert abs(np.mean(errors)) < 3 * np.std(errors) / np.sqrt(5)
    assert inside >= 4


def test_labels_by_expected_error_give_a_narrower_interval() -> None:
    data = traces(4000, labelled=100, auc=0.95)
    by_error = rate(with_labels(data, route(data, add=300)))
    at_random = with_labels(data, route(data, add=300)).with_columns(
        human=pl.when(pl.int_range(4000) < 400).then(data["truth"]), probability=pl.lit(1.0)
    )
    uniform = rate(at_random)
    assert by_error["n_labelled"] == uniform["n_labelled"] == 400
    width, wide = (row["corrected_rate_high"] - row["corrected_rate_low"] for row in (by_error, uniform))
    assert width < 0.8 * wide


def test_the_drawing_does_not_depend_on_the_order_of_the_rows() -> None:
    data = traces()
    shuffled = data.sample(fraction=1, shuffle=True, seed=1)
    first, second = (route(rows).outputs.filter("label_next")["item"].sort().to_list() for rows in (data, shuffled))
    assert first == second
    assert route(shuffled).outputs["item"].to_list() == shuffled["id"].to_list()
    assert first != route(data, rng=1).outputs.filter("label_next")["item"].sort().to_list()


def test_alarm_when_accepted_judgements_get_worse() -> None:
    assert only(route(traces()).threshold)["alarm"] is None
    before = only(route(traces(), threshold=0.8).threshold)
    assert before["alarm"] is False
    assert before["e_value"] < 20
    unlabelled = only(route(traces(labelled=0), threshold=0.8, signal="judge_confidence").threshold)
    assert (unlabelled["alarm"], unlabelled["e_value"], unlabelled["n_labelled"]) == (None, None, 0)
    data = traces()
    worse = data.with_columns(judge=pl.when(pl.int_range(2000) % 4 == 0).then(pl.lit("fail")).otherwise("judge"))
    changed = only(route(worse, threshold=0.8).threshold)
    assert changed["alarm"] is True
    assert changed["e_value"] >= 20
    assert only(route(worse, threshold=0.8, disagreement=0.3).threshold)["alarm"] is False


def confidences(**columns: Any) -> pl.DataFrame:
    """Return 60 outputs with a confidence that a column holds."""
    rows = np.arange(60)
    judge = np.where(rows % 2, "pass", "fail")
    return pl.DataFrame({"id": rows.astype(str), "judge": judge, **columns, "human": judge})


def test_classes_of_confidence_end_at_its_quantiles() -> None:
    """Labels are allocated to the lowest 10 %, the next 15 %, the next 25 % and the upper half of the confidence."""
    n = np.arange(400)
    judge = np.where(n % 2, "fail", "pass")
    human = pl.Series(np.where((n % 5 == 0) & (n < 200), "fail", judge)).set(pl.Series(n % 3 > 0), None)
    data = pl.DataFrame({"id": n.astype(str), "judge": judge, "judge_confidence": np.linspace(0.5, 0.99, 400)})
    outputs = cu.route(data.with_columns(human=human), add=60).outputs.join(data, left_on="item", right_on="id")
    classes = outputs.group_by("judge", "probability").agg(pl.len(), pl.col("certainty").max()).sort("certainty")
    assert classes["len"].to_list() == [20, 20, 30, 30, 50, 50, 100, 100]


def certainty(data: pl.DataFrame, **options: Any) -> tuple[str, list[float]]:
    result = cu.route(data, metric="judge", **options)
    return only(result.threshold)["signal"], result.outputs["certainty"].to_list()[:4]


def test_confidence_from_scores_columns_repeats_and_judges() -> None:
    positive = np.where(np.arange(60) % 2, 0.9, 0.3)
    positive[:2] = 0.4, 0.6
    signal, values = certainty(confidences(judge_prob=positive))
    assert (signal, values) == ("judge_prob", pytest.approx([0.1, 0.1, 0.2, 0.4]))
    assert certainty(confidences(judge_confidence=positive)) == ("judge_confidence", positive.tolist()[:4])
    unsure = np.linspace(0.5, 0.9, 60)
    assert certainty(confidences(surety=unsure), signal="surety") == ("surety", unsure.tolist()[:4])
    second = np.where(np.arange(60) % 4, confidences()["judge"], "pass")
    assert certainty(confidences(judge_b=second)) == ("judges", [0.5, 1.0, 1.0, 1.0])
    runs = pl.concat([confidences().with_columns(run=pl.lit(k)) for k in range(3)]).with_columns(
        judge=pl.when((pl.col("id") == "0") & (pl.col("run") == 2)).then(pl.lit("pass")).otherwise("judge")
    )
    assert certainty(runs) == ("repeats", pytest.approx([2 / 3, 1.0, 1.0, 1.0]))


def test_nothing_is_accepted_without_enough_labels_or_agreement() -> None:
    few = only(route(traces(labelled=40)).threshold)
    assert (few["threshold"], few["accepted"]) == (None, 0.0)
    assert few["reason"] == "the test of a threshold needs 76 human labels above the threshold; there are only 40"
    strict = only(route(traces(), disagreement=0.015).threshold)
    assert strict["reason"].startswith("the test of a threshold needs 515 human labels above the threshold")
    poor = only(route(traces(auc=0.5), disagreement=0.12).threshold)
    assert "labelled judgements with the highest confidence differ from the human label" in poor["reason"]


def test_what_cannot_be_routed_is_refused_in_one_line() -> None:
    data = traces()
    with pytest.raises(
        InputError,
        match=exactly("route: no judgement of judge has a human label; label a random part of at least 76 outputs"),
    ):
        route(data.drop("human"), signal="judge_confidence")
    with pytest.raises(
        OptionError,
        match=exactly(
            "route needs a measure of the confidence of judge; give signal=NAME with a metric that gives "
            "scores, a column of numbers, repeats or judges"
        ),
    ):
        route(data.drop("judge_confidence"))
    with pytest.raises(OptionError, match=r"add=3: \d classes of confidence would have no human label; increase add"):
        route(data.with_columns(human=pl.when(pl.int_range(2000) < 3).then("human")), add=3)
    versions = data.with_columns(model=pl.lit("a"))
    with pytest.raises(
        InputError,
        match=exactly(
            "route: some items have several outputs, but probabilities are given by item; select one system "
            "with systems=NAME, or give each output a separate item"
        ),
    ):
        route(pl.concat([versions, versions.with_columns(model=pl.lit("b"))]))
    with pytest.raises(
        InputError,
        match=exactly(
            "route: outputs have unequal probabilities of a human label, but the search for a threshold "
            "needs labels of a random part of the outputs; label a random part, or give threshold=NUMBER"
        ),
    ):
        cu.route(
            cu.read(
                with_labels(data, route(data)),
                columns={
                    "item": "id",
                    "score": ["human:{rater:human}", "metric:{rater:judge}"],
                    "probability": "probability",
                },
            ),
            signal="judges",
        )


def test_a_tie_of_annotators_is_a_disagreement() -> None:
    data = traces().with_columns(human_2=pl.when(pl.col("human").is_not_null()).then(pl.col("judge")), human="judge")
    data = data.with_columns(human=pl.when(pl.int_range(2000) < 400).then("human"))
    tied = pl.when(pl.int_range(2000) < 20).then(pl.lit("pass")).otherwise("human_2")
    other = pl.when(pl.int_range(2000) < 20).then(pl.lit("fail")).otherwise("human")
    result = only(route(data.with_columns(human=other, human_2=tied), threshold=0.0).threshold)
    assert (result["n_labelled"], result["disagreement"]) == (400, 20 / 400)


def test_a_selection_by_confidence_is_noted() -> None:
    data = traces()
    unsure = data.with_columns(human=pl.when(pl.col("judge_confidence") < 0.85).then("truth"))
    (message,) = [note.message for note in route(unsure).notes if note.rule == "labelled-part-not-random"]
    p_text = message.split("(p = ")[1].split(")")[0]
    assert float(p_text) < 0.01
    assert message == (
        "the outputs with a human label are not a random sample with respect to the judge's labels and confidence "
        f"(p = {p_text}). The threshold is valid only for a random sample"
    )
    assert "labelled-part-not-random" not in {note.rule for note in route(data).notes}


def graded(n_wrong: list[int], n_labelled: list[int], *, n: int = 100) -> pl.DataFrame:
    """Return n outputs of each confidence, from the highest downwards, with these numbers of wrong and of human labels.

    The judge passes and fails outputs in turn.
    """
    parts = [
        pl.DataFrame({"k": range(n)}).select(
            id=pl.format("{}-{}", pl.lit(part), "k"),
            judge=pl.when(pl.col("k") % 2 == 0).then(pl.lit("pass")).otherwise(pl.lit("fail")),
            judge_confidence=pl.lit(0.95 - 0.1 * part),
            human=pl.when(pl.col("k") < labelled).then(
                pl.when((pl.col("k") % 2 == 0) == (pl.col("k") < wrong)).then(pl.lit("fail")).otherwise(pl.lit("pass"))
            ),
        )
        for part, (wrong, labelled) in enumerate(zip(n_wrong, n_labelled, strict=True))
    ]
    return pl.concat(parts)


def test_the_table_of_the_threshold_has_the_counts_of_accepted_outputs() -> None:
    data = graded([1, 2, 20, 0], [60, 60, 60, 60])
    row = only(cu.route(data).threshold)
    assert (row["threshold"], row["accepted"], row["n"], row["n_labelled"]) == (0.85, 0.5, 400, 120)
    assert (row["disagreement"], row["reason"], row["e_value"], row["alarm"]) == (3 / 120, "", None, None)
    assert row["disagreement_bound"] == pytest.approx(binomtest(3, 120, alternative="less").proportion_ci(0.95).high)
    loose = only(cu.route(data, confidence=0.5, disagreement=0.2).threshold)
    assert loose["threshold"] == pytest.approx(0.65)
    assert loose["disagreement_bound"] == pytest.approx(binomtest(23, 240, alternative="less").proportion_ci(0.5).high)
    first = cu.route(data, threshold=0.95)
    row = only(first.threshold)
    assert (row["accepted"], row["n_labelled"], row["disagreement"]) == (0.25, 60, 1 / 60)
    wrong = np.zeros(60, dtype=bool)
    wrong[np.flatnonzero(data["judge"][:60] != data["human"][:60])] = True
    assert row["e_value"] == pytest.approx(max(1, e_values(wrong, max_disagreement=0.1).max()))
    assert row["alarm"] is False
    none = only(cu.route(data, threshold=0.99).threshold)
    assert (none["accepted"], none["n_labelled"], none["disagreement"], none["disagreement_bound"]) == (
        0,
        0,
        None,
        None,
    )


def test_reasons_say_how_many_labels_would_be_enough() -> None:
    few = only(cu.route(graded([0, 0], [30, 45])).threshold)
    assert few["reason"] == "the test of a threshold needs 76 human labels above the threshold; there are only 75"
    assert (few["threshold"], few["accepted"], few["add"]) == (None, 0, 125)
    near = only(cu.route(graded([8, 0], [90, 0]), disagreement=0.1).threshold)
    rate = 8 / 90
    needed = next(n for n in range(1, 5000) if beta.ppf(0.95, rate * n + 1, n - rate * n) <= 0.1)
    assert near["reason"] == (
        "8.9% of the 90 labelled judgements with the highest confidence differ from the human label; if the rate stays "
        f"the same, {needed} labels would be enough"
    )
    bad = only(cu.route(graded([9, 0], [90, 0]), disagreement=0.1).threshold)
    assert bad["reason"] == (
        "10.0% of the 90 labelled judgements with the highest confidence differ from the human label"
    )


def test_an_audit_has_at_least_ten_of_each_label_and_all_that_is_not_accepted() -> None:
    data = graded([0, 0, 30], [60, 60, 60], n=300)
    for audit, expected in ((0.05, 12), (0.01, 10), (0.051, 13), (0.999, 240)):
        outputs = cu.route(data, audit=audit, threshold=0.85).outputs.with_columns(label=data["judge"])
        added = outputs.group_by("accepted", "label").agg(pl.col("label_next").sum()).sort("accepted", "label")
        assert added["label_next"].to_list() == [120, 120, expected, expected]
    few = data.filter(pl.int_range(pl.len()) < 66)  # three without a human label of each label
    assert only(cu.route(few, threshold=0.85).threshold)["add"] == 6


def test_labels_by_expected_error_have_a_quarter_by_size() -> None:
    data = graded([2, 12, 6, 20], [40, 40, 40, 40], n=200)
    result = cu.route(data, add=120)
    certainty = data["judge_confidence"].to_numpy()
    code = (data["judge"] == "pass").to_numpy().astype(int)
    edges = np.quantile(certainty, (0.1, 0.25, 0.5), method="higher")
    stratum = code * 4 + (certainty[:, np.newaxis] >= edges).sum(axis=1)
    has = data["human"].is_not_null().to_numpy()
    wrong = has & (data["judge"] != data["human"]).fill_null(value=False).to_numpy()
    total, labelled, n_wrong = (np.bincount(stratum, weights=w, minlength=8) for w in (None, has, wrong))
    rates = error_rates(n_wrong.reshape(2, 4), labelled.reshape(2, 4)).ravel()
    share = total / 800
    target = 0.75 * rate_shares(share, rates) + 0.25 * share
    expected = allocation(
        target,
        n_labelled=labelled.astype(int),
        n_available=(total - labelled).astype(int),
        n_to_add=120,
        least_per_stratum=10,
    )
    added = np.bincount(stratum, weights=result.outputs["label_next"], minlength=8)
    np.testing.assert_array_equal(added, expected)
    probability = (labelled + added) / np.maximum(total, 1)
    np.testing.assert_allclose(result.outputs["probability"], probability[stratum])
    assert only(result.threshold)["add"] == 120


def test_notes_name_clusters_and_outputs_without_a_label() -> None:
    data = graded([1, 2, 20], [60, 60, 60])
    rules = {note.rule for note in cu.route(data).notes}
    assert not rules & {"clusters-in-plan", "outputs-without-judge-label", "labelled-part-not-random"}
    notes = {
        note.rule: note.message
        for note in cu.route(
            data.with_columns(judge=pl.when(pl.col("id") != "0-1").then("judge"), cluster=pl.int_range(pl.len()) // 2)
        ).notes
    }
    assert notes["outputs-without-judge-label"] == (
        "1 outputs have no usable label of judge and are not in the table outputs; let annotators label all of them"
    )
    assert notes["clusters-in-plan"] == (
        "outputs share clusters, but the bound treats outputs as independent, so the bound may be too low"
    )
    uneven = graded([0, 0, 0], [90, 60, 30])
    assert "labelled-part-not-random" in {note.rule for note in cu.route(uneven).notes}
    assert "labelled-part-not-random" not in {note.rule for note in cu.route(uneven, threshold=0.8).notes}
    with pytest.raises(
        InputError,
        match=exactly(
            "route: judge_confidence has no confidence for the labels of judge; name another measure with signal=NAME"
        ),
    ):
        cu.route(
            data.with_columns(
                judge_confidence=pl.when(pl.col("id") == "0-1").then(0.5),
                judge=pl.when(pl.col("id") != "0-1").then("judge"),
            )
        )
    with pytest.raises(OptionError, match="threshold=nan: must be a number"):
        cu.route(data, threshold=np.nan)
