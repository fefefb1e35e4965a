"""Agreement of predictions with annotators over a fixed set of pairs of outputs, for several kinds of held-out data.

The results include the influence of each cluster of items, system, and data set. An output is compared with other
outputs by a model that was not trained on the output's item. If requested, the model was also not trained on the system
or the data set of the output. All kinds of held-out data therefore use the same pairs, and only the training data
differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Bools, Floats, Ints
from custodes.stats.bootstrap import unit_sums
from custodes.stats.learning.objective import Objective
from custodes.stats.learning.pair_sums import pair_sums
from custodes.stats.ratios import mean_of_defined, ratio

Over = Literal["units", "systems", "blocks"]

_ROUNDING = 1e-12


class Moves(NamedTuple):
    """A statistic of predictions (m,), NaN if undefined, with influences.

    The influences are those of each cluster of items (units, m), system (systems, m), output (outputs, m) and block
    (blocks, m). The sum of the squared influences of one kind estimates the variance of the statistic over samples of
    this kind. `freedom` contains the degrees of freedom of the variances over units, over systems, and over blocks.
    """

    value: Floats
    units: Floats
    systems: Floats
    outputs: Floats
    blocks: Floats
    freedom: NDArray[Any]

    @classmethod
    def mean(cls, repetitions: Sequence[Moves]) -> Moves:
        """Mean of the statistics and of their influences over repetitions."""
        return cls(*(np.asarray(np.mean(field_arrays, axis=0)) for field_arrays in zip(*repetitions, strict=True)))

    def contrast(self, first_indices: Ints, second_indices: Ints | None = None) -> Moves:
        """Statistic of the predictions `first_indices` minus the statistic of the predictions `second_indices`, with
        influences.

        Without `second_indices`, the result is the statistic of the predictions `first_indices`.
        """
        differences = (
            array[..., first_indices] - (0.0 if second_indices is None else array[..., second_indices])
            for array in self[:-1]
        )
        return Moves(*(*differences, self.freedom))

    def interval(self, over: Over, *, confidence: float, folds: tuple[int, int] = (0, 0)) -> tuple[Floats, Floats]:
        """Confidence interval of the statistic: lower and upper bounds, (m,) each.

        `over` is what the interval generalises to: other clusters of items ('units'), other clusters of items and other
        systems ('systems'), or other blocks ('blocks'). The bounds are NaN with fewer than two clusters, systems or
        blocks.

        `folds` are the number of folds of items and the number of folds of systems or blocks; 0 means that there are no
        such folds. Models of different folds have nearly the same training data, so their errors are correlated. To
        account for correlated errors, variances are multiplied by 1 + folds / (folds - 1). The interval uses Student's
        t. For systems, the variance is the sum of the variances over clusters of items and over systems, minus the
        variance over outputs, which both variances contain. The result is never below the larger of the two variances,
        and has Satterthwaite's degrees of freedom. No interval is narrower than the interval over items.

        Source: Nadeau and Bengio 2003 (the factor); Cameron, Gelbach and Miller 2011 (clusters of two kinds).
        """
        items_factor, others_factor = (1 + n_folds / (n_folds - 1) if n_folds > 1 else 1.0 for n_folds in folds)
        units_variance, systems_variance, outputs_variance, blocks_variance = (
            factor * (influences**2).sum(axis=0)
            for factor, influences in zip((items_factor, others_factor, 1.0, others_factor), self[1:-1], strict=True)
        )
        units_freedom, systems_freedom, blocks_freedom = self.freedom
        half_width = _half_width(units_variance, units_freedom, confidence)
        # An interval over more than items is at least as wide as that over items.
        if over == "blocks":
            half_width = np.maximum(half_width, _half_width(blocks_variance, blocks_freedom, confidence))
        if over == "systems":
            variances, freedoms = np.stack([units_variance, systems_variance]), self.freedom[:2, np.newaxis]
            variance = np.maximum(variances.sum(axis=0) - outputs_variance, variances.max(axis=0))
            freedom = ratio(variances.sum(axis=0) ** 2, (variances**2 / np.maximum(freedoms, 1)).sum(axis=0))
            freedom = np.nan_to_num(freedom, nan=1.0) * (systems_freedom > 0)
            half_width = np.maximum(half_width, _half_width(variance, freedom, confidence))
        return self.value - half_width, self.value + half_width

    def columns(
        self, name: str, over: Over, *, confidence: float, folds: tuple[int, int] = (0, 0)
    ) -> dict[str, Floats]:
        """Statistic and bounds of its `interval` as the columns of a table, with the suffixes `_low` and `_high`."""
        low, high = self.interval(over, confidence=confidence, folds=folds)
        return {name: self.value, f"{name}_low": low, f"{name}_high": high}


def _half_width(variance: Floats, freedom: Floats | int, confidence: float) -> Floats:
    """Half-width of an interval; NaN without degrees of freedom."""
    from scipy.special import stdtrit

    quantile = stdtrit(np.where(np.asarray(freedom) > 0, freedom, np.nan), (1 + confidence) / 2)
    return np.asarray(quantile * np.sqrt(variance))


def moves(
    kind: Objective,
    human: Floats,
    predicted: Floats,
    *,
    model: Ints,
    within: Ints,
    block: Ints,
    units: Ints,
    n_units: int,
) -> Moves:
    """Agreement of held-out predictions with human scores, and the influence of each unit on this agreement.

    Every output is compared by a model that was not trained on it. `human` (items, systems) is NaN if not used.
    `predicted` (m, models, items, systems) is finite where `human` is finite. `model` (items, systems) is the model
    that compares an output with other outputs. Only outputs with the same value in `within` (items, systems) are
    compared. The statistic is computed in each block and averaged over blocks. `block` (items, systems) is the block of
    each output; outputs with the same value in `within` share a block. `units` (items,) is the cluster of each
    item. Nothing is refitted.

    The statistic is Daniels' coefficient over the compared pairs of outputs. The coefficient uses signs (`kendall`,
    tau-b), ranks (`spearman`) or values (`pearson`). `accuracy` is the proportion of pairs of one item (without human
    ties) that are in the human order. If one model made all predictions, the statistic is the usual coefficient. Ranks
    are computed among all outputs with the same value in `within`.

    >>> human = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> one = np.zeros((2, 2), dtype=int)
    >>> predicted = np.array([[[[1.0, 3.0], [2.0, 4.0]]]])
    >>> design = {"model": one, "within": one, "block": one, "units": np.arange(2), "n_units": 2}
    >>> moves("kendall", human, predicted, **design).value.round(3).tolist()
    [0.667]

    Source: Daniels 1944 (the coefficient); Jaeckel 1972 (the infinitesimal jackknife).
    """
    rated_outputs = np.flatnonzero(np.isfinite(human))
    item_of_output, system_of_output = np.divmod(rated_outputs, human.shape[1])
    model_of_output, group_of_output = model.ravel()[rated_outputs], within.ravel()[rated_outputs]
    distinct_blocks, block_of_output = np.unique(block.ravel()[rated_outputs], return_inverse=True)
    n_blocks, n_sums = len(distinct_blocks), 1 + 2 * len(predicted)
    # sum of human squares, then for each prediction sums of products and of squares
    sums_by_block = np.zeros((n_blocks, n_sums))
    # clusters, systems and outputs
    labels, n_labels = (units[item_of_output], system_of_output, rated_outputs), (n_units, human.shape[1], human.size)
    sums_by_label = [np.zeros((n_blocks, n, n_sums)) for n in n_labels]
    predicted_scores = predicted.reshape(*predicted.shape[:2], -1)[:, :, rated_outputs]
    for compared_group in np.unique(group_of_output):
        group_outputs = np.flatnonzero(group_of_output == compared_group)
        block_index = block_of_output[group_outputs[0]]
        group_labels = [label_of_output[group_outputs] for label_of_output in labels]
        human_scores = human.ravel()[rated_outputs[group_outputs]]
        for model_index in np.unique(model_of_output[group_outputs]):
            model_scores = predicted_scores[:, model_index, group_outputs]
            rows = np.flatnonzero(model_of_output[group_outputs] == model_index)
            row_sums, column_sums, same_label_sums = pair_sums(
                kind, human_scores, model_scores, rows, item_of_output[group_outputs], group_labels[:2]
            )
            sums_by_block[block_index] += row_sums.sum(axis=1)
            # A pair within a unit (or system) is counted only once if the unit (or system) is removed.
            for sums_of_label, label_of_output, inside_sums in zip(
                sums_by_label, group_labels, (*same_label_sums, np.zeros(())), strict=True
            ):
                sums_of_label[block_index] += sum(
                    unit_sums(sums, units=label_of_row, n_units=sums_of_label.shape[1]).T
                    for sums, label_of_row in (
                        (row_sums - inside_sums, label_of_output[rows]),
                        (column_sums, label_of_output),
                    )
                )
    coefficients_by_block = _coefficient(kind, sums_by_block)
    is_defined: Bools = ~np.isnan(coefficients_by_block)
    block_weights = is_defined / np.maximum(is_defined.sum(axis=0), 1)
    mean_coefficients = mean_of_defined(coefficients_by_block, axis=0)
    presence = [np.zeros((n_blocks, n), dtype=np.bool_) for n in n_labels[:2]]
    for is_present_label, label_of_output in zip(presence, labels[:2], strict=True):
        is_present_label[block_of_output, label_of_output] = True
    unit_derivatives, system_derivatives, output_derivatives = (
        _part_derivatives(kind, sums_by_block[:, np.newaxis], sums_of_label) for sums_of_label in sums_by_label
    )
    unit_influences, system_influences, output_influences = (
        np.einsum("bpm,bm->pm", derivatives, block_weights)
        for derivatives in (
            _scaled_deviations(unit_derivatives, presence[0]),
            _scaled_deviations(system_derivatives, presence[1]),
            output_derivatives,
        )
    )
    deviations_of_blocks = np.nan_to_num(block_weights * (coefficients_by_block - mean_coefficients))
    is_defined_block = np.asarray(is_defined.any(axis=1))
    n_present = (presence[0].sum() - n_blocks + 1, presence[1].any(axis=0).sum(), is_defined_block.sum())
    return Moves(
        value=mean_coefficients,
        units=unit_influences,
        systems=system_influences,
        outputs=output_influences,
        blocks=_scaled_deviations(deviations_of_blocks[np.newaxis], is_defined_block[np.newaxis])[0],
        freedom=np.array(n_present) - 1,
    )


def _denominators(kind: Objective, pair_sum_array: Floats) -> Floats:
    """Denominators of the coefficients, NaN where they are 0: sums (..., 1 + 2 m) -> (..., m)."""
    human_square_sums, prediction_square_sums = pair_sum_array[..., :1], pair_sum_array[..., 2::2]
    denominators = (
        human_square_sums + 0 * prediction_square_sums
        if kind == "accuracy"
        else np.sqrt(np.maximum(human_square_sums, 0.0) * np.maximum(prediction_square_sums, 0.0))
    )
    return np.where(
        denominators > _ROUNDING * np.abs(pair_sum_array).max(axis=-1, keepdims=True, initial=0.0), denominators, np.nan
    )


def _coefficient(kind: Objective, pair_sum_array: Floats) -> Floats:
    """Coefficients from sums (..., 1 + 2 m) -> (..., m)."""
    return np.asarray(pair_sum_array[..., 1::2] / _denominators(kind, pair_sum_array))


def _part_derivatives(kind: Objective, pair_sum_array: Floats, part_sums: Floats) -> Floats:
    """Derivatives of coefficients by the weights of the parts of the sums: sums (..., 1 + 2 m) -> (..., m).

    An undefined derivative is 0.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        part_shares = part_sums / pair_sum_array
    human_square_shares, prediction_square_shares = part_shares[..., :1], part_shares[..., 2::2]
    log_denominator_derivatives = (
        human_square_shares if kind == "accuracy" else (human_square_shares + prediction_square_shares) / 2
    )
    return np.nan_to_num(
        part_sums[..., 1::2] / _denominators(kind, pair_sum_array)
        - _coefficient(kind, pair_sum_array) * log_denominator_derivatives
    )


def _scaled_deviations(derivatives: Floats, is_present: NDArray[np.bool_]) -> Floats:
    """Deviations (blocks, parts, m) from the mean over the parts of each block that `is_present` (blocks, parts) marks.

    The deviations are scaled so that their sum of squares estimates the variance of the sum over parts. The deviations
    of a block with one part are 0.
    """
    is_present_part, n_parts = is_present[..., np.newaxis], is_present.sum(axis=1)[:, np.newaxis, np.newaxis]
    mean_derivatives = (derivatives * is_present_part).sum(axis=1, keepdims=True) / np.maximum(n_parts, 1)
    return np.where(
        is_present_part, (derivatives - mean_derivatives) * np.sqrt(n_parts / np.maximum(n_parts - 1, 1)), 0.0
    )
