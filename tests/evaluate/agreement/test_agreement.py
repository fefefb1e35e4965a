from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import custodes as cu
from custodes.data.raters import Raters
from custodes.data.ratings import Ratings
from custodes.data.simulate import SimulatedMetric, simulate
from custodes.data.study import Study
from custodes.errors import InputError, OptionError
from custodes.evaluate.agreement.agreement import COMPARED, agreement
from custodes.evaluate.agreement.statistics import STATISTICS
from tests.evaluate.studies import grid, rated, scores_of, study_of, verdicts
from tests.messages import exactly


def test_intervals_hold_most_points_and_a_perfect_metric_is_at_the_top() -> None:
    scores = scores_of(1)
    scores[1] = scores[0]
    result = agreement(study_of(scores), resamples=200)
    row = result.metrics.row(0, named=True)
    for name in ("pearson_global", "kendall_item"):
        assert (row[name], row[f"{name}_low"], row[f"{name}_high"]) == pytest.approx((1, 1, 1))
    for name in ("sample_accuracy", "acc_eq"):  # A proportion of 1 still has an interval.
        assert (row[name], row[f"{name}_high"]) == pytest.approx((1, 1))
        assert 0.5 < row[f"{name}_low"] < 1
    second = result.metrics.row(1, named=True)
    for name in ("sample_accuracy", "pearson_global", "kendall_item", "spearman_global"):
        assert second[f"{name}_low"] < second[name] < second[f"{name}_high"]
    by_statistic = dict(result.comparisons.select("statistic", "p_adjusted").rows())
    assert set(by_statistic) == set(COMPARED)
    assert by_statistic["pearson_global"] < 0.05
    difference = result.comparisons.filter(pl.col("statistic") == "pearson_global").row(0, named=True)
    assert difference["difference"] == pytest.approx(1 - second["pearson_global"])
    assert difference["difference_low"] < difference["difference"] < difference["difference_high"]


def test_undefined_is_null_with_a_note() -> None:
    scores = scores_of(4)
    scores[1] = 7.0
    result = agreement(study_of(scores), resamples=20)
    row = result.metrics.row(0, named=True)
    assert row["pearson_global"] is None
    assert row["kendall_system_low"] is None
    assert row["sample_accuracy"] is not None
    assert any(note.rule == "constant-metric" and "m1" in note.message for note in result.notes)


def test_one_item_answers_without_intervals() -> None:
    result = agreement(study_of(scores_of(5, items=1)), resamples=50)
    row = result.metrics.row(0, named=True)
    assert row["sample_accuracy"] is not None
    assert row["sample_accuracy_low"] is None
    assert any(note.rule == "one-item" for note in result.notes)


def test_bad_options() -> None:
    study = study_of(scores_of(7))
    with pytest.raises(OptionError, match="did you mean 'acc_eq'"):
        agreement(study, compare_by=("acc_q",))


def test_one_system_has_statistics_over_all_outputs() -> None:
    scores = scores_of(7)
    result = agreement(study_of(scores), systems="S0", resamples=50)
    for row, metric_scores in zip(result.metrics.sort("metric").iter_rows(named=True), scores[1:], strict=True):
        assert row["pearson_global"] == pytest.approx(np.corrcoef(scores[0, :, 0], metric_scores[:, 0])[0, 1])
        assert row["pearson_global_low"] < row["pearson_global"] < row["pearson_global_high"]
        assert (row["n"], row["sample_accuracy"], row["spa"]) == (scores.shape[1], None, None)
    assert set(result.standing["statistic"]) == {"pearson_global"}
    assert set(result.comparisons["n"]) == {scores.shape[1]}
    assert any(note.rule == "one-system" for note in result.notes)
    no_overlap = scores.copy()
    no_overlap[0, ::2, 0] = no_overlap[1:, 1::2, 0] = np.nan
    with pytest.raises(
        InputError,
        match=exactly(
            "annotators and metrics have no output with scores in common; use the same item labels in both files"
        ),
    ):
        agreement(study_of(no_overlap), systems="S0")
    with_slices = agreement(cu.read("demo"), by="group", systems=cu.read("demo").systems[0], resamples=0)
    assert not with_slices.slices.height
    messages = [note.message for note in with_slices.notes if note.rule == "slices-not-compared"]
    assert messages == [
        f"slices are not compared for aspect '{aspect}': there is no comparison of two systems"
        for aspect in ("coherence", "fluency")
    ]


