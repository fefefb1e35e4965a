"""The report as text: completeness, escaping, size, and files written."""

from __future__ import annotations

import base64
import json
import re
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

import custodes as cu
from custodes.answers.tables import flag, label, score
from custodes.data.panel import Panel
from custodes.errors import OptionError
from custodes.evaluate import rater_comparison
from custodes.reporting import Report
from custodes.reporting.tables import columnar, columns_with_values
from tests.questions import QUESTIONS
from tests.reporting.shown import sections_of

EVIL = "<script>alert('x')</script>"


def embedded(html: str) -> dict[str, object]:
    match = re.search(r'<script type="text/plain" id="data">(.*?)</script>', html)
    assert match
    loaded: dict[str, object] = json.loads(zlib.decompress(base64.b64decode(match[1])))
    return loaded


def test_page_has_every_section_and_its_tables(demo_report: Report) -> None:
    order = [
        "check",
        "leaderboard",
        "annotators",
        "agreement",
        "favoritism",
        "consistency",
        "ranking",
        "complementarity",
        "ceiling",
        "combine",
        "correction",
        "protocol",
        "plan",
        "method",
    ]
    assert sections_of(demo_report.html) == [section.question for section in demo_report.sections] == order
    tables = embedded(demo_report.html)["tables"]
    assert isinstance(tables, dict)
    assert set(demo_report.tables()) <= set(tables)
    page = demo_report.html.replace("\u00a0", " ")
    for text in demo_report.verdict.verdict["text"]:
        assert text.replace("'", "&#39;") in page


def test_every_question_with_a_section_is_answered(demo_report: Report) -> None:
    specs = [section.question for section in demo_report.sections if section.ask]
    # validate needs a model and other data, gate needs user-defined rules, rates, labelling and route need labels
    assert sorted(specs) == sorted({*QUESTIONS} - {"verdict", "validate", "gate", "rates", "labelling", "route"})
    assert list(demo_report.results) == specs
    assert demo_report.verdict.provenance.question == "verdict"


def test_page_is_one_file(demo_report: Report) -> None:
    # the script bundle contains addresses of schemas; only links that load a resource count
    assert not re.findall(r'(?:src|href)="(?!data:|#)[^"]*"', demo_report.html.split('<script type="text/plain"')[0])
    assert demo_report.html.count("vegaEmbed=") == 1
    assert len(demo_report.html.encode()) < 2_000_000


def test_names_of_the_user_are_escaped() -> None:
    rows = [
        {"item": str(i), "system": system, "rater": rater, "kind": kind, "score": (i * 7 + j * 3 + k) % 5}
        for i in range(6)
        for j, system in enumerate((EVIL, "B", "C"))
        for k, (rater, kind) in enumerate((("ann", "human"), (EVIL + "m", "metric"), ("x", "metric")))
    ]
    study = cu.report(cu.read(pl.DataFrame(rows)), resamples=20)
    assert EVIL not in study.html
    assert "&lt;script&gt;alert" in study.html
    assert EVIL in str(embedded(study.html)["tables"])


def test_save_writes_the_page_and_refuses_a_folder(demo_report: Report, tmp_path: Path) -> None:
    assert demo_report.save(tmp_path / "r.html").read_text(encoding="utf-8") == demo_report.html
    with pytest.raises(OptionError, match="is a folder"):
        demo_report.save(tmp_path)
    with pytest.raises(OptionError, match="cannot write"):
        demo_report.save(tmp_path / "nowhere" / "r.html")
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]


def test_save_figures_writes_every_picture_of_every_aspect(demo_report: Report, tmp_path: Path) -> None:
    written = demo_report.save_figures(tmp_path / "figures", format="json")
    assert len(written) == len(set(written))
    names = [path.stem for path in written]
    # exactly the figures of the page, once or per aspect, that of agreement by two statistics
    figures = {
        figure.id: figure
        for section in demo_report.sections
        for figure in section.build_content(demo_report.context)[0]
    }
    assert len(figures) == 24
    counted = {figure: sum(re.search(rf"(^|-){figure}(-|$)", name) is not None for name in names) for figure in figures}
    of_aspect = {key for key, figure in figures.items() if "{aspect}" in str((figure.where, figure.fields))}
    assert counted.pop("agreement-intervals") == 4
    assert counted == {value: 2 if value in of_aspect else 1 for value in counted}
    assert len(written) == 4 + sum(counted.values())
    best = demo_report.context.best["fluency"]
    assert f"fluency-favoritism-systems-{best}" in names
    for path in written:
        spec = json.loads(path.read_text(encoding="utf-8"))
        assert spec["title"]
        assert spec["datasets"]["rows"], path.name
    with pytest.raises(OptionError, match="did you mean 'svg'"):
        demo_report.save_figures(tmp_path, format="svgz")


def test_columns_are_compact_and_whole() -> None:
    frame = pl.DataFrame({"name": ["a", None, "a"], "x": [1 / 3, float("nan"), 2.0], "n": [1, 2, 3]})
    assert columnar(frame) == {
        "rows": 3,
        "columns": {"name": {"labels": ["a"], "codes": [0, -1, 0]}, "x": [0.33333, None, 2], "n": [1, 2, 3]},
    }


def test_columns_that_say_nothing_are_left_out() -> None:
    declared = [label("note", "n"), flag("wanted", "w"), score("x", "x"), score("y", "y")]
    frame = pl.DataFrame({"note": ["", None], "wanted": [None, False], "x": [None, 0.0], "y": [None, None]})
    assert [value.name for value in columns_with_values(declared, frame)] == ["wanted", "x"]
    assert len(columns_with_values(declared, frame.clear())) == 4


def test_a_study_of_two_systems_says_so() -> None:
    result = cu.report(cu.read("demo"), systems="Aster,Fir", aspect="fluency", metrics="judge", resamples=20)
    assert set(result.verdict.verdict["aspect"]) == {"fluency"}
    assert "the same preference in" in " ".join(result.verdict.lines())


def test_a_report_asks_each_thing_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shared computations do not change results."""
    results = list[str]()

    def from_study(study: cu.Study, *, aspect: str, **rest: Any) -> Panel:
        results.append(aspect)
        return Panel.from_study(study, aspect=aspect, **rest)

    monkeypatch.setattr(rater_comparison, "Panel", SimpleNamespace(from_study=from_study))
    study = cu.read("demo")
    selected = {"resamples": 20, "aspect": "fluency", "metrics": "judge,overlap"}
    report = cu.report(study, **selected)
    shared = [value for value in results if value]
    monkeypatch.undo()
    assert set(shared) == {"fluency"}
    questions = ("agreement", "favoritism", "consistency", "ranking", "leaderboard")
    for name in questions:
        alone = getattr(cu, name)(study, **selected)
        for table, frame in alone.tables().items():
            assert frame.equals(report.results[name].to_frame(table)), (name, table)
    assert len(shared) < len(questions)
