"""Aggregation of annotators' labels: Dawid and Skene's model, and MACE, compared with crowd-kit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from beside import Beside, Work

TASKS, PEOPLE, LABELS, EACH = 5_000, 100, 3, 5
ITERATIONS, RESTARTS, STEPS = 100, 10, 50


def data(folder: Path) -> None:
    """Labels of annotators with different competence, sorted by worker and label as crowd-kit's MACE requires."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(TASKS), EACH)
    worker = np.concatenate([rng.choice(PEOPLE, EACH, replace=False) for _ in range(TASKS)])
    truth, knows = rng.integers(LABELS, size=TASKS), rng.beta(5, 2, PEOPLE)
    label = np.where(rng.random(len(task)) < knows[worker], truth[task], rng.integers(LABELS, size=len(task)))
    frame = pd.DataFrame({"task": task, "worker": worker, "label": label})
    frame.sort_values(["worker", "label"]).reset_index(drop=True).to_parquet(folder / "answers.parquet")


def answers(folder: Path) -> Any:
    import pandas as pd

    return pd.read_parquet(folder / "answers.parquet")


def arrays(folder: Path) -> Any:
    from custodes.stats.annotator_models import AnnotatorLabels

    columns = [answers(folder)[name].to_numpy() for name in ("task", "worker", "label")]
    return lambda: AnnotatorLabels.from_labels(*columns, n_tasks=TASKS, n_workers=PEOPLE, n_labels=LABELS)


def dawid_skene(folder: Path) -> Work:
    from custodes.stats.annotator_models import dawid_skene

    load = arrays(folder)
    return lambda: as_floats(dawid_skene(load(), iterations=ITERATIONS).argmax(axis=1))


def mace(folder: Path) -> Work:
    import numpy as np

    from custodes.stats.annotator_models import mace

    load, rng = arrays(folder), np.random.default_rng(0)
    how: dict[str, Any] = {"restarts": RESTARTS, "iterations": STEPS}
    return lambda: as_floats(mace(load(), rng=rng, **how).posterior.argmax(axis=1))


def as_floats(labels: Any) -> list[float]:
    return [float(label) for label in labels]


def dawid_skene_by_crowd_kit(folder: Path) -> Work:
    from crowdkit.aggregation import DawidSkene

    frame = answers(folder)
    return lambda: as_floats(DawidSkene(n_iter=ITERATIONS, tol=1e-6).fit_predict(frame).sort_index())


def mace_by_crowd_kit(folder: Path) -> Work:
    from crowdkit.aggregation import MACE

    frame = answers(folder)
    model = MACE(n_restarts=RESTARTS, n_iter=STEPS, method="vb", random_state=0)
    return lambda: as_floats(model.fit_predict(frame).sort_index())


SIZE = "25,000 answers of 100 people to 5,000 tasks"
COMPARISONS = (
    Beside(
        "crowd-kit, Dawid and Skene",
        f"{SIZE}, each until its own stop",
        "crowdkit",
        data,
        dawid_skene,
        dawid_skene_by_crowd_kit,
        0.01,
        because="share of labels: ours has pseudo-counts",
        labels=True,
    ),
    Beside(
        "crowd-kit, MACE",
        f"{SIZE}, {RESTARTS} restarts of {STEPS} steps",
        "crowdkit",
        data,
        mace,
        mace_by_crowd_kit,
        0.02,
        because="share of labels: other random starts",
        labels=True,
    ),
)
