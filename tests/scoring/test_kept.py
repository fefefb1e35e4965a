"""Cached scores: other rules and names reuse them, changes that affect scores do not; an interruption loses little."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.cache import Cache, KeptScore
from custodes.data.study import Study
from custodes.errors import CustodesError
from custodes.scoring.metric import MetricInputs, MetricResult, Need, Traits
from tests.scoring.made import OUTPUTS, OVERLAP, POOLED, REFERENCES, constant, overlap, pooled, recorded, scores_of
from tests.scoring.made import study as texts_of


@pytest.fixture
def cache_db(tmp_path: Path) -> str:
    return str(tmp_path / "kept.db")


@pytest.mark.parametrize(("score", "traits"), [(overlap, OVERLAP), (pooled, POOLED)])
def test_another_rule_costs_nothing(
    monkeypatch: pytest.MonkeyPatch, study: Study, cache_db: str, score: object, traits: Traits
) -> None:
    recorder = recorded(monkeypatch, score, traits)  # type: ignore[arg-type]
    cu.score(study, ["made@mean"], cache=cache_db)
    before = len(recorder.outputs)
    again = cu.score(study, ["made@first", "made@best", "x=made@mean"], cache=cache_db)
    assert len(recorder.outputs) == before
    assert scores_of(again, "made@first") == pytest.approx([2 / 3, 1, 0, 2 / 3, 1 / 2, 0])


def test_the_same_cache_gives_the_same_result(monkeypatch: pytest.MonkeyPatch, study: Study, cache_db: str) -> None:
    recorder = recorded(monkeypatch, overlap, OVERLAP)
    specs = ["made@first,best,mean", "length"]
    cold, warm = cu.score(study, specs, cache=cache_db), cu.score(study, specs, cache=cache_db)
    assert len(recorder.calls) == 1
    for name, table in cold.tables().items():
        assert table.equals(warm.tables()[name], null_equal=True), name
    assert (cold.raters["cost"] > 0).all()
    assert set(cold.raters["cost_unit"]) == {"cpu-s"}


def test_only_what_is_new_is_scored(monkeypatch: pytest.MonkeyPatch, study: Study, cache_db: str) -> None:
    recorder = recorded(monkeypatch, overlap, OVERLAP)
    cu.score(study, ["made"], cache=cache_db)
    recorder.calls.clear()
    more = {item: {**texts, "D": "a cat"} for item, texts in OUTPUTS.items()}
    cu.score(texts_of(more, references=REFERENCES), ["made"], cache=cache_db)
    assert recorder.outputs == ["a cat"] * 2
    recorder.calls.clear()
    cu.score(texts_of(OUTPUTS, references={**REFERENCES, "2": ["the dog", "a dog"]}), ["made@mean"], cache=cache_db)
    assert sorted(recorder.outputs) == sorted([*OUTPUTS["1"].values(), *OUTPUTS["2"].values()])


@pytest.mark.parametrize(
    ("need", "change", "asked_again"),
    [
        ("source", {"source": {"1": "other", "2": "two"}}, 2),
        ("context", {"context": {"1": "other", "2": "two"}}, 2),
        ("references", {"source": {"1": "other", "2": "two"}}, 0),
        ("references", {"references": {"1": ["x"], "2": ["y"]}}, 4),
    ],
)
def test_a_score_is_kept_under_what_its_metric_needs(
    monkeypatch: pytest.MonkeyPatch, cache_db: str, need: Need, change: dict[str, dict[str, object]], asked_again: int
) -> None:
    facts = {
        "references": {"1": ["a"], "2": ["b"]},
        "source": {"1": "s", "2": "two"},
        "context": {"1": "c", "2": "two"},
    }
    recorder = recorded(monkeypatch, constant(1.0), Traits(needs=(need,)))
    outputs = {"1": {"A": "x", "B": "y"}, "2": {"A": "x", "B": "y"}}
    cu.score(texts_of(outputs, **facts), ["made"], cache=cache_db)
    recorder.calls.clear()
    cu.score(texts_of(outputs, **{**facts, **change}), ["made"], cache=cache_db)
    assert len(recorder.outputs) == asked_again


def test_an_image_counts_by_what_it_holds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache_db: str) -> None:
    recorder = recorded(monkeypatch, constant(1.0), Traits(needs=("image",)))

    def n_calls(image: Path | str, item: str = "1") -> int:
        cu.score(texts_of({item: {"A": "a fox"}}, image={item: str(image)}), ["made"], cache=cache_db)
        return len(recorder.calls)

    one, two = tmp_path / "one.png", tmp_path / "two.png"
    for content, expected in ((b"1", 1), (b"1", 1), (b"2", 2)):
        one.write_bytes(content)
        assert n_calls(one) == expected
    assert n_calls(one.rename(two), "x") == 2
    assert n_calls("https://example.org/one.png") == 3


def test_parameters_are_part_of_the_key(monkeypatch: pytest.MonkeyPatch, study: Study, cache_db: str) -> None:
    recorder = recorded(monkeypatch, constant(1.0), Traits(), n=1)
    for specs in (["made", "made:n=2"], ["x=made:n=1", "y=made:n=2"]):
        cu.score(study, specs, cache=cache_db)
        assert len(recorder.calls) == 2


def test_a_metric_of_the_whole_is_scored_anew_where_any_text_is_another(
    monkeypatch: pytest.MonkeyPatch, study: Study, cache_db: str
) -> None:
    traits = Traits(needs=("references",), rules=("all",), whole=True)
    recorder = recorded(monkeypatch, lambda texts: constant(len(texts.outputs))(texts), traits)
    cu.score(study, ["made"], cache=cache_db)
    assert [len(texts.outputs) for texts in recorder.calls] == [6]
    cu.score(texts_of(OUTPUTS, references=REFERENCES, source={"1": "new"}), ["made"], cache=cache_db)
    assert len(recorder.calls) == 1
    changed = {**OUTPUTS, "2": {**OUTPUTS["2"], "C": "another"}}
    result = cu.score(texts_of(changed, references=REFERENCES), ["made"], cache=cache_db)
    assert (len(recorder.calls), scores_of(result, "made")) == (2, [6.0] * 6)


def test_scores_of_systems_are_kept_by_system(monkeypatch: pytest.MonkeyPatch, study: Study, cache_db: str) -> None:
    def length(texts: MetricInputs) -> MetricResult:
        return MetricResult(values=np.zeros((1, 0)), systems=np.array([len("".join(texts.outputs))]))

    recorder = recorded(monkeypatch, length, Traits(systems=True))
    first = scores_of(cu.score(study, ["made"], cache=cache_db), "made")
    changed = {item: {**texts, "C": f"{texts['C']} now"} for item, texts in OUTPUTS.items()}
    assert scores_of(cu.score(texts_of(changed), ["made"], cache=cache_db), "made") == [*first[:2], first[2] + 8]
    assert len(recorder.calls) == 4


def test_a_killed_run_loses_one_call_and_its_file_is_whole(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache_db: str
) -> None:
    code = f"""
