"""How often a verdict without human ratings reports a preference for length of judges that have none."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.evaluate.verdict.metrics import _length_preferences

DESIGNS = {
    "few items": {"items": 15, "systems": 2, "judges": 6, "spread": 0.6, "common": 1.0, "tie": 0.0},
    "skewed lengths": {"items": 40, "systems": 3, "judges": 5, "spread": 1.5, "common": 1.0, "tie": 0.3},
    "many systems": {"items": 30, "systems": 6, "judges": 4, "spread": 0.8, "common": 0.5, "tie": 0.0},
    "unrelated judges": {"items": 100, "systems": 2, "judges": 10, "spread": 0.5, "common": 0.0, "tie": 0.2},
}
"""Size of a study, standard deviation of log lengths, weight of the quality that all judges see, and limit of ties."""


def study(
    rng: np.random.Generator,
    *,
    items: int,
    systems: int,
    judges: int,
    spread: float,
    common: float,
    tie: float,
    effect: float = 0.0,
) -> cu.Study:
    """Return verdicts of judges on texts whose length changes the preferences by `effect` per unit of log length."""
    words = np.maximum(1, np.round(np.exp(3 + spread * rng.normal(size=(items, systems))))).astype(int)
    quality = rng.normal(size=systems) * 0.7 + common * rng.normal(size=(items, systems)) + effect * np.log(words)
    rows = []
    for judge in range(judges):
        value = quality + rng.normal(size=(items, systems))
        for a, b in zip(*np.triu_indices(systems, 1), strict=True):
            difference = value[:, a] - value[:, b]
            winner = np.where(np.abs(difference) < tie, "tie", np.where(difference > 0, "model_a", "model_b"))
            rows += [(f"i{i}", f"s{a}", f"s{b}", f"j{judge}", "metric", winner[i]) for i in range(items)]
    verdicts = pl.DataFrame(rows, schema=["item", "model_a", "model_b", "rater", "kind", "winner"], orient="row")
    texts = [(f"i{i}", f"s{k}", "w " * int(words[i, k])) for i in range(items) for k in range(systems)]
    return cu.read(verdicts, pl.DataFrame(texts, schema=["item", "system", "text"], orient="row"))


def reported(design: str, *, studies: int, effect: float) -> float:
    """Return the proportion of studies with a sentence on a preference for length."""
    rngs = [np.random.default_rng([7, seed]) for seed in range(studies)]
    results = [cu.consistency(study(rng, **DESIGNS[design], effect=effect), resamples=20) for rng in rngs]
    return float(np.mean([any(_length_preferences({"consistency": result}, "")) for result in results]))


@pytest.mark.slow
@pytest.mark.parametrize("design", DESIGNS)
def test_judges_without_a_preference_for_length_are_rarely_named(design: str) -> None:
    # Unadjusted intervals would name a judge in .10 to .29 of these studies.
    assert reported(design, studies=300, effect=0.0) <= 0.06


@pytest.mark.slow
def test_a_preference_for_length_is_found() -> None:
    assert reported("many systems", studies=50, effect=1.0) > 0.9
