"""Labels of one judge, with a confidence that comes from scores, a column, or the agreement of repeats or judges."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from custodes.data.mapping.column_vocabulary import CONFIDENCES, split_name
from custodes.data.notes import Note, build_notes
from custodes.data.raters import EXPECTED_SUFFIX
from custodes.data.study import Study, select_aspect_rows
from custodes.errors import InputError, OptionError
from custodes.evaluate.rates.outputs import KEY, LabelledOutputs, is_confidence
from custodes.evaluate.slices import values_of
from custodes.stats.arrays import Bools, Floats, Ints
from custodes.stats.rates.scores import ThresholdTarget, roc
from custodes.stats.ratios import ratio

SEPARATING = 0.5
"""If scores separate the judge's labels with a Youden index of at least this value, the scores count as scores of the
positive label."""

ROUNDING = 1e-9
"""Relative rounding error of a confidence."""

REPEATS, JUDGES = "repeats", "judges"


@dataclass(frozen=True, kw_only=True)
class JudgedOutputs:
    """Outputs with a label of one judge.

    Attributes
    ----------
    outputs : LabelledOutputs
        The outputs with a label of the judge.
    metric, signal : str
        Names of the judge and of the measure of confidence.
    codes : int array of shape (n,)
        Codes of the judge's labels.
    certainty : array of shape (n,)
        Confidence in the label; -inf if unknown.
    notes : list of Note
    """

    outputs: LabelledOutputs
    metric: str
    signal: str
    codes: Ints
    certainty: Floats
    notes: list[Note]

    @property
    def wrong(self) -> Bools:
        """Whether the human label differs from the judge's label, (n,); False without a human label. A tie of
        annotators counts as different from both labels, so that the upper bound of the disagreement holds."""
        return np.asarray(self.outputs.gold[np.arange(len(self.codes)), self.codes] <= 0.5)

    def is_confident(self, threshold: float) -> Bools:
        """Return whether the confidence reaches a threshold, up to rounding, (n,)."""
        return (self.certainty >= threshold) | np.isclose(self.certainty, threshold, rtol=ROUNDING, atol=0)


def judged_outputs(study: Study, outputs: LabelledOutputs, judge: int, signal: str | None) -> JudgedOutputs:
    """Return the labels of a judge with the confidence of the judge.

    Parameters
    ----------
    study : Study
    outputs : LabelledOutputs
        Outputs with two labels.
    judge : int
        Position of the metric that gives the labels.
    signal : str or None
        Measure of confidence: a metric that gives scores, a column of outputs, `repeats` or `judges`. The default is
        the first available of five measures: the scores of the judge itself (named with `EXPECTED_SUFFIX`), the only
        metric that gives scores, the only column of the judge's confidence, `repeats`, and `judges`.

    Raises
    ------
    InputError
        If an item has several outputs, or if the confidence of all outputs is unknown.
    OptionError
        If there is no measure of confidence.
    """
    metric, judge_label_codes = outputs.metrics[judge], outputs.judged[judge]
    is_judged_output = ~np.isnan(judge_label_codes)
    outputs_with_judge_label = outputs.only(is_judged_output)
    if outputs_with_judge_label.table["item"].is_duplicated().any():
        raise InputError(
            "route: some items have several outputs, but probabilities are given by item; select one system with "
            "systems=NAME, or give each output a separate item"
        )
    label_codes_of_judged = judge_label_codes[is_judged_output].astype(np.intp)
    signal_name = signal or _signal(study, outputs_with_judge_label, judge)
    signal_note_text = ""
    if signal_name == REPEATS:
        confidence_of_output = _modal_label_share(study, outputs_with_judge_label, metric)
    elif signal_name == JUDGES:
        labels_of_judges = outputs_with_judge_label.judged[~outputs_with_judge_label.is_score]
        confidence_of_output = ratio(
            (labels_of_judges == outputs_with_judge_label.judged[judge]).sum(axis=0),
            (~np.isnan(labels_of_judges)).sum(axis=0),
        )
    else:
        confidence_of_output, signal_note_text = _certainty(
            _column(study, outputs_with_judge_label, signal_name),
            label_codes_of_judged,
            signal_name,
            positive_label=outputs_with_judge_label.words[1],
        )
    if not np.isfinite(confidence_of_output).any():
        raise InputError(
            f"route: {signal_name} has no confidence for the labels of {metric}; name another measure with signal=NAME"
        )
    return JudgedOutputs(
        outputs=outputs_with_judge_label,
        metric=metric,
        signal=signal_name,
        codes=label_codes_of_judged,
        certainty=np.where(np.isfinite(confidence_of_output), confidence_of_output, -np.inf),
        notes=build_notes(("signal", bool(signal_note_text), signal_note_text), aspect=outputs_with_judge_label.aspect),
    )


def _signal(study: Study, outputs: LabelledOutputs, judge: int) -> str:
    metric = outputs.metrics[judge]
    score_metrics = [
        metric_name for metric_name, is_score in zip(outputs.metrics, outputs.is_score, strict=True) if is_score
    ]
    if metric + EXPECTED_SUFFIX in score_metrics:
        return metric + EXPECTED_SUFFIX
    if len(score_metrics) == 1:
        return score_metrics[0]
    confidence_columns = _confidence_columns(study, metric, is_only_judge=len(outputs.metrics) == 1)
    if len(confidence_columns) == 1:
        return confidence_columns[0]
    if not score_metrics and _rating_rows(study, outputs, metric).select(KEY).is_duplicated().any():
        return REPEATS
    if not score_metrics and len(outputs.metrics) > 1:
        return JUDGES
    raise OptionError(
        f"route needs a measure of the confidence of {metric}; give signal=NAME with a metric that gives "
        "scores, a column of numbers, repeats or judges"
    )


def _confidence_columns(study: Study, metric: str, *, is_only_judge: bool) -> list[str]:
    """Return the columns of outputs that hold the confidence of a judge, such as `judge_confidence` for the judge
    `judge_label`. If no column names the only judge, all columns of confidence are returned."""
    attribute_columns = [] if study.attributes is None else study.attributes.columns
    words_of_column = {
        column_name: set(split_name(column_name))
        for column_name in attribute_columns
        if CONFIDENCES & set(split_name(column_name))
    }
    columns_of_judge = [
        column_name
        for column_name, column_words in words_of_column.items()
        if column_words - CONFIDENCES <= set(split_name(metric))
    ]
    return columns_of_judge or (list(words_of_column) if is_only_judge else [])


def _rating_rows(study: Study, outputs: LabelledOutputs, metric: str) -> pl.DataFrame:
    return (
        select_aspect_rows(study.ratings.frame, outputs.aspect).filter(pl.col("rater") == metric).select(*KEY, "score")
    )


def _modal_label_share(study: Study, outputs: LabelledOutputs, metric: str) -> Floats:
    """Return, for each output, the proportion of repeats that give the output's most frequent label."""
    vote_count_rows = _rating_rows(study, outputs, metric).group_by(*KEY, "score").len()
    modal_share_rows = vote_count_rows.group_by(KEY).agg(pl.col("len").max() / pl.col("len").sum())
    modal_shares = outputs.table.join(modal_share_rows, on=KEY, how="left", maintain_order="left")["len"]
    return modal_shares.fill_null(np.nan).to_numpy()


