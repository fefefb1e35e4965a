"""Rates and tests of failures by brute force."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.data.study import Study
from custodes.stats.judging.bias_tests import uneven_p

PAIRS = (("A", "B"), ("A", "C"), ("B", "C"))


def failing(folder: Path, chance_of: str, seed: int = 0, n_items: int = 80) -> tuple[Study, pl.DataFrame]:
    """Return verdicts of a judge that fails depending on one property, with the property of each verdict."""
    rng = np.random.default_rng(seed)
    words = rng.integers(1, 60, (n_items, 3))
    rows = [(item, *PAIRS[k % 3], "ab" if rng.random() < 0.6 else "ba") for k, item in enumerate(range(n_items))]
    frame = pl.DataFrame(rows, schema=["item", "system_a", "system_b", "order"], orient="row")
    total = [words[i, "ABC".index(a)] + words[i, "ABC".index(b)] for i, a, b, _ in rows]
    frame = frame.with_columns(total=pl.Series(total))
    chance = {
        "order": np.where(frame["order"] == "ba", 0.4, 0.12),
        "length": np.clip(0.01 * (np.array(total) - 30), 0, 0.9),
        "system": np.where((frame["system_a"] == "A").to_numpy(), 0.16, 0.6),
    }[chance_of]
    failed = pl.Series(rng.random(n_items) < chance)
    frame = frame.with_columns(
        preference=pl.when(~failed).then(pl.lit(1)), invalid=pl.when(failed).then(pl.lit("label")).otherwise(pl.lit(""))
    )
    texts = [{"item": str(i), "outputs": {s: "w " * words[i, k] for k, s in enumerate("ABC")}} for i in range(n_items)]
    (folder / "outputs.jsonl").write_text("\n".join(json.dumps(row) for row in texts))
    verdicts = frame.drop("total").with_columns(rater=pl.lit("j"), kind=pl.lit("metric"))
    verdicts.write_csv(folder / "verdicts.csv")
    return cu.read(folder / "verdicts.csv", folder / "outputs.jsonl"), frame.with_columns(failed=failed)


@pytest.mark.parametrize("planted", ["order", "length", "system"])
def test_rates_and_p_values_by_level(tmp_path: Path, planted: str) -> None:
    study, frame = failing(tmp_path, planted)
    failed, total = frame["failed"].to_numpy(), frame["total"].to_numpy()
    tenths = (total[:, None] > np.quantile(total, np.arange(1, 10) / 10)).sum(axis=1)
    levels = {
        ("all", ""): np.ones(len(frame), dtype=bool),
        **{("order", order): (frame["order"] == order).to_numpy() for order in ("ab", "ba")},
        **{("system", s): ((frame["system_a"] == s) | (frame["system_b"] == s)).to_numpy() for s in "ABC"},
        **{("length", str(k + 1)): tenths == k for k in range(10)},
    }
    result = cu.consistency(study, resamples=0)
    rows = {(row["factor"], row["level"]): row for row in result.missing.to_dicts()}
    assert rows.pop(("reason", "label"))["failure_rate"] == pytest.approx(failed.mean())
    assert rows.keys() == levels.keys()
    for key, mask in levels.items():
        assert rows[key]["queried"] == mask.sum()
        assert rows[key]["failure_rate"] == pytest.approx(failed[mask].mean())
    features = {
        "order": [levels["order", "ab"]],
        "system": [levels["system", s] for s in "ABC"],
        "length": [tenths],
    }
    p_values = {
        factor: uneven_p(
            failed,
            np.stack(values).astype(float),
            units=np.arange(len(failed)),
            n_draws=20_000,
            rng=np.random.default_rng(1),
        )
        for factor, values in features.items()
    }
    (finding,) = result.findings.filter(kind="failures").to_dicts()
    assert finding["factor"] == min(p_values, key=lambda factor: p_values[factor]) == planted
    assert finding["p_value"] == pytest.approx(3 * p_values[planted], rel=0.15, abs=0.002)


@pytest.mark.parametrize(("n_failures", "tested"), [(4, False), (5, True)])
def test_few_failures_are_counted_but_not_tested(n_failures: int, *, tested: bool) -> None:
    frame = pl.DataFrame(
        {
            "item": range(40),
            "system_a": "A",
            "system_b": ["B", "C"] * 20,
            "order": ["ab", "ab", "ba", "ba"] * 10,
            "preference": [None if k < n_failures else 1 for k in range(40)],
        }
    )
    result = cu.consistency(cu.read(frame.with_columns(rater=pl.lit("j"), kind=pl.lit("metric"))), resamples=0)
    assert result.missing.filter(factor="all")["failure_rate"].item() == n_failures / 40
    assert (result.findings.filter(kind="failures").height == 1) is tested
    assert set(result.missing["factor"]) == {"all", "reason", "system", "order"}  # no texts, so no lengths


def test_reasons_are_sorted_by_frequency() -> None:
    reasons = ["b"] * 2 + ["refusal"] * 4 + ["a"] * 2
    frame = pl.DataFrame({"item": range(30), "invalid": reasons + [""] * 22, "preference": [None] * 8 + [1] * 22})
    study = cu.read(frame.with_columns(system_a=pl.lit("A"), system_b=pl.lit("B"), rater=pl.lit("j"), order=pl.lit("")))
    levels = cu.consistency(study, resamples=0).missing.filter(factor="reason")["level"].to_list()
    assert levels == ["refusal", "b", "a"]
