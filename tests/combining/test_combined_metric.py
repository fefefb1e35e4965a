"""Model files: round trips, rejection of edits, and scoring of other data."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.combining.combined_metric import VERSION, CombinedMetric
from custodes.combining.methods import METHODS, gaussian_process
from custodes.combining.task import task
from custodes.errors import InputError, OptionError
from custodes.stats.learning import boost
from tests.combining.models import RATERS, learnt, model_of, scores, selected_study
from tests.combining.tasks import ITEMS, N_SYSTEMS, normal_scores, planted, table_of_items
from tests.evaluate.judged_studies import judged


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gaussian_process, "ITERATIONS", 3)
    monkeypatch.setitem(boost.SETTINGS, "rounds", 15)


@pytest.mark.parametrize("name", METHODS)
def test_the_file_predicts_what_the_formula_predicts_of_normalised_scores(name: str) -> None:
    of = task(selected_study(scores()), target=None)
    formula, scales = learnt(name, of)
    model = model_of(name)
    places = [of.metrics.names.index(column.metric) for column in model.columns]
    new = 5 * np.random.default_rng(1).normal(size=(300, 3))  # also far outside every scale
    new[::7, 1] = np.nan
    expected = formula.predict(scales.apply(new))
    np.testing.assert_allclose(model.predict(new[:, places]), expected, rtol=0, atol=1e-12)
    if name in ("xgboost", "ridge", "equal", "blend"):
        assert np.ptp(expected) > 0.5


def test_the_bounds_are_never_wider_than_the_scale() -> None:
    for name in ("ridge", "blend"):
        columns = {column.metric: column for column in model_of(name).columns}
        clipped = np.clip(-scores()["a", ""], -2, 3)  # declared -3 to 2, lower is better
        assert columns["a"].low == -2  # three standard deviations reach further
        assert columns["a"].high == pytest.approx(min(3, clipped.mean() + 3 * clipped.std()))
        assert columns["a"].scale == "declared"
        assert not columns["a"].higher_is_better
        # The outlier is clipped at three standard deviations from the mean.
        raw = scores()["b", ""]
        assert columns["b"].scale == "fitted"
        assert columns["b"].high == pytest.approx(raw.mean() + 3 * raw.std())
        assert columns["b"].low == pytest.approx(raw.min())


def test_the_metrics_that_do_not_matter_are_not_kept() -> None:
    assert [column.metric for column in model_of("best").columns] == ["a"]
    assert len(model_of("equal").columns) == 3


ELSEWHERE = """
import sys
import custodes as cu
for model in sys.argv[3:]:
    ratings, _ = cu.CombinedMetric.load(model).score(cu.read(sys.argv[1], raters=sys.argv[2]))
    sys.stdout.buffer.write(ratings.write_csv().encode())