def _column(study: Study, outputs: LabelledOutputs, signal_name: str) -> Floats:
    if signal_name in outputs.metrics:
        return np.asarray(outputs.judged[outputs.metrics.index(signal_name)])
    signal_series = values_of(study, outputs.table, signal_name, option="signal")
    numeric_series = signal_series.cast(pl.Float64, strict=False)
    if numeric_series.null_count() > signal_series.null_count():
        raise OptionError(f"signal={signal_name!r}: must be a column of numbers")
    return numeric_series.fill_null(np.nan).to_numpy()


def _certainty(
    signal_values: Floats, label_codes: Ints, signal_name: str, *, positive_label: str
) -> tuple[Floats, str]:
    """Return the confidence in the label, and a note.

    `signal_values` are either confidence in the judge's label, or scores of the positive label.
    """
    has_signal_value = np.isfinite(signal_values)
    if not has_signal_value.any():
        return signal_values, ""
    known_values, positive_shares = signal_values[has_signal_value], label_codes[has_signal_value].astype(np.float64)
    roc_curve = roc(known_values, positive_shares)
    is_signal_separating = np.nan_to_num(roc_curve.tpr - roc_curve.fpr).max(initial=0.0) >= SEPARATING
    if is_confidence(signal_name) or not is_signal_separating:
        return signal_values, f"{signal_name} is read as the confidence of the judge in its label"
    score_cutoff = ThresholdTarget.parse("youden").threshold(known_values, positive_shares)
    return np.abs(signal_values - score_cutoff), (
        f"{signal_name} is read as a score of {positive_label!r}, and the distance from {score_cutoff:.3g} is the "
        "confidence; to give the confidence itself, use a column with 'confidence' in its name"
    )
