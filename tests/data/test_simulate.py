"""Planted parameters of simulated studies are recovered by independent computations."""

from __future__ import annotations

from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

from custodes.arguments import LARGEST
from custodes.data.comparisons import Comparisons
from custodes.data.outcome_counts import OutcomeCounts
from custodes.data.panel import Panel
from custodes.data.raters import Raters
from custodes.data.ratings import Ratings
from custodes.data.simulate import SimulatedMetric, Simulation, demo_simulation, demo_study, simulate
from custodes.errors import OptionError
from custodes.evaluate.rater_comparison import compare
from custodes.stats.favi_score import favi_score
from tests.messages import exactly

DEMO = demo_simulation()
N_ITEMS = 10_000


def preferences(simulation: Simulation, aspect: str) -> Comparisons:
    """Return the comparisons of the averaged annotators and of every metric."""
    return compare(simulation.study, aspect=aspect)[0].preferences


def scores_of(name: str, aspect: str = "") -> pl.DataFrame:
    return DEMO.study.ratings.frame.filter(rater=name, aspect=aspect).select("item", "system", name="score")


def test_the_demo_is_a_study_as_a_file_would_give_it() -> None:
    study = demo_study()
    assert study.fingerprint() == DEMO.study.fingerprint()
    assert study.name == "demo"
    assert study.humans == ("ann1", "ann2", "ann3")
    assert study.aspects == ("coherence", "fluency")
    ratings, notes = Ratings.make(study.ratings.frame)
    assert ratings.frame.equals(study.ratings.frame)
    assert not notes
    described, notes = Raters.infer(study.raters.kind).merge_side_table(study.raters.frame)
    assert described.frame.equals(study.raters.frame)
    assert not notes
    assert study.items.frame["group"].unique().sort().to_list() == ["dialogue", "news"]
    by_document = study.items.frame.group_by("cluster").agg(pl.len(), pl.col("group").n_unique())
    assert by_document.height == 16
    assert (by_document["len"] == 5).all()
    assert (by_document["group"] == 1).all()


def test_scores_lie_in_their_declared_scale() -> None:
    frame, raters = DEMO.study.ratings.frame, DEMO.study.raters
    human_scores = frame.filter(pl.col("rater").is_in(["ann1", "ann2", "ann3", "judge"]))["score"]
    assert sorted(human_scores.unique()) == [1, 2, 3, 4, 5]
    for rater, (low, high) in raters.bounds.items():
        assert frame.filter(rater=rater)["score"].is_between(low, high).all()
    assert raters.direction["distance"] == -1
    assert scores_of("distance")["name"].min() > 0  # type: ignore[operator]


def test_a_few_per_cent_of_peoples_ratings_and_a_tenth_of_one_metrics_items_are_missing() -> None:
    human_ratings = DEMO.study.ratings.frame.filter(pl.col("rater").str.starts_with("ann"))
    assert 0.01 < 1 - human_ratings.height / (3 * 80 * 6 * 2) < 0.05
    assert scores_of("distance")["item"].n_unique() == 72
    assert scores_of("learned")["item"].n_unique() == 80


@pytest.mark.parametrize("aspect", DEMO.study.aspects)
def test_the_favoured_system_has_the_largest_favi_score(aspect: str) -> None:
    counts = OutcomeCounts.from_comparisons(preferences(DEMO, aspect))
    k = counts.metrics.index("selfeval")
    favi = favi_score(counts.paired[:, k])
    mean = {
        system: np.mean(
            [
                phi if system == a else -phi
                for phi, a, b in zip(favi, counts.system_a, counts.system_b, strict=True)
                if system in (a, b)
            ]
        )
        for system in DEMO.study.systems
    }
    favoured = DEMO.study.systems[int(DEMO.truth.favours[k].argmax())]
    assert favoured == "Dogwood"
    assert max(mean, key=mean.__getitem__) == favoured
    assert mean[favoured] > 1


@cache
def large() -> Simulation:
    return simulate(
        items=N_ITEMS,
        aspects=("clear", "true"),
        quality={"A": (0.5, 0.0), "B": (0.0, 0.0), "C": (-0.2, 0.8)},
        annotators={"sure": 1.0, "good": 0.9, "poor": 0.5},
        metrics=[
            SimulatedMetric(name="plain", signal=0.8, noise=0.6),
            SimulatedMetric(name="biased", favours={"C": 0.7}, noise=0.5, by_aspect=True),
            SimulatedMetric(name="twin", copies="biased", favours={"A": 0.2}, noise=0.3, by_aspect=True),
            SimulatedMetric(name="far", noise=0.9, higher_is_better=False),
            SimulatedMetric(name="blind", signal=0.0),
            SimulatedMetric(name="coarse", levels=3),
        ],
        difficulty=0.6,
        spread=0.4,
        rng=1,
    )


