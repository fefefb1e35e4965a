"""`result.plot()` draws the main figure of a result, or raises an error if it has none."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import altair as alt
import pytest

import custodes as cu
from custodes.errors import OptionError
from custodes.plots import theme
from tests.questions import RESULTS

QUICK = {
    "leaderboard": {"resamples": 20},
    "agreement": {"resamples": 20, "compare_by": ()},
    "favoritism": {"resamples": 20},
    "ranking": {"resamples": 0},
    "correction": {"metrics": "judge", "estimator": "ppi"},
    "protocol": {"metrics": "judge", "estimator": "ppi", "replications": 2},
    "complementarity": {"resamples": 20},
    "ceiling": {"model": "ridge", "steps": 1, "resamples": 20},
    "combine": {"target": "fluency", "method": ["ridge", "best"], "repeats": 1, "resamples": 20},
}
"""Options that keep the questions on the demo short."""

WITHOUT = ("check", "verdict", "validate", "labelling", "route", "gate")


def test_every_result_names_a_picture_or_has_none() -> None:
    assert {name for name, result in RESULTS.items() if not result.PICTURE} == {*WITHOUT}
    assert {result.PICTURE for result in RESULTS.values()} - {""} <= {*cu.plots.__all__}


@pytest.mark.parametrize("question", QUICK)
def test_the_main_picture_is_that_of_its_function(question: str) -> None:
    result = getattr(cu, question)(cu.read("demo").select(aspect="fluency"), **QUICK[question])
    check_display(result.plot())
    spec = result.plot().to_dict()
    assert spec == getattr(cu.plots, result.PICTURE)(result).to_dict()
    assert min(sizes(spec)) >= theme.TEXT
    for paper in (DARK_PAPER, theme.LIGHT.paper):
        assert all(contrast(colour, paper) >= 3 for colour in whiskers(spec) - ON_DARK_ONLY)
    assert all(contrast(colour, DARK_PAPER) >= 3 for colour in whiskers(spec))


def check_display(chart: Any) -> None:
    """Assert that a notebook displays the chart offline, also after changes and pickling, unless another renderer is
    active."""
    for value in (chart, chart.properties(title="other"), pickle.loads(pickle.dumps(chart))):
        bundle = value._repr_mimebundle_()
        assert bundle.keys() == {"image/svg+xml"}
        tags = [element.tag.rpartition("}")[2] for element in ElementTree.fromstring(bundle["image/svg+xml"]).iter()]
        assert "text" in tags
        assert not {"script", "image", "use", "foreignObject", "style"} & {*tags}
        assert not re.search(r"href|url\((?!#)", re.sub(r"url\(['\"]?#", "", bundle["image/svg+xml"]))
    with alt.renderers.enable("json"):
        assert "image/svg+xml" not in chart._repr_mimebundle_()


def sizes(spec: Any) -> Iterator[float]:
    """Yield every font size of a specification."""
    if isinstance(spec, dict):
        for key, value in spec.items():
            if key.endswith("ontSize"):
                yield value
            else:
                yield from sizes(value)
    elif isinstance(spec, list):
        for part in spec:
            yield from sizes(part)


def whiskers(spec: dict[str, Any]) -> set[str]:
    """Return the colours of interval bars, which have full opacity."""
    results = set()
    for layer in spec.get("layer", []):
        second = [value.get("field", "") for name, value in layer["encoding"].items() if name in ("x2", "y2")]
        if layer["mark"]["type"] == "rule" and any(name.endswith(("_high", "high")) for name in second):
            assert layer["mark"]["opacity"] == 1
            scale = layer["encoding"].get("color", {}).get("scale", {}).get("range")
            results |= {layer["mark"]["color"]} if "color" in layer["mark"] else set(scale or ())
    return results


DARK_PAPER = "#14171a"
"""Background of the report in a dark theme."""
ON_DARK_ONLY = {theme.ORANGE, theme.SKY}
"""Pale colours of the Okabe-Ito palette; the marks also differ by shape or position."""


def contrast(first: str, second: str) -> float:
    """Contrast ratio of two colours by WCAG 2.1, which requires 3 for parts of figures."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def test_a_plan_is_drawn_without_a_study() -> None:
    result = cu.plan(margins=[0.0, 0.3], items=20, replications=2)
    assert result.plot().to_dict()["data"]["values"] == result.power.to_dicts()


@pytest.mark.parametrize("question", ["check", "verdict"])
def test_without_a_picture_it_says_so(question: str) -> None:
    options = {} if question == "check" else {"resamples": 20}
    result = getattr(cu, question)(cu.read("demo"), aspect="fluency", **options)
    with pytest.raises(OptionError, match=f"^{question} has no chart; its tables: "):
        result.plot()


def test_a_picture_of_one_metric_asks_which() -> None:
    result = cu.correction(cu.read("demo"), metrics="judge,learned", estimator="ppi", aspect="fluency")
    with pytest.raises(OptionError, match="give metric=NAME, one of learned, judge"):
        result.plot()
    assert result.plot(metric="learned").to_dict()["title"] == "Margins by human ratings and learned (fluency)"
