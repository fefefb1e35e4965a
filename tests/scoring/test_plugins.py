"""Metrics of other packages: installed ones are found, and errors give one line with the package's name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest

import custodes as cu
from custodes import cli
from custodes.errors import CustodesWarning, InputError, OptionError
from custodes.scoring.listing import metrics_by_name
from custodes.scoring.metrics import METRICS
from tests import packages

CODE = """
import numpy as np
from custodes.scoring.metric import Metric, MetricResult, Scorer, Traits


def load(place, *, letter):
    def score(texts):
        return MetricResult(values=np.array([[text.count(letter)] for text in texts.outputs], dtype=float))
    return Scorer(signature=f"letters {letter}", traits=Traits(low=0.0), score=score)


METRIC = Metric(name="letters", gives="How often a letter is there.", source="none", load=load, traits=Traits(low=0.0),
    parameters={"letter": "a"})
"""
TEXTS = pl.DataFrame({"item": ["1", "1"], "system": ["A", "B"], "text": ["banana", "cherry"]})

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Function that installs the package of a metric."""
    monkeypatch.syspath_prepend(tmp_path)

    def put(code: str, *, version: str = "1.2") -> None:
        metrics_by_name.cache_clear()
        points = "[custodes.metrics]\nletters = lettering:METRIC\n"
        packages.install(tmp_path, code, name="lettering", points=points, version=version)

    yield put
    metrics_by_name.cache_clear()


def test_a_metric_of_another_package_scores_and_is_listed(install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    install(CODE)
    result = cu.score(TEXTS, ["letters", "letters:letter=r"])
    assert result.ratings["score"].to_list() == [3.0, 0.0, 0.0, 2.0]
    assert result.raters["signature"][0] == "custodes-lettering 1.2 letters a"
    assert cli.run(["score", "--list"]) == 0
    assert "How often a letter is" in " ".join(capsys.readouterr().out.split())
    with pytest.raises(OptionError, match="did you mean 'letters'"):
        cu.score(TEXTS, ["leters"])


def test_another_version_is_scored_anew(install: Install, tmp_path: Path) -> None:
    install(CODE)
    cu.score(TEXTS, ["letters"], cache=tmp_path / "kept.db")
    install(CODE.replace("count(letter)", "count(letter) + 1"), version="1.3")
    assert cu.score(TEXTS, ["letters"], cache=tmp_path / "kept.db").ratings["score"].to_list() == [4.0, 1.0]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("METRIC = 3", "its type must be Metric, but it is int"),
        (CODE.replace('"letters"', '"length"'), "another metric already has the name 'length'; choose another name"),
        (CODE.replace('"letters"', '"a:b"'), r"the name 'a:b' may contain only letters, digits and \+ . - _"),
    ],
)
def test_a_broken_one_is_left_out_with_one_line(install: Install, code: str, reason: str) -> None:
    install(code)
    who = r"metric 'letters' \(lettering:METRIC\) of the package custodes-lettering 1\.2"
    with pytest.warns(CustodesWarning, match=f"^{who} is left out: {reason}; update or uninstall") as warnings:
        assert cu.score(TEXTS, ["length"]).ratings.height == 2
    assert len(warnings) == 1
    assert metrics_by_name() == METRICS


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("return 3", "AttributeError: 'int' object has no attribute 'signature'"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
    ],
)
def test_a_fault_while_it_is_loaded_names_it(install: Install, fault: str, message: str) -> None:
    install(CODE.replace("    def score(", f"    {fault}\n    def score("))
    with pytest.raises(InputError, match=f"^metric letters: the metric cannot be loaded: {message}"):
        cu.score(TEXTS, ["letters"])
