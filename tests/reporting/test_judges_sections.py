"""The report sections on complementarity and the glass ceiling: tables, figures and sentences."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

import custodes as cu
from custodes.evaluate.ceiling.ceiling import Ceiling
from custodes.evaluate.ceiling.halo import SOURCES
from custodes.evaluate.complementarity.complementarity import Complementarity
from custodes.reporting import Report
from custodes.reporting.section import Context, Figure
from custodes.reporting.sections.ceiling import ADDED, ADDED_IN_USE, CEILING, halo_sentences, prediction_texts
from custodes.reporting.sections.ceiling import sentences as said_of_ceiling
from custodes.reporting.sections.complementarity import COMPLEMENTARITY
from custodes.reporting.sections.complementarity import sentences as said_of_judges
from tests.reporting.shown import html_of, section_of


@pytest.fixture(scope="module")
def distances(demo_report: Report) -> Complementarity:
    result = demo_report.results["complementarity"]
    assert isinstance(result, Complementarity)
    return result


@pytest.fixture(scope="module")
def predicted(demo_report: Report) -> Ceiling:
    result = demo_report.results["ceiling"]
    assert isinstance(result, Ceiling)
    return result


def context(demo_report: Report, **changed: Any) -> Context:
    absent = changed.pop("absent", {})
    return replace(demo_report.context, results={**demo_report.results, **changed}, absent=absent)


def figures_of(demo_report: Report, result: Ceiling) -> list[Figure]:
    return [*CEILING.build_content(context(demo_report, ceiling=result))[0]]


def test_every_rater_and_every_tie_rule_has_a_row(demo_report: Report, distances: Complementarity) -> None:
    text = section_of(demo_report.html, "complementarity")
    for value in distances.raters["with_humans"]:
        assert f'data-value="{value}"' in text
    for row in distances.raters.iter_rows(named=True):
        assert f'data-value="{row["rater"]}"' in text
    for value in distances.rules["complementarity"]:
        assert f'data-value="{value}"' in text
    closest = distances.raters.sort("with_humans")["rater"][0]
    first = re.search(r'id="table-complementarity-raters".*?<tbody>.*?data-value="([^"]+)"', text, re.DOTALL)
    assert first is not None
    assert first[1] == closest
    assert "Raters that are excluded, and why" not in text  # the demo excludes no rater


def test_whoever_is_left_out_is_named(demo_report: Report, distances: Complementarity) -> None:
    gone = pl.DataFrame({"rater": ["stuck"], "reason": ["constant: it ranks nothing"]})
    html = html_of(COMPLEMENTARITY, context(demo_report, complementarity=replace(distances, left_out=gone)))
    assert "stuck" in html
    assert "constant: it ranks nothing" in html


def test_without_components_there_is_no_figure_of_dimensions(demo_report: Report, distances: Complementarity) -> None:
    names = ["complementarity-averages", "complementarity-map", "complementarity-variance"]
    assert [figure.id for figure in COMPLEMENTARITY.build_content(demo_report.context)[0]] == names
    none = context(demo_report, complementarity=replace(distances, components=distances.components.head(0)))
    assert [figure.id for figure in COMPLEMENTARITY.build_content(none)[0]] == names[:2]


def test_predictions_and_bounds_stand_in_one_table(demo_report: Report, predicted: Ceiling) -> None:
    text = section_of(demo_report.html, "ceiling")
    table = text[text.index('id="table-ceiling-prediction"') :]
    expected = [
        *predicted.prediction["kendall"],
        *(row[name] for row in predicted.annotators.to_dicts() for name in ("attainable", "split_half")),
    ]
    assert all(f'data-value="{value}"' in table for value in expected)
    assert table.count("<tr>") == 1 + len(expected)


def test_what_depends_on_the_aspect_is_drawn_for_the_chosen_one(demo_report: Report) -> None:
    figures, tables = CEILING.build_content(demo_report.context)
    chosen = {figure.id: figure.where for figure in figures if figure.where}
    assert chosen == {name: {"target": "{aspect}"} for name in ("ceiling-forward",)}
    assert [table.id for table in tables] == ["ceiling-halo", "ceiling-next"]
    assert all(table.where == {"target": "{aspect}"} for table in tables)


def test_gains_are_called_what_they_are(demo_report: Report, predicted: Ceiling) -> None:
    def labels_of(result: Ceiling) -> dict[str, tuple[str, str]]:
        (table,) = (
            value
            for value in CEILING.build_content(context(demo_report, ceiling=result))[1]
            if value.id == "ceiling-next"
        )
        return {column.name: (column.label, column.doc) for column in table.columns if column.name in ADDED}

    assert labels_of(predicted) == ADDED
    options = {**predicted.provenance.options, "in_use": "judge"}
    assert labels_of(replace(predicted, provenance=replace(predicted.provenance, options=options))) == ADDED_IN_USE


def test_history_is_drawn_where_there_is_one(demo_report: Report, predicted: Ceiling) -> None:
    assert "ceiling-history" not in {figure.id for figure in figures_of(demo_report, predicted)}
    dated = predicted.prediction.filter(features="metrics").select(
        "target", "^kendall(_low|_high)?$", date=pl.lit("2020"), newest=pl.lit(["learned"])
    )
    charts = figures_of(demo_report, replace(predicted, history=dated))
    assert [figure.table for figure in charts][-1] == "ceiling.history"


def test_one_aspect_has_nothing_beside_metrics() -> None:
    result = cu.ceiling(cu.read("demo"), aspect="fluency", model="ridge", steps=1, resamples=20)
    assert said_of_ceiling(result) == []
    assert [aspect for aspect, _ in prediction_texts(result)] == ["fluency"]


@pytest.mark.parametrize(
    ("low", "high", "phrase"),
    [
        (0.1, 0.3, "Rankings by metrics are more similar to each other than to rankings by annotators"),
        (-0.3, -0.1, "Rankings by metrics are more similar to rankings by annotators than to each other"),
        (
            -0.1,
            0.1,
            "Rankings by metrics are not significantly more similar to rankings by annotators than to each other",
        ),
        (None, None, "Without intervals, the difference is inconclusive"),
    ],
)
def test_the_sentence_follows_the_interval(
    distances: Complementarity, low: float | None, high: float | None, phrase: str
) -> None:
    ends = {"difference_low": pl.lit(low, dtype=pl.Float64), "difference_high": pl.lit(high, dtype=pl.Float64)}
    gap = distances.gaps.with_columns(**ends)
    lines = said_of_judges(replace(distances, gaps=gap))
    assert lines[0].startswith(phrase)


def test_one_aspect_of_people_has_no_distance_among_people(distances: Complementarity) -> None:
    among = pl.col("kinds_b") == "human-human"
    gaps = distances.gaps.with_columns(pl.when(among).then(None).otherwise("difference").alias("difference"))
    assert not any("aspects" in sentence for sentence in said_of_judges(replace(distances, gaps=gaps)))


def test_the_dimension_is_told(distances: Complementarity) -> None:
    assert said_of_judges(distances)[-1] == (
        "2 principal components explain 90 % of the differences of raters from their common ranking. If all "
        "rankings were random, the expected proportion would be 72 %."
    )
    none = replace(distances, components=distances.components.head(0))
    assert said_of_judges(none) == said_of_judges(distances)[:-1]


def test_the_ceiling_is_told_by_aspect(predicted: Ceiling) -> None:
    gaps = predicted.gaps.with_columns(
        difference_low=pl.when(target="coherence").then(0.1).otherwise(-0.1),
        difference_high=pl.lit(0.3),
        difference=pl.lit(0.2),
    )
    lines = said_of_ceiling(replace(predicted, gaps=gaps))
    assert lines == [
        "Human ratings of these aspects are predicted worse from all metrics than from the human ratings of other"
        " aspects: coherence (difference in τ-b 0.20 [0.10, 0.30]).",
        "On these aspects, predictions from all metrics and predictions from the human ratings of other aspects do"
        " not differ significantly: fluency.",
        "For these aspects, human ratings of other aspects improve the prediction from all metrics. The metrics lack "
        "information, or one annotator’s ratings of several aspects share errors: coherence"
        " (difference in τ-b 0.20 [0.10, 0.30]).",
        "On these aspects, predictions from all metrics with and without the human ratings of other aspects do not"
        " differ significantly: fluency.",
    ]


def test_a_gap_the_other_way_round_is_turned(predicted: Ceiling) -> None:
    gaps = predicted.gaps.with_columns(
        difference_low=pl.lit(-0.3), difference_high=pl.lit(-0.1), difference=pl.lit(-0.2)
    )
    lines = said_of_ceiling(replace(predicted, gaps=gaps))
    assert lines[0].endswith(
        "better from all metrics than from the human ratings of other aspects: coherence (difference in τ-b 0.20"
        " [0.10, 0.30]) and fluency (difference in τ-b 0.20 [0.10, 0.30])."
    )


def test_predictions_beyond_the_bound_say_what_that_means(predicted: Ceiling) -> None:
    def sentence(**limit: float) -> str:
        bound = predicted.annotators.with_columns(attainable_high=pl.lit(limit["high"]), attainable=pl.lit(0.7))
        low = pl.when(features="humans").then(limit["humans"]).when(features="both").then(limit.get("both", 0.5))
        rows = predicted.prediction.with_columns(kendall_low=low.otherwise(0.5))
        return prediction_texts(replace(predicted, annotators=bound, prediction=rows))[0][1]

    assert sentence(high=0.8, humans=0.5).endswith("annotators are independent.")
    no_bound = "So the errors are not independent, and the bound cannot be estimated."
    assert sentence(high=0.8, humans=0.9).endswith(f"the other human aspects exceed this bound. {no_bound}")
    assert sentence(high=0.8, humans=0.5, both=0.9) == sentence(high=0.8, humans=0.9)
    assert sentence(high=0.4, humans=0.9).endswith(no_bound)


def test_a_bound_that_the_annotators_do_not_determine_has_no_value(demo_report: Report, predicted: Ceiling) -> None:
    names = ("attainable", "attainable_low", "attainable_high")
    undetermined = predicted.annotators.with_columns(
        *(pl.lit(None, pl.Float64).alias(name) for name in names), split_half=pl.lit(-0.01)
    )
    result = replace(predicted, annotators=undetermined)
    assert prediction_texts(result)[0][1].endswith(
        "Two halves of the annotators do not agree with each other, so it cannot be estimated how well a perfect "
        "predictor would agree with the annotators."
    )
    html = html_of(CEILING, context(demo_report, ceiling=result))
    row = html[html.index("a perfect predictor</td>") :].partition("</tr>")[0]
    assert "0.0" not in row
    assert "–" in row


def halo(same: float | None, other: float, metrics: float, *, width: float | None = 0.02) -> Ceiling:
    """The demo's result with another `halo` table: differences from other annotators with intervals of ± width."""
    rows: list[dict[str, Any]] = [
        {
            "target": "x",
            "source": name,
            "kendall": tau,
            "lead": None if tau is None or name == SOURCES[1] else tau - other,
        }
        for name, tau in zip(SOURCES, (same, other, metrics), strict=True)
    ]
    table = pl.DataFrame(rows).with_columns(
        lead_low=pl.col("lead") - pl.lit(width, dtype=pl.Float64),
        lead_high=pl.col("lead") + pl.lit(width, dtype=pl.Float64),
    )
    study = cu.ceiling(cu.read("demo"), model="ridge", resamples=0, steps=1, aspect="fluency")
    return replace(study, halo=table)


