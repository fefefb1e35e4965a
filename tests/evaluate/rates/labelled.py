"""Labelled outputs from arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from custodes.evaluate.rates.estimates import EstimateSettings
from custodes.evaluate.rates.outputs import LabelledOutputs
from custodes.stats.rates.posterior import Sampling

NAN = np.nan


def labelled(human: Any, *judges: Any, systems: Any = None, is_score: Any = False, **changes: Any) -> LabelledOutputs:
    """Return outputs with human labels and labels of judges, as codes (NaN: no label).

    The human label 0.5 is a tie of two labels. `systems` are the codes of the systems A, B, ... of the outputs.
    """
    gold = np.asarray(human, dtype=float)
    n = len(gold)
    codes = np.zeros(n, dtype=np.intp) if systems is None else np.asarray(systems, dtype=np.intp)
    names = tuple("ABCDEF"[: codes.max() + 1])
    fields: dict[str, Any] = {
        "aspect": "",
        "words": ("fail", "pass"),
        "ordered": False,
        "systems": names,
        "metrics": ("judge", "second", "third")[: len(judges)],
        "annotators": ("human",),
        "system": codes,
        "unit": np.arange(n),
        "gold": np.stack([1 - gold, gold], axis=1) if gold.ndim == 1 else gold,
        "annotated": gold[np.newaxis] if gold.ndim == 1 else np.zeros((0, n)),
        "judged": np.array([np.asarray(judge, dtype=float) for judge in judges]).reshape(len(judges), n),
        "is_score": np.broadcast_to(is_score, len(judges)),
        "weight": np.ones(n),
        "number": np.ones(n),
        "table": pl.DataFrame({"item": [f"i{k:04}" for k in range(n)], "system": [names[code] for code in codes]}),
        "human_agreement": NAN,
        "human_alpha": NAN,
        "consensus": "vote",
        "notes": [],
    }
    return LabelledOutputs(**{**fields, **changes})


def settings(sampling: Sampling = "random", confidence: float = 0.95, seed: int = 0) -> EstimateSettings:
    return EstimateSettings(sampling=sampling, confidence=confidence, rng=np.random.default_rng(seed))


def drawn(n: int = 400, n_labelled: int = 160, *, n_unjudged: int = 0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return human labels of the first outputs, and labels of a judge, of which the last ones are missing."""
    rng = np.random.default_rng(seed)
    good = rng.random(n) < 0.7
    judge = np.where(rng.random(n) < 0.85, good, ~good).astype(float)
    order = rng.permutation(n)
    human = np.where(order < n_labelled, good, NAN)
    judge[rng.permutation(n) < n_unjudged] = NAN
    return human, judge
