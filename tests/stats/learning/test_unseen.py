"""Agreement on unseen outputs, with the same pairs in all cases: standard coefficients, brute force, and symmetries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from custodes.stats.arrays import Floats
from custodes.stats.learning.objective import OBJECTIVES, Objective
from custodes.stats.learning.unseen import Moves, moves

USUAL: dict[str, Callable[[Floats, Floats], Any]] = {
    "kendall": lambda x, y: stats.kendalltau(x, y).statistic,
    "spearman": lambda x, y: stats.spearmanr(x, y).statistic,
    "pearson": lambda x, y: stats.pearsonr(x, y).statistic,
}


def study(seed: int = 0, *, items: int = 12, systems: int = 4, m: int = 2) -> tuple[Floats, Floats]:
    """Return integer ratings, three of them missing, and related predictions (m, 1, items, systems)."""
    rng = np.random.default_rng(seed)
    human = np.round(2 * rng.normal(size=(items, systems)))
    predicted = np.round(human + rng.normal(size=(m, 1, items, systems)), 1)
    human[0, 1] = human[3, 0] = human[7, 2] = np.nan
    return human, predicted


def moves_of(kind: Objective, human: Floats, predicted: Floats, **design: Any) -> Moves:
    single = np.zeros(human.shape, dtype=np.intp)
    n = len(human)
    design_of = {"model": single, "within": single, "block": single, "units": np.arange(n), "n_units": n, **design}
    return moves(kind, human, predicted, **design_of)


@pytest.mark.parametrize("kind", USUAL)
def test_with_one_model_it_is_the_usual_coefficient_averaged_over_blocks(kind: Objective) -> None:
    human, predicted = study()
    fold = np.repeat(np.arange(12)[:, np.newaxis] % 3, 4, axis=1)
    result = moves_of(kind, human, predicted, within=fold, block=fold)
    for m in range(2):
        finite = np.isfinite(human)
        parts = [USUAL[kind](human[finite & (fold == f)], predicted[m, 0][finite & (fold == f)]) for f in range(3)]
        assert result.value[m] == pytest.approx(np.mean(parts), abs=1e-12)  # the origin: SciPy
    assert result.freedom.tolist() == [12 - 3, 3, 2]


def by_force(kind: Objective, human: Floats, predicted: Floats, model: Floats) -> float:
    """Return Daniels' coefficient over all ordered pairs, compared by the model of the first output."""
    above = norm_x = norm_y = 0.0
    cells = [tuple(cell) for cell in np.argwhere(np.isfinite(human))]
    for first in cells:
        prediction = predicted[model[first]]
        for second in cells:
            if kind == "accuracy" and first[0] != second[0]:
                continue
            x, y = human[first] - human[second], prediction[first] - prediction[second]
            if kind != "pearson":
                x, y = np.sign(x), np.sign(y)
            above += float(x * y > 0) if kind == "accuracy" else x * y
            norm_x += x * x
            norm_y += y * y
    return above / (norm_x if kind == "accuracy" else np.sqrt(norm_x * norm_y))


@pytest.mark.parametrize("kind", ["kendall", "pearson", "accuracy"])
def test_every_output_is_compared_by_the_model_that_has_not_seen_it(kind: Objective) -> None:
    human, _ = study()
    predicted = np.round(np.random.default_rng(1).normal(size=(1, 4, 12, 4)) + np.nan_to_num(human), 1)
    system = np.broadcast_to(np.arange(4), human.shape)
    result = moves_of(kind, human, predicted, model=system)
    assert result.value[0] == pytest.approx(by_force(kind, human, predicted[0], system), abs=1e-12)


@pytest.mark.parametrize("kind", OBJECTIVES)
def test_outputs_clusters_and_systems_may_come_in_any_order(kind: Objective) -> None:
    human, predicted = study()
    result = moves_of(kind, human, predicted)
    rng = np.random.default_rng(3)
    items, systems = rng.permutation(12), rng.permutation(4)
    permuted = moves_of(kind, human[items][:, systems], predicted[:, :, items][:, :, :, systems])
    np.testing.assert_allclose(permuted.value, result.value, atol=1e-12)
    np.testing.assert_allclose(permuted.units, result.units[items], atol=1e-12)
    np.testing.assert_allclose(permuted.systems, result.systems[systems], atol=1e-12)
    scaled = moves_of(kind, 3 * human + 1, 2 * predicted - 5)
    for name in ("value", "units", "systems", "outputs"):
        np.testing.assert_allclose(getattr(scaled, name), getattr(result, name), atol=1e-9)
    against = moves_of("kendall", human, -predicted)
    np.testing.assert_allclose(against.value, -moves_of("kendall", human, predicted).value, atol=1e-12)


