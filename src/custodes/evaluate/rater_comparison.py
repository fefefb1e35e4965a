"""Ratings of annotators and metrics on the same outputs for one aspect, as arrays with labels.

Most questions start here: this module averages annotators, derives preferences, and adds notes on excluded data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import compress
from typing import Any, Unpack

import numpy as np
import polars as pl
from numpy.typing import NDArray

from custodes.answers.shared_arguments import PreferenceOptions, selection_arguments, settings
from custodes.data.comparisons import HUMAN, Comparisons, JointPreferences
from custodes.data.notes import Note, build_notes
from custodes.data.outcome_counts import ClusterCells
from custodes.data.panel import Panel
from custodes.data.study import SYSTEM_SCORE_RULE, Study, select_aspect_rows
from custodes.data.table import filter_rows
from custodes.data.ties_and_orders import compare_in_memory, human_threshold
from custodes.errors import InputError, OptionError, join_labels
from custodes.evaluate.comparable import NotComparableError, check_ordered, label_of, too_few
from custodes.evaluate.design import Design
from custodes.evaluate.scores import (
    ItemScores,
    check_same_scale,
    check_size,
    human_means,
    score_table,
    tie_thresholds,
    verdict_table,
)
from custodes.stats.arrays import Bools, Floats, Ints, ReadOnlyArrays, Signs
from custodes.stats.partiality.scores import ScoredPeople
from custodes.stats.ratios import mean_of_defined

NO_COMPARISON = (
    "no rater compared two systems on the same item; a comparison needs two rated outputs of one item, or a verdict"
)

ROW_BYTES = 32
"""Maximum memory of one comparison in bytes, including the memory for computations."""


@dataclass(frozen=True, kw_only=True)
class RaterComparison(ReadOnlyArrays):
    """Ratings and preferences of annotators and metrics for one aspect of a study.

    `preferences` are the preferences of the combined annotators and of the metrics; `annotators` are the preferences of
    each annotator. `human_system` (systems,) and `metric_system` (metrics, systems) are the system-level scores in the
    file. `human_tie` is the tie threshold of human scores in `acc_eq`. `overall` are the metrics without a score for
    the aspect; the score of these metrics without an aspect is used instead. `severity_notes` are the notes on the
    severity of annotators.
    """

    aspect: str
    design: Design
    people: tuple[str, ...]
    metrics: tuple[str, ...]
    scores: ItemScores
    human_system: Floats
    metric_system: Floats
    preferences: Comparisons
    annotators: Comparisons
    human_tie: float
    notes: tuple[Note, ...]
    overall: tuple[str, ...] = ()
    severity_notes: tuple[Note, ...] = ()

    @property
    def items(self) -> tuple[str, ...]:
        """The items of the design."""
        return self.design.items

    @property
    def systems(self) -> tuple[str, ...]:
        """The systems of the design."""
        return self.design.systems

    @cached_property
    def cells(self) -> ClusterCells:
        """Preferences of annotators and metrics, in groups of clusters with equal preferences."""
        return ClusterCells.from_comparisons(self.preferences, self.design.units)

    @cached_property
    def persons(self) -> Floats:
        """Scores of each annotator, (annotators, items, systems); NaN if not rated."""
        return self.scores.spread(self.scores.persons)

    @cached_property
    def scored_people(self) -> ScoredPeople:
        """Scores of the annotators that are compared with the scores of each metric when systems are placed on a
        scale."""
        return ScoredPeople(
            np.where(np.isfinite(self.scores.human), self.scores.persons, np.nan),
            units=self.design.units[self.scores.items],
        )

    @cached_property
    def human(self) -> Floats:
        """Mean scores over annotators, (items, systems); see `human_means`."""
        return self.scores.spread(self.scores.human)

    @cached_property
    def unrounded_human(self) -> Floats:
        """Unrounded mean scores over annotators, adjusted for severity, (items, systems); for means over outputs."""
        if self.scores.levels is None:
            return self.human
        return np.where(
            np.isfinite(self.human),
            mean_of_defined(self.persons - self.scores.levels.values[:, None, None], axis=0),
            np.nan,
        )

    @cached_property
    def metric_scores(self) -> Floats:
        """Scores of each metric, (metrics, items, systems)."""
        return self.scores.spread(self.scores.metrics)

    @property
    def human_signs(self) -> Signs:
        """Preferences of the combined annotators as signs, (pairs, items)."""
        return self.preferences.signs[:, 0]

    @property
    def metric_signs(self) -> Signs:
        """Preferences of each metric as signs, (metrics, pairs, items)."""
        return np.moveaxis(self.preferences.signs[:, 1:], 1, 0)

    @cached_property
    def has_both_scores(self) -> NDArray[np.bool_]:
        """Whether both annotators and metric have a score, (metrics, items, systems)."""
        return np.asarray(np.isfinite(self.human) & np.isfinite(self.metric_scores))

    @cached_property
    def has_shared_comparison(self) -> NDArray[np.bool_]:
        """Whether annotators and metric share a comparison, (metrics,)."""
        return np.array([len(self.shared(index).pair) > 0 for index in range(len(self.metrics))], dtype=np.bool_)

    def shared(self, metric_index: int) -> JointPreferences:
        """Return the comparisons that both the annotators and a metric rated."""
        joint = self.preferences.joint(0, 1 + metric_index)
        is_shared = joint.is_rated_by_all
        return (
            joint
            if is_shared.all()
            else JointPreferences(joint.pair[is_shared], joint.item[is_shared], joint.signs[:, is_shared])
        )

    @property
    def has_system_scores_only(self) -> NDArray[np.bool_]:
        """Whether only the system-level scores of a metric can be compared with the annotators, (metrics,).

        A metric is marked if it shares no pair of outputs with the annotators, and at least two systems have scores by
        both. For such a system, the human score, the metric score or both are system-level scores of the file.
        """
        is_metric_in_file, is_human_in_file = np.isfinite(self.metric_system), np.isfinite(self.human_system)
        has_human_system_score = is_human_in_file | (np.isfinite(self.scores.human).any(axis=0) & is_metric_in_file)
        has_metric_system_score = is_metric_in_file | (np.isfinite(self.scores.metrics).any(axis=1) & is_human_in_file)
        return np.asarray(
            ~self.has_shared_comparison & ((has_human_system_score & has_metric_system_score).sum(axis=1) > 1)
        )

    @property
    def human_item_comparison(self) -> RaterComparison:
        """The comparison on the items with human ratings; items without human ratings do not affect agreement."""
        is_rated_item = np.zeros(len(self.items), dtype=np.bool_)
        is_rated_item[self.preferences.select_rater(0).item] = True
        is_rated_item[self.scores.items[np.isfinite(self.scores.human).any(axis=1)]] = True
        item_positions = np.flatnonzero(is_rated_item)
        return self if len(item_positions) in (0, len(self.items)) else self.on_items(item_positions)

    def on_items(self, item_positions: NDArray[np.intp]) -> RaterComparison:
        """Return the comparison on the items at these positions, which are in ascending order."""
        return replace(
            self,
            design=self.design.on(item_positions),
            scores=self.scores.on(item_positions),
            preferences=self.preferences.select_items(item_positions),
            annotators=self.annotators.select_items(item_positions),
        )

    def only(self, metric_indices: NDArray[np.intp], *, scored: Bools | None, keys: Ints) -> RaterComparison:
        """Return the comparison with some of the metrics, scores and preferences.

        `metric_indices` are positions, `scored` (items, systems) marks the scores to use (None: all), and `keys` are
        the keys of the preferences to use.
        """
        selected_preferences = self.preferences.select_raters([0, *(1 + metric_indices).tolist()])
        item_scores = replace(self.scores, metrics=self.scores.metrics[metric_indices])
        if scored is not None:
            item_scores = replace(
                self.scores,
                items=np.arange(len(self.items)),
                persons=self.persons,
                human=np.where(scored, self.human, np.nan),
                metrics=np.where(scored, self.metric_scores[metric_indices], np.nan),
            )
        return replace(
            self,
            metrics=tuple(self.metrics[metric_index] for metric_index in metric_indices.tolist()),
            scores=item_scores,
            metric_system=self.metric_system[metric_indices],
            preferences=selected_preferences.select_rows(np.isin(selected_preferences.keys, keys)),
        )


def compare(study: Study, *, min_systems: int = 2, **setting: Unpack[PreferenceOptions]) -> tuple[RaterComparison, ...]:
    """Return the comparisons of annotators with metrics, one per aspect with human ratings.

    Raises `InputError` for fewer than `min_systems` systems, or without a shared pair of outputs or system scores.
    """
    return compare_selection(study.select(**selection_arguments(setting)), setting, min_systems)


def compare_selection(study: Study, setting: PreferenceOptions, min_systems: int = 2) -> tuple[RaterComparison, ...]:
    """Return the comparisons of a study to which the selection was already applied."""
    if len(study.systems) < min_systems:
        raise NotComparableError(
            too_few(study, "systems cannot be compared; with metrics, use agreement, which compares outputs")
        )
    return tuple(compare_aspect(study, aspect, setting) for aspect in study.aspects)


def require_shared_outputs(comparisons: tuple[RaterComparison, ...]) -> tuple[RaterComparison, ...]:
    """Return the comparisons; raise `InputError` if metrics and annotators share only whole-system scores."""
    for comparison in comparisons:
        if not comparison.has_shared_comparison.any():
            raise InputError(
                f"the metrics ({join_labels(comparison.metrics, limit=3)}) share only scores of whole systems with "
                f"annotators{label_of(comparison.aspect)}; use agreement, or add scores of outputs"
            )
    return comparisons


def compare_aspect(selected_study: Study, aspect: str, setting: PreferenceOptions) -> RaterComparison:
    """Return the comparison of one aspect of a selected study; metrics are optional."""
    full_setting = settings(setting)

    def make_comparison() -> RaterComparison:
        comparison, aspect_text = compare_checked_raters(selected_study, aspect, full_setting), label_of(aspect)
        if selected_study.metrics and not comparison.metrics:
            reason = next((f"; {note.message}" for note in selected_study.notes if note.rule == SYSTEM_SCORE_RULE), "")
            raise NotComparableError(
                f"{selected_study.name}: the selected metrics have no ratings{aspect_text}; metrics: "
                f"{join_labels(selected_study.metrics)}{reason}"
            )
        return replace(
            comparison, notes=(*selected_study.notes, *comparison.notes, *_design_notes(comparison, aspect_text))
        )

    return selected_study.once(("compared", aspect, *_cache_key(full_setting)), make_comparison)


def compare_any_raters(selected_study: Study, aspect: str, setting: PreferenceOptions) -> RaterComparison:
    """Return the comparison of one aspect of a selected study, with annotators, metrics or both."""
    comparison, aspect_text = compare_checked_raters(selected_study, aspect, setting), label_of(aspect)
    if setting["ties"] == "calibrated" and not np.isfinite(comparison.scores.human).any():
        raise OptionError(
            f"ties='calibrated': {selected_study.name} has no human scores to which tie thresholds could be "
            "fitted; give a number, or 'exact'"
        )
    unpaired_raters = [
        rater
        for rater in (*(HUMAN,) * bool(comparison.people), *comparison.metrics)
        if rater not in comparison.preferences.active_raters
    ]
    notes = build_notes(
        _unpaired_note(comparison, aspect_text),
        (
            "no-battle",
            len(unpaired_raters),
            f"no leaderboard by {join_labels(unpaired_raters)}, which compared no two outputs of one item{aspect_text}",
        ),
        aspect=aspect,
    )
    return replace(comparison, notes=(*comparison.notes, *notes))


def compare_all_raters(selected_study: Study, aspect: str, setting: PreferenceOptions) -> RaterComparison:
    """Return the comparison of all raters with notes; the raters may be annotators alone or metrics alone."""
    full_setting = settings(setting)
    return selected_study.once(
        ("raters", aspect, *_cache_key(full_setting)), lambda: _compare_all_raters(selected_study, aspect, full_setting)
    )


def compare_checked_raters(study: Study, aspect: str, setting: PreferenceOptions) -> RaterComparison:
    """Return the comparison of all raters; raise if labels have no order or annotators use different scales."""
    check_ordered(study, aspect)
    comparison = compare_all_raters(study, aspect, setting)
    check_same_scale(study, comparison.people, comparison.scores.persons, label_of(aspect))
    return comparison


def _cache_key(full_setting: PreferenceOptions) -> tuple[Any, ...]:
    """Return the cache key: all settings that affect the comparisons of a selected study and aspect."""
    return (full_setting["aggregate"], full_setting["human_ties"], full_setting["ties"], full_setting["orders"])


def _compare_all_raters(study: Study, aspect: str, full_setting: PreferenceOptions) -> RaterComparison:
    rating_rows = filter_rows(study._rater_rows([*study.humans, *study.metrics]), pl.col("aspect").is_in([aspect, ""]))
    raters_of_aspect, raters_with_ratings = (
        set(rows["rater"].unique()) for rows in (rating_rows.filter(aspect=aspect), rating_rows)
    )
    people = tuple(annotator for annotator in study.humans if annotator in raters_of_aspect)
    metrics = tuple(metric for metric in study.metrics if metric in raters_with_ratings)
    systems, raters = study.systems, [*people, *metrics]
    # Sorted, so that folds, resamples and flips do not depend on the order of rows.
    item_labels = rating_rows["item"].unique().sort()
    items = tuple(item_labels.filter(item_labels != "").to_list())
    design = Design.from_study(study, items=items, systems=systems)
    verdicts, notes = study.preferences.merge_verdicts(full_setting["orders"])
    verdicts = select_aspect_rows(verdicts, aspect)
    score_rows = select_aspect_rows(filter_rows(study.ratings.frame, pl.col("rater").is_in(raters)), aspect)
    is_scored_item = pl.Series(items, dtype=pl.String).is_in(score_rows["item"].unique().implode())
    scored_item_indices = is_scored_item.arg_true().cast(pl.Int64).to_numpy()
    scored_items = tuple(items[item_index] for item_index in scored_item_indices)
    panel_shape = (len(raters), len(scored_items), len(systems))
    check_size(study, panel_shape, 8 * math.prod(panel_shape))
    panel = Panel.from_study(study, raters=raters, aspect=aspect, items=scored_items, systems=systems)
    n_scored_outputs = np.isfinite(panel.values).sum(axis=2)
    check_size(study, panel_shape, ROW_BYTES * int((n_scored_outputs * (n_scored_outputs - 1) // 2).sum()))
    annotator_scores, metric_scores = panel.values[: len(people)], panel.values[len(people) :]
    notes += build_notes(
        (
            "verdicts-vote",
            full_setting["aggregate"] == "mean" and len(people) > 1 and verdicts["rater"].is_in(list(people)).any(),
            "several annotators gave verdicts, which have no mean, so the system with more votes wins and ties do "
            "not count (aggregate='vote')",
        )
    )
    human_mean_scores = human_means(annotator_scores)
    human_tie_threshold = human_threshold(annotator_scores, full_setting["human_ties"])
    metric_thresholds = tie_thresholds(
        full_setting["ties"],
        human_scores=human_mean_scores.values,
        human_tie_threshold=human_tie_threshold,
        metric_scores=metric_scores,
        units=design.units[scored_item_indices],
    )
    rater_preferences, human_preferences = compare_in_memory(
        score_table(
            panel.values,
            scored_item_indices,
            np.concatenate([np.full(annotator_scores.shape[:2], human_tie_threshold), metric_thresholds]),
        ),
        verdict_table(verdicts, raters, items, systems),
        n_annotators=len(people),
        aggregate=full_setting["aggregate"],
    )
    is_metric_expression = pl.col("rater") >= len(people)
    metric_preferences = rater_preferences.filter(is_metric_expression).with_columns(pl.col("rater") - len(people) + 1)
    make_comparisons = partial(Comparisons.from_rows, items=items, systems=systems)
    return RaterComparison(
        aspect=aspect,
        design=design,
        people=people,
        metrics=metrics,
        scores=ItemScores(
            items=scored_item_indices,
            n_items=len(items),
            persons=annotator_scores,
            human=human_mean_scores.values,
            metrics=metric_scores,
            levels=human_mean_scores.levels,
        ),
        human_system=human_means(panel.system_scores[: len(people), None]).values[0],
        metric_system=panel.system_scores[len(people) :],
        preferences=make_comparisons(pl.concat([human_preferences, metric_preferences]), raters=(HUMAN, *metrics)),
        annotators=make_comparisons(rater_preferences.filter(~is_metric_expression), raters=people),
        # Scores of one annotator are compared exactly in acc_eq, as in its paper; means contain rounding errors.
        human_tie=0.0 if len(people) == 1 and full_setting["human_ties"] is None else human_tie_threshold,
        notes=tuple(notes),
        overall=tuple(metric for metric in metrics if metric not in raters_of_aspect),
        severity_notes=tuple(human_mean_scores.notes(label_of(aspect), aspect)),
    )


def _unpaired_note(comparison: RaterComparison, suffix: str) -> tuple[str, int, str]:
    """Return the note on the pairs of scored outputs that have no human preference, because no annotator rated both."""
    n_unpaired = comparison.scores.count_unpaired(comparison.preferences.select_rater(0))
    message = f"{n_unpaired} comparisons{suffix} are excluded, because no annotator rated both outputs"
    return "unpaired", n_unpaired, message


def _design_notes(comparison: RaterComparison, suffix: str) -> list[Note]:
    """Return the notes on the design; raise `NotComparableError` if annotators and metrics have nothing in common."""
    if len(comparison.systems) == 1:
        if not comparison.has_both_scores.any():
            raise NotComparableError(
                f"annotators and metrics have no output with scores in common{suffix}; use the same item labels in "
                "both files"
            )
        message = f"there is only one system{suffix}, so only statistics over all outputs are defined"
        return [*build_notes(("one-system", True, message), aspect=comparison.aspect), *comparison.severity_notes]
    human_comparisons = comparison.preferences.select_rater(0)
    if not len(human_comparisons):
        raise NotComparableError(
            f"no item has human ratings of two systems{suffix}, so no preference can be derived; give "
            "ratings of two systems per item, or use rates, which compares whole-number scores on different items"
        )
    is_system_level_metric = comparison.has_system_scores_only
    system_level_metrics = list(compress(comparison.metrics, is_system_level_metric))
    unmatched_metrics = list(compress(comparison.metrics, ~comparison.has_shared_comparison & ~is_system_level_metric))
    if comparison.metrics and len(unmatched_metrics) == len(comparison.metrics):
        raise NotComparableError(
            f"annotators and metrics have no pair of outputs and no scores of systems in common{suffix} "
            f"(annotators {join_labels(comparison.people, limit=3)}; metrics "
            f"{join_labels(unmatched_metrics, limit=3)}); use the same item and system labels in both files"
        )
    constant_metrics = [
        metric
        for metric, metric_scores in zip(comparison.metrics, comparison.scores.metrics, strict=True)
        if np.isfinite(metric_scores).any() and np.nanmin(metric_scores) == np.nanmax(metric_scores)
    ]
    verdict_metrics = [
        metric
        for metric, metric_scores in zip(comparison.metrics, comparison.scores.metrics, strict=True)
        if metric in comparison.preferences.active_raters and np.isnan(metric_scores).all()
    ]
    has_only_human_verdicts = bool(np.isnan(comparison.scores.human).all())
    compared_system_indices = np.unique(comparison.design.pairs[np.unique(human_comparisons.pair)])
    uncompared_systems = np.delete(comparison.systems, compared_system_indices).tolist()
    n_uncompared_items = len(comparison.items) - len(np.unique(human_comparisons.item))
    design_notes = build_notes(
        (
            "no-overlap",
            len(unmatched_metrics),
            f"annotators share no pair of outputs with {join_labels(unmatched_metrics)}{suffix}, so "
            "statistics are undefined",
        ),
        (
            "whole-systems",
            len(system_level_metrics),
            f"{join_labels(system_level_metrics)} gave only scores of whole systems{suffix}, so the "
            "comparison with annotators is only at the system level",
        ),
        (
            "constant-metric",
            len(constant_metrics),
            f"{join_labels(constant_metrics)} gave constant scores{suffix}, so correlations are undefined and "
            "every pair is a tie",
        ),
        (
            "all-ties",
            0 if human_comparisons.sign.any() else len(human_comparisons),
            f"human ratings tie on every pair{suffix}, so correlations and decisions are undefined",
        ),
        (
            "one-item",
            1 if comparison.design.n_units < 2 else 0,
            f"there are no intervals{suffix}, because there is only one item or cluster to resample",
        ),
        (
            "verdicts-only",
            has_only_human_verdicts,
            f"human ratings are verdicts, not scores{suffix}, so correlations, pairwise accuracy, acc_eq and spa are "
            "undefined",
        ),
        (
            "verdicts-only",
            0 if has_only_human_verdicts else len(verdict_metrics),
            f"{join_labels(verdict_metrics)} gave only verdicts{suffix}, so correlations, acc_eq and spa are undefined",
        ),
        (
            "systems-without-annotators",
            len(uncompared_systems),
            f"annotators compared no output of {join_labels(uncompared_systems)}{suffix}, so nothing can be "
            "estimated for these systems",
        ),
        (
            "item-weights",
            comparison.design.has_item_weights,
            "item weights apply to statistics of agreement; counts of wins, ties and losses "
            "(favoritism, ranking, correction, protocol) count every item once",
        ),
        (
            "unequal-selection",
            comparison.design.selected_unequally and comparison.human_item_comparison.design.selected_unequally,
            f"items were selected for human ratings with different probabilities{suffix}; only leaderboard and rates "
            "adjust for these probabilities, so this result describes the items with human ratings and not all items",
        ),
        (
            "items-without-annotators",
            n_uncompared_items,
            f"{n_uncompared_items} of {len(comparison.items)} items have no human comparison of two outputs{suffix}",
        ),
        _unpaired_note(comparison, suffix),
        aspect=comparison.aspect,
    )
    return [*design_notes, *comparison.severity_notes]
