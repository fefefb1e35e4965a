"""Scores of annotators and metrics for all aspects, as arrays with labels.

`complementarity` and `ceiling` start here. As in the paper, a human rater is by default an aspect: the scores for this
aspect are averaged over annotators.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Unpack

import numpy as np
import polars as pl
from numpy.typing import NDArray

from custodes.answers.shared_arguments import Selection
from custodes.arguments import value_list
from custodes.data.comparisons import HUMAN
from custodes.data.notes import Note, build_notes
from custodes.data.panel import Panel
from custodes.data.patterns import Patterns, select_labels
from custodes.data.study import Study
from custodes.errors import InputError, OptionError, join_labels
from custodes.evaluate.comparable import check_ordered, label_of
from custodes.evaluate.design import Design
from custodes.evaluate.scores import check_same_scale, human_means, without_float_noise
from custodes.stats.arrays import Floats, ReadOnlyArrays, equal_positions, round_for_sorting
from custodes.stats.ratios import mean_of_defined

HumanRaters = Literal["aspects", "annotators"]
METRIC = "metric"
FEW = 12
"""Minimum number of clusters of items for reliable intervals; see docs/explanation/statistics/intervals.md."""


@dataclass(frozen=True, kw_only=True)
class RaterScores(ReadOnlyArrays):
    """Scores of all raters; annotators come before metrics.

    In `scores` (raters, items, systems), higher is better; NaN if not rated or if the scores of the rater are constant.
    `annotators` (aspects, annotators, items, systems) are the scores before averaging. `dates` are release dates (None
    if unknown), and `constant` are the raters whose scores do not vary.
    """

    design: Design
    names: tuple[str, ...]
    raters: tuple[str, ...]
    kinds: tuple[str, ...]
    rater_aspects: tuple[str, ...]
    scores: Floats
    aspects: tuple[str, ...]
    annotators: Floats
    people: tuple[str, ...]
    dates: tuple[str | None, ...]
    constant: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...]
    notes: tuple[Note, ...]

    @property
    def varies(self) -> NDArray[np.bool_]:
        """Whether the scores of a rater vary, (raters,)."""
        return np.isin(self.names, self.constant, invert=True)

    def select_kind(self, kind: str) -> NDArray[np.intp]:
        """Return the positions of annotators ('human') or metrics ('metric') whose scores vary."""
        return np.flatnonzero(self.varies & (np.array(self.kinds) == kind))

    def on(self, item_positions: NDArray[np.intp]) -> RaterScores:
        """Return the scores and the design of the items at these positions."""
        return replace(
            self,
            design=self.design.on(item_positions),
            scores=self.scores[:, item_positions],
            annotators=self.annotators[:, :, item_positions],
        )

    def left_out_rows(self, further_raters: Sequence[tuple[str, str]] = ()) -> list[dict[str, str]]:
        """Return a row for each excluded rater and each of `further_raters`, with the reason."""
        return [{"rater": rater, "reason": reason} for rater, reason in (*self.left_out, *further_raters)]


def name_of(rater: str, aspect: str) -> str:
    """Return the name of a rater of one aspect.

    >>> name_of("judge", "fluency"), name_of("bleu", "")
    ('judge:fluency', 'bleu')
    """
    return f"{rater}:{aspect}" if aspect else rater


def rater_scores(
    study: Study,
    *,
    human_raters: HumanRaters = "aspects",
    one_side: bool = False,
    variants: Patterns = None,
    **selection: Unpack[Selection],
) -> RaterScores:
    """Return the scores of annotators and metrics for all aspects.

    If `one_side`, the study may have annotators alone or metrics alone. With human_raters='aspects', a human rater is
    an aspect (mean over annotators). With human_raters='annotators', a human rater is a combination of annotator and
    aspect. A metric that rated several aspects is a separate rater for each aspect. Raises `OptionError` for unknown
    names. Raises `InputError` if there are no scores, or fewer than two raters, systems or items.
    """
    raters = select_rater_scores(study, study.select(**selection, one_side=one_side), human_raters)
    return raters if variants is None else _average_variants(raters, variants)


def _average_variants(raters: RaterScores, variants: str | Sequence[str]) -> RaterScores:
    """Return the raters; for each pattern, one new metric replaces all metrics that match the pattern.

    For each aspect, the score of the new metric is the mean of the standardised scores of the matching metrics.
    """
    metric_indices = [rater_index for rater_index, rater_kind in enumerate(raters.kinds) if rater_kind == METRIC]
    metric_names = list(dict.fromkeys(raters.raters[rater_index] for rater_index in metric_indices))
    family_of_rater_index: dict[int, str] = {}
    for name_pattern in value_list("variants", variants, labels=metric_names):
        matching_metric_names = select_labels(name_pattern, metric_names, option="variants", what="metric")
        rater_indices = [
            rater_index for rater_index in metric_indices if raters.raters[rater_index] in matching_metric_names
        ]
        family_name = name_pattern.replace("*", "").strip("-_.: ")
        if (
            not family_name
            or family_name in {*raters.raters} - {*matching_metric_names}
            or family_of_rater_index.keys() & {*rater_indices}
            or family_name in family_of_rater_index.values()
        ):
            raise OptionError(
                f"variants={name_pattern!r}: the pattern without '*' must be a name that no other rater has, and a "
                "metric can match only one pattern; give patterns such as 'rouge*,bleu*'"
            )
        family_of_rater_index |= dict.fromkeys(rater_indices, family_name)
    family_or_rater_names = [
        family_of_rater_index.get(rater_index, rater) for rater_index, rater in enumerate(raters.raters)
    ]
    rater_names = list(map(name_of, family_or_rater_names, raters.rater_aspects))
    rater_indices_of_name = equal_positions(rater_names)
    first_rater_indices = [int(rater_indices[0]) for rater_indices in rater_indices_of_name]
    averaged_scores = np.stack(
        [
            _mean_of_standardised(raters.scores[rater_indices])
            if rater_indices[0] in family_of_rater_index
            else raters.scores[rater_indices[0]]
            for rater_indices in rater_indices_of_name
        ]
    )
    return replace(
        raters,
        names=tuple(dict.fromkeys(rater_names)),
        raters=tuple(family_or_rater_names[rater_index] for rater_index in first_rater_indices),
        kinds=tuple(raters.kinds[rater_index] for rater_index in first_rater_indices),
        rater_aspects=tuple(raters.rater_aspects[rater_index] for rater_index in first_rater_indices),
        scores=averaged_scores,
        dates=tuple(
            min(filter(None, (raters.dates[rater_index] for rater_index in rater_indices)), default=None)
            for rater_indices in rater_indices_of_name
        ),
        constant=tuple(
            rater_name
            for rater_name, scores_of_rater in zip(dict.fromkeys(rater_names), averaged_scores, strict=True)
            if not np.isfinite(scores_of_rater).any()
        ),
    )


def _mean_of_standardised(scores: Floats) -> Floats:
    """Return the mean over metrics of standardised scores (metrics, items, systems).

    The standardised scores of a metric have mean 0 and standard deviation 1. If all means are equal, the result is NaN.
    """
    flat_scores = scores.reshape(len(scores), -1)
    score_deviations = flat_scores - mean_of_defined(flat_scores)[:, np.newaxis]
    mean_scores = round_for_sorting(
        mean_of_defined(score_deviations / np.sqrt(mean_of_defined(score_deviations**2))[:, np.newaxis], axis=0)
    )
    has_varying_means = len(np.unique(mean_scores[np.isfinite(mean_scores)])) > 1
    return np.where(has_varying_means, mean_scores, np.nan).reshape(scores.shape[1:])


def select_rater_scores(study: Study, selected_study: Study, human_raters: HumanRaters) -> RaterScores:
    """Return the scores of the raters in `selected_study`, which is the selected part of `study`."""
    score_rows = selected_study.ratings.frame.filter(pl.col("item") != "")
    _check_enough(selected_study, score_rows)
    item_labels = tuple(sorted(score_rows["item"].unique()))  # the order of rows does not affect folds and resamples
    system_labels = tuple(sorted(score_rows["system"].unique()))
    scores_of_rater_and_aspect = dict[tuple[str, str], Floats]()
    for (aspect,), aspect_rows in score_rows.group_by("aspect"):
        raters_of_aspect = set(aspect_rows["rater"].unique())
        raters = [rater for rater in (*selected_study.humans, *selected_study.metrics) if rater in raters_of_aspect]
        panel = Panel.from_study(
            selected_study, raters=raters, aspect=str(aspect), items=item_labels, systems=system_labels
        )
        scores_of_rater_and_aspect |= {
            (rater, str(aspect)): scores for rater, scores in zip(raters, panel.values, strict=True)
        }
    # Human ratings without an aspect are used for no other aspect, because all aspects would then have equal ratings.
    annotators_of_aspect = {
        aspect: [annotator for annotator in selected_study.humans if (annotator, aspect) in scores_of_rater_and_aspect]
        for aspect in selected_study.aspects
    }
    aspects = tuple(aspect for aspect, annotators in annotators_of_aspect.items() if annotators)
    rater_kind_aspect_scores: list[tuple[str, str, str, Floats]] = []
    severity_notes: list[Note] = []
    annotator_scores_by_aspect = np.full(
        (len(aspects), len(selected_study.humans), len(item_labels), len(system_labels)), np.nan
    )
    for aspect_index, aspect in enumerate(aspects):
        check_ordered(study, aspect)
        annotators = annotators_of_aspect[aspect]
        aspect_annotator_scores = np.stack([scores_of_rater_and_aspect[annotator, aspect] for annotator in annotators])
        annotator_scores_by_aspect[aspect_index, np.isin(selected_study.humans, annotators)] = aspect_annotator_scores
        if human_raters == "aspects":
            check_same_scale(selected_study, annotators, aspect_annotator_scores, label_of(aspect))
            human_mean_scores = human_means(aspect_annotator_scores)
            severity_notes += human_mean_scores.notes(label_of(aspect), aspect)
            rater_kind_aspect_scores.append((HUMAN, "human", aspect, without_float_noise(human_mean_scores.values)))
        else:
            rater_kind_aspect_scores += [
                (annotator, "human", aspect, scores)
                for annotator, scores in zip(annotators, aspect_annotator_scores, strict=True)
            ]
    rater_kind_aspect_scores += [
        (metric, METRIC, aspect, scores_of_rater_and_aspect[metric, aspect])
        for aspect in dict.fromkeys(("", *(aspects if selected_study.humans else selected_study.aspects)))
        for metric in selected_study.metrics
        if (metric, aspect) in scores_of_rater_and_aspect
    ]
    return _assemble_scores(
        study,
        selected_study,
        rater_kind_aspect_scores,
        aspects,
        annotator_scores_by_aspect,
        Design.from_study(selected_study, items=item_labels, systems=system_labels),
        severity_notes,
    )


def _check_enough(study: Study, scored_rows: pl.DataFrame) -> None:
    if scored_rows.is_empty():
        raise InputError(
            f"{study.name}: there are only verdicts, and this question ranks scores; add scores of single outputs"
        )
    for column_name in ("system", "item"):
        distinct_labels = scored_rows[column_name].unique()
        if distinct_labels.len() < 2:
            raise InputError(
                f"{study.name}: only {distinct_labels.len()} {column_name} with scores "
                f"({join_labels(distinct_labels)}); give at least two"
            )


def _assemble_scores(
    study: Study,
    selected_study: Study,
    rater_kind_aspect_scores: list[tuple[str, str, str, Floats]],
    aspects: tuple[str, ...],
    annotator_scores_by_aspect: Floats,
    design: Design,
    severity_notes: list[Note],
) -> RaterScores:
    rater_names = tuple(name_of(rater, aspect) for rater, _, aspect, _ in rater_kind_aspect_scores)
    if len(rater_names) < 2:
        raise InputError(
            f"{selected_study.name}: only {len(rater_names)} rater gave scores of outputs ({join_labels(rater_names)})"
            "; give at least two"
        )
    repeated_names = sorted({rater_name for rater_name in rater_names if rater_names.count(rater_name) > 1})
    if repeated_names:
        raise InputError(
            f"{selected_study.name}: two raters are named {join_labels(map(repr, repeated_names))}; rename the metric"
        )
    scores = np.stack([scores_of_rater for *_, scores_of_rater in rater_kind_aspect_scores])
    is_constant_rater = np.fmin.reduce(scores, axis=(1, 2)) == np.fmax.reduce(scores, axis=(1, 2))
    scores[is_constant_rater] = np.nan
    constant_raters = tuple(
        rater_name for rater_name, is_constant in zip(rater_names, is_constant_rater, strict=True) if is_constant
    )
    has_score = np.isfinite(scores)
    n_missing_scores = int((~has_score[~is_constant_rater]).sum())
    data_notes = build_notes(
        (
            "constant-rater",
            len(constant_raters),
            f"{join_labels(constant_raters)} gave constant scores, so these raters are excluded",
        ),
        (
            "missing-scores",
            n_missing_scores,
            f"{n_missing_scores} of {has_score[~is_constant_rater].size} scores of raters are missing",
        ),
    )
    date_of_rater = dict(zip(selected_study.raters.frame["rater"], selected_study.raters.frame["date"], strict=True))
    return RaterScores(
        design=design,
        names=rater_names,
        raters=tuple(rater for rater, *_ in rater_kind_aspect_scores),
        kinds=tuple(rater_kind for _, rater_kind, _, _ in rater_kind_aspect_scores),
        rater_aspects=tuple(aspect for _, _, aspect, _ in rater_kind_aspect_scores),
        scores=scores,
        aspects=aspects,
        annotators=annotator_scores_by_aspect,
        people=selected_study.humans,
        dates=tuple(date_of_rater.get(rater) for rater, *_ in rater_kind_aspect_scores),
        constant=constant_raters,
        left_out=(
            *_unused_raters(study, selected_study, aspects),
            *((rater_name, "its scores are constant, so it ranks nothing") for rater_name in constant_raters),
        ),
        notes=(*selected_study.notes, *data_notes, *severity_notes),
    )


def _unused_raters(study: Study, selected_study: Study, aspects: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return the selected raters without usable scores, and the reasons."""
    score_rows = selected_study.ratings.frame
    system_score_raters = set(score_rows.filter(pl.col("item") == "")["rater"].unique())
    verdict_raters = set(selected_study.preferences.frame["rater"].unique())
    scored_raters = set(score_rows.filter(pl.col("item") != "")["rater"].unique())
    rater_aspect_rows = study._rater_rows(selected_study.metrics).select("rater", "aspect").unique(maintain_order=True)
    is_selected_aspect_expression = pl.col("aspect").is_in([*aspects, ""])
    raters_of_selected_aspects = set(rater_aspect_rows.filter(is_selected_aspect_expression)["rater"])
    unused_raters = []
    for rater in (*selected_study.humans, *selected_study.metrics):
        if rater in scored_raters:
            continue
        if rater in system_score_raters:
            unused_raters.append((rater, "whole-system scores only"))
        elif rater in verdict_raters:
            unused_raters.append((rater, "verdicts, not scores"))
        elif rater in raters_of_selected_aspects:
            unused_raters.append((rater, "no scores of the selected systems and items"))
    for rater, aspect in rater_aspect_rows.filter(~is_selected_aspect_expression).iter_rows():
        unused_raters.append((name_of(rater, aspect), f"no selected annotator rated the aspect {aspect!r}"))
    return unused_raters


def few_clusters_notes(n_units: int, resamples: int, *, min_units: int = FEW, aspect: str = "") -> list[Note]:
    """Return a note if there are too few clusters of items for bootstrap intervals."""
    return build_notes(
        (
            "few-clusters",
            n_units if 1 < n_units < min_units and resamples else 0,
            f"there are only {n_units} clusters of items{label_of(aspect)}, so intervals are unreliable; in "
            "simulations with so few clusters, coverage was below 85 %",
        ),
        aspect=aspect,
    )
