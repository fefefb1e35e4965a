from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from custodes.combining.normalise import KNOWN, LEAST_USED, Normalisation, contradictions, known_scales, normalisation

seeds = st.integers(0, 2**32 - 1)


def limits(
    scores: list[float], name: str, *, direction: float = 1.0, declared: tuple[float, float] | None = None
) -> tuple[float, float, str]:
    """Return the limits of one metric fitted to the scores before the direction is applied."""
    x = direction * np.array(scores)[:, np.newaxis]
    given_scales = {} if declared is None else {name: declared}
    by = normalisation(x, names=[name], directions=[direction], declared_bounds=given_scales)
    return by.low[0].item(), by.high[0].item(), by.source[0]


def test_a_declared_scale_counts_first() -> None:
    assert limits([10, 90], "BLEU", declared=(5, 95)) == (5, 95, "declared")
    assert limits([2, 3], "mine", declared=(1, 5)) == (1, 5, "declared")
    assert limits([2, 9], "mine", declared=(1, 5)) == (1, 5, "declared")  # scores outside are clipped
    assert limits([np.nan, np.nan], "mine", declared=(1, 5)) == (1, 5, "declared")


def test_a_declared_scale_is_turned_with_its_metric() -> None:
    low, high, source = limits([3, 20], "penalty", direction=-1, declared=(0.0, 25.0))
    assert (low, high, source) == (-25, 0, "declared")
    assert math.copysign(1, high) == 1  # 0, not -0


def test_a_declared_scale_of_another_rater_is_ignored() -> None:
    by = normalisation(np.array([[1.0], [2.0]]), names=["mine"], directions=[1], declared_bounds={"person": (1, 1)})
    assert by.source == ("fitted",)


def test_a_known_scale_counts_where_it_holds_all_scores() -> None:
    assert limits([10, 90], "BLEU") == (0, 100, "known")
    assert limits([0, 100.00000000000004], "BLEU-refA") == (0, 100, "known")
    assert limits([10, np.nan, 101], "BLEU") == (10, 101, "fitted")
    assert limits([-1, 50], "BLEU") == (-1, 50, "fitted")
    assert limits([0.5, 1.0000001], "BERTScore") == (0, 1, "known")


def test_a_metric_on_several_scales_takes_the_one_that_fits() -> None:
    assert limits([0.1, 0.4], "BLEU") == (0, 1, "known")
    assert limits([0.1, 0.4], "rouge-l-f1") == (0, 1, "known")
    assert limits([7.6, 84], "rouge-l-f1") == (0, 100, "known")
    assert limits([-0.2, 0.8], "BERTScore F1") == (-1, 1, "known")


def test_a_known_scale_that_is_hardly_used_is_not_meant() -> None:
    width = 25 * LEAST_USED
    assert limits([4, 4 + width], "MetricX-24", direction=-1) == (-25, 0, "known")
    assert limits([4, 4 + 0.99 * width], "MetricX-24", direction=-1) == (-4 - 0.99 * width, -4, "fitted")


def test_a_distance_is_known_turned_however_it_was_turned() -> None:
    assert limits([1, 20], "MetricX", direction=-1) == (-25, 0, "known")
    assert limits([-20, -1], "MetricX", direction=1) == (-25, 0, "known")
    assert limits([1, 20], "MetricX", direction=1) == (1, 20, "fitted")  # not negated, so not this scale


def test_without_a_scale_the_range_is_fitted() -> None:
    assert limits([3, np.nan, -2, 7], "mine") == (-2, 7, "fitted")
    assert limits([3, -2, 7], "mine", direction=-1) == (-7, 2, "fitted")
    assert limits([4, 80], "TER", direction=-1) == (-80, -4, "fitted")  # half of a scale does not match
    low, high, source = limits([np.nan, np.nan], "BLEU")
    assert np.isnan([low, high]).all()
    assert source == "fitted"
    by = normalisation(np.empty((0, 1)), names=["BLEU"], directions=[1], declared_bounds={})
    assert np.isnan(by.low).all()


def test_round_values_and_clipping() -> None:
    by = normalisation(
        np.array([[0.0, -25.0, 1.0], [50.0, 0.0, 3.0]]),
        names=["chrF++", "MetricX-23", "mine"],
        directions=np.array([1.0, -1.0, 1.0]),
        declared_bounds={},
    )
    assert by.source == ("known", "known", "fitted")
    new = np.array([[25.0, -5.0, 2.0], [150.0, -40.0, 0.0], [-math.inf, math.inf, 9.0], [100.0, 0.0, np.nan]])
    np.testing.assert_array_equal(by.apply(new), [[0.25, 0.8, 0.5], [1, 0, 0], [0, 1, 1], [1, 1, np.nan]])


def test_a_constant_metric_says_nothing_and_a_missing_one_stays_missing() -> None:
    x = np.array([[7.0, np.nan], [7.0, np.nan]])
    by = normalisation(x, names=["flat", "lost"], directions=[1, 1], declared_bounds={})
    new = np.array([[7.0, 1.0], [9.0, 2.0], [np.nan, np.nan]])
    np.testing.assert_array_equal(by.apply(new), [[0.5, np.nan], [0.5, np.nan], [np.nan, np.nan]])


def test_no_rows_and_no_metrics() -> None:
    by = normalisation(np.empty((3, 0)), names=[], directions=[], declared_bounds={})
    assert by.apply(np.empty((2, 0))).shape == (2, 0)
    scales = Normalisation(low=np.zeros(2), high=np.ones(2), source=("fitted", "fitted"))
    assert scales.apply(np.empty((0, 2))).shape == (0, 2)


