"""Metrics of other packages: entry points of the group `custodes.metrics`, each the path of a `Metric`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

from custodes.errors import CustodesError, InputError
from custodes.plugins import plugged, said
from custodes.scoring.metric import Metric, Place, Scorer
from custodes.scoring.metrics import METRICS

GROUP = "custodes.metrics"
NAME = re.compile(r"[\w+.-]+")
"""A name allowed on a command line: without spaces and characters of its grammar."""


@cache
def known_metrics() -> dict[str, Metric]:
    """All metrics by name: built-in ones, then those of other packages."""
    plugins = plugged(GROUP, Metric, METRICS, name=lambda metric: metric.name, check=_check)
    return METRICS | {
        name: replace(plugin.value, load=_signed(plugin.value, plugin.package)) for name, plugin in plugins.items()
    }


def _check(metric: Metric) -> None:
    if not (isinstance(metric.name, str) and NAME.fullmatch(metric.name)):
        raise InputError(f"its name {metric.name!r} may have only letters, digits and + . - _")


def _signed(metric: Metric, package: str) -> Callable[..., Scorer]:
    """A loader that adds the version of the package to the signature, so that another version is scored again."""

    def load(place: Place, **parameters: Any) -> Scorer:
        scorer = _made(metric, place, parameters, f"the package {package} cannot load it")
        return replace(scorer, signature=f"{package} {scorer.signature}")

    return load


def loaded(metric: Metric, place: Place, parameters: dict[str, Any], who: str) -> Scorer:
    """A loaded metric; its errors name the metric, and an error in its code becomes `InputError`."""
    try:
        return _made(metric, place, parameters, "it cannot be loaded")
    except CustodesError as problem:
        raise type(problem)(f"{who}: {problem}") from None


def _made(metric: Metric, place: Place, parameters: dict[str, Any], fault: str) -> Scorer:
    """A loaded metric; an error in its code becomes `InputError`."""
    try:
        scorer: Any = metric.load(place, **parameters)
        if not isinstance(scorer, Scorer):
            raise TypeError(f"it returned {type(scorer).__name__}, expected Scorer")
    except CustodesError:
        raise
    except Exception as error:
        raise InputError(f"{fault}: {said(error)}") from error
    return scorer
