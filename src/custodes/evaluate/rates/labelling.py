"""Number of human labels that a rate needs, and selection of the outputs to label next."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property, partial
from itertools import combinations
from typing import Any, Literal, Unpack

import numpy as np
import polars as pl

from custodes.answers.question import Rng, question
from custodes.answers.result import Result, result
from custodes.answers.shared_arguments import Selection
from custodes.answers.tables import count, label, score, table
from custodes.arguments import check_between
from custodes.data.notes import Note, build_notes
from custodes.data.study import Study
from custodes.errors import InputError, OptionError, join_labels
from custodes.evaluate.parallel import labelled_generators, merge_parts
from custodes.evaluate.rates.estimates import positive_rate
from custodes.evaluate.rates.outputs import (
    LabelledOutputs,
    binary_outputs,
    draw_within_strata,
    judge_position,
    labelled_outputs,
)
from custodes.evaluate.slices import no_slice_notes, slices_of
from custodes.progress import Progress, silent
from custodes.stats.arrays import Bools, Floats, Ints
from custodes.stats.intervals import percentile_interval, wilson_interval
from custodes.stats.rates.measures import sensitivity, specificity
from custodes.stats.rates.sample_size import (
    allocation,
    error_rate_shares,
    expected_posterior,
    fewest_labels,
    rate_shares,
    stratum_rates,
)
from custodes.stats.ratios import ratio

Target = Literal["corrected_rate", "tpr", "tnr", "difference"]
"""Quantities for which human labels can be allocated."""

FEWEST = 5
"""Minimum number of human labels of outputs with the same label of the judge, if there are enough such outputs."""

POWER = 0.8
"""Power of the test of a difference."""

MOST_LABELS_ALONE = 10**7

MIXTURES = (1.0, 0.75, 0.5, 0.25, 0.0)
"""Weights of Neyman's allocation in its mixtures with proportional allocation; the best mixture is used.

