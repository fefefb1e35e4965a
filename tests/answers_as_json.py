"""All tables of every question on one study, as JSON: what a process with another processor must say, too.

python -m tests.answers_as_json STUDY [ASPECT]
"""

from __future__ import annotations

import json
import sys
from typing import Any

import threadpoolctl

import custodes as cu
from custodes.questions import QUESTIONS

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
ITERATIVE = {"combine": {"method": ["gp", "xgboost", "lasso"]}}
"""Iterative fits, which are compared less closely."""


def answers(path: str, aspect: str, human: str | None) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Question to table to rows."""
    study = cu.read(path)
    found = {}
    for name, question in QUESTIONS.items():
        if name == "validate":  # needs the file of a model
            continue
        options = dict(OPTIONS.get(name, {}))
        if name == "gate":
            options["metric"] = next(r for r, kind in study.raters.kind.items() if kind == "metric")
        options["target" if name == "combine" else "aspect"] = aspect
        if human is not None:
            options["human"] = human
        if name in ("check", "annotators"):
            options.pop("aspect")
        found[name] = {
            table: frame.select(c for c in frame.columns if c != "seconds").to_dicts()
            for table, frame in question(study, **options).tables().items()
        }
    return found


if __name__ == "__main__":
    path, aspect, *human = sys.argv[1:]
    made = answers(path, aspect, human[0] if human else None)
    libraries = [pool for pool in threadpoolctl.threadpool_info() if pool["internal_api"] == "openblas"]
    json.dump({"architecture": [pool["architecture"] for pool in libraries], "answers": made}, sys.stdout, default=str)
