"""Repeatable options: repeated options and comma-separated lists are equivalent, on the command line and in Python."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from cyclopts import App
from hypothesis import given
from hypothesis import strategies as st

import custodes as cu
from custodes import cli
from custodes.annotate.study_material import pairs_of
from custodes.arguments import assignment_list, value_list
from custodes.commands.judge import parse_sampling
from custodes.errors import OptionError
from custodes.judging.probes import Probes
from custodes.options import InputOptions
from custodes.scoring.metrics import METRICS
from custodes.scoring.spec import spec_list

QUICK = ("--resamples", "20")
DEMO = ("demo", "--aspect", "fluency")
TWO = ("--metrics", "judge,learned")
FIT = ("--repeats", "1", "--resamples", "0", "--unseen", "none")
CASES: dict[str, tuple[tuple[str, ...], tuple[str, str]]] = {
    "--human": (("agreement", *DEMO, *TWO, *QUICK), ("ann1", "ann2")),
    "--metrics": (("agreement", *DEMO, *QUICK), ("judge", "learned")),
    "--systems": (("agreement", *DEMO, *TWO, *QUICK), ("Aster,Birch", "Cedar")),
    "--aspect": (("agreement", "demo", *TWO, *QUICK), ("fluency", "coherence")),
    "--group": (("agreement", *DEMO, *TWO, *QUICK), ("news", "dialogue")),
    "--compare-by": (("agreement", *DEMO, *TWO, *QUICK), ("kendall_item", "pearson_item")),
    "--in-use": (("ceiling", *DEMO, *QUICK, "--model", "ridge", "--steps", "3"), ("judge", "learned")),
    "--variants": (("ceiling", *DEMO, *QUICK, "--model", "ridge"), ("overlap*", "*e*d*")),
    "--estimator": (("correction", *DEMO, "--metrics", "judge"), ("ppi", "poststratified")),
    "--stop": (("protocol", *DEMO, *QUICK, "--replications", "2"), ("decided", "futility")),
    "--covariates": (("leaderboard", *DEMO, *QUICK), ("judge", "learned")),
    "--require": (("gate", *DEMO, *QUICK, "--metric", "judge"), ("kendall_item>=0.1", "pearson_item>=0.1")),
    "--not-worse-than": (("gate", *DEMO, *QUICK, "--metric", "judge"), ("learned", "overlap")),
    "--method": (("combine", "fit", "demo", "--target", "fluency", *TWO, *FIT), ("best", "equal")),
    "--target": (("combine", "fit", "demo", "--method", "equal", *TWO, *FIT), ("coherence", "fluency")),
}
"""A command line and two values, for options of commands that write to standard output."""

ELSEWHERE = {
    "--aspects": "described values",
    "--by": "columns of counted labels",
    "--metric": "metric specifications",
    "--sampling": "assignments",
    "--column": "assignments",
    "--rename": "assignments",
    "--pairs": "pairs of systems",
    "--lower": "counts",
    "--labels": "labels of a judge",
    "--probe": "probes of a judge",
}
"""Options that other tests of this file cover, and the kind of their values."""

NAMES_OF_FILES = {"--plan"}
PATTERNS_OF_COLUMNS = {"--columns"}
"""Options that are not split at commas, which file and column names may contain."""


def options(app: App) -> Iterator[str]:
    """Return the first name of every repeatable option."""
    if app.default_command:
        for value in app.assemble_argument_collection():
            if value.names and value.names[0].startswith("--") and "list" in str(value.hint):
                yield value.names[0]
    for name in app:
        if not name.startswith("-"):
            yield from options(app[name])


def test_every_repeatable_option_is_covered() -> None:
    repeatable = set(options(cli.app()))
    assert len(repeatable) > 20
    assert repeatable == {*CASES, *ELSEWHERE, *NAMES_OF_FILES, *PATTERNS_OF_COLUMNS}


@pytest.mark.parametrize("option", CASES)
def test_a_comma_list_is_the_same_as_repeating(
    option: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words, values = CASES[option]
    words = tuple(word for word in words if word != option) if option != "--aspect" else words

    def tables(*more: str) -> dict[str, Any]:
        capsys.readouterr()
        status = cli.run([*words, *more, "--format", "json", "--no-timing"])
        assert status in (0, 1, 3), capsys.readouterr().err
        answer = json.loads(capsys.readouterr().out)
        assert answer.pop("provenance")
        for row in answer.get("comparison", []):
            row.pop("seconds", None)
        return answer  # type: ignore[no-any-return]

    repeated = tables(option, values[0], option, values[1])
    assert tables(option, (" , " if option == "--metrics" else ",").join(values)) == repeated
    assert tables(option, values[0]) != repeated  # both values count


def test_estimators_in_python() -> None:
    study = cu.read("demo").select(aspect="fluency", metrics="judge")
    listed = cu.correction(study, estimator=["human", "ppi"]).pairs
    assert cu.correction(study, estimator="human,ppi").pairs.equals(listed)
    assert cu.correction(study, estimator=["human, ppi"]).pairs.equals(listed)


def test_probes_of_a_judge() -> None:
    outputs = {"i": {"A": "One sentence.", "B": "Another sentence."}}
    for probe in (["length", "name"], ["length,name"], ["length, name"]):
        result = Probes.make(probe, cu.Judge(model="m"), orders="both", outputs=outputs)
        assert result.names == ("length", "name")


def test_labels_of_a_judge() -> None:
    for labels in (["pass", "fail"], "pass,fail", ["pass, fail"]):
        assert tuple(cu.Judge(model="m", mode="pointwise", labels=labels).labels) == ("pass", "fail")


def test_a_described_value_keeps_its_commas() -> None:
    aspects = cu.Judge(model="m", aspects=["coherence,fluency", "tone: warm, not stiff"]).meanings
    assert aspects == {"coherence": "", "fluency": "", "tone": "warm, not stiff"}
    assert cu.Judge(model="m", aspects="coherence,fluency").meanings == {"coherence": "", "fluency": ""}


@pytest.mark.parametrize("described", ["coherence,tone: it sounds friendly", "a, b: c", ",tone: x"])
def test_a_comma_before_the_colon_is_refused(described: str, tmp_path: Path) -> None:
    texts = pl.DataFrame({"item": ["1"], "system": ["A"], "text": ["yes"]})
    for call in (
        lambda: cu.Judge(model="m", aspects=described),
        lambda: cu.Judge(model="m", aspects=["fluency", described]),
        lambda: cu.score(texts, described),
        lambda: cu.combine(cu.read("demo"), target=described),
    ):
        with pytest.raises(OptionError, match="a comma precedes the colon") as error:
            call()
        assert "\n" not in str(error.value)
        assert "repeat the option" in str(error.value)


@pytest.mark.parametrize(
    "words",
    [
        ("judge", "texts.jsonl", "--model", "m", "--base-url", "http://127.0.0.1:9/v1", "-o", "v.csv", "--aspects"),
        ("annotate", "new", "texts.jsonl", "--aspects"),
        ("score", "texts.jsonl", "-o", "s.csv", "--metric"),
    ],
)
def test_a_comma_before_the_colon_is_one_line(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("texts.jsonl").write_text('{"item": "1", "outputs": {"A": "yes", "B": "no"}}\n')
    assert cli.run([*words, "coherence,tone: it sounds friendly"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "a comma precedes the colon" in err
    assert [path.name for path in tmp_path.iterdir()] == ["texts.jsonl"]


def test_metric_specifications() -> None:
    assert spec_list("rouge1,bleu@first,mean,chrf", METRICS) == ["rouge1", "bleu@first,mean", "chrf"]
    assert spec_list(["bleu@first", "mean"], METRICS) == ["bleu@first", "mean"]  # a rule applies to one value only
    assert spec_list("chrf:beta=2,case=false", METRICS) == ["chrf:beta=2,case=false"]
    assert spec_list("command:python count.py a,b", METRICS) == ["command:python count.py a,b"]
    texts = pl.DataFrame({"item": ["1"], "system": ["A"], "text": ["yes it is"], "source": ["is it"]})
    assert cu.score(texts, "length").provenance.options["metrics"] == ["length"]
    assert cu.score(texts, "length,novelty").ratings.equals(cu.score(texts, ["length", "novelty"]).ratings)


def test_assignments() -> None:
    expected = {"temperature": 0, "max_tokens": 64, "stop": "a,b"}
    assert parse_sampling(["temperature=0,max_tokens=64", "stop=a,b"]) == expected
    assert parse_sampling(["temperature=0", "max_tokens=64,stop=a,b"]) == expected
    assert parse_sampling(['stop=["a","b,seed=1"]', "seed=2"]) == {"stop": ["a", "b,seed=1"], "seed": 2}
    with pytest.raises(OptionError, match="is not JSON; give one KEY=VALUE, and repeat"):  # it is not sent as text
        parse_sampling(['stop=["a,seed=1'])
    mapping = InputOptions(column=["item=doc,system=model", "score=a,b"]).column_mapping
    assert mapping == {"item": "doc", "system": "model", "score": "a,b"}
    assert assignment_list("x=y:k=1,case=lc,z=w", keys=["x", "z"]) == ["x=y:k=1,case=lc", "z=w"]


def test_pairs_of_systems() -> None:
    systems = ["A", "B", "f(a,b)"]
    two = [("A", "B"), ("B", "f(a,b)")]
    assert pairs_of(systems, "A:B,B:f(a,b)", mode="compare") == two
    assert pairs_of(systems, ["A:B", "B:f(a,b)"], mode="compare") == two
    assert pairs_of(systems, [("A", "B"), "B:f(a,b)"], mode="compare") == two


def test_names_in_counts() -> None:
    rows = [
        (item, system, rater, score)
        for item in "12"
        for system, score in (("A", 1.0), ("B", 2.0))
        for rater in ("ann", "bob", "f(a,b)", "ter")
    ]
    table = pl.DataFrame(rows, schema=["item", "system", "rater", "score"], orient="row")
    counts = cu.count_pairs(table, human="ann,bob", metrics="f(a,b),ter", directions={"f(a,b),ter": -1.0})
    listed = cu.count_pairs(
        table, human=["ann", "bob"], metrics=["f(a,b)", "ter"], directions={"f(a,b)": -1.0, "ter": -1.0}
    )
    assert counts.metrics == ("f(a,b)", "ter")
    assert (counts.paired == listed.paired).all()


@given(st.lists(st.text(min_size=1, max_size=6).map(str.strip).filter(lambda text: text and "," not in text)))
def test_joining_undoes_splitting(values: list[str]) -> None:
    assert value_list("o", ",".join(values)) == values
    assert value_list("o", values) == values


@given(
    st.lists(st.text(max_size=8).filter(lambda text: text == text.strip() and not text.startswith("!")), unique=True)
)
def test_labels_are_never_split(labels: list[str]) -> None:
    assert value_list("o", labels, labels=labels) == labels


@pytest.mark.parametrize("wrong", [5, [5], {"a": 1}, [["a"]]])
def test_what_is_no_text_is_refused(wrong: Any) -> None:
    with pytest.raises(OptionError, match="must be a text or a list of texts"):
        value_list("o", wrong)


def test_columns_of_counted_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = {"id": range(4), "judge": ["pass", "fail"] * 2, "human": ["pass", None] * 2, "topic": list("aabb")}
    pl.DataFrame(rows).with_columns(length=pl.Series(["long"] * 3 + ["short"])).write_csv("labels.csv")
    written = []
    for by in (["--by", "topic", "--by", "length"], ["--by", "topic,length"]):
        assert cli.run(["count", "labels.csv", "-o", "counts.csv", "--quiet", *by]) == 0
        written.append(pl.read_csv("counts.csv"))
    assert {"topic", "length"} <= {*written[0].columns}
    assert written[0].equals(written[1])
