"""Which judges are in a committee, and what their verdicts cost."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.stats.intervals import SHARE, student_interval

N = 60


def verdicts_of(rater: str, signs: np.ndarray, *, order: str = "", kind: str = "metric") -> pl.DataFrame:
    frame = pl.DataFrame({"item": range(len(signs)), "system_a": "A", "system_b": "B", "preference": signs})
    return frame.with_columns(rater=pl.lit(rater), kind=pl.lit(kind), order=pl.lit(order))


def panels_of(*frames: pl.DataFrame, **options: object) -> dict[str, dict]:
    study = cu.read(pl.concat(frames), **options)
    return {row["panel"]: row for row in cu.consistency(study, resamples=0).panels.to_dicts()}


HUMAN = np.array([1, -1] * (N // 2))


@pytest.mark.parametrize(("n_rated", "included"), [(30, True), (29, False)])
def test_a_judge_needs_half_of_the_largest_number_of_comparisons(n_rated: int, *, included: bool) -> None:
    people = verdicts_of("ann", HUMAN, kind="human")
    full, also_full, part = (verdicts_of(name, HUMAN) for name in "abc")
    panels = panels_of(people, full, also_full, part.head(n_rated))
    assert ("c" in panels) is included
    assert {row["comparisons"] for row in panels.values()} == {30 if included else N}
    assert panels["all"]["judges"] == (["a", "b", "c"] if included else ["a", "b"])


@pytest.mark.parametrize(("n_items", "shown"), [(12, True), (11, False)])
def test_a_committee_needs_twelve_shared_clusters(n_items: int, *, shown: bool) -> None:
    people = verdicts_of("ann", HUMAN[:n_items], kind="human")
    judges = [verdicts_of(name, HUMAN) for name in "ab"]
    assert bool(panels_of(people, *judges)) is shown
    items = pl.DataFrame({"item": range(N), "cluster": [f"c{k % n_items}" for k in range(N)]})
    assert bool(panels_of(verdicts_of("ann", HUMAN, kind="human"), *judges, items=items)) is shown


def test_intervals_of_accuracy_and_gain_use_the_effective_number_of_clusters() -> None:
    rng = np.random.default_rng(3)
    judge, other = (np.where(rng.random(N) < share, HUMAN, -HUMAN) for share in (0.7, 0.6))
    items = pl.DataFrame({"item": range(N), "cluster": [f"c{min(k, 19)}" for k in range(N)]})
    frames = [verdicts_of("ann", HUMAN, kind="human"), verdicts_of("a", judge), verdicts_of("b", other)]
    study = cu.read(pl.concat(frames), items=items)
    row = cu.consistency(study, resamples=2000).panels.filter(panel="a").row(0, named=True)
    sizes = np.bincount(np.minimum(np.arange(N), 19))
    sums = np.bincount(np.minimum(np.arange(N), 19), weights=judge == HUMAN)
    weights = rng.multinomial(20, np.full(20, 1 / 20), size=8000)
    draws = np.append((judge == HUMAN).mean(), (weights @ sums) / (weights @ sizes))
    n_effective = sizes.sum() ** 2 / np.square(sizes).sum()
    low, high = student_interval(draws, confidence=0.95, n_units=n_effective, bounds=SHARE)
    assert (row["accuracy_low"], row["accuracy_high"]) == pytest.approx((float(low), float(high)), abs=0.02)
    other_row = cu.consistency(study, resamples=200).panels.filter(panel="b").row(0, named=True)
    assert other_row["gain_low"] < other_row["gain"] < other_row["gain_high"]
