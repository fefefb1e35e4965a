"""The report section on combined metrics: tables, figures and sentences."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

import custodes as cu
from custodes.answers.wording import estimate_with_interval, insert_nonbreaking_spaces
from custodes.combining.combine import Combine
from custodes.combining.generalisation import GAIN, NO_GAIN
from custodes.plots.combine import CLEAR
from custodes.reporting import Report
from custodes.reporting.section import Context
from custodes.reporting.sections.combine import COMBINE, comparison_rows, sentences
from tests.reporting.shown import section_of

ASPECTS = ["coherence", "fluency"]


@pytest.fixture(scope="module")
def fitted(demo_report: Report) -> Combine:
    result = demo_report.results["combine"]
    assert isinstance(result, Combine)
    return result


@pytest.fixture(scope="module")
def text(demo_report: Report) -> str:
    return section_of(demo_report.html, "combine")


def context(demo_report: Report, fitted: Combine, **absent: str) -> Context:
    return replace(demo_report.context, results={**demo_report.results, "combine": fitted}, absent=absent)


def gains(fitted: Combine, low: float | None, high: float | None, value: float = 0.05) -> Combine:
    """Return the result with the same gain for every method."""
    ends = {"gain": value, "gain_low": low, "gain_high": high}
    claim = None if low is None else GAIN if low > 0 else NO_GAIN
    table = fitted.generalisation.with_columns(
        *(pl.lit(end, pl.Float64).alias(name) for name, end in ends.items()),
        conclusion=pl.lit(claim, pl.String),
    )
    return replace(fitted, generalisation=table)


def test_every_method_has_a_row_with_its_lead(text: str, fitted: Combine) -> None:
    table = text[text.index('id="table-combine-comparison"') :]
    rows = comparison_rows(fitted)
    assert rows["target"].to_list() == [aspect for aspect in ASPECTS for _ in range(3)]
    assert table.count("<tr data-aspect=") == 6
    for row in rows.iter_rows(named=True):
        assert f'data-value="{row["kendall"]}"' in table
        assert (row["lead"] is None) is (row["method"] == "best")
        if row["lead"] is not None:
            single = rows.filter(target=row["target"], method="best")["kendall"][0]
            assert row["lead"] == pytest.approx(row["kendall"] - single)
            assert row["lead_low"] <= row["lead"] <= row["lead_high"]
    for aspect in ASPECTS:
        scores = rows.filter(target=aspect)["kendall"]
        assert scores.to_list() == sorted(scores, reverse=True)


def test_sentences_and_tools_are_in_the_page(text: str, fitted: Combine) -> None:
    for aspect, sentence in sentences(fitted):
        assert f'<p data-aspect="{aspect}"><b>{insert_nonbreaking_spaces(sentence)}</b></p>' in text
    assert [aspect for aspect, _ in sentences(fitted)] == ASPECTS
    assert "the combination by ridge regression, chosen in advance" in " ".join(text.split())
    assert "custodes combine fit" in text


@pytest.mark.parametrize(
    ("value", "low", "high", "phrase"),
    [
        (0.05, 0.001, 0.1, "the gain is 0.050 [0.001, 0.100]"),
        (0.05, 0.0, 0.1, "the difference of 0.05 [0.00, 0.10] is not a significant gain"),
        (-0.05, -0.1, -0.001, "the difference of −0.050 [−0.100, −0.001] is not a significant gain"),
        (0.05, None, None, "the difference (0.05) has no interval, so it is inconclusive"),
    ],
)
def test_the_sentence_follows_the_interval(
    fitted: Combine, value: float, low: float | None, high: float | None, phrase: str
) -> None:
    lines = sentences(gains(fitted, low, high, value))
    rows = {row["method"]: row for row in fitted.comparison.filter(target="coherence").iter_rows(named=True)}
    assert lines[0][1].startswith(
        f"On coherence, ridge regression reaches τ-b {estimate_with_interval(rows['ridge'], 'kendall')} over "
        "held-out outputs. The single metric with the highest τ-b on the training items reaches "
        f"{estimate_with_interval(rows['best'], 'kendall')}; {phrase}."
    )
    assert all(
        f"; {phrase}. For these combinations, the gain over the best single metric is not tested: " in sentence
        for _, sentence in lines
    )


@pytest.mark.parametrize("winner", ["ridge", "equal"])
def test_the_combination_named_first_is_judged_whichever_wins(fitted: Combine, winner: str) -> None:
    wins = pl.when(pl.col("method") == winner).then(0.9).otherwise("kendall").alias("kendall")
    lines = sentences(replace(gains(fitted, 0.001, 0.1), comparison=fitted.comparison.with_columns(wins)))
    names = {"equal": "mean of all metrics"}
    for _, sentence in lines:
        tested, others = sentence.split(" For these combinations, the gain over the best single metric is not tested: ")
        assert ", ridge regression reaches τ-b " in tested
        assert not any(name in tested for name in names.values())
        assert all(name in others for name in names.values())
        assert "better" not in others
        assert ("0.90" in others) is (winner in names)


def test_nothing_is_judged_without_the_first_or_the_single_metric(fitted: Combine) -> None:
    for name in ("ridge", "best"):
        rows = fitted.comparison.filter(pl.col("method") != name)
        assert sentences(replace(fitted, comparison=rows)) == []


def test_pictures_draw_rows_of_the_chosen_aspect(demo_report: Report, fitted: Combine) -> None:
    charts, _ = COMBINE.build_content(context(demo_report, fitted))
    assert [figure.id for figure in charts] == ["combine-comparison", "combine-weights"]
    assert all(figure.where == {"target": "{aspect}"} for figure in charts)
    assert all("values" not in figure.spec.get("data", {}) for figure in charts)
    specs = {figure.id: str(figure.spec) for figure in charts}
    assert "τ-b with human ratings, held out" in specs["combine-comparison"]
    assert CLEAR[0] in specs["combine-weights"]


def test_an_aspect_without_a_combination_is_left_out_and_named() -> None:
    ratings = cu.read("demo").ratings.frame.select("item", "system", "rater", "aspect", "score")
    few = ratings["item"].unique().sort()[:4]
    # fluency has human ratings on four items only, and nested validation needs five
    ratings_kept = ratings.filter(
        ~(pl.col("rater").str.starts_with("ann") & (pl.col("aspect") == "fluency"))
        | pl.col("item").is_in(few.implode())
    )
    kinds = pl.when(pl.col("rater").str.starts_with("ann")).then(pl.lit("human")).otherwise(pl.lit("metric"))
    report = cu.report(cu.read(ratings_kept.with_columns(kind=kinds)), metrics="judge,overlap", resamples=20)
    fitted = report.results["combine"]
    assert fitted.tables()["comparison"]["target"].unique().to_list() == ["coherence"]
    assert "<p>&#39;fluency&#39; cannot be combined: " in report.html
    assert "needs at least 5" in report.html
