"""Validation of a combined metric on another data set, in comparison with the best single metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, Unpack

import numpy as np
import polars as pl

from custodes.answers.question import Rng, question
from custodes.answers.result import Result, result
from custodes.answers.shared_arguments import Selection
from custodes.answers.tables import count, label, score, table
from custodes.arguments import assignment_list, one_of
from custodes.combining.combined_metric import CombinedMetric, raw_scores
from custodes.combining.generalisation import ITEMS, LEAST_SYSTEMS, SYSTEMS, conclusion
from custodes.combining.methods import TrainingData
from custodes.combining.normalise import LEAST_USED
from custodes.combining.task import MEAN, Task, aspect_of, task
from custodes.combining.trial import STATISTICS
from custodes.data.notes import Note, noted
from custodes.data.patterns import Patterns
from custodes.data.preferences import Preferences
from custodes.data.raters import Raters
from custodes.data.ratings import Ratings
from custodes.data.study import Study
from custodes.errors import InputError, OptionError, listed, suggestion
from custodes.evaluate.rater_scores import few_clusters_notes, name_of
from custodes.progress import Progress, silent
from custodes.stats.arrays import Floats
from custodes.stats.learning.objective import OBJECTIVES, Objective
from custodes.stats.learning.ridge import scaling
from custodes.stats.learning.unseen import Moves, moves

COMBINED, SINGLE, HINDSIGHT = "combined", "best single", "best in hindsight"

ELSEWHERE = 0.95
"""If at least this proportion of a metric's scores is outside the model's bounds, the scale counts as different."""

Scales = Literal["model", "data"]

Rename = Mapping[str, str] | Sequence[str] | None


@result
class Validate(Result):
    """Evaluation of a combined metric on data that were not used in the fit; see `validate`."""

    comparison: pl.DataFrame = table(
        "Agreement of the combined metric and of single metrics, on the outputs that annotators and all these "
        "metrics rated.",
        label(
            "rater",
            "combined: the combined metric; best single: the single metric that was best on the data of the fit; best "
            "in hindsight: the single metric that is best on these data, which is optimistic",
        ),
        label("metric", "name of the metric in these data"),
        count("n", "outputs", essential=False),
        *(
            score(name, text, title, interval=True, best="high", essential=name in ("kendall", "accuracy"))
            for name, text, title in (
                ("kendall", "Kendall's tau-b with human ratings over outputs", "Kendall τ-b"),
                ("spearman", "Spearman's correlation", "Spearman ρ"),
                ("pearson", "Pearson's correlation", "Pearson r"),
                (
                    "accuracy",
                    "proportion of pairs of outputs of an item that the metric orders as the annotators do; human "
                    "ties are left out",
                    "In order",
                ),
            )
        ),
    )
    gains: pl.DataFrame = table(
        "Differences between the objective of the combined metric and the objectives of single metrics.",
        label("rater", "the single metric, as in `comparison`"),
        label("metric", "name of the single metric in these data"),
        label("unseen", "what is resampled: items, with the systems fixed; or systems and items"),
        count("n", "number of clusters of items, or of systems", essential=False),
        score("gain", "objective of the combined metric minus objective of the single metric", interval=True),
        label(
            "conclusion",
            "`gain`: the interval lies above 0; `no gain`: the interval does not lie above 0; null without an "
            "interval, and for the best in hindsight",
        ),
    )


@question(
    "custodes combine validate other.csv --model coherence.json --rename BERTScore=bertscore-f1",
    model="Model file.",
    rename="OLD=NEW: OLD is the name of a rater in the data, NEW the name in the model; comma list or repeated.",
    objective="Statistic of the gains (default: the objective of the model).",
    scales="Bounds of the metric scores: those of the model, or of these data.",
)
def validate(
    study: Study,
    *,
    model: str | Path = "combination.json",
    rename: Rename = None,
    objective: Objective | None = None,
    scales: Scales = "model",
    confidence: float = 0.95,
    rng: Rng = 0,
    progress: Progress = silent,
    **selection: Unpack[Selection],
) -> Validate:
    """Evaluate a saved combined metric on another data set, in comparison with the best single metric.

    Notes
    -----
    `rename` maps raters of the study to names in the model, {'old': 'new'} or 'old=new'. `aspect` is the human aspect
    (default: the target of the model, or the only aspect). With scales='data', the bounds of the metrics are estimated
    from this study (within three standard deviations).

    The combined metric is compared with two single metrics: the best metric on the data of the fit, and the best metric
    on this study. Nothing is fitted, and nothing is random. Intervals are Student's t intervals with the infinitesimal
    jackknife, over clusters of items and over systems.

    References
    ----------
    Jaeckel 1972 (infinitesimal jackknife).

    Examples
    --------
    >>> import custodes as cu
    >>> study = cu.read("demo")
    >>> path = cu.combine(study, target="fluency", method="ridge", repeats=1, resamples=0).model.save("fluency.json")
    >>> cu.validate(study, model=path, aspect="coherence").gains["rater"].unique(maintain_order=True).to_list()
    ['best single', 'best in hindsight']
    """
    combined = CombinedMetric.load(model)
    by = one_of("objective", objective or combined.objective, OBJECTIVES)
    named = _renamed(study, rename)
    parts, notes = [], list[Note]()
    for target in _targets(named, combined, selection):
        part, remarks = _validated(named, combined, target, by, scales, confidence, {**selection, "aspect": None})
        parts.append(part)
        notes += remarks
    return Validate.of(parts, notes)


def _renamed(study: Study, rename: Rename) -> Study:
    """Return the study with raters renamed to the names in the model."""
    if not rename:
        return study
    directions = study.raters.direction
    pairs = (
        list(rename.items())
        if isinstance(rename, Mapping)
        else [_pair(assignment) for assignment in assignment_list(rename, keys=directions)]
    )
    for old, new in pairs:
        if old not in directions:
            raise OptionError(
                f"rename: there is no rater {old!r} in {study.name}; raters: "
                f"{listed(directions)}{suggestion(old, directions)}"
            )
        if new in directions and new not in dict(pairs):
            raise OptionError(f"rename {old}={new!r}: {study.name} already has a rater {new!r}; rename or exclude one")
    if len({new for _, new in pairs}) < len(dict(pairs)):
        raise OptionError(
            f"rename: two raters would get the same name ({listed((f'{old}={new}' for old, new in pairs))})"
        )
    to = pl.col("rater").replace(dict(pairs))
    return replace(
        study,
        ratings=Ratings(frame=study.ratings.frame.with_columns(to)),
        preferences=Preferences(frame=study.preferences.frame.with_columns(to)),
        raters=Raters(frame=study.raters.frame.with_columns(to)),
        digest=study.fingerprint(),
    )


def _pair(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not (old and equals and new):
        raise OptionError(
            f"rename {text!r}: give OLD=NEW, where OLD is the name of a rater in the data and NEW "
            f"is the name in the model"
        )
    return old, new


def _targets(study: Study, combined: CombinedMetric, selection: Mapping[str, Any]) -> list[str]:
    """Return the targets with which the model can be compared: aspects, or the mean to which the model was fitted."""
    patterns: Patterns = selection.get("aspect")
    chosen = study.select(human=selection.get("human"), aspect=patterns)
    if patterns is not None:
        return list(chosen.aspects)
    theirs = combined.target.removeprefix(MEAN).split(",")
    if set(theirs) <= set(chosen.aspects):
        return [combined.target]
    if len(chosen.aspects) == 1:
        return list(chosen.aspects)
    raise OptionError(
        f"{study.name}: there are no human ratings of {combined.target!r}, which the model predicts; give "
        "aspect='ASPECT', one of "
        f"{listed(chosen.aspects)}{suggestion(combined.target, chosen.aspects)}"
    )


class _Rival(NamedTuple):
    """A single metric: its role `part`, its `name`, and its `scores` (items, systems), for which higher is better."""

    part: str
    name: str
    scores: Floats


def _validated(
    study: Study,
    combined: CombinedMetric,
    target: str,
    by: Objective,
    scales: Scales,
    confidence: float,
    selection: Selection,
) -> tuple[dict[str, pl.DataFrame], list[Note]]:
    of = task(study.select(**selection), target)
    items, systems = of.design.items, of.design.systems
    rows = combined.rows(study, items, systems)
    if scales == "data":
        rows = _rescaled(combined, rows)
    else:
        _check_scales(study, combined, rows[of.rated.ravel()])
    scored = np.isfinite(rows).any(axis=1)
    ours = np.full(of.human.size, np.nan)
    kinds = combined.kinds(study, items, systems)
    ours[scored] = combined.predict(rows[scored], None if kinds is None else kinds[scored])
    rivals, reason = _rivals(study, combined, of, by)
    everyone = np.stack([ours.reshape(of.human.shape), *(rival.scores for rival in rivals)])
    human = np.where(np.isfinite(everyone).all(axis=0), of.human, np.nan)
    n, lost = int(np.isfinite(human).sum()), int((of.rated & ~np.isfinite(human)).sum())
    if n < 2:
        raise InputError(
            f"{study.name}: there is no output with ratings by annotators, the combined metric and {rivals[0].name!r}"
        )
    compared = {name: _moves(of, human, everyone, name) for name in {*STATISTICS, by}}  # type: ignore[arg-type]
    tables = Validate.part(
        target,
        comparison=_comparison(combined, rivals, compared, n, confidence),
        gains=_gains(rivals, compared[by], of, human, confidence),
    )
    remarks = noted(
        ("no-best-single", bool(reason), reason),
        (
            "not-in-common",
            lost,
            f"{lost} outputs with human ratings are excluded, because some of the compared "
            f"metrics have no score for them",
        ),
        aspect=aspect_of(target),
    )
    units = len(np.unique(of.design.units[np.isfinite(human).any(axis=1)]))
    chosen_notes = [note for note in of.notes if note.rule not in ("missing-metric-scores", "more-features-than-rows")]
    return tables, [
        *chosen_notes,
        *combined.notes_on(study, rows[of.rated.ravel()], items),
        *remarks,
        *few_clusters_notes(units, 1),
    ]


def _check_scales(study: Study, combined: CombinedMetric, rows: Floats) -> None:
    """Raise an error if the scores (outputs, columns) of a metric are on another scale than in the model."""
    for column, scores in zip(combined.columns, rows.T, strict=True):
        finite = scores[np.isfinite(scores)]
        if not len(finite):
            continue
        beyond = float(((finite < column.low) | (finite > column.high)).mean())
        spread = float(np.ptp(finite))
        if beyond >= ELSEWHERE or 0 < spread < LEAST_USED * (column.high - column.low):
            side = 1.0 if column.higher_is_better else -1.0
            here, there = (
                sorted(side * end for end in ends) for ends in ((finite.min(), finite.max()), (column.low, column.high))
            )
            raise InputError(
                f"{study.name}: the scale of {column.label!r} is {here[0]:.3g} to {here[1]:.3g} here, but "
                f"{there[0]:.3g} to {there[1]:.3g} in the model; use scales='data' to take the bounds "
                f"from these data, or fit a model without this metric"
            )


def _rescaled(combined: CombinedMetric, rows: Floats) -> Floats:
    """Return scores (outputs, columns) rescaled so that their range in these data becomes the range in the model."""
    here = scaling(rows)
    low, high = np.fmax(np.nanmin(rows, axis=0), here.low), np.fmin(np.nanmax(rows, axis=0), here.high)
    there = np.array([(column.low, column.high) for column in combined.columns]).T
    width = np.where(high > low, high - low, 1.0)
    return np.asarray(there[0] + (np.clip(rows, low, high) - low) / width * (there[1] - there[0]))


def _rivals(study: Study, combined: CombinedMetric, of: Task, by: Objective) -> tuple[list[_Rival], str]:
    """Return the single metrics for the comparison, and a reason if the best single metric of the fit is missing.

    The metrics are the best single metric of the fit, if it is known and in these data, and the best single metric on
    these data.
    """
    rivals, reason = [], ""
    single = combined.validation.get("single")
    if not isinstance(single, dict):
        reason = "the model file does not name the best single metric of the fit; fit it again"
    else:
        metric, aspect = str(single["metric"]), str(single["aspect"])
        name = name_of(metric, aspect)
        raw = raw_scores(study, metric, aspect, of.design.items, of.design.systems)
        if raw is None:
            reason = (
                f"{name!r}, the best single metric of the fit, is not in these data; if it has another "
                f"name here, use rename"
            )
        else:
            rivals.append(_Rival(SINGLE, name, raw if single["higher_is_better"] else -raw))
    rows = np.flatnonzero(of.rated.ravel())
    item, system = np.divmod(rows, len(of.design.systems))
    training = TrainingData(
        x=of.rows(rows),
        y=of.human.ravel()[rows],
        items=item,
        systems=system,
        groups=of.design.units[item],
        by=by,
        rng=np.random.default_rng(0),
    )
    top = int(np.argmax(np.nan_to_num(training.score(training.filled[0].T), nan=-np.inf)))
    rivals.append(_Rival(HINDSIGHT, of.metrics.names[top], of.metrics.scores[top]))
    return rivals, reason


def _moves(of: Task, human: Floats, everyone: Floats, by: Objective) -> Moves:
    one = np.zeros(human.shape, dtype=np.intp)
    return moves(
        by,
        human,
        everyone[:, np.newaxis],
        model=one,
        within=one,
        block=one,
        units=of.design.units,
        n_units=of.design.n_units,
    )


def _comparison(
    combined: CombinedMetric, rivals: Sequence[_Rival], compared: Mapping[str, Moves], n: int, confidence: float
) -> dict[str, Any]:
    data: dict[str, Any] = {
        "rater": [COMBINED, *(rival.part for rival in rivals)],
        "metric": [combined.name, *(rival.name for rival in rivals)],
        "n": n,
    }
    for name in STATISTICS:
        low, high = compared[name].interval("units", confidence=confidence)
        data |= {name: compared[name].value, f"{name}_low": low, f"{name}_high": high}
    return data


def _gains(rivals: Sequence[_Rival], compared: Moves, of: Task, human: Floats, confidence: float) -> dict[str, Any]:
    """Return columns with the gain over each single metric, with an interval over items and one over systems and items.

    If there are fewer than `LEAST_SYSTEMS` systems, the bounds of the second interval are NaN.
    """
    used = np.isfinite(human)
    others = np.arange(1, len(rivals) + 1)
    gain = compared.minus(np.zeros_like(others), others)
    sizes = {ITEMS: len(np.unique(of.design.units[used.any(axis=1)])), SYSTEMS: int(used.any(axis=0).sum())}
    bounds = [gain.interval(over, confidence=confidence) for over in ("units", "systems")]
    low, high = np.array(bounds).transpose(1, 2, 0)  # (rivals, items or systems) each
    if sizes[SYSTEMS] < LEAST_SYSTEMS:
        low[:, 1] = high[:, 1] = np.nan
    parts = np.repeat([rival.part for rival in rivals], 2)
    return {
        "rater": parts,
        "metric": np.repeat([rival.name for rival in rivals], 2),
        "unseen": [*sizes] * len(rivals),
        "n": [*sizes.values()] * len(rivals),
        "gain": np.repeat(gain.value, 2),
        "gain_low": low.ravel(),
        "gain_high": high.ravel(),
        "conclusion": [conclusion(end) if part == SINGLE else None for part, end in zip(parts, low.flat, strict=True)],
    }
