"""Effects of length by brute force and against statsmodels, and which comparisons are used."""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import polars as pl
import pytest
import statsmodels.api as sm

import custodes as cu
from custodes.data.study import Study
from custodes.evaluate.consistency import preference_biases
from custodes.stats import ABSENT
from custodes.stats.judging.length import length_bias
from tests.evaluate.studies import study_of

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


def test_two_of_many_annotators_are_compared_by_their_place_in_a_comparison(tmp_path: Path) -> None:
    study, _, signs = written(tmp_path, 90)
    rng = np.random.default_rng(7)
    rows = study.preferences.frame.filter(rater="p").select("item", "system_a", "system_b")
    views = [signs[1], signs[2]]
    people = [
        (item, a, b, f"p{k:02}", "human", int(views[place][int(item[1:]), PAIRS.index((a, b))]))
        for item, a, b in rows.rows()
        for place, k in enumerate(rng.choice(30, 2, replace=False))
    ]
    names = ["item", "system_a", "system_b", "rater", "kind", "preference"]
    judge = study.preferences.frame.filter(rater="j").with_columns(kind=pl.lit("metric")).select(names)
    frame = pl.concat([judge, pl.DataFrame(people, schema=names, orient="row")], how="vertical_relaxed")
    frame.write_csv(tmp_path / "many.csv")
    result = cu.consistency(cu.read(tmp_path / "many.csv", tmp_path / "o.jsonl"), resamples=0)
    (finding,) = result.findings.filter(rater="j", kind="length").to_dicts()
    assert finding["reason"] == ""
    (pooled,) = cu.consistency(study, resamples=0).findings.filter(rater="j", kind="length").to_dicts()
    width = pooled["estimate_high"] - pooled["estimate_low"]
    assert finding["estimate"] == pytest.approx(pooled["estimate"], abs=0.3 * width)
    assert finding["estimate_high"] - finding["estimate_low"] == pytest.approx(width, rel=0.3)


def test_comparisons_of_many_pairs_say_nothing_about_length(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    names = [f"S{k:02}" for k in range(40)]
    rows = [
        (f"i{i}", names[2 * (i % 20)], names[2 * (i % 20) + 1], rater, kind, int(rng.choice([1, -1])))
        for i in range(60)
        for rater, kind in (("j", "metric"), ("p", "human"), ("q", "human"))
    ]
    columns = ["item", "system_a", "system_b", "rater", "kind", "preference"]
    pl.DataFrame(rows, schema=columns, orient="row").write_csv(tmp_path / "v.csv")
    texts = [{"item": f"i{i}", "outputs": {s: "w " * int(rng.integers(1, 30)) for s in names}} for i in range(60)]
    (tmp_path / "o.jsonl").write_text("\n".join(json.dumps(row) for row in texts))
    result = cu.consistency(cu.read(tmp_path / "v.csv", tmp_path / "o.jsonl"), resamples=0)
    (finding,) = result.findings.filter(rater="j", kind="length").to_dicts()
    assert finding["reason"].startswith("the test uses only pairs of systems with at least")
    assert finding["estimate"] is finding["p_value"] is None


def test_self_preference_is_the_partiality_to_the_own_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    placement_of = Mock(wraps=preference_biases.placement_of)
    monkeypatch.setattr(preference_biases, "placement_of", placement_of)
    rng = np.random.default_rng(2)
    quality = np.array([1.0, 0.6, 0.3, 0.0, -0.4, -0.8]) + rng.normal(size=(120, 6))
    scores = np.stack([*(quality + rng.normal(size=(3, 120, 6))), *(quality + rng.normal(size=(2, 120, 6)))])
    scores[3, :, 1] += 0.8
    raters = pl.DataFrame({"rater": ["m3", "m4", "ann"], "own_system": ["S[12]", "S5", "S0"]})
    study = study_of(scores, people=3).describe(raters=raters)
    findings = cu.consistency(study, resamples=0).findings.filter(kind="own systems")
    assert placement_of.call_count == 2  # once for each judge
    assert findings.select("rater", "factor").rows() == [("m3", "S1"), ("m3", "S2"), ("m4", "S5")]
    table = cu.favoritism(study, resamples=0).partiality
    for row in findings.to_dicts():
        expected = table.filter(metric=row["rater"], system=row["factor"]).row(0, named=True)
        if row["factor"] != "S2":  # the table also allows for the partiality to S1
            for name in ("", "_low", "_high"):
                assert row[f"estimate{name}"] == pytest.approx(expected[f"partiality{name}"])
            assert expected["p_value"] <= row["p_value"] + 1e-12 <= expected["p_adjusted"] + 2e-12
        assert row["reason"] == ""
    assert findings["finding"][0] == "prefers its own systems"
    chosen = cu.consistency(study, resamples=0, systems="S0,S1,S3,S4,S5").findings.filter(kind="own systems")
    assert chosen.select("rater", "factor").rows() == [("m3", "S1"), ("m4", "S5")]
