"""Findings about judges, with p-values adjusted for all tests of the study (Holm)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from custodes.evaluate.partiality_table import INCONCLUSIVE
from custodes.stats.intervals import Inference
from custodes.stats.sign_test import adjust

POSITION, LENGTH, OWN, FAILURES, CONFIDENCE = "position", "length", "own systems", "failures", "confidence"
PROBE = "probe"
POINTS = 100.0
"""Rates and margins are multiplied by this number, so that they are in points."""
FEWEST = 12
"""Minimum number of clusters of items for a test, and for the selection of a panel of judges."""
NEEDS = {
    POSITION: ("presentation order", "needs verdicts with a known order"),
    LENGTH: ("length", "needs texts of the outputs, and human ratings"),
    OWN: ("own systems", "needs a raters file that names the judge's own systems, and human ratings"),
    FAILURES: ("missing verdicts", "needs recorded queries without a verdict"),
    CONFIDENCE: ("confidence", "needs probabilities of verdicts, and human ratings"),
    PROBE: ("form of the text", "needs verdicts on rewritten outputs"),
}
"""Name of each kind of fault, and the data that its test needs, as texts for sentences."""

SAID = {
    POSITION: ("prefers what is shown first", "prefers what is shown second"),
    LENGTH: ("prefers longer outputs", "prefers shorter outputs"),
    OWN: ("prefers its own systems", "under-rates its own systems"),
    FAILURES: ("fails unevenly", "fails unevenly"),
    CONFIDENCE: ("is overconfident", "is underconfident"),
    PROBE: ("prefers the changed form", "prefers the plain form"),
}
"""For each kind of fault, the text of a finding with an estimate above 0, and the text of a finding with an estimate
below 0."""


class Finding(NamedTuple):
    """One test of a rater, by kind and factor (own system, probe, or property on which failures may depend)."""

    aspect: str
    rater: str
    kind: str
    factor: str = ""
    estimate: float = np.nan
    estimate_low: float = np.nan
    estimate_high: float = np.nan
    p_value: float = np.nan
    reason: str = ""


def margin_findings(
    aspect: str, kind: str, raters_and_factors: Iterable[tuple[str, str]], margin_tests: Inference, reason: str
) -> list[Finding]:
    """Return a finding for each rater and factor from the tests of margins; `reason` says why a test is undefined."""
    return [
        Finding(
            aspect,
            rater,
            kind,
            factor,
            float(POINTS * estimate),
            float(POINTS * low.clip(-1, 1)),
            float(POINTS * high.clip(-1, 1)),
            float(p_value),
            "" if np.isfinite(estimate) else reason,
        )
        for (rater, factor), estimate, low, high, p_value in zip(raters_and_factors, *margin_tests, strict=True)
    ]


def finding_rows(findings: Sequence[Finding], *, alpha: float) -> list[dict[str, Any]]:
    """Return the rows of the table `findings` with aspects; p-values are adjusted for all tests (Holm)."""
    p_values = np.array([finding.p_value for finding in findings], dtype=np.float64)
    rows = []
    for finding, adjusted_p_value in zip(findings, adjust(p_values, correction="holm"), strict=True):
        finding_text = INCONCLUSIVE if np.isnan(adjusted_p_value) else ""
        if adjusted_p_value <= alpha:
            finding_text = SAID[finding.kind][int(finding.estimate < 0)]
        rows.append(finding._asdict() | {"p_adjusted": adjusted_p_value, "finding": finding_text})
    return rows
