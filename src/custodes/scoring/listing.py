"""List of the available metrics and their properties, without loading them."""

from __future__ import annotations

from typing import ClassVar

import polars as pl

from custodes.answers.question import versions
from custodes.answers.result import Provenance, Result, result
from custodes.answers.tables import flag, label, labels, table
from custodes.scoring.plugins import known_metrics
from custodes.scoring.scripts import workers


@result
class Listing(Result):
    """All metrics, and the named workers; see `listing`."""

    BY: ClassVar[str] = ""

    metrics: pl.DataFrame = table(
        "One row per metric.",
        label("metric", "its name"),
        label("gives", "what it measures"),
        labels("needs", "inputs of an item it needs besides the output"),
        labels("rules", "rules for several references, the default first"),
        label("parameters", "parameters, with their defaults"),
        label("scores", "unit scored: outputs or systems"),
        flag("higher_is_better", "whether a higher score is better", "Higher is better"),
        label("extra", "the extra that it needs"),
        label("source", "the paper or project that defines it", essential=False),
    )
    workers: pl.DataFrame = table(
        "One row per worker with a name: the metric `worker:NAME`, followed by its options.",
        label("worker", "its name"),
        label("gives", "what it measures"),
        label("source", "the paper or project that defines it"),
    )


def listing() -> Listing:
    """All metrics and workers, built in or from other packages."""
    metrics = list(known_metrics().values())
    columns = {
        "metric": [metric.name for metric in metrics],
        "gives": [metric.gives for metric in metrics],
        "needs": [list(metric.traits.needs) for metric in metrics],
        "rules": [list(metric.traits.rules) for metric in metrics],
        "parameters": [", ".join(f"{name}={value}" for name, value in metric.parameters.items()) for metric in metrics],
        "scores": ["systems" if metric.traits.systems else "outputs" for metric in metrics],
        "higher_is_better": [metric.traits.higher_is_better for metric in metrics],
        "extra": [metric.extra for metric in metrics],
        "source": [metric.source for metric in metrics],
    }
    scoring_workers = list(workers().values())
    scripts = {name: [getattr(worker, name) for worker in scoring_workers] for name in ("gives", "source")}
    origin = Provenance(
        question="score --list", study="this installation", digest="", options={}, seed=None, versions=versions()
    )
    return Listing.of(
        [Listing.part(metrics=columns, workers={"worker": [worker.name for worker in scoring_workers], **scripts})],
        (),
        provenance=origin,
    )