If there are few human labels, Neyman's allocation gives too few of them to outputs with a judge label that is nearly
always correct.
"""

TYPICAL_LABELS = 200
"""Number of human labels for which the mixtures of allocations are compared."""


@result
class Labelling(Result):
    """Number of human labels that are needed, and outputs to label next; see `labelling`."""

    needed: pl.DataFrame = table(
        "One row per slice and quantity: number of human labels needed, including existing labels. For a difference, "
        "each of the two systems needs this number.",
        label("slice", "value of the column `by`; null if `by` is not set"),
        label("quantity", "`corrected_rate`, `tpr`, `tnr`, or `difference` of two systems"),
        label("system", "the system (for a difference, both systems); empty for error rates of all systems"),
        score("width", "width of the interval, or the difference that a test detects with a power of .8"),
        count(
            "labelled",
            "number of existing human labels; for a difference, the number for the system with fewer human labels",
            "Labels so far",
        ),
        count("by_judge", "number of labels needed if they are allocated by the label of the judge", "Labels needed"),
        count(
            "human_alone",
            "number of labels needed without the judge if outputs are drawn at random",
            "Without the judge",
        ),
        label("reason", "why no number of human labels is enough"),
    )
    allocation: pl.DataFrame = table(
        "One row per slice, system and label of the judge: how many outputs to label next.",
        label("slice", "value of the column `by`; null if `by` is not set"),
        label("system", "name of the system"),
        label("label", "label of the judge"),
        count("n", "number of outputs", "Outputs"),
        count("labelled", "number of outputs with a human label", "Labels so far"),
        count("add", "number of outputs to label next", "Label next"),
    )
    outputs: pl.DataFrame = table(
        "One row per output to label next, drawn at random within each slice, system and label of the judge. The label "
        "of the judge is left out, because annotators must not see it.",
        label("item", "the item"),
        label("system", "the system"),
        label("slice", "value of the column `by`; null if `by` is not set"),
        essential=False,
    )


@question(
    "custodes labelling labels.csv --width 0.1 --table outputs -o to_label.csv",
    metric="Name of the judge whose labels form strata (default: the only metric).",
    width="Target width of the interval of a corrected rate, TPR or TNR.",
    difference="Difference between two systems that a test must detect with a power of .8.",
    target="Quantity for which human labels are allocated.",
    add="Number of human labels to add; if by is set, in each slice (default: as many as the target needs).",
    by="Column whose values define slices, each with a plan of labels; by=system gives a plan for each system.",
    accuracy="Assumed accuracy of the judge if no output has a human label.",
)
def labelling(
    study: Study,
    *,
    metric: str | None = None,
    positive: str | None = None,
    width: float = 0.1,
    difference: float = 0.1,
    target: Target = "corrected_rate",
    add: int | None = None,
    accuracy: float = 0.85,
    by: str | None = None,
    confidence: float = 0.95,
    rng: Rng = 0,
    progress: Progress = silent,
    **setting: Unpack[Selection],
) -> Labelling:
    """Plan how many human labels a pass rate needs, and which outputs to label next.

    Notes
    -----
    The human label is more uncertain for some labels of the judge than for others. Neyman's allocation selects more
    outputs with the more uncertain labels of the judge. The uncertainty is estimated from the existing human labels. If
    there are no human labels, the judge is assumed to have the accuracy `accuracy`; this assumption has the weight of
    two labels. To analyse the new labels, call `rates` with `sampling='by-judge'`.

    If `by` is set, each slice has a plan for its outputs alone, with the same width. Then call `rates` with the same
    `by`, and read its table `slices`. A rate over several slices would need weights, because the outputs of different
    slices are drawn with different probabilities.

    References
    ----------
    Neyman 1934; Cochran 1977, section 5.5.

    Examples
    --------
    >>> import custodes as cu, polars as pl
    >>> table = pl.DataFrame({"id": range(1000), "judge": ["pass"] * 800 + ["fail"] * 200})
    >>> plan = cu.labelling(table, width=0.1)
    >>> plan.needed.filter(quantity="corrected_rate")["by_judge"].to_list()
    [240]
    """
    check_between("width", width, 0, 1)
    selected_study = study.select(**setting, one_side=True)

    def answer(outputs: LabelledOutputs, aspect_rng: np.random.Generator) -> tuple[dict[str, pl.DataFrame], list[Note]]:
        two_label_outputs = binary_outputs(outputs, positive, verb="labelling")
        judge_index = judge_position(two_label_outputs, metric, verb="labelling")
        named_slices, notes = _slices(selected_study, two_label_outputs, judge_index, by)
        notes = [*two_label_outputs.notes, *notes]
        rows_of_table: dict[str, list[dict[str, Any]]] = {"needed": [], "allocation": [], "outputs": []}
        slices_of_note = dict[Note, list[str]]()
        slice_rngs = (
            labelled_generators((str(slice_name) for slice_name, _ in named_slices), aspect_rng) if by else [aspect_rng]
        )
        for (slice_name, slice_outputs), slice_rng in zip(named_slices, slice_rngs, strict=True):
            labelling_plan = _LabellingPlan(slice_outputs, judge_index, accuracy=accuracy, confidence=confidence)
            if target == "difference" and len(labelling_plan.systems) < 2:
                raise OptionError("target='difference' needs two systems; give corrected_rate, tpr or tnr")
            needed_rows = list(labelling_plan.requirement_rows(width, difference))
            n_missing_labels = (
                np.array([add]) if add is not None else labelling_plan.missing_labels(needed_rows, target)
            )
            n_added_by_stratum = labelling_plan.allocate_labels(target, n_missing_labels)
            new_rows_of_table = {
                "needed": needed_rows,
                "allocation": labelling_plan.allocation_rows(n_added_by_stratum),
                "outputs": labelling_plan.draw_outputs(n_added_by_stratum, slice_rng).to_dicts(),
            }
            for table_name, table_rows in new_rows_of_table.items():
                rows_of_table[table_name] += [{**row, "slice": slice_name} for row in table_rows]
            for note in labelling_plan.notes(target, n_added_by_stratum):
                slices_of_note.setdefault(note, []).append(str(slice_name))
        for note, slice_names in slices_of_note.items():
            notes.append(replace(note, message=f"{join_labels(slice_names, limit=3)}: {note.message}") if by else note)
        return Labelling.part(outputs.aspect, **rows_of_table), notes

    return merge_parts(
        Labelling,
        answer,
        labelled_outputs(selected_study, consensus="vote"),
        rng=rng,
        notes=selected_study.notes,
        progress=progress,
        desc="labelling",
    )


def _slices(
    study: Study, outputs: LabelledOutputs, judge_index: int, slice_column: str | None
) -> tuple[list[tuple[str | None, LabelledOutputs]], list[Note]]:
    """Return the slices with labels of the judge, and a note on outputs that are in no slice.

    Without `slice_column`, all outputs form one slice.
    """
    if slice_column is None:
        return [(None, outputs)], []
    slice_names, slice_of_output = slices_of(study, outputs.table, slice_column)
    is_judged_output = np.isfinite(outputs.judged[judge_index])
    names_and_masks = [
        (slice_name, slice_of_output == slice_code)
        for slice_code, slice_name in enumerate(slice_names)
        if (is_judged_output & (slice_of_output == slice_code)).any()
    ]
    if not names_and_masks:
        raise InputError(
            f"by={slice_column!r}: no output with a label of the judge has a value in this column; give another column"
        )
    return [(slice_name, outputs.only(is_in_slice)) for slice_name, is_in_slice in names_and_masks], no_slice_notes(
        slice_column, slice_of_output[is_judged_output], "outputs", outputs.aspect
    )


class _LabellingPlan:
    """Strata of outputs by system and label of the judge, with estimated rates of positive human labels."""

    def __init__(self, outputs: LabelledOutputs, judge_index: int, *, accuracy: float, confidence: float) -> None:
        from scipy.special import ndtri

        self.outputs, self.metric = outputs, outputs.metrics[judge_index]
        judge_codes = outputs.judged[judge_index]
        self.n_unjudged = int(np.isnan(judge_codes).sum())
        self.systems = [
            system_code
            for system_code in range(len(outputs.systems))
            if (judge_codes[outputs.system == system_code] >= 0).any()
        ]
        # (systems, 2, n): whether an output is of a system and has a label of the judge
        is_output_of_system = outputs.system == np.array(self.systems)[:, np.newaxis]
        self.rows: Bools = is_output_of_system[:, np.newaxis] & (judge_codes == np.arange(2)[:, np.newaxis])
        self.n, self.labelled = self.rows.sum(axis=2), (self.rows & outputs.has_human_label).sum(axis=2)
        human_label_counts = self.rows @ np.nan_to_num(outputs.gold)
        # The prior of each system comes from the rates over all systems. A system without human labels has the rates of
        # its prior.
        prior_rates = stratum_rates(human_label_counts.sum(axis=0), np.array([1 - accuracy, accuracy]))
        self.rates = np.array([stratum_rates(label_counts, prior_rates) for label_counts in human_label_counts])
        self.confidence = confidence
        self.quantile = float(ndtri((1 + confidence) / 2))
        self.power = float(ndtri(POWER))
        # Proportions of the two labels of the judge among the outputs of each system, (systems, 2).
        self.weights = ratio(self.n, self.n.sum(axis=1, keepdims=True))
        # Best allocation of human labels for the corrected rate of each system, as proportions (systems, 2).
        self.shares = np.array(
            [
                self._best_mixture(rate_shares(stratum_shares, rates), stratum_shares, rates, n_outputs, positive_rate)
                for stratum_shares, rates, n_outputs in zip(self.weights, self.rates, self.n, strict=True)
            ]
        )

    def _best_mixture(
        self,
        neyman_shares: Floats,
        stratum_shares: Floats,
        rates: Floats,
        n_outputs: Ints,
        statistic: Callable[[Floats], Floats],
    ) -> Floats:
        """Return the best mixture of Neyman's allocation (optimal for many labels) and proportional allocation."""
        mixed_shares = [
            neyman_weight * neyman_shares + (1 - neyman_weight) * stratum_shares for neyman_weight in MIXTURES
        ]
        n_labels = min(TYPICAL_LABELS, int(n_outputs.sum()))
        interval_widths = [
            self._width(label_shares, rates, n_outputs, statistic, n_labels) for label_shares in mixed_shares
        ]
        return mixed_shares[int(np.argmin(interval_widths))]

    @cached_property
    def pooled_rates(self) -> tuple[Ints, Floats]:
        """Number of outputs, and rate of positive human labels, by label of the judge over all systems; (2,) each."""
        n_outputs = self.n.sum(axis=0)
        return n_outputs, np.nan_to_num(ratio((self.n * self.rates).sum(axis=0), n_outputs), nan=0.5)

    def error_share(self, *, positive: bool) -> Floats:
        """Return the best allocation of human labels for TPR or TNR over all systems, as proportions."""
        n_outputs, rates = self.pooled_rates
        stratum_shares = ratio(n_outputs, n_outputs.sum())
        neyman_shares = error_rate_shares(stratum_shares, rates, positive=positive)
        return self._best_mixture(
            neyman_shares, stratum_shares, rates, n_outputs, sensitivity if positive else specificity
        )

    def requirement_rows(self, width: float, difference: float) -> Iterator[dict[str, Any]]:
        """Yield the rows of the table `needed`."""
        for system_index, system_code in enumerate(self.systems):
            stratum_shares, rates, n_outputs = (
                self.weights[system_index],
                self.rates[system_index],
                self.n[system_index],
            )
            yield self._row(
                "corrected_rate",
                self.outputs.systems[system_code],
                width,
                int(self.labelled[system_index].sum()),
                self._labels_for_width(self.shares[system_index], rates, n_outputs, positive_rate, width),
                n_without_judge=self._labels_without_judge(float(stratum_shares @ rates), width),
            )
        n_outputs, rates = self.pooled_rates
        for quantity, is_tpr, measure_function in (("tpr", True, sensitivity), ("tnr", False, specificity)):
            yield self._row(
                quantity,
                "",
                width,
                int(self.labelled.sum()),
                self._labels_for_width(self.error_share(positive=is_tpr), rates, n_outputs, measure_function, width),
            )
        for system_index_pair in combinations(range(len(self.systems)), 2):
            positive_rates = (self.weights * self.rates).sum(axis=1)[list(system_index_pair)]
            target_standard_error = difference / (self.quantile + self.power)
            max_n_labels = int(self.n[list(system_index_pair)].sum(axis=1).min())
            yield self._row(
                "difference",
                " and ".join(self.outputs.systems[self.systems[i]] for i in system_index_pair),
                difference,
                int(self.labelled[list(system_index_pair)].sum(axis=1).min()),
                fewest_labels(
                    partial(self._difference_deviation, system_index_pair),
                    target_standard_error,
                    max_n_labels=max_n_labels,
                ),
                n_without_judge=int(np.ceil((positive_rates * (1 - positive_rates)).sum() / target_standard_error**2)),
            )

    def _width(
        self,
        label_shares: Floats,
        rates: Floats,
        n_outputs: Ints,
        statistic: Callable[[Floats], Floats],
        n_labels: float,
    ) -> float:
        """Return the interval width of a statistic with `n_labels` labels."""
        draws = statistic(expected_posterior(label_shares, rates, n_outputs, n_labels))
        return float(np.ptp(percentile_interval(draws, confidence=self.confidence)))

    def _labels_for_width(
        self,
        label_shares: Floats,
        rates: Floats,
        n_outputs: Ints,
        statistic: Callable[[Floats], Floats],
        width: float,
    ) -> int | None:
        """Return the number of labels with which the interval of a statistic is no wider than `width`."""
        interval_width = partial(self._width, label_shares, rates, n_outputs, statistic)
        return fewest_labels(interval_width, width, max_n_labels=int(n_outputs.sum()))

    def _difference_deviation(self, system_indices: tuple[int, int], n_labels: float) -> float:
        """Return the standard deviation of the difference of two rates, if each system has `n_labels` labels."""
        draws_of_systems = (
            expected_posterior(self.shares[system_index], self.rates[system_index], self.n[system_index], n_labels)
            for system_index in system_indices
        )
        return float(np.sqrt(sum(float(positive_rate(system_draws).var()) for system_draws in draws_of_systems)))

    def _labels_without_judge(self, rate: float, width: float) -> int | None:
        """Return the number of labels for a Wilson interval of this width without the judge."""
        return fewest_labels(
            lambda n_labels: float(np.ptp(wilson_interval(rate, n_labels, quantile=self.quantile))),
            width,
            max_n_labels=MOST_LABELS_ALONE,
        )

    def _row(
        self,
        quantity: str,
        system: str,
        width: float,
        n_labelled: int,
        n_by_judge: int | None,
        *,
        n_without_judge: int | None = None,
    ) -> dict[str, Any]:
        return {
            "quantity": quantity,
            "system": system,
            "width": width,
            "labelled": n_labelled,
            "by_judge": n_by_judge,
            "human_alone": n_without_judge,
            "reason": ""
            if n_by_judge is not None
            else "human labels of all outputs would not be enough; let the judge label more outputs",
        }

    def missing_labels(self, needed_rows: list[dict[str, Any]], target: str) -> Ints:
        """Return how many more labels a target needs: a number for each system, or one total for error rates."""
        target_rows = [row for row in needed_rows if row["quantity"] == target]
        if target in ("tpr", "tnr"):
            return np.array([max(0, (row["by_judge"] or 0) - row["labelled"]) for row in target_rows])
        system_index_tuples = combinations(range(len(self.systems)), 2 if target == "difference" else 1)
        max_needed_labels = np.zeros(len(self.systems), dtype=np.int64)
        for system_indices, row in zip(system_index_tuples, target_rows, strict=True):
            np.maximum.at(max_needed_labels, list(system_indices), row["by_judge"] or 0)
        return np.asarray(np.maximum(max_needed_labels - self.labelled.sum(axis=1), 0))

    def allocate_labels(self, target: str, n_missing_labels: Ints) -> Ints:
        """Return the number of outputs to label next, (systems, 2).

        `n_missing_labels` has the number for each system, or one total number.
        """
        if target in ("tpr", "tnr"):
            label_shares = np.nan_to_num(ratio(self.n, self.n.sum(axis=0))) * self.error_share(positive=target == "tpr")
        else:
            label_shares = self.shares / len(self.systems)
        quantities_by_group = (
            stratum_quantity.reshape(len(n_missing_labels), -1)
            for stratum_quantity in (label_shares, self.labelled, self.n - self.labelled)
        )
        added_counts = [
            allocation(
                group_shares,
                n_labelled=labelled_counts,
                n_available=available_counts,
                n_to_add=int(n_group_labels),
                least_per_stratum=FEWEST,
            )
            for group_shares, labelled_counts, available_counts, n_group_labels in zip(
                *quantities_by_group, n_missing_labels, strict=True
            )
        ]
        return np.array(added_counts).reshape(-1, 2)

    def allocation_rows(self, n_added_by_stratum: Ints) -> Iterator[dict[str, Any]]:
        """Yield the rows of the table `allocation`."""
        for (system_index, label_code), n_added in np.ndenumerate(n_added_by_stratum):
            yield {
                "system": self.outputs.systems[self.systems[system_index]],
                "label": self.outputs.words[label_code],
                "n": int(self.n[system_index, label_code]),
                "labelled": int(self.labelled[system_index, label_code]),
                "add": int(n_added),
            }

    def draw_outputs(self, n_added_by_stratum: Ints, rng: np.random.Generator) -> pl.DataFrame:
        """Return the rows of the table `outputs`, sorted by item; the order of the input has no effect."""
        is_output_of_stratum = self.rows.reshape(-1, self.rows.shape[2])
        strata = np.where(is_output_of_stratum.any(axis=0), is_output_of_stratum.argmax(axis=0), -1)
        is_drawn = draw_within_strata(self.outputs, strata, n_added_by_stratum.ravel(), rng)
        return self.outputs.table.filter(pl.Series(is_drawn)).select("item", "system").sort("item", "system")

    def notes(self, target: str, n_added_by_stratum: Ints) -> list[Note]:
        """Return the notes on the assumptions of the plan."""
        return build_notes(
            (
                "assumed-accuracy",
                not self.labelled.any(),
                "no output has a human label, so the number of labels depends on the assumed accuracy of the judge; "
                "plan again after the first 50 labels",
            ),
            (
                "clusters-in-plan",
                any(
                    np.bincount(self.outputs.unit[self.outputs.system == system_code]).max(initial=0) > 1
                    for system_code in self.systems
                ),
                "outputs share clusters, but the plan treats outputs as independent, so more labels may be needed; "
                "choose outputs from different clusters",
            ),
            (
                "outputs-without-judge-label",
                self.n_unjudged,
                f"{self.n_unjudged} outputs have no usable label of {self.metric} and are not in the plan. Also "
                "label a random part of these outputs, because otherwise rates leaves them out",
            ),
            (
                "nothing-to-label",
                not n_added_by_stratum.sum(),
                f"there is no output to label, because the target {target} is reached or cannot be reached, or because "
                "all outputs have human labels",
            ),
            aspect=self.outputs.aspect,
        )
