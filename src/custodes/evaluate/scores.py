"""Scores for one aspect, tie thresholds of scores, and checks of the annotators whose scores are averaged.

Only items with scores are stored; the arrays are expanded to all items on demand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from custodes.answers.shared_arguments import Ties
from custodes.data.comparisons import MOST_CELLS, Comparisons
from custodes.data.notes import Note, build_notes
from custodes.data.panel import label_codes
from custodes.data.raters import Scale
from custodes.data.study import Study
from custodes.errors import InputError, OptionError
from custodes.stats.accuracy import acc_eq
from custodes.stats.arrays import Floats, Ints, ReadOnlyArrays, make_read_only
from custodes.stats.bootstrap import with_point
from custodes.stats.partiality.scores import AnnotatorLevels, annotator_levels
from custodes.stats.ratios import mean_of_defined
from custodes.stats.system_scores import blocks_of, common_items

CALIBRATION_FOLDS = 5
_SNAPPED = 3.0  # standard errors within which an adjusted mean is rounded to a mean of ratings
_ORIGINS = 512  # number of candidates for the origin of rounded means
MOST_UNCERTAIN = 0.1
"""Largest standard error of the difference between two adjustments for severity that causes no warning. The unit is the
standard deviation of human scores."""
UNCERTAIN_RULE = "few-common-outputs"
UNLINKED_RULE = "unlinked-annotators"
"""Rule on outputs without a mean human score, because their annotators are not comparable with others."""
TIE = 1e-9
"""Human scores tie if they differ by at most this fraction of the range of the scale."""


class ScalesDifferError(OptionError):
    """Error for annotators whose scores cannot be averaged, because they use different scales."""


@dataclass(frozen=True, kw_only=True)
class ItemScores(ReadOnlyArrays):
    """Scores of the k items that have scores.

    `items` (k,) are the positions of these items among all `n_items` items, in ascending order. `persons` (annotators,
    k, systems) are the scores of annotators. `human` (k, systems) is their mean. `metrics` (metrics, k, systems) are
    the scores of metrics. Scores are NaN if not rated. `levels` are the severity levels of annotators (None if all
    annotators rated the same outputs). Means over outputs are adjusted by `levels` even if `human` is not adjusted.
    """

    items: NDArray[np.int64]
    n_items: int
    persons: Floats
    human: Floats
    metrics: Floats
    levels: AnnotatorLevels | None = None

    def spread(self, values: Floats) -> Floats:
        """Return values (..., k, systems) expanded to all items, (..., items, systems); NaN for items without scores.

        Raises `InputError` if the expanded values do not fit into memory, for example with millions of verdicts on
        hundreds of systems.
        """
        if len(self.items) == self.n_items:
            return values
        expanded_shape = (*values.shape[:-2], self.n_items, values.shape[-1])
        if 8 * np.prod(expanded_shape, dtype=np.float64) > MOST_CELLS:
            raise InputError(
                f"{self.n_items} items x {expanded_shape[-1]} systems do not fit into memory for a question about "
                "scores. Select fewer, or use leaderboard, favoritism, ranking or correction, which "
                "read only comparisons"
            )
        expanded_values = np.full(expanded_shape, np.nan)
        expanded_values[..., self.items, :] = values
        return make_read_only(expanded_values)

    def count_unpaired(self, human_comparisons: Comparisons) -> int:
        """Return the number of pairs of rated outputs of an item without a preference in `human_comparisons`.

        The human preferences may include preferences from verdicts on outputs without scores.
        """
        row_of_item = np.full(self.n_items, -1)
        row_of_item[self.items] = np.arange(len(self.items))
        # The last row stands for all items without scores.
        is_rated_output = np.pad(np.isfinite(self.persons).any(axis=0), ((0, 1), (0, 0)))
        n_rated_outputs, compared_rows = is_rated_output.sum(axis=1), row_of_item[human_comparisons.item]
        is_rated_pair = (
            is_rated_output[compared_rows, human_comparisons.first]
            & is_rated_output[compared_rows, human_comparisons.second]
        )
        return int((n_rated_outputs * (n_rated_outputs - 1) // 2).sum() - is_rated_pair.sum())

    def on(self, item_positions: NDArray[np.intp]) -> ItemScores:
        """Return the scores of the items at these positions, which are in ascending order."""
        _, kept_row_indices, new_item_indices = np.intersect1d(self.items, item_positions, return_indices=True)
        return replace(
            self,
            items=new_item_indices,
            n_items=len(item_positions),
            persons=self.persons[:, kept_row_indices],
            human=self.human[kept_row_indices],
            metrics=self.metrics[:, kept_row_indices],
        )


def tie_thresholds(
    ties: Ties, *, human_scores: Floats, human_tie_threshold: float, metric_scores: Floats, units: NDArray[np.int64]
) -> Floats:
    """Return the tie threshold of each metric on each item, (metrics, items).

    To calibrate thresholds, clusters are divided into folds. The threshold of an item is fitted on the other folds.
    """
    n_metrics, n_items = metric_scores.shape[:2]
    if ties != "calibrated" or not n_items:
        return np.full((n_metrics, n_items), 0.0 if isinstance(ties, str) else float(ties))
    n_units = int(units.max()) + 1
    fold_of_unit = np.arange(n_units) % CALIBRATION_FOLDS
    # One cluster would leave no data to fit, so its threshold is fitted on all data.
    fold_numbers = range(min(CALIBRATION_FOLDS, n_units) if n_units > 1 else 0)
    _, thresholds_of_fits = acc_eq(
        human_scores,
        metric_scores,
        human_tie=human_tie_threshold,
        units=units,
        weights=with_point(
            np.array([fold_of_unit != fold for fold in fold_numbers], dtype=np.float64).reshape(-1, n_units)
        ),
        item_weights=None,
    )
    return np.nan_to_num(thresholds_of_fits, nan=0.0)[np.minimum(1 + fold_of_unit[units], len(fold_numbers))].T


class HumanMeans(NamedTuple):
    """Means of annotators' scores, adjusted for severity if annotators rated different outputs. See `human_means`.

    `values` (items, systems) are the means. `adjustment_range` is the largest minus the smallest adjustment of an
    output, and `standard_error` the largest standard error of a difference of two adjustments. `n_excluded` is the
    number of rated outputs without a mean, and `n_sets` the number of sets of comparable annotators. `levels` is None
    if the errors of levels cannot be estimated, or if all annotators rated the same outputs.
    """

    values: Floats
    adjustment_range: float = 0.0
    standard_error: float = 0.0
    n_excluded: int = 0
    n_sets: int = 1
    levels: AnnotatorLevels | None = None

    def notes(self, suffix: str, aspect: str) -> list[Note]:
        """Return the notes on adjustments, and on annotators who are not comparable; `suffix` names the aspect."""
        return build_notes(
            (
                "severity-adjusted",
                self.adjustment_range > 0,
                f"annotators rated different outputs{suffix}, so mean human scores are adjusted for the severity of "
                f"annotators; the adjustments of outputs differ by up to {self.adjustment_range:.2g}, with a standard "
                f"error of up to {self.standard_error:.2g}. Intervals of statistics over systems include this error",
            ),
            (
                UNCERTAIN_RULE,
                self.standard_error > 0 and self.standard_error > MOST_UNCERTAIN * float(np.nanstd(self.values)),
                f"annotators rated few common outputs{suffix}, so their severity is uncertain"
                + (
                    f": its largest standard error is over {MOST_UNCERTAIN:.0%} of the standard deviation of human "
                    "scores. Only intervals of statistics over systems include this error"
                    if np.isfinite(self.standard_error)
                    else ", and mean human scores are not adjusted for severity"
                )
                + "; let annotators rate more common outputs",
            ),
            (
                UNLINKED_RULE,
                self.n_excluded,
                f"{self.n_excluded} outputs have no mean human score{suffix}, because no common outputs link their "
                "annotators to the annotators of other outputs of the item; let some annotators rate outputs of both "
                "groups of annotators",
            ),
            (
                "annotator-sets",
                self.n_sets if self.n_sets > 1 else 0,
                f"annotators form {self.n_sets} sets that no common outputs link{suffix}, so correlations over all "
                "outputs contain differences in severity between the sets",
            ),
            aspect=aspect,
        )


def human_means(annotator_scores: Floats) -> HumanMeans:
    """Return the mean scores over annotators, given scores (annotators, items, systems).

    If annotators rated different outputs, the mean level of the annotators of an output (see `annotator_levels`) is
    subtracted from the mean of the output. Two outputs with tied ratings stay tied if the adjustment changes their
    means only within the error of the levels. Annotators are comparable if a chain of outputs with several ratings
    connects them. On an item, only the outputs of one set of comparable annotators have a mean: the set that rated most
    outputs of the item. If several sets rated equally many outputs, the set with more ratings is used, then the set
    with higher ratings. The result therefore does not depend on the order of annotators. If the error of levels cannot
    be estimated, means are not adjusted.

    >>> harsh, lenient = np.array([[1.0, 2.0, 1.0, 2.0, 3.0, 4.0, np.nan], [3.0, 4.0, 3.0, 4.0, 5.0, 6.0, 5.0]])
    >>> human_means(np.array([[harsh], [lenient]])).values.round(2).tolist()
    [[2.0, 3.0, 2.0, 3.0, 4.0, 5.0, 4.0]]
    """
    unadjusted_means, has_rating = mean_of_defined(annotator_scores, axis=0), np.isfinite(annotator_scores)
    is_rated_output = has_rating.any(axis=0)
    is_active_annotator = has_rating.any(axis=(1, 2), keepdims=True)
    if np.array_equal(has_rating, is_active_annotator & is_rated_output):
        return HumanMeans(unadjusted_means)
    severity_levels, n_ratings = annotator_levels(annotator_scores), has_rating.sum(axis=0)
    output_adjustments, adjustment_variances = (
        mean_of_defined(np.where(has_rating, annotator_values[:, None, None], np.nan), axis=0)
        for annotator_values in (severity_levels.values, severity_levels.covariance.diagonal())
    )
    # Standard errors of the difference of two adjustments. Levels sum to 0, so their errors are negatively correlated.
    n_active_annotators = max(int(is_active_annotator.sum()), 2)
    standard_errors = np.sqrt(
        2 * n_active_annotators / (n_active_annotators - 1) * adjustment_variances / np.maximum(n_ratings, 1)
    )
    block_of_output = np.where(
        has_rating, blocks_of(common_items(has_rating.reshape(len(annotator_scores), -1).T))[:, None, None], -1
    ).max(axis=0, initial=-1)
    block_codes_by_size = sorted(
        np.unique(block_of_output[is_rated_output]).tolist(),
        key=lambda block_code: (
            (block_of_output == block_code).sum(),
            n_ratings[block_of_output == block_code].sum(),
            np.sort(unadjusted_means[block_of_output == block_code]).sum(),
        ),
        reverse=True,
    )
    # (blocks, items)
    n_outputs_of_block_and_item = np.stack(
        [(block_of_output == block_code).sum(axis=1) for block_code in block_codes_by_size]
    )
    is_comparable_output = is_rated_output & (
        block_of_output == np.array(block_codes_by_size)[n_outputs_of_block_and_item.argmax(axis=0), None]
    )
    comparable_means = HumanMeans(
        values=np.where(is_comparable_output, unadjusted_means, np.nan),
        standard_error=float(standard_errors[is_comparable_output].max()),
        n_excluded=int((is_rated_output & ~is_comparable_output).sum()),
        n_sets=len(np.unique(block_of_output[is_comparable_output])),
    )
    if not np.isfinite(comparable_means.standard_error):
        return comparable_means
    adjusted_means = _snap_to_steps(
        comparable_means.values - output_adjustments,
        n_ratings,
        _rating_step(annotator_scores),
        tolerances=_SNAPPED * standard_errors,
    )
    adjustment_range = float(np.ptp((adjusted_means - unadjusted_means)[is_comparable_output]))
    if adjustment_range <= TIE * np.ptp(unadjusted_means[is_comparable_output]):
        # Annotators do not differ significantly.
        return comparable_means._replace(levels=severity_levels)
    return comparable_means._replace(values=adjusted_means, adjustment_range=adjustment_range, levels=severity_levels)


def _rating_step(annotator_scores: Floats) -> float:
    """Return the smallest difference between two different scores of the same annotator; 0 if all are constant."""
    distinct_scores_of_annotators = [np.unique(scores[np.isfinite(scores)]) for scores in annotator_scores]
    return float(
        min(
            [
                score_gap
                for distinct_scores in distinct_scores_of_annotators
                if distinct_scores.size
                for score_gap in np.diff(distinct_scores)
                if score_gap > TIE * np.ptp(distinct_scores)
            ],
            default=0.0,
        )
    )


def _snap_to_steps(means: Floats, n_ratings: Ints, step: float, *, tolerances: Floats) -> Floats:
    """Return means of `n_ratings` ratings, rounded to multiples of step / n_ratings from an origin.

    A mean that differs from the nearest multiple by more than its tolerance is not rounded. The arrays are (items,
    systems). Without rounding, adjusted means would never tie, although means of ratings on a scale with few values
    often tie. The origin is chosen such that the means are as close as possible to multiples.
    """
    is_defined = np.isfinite(means)
    if not step or not is_defined.any():
        return means
    candidate_origins = means[is_defined].mean() + step * np.arange(_ORIGINS) / _ORIGINS
    closeness_of_origin = np.zeros(_ORIGINS)
    for n_output_ratings in np.unique(n_ratings[is_defined]).tolist():
        angle_per_unit = 2 * np.pi * n_output_ratings / step
        closeness_of_origin += (
            np.exp(1j * angle_per_unit * means[is_defined & (n_ratings == n_output_ratings)]).sum()
            * np.exp(-1j * angle_per_unit * candidate_origins)
        ).real
    origin, n_multiples_per_unit = candidate_origins[closeness_of_origin.argmax()], np.maximum(n_ratings, 1) / step
    rounded_means = origin + np.round((means - origin) * n_multiples_per_unit) / n_multiples_per_unit
    return np.where(np.abs(rounded_means - means) <= tolerances + step / _ORIGINS, rounded_means, means)


def score_table(scores: Floats, item_positions: NDArray[np.int64], thresholds: Floats) -> pl.DataFrame:
    """Return a row for each score by a rater who scored at least two outputs of the item.

    `scores` (raters, k, systems) are the scores of the items at `item_positions`, and `thresholds` (raters, k) are the
    tie thresholds.
    """
    has_score = np.isfinite(scores)
    rater_indices, item_row_indices, system_indices = np.nonzero(has_score & (has_score.sum(axis=2, keepdims=True) > 1))
    return pl.DataFrame(
        {
            "rater": rater_indices,
            "item": item_positions[item_row_indices],
            "system": system_indices,
            "score": scores[rater_indices, item_row_indices, system_indices],
            "threshold": thresholds[rater_indices, item_row_indices],
        },
        schema_overrides=dict.fromkeys(("rater", "item", "system"), pl.Int32),
    )


def verdict_table(
    verdicts: pl.DataFrame, raters: Sequence[str], items: Sequence[str], systems: Sequence[str]
) -> pl.DataFrame:
    """Return the merged verdicts with positions instead of labels; verdicts with unlisted labels are dropped."""
    labels_of_column = {"rater": raters, "item": items, "system_a": systems, "system_b": systems}
    return (
        verdicts.select(sign="preference", order="order")
        .with_columns(
            **{
                column_name: pl.Series(label_codes(verdicts[column_name], labels), dtype=pl.Int32)
                for column_name, labels in labels_of_column.items()
            }
        )
        .filter(pl.all_horizontal(pl.col(list(labels_of_column)) >= 0))
    )


def check_size(study: Study, shape: tuple[int, ...], n_bytes: int) -> None:
    """Raise `InputError` if scores or comparisons of `n_bytes` bytes do not fit into the memory of common computers.

    `shape` is the number of raters, items and systems.
    """
    if n_bytes > MOST_CELLS:
        n_raters, n_items, n_systems = shape
        raise InputError(
            f"{study.name}: {n_items} items x {n_systems} systems x {n_raters} raters do not fit "
            "into memory; select fewer, or count with custodes.count_pairs and give the counts to "
            "favoritism and ranking"
        )


def without_float_noise(values: Floats) -> Floats:
    """Return the means; means that differ only by floating-point error become equal, and NaN stays NaN.

    >>> without_float_noise(np.array([0.1 + 0.2, 0.3, 4.0])).tolist()
    [0.3, 0.3, 4.0]
    """
    distinct_values, distinct_index_of_value = np.unique(values, return_inverse=True)
    tolerance = TIE * np.ptp(distinct_values[np.isfinite(distinct_values)]) if np.isfinite(values).any() else 0.0
    is_same_as_previous = np.diff(distinct_values, prepend=-np.inf) <= tolerance
    first_index_of_level = np.maximum.accumulate(np.where(is_same_as_previous, 0, np.arange(len(distinct_values))))
    return np.asarray(distinct_values[first_index_of_level[distinct_index_of_value.reshape(values.shape)]])


def check_same_scale(study: Study, annotator_names: Sequence[str], annotator_scores: Floats, aspect_text: str) -> None:
    """Raise `ScalesDifferError` if annotators use different scales.

    `annotator_scores` (annotators, items, systems) are the scores of `annotator_names`; `aspect_text` names the aspect.
    """
    bounds_of_rater = study.raters.bounds
    annotators_and_scales = []
    for annotator, scores in zip(annotator_names, annotator_scores, strict=True):
        scale = Scale.from_scores(scores)
        if annotator in bounds_of_rater:
            low, high = bounds_of_rater[annotator]
            scale = Scale(low=low, high=high, declared=True)
        if scale.n:
            annotators_and_scales.append((annotator, scale))
    for annotator, scale in annotators_and_scales[1:]:
        first_annotator, first_scale = annotators_and_scales[0]
        if not scale.comparable(first_scale):
            raise ScalesDifferError(
                f"{first_annotator!r} ({first_scale.low:g} to {first_scale.high:g}) and {annotator!r} ({scale.low:g} "
                f"to {scale.high:g}) use different scales{aspect_text}, so their scores cannot be averaged; if a value "
                f"means missing, leave the cell empty; otherwise select annotators with human={first_annotator!r}"
            )
