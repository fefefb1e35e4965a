"""Functions and result classes of all questions by name, with options that keep them short."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import custodes as cu
from custodes import cli

QUESTIONS: dict[str, Callable[..., Any]] = {name: getattr(cu, name) for name in cli.QUESTIONS}
RESULTS: dict[str, type[Any]] = {name: getattr(cu, name.capitalize()) for name in QUESTIONS}

DEMO: Mapping[str, dict[str, Any]] = {
    "check": {},
    "correction": {"metrics": "judge,distance", "estimator": ["mixture", "ppi"]},
    "protocol": {"metrics": "learned", "estimator": "ppi", "replications": 2},
    "plan": {"metrics": "judge", "estimator": "ppi", "replications": 2, "items": 90},
    "verdict": {"aspect": "coherence", "metrics": "judge,selfeval", "resamples": 20},
    "rates": {"positive": ">=4", "metrics": "judge,learned", "by": "system", "aspect": "fluency"},
    "labelling": {"positive": ">=4", "metric": "judge", "human": "ann1", "add": 20},
    "route": {"positive": ">=4", "metric": "judge", "signal": "learned", "disagreement": 0.3, "systems": "Birch"},
    "ceiling": {"model": "ridge", "steps": 3, "resamples": 20},
    "combine": {
        "target": "fluency",
        "method": ["ridge", "best"],
        "metrics": "judge,learned,overlap-stem",
        "repeats": 1,
        "resamples": 20,
    },
    "validate": {"model": "model.json", "aspect": "coherence"},
    "gate": {"metric": "judge", "require": "kendall_item>=0.2", "not_worse_than": "distance"},
}
"""Options of questions on the demo that need more than a small number of resamples."""


def options(question: str) -> dict[str, Any]:
    """Options that keep a question on the demo below one second."""
    return DEMO.get(question, {"resamples": 20})


def command(question: str) -> list[str]:
    """The same question on the demo as command line arguments."""
    verb = {"combine": ["combine", "fit"], "validate": ["combine", "validate"]}.get(question, [question])
    return [*verb, "demo", *words(**options(question))]


def words(**values: Any) -> list[str]:
    """Format options as command line arguments."""
    pairs = [(name, value) for name, several in values.items() for value in _listed(several)]
    return [word for name, value in pairs for word in (f"--{name.replace('_', '-')}", str(value))]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
