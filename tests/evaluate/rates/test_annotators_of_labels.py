"""Labels of several annotators: consensus, ties and the replacement of an annotator."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import custodes as cu
from custodes.errors import OptionError
from tests.evaluate.rates.tables import row, table
from tests.messages import exactly


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