def test_halo_is_told_where_only_the_same_annotator_knows() -> None:
    (first, second) = halo_sentences(halo(0.6, 0.2, 0.21))
    assert "x (0.60 against 0.20)" in first
    assert second.endswith("ratings of other aspects: x.")
    assert len(halo_sentences(halo(0.6, 0.4, 0.1))) == 1
    (sentence,) = halo_sentences(halo(0.31, 0.3, 0.1))
    assert sentence == (
        "No significant halo effect: the ratings of other aspects by the same annotator do not predict a rating "
        "significantly better than the ratings of other aspects by other annotators do. Predicted aspects: x."
    )
    (worse,) = halo_sentences(halo(0.2, 0.3, 0.1))
    assert worse == (
        "No halo effect: the ratings of other aspects by other annotators predict a rating better than the ratings of "
        "other aspects by the same annotator do. Predicted aspects: x."
    )


def test_halo_is_not_told_without_intervals_or_sources() -> None:
    assert halo_sentences(halo(0.6, 0.2, 0.1, width=None)) == []
    assert halo_sentences(halo(None, 0.2, 0.1)) == []
    whole = halo(0.6, 0.2, 0.1)
    assert halo_sentences(replace(whole, halo=whole.halo.filter(pl.col("source") != SOURCES[0]))) == []
    assert halo_sentences(replace(whole, halo=whole.halo.head(0))) == []
