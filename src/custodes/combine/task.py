"""Task: people's ratings of one target beside the metrics that are to predict them, and how to hold parts out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import polars as pl
from numpy.typing import NDArray

from custodes.data.notes import Note
from custodes.data.panel import Floats, label_codes
from custodes.data.readers.tables import load_table
from custodes.data.scale import Scale
from custodes.data.study import Study
from custodes.data.table import check_columns, check_unique, label_column
from custodes.errors import InputError, OptionError, listed, suggestion
from custodes.evaluate.comparison import Selection, compare, label_of
from custodes.evaluate.judges import METRIC, Judges, judges
from custodes.evaluate.people import mean_over_people, snapped
from custodes.stats import ABSENT
from custodes.stats.learning.folds import grouped_folds

FOLDS = ("item", "system", "dataset", "group")
N_FOLDS = 5
MEAN = "mean:"


@dataclass(frozen=True, kw_only=True)
class Task:
    """`human` (items, systems) what people said, NaN = nobody did; `scores` (metrics, items, systems), higher is
    better, NaN = missing; `directions` (metrics,) of the raw scores; `declared` bounds by metric; `costs` (metrics,) of
    the raters file; `units` (items,) the cluster of each item; `group` and `dataset` of each item; `verdicts` says that
    people gave preferences, of which the share of wins minus losses within the item is the rating."""

    study: str
    target: str
    human: Floats
    scores: Floats
    names: tuple[str, ...]
    raters: tuple[str, ...]
    aspects: tuple[str, ...]
    directions: Floats
    declared: Mapping[str, tuple[float, float]]
    costs: Floats
    items: tuple[str, ...]
    systems: tuple[str, ...]
    units: NDArray[np.int64]
    n_units: int
    group: tuple[str, ...]
    dataset: tuple[str, ...]
    verdicts: bool
    notes: tuple[Note, ...]


def task(study: Study, *, target: str | None, **selection: Unpack[Selection]) -> Task:
    """What is to be predicted from what.

    target: an aspect, or 'mean:A,B' for the mean of several (None: the only one). Metrics that rate another aspect are
    not among the predictors. Raises `OptionError` for an unknown or missing target, `InputError` where nothing can be
    learnt: no varying metric, constant people, too few items.
    """
    if selection.get("aspect") is not None:
        raise OptionError("aspect: the target says which aspect is meant; say target='ASPECT' or 'mean:A,B'")
    known = study.select(**selection).aspects
    aspects = _aspects(target, known)
    given: Any = {**selection, **({"aspect": list(aspects)} if any(aspects) else {})}
    who = judges(study, **given)
    _check_people_vary(study, who)
    human, verdicts = _ratings(study, who, aspects, given)
    _check_learnable(study, human, who.units)
    metrics, stuck = _useful(who, human)
    if not len(metrics):
        raise InputError(f"{study.name}: no metric has scores of rated outputs that vary; there is nothing to combine")
    described = study.items.for_items(pl.Series("item", who.items, dtype=pl.String))
    frame = study.raters.only([who.raters[i] for i in metrics]).frame
    bounds = study.raters.bounds
    names = tuple(who.names[i] for i in metrics)
    return Task(
        study=study.name,
        target=aspects[0] if len(aspects) == 1 else MEAN + ",".join(aspects),
        human=human,
        scores=who.scores[metrics],
        names=names,
        raters=tuple(who.raters[i] for i in metrics),
        aspects=tuple(who.rater_aspects[i] for i in metrics),
        directions=np.array([study.raters.direction[who.raters[i]] for i in metrics]),
        declared={
            name: bounds[who.raters[i]] for name, i in zip(names, metrics, strict=True) if who.raters[i] in bounds
        },
        costs=frame["cost"].cast(pl.Float64).fill_null(np.nan).to_numpy(),
        items=who.items,
        systems=who.systems,
        units=who.units,
        n_units=who.n_units,
        group=tuple(described["group"]),
        dataset=tuple(described["dataset"]),
        verdicts=verdicts,
        notes=(
            *(n for n in who.notes if n.rule != "missing-scores"),
            *stuck,
            *_task_notes(who, human, who.scores[metrics]),
        ),
    )


def aspect_of(target: str) -> str:
    """The aspect that a prediction of a target rates: none for a mean."""
    return "" if target.startswith(MEAN) else target


def _aspects(target: str | None, known: tuple[str, ...]) -> tuple[str, ...]:
    if target is None:
        if len(known) != 1:
            raise OptionError(
                f"which aspect of people's ratings? say target=...; aspects: {listed(known)}, or a mean:"
                f" {MEAN}{','.join(known[:2])}"
            )
        return known
    wanted = (
        tuple(part.strip() for part in target.removeprefix(MEAN).split(",")) if target.startswith(MEAN) else (target,)
    )
    for aspect in wanted:
        if aspect not in known:
            if known == ("",):
                raise OptionError(f"target={target!r}: people's ratings have no aspects here; leave the target out")
            raise OptionError(
                f"target={target!r}: {aspect!r} is no aspect that people rated; aspects: {listed(known)}"
                f"{suggestion(aspect, known)}"
            )
    if len(set(wanted)) < len(wanted):
        raise OptionError(f"target={target!r} names an aspect twice")
    return wanted


def _ratings(study: Study, who: Judges, aspects: tuple[str, ...], given: Any) -> tuple[Floats, bool]:
    """People's ratings (items, systems), and whether they come from verdicts."""
    people = {who.rater_aspects[i]: who.scores[i] for i, kind in enumerate(who.kinds) if kind != METRIC}
    missing = [aspect for aspect in aspects if aspect not in people]
    if not missing:
        scales = [Scale.seen(people[aspect]) for aspect in aspects]
        for aspect, scale in zip(aspects[1:], scales[1:], strict=True):
            if not scale.comparable(scales[0]):
                raise OptionError(f"people rated {aspects[0]!r} and {aspect!r} on different scales, which have no mean")
        grids = np.stack([people[aspect] for aspect in aspects])
        whole = np.isfinite(grids).all(axis=0)
        return snapped(np.where(whole, mean_over_people(grids), np.nan)), False
    if len(aspects) > 1:
        raise OptionError(
            f"people gave verdicts on {listed(missing)}, which have no mean with others; choose one aspect"
        )
    (comparison,) = compare(study, **given)
    signs = comparison.human_signs
    place = {name: k for k, name in enumerate(comparison.systems)}
    wins = np.zeros((len(comparison.items), len(comparison.systems)))
    n = np.zeros_like(wins)
    for a, b, own in zip(comparison.preferences.system_a, comparison.preferences.system_b, signs, strict=True):
        given_here = own != ABSENT
        for system, side in ((a, 1), (b, -1)):
            wins[:, place[system]] += np.where(given_here, side * own.astype(np.float64), 0.0)
            n[:, place[system]] += given_here
    rating = np.where(n > 0, wins / np.maximum(n, 1), np.nan)
    items = label_codes(pl.Series(who.items, dtype=pl.String), comparison.items)
    systems = label_codes(pl.Series(who.systems, dtype=pl.String), comparison.systems)
    return rating[items][:, systems], True


