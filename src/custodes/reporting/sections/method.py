"""Section: methods, references, and data left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from custodes.data.notes import merge_notes
from custodes.reporting.section import Context, Section

CITATIONS = (
    (
        "Favi-Score, sample and system accuracy, kinds of error",
        "P. von Däniken, J. Deriu, D. Tuggener, M. Cieliebak. Favi-Score: A Measure for Favoritism in Automated "
        "Preference Ratings for Generative AI Evaluation. ACL 2024.",
        ("agreement", "favoritism", "combine"),
    ),
    (
        "acc_eq and calibrated ties",
        "D. Deutsch, G. Foster, M. Freitag. Ties Matter: Meta-Evaluating Modern Metrics with Pairwise Accuracy and "
        "Tie Calibration. EMNLP 2023.",
        ("agreement",),
    ),
    (
        "Pairwise accuracy of system means",
        "T. Kocmi, C. Federmann, R. Grundkiewicz, M. Junczys-Dowmunt, H. Matsushita, A. Menezes. To Ship or Not to "
        "Ship: An Extensive Evaluation of Automatic Metrics for Machine Translation. WMT 2021.",
        ("agreement",),
    ),
    (
        "Soft pairwise accuracy",
        "B. Thompson, N. Mathur, D. Deutsch, H. Khayrallah. Improving Statistical Significance in Human Evaluation "
        "of Automatic Metrics via Soft Pairwise Accuracy. WMT 2024.",
        ("agreement",),
    ),
    (
        "Corrected decisions, annotation protocol",
        "J. Deriu, P. von Däniken, D. Tuggener, M. Cieliebak. Correction of Errors in Preference Ratings from "
        "Automated Metrics for Text Generation. Findings of ACL 2023.",
        ("correction", "protocol", "plan"),
    ),
    (
        "Boundaries for interim analyses",
        "S. J. Pocock. Group Sequential Methods in the Design and Analysis of Clinical Trials. Biometrika 64(2), 1977.",
        ("protocol", "plan"),
    ),
    (
        "Complementarity, the glass ceiling",
        "P. Colombo, M. Peyrard, N. Noiry, R. West, P. Piantanida. The Glass Ceiling of Automatic Evaluation in "
        "Natural Language Generation. Findings of IJCNLP-AACL 2023.",
        ("complementarity", "ceiling"),
    ),
    (
        "Combined metrics",
        "G. I. Winata, D. Anugraha, L. Susanto, G. Kuwanto, D. T. Wijaya. MetaMetrics: Calibrating Metrics for "
        "Generation Tasks Using Human Preferences. 2024.",
        ("combine",),
    ),
    (
        "Corrected rates",
        "D. Holt, T. M. F. Smith. Post Stratification. Journal of the Royal Statistical Society A 142(1), 1979; W. J. "
        "Rogan, B. Gladen. Estimating Prevalence from the Results of a Screening Test. American Journal of "
        "Epidemiology 107(1), 1978; L. D. Brown, T. T. Cai, A. DasGupta. Interval Estimation for a Binomial "
        "Proportion. Statistical Science 16(2), 2001.",
        ("rates",),
    ),
    (
        "Sign test with ties",
        "C. W. Coakley, M. A. Heise. Versions of the Sign Test in the Presence of Ties. Biometrics 52(4), 1996.",
        ("ranking",),
    ),
    (
        "Strengths with ties",
        "R. R. Davidson. On Extending the Bradley-Terry Model to Accommodate Ties in Paired Comparison Experiments. "
        "Journal of the American Statistical Association 65(329), 1970.",
        ("leaderboard",),
    ),
)
"""Subject, source, and the questions that use the source."""


def _build(context: Context) -> Mapping[str, Any]:
    """The values of the template: provenance, methods in words, citations, and notes on left-out data."""
    has_rates = "rates" in context.results
    has_no_metric_comparison = has_rates or not context.metrics or not context.has_people
    settings_question = next(
        question for question in ("agreement", "leaderboard", "rates") if question in context.results
    )
    return {
        "provenance": [(question, str(result.provenance)) for question, result in context.results.items()],
        "settings": context.results[settings_question].provenance.options,
        "alone": has_no_metric_comparison,
        "labels": has_rates,
        "noted": merge_notes(note for result in context.results.values() for note in result.notes),
        "citations": [
            (subject, source)
            for subject, source, questions in CITATIONS
            if not set(questions).isdisjoint(context.results)
        ],
        "downloads": [
            f"{question}.{table_name}"
            for question, result in context.results.items()
            for table_name in result.table_declarations()
        ],
    }


METHOD = Section(
    question="method",
    title="Methods, references and left-out data",
    build=_build,
    pages=("both", "humans", "metrics", "labels"),
)
