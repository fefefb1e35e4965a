import numpy as np
import pytest

from custodes.stats.learning.resampled_ridge import resampled_ridge
from custodes.stats.learning.ridge import predict, ridge
from custodes.stats.ranks import mid_ranks


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("predicts_ranks", [False, True])
def test_fits_equal_those_of_copied_rows(missing: float, predicts_ranks: bool) -> None:
    rng = np.random.default_rng(2)
    groups = np.repeat(np.arange(12), 5)
    x = rng.random((60, 4))  # no score is three standard deviations from the mean, so none is clipped
    y = np.round(x @ [1.0, 2.0, 0.0, -1.0] + rng.normal(size=60), 1)
    x[:, 2] = 0.1 + (groups % 5 == 0)  # constant without the first inner fold of the data
    x[:, 3] = 0.7  # constant
    x[groups < 6, 1] += 1e-3  # differs between groups
    x[rng.random(x.shape) < missing] = np.nan
    draws = [np.arange(12), rng.choice(12, size=12), np.repeat([3, 8], 6)]  # the data, and resamples
    weights = np.array([np.bincount(drawn_groups, minlength=12) for drawn_groups in draws])
    fits = resampled_ridge(x, y, group_of_row=groups, weights=weights, predicts_ranks=predicts_ranks)
    for drawn_groups, (linear, slope) in zip(draws, fits, strict=True):
        copies = np.concatenate([np.flatnonzero(groups == group) for group in drawn_groups])
        target = mid_ranks(y[copies]) / len(copies) if predicts_ranks else y[copies]
        copied = ridge(x[copies], target, groups=groups[copies])
        np.testing.assert_allclose(linear.weights, copied.weights, atol=1e-9)
        np.testing.assert_allclose(linear.scaling.scale, copied.scaling.scale, rtol=1e-9)
        predictions = predict(copied, x[copies])
        np.testing.assert_allclose(slope, np.polyfit(predictions, y[copies], 1)[0], rtol=1e-6)


def test_outliers_are_clipped_at_the_limits_of_the_resample() -> None:
    rng = np.random.default_rng(3)
    x, groups = rng.random((50, 1)), np.repeat(np.arange(10), 5)
    x[0] = 1e6
    weights = np.array([[1] * 10, [0, *[1] * 8, 2]])  # with and without the outlier
    with_outlier, without_outlier = (
        linear.scaling
        for linear, _ in resampled_ridge(x, x[:, 0], group_of_row=groups, weights=weights, predicts_ranks=False)
    )
    assert with_outlier.high[0] == pytest.approx(x.mean() + 3 * x.std())
    assert without_outlier.high[0] < 3
