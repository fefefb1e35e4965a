"""The library by itself against XGBoost's Python package."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import xgboost

from custodes.errors import MissingExtraError
from custodes.stats.learning import xgboost_library
from custodes.stats.learning.boost import SETTINGS, boosted
from custodes.stats.learning.xgboost_library import grown

OPTIONS = {"tree_method": "hist", "max_depth": 3, "subsample": 0.7, "seed": 5, "nthread": 1, "verbosity": 0}


def data(seed: int = 0, n: int = 200) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 7)).round(2)
    y = x[:, 0] + np.abs(x[:, 1]) + rng.normal(size=n)
    x[rng.random(x.shape) < 0.2] = np.nan
    return x, y


@pytest.mark.parametrize("seed", range(3))
def test_the_model_is_that_of_the_python_package_to_the_byte(seed: int) -> None:
    x, y = data(seed)
    matrix = xgboost.DMatrix(x, label=y, nthread=1)
    booster = xgboost.Booster(OPTIONS, [matrix])
    for number in range(20):
        booster.update(matrix, number)
    wanted = bytes(booster.save_raw("json"))
    assert grown(x, y, rounds=20, threads=1, options=OPTIONS) == wanted
    assert grown(np.asfortranarray(x), y, rounds=20, threads=1, options=OPTIONS) == wanted
    assert grown(np.repeat(x, 2, axis=0)[::2], np.repeat(y, 3)[::3], rounds=20, threads=1, options=OPTIONS) == wanted


def test_what_xgboost_refuses_is_an_error_with_its_words() -> None:
    with pytest.raises(RuntimeError, match="XGBoost: .*max_depth"):
        grown(*data(), rounds=1, threads=1, options={"max_depth": "deep"})


def test_a_library_that_lies_elsewhere_is_found_and_one_that_does_not_load_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    whole = boosted(*data(), seed=0, **SETTINGS)
    with monkeypatch.context() as patch:
        patch.setattr(xgboost_library, "_FILES", {sys.platform: "nowhere"})
        assert boosted(*data(), seed=0, **SETTINGS) == whole
    monkeypatch.setattr(xgboost_library, "_place", lambda: f"{tmp_path}/nothing.so")
    with pytest.raises(MissingExtraError, match="does not load"):
        boosted(*data(), seed=0, **SETTINGS)


def test_nothing_that_is_slow_to_import_comes_along() -> None:
    told = (
        "import sys, numpy as np\n"
        "from custodes.stats.learning.boost import SETTINGS, boosted\n"
        "boosted(np.ones((9, 2)), np.arange(9.0), seed=0, **SETTINGS)\n"
        "print(sorted({'xgboost', 'sklearn', 'pandas', 'scipy.stats'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True).stdout == "[]\n"
