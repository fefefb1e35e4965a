from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import custodes as cu

COPIES = ("reference-system", "identical-systems", "repeated-items", "pooled-aspects")


def copies(study: cu.Study, **options: object) -> list[tuple[str, list[str]]]:
    problems = cu.check(study, **options).problems  # type: ignore[arg-type]
    return problems.filter(pl.col("rule").is_in(COPIES)).select("rule", pl.col("examples").list.head(2)).rows()


@pytest.mark.parametrize(
    ("folder", "reference"), [("dialsummeval", ["A", "rouge-1"]), ("hanna", ["Human", "BLEU Ξ§"]), ("summeval", None)]
)
def test_the_human_reference_among_the_systems(shared_data: Path, folder: str, reference: list[str] | None) -> None:
    study = cu.read(shared_data / folder / "ratings.csv.gz")
    assert copies(study) == ([("reference-system", reference)] if reference else [])


def test_the_reference_of_dialsummeval_changes_the_best_metric(shared_data: Path) -> None:
    study = cu.read(shared_data / "dialsummeval" / "ratings.csv.gz")
    best = [
        cu.agreement(study, aspect="relevance", systems=systems, resamples=0).standing["metric"][0]
        for systems in (None, "!A")
    ]
    assert best[0] != best[1]