@pytest.mark.parametrize("kind", ["kendall", "accuracy"])
def test_moves_are_the_variance_of_the_bootstrap_over_clusters(kind: Objective) -> None:
    rng = np.random.default_rng(0)
    human = np.round(2 * rng.normal(size=(60, 3)))
    predicted = human + 2 * rng.normal(size=(1, 1, 60, 3))
    result = moves_of(kind, human, predicted)
    drawn = []
    for _ in range(150):
        rows = rng.integers(60, size=60)
        prediction = moves_of(kind, human[rows], predicted[:, :, rows])
        drawn.append(prediction.value[0])
    assert np.sqrt((result.units**2).sum()) == pytest.approx(np.std(drawn), rel=0.15)  # 150 draws: 6 % error


def test_a_difference_from_itself_is_nothing_and_intervals_need_two_of_a_kind() -> None:
    human, predicted = study()
    result = moves_of("kendall", human, predicted)
    none = result.contrast(np.array([0]), np.array([0]))
    assert none.value[0] == 0
    assert [end[0] for end in none.interval("units", confidence=0.95)] == [0, 0]
    low, high = result.interval("blocks", confidence=0.95)
    assert np.isnan([low, high]).all()  # one block
    low, high = result.interval("units", confidence=0.95)
    wide = result.interval("units", confidence=0.99)
    interval = result.interval("units", confidence=0.95, folds=(5, 0))
    assert (wide[0] < low).all()
    assert (high < wide[1]).all()
    # 1 + 5 / 4 times the variance
    np.testing.assert_allclose((interval[1] - interval[0]) / (high - low), 1.5)
    systems = result.interval("systems", confidence=0.95)
    assert (systems[0] <= low).all()
    # Two blocks that agree by chance have no smaller error than their items.
    twice = np.concatenate([human, human]), np.concatenate([predicted, predicted], axis=2)
    block = np.repeat([[0], [1]], 12, axis=0) + np.zeros((24, 4), dtype=np.intp)
    doubled = moves_of("kendall", *twice, within=block, block=block)
    np.testing.assert_allclose(doubled.blocks, 0, atol=1e-12)
    np.testing.assert_allclose(doubled.interval("blocks", confidence=0.95), doubled.interval("units", confidence=0.95))


@pytest.mark.parametrize("folds", [(0, 0), (5, 0), (1, 2), (2, 4)])
def test_intervals_by_definition(folds: tuple[int, int]) -> None:
    rng, confidence = np.random.default_rng(0), 0.9
    value, units, systems, blocks = (rng.normal(size=(*shape, 3)) for shape in ((), (10,), (4,), (3,)))
    units[:, 1], blocks[:, 1], systems[:, 2] = 9 * units[:, 1], 0, 9 * systems[:, 2]
    outputs = rng.normal(size=(20, 3)) * [0.1, 1, 1]  # subtracted from the sum, unless this leaves too little
    result = Moves(value, units, systems, outputs, blocks, np.array([9, 3, 2]))
    items_factor, others_factor = (1 + n / (n - 1) if n > 1 else 1.0 for n in folds)
    variance = items_factor * (units**2).sum(axis=0), others_factor * (systems**2).sum(axis=0)
    both = np.maximum(sum(variance) - (outputs**2).sum(axis=0), np.max(variance, axis=0))
    freedom = sum(variance) ** 2 / (variance[0] ** 2 / 9 + variance[1] ** 2 / 3)
    half = {
        "units": stats.t.ppf(0.95, 9) * np.sqrt(variance[0]),
        "systems": stats.t.ppf(0.95, freedom) * np.sqrt(both),
        "blocks": stats.t.ppf(0.95, 2) * np.sqrt(others_factor * (blocks**2).sum(axis=0)),
    }
    for over, width in half.items():
        low, high = result.interval(over, confidence=confidence, folds=folds)  # type: ignore[arg-type]
        width = np.maximum(width, half["units"])
        np.testing.assert_allclose([low, high], [value - width, value + width])
        columns = result.columns("tau", over, confidence=confidence, folds=folds)  # type: ignore[arg-type]
        assert list(columns) == ["tau", "tau_low", "tau_high"]
        np.testing.assert_array_equal([*columns.values()], [value, low, high])
    one_system = result._replace(freedom=np.array([9, 0, 2])).interval("systems", confidence=confidence)
    assert np.isnan(one_system).all()
    mean = Moves.mean([result, Moves(*(3 * field for field in result))])
    for field, expected in zip(mean, result, strict=True):
        np.testing.assert_allclose(field, 2 * expected)
    difference = result.contrast(np.array([0, 2]), np.array([1]))
    np.testing.assert_allclose(difference.outputs, outputs[:, [0, 2]] - outputs[:, [1]])
    np.testing.assert_allclose(result.contrast(np.array([1])).blocks, blocks[:, [1]])
    assert difference.freedom.tolist() == [9, 3, 2]


def test_where_nothing_can_be_compared_it_is_undefined() -> None:
    human, predicted = study()
    predicted[1] = 7.0
    result = moves_of("kendall", human, predicted)
    assert np.isnan(result.value).tolist() == [False, True]
    alone = np.where(np.arange(4) == 0, human, np.nan)
    assert np.isnan(moves_of("accuracy", alone, predicted).value).all()  # one output per item
