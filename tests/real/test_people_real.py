from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.evaluate.annotators.annotator_statistics import LITTLE
from custodes.stats.annotator_models import AnnotatorLabels, Mace, dawid_skene, mace

Known = tuple[AnnotatorLabels, np.ndarray]


def loaded(folder: Path, name: str) -> Known:
    """Labels and true labels."""
    with gzip.open(folder / "mace" / f"{name}.csv.gz", "rt") as file:
        rows = list(csv.reader(file))
    gold = (folder / "mace" / f"{name}.key").read_text().split()
    labels = sorted({*gold, *(cell for row in rows for cell in row if cell)})
    rows_of_labels = np.array(
        [(t, w, labels.index(value)) for t, row in enumerate(rows) for w, value in enumerate(row) if value]
    )
    result = AnnotatorLabels.from_labels(
        *rows_of_labels.T, n_tasks=len(rows), n_workers=len(rows[0]), n_labels=len(labels)
    )
    return result, np.array([labels.index(label) for label in gold])


def fitted(answers: AnnotatorLabels) -> Mace:
    return mace(answers, restarts=10, iterations=50, rng=np.random.default_rng(0))


def surest(posterior: np.ndarray, share: float) -> np.ndarray:
    entropy = -(posterior * np.log(np.maximum(posterior, 1e-300))).sum(axis=1)
    return np.argsort(np.argsort(entropy, kind="stable"), kind="stable") < round(share * len(posterior))


@pytest.mark.parametrize(
    ("name", "accuracy", "correlation", "surest_90", "surest_80"),
    [  # from the authors' program; correlation of competence with accuracy, accuracy of the 90 and 80 % most confident
        ("rte", 0.926, 0.905, 0.960, 0.972),
        ("temporal", 0.942, 0.904, 0.969, 0.978),
        ("wsd", 0.994, 0.905, None, None),
    ],
)
def test_mace_is_as_right_as_that_of_its_authors(
    shared_data: Path,
    name: str,
    accuracy: float,
    correlation: float,
    surest_90: float | None,
    surest_80: float | None,
) -> None:
    answers, gold = loaded(shared_data, name)
    result = fitted(answers)
    right = result.posterior.argmax(axis=1) == gold
    assert right.mean() == pytest.approx(accuracy, abs=6e-4)
    truth = np.bincount(answers.worker, weights=gold[answers.task] == answers.label) / np.bincount(answers.worker)
    assert np.corrcoef(result.competence, truth)[0, 1] == pytest.approx(correlation, abs=2e-3)
    for share, expected in ((0.9, surest_90), (0.8, surest_80)):
        if expected is not None:
            assert right[surest(result.posterior, share)].mean() == pytest.approx(expected, abs=6e-4)


def test_dawid_and_skene_on_rte(shared_data: Path) -> None:
    answers, gold = loaded(shared_data, "rte")
    assert (dawid_skene(answers, iterations=100).argmax(axis=1) == gold).mean() == pytest.approx(0.9287, abs=1e-4)


def test_who_is_named_among_the_workers_of_rte_only_guessed(shared_data: Path) -> None:
    answers, gold = loaded(shared_data, "rte")
    study = cu.read(
        pl.DataFrame(
            {
                "item": [f"t{t}" for t in answers.task],
                "system": "text",
                "rater": [f"A{w:03d}X" for w in answers.worker],
                "kind": "human",
                "score": answers.label,
            }
        )
    )
    result = cu.annotators(study, resamples=0)
    named = result.annotators.filter(pl.col("flags").list.contains(LITTLE))["rater"].to_list()
    truth = np.bincount(answers.worker, weights=gold[answers.task] == answers.label) / np.bincount(answers.worker)
    assert named == ["A075X", "A080X", "A128X"]
    assert [truth[int(name[1:4])] for name in named] == pytest.approx([0.506, 0.507, 0.496], abs=1e-3)
    by_label = result.labels.with_columns(task=pl.col("item").str.slice(1).cast(pl.Int64)).sort("task")["label"]
    assert (by_label.cast(pl.Int64).to_numpy() == gold).mean() == pytest.approx(0.9287, abs=1e-4)


def test_pandalm_has_three_people_who_agree(shared_data: Path) -> None:
    study = cu.read(shared_data / "pandalm" / "battles.csv.gz", invalid="drop")
    slots = cu.annotators(study, resamples=0)
    assert slots.annotators["competence"].is_null().all()
    row = slots.agreement.row(0, named=True)
    assert (row["annotators"], row["n_multiply_rated"]) == (3, 999)
    assert row["alpha_nominal"] == pytest.approx(0.864, abs=1e-3)
    result = cu.annotators(study, annotator_type="persons", resamples=0)
    assert result.annotators["competence"].to_list() == pytest.approx([0.933, 0.915, 0.943], abs=1e-3)
