"""The report sections on correction, protocol and plan, with and without results."""

from __future__ import annotations

import re
from typing import Any

import polars as pl
import pytest

import custodes as cu
from custodes.evaluate.correction import correction
from custodes.evaluate.protocol.plan import plan
from custodes.evaluate.protocol.protocol import protocol
from custodes.reporting import Report
from custodes.reporting.sections.correction import MOST_CORRECTED, corrected_metrics
from custodes.reporting.sections.protocol import STOPPING
from tests.reporting.shown import section_of


def study(scores: dict[str, Any], *, items: int, systems: tuple[str, ...] = ("A", "B", "C")) -> cu.Study:
    """Study from scores by item and system; raters named m... are metrics."""
    rows = [
        {
            "item": str(i),
            "system": system,
            "rater": rater,
            "kind": "metric" if rater.startswith("m") else "human",
            "score": score(i, j),
        }
        for i in range(items)
        for j, system in enumerate(systems)
        for rater, score in scores.items()
        if score(i, j) is not None
    ]
    return cu.read(pl.DataFrame(rows))


def test_results_are_those_of_the_questions(demo_report: Report) -> None:
    assert list(demo_report.results)[-3:] == ["correction", "protocol", "plan"]
    assert set(demo_report.to_dict()) >= {"correction", "protocol", "plan"}
    options = demo_report.results["correction"].provenance.options
    assert set(demo_report.context.best.values()) <= set(options["metrics"])
    again = correction(cu.read("demo"), metrics=options["metrics"])
    assert demo_report.tables()["correction.pairs"].equals(again.pairs)
    replayed = protocol(cu.read("demo"), metrics="none", stopping=STOPPING, null=True)
    assert demo_report.tables()["protocol.protocol"].equals(replayed.protocol)
    planned = plan(cu.read("demo"), metrics="none", stopping=STOPPING)
    assert demo_report.tables()["plan.plan"].equals(planned.plan)


def test_the_page_names_what_was_corrected_and_left_out(demo_report: Report) -> None:
    text = section_of(demo_report.html, "correction")
    metrics = demo_report.results["correction"].provenance.options["metrics"]
    options = re.findall(r'<option value="([^"]*)"', text.split("</select>")[0])
    assert sorted(options) == sorted(metrics)
    assert f"{7 - len(metrics)} other metrics were not used" in text
    # annotators rated every item of the demo
    assert "correction adds nothing here" in text


@pytest.mark.parametrize("identity", ["ranking", "favoritism", "correction"])
def test_the_design_effect_of_documents_is_printed(demo_report: Report, identity: str) -> None:
    assert "80 items in 16 clusters" in section_of(demo_report.html, identity)


def test_the_protocol_stands_beside_peoples_own_agreement(demo_report: Report) -> None:
    text = section_of(demo_report.html, "protocol")
    assert text.count("<tr data-aspect=") == 4  # the interim analyses and the paper's rule
    for name in ("correct", "gain", "self_agreement"):
        table = "reference" if name == "self_agreement" else "protocol"
        for value in demo_report.tables()[f"protocol.{table}"][name]:
            assert f'data-value="{value}"' in text


def test_the_plan_has_a_row_an_aspect(demo_report: Report) -> None:
    text = section_of(demo_report.html, "plan")
    assert text.count("<tr data-aspect=") == 2
    for value in demo_report.tables()["plan.plan"]["annotations"]:
        assert f'data-value="{value}"' in text


def test_metrics_are_taken_by_rank_and_never_without_the_best() -> None:
    assert corrected_metrics(["a", "b"], [["a", "c", "d"], ["b", "e", "f"]]) == ["a", "b", "c"]
    assert corrected_metrics(["a"], [["a"]]) == ["a"]
    many = [str(i) for i in range(MOST_CORRECTED + 2)]
    assert corrected_metrics(many, [[name] for name in many]) == many


def test_partly_annotated_studies_are_corrected_from_metric_only_items() -> None:
    few = study(
        {
            "ann": lambda i, j: (i * 7 + j) % 3 + j if i < 30 else None,
            "m": lambda i, j: (i * 7 + j) % 3 + j + (i % 5 == 0),
        },
        items=90,
    )
    report = cu.report(few, resamples=20)
    assert report.tables()["correction.pairs"]["n_metric"].min() == 60
    assert "correction cannot add" not in section_of(report.html, "correction")


def test_one_sided_people_leave_both_out_with_the_reason() -> None:
    gold = study(
        {"gold": lambda i, j: 1 - j, "m": lambda i, j: (i + 2 * (1 - j)) % 5}, items=30, systems=("chosen", "rejected")
    )
    report = cu.report(gold, resamples=20)
    assert list(report.results) == ["check", "agreement", "favoritism", "ranking"]
    for name in ("correction", "protocol"):
        assert "the study compares the two sides of a pair, not systems" in section_of(report.html, name)
    assert report.html.count('<p class="warning"') == 2
    assert "Who favours whom" not in " ".join(report.verdict.lines())


def test_a_small_study_says_why_nothing_is_replayed() -> None:
    small = study({"ann": lambda i, j: (i * 7 + j * 3) % 5, "m": lambda i, j: (i * 7 + j * 3 + 1) % 5}, items=6)
    report = cu.report(small, resamples=20)
    assert "protocol" not in report.results
    assert "a pair of systems has 6 human annotations" in section_of(report.html, "protocol")
