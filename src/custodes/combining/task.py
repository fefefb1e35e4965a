"""Task of combining: human ratings of one target, metrics that predict these ratings, and held-out folds."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from custodes.combining.kinds import Kinds
from custodes.data.loading import load_table
from custodes.data.notes import Note, noted
from custodes.data.panel import label_codes
from custodes.data.scale import Scale
from custodes.data.study import Study
from custodes.data.table import check_columns, check_unique, label_column
from custodes.errors import InputError, OptionError, listed, shown, suggestion
from custodes.evaluate.annotator_means import without_float_noise
from custodes.evaluate.comparable import label_of
from custodes.evaluate.design import Design
from custodes.evaluate.rater_comparison import compared
from custodes.evaluate.rater_scores import METRIC, RaterScores, select_rater_scores
from custodes.stats import ABSENT
from custodes.stats.arrays import Floats, read_only
from custodes.stats.learning.folds import grouped_folds
from custodes.stats.ratios import mean_of_defined

FOLDS = ("item", "system", "dataset", "group")
N_FOLDS = 5
MOST_OUTPUTS, LEAST_CLUSTERS = 20_000, 100
"""Maximum number of rated outputs for fits and tests. If there are more, clusters are drawn until this number is
reached, but at least `LEAST_CLUSTERS` clusters. The reason is time: resampled correlations and refits take longer with
more outputs."""
MEAN = "mean:"
SAMPLED = "outputs-sampled"
"""Code of the note that not all rated outputs were used."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """Target and predictors. The rows of the study are already selected.

    - `human` (items, systems): human ratings of the target; NaN if `rated` (items, systems) is false.
    - `verdicts`: whether the human judgments are preferences. The rating is then the proportion of wins minus the
      proportion of losses within the item.
    - `metrics`: the metrics that predict the ratings.
    - `directions` (metrics,): directions of the raw scores of the metrics.
    - `declared`: declared bounds of metrics, by name.
    - `kinds`: kinds of output that are calibrated separately, if any.
    """

    study: Study
    target: str
    human: Floats
    rated: NDArray[np.bool_]
    verdicts: bool
    metrics: RaterScores
    directions: Floats
    declared: Mapping[str, tuple[float, float]]
    notes: tuple[Note, ...]
    kinds: Kinds | None = None

    def __post_init__(self) -> None:
        read_only(self)

    @property
    def design(self) -> Design:
        """The items and systems of `human`."""
        return self.metrics.design

    @property
    def persons(self) -> Floats:
        """Ratings of the target by each annotator, (annotators, items, systems).

        A rating is NaN if the annotator did not rate all aspects of the target. If no annotator rated all aspects of
        any output, the result is the mean ratings, as if there were one annotator.
        """
        names = self.target.removeprefix(MEAN).split(",") if self.target.startswith(MEAN) else [self.target]
        aspects = [self.metrics.aspects.index(name) for name in names]
        persons = np.asarray(self.metrics.annotators[aspects].mean(axis=0))
        return persons if np.isfinite(persons).any() else self.human[np.newaxis]

    def rows(self, where: NDArray[np.intp]) -> Floats:
        """Return the scores (outputs, metrics) of some outputs, given by positions in `human.ravel()`."""
        return self.metrics.scores.reshape(len(self.metrics.names), -1)[:, where].T


def task(chosen: Study, target: str | None) -> Task:
    """Return the target and the predictors of a selected study.

    `target` is an aspect, or 'mean:A,B' for the mean of several aspects; None is the only aspect. Metrics that rate
    another aspect are not predictors. Raises `OptionError` if the target is unknown or missing. Raises `InputError` if
    nothing can be learned, because no metric varies, human ratings are constant, or there are too few items.

    """
    aspects = aspects_of(target, chosen.aspects)
    if set(aspects) != set(chosen.aspects):
        chosen = chosen.select(aspect=list(aspects))
    who = select_rater_scores(chosen, chosen, "aspects")
    for name, kind, aspect in zip(who.names, who.kinds, who.rater_aspects, strict=True):
        if kind != METRIC and name in who.constant:
            raise InputError(
                f"{chosen.name}: human ratings{label_of(aspect)} are constant, so nothing can be learned; "
                "select another aspect"
            )
    human, verdicts = _ratings(chosen, who, aspects)
    rated = np.isfinite(human)
    clusters = len(np.unique(who.design.units[rated.any(axis=1)]))
    if clusters < N_FOLDS:
        raise InputError(
            f"{chosen.name}: annotators rated {clusters} items (or clusters) with metric scores; "
            f"cross-validation needs at least {N_FOLDS}"
        )
    if np.ptp(human[rated]) == 0:
        raise InputError(
            f"{chosen.name}: human ratings of the target are all {human[rated][0]:g}, so nothing can "
            "be learned; select another target"
        )
    of_metrics = who.of_kind(METRIC)
    scores = who.scores[of_metrics][:, rated]
    varies = np.fmax.reduce(scores, axis=1) > np.fmin.reduce(scores, axis=1)
    if not varies.any():
        raise InputError(
            f"{chosen.name}: no metric has varying scores of rated outputs, so there is nothing to combine; add metrics"
        )
    metrics = _only(who, of_metrics[varies])
    name = aspects[0] if len(aspects) == 1 else MEAN + ",".join(aspects)
    stuck, n, missing = (
        [who.names[i] for i in of_metrics[~varies]],
        int(varies.sum()),
        int(np.isnan(scores[varies]).sum()),
    )
    unscored = [f"{name} ({why})" for name, why in who.left_out if name in chosen.metrics and name not in who.constant]
    remarks = noted(
        (
            "no-scores-of-outputs",
            len(unscored),
            f"metrics without scores of single outputs cannot be combined and are excluded: {listed(unscored)}",
        ),
        (
            "not-on-rated",
            len(stuck),
            f"metrics whose scores of the rated outputs are missing or constant are excluded: {listed(stuck)}",
        ),
        (
            "missing-metric-scores",
            missing,
            f"{missing} metric scores of rated outputs are missing; linear methods replace them by the training "
            f"mean, and XGBoost handles missing scores itself",
        ),
        (
            "more-features-than-rows",
            n if n >= rated.sum() else 0,
            f"there are {n} metrics and only {rated.sum()} rated outputs, so there is at most one output per metric",
        ),
        aspect=aspect_of(name),
    )
    bounds, direction = chosen.raters.bounds, chosen.raters.direction
    return Task(
        study=chosen,
        target=name,
        human=human,
        rated=rated,
        verdicts=verdicts,
        metrics=metrics,
        directions=np.array([direction[rater] for rater in metrics.raters]),
        declared={
            metric_name: bounds[rater]
            for metric_name, rater in zip(metrics.names, metrics.raters, strict=True)
            if rater in bounds
        },
        notes=(
            *(note for note in who.notes if note.rule != "missing-scores"),
            *noted(
                ("weights-unused", who.design.item_weights is not None, "item weights do not affect combined metrics")
            ),
            *remarks,
        ),
    )


def _only(who: RaterScores, places: NDArray[np.intp]) -> RaterScores:
    """Return the scores of the raters at the positions `places`."""

    def kept(values: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(values[i] for i in places)

    return replace(
        who,
        names=kept(who.names),
        raters=kept(who.raters),
        kinds=kept(who.kinds),
        rater_aspects=kept(who.rater_aspects),
        scores=who.scores[places],
        dates=kept(who.dates),
    )


def sampled(of: Task, rng: np.random.Generator) -> Task:
    """Return the task on random clusters with about `MOST_OUTPUTS` rated outputs, with a note.

    If the task has at most `MOST_OUTPUTS` rated outputs, it is returned unchanged.
    """
    design, total = of.design, int(of.rated.sum())
    if total <= MOST_OUTPUTS:
        return of
    size = np.bincount(design.units, weights=of.rated.sum(axis=1), minlength=design.n_units)
    clusters = rng.permutation(np.flatnonzero(size))
    drawn = clusters[: max(LEAST_CLUSTERS, np.count_nonzero(np.cumsum(size[clusters]) <= MOST_OUTPUTS))]
    if len(drawn) == len(clusters):
        return of
    items = np.flatnonzero(np.isin(design.units, drawn) & of.rated.any(axis=1))
    rated = of.rated[items]
    message = (
        f"to limit the time, methods are fitted and tested on {rated.sum()} of {total} rated outputs, from "
        f"{len(drawn)} of {len(clusters)} items (or clusters), drawn at random"
    )
    notes = (*of.notes, *noted((SAMPLED, True, message), aspect=aspect_of(of.target)))
    kinds = of.kinds and of.kinds._replace(position=of.kinds.position[items])
    return replace(of, human=of.human[items], rated=rated, metrics=of.metrics.on(items), kinds=kinds, notes=notes)


def aspect_of(target: str) -> str:
    """Return the aspect that predictions of a target rate; it is empty for a mean of aspects."""
    return "" if target.startswith(MEAN) else target


def aspects_of(target: str | None, aspects: tuple[str, ...]) -> tuple[str, ...]:
    """Return the aspects of a target; raises `OptionError` if an aspect is unknown."""
    if target is None:
        if len(aspects) != 1:
            raise OptionError(
                f"the annotators rated several aspects; give one of {listed(aspects)} as target='ASPECT', or a mean "
                f"such as target='{MEAN}{','.join(aspects[:2])}'"
            )
        return aspects
    mean = target.startswith(MEAN)
    selected = tuple(part.strip() for part in target.removeprefix(MEAN).split(",")) if mean else (target,)
    for aspect in selected:
        if aspect not in aspects:
            if aspects == ("",):
                raise OptionError(f"target={target!r}: the human ratings have no aspects; leave the target out")
            raise OptionError(
                f"target={target!r}: annotators did not rate the aspect {aspect!r}; aspects: "
                f"{listed(aspects)}{suggestion(aspect, aspects)}"
            )
    if len(set(selected)) < len(selected):
        raise OptionError(f"target={target!r} names an aspect twice")
    return selected


def _ratings(chosen: Study, who: RaterScores, aspects: tuple[str, ...]) -> tuple[Floats, bool]:
    """Return the human ratings (items, systems), and whether these come from verdicts."""
    people = {who.rater_aspects[i]: who.scores[i] for i, kind in enumerate(who.kinds) if kind != METRIC}
    missing = [aspect for aspect in aspects if aspect not in people]
    if not missing:
        for aspect in aspects[1:]:
            if not Scale.seen(people[aspect]).comparable(Scale.seen(people[aspects[0]])):
                raise OptionError(
                    f"annotators rated {aspects[0]!r} and {aspect!r} on different scales, which cannot be "
                    "averaged; choose one aspect"
                )
        grids = np.stack([people[aspect] for aspect in aspects])
        return without_float_noise(
            np.where(np.isfinite(grids).all(axis=0), mean_of_defined(grids, axis=0), np.nan)
        ), False
    if len(aspects) > 1:
        raise OptionError(
            f"human ratings of {listed(missing)} are verdicts, which cannot be averaged over aspects; choose one aspect"
        )
    (comparison,) = compared(chosen, {})
    signs = comparison.human_signs
    n, wins = np.zeros((2, len(comparison.systems), len(comparison.items)))
    for side, place in zip((1, -1), comparison.design.pairs.T, strict=True):
        np.add.at(wins, place, side * np.where(signs == ABSENT, 0, signs))
        np.add.at(n, place, signs != ABSENT)
    rating = np.where(n > 0, wins / np.maximum(n, 1), np.nan).T
    items = label_codes(pl.Series(who.design.items, dtype=pl.String), comparison.items)
    systems = label_codes(pl.Series(who.design.systems, dtype=pl.String), comparison.systems)
    return rating[items][:, systems], True


def outer_folds(of: Task, by: str, *, repeats: int, rng: np.random.Generator) -> list[NDArray[np.intp]]:
    """Return the folds (items, systems) of every repeat; outputs that are not used have fold -1.

    With 'item', folds are random sets of whole items. With 'system', 'dataset' or 'group', each system, data set or
    group is a fold. Otherwise `by` is the path of a file `item, fold`.
    """
    design = of.design
    if by == "item":
        units = np.repeat(design.units, of.rated.sum(axis=1))
        dealt = np.full((repeats, design.n_units), -1, dtype=np.intp)
        for fold in dealt:
            fold[units] = grouped_folds(units, n_folds=N_FOLDS, rng=rng)
        return [np.where(of.rated, fold[design.units][:, np.newaxis], -1) for fold in dealt]
    if by == "system":
        return [np.where(of.rated, np.arange(len(design.systems)), -1)]
    if by in ("dataset", "group"):
        labels, where = {"dataset": design.dataset, "group": design.group}[by], f"folds={by!r}"
        if not all(labels):
            raise OptionError(f"{where}: some items have no {by}; give every item a {by} in the items file")
    else:
        labels, where = _from_file(design, by), by
    return [labelled_folds(of, labels, where)]


def labelled_folds(of: Task, labels: tuple[str, ...], where: str) -> NDArray[np.intp]:
    """Return folds (items, systems) with one fold for each label; items with the label '' are not used."""
    any_rated = np.asarray(of.rated.any(axis=1))
    present = sorted({label for label, is_rated in zip(labels, any_rated, strict=True) if is_rated and label})
    if len(present) < 2:
        raise OptionError(f"{where}: there is only {len(present)} fold ({listed(present)}); give at least two folds")
    code = np.where(any_rated, label_codes(pl.Series(labels, dtype=pl.String), present), -1)
    unit, fold = np.unique(np.stack([of.design.units, code])[:, code >= 0], axis=1)
    if len(np.unique(unit)) < len(unit):
        raise OptionError(
            f"{where}: items of one cluster are in different folds, so training data leak into "
            f"the held-out data; put each cluster into one fold"
        )
    for k, label in enumerate(present):
        if np.count_nonzero(fold != k) < 2:
            raise OptionError(
                f"{where}: without fold {label!r} only one item (or cluster) is left for training; at least two are "
                f"needed"
            )
    return np.where(of.rated, code[:, np.newaxis], -1)


def _from_file(design: Design, path: str) -> tuple[str, ...]:
    if not os.path.isfile(path):
        raise OptionError(
            f"folds={shown(path)}: there is no such file{suggestion(path, FOLDS)}; give {', '.join(FOLDS)}, or a file "
            f"with the columns `item` and `fold`"
        )
    frame, _ = keyed(path, "item", "fold", label_column)
    fold_of = dict(frame.iter_rows())
    if not any(item in fold_of for item in design.items):
        raise InputError(
            f"{path}: no item of the file is in the data (file: {listed(fold_of, limit=3)}; data: "
            f"{listed(design.items, limit=3)})"
        )
    return tuple(fold_of.get(item, "") for item in design.items)


def keyed(
    path: str, key: str, column: str, read: Callable[..., pl.Series], *, other: str = "", beside: Sequence[str] = ()
) -> tuple[pl.DataFrame, str]:
    """Return the values of a table column by key, and the name of the table for messages.

    `other` is an alternative name of the key column. `beside` are text columns that are also read; their missing values
    are ''.
    """
    table = load_table(Path(path))
    columns = table.frame.columns
    frame = table.frame.rename({other: key}) if other in columns and key not in columns else table.frame
    check_columns(frame, where=table.name, required=(key, column), optional=beside)
    more = (label_column(frame, name, where=table.name, empty=True) for name in beside)
    rows = pl.DataFrame([label_column(frame, key, where=table.name), read(frame, column, where=table.name), *more])
    check_unique(rows, [key], where=table.name, what=key, hint=f"one row for each {key}")
    return rows, table.name
