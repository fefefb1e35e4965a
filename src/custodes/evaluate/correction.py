"""Win rates of systems from metric ratings, corrected with a small number of human annotations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any, Unpack

import numpy as np
import polars as pl
from numpy.typing import NDArray

from custodes.answers.question import Rng, question
from custodes.answers.result import Result, result
from custodes.answers.shared_arguments import PreferenceOptions
from custodes.answers.tables import AT_THRESHOLD, View, count, difference, label, probability, share, table
from custodes.answers.views import number, split_by_aspect, title_with_aspect
from custodes.answers.wording import column_digits, estimate_text
from custodes.arguments import check_one_of, value_list
from custodes.data.notes import Note, build_notes
from custodes.data.outcome_counts import OutcomeCounts
from custodes.data.study import Study
from custodes.errors import InputError, OptionError, join_labels
from custodes.evaluate.clusters import (
    AspectCounts,
    cluster_notes,
    counts_by_aspect,
    has_clusters,
    margin_effects,
    not_random_note,
    random_part_p_values,
    table_effects,
)
from custodes.evaluate.comparable import label_of
from custodes.evaluate.decision_graph import PAIR, format_decisions
from custodes.evaluate.leaderboard.bradley_terry import NOT_RANDOM
from custodes.evaluate.parallel import merge_parts
from custodes.progress import Progress, silent
from custodes.stats.arrays import Floats
from custodes.stats.clusters import DesignEffect
from custodes.stats.correction.dirichlet import HUMAN, NAIVE
from custodes.stats.correction.estimator import Counts, Estimate, Estimator, PairItems, Remark, decide
from custodes.stats.correction.estimators import ESTIMATORS

BESIDE = (NAIVE.name, HUMAN.name)
"""Estimators that are always included for reference: the uncorrected metric, and human annotations alone."""

FEW_ANNOTATIONS = 30
"""With fewer human annotations of a pair than this number, the coverage of its intervals may be below nominal."""

FEW_DRAWS = 1000
"""With fewer effective draws than this number, a Monte Carlo interval is not reliable."""

NO_RANDOM_PART = "not a random part"
"""Note on estimates without a decision: the annotated items are not a random part of the items, as the estimator
assumes."""

SIGNS = {"+": ">", "=": "=", "-": "<", None: "?"}


def _margin_views(pair_rows: pl.DataFrame) -> Iterable[View]:
    """Return a view for each metric and estimator: decision, and corrected, naive and human margin of each pair."""
    views = []
    for (aspect, metric), metric_rows in pair_rows.group_by("aspect", "metric", maintain_order=True):
        rows_of_estimator = {
            estimator_name: estimator_rows.rows(named=True)
            for estimator_name, estimator_rows in split_by_aspect(metric_rows, "estimator")
        }
        for estimator_name in [
            estimator_name for estimator_name in rows_of_estimator if estimator_name not in BESIDE
        ] or [HUMAN.name]:
            estimate_rows = rows_of_estimator[estimator_name]
            cells_of_column = {
                "decision": [
                    f"{estimate_row['system_a']} {SIGNS[estimate_row['decision']]} {estimate_row['system_b']}"
                    for estimate_row in estimate_rows
                ],
                "n": [str(estimate_row["n_paired"] + estimate_row["n_human_only"]) for estimate_row in estimate_rows],
                NAIVE.name: [
                    number(estimate_row["margin"], digits=2) for estimate_row in rows_of_estimator[NAIVE.name]
                ],
                HUMAN.name: _margin_texts(rows_of_estimator[HUMAN.name]),
                estimator_name: _margin_texts(estimate_rows),
                "theta": [number(estimate_row["theta"], digits=2) for estimate_row in estimate_rows],
            }
            views.append(
                View(
                    title=title_with_aspect(f"margins by {metric}, {estimator_name}", str(aspect)),
                    header=tuple(cells_of_column),
                    rows=tuple(zip(*cells_of_column.values(), strict=True)),
                    numeric=(False, *[True] * (len(cells_of_column) - 1)),
                )
            )
    return [
        *views[:-1],
        *(
            replace(
                last_view,
                more="margin: proportion of wins minus proportion of losses of the first system; n: number of "
                "annotations; theta: probability that the margin is above 0",
            )
            for last_view in views[-1:]
        ),
    ]


def _margin_texts(estimate_rows: Sequence[Mapping[str, Any]]) -> list[str]:
    estimates_and_bounds = [
        (estimate_row["margin"], estimate_row["margin_low"], estimate_row["margin_high"])
        for estimate_row in estimate_rows
    ]
    n_decimals = column_digits(estimates_and_bounds, min_decimals=2)
    return [
        estimate_text(*estimate_and_bounds, digits=n_decimals, write=number)
        for estimate_and_bounds in estimates_and_bounds
    ]


@result
class Correction(Result):
    """Outcomes of pairs of systems, corrected with human annotations. See `correction`."""

    PICTURE = "correction_margins"

    pairs: pl.DataFrame = table(
        "One row per metric, pair of systems and estimator.",
        label("metric", "name of the metric"),
        label("estimator", f"`{BESIDE[0]}`, `{BESIDE[1]}` or a requested estimator"),
        *PAIR,
        count("n_paired", "items that both annotators and metric rated", "Both"),
        count("n_metric", "items rated by the metric only", "Metric only"),
        count("n_human_only", "items rated by annotators only", "Human ratings only"),
        share(
            "p_win",
            "human win rate of system_a (ties count as 0); null for estimators that give only a margin",
            "A better",
            interval=True,
        ),
        share("p_tie", "rate of human ties", "Tie", interval=True),
        share("p_loss", "human win rate of system_b (ties count as 0)", "B better", interval=True),
        difference("margin", "p_win − p_loss, from −1 to 1", interval=True),
        probability("theta", "probability that p_win > p_loss", "P(A ahead)"),
        label(
            "decision",
            "`+` if theta > 1 − gamma/2, `-` if theta < gamma/2, otherwise `=`. Also `=` if the note is `at the "
            f"threshold`. Null if the note is `{NO_RANDOM_PART}`",
        ),
        label(
            "note",
            "empty, or one or more of `at the threshold` (other random numbers might change the decision), `few "
            f"annotations`, `never annotated`, `never rated by the metric`, `{NO_RANDOM_PART}`",
        ),
        view=_margin_views,
    )


@question(
    "custodes correction partly_annotated.csv --metrics judge --format csv",
    estimator=f"Estimators: {', '.join(ESTIMATORS)}; comma list or repeated.",
)
def correction(
    study: Study | OutcomeCounts,
    *,
    estimator: str | Sequence[str] = next(iter(ESTIMATORS)),
    gamma: float = 0.05,
    confidence: float = 0.95,
    rng: Rng = 0,
    progress: Progress = silent,
    **setting: Unpack[PreferenceOptions],
) -> Correction:
    """Estimate the outcome of each pair of systems from few human ratings and many metric ratings.

    Notes
    -----
    A pair without annotations is estimated from the metric and the prior alone, and is marked in the column `note`.
    Counts (`count_pairs`) can replace the study for all estimators except pooled; counts have no clusters. All
    estimators assume that the annotated items are a random sample. If a test of the metric's ratings rejects this
    assumption, estimators that do not adjust for selection give no decisions, and a note says so. The estimator mixture
    also assumes that the metric's errors depend only on the human label. Clusters reduce the effective number of
    annotations.

    References
    ----------
    Deriu et al. 2023, Algorithm 1; Angelopoulos et al. 2023 (PPI++).

    Examples
    --------
    >>> import custodes as cu
    >>> result = cu.correction(cu.read("demo"), estimator="ppi", metrics="learned", aspect="fluency")
    >>> result.pairs["estimator"].unique().sort().to_list()
    ['human', 'naive', 'ppi']
    """
    estimator_names = value_list("estimator", estimator)
    if not estimator_names:
        raise OptionError(f"estimator: the list is empty; give at least one of {', '.join(ESTIMATORS)}")
    estimators = [
        ESTIMATORS[check_one_of("estimator", estimator_name, ESTIMATORS)]
        for estimator_name in dict.fromkeys((*BESIDE, *estimator_names))
    ]
    if isinstance(study, OutcomeCounts):
        _check_counts(study, estimators)
    estimators.sort(key=lambda method: method.needs_items)  # estimators that use all pairs jointly come last
    return merge_parts(
        Correction,
        partial(_answer, estimators=estimators, gamma=gamma, confidence=confidence),
        counts_by_aspect(study, setting),
        rng=rng,
        progress=progress,
        desc="correct",
    )


def _estimate(
    estimator: Estimator,
    aspect_counts: AspectCounts,
    rng: np.random.Generator,
    design_effect: DesignEffect | None,
    *,
    gamma: float,
    confidence: float,
) -> Estimate:
    """Return the estimates of all pairs and metrics by one estimator.

    The shape is (pairs, metrics), or (pairs,) for an estimator that uses all pairs jointly.
    """
    estimate_options = {"confidence": confidence, "gamma": gamma, "rng": rng}
    if estimator.needs_items and aspect_counts.comparison is not None:
        design = aspect_counts.comparison.design
        return estimator.estimate(
            PairItems(human=aspect_counts.comparison.human_signs, systems=design.pairs, units=design.units),
            **estimate_options,
        )
    counts = Counts(aspect_counts.counts.paired, aspect_counts.counts.metric_only, aspect_counts.counts.human_only)
    if design_effect is not None:
        counts = counts.effective(design_effect.divisor(max(confidence, 1 - gamma)))
    return estimator.estimate(counts, **estimate_options)


def _check_counts(counts: OutcomeCounts, estimators: Iterable[Estimator]) -> None:
    for field_name in ("paired", "metric_only", "human_only"):
        field_counts = getattr(counts, field_name)
        is_invalid_count = ~np.isfinite(field_counts) | (field_counts < 0) | (field_counts != np.rint(field_counts))
        if is_invalid_count.any():
            raise InputError(
                f"counts.{field_name} contains {field_counts[is_invalid_count][0]}; give whole numbers of at least 0"
            )
    if item_estimator_name := next((estimator.name for estimator in estimators if estimator.needs_items), None):
        raise OptionError(
            f"estimator={item_estimator_name!r} needs the ratings of items, which counts do not contain; give the "
            "study instead"
        )


def _answer(
    aspect_counts: AspectCounts,
    rng: np.random.Generator,
    *,
    estimators: Sequence[Estimator],
    gamma: float,
    confidence: float,
) -> tuple[dict[str, pl.DataFrame], Sequence[Note]]:
    counts, estimator_names = aspect_counts.counts, [estimator.name for estimator in estimators]
    design_effect_of_estimator = {}
    if has_clusters(aspect_counts):
        point_function_of_estimator = {
            estimator: estimator.point for estimator in estimators if not estimator.needs_items
        }
        design_effect_of_estimator = dict(
            zip(
                point_function_of_estimator,
                table_effects(aspect_counts, *point_function_of_estimator.values()),
                strict=True,
            )
        )
    estimate_of_estimator = {
        estimator: _estimate(
            estimator, aspect_counts, rng, design_effect_of_estimator.get(estimator), gamma=gamma, confidence=confidence
        )
        for estimator in estimators
    }

    def stack(values_of: Callable[[Estimate], NDArray[Any]]) -> NDArray[Any]:
        """Return the values of all estimators, (metrics, pairs, estimators, ...).

        The values are ordered so that the estimators of one pair are adjacent.
        """
        return np.stack(
            [
                np.broadcast_to(values_of(estimate), (len(counts.metrics), *values_of(estimate).shape))
                if estimator.needs_items
                else values_of(estimate).swapaxes(0, 1)
                for estimator, estimate in estimate_of_estimator.items()
            ],
            axis=2,
        )

    probability_a_is_better = stack(attrgetter("theta"))
    is_at_threshold = stack(lambda estimate: estimate.at_threshold(gamma=gamma))
    decisions = np.where(is_at_threshold, 0.0, decide(probability_a_is_better, gamma=gamma))
    random_part_p_value_of_metric = (
        np.full(len(counts.metrics), np.nan)
        if aspect_counts.comparison is None
        else random_part_p_values(aspect_counts.comparison)
    )
    is_withheld_decision = np.broadcast_to(
        (random_part_p_value_of_metric < NOT_RANDOM)[:, np.newaxis, np.newaxis]
        & ~np.array([estimator.adjusts_for_selection for estimator in estimate_of_estimator]),
        decisions.shape,
    )
    decisions[is_withheld_decision] = np.nan
    metric_indices, pair_indices, estimator_indices = np.indices(decisions.shape).reshape(3, -1)
    uses_human_ratings = np.array([estimator.uses_people for estimator in estimators])[estimator_indices]
    n_annotated_items = counts.human.sum(axis=1)[pair_indices]
    mask_of_note = {
        "": ~uses_human_ratings & (counts.metric.sum(axis=2)[pair_indices, metric_indices] > 0),
        "never rated by the metric": ~uses_human_ratings,
        "never annotated": n_annotated_items == 0,
        "few annotations": n_annotated_items < FEW_ANNOTATIONS,
    }
    notes_on_decisions = np.select([is_withheld_decision, is_at_threshold], [NO_RANDOM_PART, AT_THRESHOLD], "").ravel()
    notes_on_data = np.select(list(mask_of_note.values()), list(mask_of_note), "")
    table_of_name = Correction.part(
        aspect_counts.aspect,
        pairs={
            "metric": np.take(counts.metrics, metric_indices),
            "estimator": np.take(estimator_names, estimator_indices),
            "system_a": np.take(counts.system_a, pair_indices),
            "system_b": np.take(counts.system_b, pair_indices),
            "n_paired": counts.paired.sum(axis=(2, 3))[pair_indices, metric_indices],
            "n_metric": counts.metric_only.sum(axis=2)[pair_indices, metric_indices],
            "n_human_only": counts.human_only.sum(axis=2)[pair_indices, metric_indices],
            **{
                f"p_{outcome}{bound_suffix}": stack(attrgetter(f"p{bound_suffix}"))[..., outcome_index]
                for outcome_index, outcome in enumerate(("win", "tie", "loss"))
                for bound_suffix in ("", "_low", "_high")
            },
            **{column_name: stack(attrgetter(column_name)) for column_name in ("margin", "margin_low", "margin_high")},
            "theta": probability_a_is_better,
            "decision": format_decisions(decisions),
            "note": [
                "; ".join(filter(None, cell_notes))
                for cell_notes in zip(notes_on_decisions.tolist(), notes_on_data.tolist(), strict=True)
            ],
        },
    )
    notes = [*cluster_notes(aspect_counts, margin_effects(aspect_counts)[0]), *_annotation_notes(aspect_counts)]
    notes += [
        Note(**vars(remark), aspect=aspect_counts.aspect)
        for remark in _estimate_remarks(estimate_of_estimator, label_of(aspect_counts.aspect), gamma=gamma)
    ]
    notes += _selection_note(aspect_counts, random_part_p_value_of_metric, list(estimate_of_estimator))
    return table_of_name, [*aspect_counts.notes, *notes]


def _selection_note(aspect_counts: AspectCounts, p_values: Floats, estimators: Sequence[Estimator]) -> list[Note]:
    """Return the note on metrics for which the annotated items are not a random part of the items that the metric
    rated."""
    withheld_estimators_text, adjusting_estimators_text = (
        join_labels(
            [
                estimator.name
                for estimator in estimators
                if estimator.uses_people and estimator.adjusts_for_selection is adjusts_for_selection
            ]
        )
        for adjusts_for_selection in (False, True)
    )
    consequence = f"so there are no decisions by {withheld_estimators_text}"
    if adjusting_estimators_text:
        consequence += (
            f"; decisions by {adjusting_estimators_text} hold only if annotation depended only on the ratings of the "
            "metric"
        )
    return not_random_note(aspect_counts.counts.metrics, p_values, consequence, aspect=aspect_counts.aspect)


def _annotation_notes(aspect_counts: AspectCounts) -> list[Note]:
    counts, aspect_suffix = aspect_counts.counts, label_of(aspect_counts.aspect)
    n_annotated_items = counts.human.sum(axis=1)
    never_annotated_pairs = [
        f"{system_a} - {system_b}"
        for system_a, system_b, n_items in zip(counts.system_a, counts.system_b, n_annotated_items, strict=True)
        if not n_items
    ]
    n_sparsely_annotated_pairs = int(((n_annotated_items > 0) & (n_annotated_items < FEW_ANNOTATIONS)).sum())
    unmatched_metrics = [
        metric for metric, n_items in zip(counts.metrics, counts.paired.sum(axis=(0, 2, 3)), strict=True) if not n_items
    ]
    return build_notes(
        (
            "never-annotated",
            len(never_annotated_pairs),
            (
                f"annotators compared none of the pairs {join_labels(never_annotated_pairs)}{aspect_suffix}, so only "
                "the metric and the prior estimate these pairs"
            ),
        ),
        (
            "few-annotations",
            n_sparsely_annotated_pairs,
            f"{n_sparsely_annotated_pairs} of {len(n_annotated_items)} pairs have fewer than {FEW_ANNOTATIONS} human "
            f"annotations{aspect_suffix}, so the coverage of their intervals may be below nominal (in simulations "
            "with 10 annotations, 95 % intervals had a coverage of 87 % with ppi and of at least 90 % with other "
            "estimators)",
        ),
        (
            "no-overlap",
            0 if aspect_counts.comparison else len(unmatched_metrics),
            f"annotators rated no item that {join_labels(unmatched_metrics)} rated, so correction is not possible",
        ),
        aspect=aspect_counts.aspect,
    )


def _estimate_remarks(
    estimate_of_estimator: Mapping[Estimator, Estimate], aspect_suffix: str, *, gamma: float
) -> Iterator[Remark]:
    for estimator, estimate in estimate_of_estimator.items():
        yield from estimator.remarks(estimate, aspect_suffix)
        if n_estimates_with_few_draws := int((estimate.effective_draws < FEW_DRAWS).sum()):
            message = (
                f"{estimator.name}: {n_estimates_with_few_draws} of {estimate.theta.size} estimates have fewer than "
                f"{FEW_DRAWS} effective draws{aspect_suffix}, so their intervals are inaccurate"
            )
            yield Remark("few-draws", message, n_estimates_with_few_draws)
        if n_estimates_at_threshold := int(estimate.at_threshold(gamma=gamma).sum()):
            message = (
                f"{estimator.name}: in {n_estimates_at_threshold} of {estimate.theta.size} estimates{aspect_suffix}, "
                f"theta is within four Monte Carlo errors of {number(gamma / 2, digits=3)} or "
                f"{number(1 - gamma / 2, digits=3)}; these decisions count as `=` and are marked `{AT_THRESHOLD}`"
            )
            yield Remark("at-the-threshold", message, n_estimates_at_threshold)
