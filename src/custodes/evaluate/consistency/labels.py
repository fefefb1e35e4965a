"""Repeatability of labels: does a rater give an output the same label again?"""

from __future__ import annotations

from typing import Any

import numpy as np

from custodes.answers.tables import with_interval
from custodes.data.panel import label_codes
from custodes.data.study import Study
from custodes.evaluate.consistency.rater_preferences import OUTPUT, RaterPreferences, repeated_labels
from custodes.stats import intervals
from custodes.stats.annotator_models import AnnotatorLabels
from custodes.stats.arrays import Floats
from custodes.stats.ratios import ratio
from custodes.stats.reliability import alpha, coincidences


def label_columns(study: Study, part: RaterPreferences, times: Floats, confidence: float) -> dict[str, Any]:
    """The columns of `repeated_labels`."""
    rows = repeated_labels(study, part.aspect)
    if rows.is_empty():
        return {}
    scale = study.labels.get(part.aspect)
    ordered = scale is None or scale.ordered
    raters = [name for name in part.raters if name in set(rows["rater"])]
    outputs, runs, changed, same, reliability = [], [], [], [], []
    for rater in raters:
        of_rater = rows.filter(rater=rater)
        tasks = of_rater.select(OUTPUT).unique().sort(OUTPUT)
        task = of_rater.join(tasks.with_row_index("task"), on=OUTPUT, how="left", maintain_order="left")["task"]
        run = of_rater["repeat"].rank("dense").to_numpy() - 1
        words, code = np.unique(of_rater["score"].to_numpy(), return_inverse=True)
        labels = AnnotatorLabels.of(
            task.to_numpy(),
            run,
            code,
            n_tasks=tasks.height,
            n_workers=int(run.max()) + 1,
            n_labels=len(words),
        )
        units = part.design.units[label_codes(tasks["item"], part.design.items)]
        drawn = times @ coincidences(labels, units=units, n_units=part.n_units).reshape(part.n_units, -1)
        table = drawn.reshape(len(times), len(words), len(words))
        same.append(ratio(np.trace(table, axis1=1, axis2=2), table.sum(axis=(1, 2))))
        reliability.append(alpha(table, scale="ordinal" if ordered else "nominal"))
        outputs.append(tasks.height)
        runs.append(of_rater.height / tasks.height)
        changed.append(float(((labels.votes > 0).sum(axis=1) > 1).mean()))
    ends: dict[str, Any] = {"confidence": confidence, "clusters": part.n_units}
    return {
        "rater": raters,
        "outputs": outputs,
        "runs": runs,
        **with_interval("agreement", np.stack(same, axis=1), bounds=intervals.SHARE, **ends),
        **with_interval("alpha", np.stack(reliability, axis=1), bounds=intervals.CORRELATION, **ends),
        "changed": np.array(changed),
    }
