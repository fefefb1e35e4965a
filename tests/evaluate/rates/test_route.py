"""Routing: accepted judgements, outputs to label, and the rate from both."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import binomtest, norm

import custodes as cu
from custodes.errors import InputError, OptionError


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
    for seed in range(8):
        data = traces(seed=seed, labelled=200)
        truth = (data["truth"] == "pass").mean()
        estimate = rate(with_labels(data, route(data, rng=seed, **options)))
        errors.append(estimate["corrected_rate"] - truth)
        inside += estimate["corrected_rate_low"] <= truth <= estimate["corrected_rate_high"]
    assert abs(np.mean(errors)) < 3 * np.std(errors) / np.sqrt(8)
    assert inside >= 6


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
    with pytest.raises(InputError, match="no judgement of judge has a human label; label a random part of at least 76"):
        route(data.drop("human"), signal="judge_confidence")
    with pytest.raises(OptionError, match="route needs a measure of the confidence of judge; give signal=NAME"):
        route(data.drop("judge_confidence"))
    with pytest.raises(OptionError, match=r"add=3: \d classes of confidence would have no human label; increase add"):
        route(data.with_columns(human=pl.when(pl.int_range(2000) < 3).then("human")), add=3)
    versions = data.with_columns(model=pl.lit("a"))
    with pytest.raises(InputError, match="items have several outputs"):
        route(pl.concat([versions, versions.with_columns(model=pl.lit("b"))]))
    with pytest.raises(InputError, match="unequal probabilities of a human label"):
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
    assert "labelled-part-not-random" in {note.rule for note in route(unsure).notes}
    assert "labelled-part-not-random" not in {note.rule for note in route(data).notes}
