from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import custodes as cu
from custodes.evaluate.rater_comparison import compare
from custodes.stats import ABSENT
from custodes.stats.bootstrap import bootstrap_weights, unit_sums

WMT = "wmt23-en-de/mt-metrics-eval-v2.wmt23.en-de.tar.gz"


@pytest.mark.parametrize(("human", "effect", "decided"), [("mqm", 1.29, 67), ("da-sqm", 2.70, 46)])
def test_people_by_document(shared_data: Path, human: str, effect: float, decided: int) -> None:
    study = cu.read(shared_data / WMT)
    rows = cu.ranking(study, human=human, metrics="BLEU*", resamples=0).decisions.filter(rater="human")
    assert rows["design_effect"].mean() == pytest.approx(effect, abs=0.005)
    assert (rows["decision"] != "=").sum() == decided

    (comparison,) = compare(study, human=human, metrics="BLEU*")
    signs, units = comparison.human_signs, comparison.design.units
    signs = signs[(signs != ABSENT).any(axis=1)]
    rated = signs != ABSENT
    sums = unit_sums(np.stack([np.where(rated, signs, 0), rated]), units=units, n_units=comparison.design.n_units)
    times = bootstrap_weights(comparison.design.n_units, 2000, np.random.default_rng(0))[1:]
    total, number = times @ sums[0].T, times @ sums[1].T
    outcomes = np.where(rated, signs, np.nan)
    expected = (total / number).var(axis=0) / (np.nanvar(outcomes, axis=1) / rated.sum(axis=1))
    assert np.maximum(expected, 1).mean() == pytest.approx(effect, rel=0.05)