# Signal, favours of A, B, C, variance of the difference of two scores given the qualities, whether rated by aspect.
VIEWS = {
    "plain": (0.8, (0, 0, 0), 0.8**2 * 0.4**2 / 2 + 0.6**2, False),
    "biased": (1.0, (0, 0, 0.7), 0.4**2 + 0.5**2, True),
    "twin": (1.0, (0.2, 0, 0.7), 0.4**2 + 0.5**2 + 0.3**2, True),
    "far": (1.0, (0, 0, 0), 0.4**2 / 2 + 0.9**2, False),
    "blind": (0.0, (0, 0, 0), 1.0, False),
}


@pytest.mark.parametrize("aspect", [0, 1])
def test_preferences_of_metrics_follow_the_normal_model(aspect: int) -> None:
    """The win rate is the normal cdf of the difference of levels over its standard deviation (scipy)."""
    truth, study = large().truth, large().study
    counts = OutcomeCounts.from_comparisons(preferences(large(), study.aspects[aspect]))
    first, second = np.array(list(combinations(range(3), 2))).T
    for name, (signal, favours, variance, by_aspect) in VIEWS.items():
        quality = truth.quality[:, aspect] if by_aspect else truth.quality.mean(axis=1)
        level = signal * quality + np.array(favours)
        expected = stats.norm.cdf((level[first] - level[second]) / np.sqrt(2 * variance))
        wins = counts.metric[:, study.metrics.index(name), 0] / N_ITEMS
        # Four standard errors of a proportion, for 30 proportions.
        np.testing.assert_allclose(wins, expected, atol=4 * 0.5 / np.sqrt(N_ITEMS))
    assert counts.metric[:, study.metrics.index("coarse"), 1].min() > 0
    better = (truth.latent[:, first, aspect] > truth.latent[:, second, aspect]).mean(axis=0)
    level = truth.quality[:, aspect]
    expected = stats.norm.cdf((level[first] - level[second]) / (np.sqrt(2) * 0.4))
    np.testing.assert_allclose(better, expected, atol=4 * 0.5 / np.sqrt(N_ITEMS))


def test_annotators_are_as_reliable_as_planted() -> None:
    truth, study = large().truth, large().study
    panel = Panel.from_study(
        study, raters=study.humans, aspect="clear", items=list(study.item_labels()), systems=study.systems
    )
    for k, reliability in enumerate((1.0, 0.9, 0.5)):
        correlation = np.corrcoef(panel.values[k, :, 1], truth.latent[:, 1, 0])[0, 1]
        # Rounding an impression of sd .72 / reliability to integers adds a variance of 1/12.
        variance = (0.6**2 + 0.4**2) / reliability**2
        assert correlation == pytest.approx(reliability * np.sqrt(variance / (variance + 1 / 12)), abs=0.02)


def test_items_share_their_document_and_systems_share_their_item() -> None:
    simulation = simulate(
        items=6_000,
        documents=1_500,
        quality={"A": (0.0,), "B": (0.0,)},
        annotators={"ann": 1.0},
        metrics=[],
        difficulty=1.0,
        spread=0.5,
        rng=3,
    )
    latent = simulation.truth.latent[:, :, 0]
    # Variances: document 1/2, item 1/2, item by system 1/4; correlations are the shared proportions of 5/4.
    in_item = np.corrcoef(latent[:, 0], latent[:, 1])[0, 1]
    assert in_item == pytest.approx(1 / 1.25, abs=0.03)
    in_document = np.corrcoef(latent[0::4, 0], latent[3::4, 1])[0, 1]
    assert in_document == pytest.approx(0.5 / 1.25, abs=0.08)
    across = np.corrcoef(latent[3:-1:4, 0], latent[4::4, 0])[0, 1]
    assert across == pytest.approx(0, abs=0.1)


def test_tables_of_items_and_raters() -> None:
    metrics = [
        SimulatedMetric(name="unit", favours={"A": 0.5}),
        SimulatedMetric(name="coarse", levels=3),
        SimulatedMetric(name="far", higher_is_better=False),
    ]
    quality = {"B": [1.0, 2.0], "A": [3.0, 4.0]}
    request: dict[str, Any] = {"quality": quality, "annotators": {"ann": 1.0}, "metrics": metrics, "rng": 0}
    simulation = simulate(items=10, documents=4, groups=("a", "b"), aspects=("x", "y"), **request)
    items = [f"item{k:02}" for k in range(1, 11)]
    expected = list(zip(items, (f"doc{k}" for k in "1112233344"), "aaabbaaabb", strict=True))
    assert simulation.study.items.frame.select("item", "cluster", "group").rows() == expected
    assert simulation.study.raters.frame.select(
        "rater", "kind", "higher_is_better", "low", "high", "person"
    ).rows() == [
        ("ann", "human", True, 1.0, 5.0, True),
        ("unit", "metric", True, 0.0, 1.0, False),
        ("coarse", "metric", True, 1.0, 3.0, False),
        ("far", "metric", False, 0.0, None, False),
    ]
    truth = simulation.truth
    assert truth.quality.tolist() == [[3, 4], [1, 2]]
    assert truth.favours.tolist() == [[0.5, 0], [0, 0], [0, 0]]
    assert truth.latent.shape == (10, 2, 2)
    plain = simulate(items=2, aspects="x", **request | {"quality": {"A": [0.0]}})
    assert plain.study.items.frame.select("item", "cluster", "group").rows() == [("item1", "", ""), ("item2", "", "")]
    assert plain.study.ratings.frame["aspect"].unique().sort().to_list() == ["", "x"]