def _check_people_vary(study: Study, who: Judges) -> None:
    for name, kind, aspect in zip(who.names, who.kinds, who.rater_aspects, strict=True):
        if kind != METRIC and name in who.constant:
            raise InputError(f"{study.name}: people's ratings{label_of(aspect)} are all the same; nothing to learn")


def _useful(who: Judges, human: Floats) -> tuple[NDArray[np.intp], list[Note]]:
    """The metrics that vary where people rated, and who else is left out."""
    metrics = who.of_kind(METRIC)
    scores = who.scores[metrics][:, np.isfinite(human)]
    varies = np.fmax.reduce(scores, axis=1) > np.fmin.reduce(scores, axis=1)
    stuck = [who.names[i] for i in metrics[~varies]]
    message = f"left out, as their scores of rated outputs are missing or all the same: {listed(stuck)}"
    return metrics[varies], [Note(rule="not-on-rated", message=message, count=len(stuck))] if stuck else []


def _check_learnable(study: Study, human: Floats, units: NDArray[np.int64]) -> None:
    rated = np.isfinite(human)
    clusters = len(np.unique(units[rated.any(axis=1)]))
    if clusters < N_FOLDS:
        raise InputError(
            f"{study.name}: people rated {clusters} items (or clusters) of those that metrics scored; honest validation"
            f" holds out whole items in {N_FOLDS} folds, so it takes at least {N_FOLDS}"
        )
    given = human[rated]
    if given.min() == given.max():
        raise InputError(
            f"{study.name}: people's ratings of the target are all {given[0]:g}; there is nothing to learn"
        )