"""


def test_another_process_gives_the_same_bytes(tmp_path: Path) -> None:
    data, raters, expected = tmp_path / "data.csv", tmp_path / "raters.csv", b""
    study = judged(scores(3))
    study.ratings.frame.select("item", "system", "rater", "score").write_csv(data)
    RATERS.write_csv(raters)
    files = []
    for name in ("ridge", "xgboost", "blend"):
        files.append(model_of(name).save(tmp_path / f"{name}.json"))
        ratings, _ = CombinedMetric.load(files[-1]).score(cu.read(data, raters=raters))
        assert ratings.equals(model_of(name).score(study.describe(raters=RATERS))[0])
        expected += ratings.write_csv().encode()
    process = subprocess.run([sys.executable, "-c", ELSEWHERE, data, raters, *files], capture_output=True, check=True)
    assert process.stdout == expected


@pytest.mark.parametrize("name", METHODS)
def test_a_saved_model_is_read_back_as_it_was(name: str, tmp_path: Path) -> None:
    model = model_of(name)
    file = model.save(tmp_path / "model.json")
    assert CombinedMetric.load(file) == model
    again = file.read_bytes()
    CombinedMetric.load(file).save(file)
    assert file.read_bytes() == again
    assert all(math.isfinite(number) for number in _numbers(json.loads(again)))


def _numbers(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [number for part in value.values() for number in _numbers(part)]
    if isinstance(value, list):
        return [number for part in value for number in _numbers(part)]
    return [value] if isinstance(value, float) else []


def saved_model(tmp_path: Path, change: Any = None, name: str = "ridge") -> tuple[Path, dict[str, Any]]:
    file = model_of(name).save(tmp_path / "model.json")
    content = json.loads(file.read_bytes())
    if change is not None:
        change(content)
        file.write_text(json.dumps(content))
    return file, content


def first(**values: Any) -> Any:
    return lambda content: content["columns"][0].update(values)


def top(**values: Any) -> Any:
    return lambda content: content.update(values)


def without(*path: Any) -> Any:
    def change(content: Any) -> None:
        for part in path[:-1]:
            content = content[part]
        del content[path[-1]]

    return change


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (first(weight=2.5), "edited by hand.*digest.*; fit it again"),
        (top(validation={}), "edited by hand"),
        (first(higher_is_better=True), "edited by hand"),
        (top(intercept=1.0), "edited by hand"),
        (top(trees="{}"), "Expected `object | null`, got `str`.*trees"),
        (top(digest="0" * 64), "edited by hand"),
        (without("columns", 1), "edited by hand"),
        (lambda content: content["columns"].reverse(), "edited by hand"),
        (top(extra=1), r"unknown field .extra."),
        (first(extra=1), r"unknown field .extra.*columns"),
        (top(version=VERSION + 1), f"version {VERSION + 1} of the format, but {VERSION} is required"),
        (top(name=""), "the field name is empty"),
        (top(version="1"), "Expected `int`, got `str`.*version"),
        (top(format="other"), "the format is 'other', not 'custodes-combination'"),
        (first(weight=None), "Expected `float`, got `null`.*weight"),
        (first(scale="guessed"), "guessed"),
        (without("columns", 0, "weight"), "missing required field `weight`"),
    ],
)
def test_a_file_that_was_changed_is_refused_with_the_reason(tmp_path: Path, change: Any, reason: str) -> None:
    file, _ = saved_model(tmp_path, change)
    with pytest.raises(InputError, match=rf"^model\.json: .*{reason}") as problem:
        CombinedMetric.load(file)
    assert "\n" not in str(problem.value)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("field", ["intercept", "weight"])
def test_numbers_that_are_not_finite_are_refused(tmp_path: Path, number: str, field: str) -> None:
    file, _ = saved_model(tmp_path, top(intercept=12345.0) if field == "intercept" else first(weight=12345.0))
    file.write_text(file.read_text().replace("12345.0", number))
    with pytest.raises(InputError, match=r"^model\.json: "):
        CombinedMetric.load(file)


@pytest.mark.parametrize(
    "content",
    [b"", b"not json", b"[]", b"\xff\xfe{\x00", b"{}", b"[" * 100000, b'{"name": "\\ud800"}'],
)
def test_what_is_no_model_at_all_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "model.json"
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"^model\.json: ") as problem:
        CombinedMetric.load(file)
    assert "\n" not in str(problem.value)


def test_a_file_that_is_not_there_and_a_folder_are_refused(tmp_path: Path) -> None:
    file, _ = saved_model(tmp_path)
    with pytest.raises(InputError, match="modle.json: no such file.*did you mean 'model.json'"):
        CombinedMetric.load(tmp_path / "modle.json")
    file.unlink()
    file.mkdir()
    with pytest.raises(InputError, match="model.json: cannot be read"):
        CombinedMetric.load(file)
    with pytest.raises(OptionError, match="it is a folder"):
        model_of("best").save(file)


def test_the_name_may_be_edited(tmp_path: Path) -> None:
    file, content = saved_model(tmp_path, top(name="coherence-metric"))
    study = judged(scores()).describe(raters=RATERS)
    ratings, _ = CombinedMetric.load(file).score(study)
    assert ratings["score"].to_list() == model_of("ridge").score(study)[0]["score"].to_list()
    assert set(ratings["rater"]) == {content["name"]}


def test_the_direction_is_that_of_the_file_whatever_the_study_says() -> None:
    model = model_of("ridge")
    declared, plain = judged(scores()).describe(raters=RATERS), judged(scores())
    against = plain.describe(raters=pl.DataFrame({"rater": ["b", "noise"], "higher_is_better": ["false"] * 2}))
    expected, notes = model.score(declared)
    for study in (plain, against):
        ratings, same = model.score(study)
        assert ratings.equals(expected)
        assert same == notes


def test_ratings_are_the_predictions_of_their_outputs() -> None:
    values = scores()
    model = model_of("ridge")
    ratings, _ = model.score(judged(values))
    assert ratings.columns == ["item", "system", "rater", "kind", "aspect", "score"]
    assert ratings.select("rater", "kind", "aspect").unique().rows() == [("combined", "metric", "")]
    assert ratings.height == ITEMS * N_SYSTEMS
    raw = np.stack([-values["a", ""], values["b", ""], values["noise", ""]], axis=-1)
    predicted = model.predict(raw.reshape(-1, 3)).reshape(ITEMS, N_SYSTEMS)
    for item, system, score in ratings.select("item", "system", "score").iter_rows():
        assert score == predicted[int(item[1:]), "ABCD".index(system)]


def test_people_are_not_needed_and_neither_are_other_metrics() -> None:
    values = scores()
    bare = {key: value for key, value in values.items() if key[0] != "ann"}
    model = model_of("best")
    expected, _ = model.score(judged(values))
    assert model.score(judged(bare))[0].equals(expected)
    assert model.score(judged({("a", ""): values["a", ""]}))[0].equals(expected)
    single_output = {("a", ""): values["a", ""][:1, :1]}
    assert model.score(judged(single_output))[0].equals(expected[:1])


def test_a_metric_that_is_not_there_is_named() -> None:
    model = model_of("ridge")
    values = {("A1", "") if key == ("a", "") else key: value for key, value in scores().items()}
    with pytest.raises(
        InputError,
        match=(
            "small: the combined metric needs scores of 'a', which are missing; raters: "
            r"ann, A1, b, noise \(did you mean 'A1'\?\)"
        ),
    ):
        model.score(judged(values))
    with pytest.raises(InputError, match=r"'a', which are missing; raters: a, b, noise \(did you mean 'a'\?\)"):
        model.score(
            judged({("a", "style"): values["b", ""], ("b", ""): values["b", ""], ("noise", ""): normal_scores(1)})
        )


def test_missing_scores_are_filled_and_counted_and_outputs_without_any_left_out() -> None:
    values = scores()
    model = model_of("ridge")
    values["a", ""][2, 3] = np.nan
    for name in "ab":
        values[name, ""][5, 1] = np.nan
    values["noise", ""][5, 1] = np.nan
    ratings, notes = model.score(judged(values))
    notes_by_rule = {note.rule: note for note in notes}
    assert (notes_by_rule["missing-scores"].count, notes_by_rule["not-scored"].count) == (
        3,
        1,
    )  # two of noise, one of a
    assert (
        "3 scores are missing (noise 2 of 79, a 1 of 79) and are replaced by the training mean of the metric"
        in notes_by_rule["missing-scores"].message
    )
    assert ratings.filter(item="i005", system="B").is_empty()
    raw = np.array([[np.nan, values["b", ""][2, 3], values["noise", ""][2, 3]]])
    filled = raw.copy()
    column = model.columns[0]
    filled[0, 0] = column.low + column.fill * (column.high - column.low)
    assert ratings.filter(item="i002", system="D")["score"].item() == model.predict(raw).item()
    assert model.predict(filled).item() == pytest.approx(model.predict(raw).item(), abs=1e-12)
    _, of_trees = model_of("xgboost").score(judged(values))
    assert "1 scores are missing (a 1 of 79); the trees can handle missing scores" in next(
        note.message for note in of_trees if note.rule == "missing-scores"
    )


def test_scores_beyond_the_bounds_are_clipped_counted_and_named() -> None:
    values = scores()
    model = model_of("equal")
    bounds = {column.metric: (column.low, column.high) for column in model.columns}
    values["noise", ""][3, 3] = 1e9
    values["noise", ""][4, 3] = -1e9
    ratings, notes = model.score(judged(values))
    clipped = next(note for note in notes if note.rule == "clipped")
    beyond = int((np.abs(-values["a", ""] - 0.5) > 2.5).sum())
    assert clipped.count == 2 + beyond
    assert "noise" in clipped.message
    for (i, k), end in (((3, 3), 1), ((4, 3), 0)):
        raw = np.array([[-values["a", ""][i, k], values["b", ""][i, k], bounds["noise"][end]]])
        score = ratings.filter(item=f"i{i:03}", system="ABCD"[k])["score"].item()
        assert score == pytest.approx(model.predict(raw).item(), abs=1e-12)


def test_the_rater_is_called_as_asked_and_rates_the_target() -> None:
    values = {("ann", "style") if key[0] == "ann" else key: value for key, value in scores().items()}
    model = cu.combine(judged(values), method="best", repeats=1, resamples=0).model
    ratings, _ = model.score(judged(values), name="mine")
    assert ratings.select("rater", "aspect").unique().rows() == [("mine", "style")]


def test_the_loop_closes() -> None:
    rng = np.random.default_rng(0)
    values = {("ann", "style") if key[0] == "ann" else key: value for key, value in planted().items()}
    values["ann", "truth"] = np.round(2 * rng.normal(size=(ITEMS, N_SYSTEMS)))
    study = judged(values).describe(items=table_of_items(group=["x", "y"] * (ITEMS // 2)))
    model = cu.combine(study, target="style", method="ridge", repeats=1, resamples=0).model
    human = study.ratings.frame.select("item", "system", "rater", "aspect", "score")
    kinds = pl.when(pl.col("rater") == "ann").then(pl.lit("human")).otherwise(pl.lit("metric"))
    ratings, _ = model.score(study)
    joined = cu.read(human.with_columns(kind=kinds), ratings)
    options: dict[str, Any] = {"metrics": "combined", "aspect": "style"}
    assert cu.check(joined).problems.filter(severity="error").is_empty()
    metrics = cu.agreement(joined, resamples=20, aspect="style").metrics
    assert set(metrics["metric"]) == {"a", "b", "noise", "combined"}
    assert metrics.sort("kendall_item")["metric"][-1] == "combined"
    assert cu.favoritism(joined, resamples=20, **options).metrics["metric"].to_list() == ["combined"]
    assert set(cu.ranking(joined, resamples=20, **options).errors["metric"]) == {"combined"}
    assert cu.correction(joined, estimator="ppi", **options).to_frame().height > 0
    assert cu.protocol(joined, estimator="ppi", replications=2, **options).to_frame().height > 0
    together = cu.complementarity(joined, resamples=0)
    assert "combined:style" in set(together.raters["rater"])
    with pytest.raises(InputError, match="the selected metrics have no ratings for aspect 'truth'; metrics: combined"):
        cu.agreement(joined, resamples=0, metrics="combined", aspect="truth")