import os, signal
import pytest
import custodes as cu
from custodes.scoring.metric import Traits
from tests.scoring.made import constant, recorded, study
def killed(texts):
    if len(own.calls) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return constant(1.0)(texts)
own = recorded(pytest.MonkeyPatch(), killed, Traits())
cu.score(study({{str(i): {{"A": f"a {{i}}"}} for i in range(40)}}), ["made"], batch=1, cache={cache_db!r})
"""
    root = Path(__file__).parents[2]
    process = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    assert process.returncode == -9, process.stderr
    recorder = recorded(monkeypatch, constant(1.0), Traits())
    cu.score(texts_of({str(i): {"A": f"a {i}"} for i in range(40)}), ["made"], cache=cache_db)
    assert len(recorder.outputs) == 40 - 16


def database(path: Path, statement: str) -> Path:
    with closing(sqlite3.connect(path)) as base:
        base.execute(statement)
    return path


def test_a_file_of_somebody_else_is_refused_and_stays_as_it_is(study: Study, tmp_path: Path) -> None:
    (tmp_path / "texts.csv").write_text("item,system\n" * 100)
    with Cache(tmp_path / "newer.db") as cache:
        cache.keep_scores([])
    for place, message in (
        (database(tmp_path / "other.db", "CREATE TABLE mine (x)"), "this database is of another program; name another"),
        (tmp_path / "texts.csv", r"not a file of cached scores or replies \(file is not a database\)"),
        (database(tmp_path / "newer.db", "PRAGMA user_version = 99"), "this database is of version 99, not 1"),
        (tmp_path, "it is a folder"),
        (tmp_path / "no" / "kept.db", "no such folder"),
    ):
        before = place.read_bytes() if place.is_file() else None
        with pytest.raises(CustodesError, match=message):
            cu.score(study, ["length"], cache=place)
        assert before == (place.read_bytes() if place.is_file() else None)


def test_a_file_is_made_when_there_is_something_to_keep(tmp_path: Path) -> None:
    place = tmp_path / "kept.db"
    with Cache(place) as cache:
        assert (cache.scores(["k"]), cache.replies(["k"]), cache.seconds_of("m")) == ({}, {}, None)
        assert not place.exists()
        with Cache(place) as second:
            second.keep_reply("k", b"{}", b"{}")
        assert cache.replies(["k"]) == {"k": b"{}"}


def test_scores_are_kept_all_or_none(cache_db: str) -> None:
    row = KeptScore("k", "m", b"", False, "", 1.0)

    def broken():  # type: ignore[no-untyped-def]
        yield row
        raise ValueError

    with Cache(cache_db) as cache:
        with pytest.raises(ValueError):
            cache.keep_scores(broken())
        assert cache.scores(["k"]) == {}
        cache.keep_scores([row, row._replace(seconds=2.0)])
        assert cache.scores(["k", "other"]) == {"k": row}
        assert (cache.seconds_of("m"), cache.seconds_of("other")) == (1.0, None)


def test_first_costs_its_share_and_the_others_all(monkeypatch: pytest.MonkeyPatch, study: Study) -> None:
    def slow(texts: MetricInputs) -> MetricResult:
        return MetricResult(values=overlap(texts).values, seconds=600.0)

    recorded(monkeypatch, slow, OVERLAP)
    result = cu.score(study, ["made@first,best,mean"])
    costs = dict(result.raters.select("rater", "cost").rows())
    # 100 seconds per output; for item 1 the first of two references takes half.
    assert costs["made@best"] == costs["made@mean"] == pytest.approx(100, abs=1)
    assert costs["made@first"] == pytest.approx(75, abs=1)
    assert pl.Series(costs.values()).is_finite().all()


def test_two_runs_on_one_file_do_not_disturb_each_other(cache_db: str) -> None:
    code = f"""
import polars as pl
import custodes as cu
texts = pl.DataFrame({{"item": [str(i) for i in range(300)], "system": "A", "text": [f"a {{i}}" for i in range(300)]}})
for batch in (1, 2):
    assert cu.score(texts, ["length", "length:unit=characters"], batch=batch, cache={cache_db!r}).ratings.height == 600
"""
    runs = [subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True) for _ in range(2)]
    for run in runs:
        _, errors = run.communicate()
        assert run.returncode == 0, errors
    with sqlite3.connect(cache_db) as base:
        assert base.execute("SELECT count(*), count(DISTINCT metric) FROM score").fetchone() == (600, 2)
    base.close()
