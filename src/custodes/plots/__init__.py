"""Figures: each function takes a result and returns an Altair chart; `save` writes a chart to a file without a browser.

    from custodes import plots

    plots.save(plots.agreement_intervals(cu.agreement(study)), "agreement.pdf")

This module does not import Altair. Altair is imported when the first figure is drawn.
"""

from custodes.plots.agreement import agreement_intervals
from custodes.plots.annotators import annotator_competence
from custodes.plots.ceiling import forward_path, information_ratio, lasso_paths, prediction_bars, release_history
from custodes.plots.combine import (
    combination_weights,
    method_comparison,
)
from custodes.plots.complementarity import (
    complementarity_averages,
    complementarity_map,
    explained_variance,
    judges_map,
)
from custodes.plots.confusion import confusion_matrix
from custodes.plots.consistency import judge_calibration, judge_faults, order_confusion, order_flips
from custodes.plots.correction import correction_margins
from custodes.plots.favoritism import favoritism_and_accuracy, favoritism_by_system, partiality_map
from custodes.plots.favoritism_of_pairs import favoritism_of_pairs
from custodes.plots.leaderboard import leaderboard_strengths, win_rate_map
from custodes.plots.protocol import annotations_and_kld, budget_curve, power_curve
from custodes.plots.ranking import error_types, ranking_graphs
from custodes.plots.rates import error_rates_by_slice, label_matrix, rates, reliability_curve, roc_curve
from custodes.plots.saving import FORMATS, save
from custodes.plots.theme import COLUMN_WIDTH, PAGE_WIDTH
from custodes.plots.trade_off import trade_off_curve

__all__ = [
    "COLUMN_WIDTH",
    "FORMATS",
    "PAGE_WIDTH",
    "agreement_intervals",
    "annotations_and_kld",
    "annotator_competence",
    "budget_curve",
    "combination_weights",
    "complementarity_averages",
    "complementarity_map",
    "confusion_matrix",
    "correction_margins",
    "error_rates_by_slice",
    "error_types",
    "explained_variance",
    "favoritism_and_accuracy",
    "favoritism_by_system",
    "favoritism_of_pairs",
    "forward_path",
    "information_ratio",
    "judge_calibration",
    "judge_faults",
    "judges_map",
    "label_matrix",
    "lasso_paths",
    "leaderboard_strengths",
    "method_comparison",
    "order_confusion",
    "order_flips",
    "partiality_map",
    "power_curve",
    "prediction_bars",
    "ranking_graphs",
    "rates",
    "release_history",
    "reliability_curve",
    "roc_curve",
    "save",
    "trade_off_curve",
    "win_rate_map",
]
