from __future__ import annotations

import numpy as np
import polars as pl

import custodes as cu
from custodes.combining.combined_metric import CombinedMetric
from custodes.combining.methods import METHODS, Formula, TrainingData
from custodes.combining.normalise import Normalisation, normalisation
from custodes.combining.task import Task, task
from tests.combining.tasks import planted
from tests.evaluate.judged_studies import Scores, judged

RATERS = pl.DataFrame(
    {"rater": ["a", "b"], "higher_is_better": ["false", "true"], "low": [-3, None], "high": [2, None]}
)
"""a is lower-is-better with a declared range narrower than its scores; b has an outlier."""


def scores(seed: int = 0) -> dict[tuple[str, str], np.ndarray]:
    values = planted(seed)
    values["a", ""] *= -1
    values["b", ""][0, 0] = 40
    values["noise", ""][1, :2] = np.nan
    return values


def selected_study(values: Scores) -> cu.Study:
    return judged(values).describe(raters=RATERS).select()


def learnt(name: str, of: Task) -> tuple[Formula, Normalisation]:
    x = of.metrics.scores.reshape(len(of.metrics.scores), -1).T
    scales = normalisation(x, names=of.metrics.names, directions=of.directions, declared_bounds=of.declared)
    item = np.repeat(np.arange(len(of.design.items)), len(of.design.systems))
    training = TrainingData(
        x=scales.apply(x),
        y=of.human.ravel(),
        items=item,
        systems=np.tile(np.arange(len(of.design.systems)), len(of.design.items)),
        groups=item,
        by="kendall",
        rng=np.random.default_rng(0),
    )
    return METHODS[name].fit(training), scales


def model_of(name: str, values: Scores | None = None) -> CombinedMetric:
    of = task(selected_study(values or scores()), target=None)
    formula, scales = learnt(name, of)
    model = CombinedMetric.make(
        formula, of=of, scales=scales, method=name, objective="kendall", validation={"kendall": None}
    )
    return model.with_provenance("", "")
