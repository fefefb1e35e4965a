"""Figures with control characters, script tags or names of JavaScript object properties in labels."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import custodes as cu
from custodes import plots
from custodes.combining import tables
from custodes.combining.methods import gaussian_process
from custodes.plots.drawable import drawable
from custodes.stats.learning import boost
from tests.plots.hostile_study import ASPECTS, METRICS, SYSTEMS, hostile_study

UNSHOWN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\uffff]")
TAKEN = ("constructor", "__proto__", "toString")
ZERO = "\u200b"


@pytest.fixture(scope="module")
def study() -> cu.Study:
    return hostile_study()


@pytest.fixture(scope="module")
def answers(study: cu.Study) -> dict[str, Any]:
    options = {"aspect": ASPECTS[0]}
    return {
        "agreement": cu.agreement(study, resamples=0, **options),
        "favoritism": cu.favoritism(study, resamples=0, **options),
        "ranking": cu.ranking(study, resamples=0, **options),
        "leaderboard": cu.leaderboard(study, resamples=100, **options),
        "complementarity": cu.complementarity(study, resamples=0),
        "correction": cu.correction(study, estimator=["ppi"], **options),
        "protocol": cu.protocol(
            study, metrics=METRICS[0], estimator="ppi", replications=2, stopping=cu.Stopping(batch=3), **options
        ),
    }


CHARTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "agreement_intervals": lambda results: plots.agreement_intervals(results["agreement"]),
    "favoritism_by_system": lambda results: plots.favoritism_by_system(results["favoritism"], METRICS[0]),
    "favoritism_map": lambda results: plots.favoritism_map(results["favoritism"]),
    "favoritism_and_accuracy": lambda results: plots.favoritism_and_accuracy(results["favoritism"]),
    "favoritism_of_pairs": lambda results: plots.favoritism_of_pairs(results["favoritism"]),
    "confusion_matrix": lambda results: plots.confusion_matrix(results["favoritism"], METRICS[1], *SYSTEMS[:2]),
    "error_types": lambda results: plots.error_types(results["ranking"]),
    "ranking_graphs": lambda results: plots.ranking_graphs(results["ranking"], METRICS[1]),
    "leaderboard_strengths": lambda results: plots.leaderboard_strengths(
        results["leaderboard"], rater=["human", *METRICS]
    ),
    "win_rate_map": lambda results: plots.win_rate_map(results["leaderboard"], rater=METRICS[1]),
    "complementarity_map": lambda results: plots.complementarity_map(results["complementarity"]),
    "judges_map": lambda results: plots.judges_map(results["complementarity"]),
    "correction_margins": lambda results: plots.correction_margins(results["correction"], metric=METRICS[0]),
    "budget_curve": lambda results: plots.budget_curve(results["protocol"]),
}


def texts(part: Any) -> list[str]:
    """Yield every text of a specification."""
    if isinstance(part, dict):
        return [text for value in part.values() for text in texts(value)]
    if isinstance(part, list):
        return [text for value in part for text in texts(value)]
    return [part] if isinstance(part, str) else []


@pytest.mark.parametrize("name", CHARTS)
def test_every_picture_is_drawn_and_names_its_labels(answers: dict[str, Any], name: str, tmp_path: Path) -> None:
    chart = CHARTS[name](answers)
    chart_texts = texts(chart.to_dict())
    # Output of Altair and of notebooks is as safe as that of `save`.
    assert not any(UNSHOWN.search(text) or text in TAKEN or "</script" in text for text in chart_texts)
    svg = plots.save(chart, tmp_path / "a.svg").read_text(encoding="utf-8")
    ElementTree.fromstring(svg)
    assert not UNSHOWN.search(svg)
    svg_text = "".join(ElementTree.fromstring(svg).itertext()).replace(ZERO, "")
    raters = {"agreement_intervals", "favoritism_and_accuracy", "error_types", "judges_map"}
    systems = {"favoritism_by_system", "ranking_graphs", "leaderboard_strengths", "win_rate_map", "correction_margins"}
    if name in raters | {"favoritism_map", "complementarity_map"}:
        assert "toString" in svg_text
        assert "bell\\x00\\x07" in svg_text
    if name in systems | {"favoritism_map"}:
        assert "constructor" in svg_text
        assert "__proto__" in svg_text
    if name in ("confusion_matrix", *systems):
        assert "a\\x1b[2J" in svg_text


@pytest.mark.parametrize("label", ["\x1b", "\x07", "\x00", "\uffff", "\ufffe", "\ud800", *TAKEN, "valueOf", "hash"])
def test_any_label_of_any_chart_is_saved(label: str, tmp_path: Path) -> None:
    rows = [{"a": label, "b": 1}, {"a": "other", "b": 2}]
    spec = {
        "data": {"values": rows},
        "mark": "bar",
        "encoding": {"y": {"field": "a", "type": "nominal"}, "x": {"field": "b", "type": "quantitative"}},
    }
    svg = plots.save(spec, tmp_path / "a.svg").read_text(encoding="utf-8")
    svg_texts = [text.replace(ZERO, "") for text in ElementTree.fromstring(svg).itertext()]
    assert json.loads(json.dumps(drawable(label))).replace(ZERO, "") in svg_texts
    assert svg.count('aria-roledescription="bar"') == 2
    for name in ("a.png", "a.pdf", "a.json") if label == "\x1b" else ():
        assert plots.save(spec, tmp_path / name).stat().st_size


class Scripts(HTMLParser):
    """Parser that collects the scripts of a page with the end tags that a browser sees."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[dict[str, str | None], str]] = []
        self.inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "script":
            self.found.append((dict(attrs), ""))
        self.inside = tag == "script"

    def handle_endtag(self, tag: str) -> None:
        self.inside = False

    def handle_data(self, data: str) -> None:
        if self.inside:
            attributes, text = self.found[-1]
            self.found[-1] = (attributes, text + data)


