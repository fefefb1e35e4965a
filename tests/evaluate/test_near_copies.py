from __future__ import annotations

import numpy as np
import pytest

import custodes as cu
from custodes.data.study import Study
from custodes.evaluate.partiality_table import DISFAVOURED, FAVOURED, NEAR_COPY, near_copies
from custodes.evaluate.rater_comparison import compare
from tests.evaluate.studies import study_of


def noisy_study(seed: int) -> Study:
    """Return a study of metrics with increasing noise on one quality, with ties and missing scores."""
    rng = np.random.default_rng(seed)
    quality = rng.normal(size=(30, 6))
    scores = np.stack([quality + noise * rng.normal(size=(30, 6)) for noise in (0.5, 0.1, 0.2, 0.3, 0.5, 1.0)])
    scores[3] = np.round(scores[3], 1)
    scores[4, :12, 2] = np.nan
    return study_of(scores)


@pytest.mark.parametrize("study", [cu.read("demo"), noisy_study(0), noisy_study(1)], ids=["demo", "noisy", "other"])
def test_distances_are_those_of_complementarity(study: Study) -> None:
    aspect = study.aspects[0]
    (comparison,) = compare(study, aspect=aspect)
    names, n_systems = comparison.metrics, len(comparison.systems)
    pairs = cu.complementarity(study, aspect=aspect, resamples=0).pairs.filter(kind_a="metric", kind_b="metric")
    near = {
        frozenset(name.removesuffix(f":{aspect}") for name in (row["rater_a"], row["rater_b"]))
        for row in pairs.to_dicts()
        if row["complementarity"] <= NEAR_COPY
    }
    assert near
    assert len(near) < pairs.height
    # Every metric over-rates the first system, the last metric under-rates the second one, and there are no other
    # findings.
    finding = [FAVOURED if k % n_systems == 0 else "" for k in range(len(names) * n_systems)]
    finding[-n_systems + 1] = DISFAVOURED
    copies = near_copies(comparison, finding)
    for m, name in enumerate(names):
        expected = {copy for copy in names if frozenset((name, copy)) in near and copy != name}
        assert set(copies[m * n_systems]) == expected
        assert not any(copies[m * n_systems + 1 : (m + 1) * n_systems])
