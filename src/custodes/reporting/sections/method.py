"""Section: how the numbers were made, what was left out, and where the methods come from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from custodes.reporting.section import Context, Section

CITATIONS = (
    (
        "Favi-Score, sample and system accuracy, kinds of error",
        "P. von Däniken, J. Deriu, D. Tuggener, M. Cieliebak. Favi-Score: A Measure for Favoritism in Automated "
        "Preference Ratings for Generative AI Evaluation. ACL 2024.",
    ),
    (
        "acc_eq and calibrated ties",
        "D. Deutsch, G. Foster, M. Freitag. Ties Matter: Meta-Evaluating Modern Metrics with Pairwise Accuracy and "
        "Tie Calibration. EMNLP 2023.",
    ),
    (
        "Pairwise accuracy of system means",
        "T. Kocmi, C. Federmann, R. Grundkiewicz, M. Junczys-Dowmunt, H. Matsushita, A. Menezes. To Ship or Not to "
        "Ship: An Extensive Evaluation of Automatic Metrics for Machine Translation. WMT 2021.",
    ),
    (
        "Soft pairwise accuracy",
        "B. Thompson, N. Mathur, D. Deutsch, H. Khayrallah. Improving Statistical Significance in Human Evaluation "
        "of Automatic Metrics via Soft Pairwise Accuracy. WMT 2024.",
    ),
    (
        "Corrected decisions, annotation protocol",
        "J. Deriu, P. von Däniken, D. Tuggener, M. Cieliebak. Correction of Errors in Preference Ratings from "
        "Automated Metrics for Text Generation. Findings of ACL 2023.",
    ),
    (
        "Boundaries for repeated looks",
        "S. J. Pocock. Group Sequential Methods in the Design and Analysis of Clinical Trials. Biometrika 64(2), 1977.",
    ),
    (
        "Complementarity, the glass ceiling",
        "P. Colombo, M. Peyrard, N. Noiry, R. West, P. Piantanida. The Glass Ceiling of Automatic Evaluation in "
        "Natural Language Generation. Findings of IJCNLP-AACL 2023.",
    ),
    (
        "Combined metrics",
        "G. I. Winata, D. Anugraha, L. Susanto, G. Kuwanto, D. T. Wijaya. MetaMetrics: Calibrating Metrics for "
        "Generation Tasks Using Human Preferences. 2024.",
    ),
    (
        "Sign test with ties",
        "C. W. Coakley, M. A. Heise. Versions of the Sign Test in the Presence of Ties. Biometrics 52(4), 1996.",
    ),
)


def _build(context: Context) -> Mapping[str, Any]:
    """Provenance, formulas in words, citations, and everything left out."""
    alone = not context.metrics
    noted = {(note.rule, note.message): note.count for result in context.results.values() for note in result.notes}
    return {
        "provenance": [(question, str(result.provenance)) for question, result in context.results.items()],
        "asked": context.results["leaderboard" if alone else "agreement"].provenance.options,
        "alone": alone,
        "noted": [(rule, message, count) for (rule, message), count in noted.items()],
        "citations": CITATIONS,
        "downloads": [
            f"{question}.{name}" for question, result in context.results.items() for name in result.declared()
        ],
    }


METHOD = Section(question="method", title="How these numbers were made", build=_build, alone=True)
