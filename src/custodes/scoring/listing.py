"""List of the available metrics and their properties. The metrics are not loaded."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any, ClassVar

import polars as pl

from custodes.answers.question import versions
from custodes.answers.result import Provenance, Result, result
from custodes.answers.tables import flag, label, labels, table
from custodes.errors import CustodesError, InputError
from custodes.plugins import describe_error, load_plugins
from custodes.scoring.metric import Metric, Place, Scorer
from custodes.scoring.metrics import METRICS
from custodes.scoring.scripts import workers


@result
class MetricListing(Result):
    """All metrics and all workers that have a name; see `list_all_metrics`."""

    BY: ClassVar[str] = ""

    metrics: pl.DataFrame = table(
        "One row per metric.",
        label("metric", "name of the metric"),
        label("gives", "what the metric measures"),
        labels("needs", "inputs of an item that the metric needs besides the output"),
        labels("rules", "allowed rules for several references; the first rule is the default"),
        label("parameters", "parameters, with their defaults"),
        label("scores", "what gets a score: outputs or systems"),
        flag("higher_is_better", "whether a higher score is better", "Higher is better"),
        label("extra", "the extra (set of optional packages) that the metric needs"),
        label("source", "the paper or project that defines the metric", essential=False),
    )
    workers: pl.DataFrame = table(
        "One row per worker with a name. The worker is used as the metric `worker:NAME`, followed by its options.",
        label("worker", "name of the worker"),
        label("gives", "what the worker's metric measures"),
        label("source", "the paper or project that defines the metric"),
    )


def list_all_metrics() -> MetricListing:
    """Return all metrics and workers, both built-in and from other packages."""
    listing_tables = MetricListing.part(
        metrics=[
            {
                "metric": metric.name,
                "gives": metric.gives,
                "needs": list(metric.traits.needs),
                "rules": list(metric.traits.rules),
                "parameters": ", ".join(
                    f"{parameter_name}={parameter_value}"
                    for parameter_name, parameter_value in metric.parameters.items()
                ),
                "scores": "systems" if metric.traits.systems else "outputs",
                "higher_is_better": metric.traits.higher_is_better,
                "extra": metric.extra,
                "source": metric.source,
            }
            for metric in metrics_by_name().values()
        ],
        workers=[
            {"worker": worker.name, "gives": worker.gives, "source": worker.source} for worker in workers().values()
        ],
    )
    return MetricListing.from_parts(
        [listing_tables],
        (),
        provenance=Provenance(
            question="score --list", study="this installation", digest="", options={}, seed=None, versions=versions()
        ),
    )


GROUP = "custodes.metrics"
NAME = re.compile(r"[\w+.-]+")
"""Pattern of a metric's name; the name has no spaces and no characters with a meaning in the metric syntax."""


@cache
def metrics_by_name() -> dict[str, Metric]:
    """Return all metrics by name: first the built-in metrics, then the metrics of other packages."""
    plugin_of_name = load_plugins(GROUP, Metric, METRICS, name=lambda metric: metric.name, check=_check)
    return METRICS | {
        metric_name: replace(plugin.value, load=partial(_load_with_version, plugin.value.load, plugin.package))
        for metric_name, plugin in plugin_of_name.items()
    }


def _check(metric: Metric) -> None:
    if not (isinstance(metric.name, str) and NAME.fullmatch(metric.name)):
        raise InputError(f"the name {metric.name!r} may contain only letters, digits and + . - _")


def _load_with_version(load: Callable[..., Scorer], package: str, place: Place, **parameters: Any) -> Scorer:
    """Return the loaded metric, with the package and its version in the signature.

    Scores by another version of the package are thus not reused.
    """
    scorer = load(place, **parameters)
    return replace(scorer, signature=f"{package} {scorer.signature}")


def load_metric(metric: Metric, place: Place, parameters: dict[str, Any], error_prefix: str) -> Scorer:
    """Return the loaded metric.

    Errors name the metric, and any error in the code of the metric becomes an `InputError`.
    """
    try:
        return metric.load(place, **parameters)
    except CustodesError as problem:
        raise type(problem)(f"{error_prefix}: {problem}") from None
    except Exception as error:
        raise InputError(f"{error_prefix}: the metric cannot be loaded: {describe_error(error)}") from error