def test_a_column_of_outputs_read_as_systems_is_one_line() -> None:
    table = pl.DataFrame({"item": np.repeat(range(101), 5), "system": range(505), "human": 1.0, "m": 1.0})
    with pytest.raises(
        InputError,
        match=exactly(
            "table: 505 systems, but agreement compares at most 500; if the outputs have no named systems, "
            "leave out the column of systems"
        ),
    ):
        agreement(cu.read(table))


def test_scores_of_captions_by_three_annotators() -> None:
    """One output per item, ratings from 1 to 4 and a metric from 0 to 1: no labels of the metric, no replacement."""
    rng = np.random.default_rng(0)
    quality = rng.normal(size=60)
    ratings = np.clip(np.rint(2.5 + quality + 0.4 * rng.normal(size=(3, 60))), 1, 4)
    table = pl.DataFrame(
        {"item": range(60), **{f"human_{k}": ratings[k] for k in range(3)}, "clip": 0.5 + 0.1 * quality}
    )
    study = cu.read(table, columns={"score": ["human:{rater:human_*}", "metric:{rater}"]})
    result = agreement(study, resamples=50)
    assert result.metrics["pearson_global"].item() == pytest.approx(np.corrcoef(ratings.mean(axis=0), quality)[0, 1])
    assert cu.rates(study).replacement.is_empty()
    verdict = cu.verdict(study)
    assert verdict.verdict["kind"].to_list() == ["rates"] * 4
    assert verdict.verdict["text"].str.ends_with(" (60 human labels).").all()
    (note,) = verdict.notes
    assert (note.rule, note.message) == (
        "scores-and-labels",
        "the metrics are not evaluated here, because the metrics give scores and the annotators give more than two "
        "labels. Use agreement for the correlations of scores and labels",
    )


def test_too_few_clusters_have_no_intervals_and_are_noted() -> None:
    few, enough = (agreement(study_of(scores_of(0, items=items)), resamples=20) for items in (3, 4))
    (note,) = (note for note in few.notes if note.rule == "few-clusters")
    assert note.message.startswith("there are only 3 clusters of items, so there are no intervals")
    assert note.count == 3
    for name, statistic in STATISTICS.items():
        assert few.metrics[f"{name}_low"].is_null().all(), name
        assert few.metrics[name].equals(agreement(study_of(scores_of(0, items=3)), resamples=0).metrics[name])
        assert enough.metrics[f"{name}_low"].is_not_null().any() or statistic.population, name
    for result in (enough, agreement(study_of(scores_of(0, items=3)), resamples=0)):
        assert "few-clusters" not in [note.rule for note in result.notes]


def test_no_decision_depends_on_the_seed() -> None:
    """Twelve metrics of nearly the same quality: many adjusted p-values are close to the level."""
    study = simulate(
        items=60,
        quality={"A": [0.0], "B": [0.2], "C": [0.4], "D": [0.6], "E": [0.8]},
        annotators={"ann": 0.8},
        metrics=[SimulatedMetric(name=f"m{k}", noise=1.0 + 0.1 * k) for k in range(12)],
        rng=0,
    ).study
    results = [agreement(study, rng=seed) for seed in range(3)]
    for second in results[1:]:
        for name in ("p_adjusted", "difference_low", "note"):
            assert second.comparisons[name].equals(results[0].comparisons[name])
        for name in ("p_chance", "side", "group", "may_be_best"):
            assert second.standing[name].equals(results[0].standing[name])


