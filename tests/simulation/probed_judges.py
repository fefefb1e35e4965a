"""Simulated studies of a judge with probes, which have known effects of form, name and position."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl
from scipy.stats import norm

from custodes.data.outputs import SCHEMA, SOURCES, Outputs
from custodes.data.preferences import SCHEMA as VERDICTS
from custodes.data.preferences import Preferences
from custodes.data.probes import SCHEMA as PROBES
from custodes.data.raters import Raters
from custodes.data.ratings import SCHEMA as SCORES
from custodes.data.ratings import Ratings
from custodes.data.study import Study

SYSTEMS = np.array(["A", "B"])


def probed(
    planted: Mapping[str, float], *, contradicts: float, seed: int, items: int = 300, people: int = 0, rho: float = 0.0
) -> Study:
    """Judge that compares A and B in both orders, with different preferences in the proportion `contradicts` of
    repeats.

    `planted` changes the win rate by probe; `name` is the name of A, and `order` the first position. `people`
    annotators share half of the variance of quality; `rho` is the correlation of quality and log length.

    The judge's view of a pair is standard normal over pairs and repeats. Two views of a pair with correlation r have
    different signs with probability arccos(r) / pi (Sheppard 1899), and a shift d of the view changes the win rate by
    Phi(d) - 1/2.
    """
    rng = np.random.default_rng(seed)
    shared = np.cos(np.pi * contradicts)
    quality = rng.normal(size=(items, 2))
    gap = (quality[:, 0] - quality[:, 1]) * np.sqrt(shared / 2)
    slot = norm.ppf(0.5 + planted.get("order", 0.0) / 2)

    def wins(order: np.ndarray, shift: np.ndarray | float = 0.0) -> np.ndarray:
        """Whether A wins."""
        return gap + slot * order + shift + np.sqrt(1 - shared) * rng.normal(size=items) > 0

    names = np.array([f"i{i}" for i in range(items)])
    verdicts, probes = [], []
    places = {probe: rng.choice([1, -1], size=items) for probe in ("length", "format", "name")}
    for label, order in (("ab", np.ones(items)), ("ba", -np.ones(items))):
        plain = wins(order)
        base = {"item": names, "rater": "judge", "aspect": "", "order": label}
        signs = np.where(plain, 1, -1).astype(np.int8)
        pair = {"system_a": "A", "system_b": "B", "repeat": "0", "preference": signs}
        verdicts.append(pl.DataFrame({**base, **pair}))
        for probe, place in places.items():
            side = place * order  # 1: A is modified
            effect = norm.ppf(0.5 + planted.get(probe, 0.0))
            changed = wins(order, effect * side * ((side > 0) if probe == "name" else 1))
            system, against = (np.where(side == sign, *SYSTEMS) for sign in (1, -1))
            outcomes = {
                name: np.where(side > 0, won, ~won).astype(float)
                for name, won in (("plain", plain), ("changed", changed))
            }
            probes.append(pl.DataFrame({**base, "system": system, "against": against, "probe": probe, **outcomes}))
    length = rho * quality + np.sqrt(1 - rho**2) * rng.normal(size=quality.shape)
    words = np.maximum(1, np.round(np.exp(4 + 0.4 * length))).astype(int).ravel()
    outputs = {"item": np.repeat(names, 2), "system": np.tile(SYSTEMS, items)}
    scores = [
        pl.DataFrame(
            {**outputs, "rater": f"p{p}", "aspect": "", "repeat": "0"}
            | {"score": np.round(2 * (quality + rng.normal(size=quality.shape)).ravel())},
            schema=SCORES,
        )
        for p in range(people)
    ]
    texts = pl.DataFrame({**outputs, "text": ["w " * number for number in words]}, schema=SCHEMA)
    empty = pl.DataFrame(schema=VERDICTS)
    return Study(
        ratings=Ratings(frame=pl.concat(scores)) if scores else Ratings(),
        preferences=Preferences(frame=pl.concat([empty, *verdicts], how="diagonal")),
        probes=pl.concat(probes).select(list(PROBES)),
        raters=Raters.infer({**{f"p{p}": "human" for p in range(people)}, "judge": "metric"}),
        outputs=Outputs(texts=texts, sources=pl.DataFrame(schema=SOURCES)),
    )
