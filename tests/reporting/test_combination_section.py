"""The section on combined metrics: what it shows, and what it says in plain words."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

import custodes as cu
from custodes.combine.fitting import CombineFit
from custodes.reporting import Report
from custodes.reporting.section import Context
from custodes.reporting.sections.combination import combination_section, comparison_rows, one_sided, sentences
from custodes.reporting.wording import interval

ASPECTS = ["coherence", "fluency"]
RESAMPLES = 100  # as in the fixture


@pytest.fixture(scope="module")
def fitted(made: Report) -> CombineFit:
    result = made.results["combination"]
    assert isinstance(result, CombineFit)
    return result


@pytest.fixture(scope="module")
def text(made: Report) -> str:
    found = re.search(r'<section id="combination">(.*?)\n</section>\n(?=<section id=)', made.html, re.DOTALL)
    assert found
    return found[1]


def context(made: Report, fitted: CombineFit, **absent: str) -> Context:
    return Context(
        study="demo",
        results={**made.results, "combination": fitted},
        verdict=made.verdict,
        aspects=("coherence", "fluency"),
        metrics=("judge",),
        pairs=(),
        extra={},
        absent=absent,
    )


def lead(fitted: CombineFit, low: float | None, high: float | None, value: float = 0.05) -> CombineFit:
    """With this difference of every method from the best single metric."""
    differences = pl.DataFrame(
        {
            "target": [target for target in ASPECTS for _ in range(3)],
            "method_a": 2 * ["ridge", "equal", "pairwise"],
            "method_b": 6 * ["best"],
            "difference": 6 * [value],
            "low": pl.Series(6 * [low], dtype=pl.Float64),
            "high": pl.Series(6 * [high], dtype=pl.Float64),
        }
    )
    return replace(fitted, differences=differences)


def favouring(fitted: CombineFit, low: float, high: float) -> CombineFit:
    """With intervals of favoritism: the single metric at [0.3, 0.5], everything else as given."""
    single = pl.col("method") == "best"
    ends = {
        "mean_abs_favi_low": pl.when(single).then(0.3).otherwise(low),
        "mean_abs_favi_high": pl.when(single).then(0.5).otherwise(high),
    }
    return replace(fitted, favoritism=fitted.favoritism.with_columns(**ends))


def test_it_stands_after_the_ceiling(made: Report) -> None:
    order = re.findall(r'<section id="(\w+)"', made.html)
    assert order.index("combination") == order.index("ceiling") + 1


@pytest.mark.parametrize("aspect", ASPECTS)
def test_the_tables_are_those_of_each_aspect_alone(fitted: CombineFit, aspect: str) -> None:
    alone = cu.combine_fit(
        cu.read("demo"),
        target=aspect,
        method=("ridge", "best", "equal", "pairwise"),
        repeats=1,
        resamples=RESAMPLES,
    )
    for name, table in alone.tables().items():
        together = fitted.tables()[name].filter(target=aspect)
        assert together.equals(table.select(together.columns)), name
    assert fitted.provenance.options["target"] == ASPECTS


def test_every_method_has_a_row_with_its_lead(text: str, fitted: CombineFit) -> None:
    table = text[text.index('id="table-combination-comparison"') :]
    rows = comparison_rows(fitted)
    assert rows["target"].to_list() == [aspect for aspect in ASPECTS for _ in range(4)]
    assert table.count("<tr data-aspect=") == 8
    for row in rows.iter_rows(named=True):
        assert interval(row["kendall"], row["low"], row["high"]) in table
        assert (row["lead"] is None) is (row["method"] == "best")
        if row["lead"] is not None:
            single = rows.filter(target=row["target"], method="best")["kendall"][0]
            assert row["lead"] == pytest.approx(row["kendall"] - single)
            assert row["lead_low"] <= row["lead"] <= row["lead_high"]
    for aspect in ASPECTS:
        own = rows.filter(target=aspect)["kendall"]
        assert own.to_list() == sorted(own, reverse=True)


def test_sentences_and_tools_are_in_the_page(text: str, fitted: CombineFit) -> None:
    for aspect, sentence in (*sentences(fitted), *one_sided(fitted)):
        assert f'<p data-aspect="{aspect}">{sentence}</p>' in text
    assert [aspect for aspect, _ in sentences(fitted)] == [aspect for aspect, _ in one_sided(fitted)] == ASPECTS
    assert "custodes combine fit" in text


@pytest.mark.parametrize(
    ("value", "low", "high", "phrase"),
    [
        (0.05, 0.001, 0.1, "It is better, by 0.050 [0.001, 0.100]."),
        (-0.05, -0.1, -0.001, "It is worse, by 0.050 [0.001, 0.100]."),
        (0.05, -0.05, 0.15, "They are not told apart: a difference of 0.050 [−0.050, 0.150]."),
        (0.05, None, None, "Without an interval of the difference (0.050) nothing can be said."),
    ],
)
def test_the_sentence_follows_the_interval(
    fitted: CombineFit, value: float, low: float | None, high: float | None, phrase: str
) -> None:
    told = sentences(lead(fitted, low, high, value))
    assert all(sentence.endswith(phrase) for _, sentence in told)
    single, way = (fitted.comparison.row(k, named=True) for k in (1, 0))  # on coherence ridge is the best way
    assert told[0][1].startswith(
        "On coherence, the best combination (ridge regression) reaches τ-b"
        f" {interval(way['kendall'], way['low'], way['high'])} with people"
    )
    assert f"metric {interval(single['kendall'], single['low'], single['high'])}." in told[0][1]


def test_a_difference_told_from_the_other_side_is_turned(fitted: CombineFit) -> None:
    straight = lead(fitted, 0.01, 0.1)
    ends = {"difference": -pl.col("difference"), "low": -pl.col("high"), "high": -pl.col("low")}
    swapped = straight.differences.with_columns(method_a="method_b", method_b="method_a", **ends)
    assert sentences(replace(fitted, differences=swapped)) == sentences(straight)


@pytest.mark.parametrize(
    ("low", "high", "phrase"),
    [
        (0.51, 0.8, "Its errors are more one-sided: "),
        (0.1, 0.29, "Its errors are less one-sided: "),
        (0.4, 0.8, "Its errors are not told apart in how one-sided they are: "),
    ],
)
def test_favoritism_is_told_apart_by_intervals(fitted: CombineFit, low: float, high: float, phrase: str) -> None:
    assert all(phrase in sentence for _, sentence in one_sided(favouring(fitted, low, high)))


def test_verdicts_have_no_favoritism_here(made: Report, fitted: CombineFit) -> None:
    names = ["target", "method", "sample_accuracy", "mean_abs_favi", "mean_abs_favi_chance"]
    bare = replace(fitted, favoritism=fitted.favoritism.select(names).head(0))
    found = combination_section(context(made, bare))
    assert one_sided(bare) == []
    assert "combination-favoritism" not in {figure.id for figure in found.charts}


def test_pictures_draw_rows_of_the_chosen_aspect(made: Report, fitted: CombineFit) -> None:
    charts = combination_section(context(made, fitted)).charts
    assert [figure.id for figure in charts] == [
        "combination-comparison",
        "combination-favoritism",
        "combination-weights",
        "combination-costs",
    ]
    assert all(figure.where == {"target": "{aspect}"} for figure in charts)
    assert all("values" not in figure.spec.get("data", {}) for figure in charts)


def test_an_aspect_without_a_combination_is_left_out_and_named() -> None:
    ratings = cu.read("demo").ratings.frame.select("item", "system", "rater", "aspect", "score")
    few = ratings["item"].unique().sort()[:4]
    # people rate fluency on four items only, and honest validation takes five
    kept = ratings.filter(
        ~(pl.col("rater").str.starts_with("ann") & (pl.col("aspect") == "fluency")) | pl.col("item").is_in(few)
    )
    kinds = pl.when(pl.col("rater").str.starts_with("ann")).then(pl.lit("human")).otherwise(pl.lit("metric"))
    report = cu.report(cu.read(kept.with_columns(kind=kinds)), resamples=20)
    fitted = report.results["combination"]
    assert fitted.tables()["comparison"]["target"].unique().to_list() == ["coherence"]
    assert "No combination of aspect &#39;fluency&#39;: " in report.html
    assert "it takes at least 5" in report.html


def test_where_it_was_not_asked_the_section_says_why(made: Report, fitted: CombineFit) -> None:
    found: Any = combination_section(context(made, fitted, combination="demo: nothing to learn"))
    assert "Not asked of this study: demo: nothing to learn" in found.html
    assert found.charts == ()


def test_too_few_items_leave_no_combination() -> None:
    study = cu.read("demo")
    rows = study.ratings.frame
    kept = rows.filter(pl.col("item").is_in(rows["item"].unique().sort()[:4].implode()))
    kinds = pl.when(pl.col("rater").str.starts_with("ann")).then(pl.lit("human")).otherwise(pl.lit("metric"))
    made = cu.report(cu.read(kept.with_columns(kind=kinds)), aspect="fluency", resamples=20)
    assert "combination" not in made.results
    assert "takes at least 5" in made.html
