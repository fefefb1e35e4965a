"""Does a rater give an output the same label when asked again?"""

from __future__ import annotations

from typing import Any

import numpy as np

from custodes.answers.tables import with_interval
from custodes.data.panel import label_codes
from custodes.data.study import Study
from custodes.evaluate.consistency.material import OUTPUT, Material, repeated_labels
from custodes.stats import intervals
from custodes.stats.annotator_models import AnnotatorLabels
from custodes.stats.arrays import Floats
from custodes.stats.ratios import ratio
from custodes.stats.reliability import alpha, coincidences


def label_columns(study: Study, part: Material, times: Floats, confidence: float) -> dict[str, Any]:
    """The columns of `labels`."""
    rows = repeated_labels(study, part.aspect)
    if rows.is_empty():
        return {}
    scale = study.labels[part.aspect]
    raters = [name for name in part.raters if name in set(rows["rater"])]
    outputs, runs, changed, counts = [], [], [], []
    for rater in raters:
        of_rater = rows.filter(rater=rater)
        tasks = of_rater.select(OUTPUT).unique().sort(OUTPUT)
        task = of_rater.join(tasks.with_row_index("task"), on=OUTPUT, how="left", maintain_order="left")["task"]
        run = of_rater["repeat"].rank("dense").to_numpy() - 1
        labels = AnnotatorLabels.of(
            task.to_numpy(),
            run,
            of_rater["score"].to_numpy(),
            n_tasks=tasks.height,
            n_workers=int(run.max()) + 1,
            n_labels=len(scale.words),
        )
        units = part.design.units[label_codes(tasks["item"], part.design.items)]
        counts.append(coincidences(labels, units=units, n_units=part.n_units))
        outputs.append(tasks.height)
        runs.append(of_rater.height / tasks.height)
        changed.append(float(((labels.votes > 0).sum(axis=1) > 1).mean()))
    drawn = np.einsum("bu,rukl->brkl", times, np.stack(counts), optimize=True)
    same = ratio(np.trace(drawn, axis1=-2, axis2=-1), drawn.sum(axis=(-1, -2)))
    ends: dict[str, Any] = {"confidence": confidence, "clusters": part.n_units}
    reliability = alpha(drawn, scale="ordinal" if scale.ordered else "nominal")
    return {
        "rater": raters,
        "outputs": outputs,
        "runs": runs,
        **with_interval("agreement", same, bounds=intervals.SHARE, **ends),
        **with_interval("alpha", reliability, bounds=intervals.CORRELATION, **ends),
        "changed": np.array(changed),
    }
