"""New studies from texts: complete or not created, with fixed orders that later additions preserve."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from custodes.annotate.check_study import check
from custodes.annotate.new_study import new
from custodes.annotate.plan import AnnotatorPlan, Question, StoppingRule, StudyPlan
from custodes.annotate.service import Service
from custodes.annotate.snapshot import closing_lines
from custodes.annotate.study_material import pairs_of
from custodes.annotate.views import Ask, Begin, Break
from custodes.data.reading import read
from custodes.errors import CustodesError, OptionError
from custodes.evaluate.protocol import live
from tests.annotate.studies import answer, connection, new_annotator, open_service, orders, plan_of, texts

SILENT = StudyPlan(annotators=AnnotatorPlan(attention=0))
ALONE = {"cap": 1.0, "batch": 6, "batches": 30, "overlap": 0.0, "gold_every": 0, "attention": 0}
"""A plan for one annotator without control questions."""


def notes(path: Path) -> list[str]:
    with connection(path) as base:
        rows = base.execute("SELECT json FROM event WHERE kind = 'note' ORDER BY event")
        return [json.loads(note)["rule"] for (note,) in rows]


def test_the_orders_are_those_of_live(tmp_path: Path) -> None:
    path = new(texts(), tmp_path / "study.db", plan=StudyPlan(seed=3))
    for n in (5, 12):
        state = live.start(["A", "B", "C"], [f"i{k}" for k in range(12)], stopping=live.Stopping(looks=[n]), seed=3)
        asked = {(question.system_a, question.system_b, question.item) for question in live.next_annotations(state)}
        assert asked == {(*pair, item) for pair, items in orders(path).items() for item in items[:n]}
    assert orders(new(texts(), tmp_path / "other.db", plan=StudyPlan(seed=2))) != orders(path)


def test_clusters_take_turns(tmp_path: Path) -> None:
    items = pl.DataFrame({"item": [f"i{k}" for k in range(12)], "cluster": [f"d{k // 4}" for k in range(12)]})
    path = new(read(texts(systems="AB"), items=items), tmp_path / "study.db")
    (order,) = orders(path).values()
    documents = [int(item[1:]) // 4 for item in order]
    assert all(sorted(documents[k : k + 3]) == [0, 1, 2] for k in range(0, 12, 3))


def test_equal_and_empty_outputs_are_not_compared(tmp_path: Path) -> None:
    rows = [
        *(("i0", "A", "same  text"), ("i0", "B", "same text"), ("i1", "A", "only one"), ("i2", "A", " ")),
        *(("i2", "B", ""), ("i3", "A", ""), ("i3", "B", "something")),
    ]
    frame = pl.DataFrame(rows, schema=["item", "system", "text"], orient="row")
    path = new(frame, tmp_path / "study.db", plan=SILENT)
    assert orders(path) == {("A", "B"): ["i3"]}
    later_rules = ["outputs-missing", "outputs-empty", "looks-cut"]
    assert notes(path) == ["empty-output", "same-output", "empty-outputs", *later_rules]
    rated = new(frame, tmp_path / "rated.db", plan=StudyPlan(question=Question(mode="rate")))
    assert {pair: len(items) for pair, items in orders(rated).items()} == {("A", ""): 4, ("B", ""): 3}
    assert notes(rated) == ["empty-output", "outputs-missing", "outputs-empty"]


def test_only_pairs_and_systems_that_are_named(tmp_path: Path) -> None:
    for name, selection in (("one", {"pairs": ["C:A"]}), ("two", {"systems": "!B"})):
        assert list(orders(new(texts(), tmp_path / f"{name}.db", **selection))) == [("A", "C")]
    assert pairs_of(["a:b", "c"], ["a:b:c"], mode="compare") == [("a:b", "c")]  # labels may contain a colon
    for wrong, message in (("A", "'A' does not name two"), ("A:X", "no such system 'X'"), ("A:A", "with itself")):
        with pytest.raises(OptionError, match=message):
            new(texts(), tmp_path / "three.db", pairs=[wrong])


def test_ratings_ask_for_one_output_at_a_time(tmp_path: Path) -> None:
    plan = StudyPlan(question=Question(mode="rate", aspects=("fluency", "depth"), scale=(0, 100)))
    path = new(texts(), tmp_path / "study.db", plan=plan)
    assert {pair: len(items) for pair, items in orders(path).items()} == {("A", ""): 12, ("B", ""): 12, ("C", ""): 12}
    with connection(path) as base:
        assert set(base.execute("SELECT kind, second, expected FROM gold")) == {("attention", "", 0)}
    with pytest.raises(OptionError, match="pairs=.* has no effect"):
        new(texts(), tmp_path / "other.db", plan=plan, pairs=["A:B"])


def test_a_budget_of_ratings_selects_the_same_items(tmp_path: Path) -> None:
    """All systems share one order of items."""
    plan = StudyPlan(question=Question(mode="rate"), stopping=StoppingRule(budget=12))
    path = new(texts(), tmp_path / "study.db", plan=plan)
    first, *others = orders(path).values()
    assert all(other == first for other in others)
    budget_text = check(path).problems.filter(rule="small-budget")["message"].item()
    assert "12 are rated; 4 items, drawn at random, get ratings of the outputs of all systems" in budget_text


def test_what_cannot_be_asked_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    scores = pl.DataFrame({"item": ["1"], "system": ["A"], "rater": ["m"], "score": [1.0], "kind": ["metric"]})
    equal = pl.DataFrame({"item": ["1", "1"], "system": ["A", "B"], "text": ["x", "x"]})
    described = Question(aspects=("tone: warm, not stiff",))
    for frame, plan, message in (
        (scores, None, "there are no texts"),
        (texts(systems="A"), None, "one system"),
        (equal, None, "nothing to annotate: no item has two outputs that differ .* 1 comparisons of"),
        (texts(), StudyPlan(annotators=AnnotatorPlan(qualification=3, passed=2)), "gold has 0 questions of kind"),
        (texts(), StudyPlan(question=described), "aspects='tone: warm, not stiff' has a description, .* give 'tone',"),
        (texts(), StudyPlan(stopping=StoppingRule(estimator="mixture")), "needs a metric"),
        (texts(), tmp_path / "absent.toml", "absent.toml: no such file"),
    ):
        with pytest.raises(CustodesError, match=message):
            new(frame, path, plan=plan)
    assert list(tmp_path.iterdir()) == []
    new(texts(), path)
    before = path.read_bytes()
    with pytest.raises(OptionError, match="exists already"):
        new(texts(), path)
    assert path.read_bytes() == before


def test_metric_preferences_are_stored(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = texts(systems="AB").select("item", "system").with_columns(rater=pl.lit("bleu"), kind=pl.lit("metric"))
    scores = rows.with_columns(score=pl.Series(rng.integers(0, 3, 24).astype(float)))
    study = read(texts(systems="AB"), scores)
    path = new(study, tmp_path / "study.db", metric="bleu")
    with connection(path) as base:
        query = "SELECT label, preference FROM metric JOIN unit USING (unit) JOIN item USING (item) WHERE rater = ?"
        preferences = dict(base.execute(query, ["bleu"]))
    wide = {(item, system): score for item, system, score in scores.select("item", "system", "score").iter_rows()}
    assert preferences == {f"i{k}": int(np.sign(wide[f"i{k}", "A"] - wide[f"i{k}", "B"])) for k in range(12)}
    human = StudyPlan(stopping=StoppingRule(estimator="human"))
    with pytest.raises(OptionError, match="estimator human uses no metric"):
        new(study, tmp_path / "other.db", metric="bleu", plan=human)


def prefer_system_a(service: Service, token: str, *, most: int = 10_000) -> None:
    """Answer up to `most` comparisons: system A is better than the others, which are equal."""
    for _ in range(most):
        if isinstance(view := service.view(token).result(), Break):
            view = service.act(token, Begin()).result()
        if not isinstance(view, Ask):
            break
        first, second = (">A says" in side.html for side in view.sides)
        answer(service, token, first - second)


def test_a_metric_is_used(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = texts(systems="AB", items=40).select("item", "system")
    is_a = pl.when(pl.col("system") == "A").then(1.0).otherwise(0.0)
    scores = rows.with_columns(rater=pl.lit("m"), kind=pl.lit("metric"), score=is_a + pl.Series(rng.normal(size=80)))
    plan = plan_of(annotators=ALONE, stopping={"estimator": "ppi"})
    path = new(read(texts(systems="AB", items=40), scores), tmp_path / "study.db", plan=plan, metric="m")
    with open_service(path) as service:
        prefer_system_a(service, new_annotator(service))
        (pair,) = service.snapshot().result().pairs
    assert (pair.decision, pair.is_open) == (1, False)


def test_no_result_without_an_interim_analysis(tmp_path: Path) -> None:
    path = new(texts(), tmp_path / "study.db")
    with closing(Service.open(path, threaded=False)) as service:
        lines = " ".join(closing_lines(path, service.snapshot().result()))
    assert "study: open; 0 answers; 0 of 3 pairs completed" in lines
    ratings_path = new(texts(), tmp_path / "ratings.db", plan=plan_of(question={"mode": "rate"}))
    with closing(Service.open(ratings_path, threaded=False)) as service:
        lines = " ".join(closing_lines(ratings_path, service.snapshot().result()))
    assert "ratings: open; 0 answers; 0 of 3 systems completed" in lines