def test_limits_are_read_only() -> None:
    by = Normalisation(low=np.zeros(1), high=np.ones(1), source=("fitted",))
    with pytest.raises(ValueError, match="read-only"):
        by.low[0] = 3


@given(seed=seeds)
def test_a_fitted_scale_does_not_depend_on_unit_or_offset(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, new = rng.normal(size=(2, 9, 3))
    x[rng.random(x.shape) < 0.2] = np.nan
    x[0] = 0.1
    names, directions = ["a", "b", "c"], [1, 1, 1]

    def scaled(x: np.ndarray, new: np.ndarray) -> np.ndarray:
        return normalisation(x, names=names, directions=directions, declared_bounds={}).apply(new)

    values = scaled(x, new)
    assert ((values >= 0) & (values <= 1)).all()
    unit, offset = 10 ** rng.uniform(-3, 3, 3), rng.normal(scale=10, size=3)
    np.testing.assert_allclose(scaled(x * unit + offset, new * unit + offset), values, atol=1e-7)
    np.testing.assert_allclose(scaled(-x, -new), 1 - values, atol=1e-12)
    order = rng.permutation(9)
    np.testing.assert_array_equal(scaled(x[order], new), values)


@given(seed=seeds)
def test_higher_stays_higher(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 25, (20, 1))
    direction = float(rng.choice([1, -1]))
    by = normalisation(direction * x, names=["MetricX"], directions=[direction], declared_bounds={"MetricX": (0, 25)})
    values = by.apply(direction * x)[:, 0]
    np.testing.assert_allclose(values, x[:, 0] / 25 if direction > 0 else 1 - x[:, 0] / 25, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("BLEU", "bleu"),
        ("BLEU Ξ§", "bleu"),
        ("BLEU4", "bleu[1-4]"),
        ("BLEURT-20-refA", "bleurt 20"),
        ("chrF++", "chrf*"),
        ("ROUGE-S* F-Score Ξ§", "rouge*"),
        ("Unbabel/wmt22-comet-da", "wmt22 comet*"),
        ("Unbabel/wmt23-cometkiwi-da-xl", "wmt2[23] cometkiwi*"),
        ("google/metricx-24-hybrid-xl-v2p6", "metricx*"),
        ("InfoLM-R-FisherRao ΞΔ", "infolm *fisherrao"),
    ],
)
def test_names_are_known_by_their_first_words(name: str, pattern: str) -> None:
    assert {scale.pattern for scale in known_scales(name)} == {pattern}


@pytest.mark.parametrize("name", ["", "MS-COMET-QE-22", "KG-BERTScore", "eBLEU", "Compression", "terms", "§"])
def test_other_names_are_unknown(name: str) -> None:
    assert known_scales(name) == ()


def test_the_table_is_in_order() -> None:
    assert len(set(KNOWN)) == len(KNOWN)
    for scale in KNOWN:
        assert scale.low < scale.high
        assert scale.pattern == scale.pattern.lower().strip()
        assert " ".join(scale.pattern.split()) == scale.pattern
        assert len({row.higher_is_better for row in KNOWN if row.pattern == scale.pattern}) == 1
        # A prefix of a name that matches a pattern finds the pattern, unless an earlier row is more specific.
        example = scale.pattern.replace("[1-4]", "4").replace("[23]", "3").replace("*", "x")
        assert known_scales(example)[0].pattern == scale.pattern


def test_the_known_direction_contradicts_the_given_one() -> None:
    names = ["BLEU", "MetricX", "TER", "BARTScore", "mine", "chrF"]
    assert contradictions(names, [-1, 1, 1, -1, -1, 1], x=np.empty((0, 6))) == ["BLEU", "MetricX", "TER", "BARTScore"]
    assert contradictions(names, np.array([1, -1, -1, 1, 1, 1]), x=np.empty((0, 6))) == []


def test_scores_tell_that_a_file_turned_a_metric_itself() -> None:
    # name, scores in the file, direction, contradiction
    cases = [
        ("MetricX", [1.0, 9.0], -1, False),
        ("MetricX", [1.0, 9.0], 1, True),
        ("MetricX", [-9.0, 0.2], 1, False),  # as WMT publishes it
        ("MetricX", [-9.0, 0.2], -1, True),  # negated twice
        ("MetricX", [40.0, 60.0], 1, True),  # on no known scale, nor negated
        ("BLEU", [-40.0, -3.0], -1, False),
        ("BARTScore", [-4.0, -3.0], 1, False),
        ("BARTScore", [4.0, 3.0], 1, True),
        ("BERTScore", [-0.5, -0.4], -1, True),  # inside the scale either way: not negated
        ("bleurt base", [-0.5, -0.4], 1, False),
        ("BLEU", [np.nan, np.nan], -1, True),
        ("mine", [1.0, 2.0], -1, False),
    ]
    names, directions = [case[0] for case in cases], np.array([case[2] for case in cases])
    x = np.array([case[1] for case in cases]).T * directions
    expected = [name for name, _, _, wrong in cases if wrong]
    assert contradictions(names, directions, x=x) == expected
    for j, (name, _, direction, wrong) in enumerate(cases):
        assert contradictions([name], [direction], x=x[:, [j]]) == [name] * wrong