@pytest.mark.parametrize(
    "label",
    ["</script><script>x()</script>", "</SCRIPT >", "<!--<script>", "]]>", "\u2028", "'\"`${1}", "&lt;/script&gt;"],
)
def test_no_label_runs_in_a_saved_page(label: str, tmp_path: Path) -> None:
    spec = {"title": label, "data": {"values": [{label: label}]}, "mark": "point", "encoding": {}}
    parser = Scripts()
    parser.feed(plots.save(spec, tmp_path / "a.html").read_text(encoding="utf-8"))
    (attributes, held), _, (_, script) = parser.found
    assert attributes["type"] == "application/json"
    saved_spec = json.loads(held)
    assert saved_spec["data"]["values"] == [{label: drawable(label)}]
    assert "vegaEmbed" in script
    assert label not in script


def test_harmless_labels_stay_as_they_are() -> None:
    for label in ("GPT-4o", "模型", "a.b[0]", "constructors", "toString()", "<b>", "hash", "x\\x1b", "two\nlines"):
        assert drawable(label) == label
    nested = {"a": [{"b": METRICS}, 1, None, "valueOf"]}
    assert drawable(drawable(nested)) == drawable(nested)


@pytest.mark.slow
def test_a_report_of_such_labels_draws_and_names_every_picture(
    study: cu.Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(boost.SETTINGS, "rounds", 3)
    monkeypatch.setattr(tables, "REFITS", 3)
    monkeypatch.setattr(gaussian_process, "ITERATIONS", 2)
    report = cu.report(study, resamples=20)
    saved = report.save_figures(tmp_path)
    assert len({path.name.casefold() for path in saved}) == len(saved) == len(list(tmp_path.iterdir()))
    # Each aspect has a separate file, though `/` and `:` are not allowed in file names.
    assert sum("agreement-intervals" in path.name for path in saved) == 4
    for path in saved:
        svg = path.read_text(encoding="utf-8")
        assert not UNSHOWN.search(svg)
        ElementTree.fromstring(svg)
    assert report.save(tmp_path / "report.html").exists()
