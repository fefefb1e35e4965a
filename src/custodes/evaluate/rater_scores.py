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
from custodes.data.notes import Note, noted
from custodes.data.panel import Panel
from custodes.data.patterns import Patterns, select_labels
from custodes.data.study import Study
from custodes.errors import InputError, OptionError, listed
from custodes.evaluate.annotator_means import check_same_scale, without_float_noise
from custodes.evaluate.comparable import check_ordered, label_of
from custodes.evaluate.design import Design
from custodes.stats.arrays import Floats, read_only, up_to_rounding
from custodes.stats.ratios import mean_of_defined

HumanRaters = Literal["aspects", "annotators"]
METRIC = "metric"
WHOLE, VERDICTS = "whole-system scores only", "verdicts, not scores"
UNSCORED = "no scores of the selected systems and items"

FEW = 12
"""Minimum number of clusters of items for reliable intervals; see docs/explanation/statistics/intervals.md."""


@dataclass(frozen=True, kw_only=True)
class RaterScores:
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

    def __post_init__(self) -> None:
        read_only(self)

    @property
    def varies(self) -> NDArray[np.bool_]:
        """Whether the scores of a rater vary, (raters,)."""
        return np.isin(self.names, self.constant, invert=True)

    def of_kind(self, kind: str) -> NDArray[np.intp]:
        """Return the positions of annotators ('human') or metrics ('metric') whose scores vary."""
        return np.flatnonzero(self.varies & (np.array(self.kinds) == kind))

    def on(self, items: NDArray[np.intp]) -> RaterScores:
        """Return the scores and the design of the items at these positions."""
        return replace(
            self,
            design=self.design.on(items),
            scores=self.scores[:, items],
            annotators=self.annotators[:, :, items],
        )

    def left_out_columns(self, more: Sequence[tuple[str, str]] = ()) -> dict[str, list[str]]:
        """Return the columns of excluded raters and reasons; `more` are further excluded raters with reasons."""
        rows = [*self.left_out, *more]
        return {"rater": [name for name, _ in rows], "reason": [reason for _, reason in rows]}


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
    who = select_rater_scores(study, study.select(**selection, one_side=one_side), human_raters)
    return who if variants is None else _with_means(who, variants)


def _with_means(who: RaterScores, variants: str | Sequence[str]) -> RaterScores:
    """Return the raters, with all metrics that match a pattern replaced by one metric.

    The scores of the new metric are the mean of the standardised scores of the matching metrics, by aspect.
    """
    metrics = [i for i, kind in enumerate(who.kinds) if kind == METRIC]
    labels = list(dict.fromkeys(who.raters[i] for i in metrics))
    family: dict[int, str] = {}
    for pattern in value_list("variants", variants, labels=labels):
        matches = select_labels(pattern, labels, option="variants", what="metric")
        places = [i for i in metrics if who.raters[i] in matches]
        name = pattern.replace("*", "").strip("-_.: ")
        if not name or name in {*who.raters} - {*matches} or family.keys() & {*places} or name in family.values():
            raise OptionError(
                f"variants={pattern!r}: the pattern without '*' must be a name that no other rater has, and a metric "
                "can match only one pattern; give patterns such as 'rouge*,bleu*'"
            )
        family |= dict.fromkeys(places, name)
    members: dict[str, list[int]] = {}
    for i, name in enumerate(who.names):
        members.setdefault(name_of(family[i], who.rater_aspects[i]) if i in family else name, []).append(i)
    first = [places[0] for places in members.values()]
    scores = np.stack(
        [
            _mean_of_standardised(who.scores[places]) if places[0] in family else who.scores[places[0]]
            for places in members.values()
        ]
    )
    dates = [[date for i in places if (date := who.dates[i]) is not None] for places in members.values()]
    return replace(
        who,
        names=tuple(members),
        raters=tuple(family.get(i, who.raters[i]) for i in first),
        kinds=tuple(who.kinds[i] for i in first),
        rater_aspects=tuple(who.rater_aspects[i] for i in first),
        scores=scores,
        dates=tuple(min(dated, default=None) for dated in dates),
        constant=tuple(name for name, values in zip(members, scores, strict=True) if not np.isfinite(values).any()),
    )


def _mean_of_standardised(scores: Floats) -> Floats:
    """Return the mean over metrics of standardised scores (metrics, items, systems).

    The standardised scores of a metric have mean 0 and standard deviation 1. If the means are constant, all are NaN.
    """
    flat = scores.reshape(len(scores), -1)
    mean = mean_of_defined(flat)[:, np.newaxis]
    z = (flat - mean) / np.sqrt(mean_of_defined((flat - mean) ** 2))[:, np.newaxis]
    values = up_to_rounding(mean_of_defined(z, axis=0))
    varies = len(np.unique(values[np.isfinite(values)])) > 1
    return np.where(varies, values, np.nan).reshape(scores.shape[1:])


