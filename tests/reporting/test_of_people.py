"""Studies with human ratings only: report and verdict contain the parts that need no metric."""

import polars as pl
import pytest

import custodes as cu
from custodes.data.study import Study
from custodes.reporting.sections import SECTIONS


@pytest.fixture(scope="module")
def human_study() -> Study:
    ratings = cu.read("demo")
    rows = ratings.ratings.frame.filter(pl.col("rater").is_in(list(ratings.humans)))
    return cu.read(rows.with_columns(kind=pl.lit("human")))


@pytest.fixture(scope="module")
def report(human_study: Study) -> cu.Report:
    return cu.report(human_study, resamples=30)


def test_nothing_is_said_of_metrics(report: cu.Report) -> None:
    assert {"check", "leaderboard"} <= set(report.results)
    assert not {"agreement", "favoritism", "ranking", "ceiling", "combine", "correction"} & set(report.results)
    assert "Whom each" not in report.html
    assert "which metric to trust" not in report.html.partition("<main>")[0].lower()
    kinds = set(report.verdict.verdict["kind"])
    assert kinds <= {"design", "best", "annotators", "labels"}
    assert "best" in kinds
    assert not any("no metric" in line for line in report.verdict.lines())


def test_systems_stand_as_beside_metrics(report: cu.Report) -> None:
    """Metrics do not change results of human ratings."""
    rows = report.results["leaderboard"].to_frame("systems").filter(rater="human")
    expected = cu.leaderboard(cu.read("demo"), resamples=30).systems.filter(rater="human")
    assert rows.select("aspect", "system", "win_rate", "strength").equals(
        expected.select("aspect", "system", "win_rate", "strength")
    )


def test_the_verdict_alone_is_that_of_the_page(human_study: Study, report: cu.Report) -> None:
    assert list(cu.verdict(human_study, resamples=30).lines()) == list(report.verdict.lines())


def test_every_picture_has_its_place_in_the_page(report: cu.Report) -> None:
    """A figure without an element would stop the script before it draws the others."""
    sections = [section for section in SECTIONS if section.question in report.results]
    ids = {figure.id for section in sections for figure in section.build_content(report.context)[0]}
    assert all(f'data-figure="{name}"' in report.html for name in ids)


def test_its_pictures_are_saved(report: cu.Report, tmp_path) -> None:  # type: ignore[no-untyped-def]
    names = {path.name for path in report.save_figures(tmp_path, format="json")}
    assert any("leaderboard-strengths" in name for name in names)
    assert not any("favoritism" in name or "metric" in name for name in names)
