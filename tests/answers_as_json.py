"""All tables of every question on one study, as JSON, to compare the results of two processors.

python -m tests.answers_as_json STUDY ASPECT [HUMAN]

Iterative fits have a key of their own, because they are compared with a larger tolerance. They run on the demo only.
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
    "agreement": {"resamples": 20},
    "annotators": {"resamples": 20},
    "ceiling": {"resamples": 20, "model": "ridge", "steps": 2},
    "combine": {"resamples": 20, "method": ["ridge", "best"], "repeats": 1},
    "complementarity": {"resamples": 20},
    "consistency": {"resamples": 20},
    "favoritism": {"resamples": 20},
    "gate": {"require": "kendall_item>=0.1", "resamples": 20},
    "labelling": {"positive": ">=4", "metric": "judge", "human": "ann1", "add": 50},
    "leaderboard": {"resamples": 20},
    "route": {"positive": ">=4", "metric": "judge", "signal": "learned", "disagreement": 0.3, "systems": "Birch"},
    "plan": {"replications": 5, "items": 60},
    "protocol": {"replications": 5, "resamples": 20},
    "ranking": {"resamples": 20},
    "verdict": {"resamples": 20},
}
ITERATIVE: dict[str, dict[str, Any]] = {
    "combine": {"resamples": 20, "method": ["gp", "xgboost"], "repeats": 1, "folds": "group"},
    "ceiling": {"resamples": 20, "model": "xgboost", "steps": 2},
}
"""Iterative fits, compared with a larger tolerance."""
WITHOUT_ASPECT = ("annotators", "check")


def answers(path: str, aspect: str, options: dict[str, dict[str, Any]], **setting: str) -> dict[str, Any]:
    """Return question to table to rows, without columns of computation time."""
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
    path, aspect, *human = sys.argv[1:]
    options = {name: OPTIONS.get(name, {}) for name in QUESTIONS}
    options.pop("validate")  # needs a model file
    if path != "demo":
        for name in ("labelling", "route"):  # need a judge that returns labels
            options.pop(name)
        options["rates"] = {"metrics": "rouge-1-f1,s3-resp"}  # all 34 metrics take minutes
    else:
        options["rates"] = {"metrics": "judge"}
        for name in ("agreement", "favoritism", "consistency"):
            options[name] = options[name] | {"by": "group"}
    setting = {"human": human[0]} if human else {}
    results = {"exact": answers(path, aspect, options, **setting)}
    if path == "demo":
        results["iterative"] = answers(path, aspect, ITERATIVE)
    results["architectures"] = [
        pool["architecture"] for pool in threadpool_info() if pool["internal_api"] == "openblas"
    ]
    json.dump(results, sys.stdout, default=str)
