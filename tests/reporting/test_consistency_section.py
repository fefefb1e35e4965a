"""The report section on judges: all claims are on the page, and studies without judges have a notice instead."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

import custodes as cu
from custodes.reporting.section import Context
from custodes.reporting.sections.agreement import AGREEMENT
from custodes.reporting.sections.check import CHECK
from custodes.reporting.sections.consistency import CONSISTENCY
from tests.evaluate.consistency.confident_judges import confident_judge, people, study
from tests.simulation.planted_judges import PLANTED, World, planted


def context(study: cu.Study) -> Context:
    result = Context(study=study, options={"resamples": 20, "confidence": 0.95, "alpha": 0.05, "rng": 0})
    for section in (CHECK, AGREEMENT, CONSISTENCY):
        section.answer(result)
    return result


def test_claims_and_pictures_are_those_of_the_question() -> None:
    result = context(planted(PLANTED[:3], World(items=25), 3))
    figures, tables = CONSISTENCY.build_content(result)
    assert {figure.id for figure in figures} >= {"consistency-position", "consistency-length", "consistency-flips"}
    choice = {"aspect": "", "metric": "position", "corrected": "", "statistic": "kendall_item"}
    charts = {figure.id: figure.build_content(result, choice) for figure in figures}
    assert len(charts["consistency-confusion"]["datasets"]["rows"]) == 1
    html = CONSISTENCY.html(result, figures, tables)
    assert "prefers what is shown first" in html
    assert "inconclusive" in html


def test_judges_without_an_aspect_are_shown_under_every_aspect_of_people() -> None:
    study = planted(PLANTED[1:2], World(items=20, people=2), 1)
    rated = study.ratings.frame
    both = pl.concat([rated.with_columns(aspect=pl.lit(aspect)) for aspect in ("clear", "true")])
    verdicts = study.preferences.frame.with_columns(kind=pl.lit("metric"))
    people = cu.read(both.with_columns(kind=pl.lit("human")))
    from custodes.data.joining import join

    result = context(join([people, cu.read(verdicts)]))
    assert set(result.table("consistency-orders")["aspect"]) == {"clear", "true"}


def test_a_study_without_judges_to_examine_says_so() -> None:
    rows = [
        {"item": i, "system": s, "rater": r, "kind": k, "score": float((i * 7 + ord(s) + len(r)) % 5)}
        for i in range(12)
        for s in "AB"
        for r, k in (("ann", "human"), ("bleu", "metric"))
    ]
    result = context(cu.read(pl.DataFrame(rows)))
    assert "no two judges" in result.absent["consistency"]


@pytest.mark.parametrize("name", ["findings", "orders", "confusion"])
def test_tables_of_pictures_hold_every_row(name: str) -> None:
    result = context(planted(PLANTED[:2], World(items=20), 3))
    assert result.table(f"consistency-{name}").height == result.table(f"consistency.{name}").height


def test_chances_beside_people_have_a_curve_and_a_table() -> None:
    result = context(study(people(), confident_judge(4.0)))
    figures, tables = CONSISTENCY.build_content(result)
    choice = {"aspect": "", "metric": "judge", "corrected": "", "statistic": "kendall_item"}
    charts = {figure.id: figure.build_content(result, choice) for figure in figures}
    assert len(charts["consistency-calibration"]["datasets"]["rows"]) == result.table("consistency.reliability").height
    assert len(charts["consistency-confidence"]["datasets"]["rows"]) == 1
    html = CONSISTENCY.html(result, figures, tables)
    assert "Calibration of the probabilities" in html
    assert "is overconfident" in html


def test_no_missing_verdicts_are_a_result_not_a_lack_of_data() -> None:
    result = context(planted([replace(PLANTED[0], fails=0.0)], World(items=20), 3))
    html = CONSISTENCY.html(result, *CONSISTENCY.build_content(result))
    assert "No verdict is missing." in html
    assert "missing verdicts (needs" not in html
