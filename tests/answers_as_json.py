"""All tables of every question on one study, as JSON: what a process with another processor must say, too.

python -m tests.answers_as_json STUDY [ASPECT]
"""

from __future__ import annotations

import json
import sys
from typing import Any

import polars as pl
from threadpoolctl import threadpool_info

import custodes as cu
from tests.questions import QUESTIONS

OPTIONS: dict[str, dict[str, Any]] = {
    "agreement": {"resamples": 200},
    "annotators": {"resamples": 50},
    "ceiling": {"resamples": 50, "model": "ridge", "steps": 2},
    "combine": {"resamples": 50, "method": ["ridge", "best"], "repeats": 1},
    "complementarity": {"resamples": 50},
    "consistency": {"resamples": 100},
    "favoritism": {"resamples": 100},
    "gate": {"require": "kendall_item>=0.1", "resamples": 200},
    "leaderboard": {"resamples": 100},
    "plan": {"replications": 5, "items": 60},
    "protocol": {"replications": 5, "resamples": 50},
    "ranking": {"resamples": 100},
    "verdict": {"resamples": 200},
}
ITERATIVE: dict[str, dict[str, Any]] = {
    "combine": {"resamples": 20, "method": ["gp", "xgboost"], "repeats": 1},
    "ceiling": {"resamples": 20, "model": "xgboost", "steps": 2},
}
"""Iterative fits, which are compared less closely."""
WITHOUT_ASPECT = ("annotators", "check")


def answers(path: str, aspect: str, options: dict[str, dict[str, Any]], **setting: str) -> dict[str, Any]:
    """Question to table to rows, for the questions that have options; times of computation are left out."""
    study = cu.read(path)
    metric = next(rater for rater, kind in study.raters.kind.items() if kind == "metric")
    results = {}
    for name in options:
        arguments = dict(options[name]) | setting
        if name not in WITHOUT_ASPECT:
            arguments["target" if name == "combine" else "aspect"] = aspect
        if name == "gate":
            arguments["metric"] = metric
        tables = QUESTIONS[name](study, **arguments).tables()
        results[name] = {table: frame.select(pl.exclude("seconds")).to_dicts() for table, frame in tables.items()}
    return results


if __name__ == "__main__":
    path, aspect, kind, *human = sys.argv[1:]
    options = ITERATIVE if kind == "iterative" else {name: OPTIONS.get(name, {}) for name in QUESTIONS}
    options.pop("validate", None)  # needs the file of a model
    results = answers(path, aspect, options, **({"human": human[0]} if human else {}))
    architectures = [pool["architecture"] for pool in threadpool_info() if pool["internal_api"] == "openblas"]
    json.dump({"architectures": architectures, "answers": results}, sys.stdout, default=str)
