"""Power, false positive rate and coverage for planted effects of probes."""

from __future__ import annotations

from collections import Counter

import pytest

import custodes as cu
from tests.simulation.probed_judges import probed
from tests.simulation.rates import is_at_most

STUDIES = 200
EFFECT = 0.1
PROBES = {"order": "", "length": "length", "format": "format", "name": "name: A"}
"""Name in `findings` of each planted effect."""

WORLDS = {
    "a steady judge": {"contradicts": 0.05},
    "an unsteady judge": {"contradicts": 0.2},
    "quality goes with length": {"contradicts": 0.05, "people": 2, "rho": 0.8},
    "few items": {"contradicts": 0.2, "items": 25},
}


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
def test_a_judge_without_effects_is_rarely_accused(world: str) -> None:
    false = 0
    for seed in range(STUDIES):
        findings = cu.consistency(probed({}, seed=seed, **WORLDS[world]), resamples=0).findings  # type: ignore[arg-type]
        false += findings.filter(rater="judge")["finding"].str.starts_with("prefers").any()
    assert is_at_most(false, STUDIES), false


@pytest.mark.slow
@pytest.mark.parametrize(("contradicts", "power"), [(0.05, 0.95), (0.2, 0.7)])
def test_ten_points_are_found_and_covered(contradicts: float, power: float) -> None:
    result, covered = Counter[str](), Counter[str]()
    for seed in range(STUDIES):
        study = probed(dict.fromkeys(PROBES, EFFECT), contradicts=contradicts, seed=10**6 + seed)
        outcome = cu.consistency(study, resamples=0)
        result.update(outcome.findings.filter(finding="prefers the changed form")["factor"].to_list())
        result[""] += outcome.findings.filter(finding="prefers what is shown first").height
        for row in outcome.findings.filter(kind="probe").to_dicts():
            true = 0.0 if row["factor"] == "name: B" else 100 * EFFECT
            covered[row["factor"]] += row["estimate_low"] <= true <= row["estimate_high"]
    for factor in PROBES.values():
        assert result[factor] / STUDIES >= power, result
    assert is_at_most(result["name: B"], STUDIES), result
    for probe, number in covered.items():
        assert number / STUDIES >= 0.9, (probe, covered)  # .95 less about three standard errors
