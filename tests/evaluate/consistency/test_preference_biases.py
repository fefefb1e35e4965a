"""Effects of length by brute force and against statsmodels, and which comparisons are used."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import statsmodels.api as sm

import custodes as cu
from custodes.data.study import Study
from custodes.stats import ABSENT
from custodes.stats.judging.length import length_bias

PAIRS = (("A", "B"), ("A", "C"), ("B", "C"))


def written(
    folder: Path, n_items: int, *, n_rated: int | None = None, own: str = "", seed: int = 0
) -> tuple[Study, np.ndarray, np.ndarray]:
    """Return a study of a judge and two annotators who prefer longer outputs, the log ratios of words plus one
    (items, pairs), and the preferences (raters, items, pairs)."""
    rng = np.random.default_rng(seed)
    words = rng.integers(0, 50, (n_items, 3))
    words[:, 2] = np.where(rng.random(n_items) < 0.2, words[:, 1], words[:, 2])
    length = np.log((1 + words[:, [0, 0, 1]]) / (1 + words[:, [1, 2, 2]]))
    quality = 0.7 * length + rng.normal(size=length.shape)
    views = quality + rng.normal(size=(3, *length.shape)) + np.array([0.8, 0, 0])[:, None, None] * length
    signs = np.where(np.abs(views) < 0.3, 0, np.sign(views)).astype(np.int8)
    if n_rated is not None:
        signs[1:, n_rated:] = ABSENT
    rows = [
        (f"i{i:03}", *PAIRS[k], rater, "metric" if rater == "j" else "human", int(signs[r, i, k]))
        for r, rater in enumerate(("j", "p", "q"))
        for i in range(n_items)
        for k in range(3)
        if signs[r, i, k] != ABSENT
    ]
    names = ["item", "system_a", "system_b", "rater", "kind", "preference"]
    pl.DataFrame(rows, schema=names, orient="row").write_csv(folder / "v.csv")
    texts = [
        {"item": f"i{i:03}", "outputs": {s: "w " * words[i, k] for k, s in enumerate("ABC")}} for i in range(n_items)
    ]
    (folder / "o.jsonl").write_text("\n".join(json.dumps(row) for row in texts))
    raters = pl.DataFrame({"rater": ["j"], "own_system": [own or None]}, schema_overrides={"own_system": pl.String})
    return cu.read(folder / "v.csv", folder / "o.jsonl", raters=raters if own else None), length, signs


@pytest.mark.parametrize("own", ["", "C"])
def test_rates_and_slopes_of_longer_outputs(tmp_path: Path, own: str) -> None:
    study, length, signs = written(tmp_path, 70, own=own)
    used = slice(0, 1) if own else slice(0, 3)  # pairs without the judge's own system
    result = cu.consistency(study, resamples=0)
    row = result.length.filter(rater="j").row(0, named=True)
    x, y = length[:, used].ravel(), signs[0][:, used].ravel()
    units = np.repeat(np.arange(70), length[:, used].shape[1])
    assert row["comparisons"] == x.size
    longer = np.sign(x) * y
    assert row["longer_win_rate"] == pytest.approx(((1 + longer) / 2)[x != 0].mean())
    decided = y != 0
    fit = sm.GLM((1 + y[decided]) / 2, x[decided, None], family=sm.families.Binomial()).fit(
        cov_type="cluster", cov_kwds={"groups": units[decided], "use_correction": False}
    )
    n_units = len(set(units[decided]))
    assert row["raw_effect"] == pytest.approx(fit.params[0])
    from scipy.stats import t

    half = t.ppf(0.975, n_units - 1) * fit.bse[0] * np.sqrt(n_units / (n_units - 1))
    assert (row["raw_effect_low"], row["raw_effect_high"]) == pytest.approx(
        (fit.params[0] - half, fit.params[0] + half)
    )
    expected = length_bias(
        y,
        np.stack([s[:, used].ravel() for s in signs[1:]]),
        x,
        strata=np.tile(np.arange(x.size // 70), 70),
        units=units,
        confidence=0.95,
    )
    finding = result.findings.filter(rater="j", kind="length").row(0, named=True)
    correlations = [expected.estimate, expected.low, expected.high]
    assert [finding[name] for name in ("estimate", "estimate_low", "estimate_high")] == pytest.approx(
        [100 * 2 / np.pi * np.arcsin(np.clip(float(value), -1, 1)) for value in correlations]
    )
    assert finding["p_value"] == pytest.approx(float(expected.p_value))
    # Of two annotators, each is compared with the other, who cannot show how noisy one verdict is.
    person = result.findings.filter(rater="p", kind="length").row(0, named=True)
    assert person["reason"].startswith("there is only one annotator")
    assert result.length.filter(rater="p")["comparisons"].item() == 210


@pytest.mark.parametrize(("n_rated", "few"), [(11, True), (12, False)])
def test_the_test_of_length_needs_twelve_items(tmp_path: Path, n_rated: int, *, few: bool) -> None:
    study, *_ = written(tmp_path, 40, n_rated=n_rated)
    (row,) = cu.consistency(study, resamples=0).findings.filter(rater="j", kind="length").to_dicts()
    assert (row["reason"] == "fewer than 12 items or clusters") is few


def test_texts_of_equal_length_have_no_row(tmp_path: Path) -> None:
    written(tmp_path, 30)
    texts = [{"item": f"i{i:03}", "outputs": dict.fromkeys("ABC", "two words")} for i in range(30)]
    (tmp_path / "o.jsonl").write_text("\n".join(json.dumps(row) for row in texts))
    result = cu.consistency(cu.read(tmp_path / "v.csv", tmp_path / "o.jsonl"), resamples=0)
    assert result.length.is_empty()
    assert "no-texts" not in {note.rule for note in result.notes}