def _task_notes(who: Judges, human: Floats, scores: Floats) -> list[Note]:
    notes = []
    if who.weights is not None:
        notes.append(Note(rule="weights-unused", message="item weights do not act on combinations"))
    rated = np.isfinite(human)
    missing = int(np.isnan(scores[:, rated]).sum())
    if missing:
        message = (
            f"{missing} metric scores of rated outputs are missing: linear methods take the mean in training, XGBoost"
            " has its own way"
        )
        notes.append(Note(rule="missing-metric-scores", message=message, count=missing))
    if len(scores) >= rated.sum():
        message = f"{len(scores)} metrics and {int(rated.sum())} rated outputs: more features than data"
        notes.append(Note(rule="more-features-than-rows", message=message, count=len(scores)))
    return notes


def outer_folds(of: Task, by: str, *, repeats: int, rng: np.random.Generator) -> list[NDArray[np.intp]]:
    """Folds (items, systems) of every repeat, -1 where not used: whole items at random ('item'), one system, data set
    or group at a time, or as a file `item, fold` says."""
    shape = of.human.shape
    rated = np.isfinite(of.human)
    if by == "item":
        members = np.unique(of.units[rated.any(axis=1)])
        folds = []
        for _ in range(repeats):
            sizes = np.repeat(of.units, rated.sum(axis=1))
            dealt = np.full(of.n_units, -1, dtype=np.intp)
            dealt[sizes] = grouped_folds(sizes, n_folds=min(N_FOLDS, len(members)), rng=rng)
            folds.append(np.where(rated, dealt[of.units][:, np.newaxis], -1))
        return folds
    if by == "system":
        return [np.where(rated, np.broadcast_to(np.arange(shape[1]), shape), -1)]
    if by in ("dataset", "group"):
        labels = of.dataset if by == "dataset" else of.group
        if not all(labels):
            raise OptionError(f"folds={by!r}: items without a {by}; give every one a {by} in the items file")
        return [_labelled(of, labels, f"folds={by!r}")]
    return [_labelled(of, _from_file(of, by), by)]


def _labelled(of: Task, labels: tuple[str, ...], where: str) -> NDArray[np.intp]:
    """One fold for each label; items labelled '' are not used."""
    rated = np.isfinite(of.human)
    any_rated = np.asarray(rated.any(axis=1)).tolist()
    present = sorted({label for label, own in zip(labels, any_rated, strict=True) if own and label})
    if len(present) < 2:
        raise OptionError(f"{where}: only {len(present)} fold ({listed(present)}); holding one out takes two")
    code = np.where(any_rated, label_codes(pl.Series(labels, dtype=pl.String), present), -1)
    used = np.unique(np.stack([of.units, code])[:, code >= 0], axis=1)
    if len(np.unique(used[0])) < used.shape[1]:
        raise OptionError(f"{where}: items of one cluster are in different folds, which leaks; keep them together")
    for k, label in enumerate(present):
        if np.count_nonzero(used[1] != k) < 2:
            raise OptionError(f"{where}: without {label!r} one item (or cluster) is left to learn from; two are needed")
    return np.where(rated, code[:, np.newaxis], -1)


def _from_file(of: Task, path: str) -> tuple[str, ...]:
    if not Path(path).is_file():
        raise OptionError(
            f"folds={path!r}: allowed: {', '.join(FOLDS)}, or a file `item, fold`; there is no such file"
            f"{suggestion(path, FOLDS)}"
        )
    frame = load_table(Path(path)).frame
    check_columns(frame, where=path, required=("item", "fold"), optional=())
    made = pl.DataFrame([label_column(frame, "item", where=path), label_column(frame, "fold", where=path)])
    check_unique(made, ["item"], where=path, what="item", hint="one row an item")
    known = dict(made.iter_rows())
    if not any(item in known for item in of.items):
        raise InputError(
            f"{path}: none of its items is in the data ({listed(known, limit=3)}; {listed(of.items, limit=3)})"
        )
    return tuple(known.get(item, "") for item in of.items)
