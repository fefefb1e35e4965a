from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import custodes as cu


def answers(*, n_people: int, pairs: int = 2, each: int = 6, seed: int = 0) -> pl.DataFrame:
    """Return `each` answers of every annotator to every pair; a third of the annotators prefer the second system."""
    rng = np.random.default_rng(seed)
    rows = []
    for k in range(pairs):
        for worker in range(n_people):
            for item in range(each):
                likes = 1 if worker % 3 else -1
                preference = likes if rng.random() < 0.8 else 0
                rows.append((f"i{k}-{worker}-{item}", "A", f"B{k}", "human", f"w{worker:03}", preference))
    names = ("item", "system_a", "system_b", "kind", "rater", "preference")
    return pl.DataFrame(rows, schema=names, orient="row")


def test_a_pair_is_as_sure_as_its_people() -> None:
    rows = answers(n_people=12)
    result = cu.annotators(cu.read(rows), method="majority", annotator_type="persons", resamples=0).pairs
    assert result.select("system_a", "system_b", "answers", "annotators").rows() == [
        ("A", "B0", 72, 12),
        ("A", "B1", 72, 12),
    ]
    pair_rows = rows.filter(pl.col("system_b") == "B0")
    means = pair_rows.group_by("rater").agg(pl.col("preference").mean())["preference"].to_numpy()
    # With equal numbers of answers this is the t interval of the annotators' means.
    margin, error = means.mean(), means.std(ddof=1) / np.sqrt(12)
    first = result.row(0, named=True)
    assert first["margin"] == pytest.approx(margin)
    assert first["margin_low"] == pytest.approx(margin - 2.200985 * error, abs=1e-6)  # t(11), .975
    assert first["margin_high"] == pytest.approx(margin + 2.200985 * error, abs=1e-6)
    assert first["effective_annotators"] == pytest.approx(12)


def test_fewer_than_ten_speak_of_themselves() -> None:
    result = cu.annotators(cu.read(answers(n_people=9)), method="majority", annotator_type="persons", resamples=0).pairs
    assert result["margin_low"].is_null().all()
    assert result["margin"].is_not_null().all()
    assert set(result["reason"]) == {"fewer than 10 annotators: the estimate describes only these annotators"}