def select_rater_scores(study: Study, chosen: Study, human_raters: HumanRaters) -> RaterScores:
    """Return the scores of the raters in `chosen`, which is the selected part of `study`."""
    scored = chosen.ratings.frame.filter(pl.col("item") != "")
    _check_enough(chosen, scored)
    items = tuple(sorted(scored["item"].unique()))  # folds and resamples do not depend on the order of rows
    systems = tuple(sorted(scored["system"].unique()))
    by_rater = scored.select("rater", "aspect").unique(maintain_order=True)
    of_people = set(by_rater.filter(pl.col("rater").is_in(list(chosen.humans)))["aspect"])
    aspects = tuple(aspect for aspect in chosen.aspects if aspect in of_people)
    parts: list[tuple[str, str, str, Floats]] = []
    annotators = np.full((len(aspects), len(chosen.humans), len(items), len(systems)), np.nan)
    for aspect in aspects:
        check_ordered(study, aspect)
    for k, aspect in enumerate(aspects):
        # Ratings without an aspect are not used here, because all aspects would then have the same ratings.
        theirs = set(by_rater.filter(pl.col("aspect") == aspect)["rater"])
        positions = [i for i, name in enumerate(chosen.humans) if name in theirs]
        names = [chosen.humans[i] for i in positions]
        panel = Panel.from_study(chosen, raters=names, aspect=aspect, items=items, systems=systems)
        annotators[k, positions] = panel.values
        if human_raters == "aspects":
            check_same_scale(chosen, names, panel.values, label_of(aspect))
            parts.append((HUMAN, "human", aspect, without_float_noise(mean_of_defined(panel.values, axis=0))))
        else:
            parts += [(name, "human", aspect, values) for name, values in zip(names, panel.values, strict=True)]
    of_metrics = aspects if chosen.humans else chosen.aspects
    for aspect in ("", *(a for a in of_metrics if a)):
        theirs = set(by_rater.filter(pl.col("aspect") == aspect)["rater"])
        names = [name for name in chosen.metrics if name in theirs]
        panel = Panel.from_study(chosen, raters=names, aspect=aspect, items=items, systems=systems)
        parts += [(name, METRIC, aspect, values) for name, values in zip(names, panel.values, strict=True)]
    return _assembled(study, chosen, parts, aspects, annotators, Design.of(chosen, items=items, systems=systems))


def _check_enough(study: Study, scored: pl.DataFrame) -> None:
    if scored.is_empty():
        raise InputError(
            f"{study.name}: there are only verdicts, and this question ranks scores; add scores of single outputs"
        )
    for what in ("system", "item"):
        labels = scored[what].unique(maintain_order=True)
        if labels.len() < 2:
            raise InputError(
                f"{study.name}: only {labels.len()} {what} with scores ({listed(labels)}); give at least two"
            )


def _assembled(
    study: Study,
    chosen: Study,
    parts: list[tuple[str, str, str, Floats]],
    aspects: tuple[str, ...],
    annotators: Floats,
    design: Design,
) -> RaterScores:
    names = tuple(name_of(rater, aspect) for rater, _, aspect, _ in parts)
    if len(names) < 2:
        raise InputError(
            f"{chosen.name}: only {len(names)} rater gave scores of outputs ({listed(names)}); give at least two"
        )
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise InputError(f"{chosen.name}: two raters are named {listed(map(repr, doubled))}; rename the metric")
    scores = np.stack([values for *_, values in parts])
    with np.errstate(invalid="ignore"):
        flat = scores.reshape(len(scores), -1)
        constant = np.nanmin(flat, axis=1) == np.nanmax(flat, axis=1)
    scores[constant] = np.nan
    stuck = tuple(name for name, is_constant in zip(names, constant, strict=True) if is_constant)
    left_out = [
        *_strangers(study, chosen, aspects),
        *((name, "its scores are constant, so it ranks nothing") for name in stuck),
    ]
    rated = np.isfinite(scores)
    missing = int((~rated[~constant]).sum())
    data_notes = noted(
        ("constant-rater", len(stuck), f"{listed(stuck)} gave constant scores, so these raters are excluded"),
        ("missing-scores", missing, f"{missing} of {rated[~constant].size} scores of raters are missing"),
    )
    dates = dict(zip(chosen.raters.frame["rater"], chosen.raters.frame["date"], strict=True))
    return RaterScores(
        design=design,
        names=names,
        raters=tuple(rater for rater, *_ in parts),
        kinds=tuple(kind for _, kind, _, _ in parts),
        rater_aspects=tuple(aspect for _, _, aspect, _ in parts),
        scores=scores,
        aspects=aspects,
        annotators=annotators,
        people=chosen.humans,
        dates=tuple(dates.get(rater) for rater, *_ in parts),
        constant=stuck,
        left_out=tuple(left_out),
        notes=(*chosen.notes, *data_notes),
    )


def _strangers(study: Study, chosen: Study, aspects: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return the selected raters without usable scores, and the reasons."""
    scored = chosen.ratings.frame
    whole = set(scored.filter(pl.col("item") == "")["rater"])
    verdicts = set(chosen.preferences.frame["rater"])
    used = set(scored.filter(pl.col("item") != "")["rater"])
    rated = study._rows_of(chosen.metrics).select("rater", "aspect").unique(maintain_order=True)
    ours = pl.col("aspect").is_in([*aspects, ""])
    elsewhere = set(rated.filter(ours)["rater"])
    rows = [
        (
            name,
            WHOLE if name in whole else VERDICTS if name in verdicts else "no scores of the selected systems and items",
        )
        for name in (*chosen.humans, *chosen.metrics)
        if name not in used and (name in whole or name in verdicts or name in elsewhere)
    ]
    strangers = rated.filter(~ours)
    rows += [
        (name_of(name, aspect), f"no selected annotator rated the aspect {aspect!r}")
        for name, aspect in strangers.iter_rows()
    ]
    return rows


def few_clusters_notes(
    n_units: int, resamples: int, *, fewest: int = FEW, aspect: str = "", columns: Sequence[str] = ()
) -> list[Note]:
    """Return a note if there are too few clusters of items for bootstrap intervals.

    `columns` are the columns with these intervals; by default, the note is about all intervals.
    """
    which = f" of {listed(columns)}" if columns else ""
    message = (
        f"there are only {n_units} clusters of items{label_of(aspect)}, so intervals{which} are unreliable; in "
        "simulations with so few clusters, coverage was below 85 %"
    )
    return noted(("few-clusters", n_units if 1 < n_units < fewest and resamples else 0, message), aspect=aspect)
