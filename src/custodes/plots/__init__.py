"""The pictures: each takes a result and returns an Altair chart; `save` writes it without a browser.

    from custodes import plots

    plots.save(plots.agreement_intervals(cu.agreement(study)), "agreement.pdf")

Altair is loaded by the first picture, not by this import.
"""

from custodes.plots.agreement import agreement_intervals
from custodes.plots.confusion import confusion_matrix
from custodes.plots.correction import correction_margins, pair_outcome
from custodes.plots.decisions import error_types
from custodes.plots.favoritism import favoritism_and_accuracy, favoritism_by_system, favoritism_map
from custodes.plots.plan import power_curve
from custodes.plots.protocol import budget_curve
from custodes.plots.ranking import ranking_graphs
from custodes.plots.saving import FORMATS, save
from custodes.plots.theme import COLUMN_WIDTH, PAGE_WIDTH

__all__ = [
    "COLUMN_WIDTH",
    "FORMATS",
    "PAGE_WIDTH",
    "agreement_intervals",
    "budget_curve",
    "confusion_matrix",
    "correction_margins",
    "error_types",
    "favoritism_and_accuracy",
    "favoritism_by_system",
    "favoritism_map",
    "pair_outcome",
    "power_curve",
    "ranking_graphs",
    "save",
]
