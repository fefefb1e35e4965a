from pathlib import Path

import polars as pl
import pytest

import custodes as cu


def test_favi_and_sign_accuracies_correlate_as_published(shared_data: Path) -> None:
    """Figure 5 of the Favi-Score paper: -.25 and -.01 over all its data; here SummEval, relevance, 34 metrics."""
    study = cu.read(shared_data / "summeval" / "ratings.csv.gz")
    pairs = cu.favoritism(study, human="expert*", aspect="relevance", resamples=0).pairs
    assert pairs.height == 34 * 120
    size = pl.col("favi").abs()
    agrees, accuracy = (
        pairs.drop_nulls("favi")
        .select(
            pl.corr(size, pl.col("sign_agrees").cast(pl.Float64), method="spearman").alias("agrees"),
            pl.corr(size, "sample_accuracy", method="spearman").alias("accuracy"),
        )
        .row(0)
    )
    assert agrees == pytest.approx(-0.32, abs=0.005)
    assert accuracy == pytest.approx(-0.01, abs=0.005)