def test_defaults_are_as_documented() -> None:
    request: dict[str, Any] = {"items": 4, "quality": {"A": [0.0]}, "annotators": {"ann": 0.5}, "rng": 0}
    metric = SimulatedMetric(
        name="m",
        signal=1.0,
        noise=1.0,
        favours={},
        copies="",
        levels=0,
        by_aspect=False,
        higher_is_better=True,
        missing=0.0,
    )
    assert metric == SimulatedMetric(name="m")
    plain = simulate(metrics=[metric], **request)
    request |= {"aspects": [""], "documents": None, "groups": [""], "difficulty": 0.5, "spread": 0.7, "missing": 0.0}
    same = simulate(metrics=[metric], name="simulated", **request)
    assert plain.study.fingerprint() == same.study.fingerprint()
    assert plain.study.name == "simulated"
    assert demo_simulation(items=80, rng=0).study.fingerprint() == DEMO.study.fingerprint()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(({"missing": value}, f"simulate: missing={value}: must lie between 0 and 1") for value in (-0.1, 1.1)),
        *(({name: -1}, f"simulate: {name}=-1: must lie between 0 and {LARGEST}") for name in ("noise", "levels")),
        ({"signal": np.nan}, "simulate: 'signal' of 'm' is nan; give a finite number"),
        ({"favours": {"A": np.inf}}, "simulate: 'A' of 'm' is inf; give a finite number"),
    ],
)
def test_impossible_metrics_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=exactly(message)):
        SimulatedMetric(name="m", **options)


def test_another_seed_gives_another_study_and_a_generator_goes_on() -> None:
    def scores(rng: int | np.random.Generator) -> list[float]:
        metric = SimulatedMetric(name="m")
        simulation = simulate(items=3, quality={"A": [0.0]}, annotators={"ann": 1.0}, metrics=[metric], rng=rng)
        return simulation.study.ratings.frame["score"].to_list()

    assert scores(0) == scores(0) == scores(np.random.default_rng(0))
    assert scores(0) != scores(1)
    shared = np.random.default_rng(0)
    assert scores(shared) != scores(shared)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"metrics": [SimulatedMetric(name="m", favours={"Bee": 1.0})]},
            "simulate: 'm' favours 'Bee': no such system; systems: A, Be (did you mean 'Be'?)",
        ),
        (
            {"metrics": [SimulatedMetric(name="m", copies="n")]},
            "simulate: 'm' copies 'n', which is not an earlier metric",
        ),
        (
            {"metrics": [SimulatedMetric(name="m"), SimulatedMetric(name="n", copies="m", by_aspect=True)]},
            "simulate: 'n' and 'm' must both have by_aspect true, or both false",
        ),
        (
            {"metrics": [SimulatedMetric(name="ann")]},
            "simulate: two annotators or metrics have the same name; rename one",
        ),
        (
            {"annotators": {"ann": 0.0}},
            ("simulate: reliability 0.0 of 'ann' is not allowed; give a number above 0 and at most 1"),
        ),
        ({"aspects": ("x", "y")}, "simulate: quality['A'] has 1 values for 2 aspects"),
        *(
            ({"documents": n}, f"simulate: {n} documents for 4 items; allowed: 1 to the number of items")
            for n in (0, 5)
        ),
        ({"items": 0}, f"simulate: items=0: must lie between 1 and {LARGEST}"),
        *(({"missing": value}, f"simulate: missing={value}: must lie between 0 and 1") for value in (-0.1, 1.1)),
        *(({name: -1}, f"simulate: {name}=-1: must lie between 0 and {LARGEST}") for name in ("difficulty", "spread")),
        *(({name: []}, f"simulate: {name} is empty; give at least one") for name in ("aspects", "groups")),
        (
            {"annotators": {"ann": 1.5}},
            "simulate: reliability 1.5 of 'ann' is not allowed; give a number above 0 and at most 1",
        ),
        ({"quality": {}}, "simulate: quality is empty; give at least one"),
        ({"quality": {"A": 0.0, "Be": float("nan")}}, "simulate: '' of quality['Be'] is nan; give a finite number"),
        ({"annotators": {}}, "simulate: there are no raters; give annotators or metrics"),
        (
            {"aspects": "-1", "items": 10**8, "quality": dict.fromkeys(map(str, range(999)), 0.0)},
            "items=100000000: needs about 7992 GB of memory, more than 80% of the 25 GB of this machine; give a "
            "smaller number",
        ),
    ],
)
def test_impossible_requests_are_refused(change: dict[str, Any], message: str) -> None:
    request = {"items": 4, "quality": {"A": (0.0,), "Be": (1.0,)}, "annotators": {"ann": 1.0}, "metrics": [], "rng": 0}
    with pytest.raises(OptionError, match=exactly(message)):
        simulate(**{**request, **change})
