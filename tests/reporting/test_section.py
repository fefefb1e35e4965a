"""Sections as values: computed once, omitted with a reason, displayed as declared."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

import custodes as cu
from custodes.answers.tables import Table, count, flag, label, labels, p_value, probability, score, share
from custodes.errors import InputError
from custodes.reporting import Report
from custodes.reporting import section as section_module
from custodes.reporting.page import study_summary
from custodes.reporting.section import Context, Section
from custodes.reporting.sections.leaderboard import LEADERBOARD
from custodes.reporting.sections.method import CITATIONS, METHOD
from custodes.reporting.tables import build_selection_table, table_html
from tests.reporting.shown import html_of

SHOWN = Table(
    doc="One row a metric.",
    by="aspect",
    columns=(
        label("metric", "its name"),
        labels("friends", "others"),
        flag("good", "whether"),
        count("n", "how many", "Items"),
        score("tau", "rank correlation", interval=True),
        share("part", "of all", interval=True),
        score("mean", "over replications", sd=True),
        probability("odds", "posterior", essential=False),
        p_value("p", "of a test", "p"),
    ),
)
ROW = {
    "metric": ["<b>"],
    "friends": [["a", "b"]],
    "good": [True],
    "n": [12345],
    "tau": -0.4,
    "tau_low": -0.5,
    "tau_high": 0.25,
    "part": 0.5,
    "part_low": 0.251,
    "part_high": 0.997,
    "mean": 0.5,
    "mean_sd": 0.1,
    "odds": 0.25,
    "p": 0.0123,
}


def cells(html: str) -> list[str]:
    return re.findall(r"<t[hd] (?:scope=\"row\" )?data-value=[^>]*>(.*?)</t[hd]>", html)


def test_a_table_is_written_as_declared() -> None:
    frame = SHOWN.frame(ROW, "fluency", name="shown")
    html = table_html(frame, SHOWN.columns, id="t", caption="Some & more", notes=[("fluency", "<note>"), (None, "all")])
    assert cells(html) == [
        *("&lt;b&gt;", "a, b", "yes", "12\u202f345", "−0.40 [−0.50, 0.25]", "50 % [25 %, over 99 %]"),
        *("0.50 ± 0.10", "25 %", ".012"),
    ]
    assert re.findall(r"<button type=\"button\">(.*?)</button>", html) == [column.label for column in SHOWN.columns]
    assert 'title="rank correlation"' in html
    assert html.count('"n more"') == 2  # header and cell of the column shown on request
    assert '<tr data-aspect="fluency">' in html
    assert '<li data-aspect="fluency">&lt;note&gt;</li>' in html
    assert "<li>all</li>" in html
    assert "Some &amp; more" in html


def test_the_undefined_is_a_dash_that_points_to_the_notes() -> None:
    defined = SHOWN.frame(ROW, "", name="shown")
    undefined = SHOWN.frame({name: [["a"]] if name == "friends" else None for name in ROW}, "", name="shown")
    html = table_html(pl.concat([defined, undefined]), SHOWN.columns, id="t", caption="t", by=None)
    assert cells(html)[9:] == ["", "a", "", *["–"] * 6]
    assert html.count("undefined: see the notes under the table") == 6
    assert "data-aspect" not in html
    assert cells(table_html(undefined, SHOWN.columns, id="t", caption="t")) == ["a"]  # an empty table


def test_a_table_of_choices_leaves_out_what_is_chosen_and_what_says_nothing(demo_report: Report) -> None:
    where = {"aspect": "{aspect}", "metric": "{metric}"}
    chosen = build_selection_table(demo_report.context, "x", "X", "favoritism.pairs", where)
    declared = demo_report.context.table_declaration("favoritism.pairs")
    assert set(demo_report.context.table("favoritism.pairs")["note"]) == {""}
    assert [column.name for column in chosen.columns] == [
        column.name for column in declared.columns if column.essential and column.name not in ("metric", "note")
    ]


def failing(context: Context) -> Any:
    raise InputError(f"{context.study.name}: nothing to see")


def test_a_question_that_cannot_be_answered_says_why_unless_it_is_needed(demo_report: Report) -> None:
    context = replace(demo_report.context, results=dict(demo_report.results), absent={})
    section = Section(question="ceiling", title="t", build=lambda context: {}, ask=failing)
    section.answer(context)
    assert context.absent == {"ceiling": "nothing to see"}
    assert section.build_content(context) == ((), ())
    assert "This question is not answered for this study: nothing to see" in section.html(context, (), ())
    with pytest.raises(InputError, match="nothing to see"):
        replace(section, required=True).answer(context)


def test_options_of_the_report_reach_every_question_that_has_them(demo_report: Report) -> None:
    for question, result in demo_report.results.items():
        assert result.provenance.options.get("resamples", 20) == 20, question
        assert result.provenance.seed == 0
        assert result.provenance.digest == cu.read("demo").fingerprint()


def test_every_picture_and_table_is_drawn_from_rows_of_the_page(demo_report: Report) -> None:
    contents = [section.build_content(demo_report.context) for section in demo_report.sections]
    figures = [figure for value, _ in contents for figure in value]
    tables = [table for _, value in contents for table in value]
    ids = [value.id for value in (*figures, *tables)]
    assert len(ids) == len(set(ids))
    for part in (*figures, *tables):
        columns = set(demo_report.context.table(part.table).columns)
        assert {name for names in part.where for name in names.split("|")} - {"statistic"} <= columns, part.id
    for figure in figures:
        assert figure.caption.endswith("."), figure.id
        assert figure.alt.endswith("."), figure.id
        assert f'id="fig-{figure.id}"' in demo_report.html
        filled = figure.build_content(
            demo_report.context, demo_report.context.choice("fluency", "judge", "kendall_item")
        )
        assert filled is not None, figure.id
        assert filled["datasets"]["rows"], figure.id
        assert "{statistic}" not in str(filled), figure.id
    for table in tables:
        names = {name for column in table.columns for name in column.names}
        assert names <= set(demo_report.context.table(table.table).columns), table.id


def test_nothing_to_draw_is_none(demo_report: Report) -> None:
    figures = [value for section in demo_report.sections for value in section.build_content(demo_report.context)[0]]
    (figure,) = (value for value in figures if value.id == "agreement-intervals")
    assert figure.build_content(demo_report.context, demo_report.context.choice("wit", "judge", "kendall_item")) is None


def test_a_context_knows_aspects_metrics_and_the_best(demo_report: Report) -> None:
    context = demo_report.context
    assert context.aspects == ("coherence", "fluency")
    assert len(context.metrics) == 7
    assert context.best == {aspect: names[0] for aspect, names in context.leaders.items()}
    assert context.one_sided_aspects == []
    extra = replace(context, extra={"mine": pl.DataFrame({"a": [1]})})
    assert extra.table("mine").rows() == [(1,)]
    assert [aspect for aspect, _ in context.notes("ranking", "self-agreement")] == ["coherence", "fluency"]
    assert context.notes("ranking", "no-such-rule") == []


def test_the_page_opens_on_the_metric_that_the_summary_recommends(
    demo_report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    for recommended, first in (("learned", "learned"), ("", demo_report.context.best["coherence"])):
        monkeypatch.setattr(section_module, "candidate", lambda views, name=recommended: name)
        report = replace(demo_report, context=replace(demo_report.context))
        assert f'<option value="{first}" selected' in report.html.partition('data-choice="metric"')[2][:2000]


def test_the_opening_counts_the_metrics_of_all_aspects() -> None:
    raters = [("ann", "human", "a"), ("ann", "human", "b"), ("m1", "metric", "a"), ("m2", "metric", "b")]
    rows = [(f"i{i}", s, *rater, float(i * k % 5)) for i in range(6) for k, s in enumerate("XYZ") for rater in raters]
    frame = pl.DataFrame(rows, ["item", "system", "rater", "kind", "aspect", "score"], orient="row")
    context = Context(study=cu.read(frame), options={"resamples": 0})
    context.results["check"] = cu.check(context.study)
    context.results["agreement"] = context.ask(cu.agreement)
    sizes = "6 items, 3 systems, 1 annotator and 2 metrics (at most 1 on one aspect)"
    assert study_summary(context) == f"{sizes}; rated aspects: a and b."


def test_parts_that_never_met_have_pictures_of_their_own() -> None:
    pairs = [("A", "B"), ("B", "C"), ("A", "C"), ("X", "Y")]
    rows = [
        (f"{i}-{k}", *pair, rater, 1 - 2 * ((i + k) % 3 == 0))
        for i in range(20)
        for k, pair in enumerate(pairs)
        for rater in ("ann", "judge")
    ]
    frame = pl.DataFrame(rows, ["item", "system_a", "system_b", "rater", "preference"], orient="row")
    kind = pl.when(pl.col("rater") == "ann").then(pl.lit("human")).otherwise(pl.lit("metric"))
    context = Context(study=cu.read(frame.with_columns(kind=kind)), options={"resamples": 20, "rng": 0})
    context.results["check"] = cu.check(context.study)
    context.results["agreement"] = context.ask(cu.agreement)
    LEADERBOARD.answer(context)
    figures, _ = LEADERBOARD.build_content(context)
    results = {figure.id: figure for figure in figures if "map" not in figure.id}
    assert list(results) == [
        "leaderboard-strengths",
        "leaderboard-strengths-2",
        "leaderboard-metric",
        "leaderboard-metric-2",
    ]
    choice = {"aspect": "", "metric": "judge", "corrected": "judge", "statistic": "kendall_item", "which": "all"}
    for name, systems in (("leaderboard-strengths", {"A", "B", "C"}), ("leaderboard-metric-2", {"X", "Y"})):
        chart = results[name].build_content(context, choice)
        assert chart is not None
        assert {row["system"] for row in chart["datasets"]["rows"]} == systems
    assert all(f'data-figure="{name}"' in html_of(LEADERBOARD, context) for name in list(results)[2:])


def test_sources_are_those_of_the_questions_on_the_page(demo_report: Report) -> None:
    def subjects(*questions: str) -> list[str]:
        results = {name: demo_report.results[name] for name in questions}
        return [what for what, _ in METHOD.build(replace(demo_report.context, results=results))["citations"]]

    assert subjects("check", "leaderboard") == ["Strengths with ties"]
    assert "Combined metrics" not in subjects("check", "leaderboard", "agreement")
    assert len(subjects(*demo_report.results)) == len(CITATIONS) - 1  # the demo has no labels