def test_metrics_with_system_scores_in_the_file_are_counted() -> None:
    names = ("ann", "m1", "m2", "m3")
    scores = scores_of(0, raters=4, items=5, systems=3)
    rows = [row for name, values in zip(names, scores, strict=True) for row in grid(name, "", values.tolist())]
    rows += [("", f"S{k}", metric, "", float(k)) for k in range(3) for metric in ("m1", "m3")]
    kinds = {name: "human" if name == "ann" else "metric" for name in names}
    result = agreement(rated(rows, kinds), resamples=0)
    assert [note.count for note in result.notes if note.rule == "system-scores-given"] == [2]


def test_common_comparisons_of_verdicts_are_those_of_both_metrics() -> None:
    items = {"h": range(10), "m1": range(6), "m2": range(3, 10)}
    rows = [(f"i{k}", "A", "B", rater, None, (-1) ** (k % 3)) for rater, values in items.items() for k in values]
    result = agreement(verdicts(rows), resamples=0)
    assert result.metrics["n"].to_list() == [6, 7]
    assert set(result.comparisons["n"]) == {3}


ASPECTS = ("style", "truth", "wit")
KINDS = {"ann": "human", "m1": "metric", "m2": "metric", "own": "metric", "part": "metric", "late": "metric"}


def rows(*, fewer: str) -> Iterator[tuple[str, str, str, str, float]]:
    """Return ratings of metrics with no, one or several aspects and with missing outputs; annotators differ in
    aspects."""
    rng = np.random.default_rng(3)
    for i in range(15):
        for system in "ABC":
            quality = float(rng.normal())
            for rater in ("m1", "m2", "part"):
                if rater != "part" or i > 4:
                    yield f"i{i}", system, rater, "", round(quality + float(rng.normal()), 1)
            for aspect in ASPECTS:
                yield f"i{i}", system, "own", aspect, round(quality + float(rng.normal()), 1)
                if i < 13 or aspect != fewer:
                    yield f"i{i}", system, "ann", aspect, float(np.rint(quality + rng.normal()))
            yield f"i{i}", system, "late", "truth", quality


def study(fewer: str = "") -> Study:
    frame = pl.DataFrame(list(rows(fewer=fewer)), schema=["item", "system", "rater", "aspect", "score"], orient="row")
    return Study(ratings=Ratings.make(frame)[0], raters=Raters.infer(KINDS))


@pytest.mark.parametrize("fewer", ["", "truth"])
def test_an_aspect_alone_gets_the_same_numbers(fewer: str) -> None:
    whole = cu.agreement(study(fewer), resamples=60)
    for aspect in ASPECTS:
        alone = cu.agreement(study(fewer), resamples=60, aspect=aspect)
        for name in ("metrics", "comparisons", "standing"):
            expected = getattr(whole, name).filter(pl.col("aspect") == aspect)
            assert_frame_equal(getattr(alone, name), expected, rel_tol=1e-9, abs_tol=1e-12)


def test_a_metric_of_the_first_aspect_alone() -> None:
    columns = ["item", "system", "rater", "aspect", "score"]
    frame = pl.DataFrame(list(rows(fewer="")), schema=columns, orient="row")
    frame = frame.with_columns(aspect=pl.when(pl.col("rater") == "late").then(pl.lit("style")).otherwise("aspect"))
    whole = Study(ratings=Ratings.make(frame)[0], raters=Raters.infer(KINDS))
    for aspect in ("style", "truth"):
        expected = cu.agreement(whole, resamples=20).metrics.filter(pl.col("aspect") == aspect)
        alone = cu.agreement(whole, resamples=20, aspect=aspect).metrics
        assert ("late" in alone["metric"]) == (aspect == "style")
        assert_frame_equal(alone, expected, rel_tol=1e-9, abs_tol=1e-12)
