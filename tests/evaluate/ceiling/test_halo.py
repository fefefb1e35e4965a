"""Halo effects on studies with known truth: an annotator's other aspects against the aspects of other annotators."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.evaluate.ceiling.ceiling import Ceiling
from custodes.evaluate.ceiling.halo import _held_out_agreement, halo_columns
from custodes.evaluate.ceiling.prediction_target import target_of
from custodes.evaluate.rater_scores import rater_scores
from custodes.stats.ratios import mean_of_defined


def ratings(halo: float, *, annotators: int = 3, aspects: int = 3, items: int = 60) -> pl.DataFrame:
    """Return ratings as quality + liking, which the aspects of an annotator share, + noise; and one good metric."""
    rng = np.random.default_rng(4)
    systems = 5
    quality = rng.normal(size=(items, systems))
    frames = []
    cells = {"item": np.repeat(np.arange(items), systems), "system": np.tile([*"ABCDE"], items)}

    def table(name: str, kind: str, aspect: str, scores: np.ndarray) -> pl.DataFrame:
        labels = {"rater": pl.lit(name), "kind": pl.lit(kind), "aspect": pl.lit(aspect)}
        return pl.DataFrame({**cells, "score": scores.ravel()}).with_columns(**labels)

    for a in range(annotators):
        liking = halo * rng.normal(size=(items, systems))
        for k in range(aspects):
            scores = quality + liking + 0.7 * rng.normal(size=(items, systems))
            frames.append(table(f"ann{a}", "human", f"aspect{k}", scores))
    frames.append(table("metric", "metric", "", quality + 0.5 * rng.normal(size=(items, systems))))
    return pl.concat(frames)


def halo_ceiling(table: pl.DataFrame, **options: Any) -> Ceiling:
    return cu.ceiling(cu.read(table), model="ridge", steps=1, **{"resamples": 0, **options})


def texts_of(result: Ceiling, rule: str) -> list[str]:
    return [note.message for note in result.notes if note.rule == rule]


def sources(result: Ceiling) -> dict[str, float]:
    means = result.halo.group_by("source").agg(pl.col("kendall").mean())
    return dict(means.iter_rows())


@pytest.fixture(scope="module")
def strong() -> Ceiling:
    return halo_ceiling(ratings(1.5), resamples=200)


def test_without_halo_other_annotators_know_as_much() -> None:
    tau = sources(halo_ceiling(ratings(0.0)))
    # The mean of two other annotators has less noise in each aspect than a single annotator.
    assert tau["other annotators"] > tau["same annotator"] - 0.01
    assert tau["metrics"] > 0.4


def test_halo_is_what_only_the_same_annotator_knows(strong: Ceiling) -> None:
    tau = sources(strong)
    assert tau["same annotator"] > tau["other annotators"] + 0.25
    # The metric predicts the quality better than other annotators do.
    assert tau["metrics"] > tau["other annotators"] - 0.05


@pytest.mark.parametrize("design", [{"annotators": 1}, {"aspects": 1}])
def test_nothing_to_tell_apart_gives_no_rows(design: dict[str, int]) -> None:
    result = halo_ceiling(ratings(0.5, items=20, **design))
    assert result.halo.is_empty()
    assert result.halo.columns == [
        "target",
        "source",
        *(f"{name}{end}" for name in ("kendall", "lead") for end in ("", "_low", "_high")),
    ]


def test_the_lead_over_other_annotators_is_paired(strong: Ceiling) -> None:
    halo = strong.halo.filter(target="aspect0")
    tau, lead = (dict(halo.select("source", name).iter_rows()) for name in ("kendall", "lead"))
    assert lead["other annotators"] is None
    assert lead["same annotator"] == pytest.approx(tau["same annotator"] - tau["other annotators"])
    assert lead["metrics"] == pytest.approx(tau["metrics"] - tau["other annotators"])
    same_annotator = halo.row(by_predicate=pl.col("source") == "same annotator", named=True)
    assert 0 < same_annotator["lead_low"] < same_annotator["lead"] < same_annotator["lead_high"]
    others = halo.row(by_predicate=pl.col("source") == "other annotators", named=True)
    assert others["lead_low"] is others["lead_high"] is None
    metrics = halo.row(by_predicate=pl.col("source") == "metrics", named=True)
    # Both sources predict the same ratings, so their difference varies less than if they were independent.
    width = np.hypot(*(row["kendall_high"] - row["kendall_low"] for row in (metrics, others)))
    assert metrics["lead_high"] - metrics["lead_low"] < 0.95 * width


def test_annotators_with_too_little_are_named_and_have_no_part() -> None:
    table = ratings(1.0, aspects=2, items=30)
    whole = halo_ceiling(table)
    assert not texts_of(whole, "halo-annotators")
    assert not texts_of(whole, "one-annotator")
    # 'ann3' rated one item; 'ann4' rated no item that others rated.
    few = table.filter(rater="ann0").filter(pl.col("item") == 7).with_columns(rater=pl.lit("ann3"))
    strange = table.filter(rater="ann0").with_columns(rater=pl.lit("ann4"), item=pl.col("item") + 100)
    result = halo_ceiling(pl.concat([table, few, strange]), resamples=20)
    assert texts_of(result, "halo-annotators") == [
        "the halo table excludes ann3, ann4, who share too few outputs with other annotators"
    ]
    assert result.halo.height == 6
    assert result.halo["kendall"].null_count() == 0


def test_annotators_weigh_by_what_they_rated() -> None:
    table = ratings(1.0)
    few = table.filter((pl.col("rater") != "ann0") | (pl.col("item") < 30))
    halo = halo_ceiling(few).halo.filter(target="aspect0")["kendall"].to_numpy()
    who = rater_scores(cu.read(few))
    target = target_of(who, 0, "item", 0, np.random.default_rng(0))
    taus = []
    for person in range(3):
        rest = np.delete(np.arange(3), person)
        other_means = np.stack([mean_of_defined(who.annotators[k, rest], axis=0) for k in (1, 2)])
        parts = (who.annotators[1:, [person]].swapaxes(0, 1), other_means[np.newaxis])
        metrics = who.scores[target.columns["metrics"]]
        taus.append(_held_out_agreement(target, who.annotators[0, [person]], (*parts, metrics))[0, 0])
    columns, _ = halo_columns(target, 0.95)
    np.testing.assert_allclose(columns["kendall"], np.average(taus, axis=0, weights=[150, 300, 300]))
    assert halo == pytest.approx(columns["kendall"], abs=0.05)  # other folds


def test_sparse_designs_and_annotators_who_share_nothing() -> None:
    table = ratings(1.0, annotators=4, aspects=2)
    # Two of the four annotators in turn rate each item; warnings are errors here.
    pair = pl.col("item") % 2 == pl.col("rater").is_in(["ann2", "ann3"]).cast(int)
    result = halo_ceiling(table.filter((pl.col("kind") == "metric") | pair), resamples=20)
    assert result.halo.height == 6
    assert result.halo["kendall_low"].null_count() == 0
    rated_by = pl.col("item") % 4 == pl.col("rater").replace({"metric": "0"}).str.tail(1).cast(int)
    separate = halo_ceiling(table.filter((pl.col("kind") == "metric") | rated_by, pl.col("item") < 20), resamples=20)
    assert separate.halo.is_empty()
    assert "ann0, ann1, ann2, ann3" in texts_of(separate, "halo-annotators")[0]
    assert texts_of(separate, "no-split-half")


def test_one_annotator_is_noted() -> None:
    messages = texts_of(halo_ceiling(ratings(1.0, annotators=1, aspects=2, items=20)), "one-annotator")
    assert messages == [
        (
            "only one annotator gave ratings, so "
            "agreement between annotators is unknown (no rows in the tables annotators and halo)"
        )
    ]
    table = ratings(1.0, aspects=2, items=20).filter((pl.col("rater") == "ann0") | (pl.col("aspect") != "aspect1"))
    messages = texts_of(halo_ceiling(table), "one-annotator")
    assert messages == [
        (
            "only one annotator gave ratings of 'aspect1', so "
            "agreement between annotators is unknown (no rows in the tables annotators and halo)"
        )
    ]


def test_a_prediction_beyond_agreement_is_noted() -> None:
    # The annotators share only individual halos: aspects predict each other, and annotators do not agree.
    rng = np.random.default_rng(1)
    frames = []
    for a, sign in enumerate((1, -1)):
        for aspect in ("x", "y"):
            scores = sign * np.repeat(rng.normal(size=80), 4) if a else np.repeat(rng.normal(size=80), 4)
            frames.append(
                pl.DataFrame(
                    {"item": np.repeat(np.arange(80), 4), "system": [*"ABCD"] * 80, "score": scores}
                ).with_columns(rater=pl.lit(f"ann{a}"), kind=pl.lit("human"), aspect=pl.lit(aspect))
            )
    human = pl.concat(frames)
    mean = human.group_by("item", "system", "aspect", maintain_order=True).agg(pl.col("score").mean())
    metric = (
        mean.filter(aspect="x")
        .drop("aspect")
        .with_columns(rater=pl.lit("knows"), kind=pl.lit("metric"), aspect=pl.lit(""))
    )
    result = halo_ceiling(pl.concat([human, metric.select(human.columns)]), resamples=50)
    assert [note.message for note in result.notes if note.rule == "attainable-exceeded"] == [
        "for x, predictions exceed the bound given by the agreement between annotators. The errors of annotators are "
        "not independent, or the ratings of one annotator come from several persons, so 'attainable' is not a bound"
    ]
