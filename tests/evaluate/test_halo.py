"""Halo: an annotator's own aspects against the aspects of others, on studies with known truth."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import custodes as cu


def study(halo: float, *, annotators: int = 3, aspects: int = 3) -> cu.Study:
    """Quality + an annotator's liking of the output, shared by their aspects + noise; one good metric."""
    rng = np.random.default_rng(4)
    items, systems = 60, 5
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
    return cu.read(pl.concat(frames))


def sources(halo: float) -> dict[str, float]:
    made = cu.ceiling(study(halo), model="ridge", resamples=0, steps=1).halo
    means = made.group_by("source").agg(pl.col("kendall").mean())
    return dict(means.iter_rows())


def test_without_halo_other_annotators_know_as_much() -> None:
    tau = sources(0.0)
    # Two others' mean of each aspect is less noisy than one's own.
    assert tau["other annotators"] > tau["same annotator"] - 0.01
    assert tau["metrics"] > 0.4


def test_halo_is_what_only_the_same_annotator_knows() -> None:
    tau = sources(1.5)
    assert tau["same annotator"] > tau["other annotators"] + 0.25
    # The metric knows the quality better than other annotators do.
    assert tau["metrics"] > tau["other annotators"] - 0.05


@pytest.mark.parametrize("design", [{"annotators": 1}, {"aspects": 1}])
def test_nothing_to_tell_apart_gives_no_rows(design: dict[str, int]) -> None:
    made = cu.ceiling(study(0.5, **design), model="ridge", resamples=0, steps=1)
    assert made.halo.is_empty()
    assert made.halo.columns == ["target", "source", "kendall", "low", "high"]


def test_a_prediction_beyond_agreement_is_noted() -> None:
    # Annotators who share nothing but each one's own halo: aspects predict each other, annotators do not agree.
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
    people = pl.concat(frames)
    mean = people.group_by("item", "system", "aspect", maintain_order=True).agg(pl.col("score").mean())
    metric = (
        mean.filter(aspect="x")
        .drop("aspect")
        .with_columns(rater=pl.lit("knows"), kind=pl.lit("metric"), aspect=pl.lit(""))
    )
    made = cu.ceiling(cu.read(pl.concat([people, metric.select(people.columns)])), model="ridge", resamples=50, steps=1)
    assert "attainable-exceeded" in {note.rule for note in made.notes}
