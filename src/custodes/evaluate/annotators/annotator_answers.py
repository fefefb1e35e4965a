"""Answers of the annotators under one aspect as long arrays, and whether a rater is one person or a slot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import polars as pl

from custodes.data.mapping.column_vocabulary import HUMAN, parts, stem
from custodes.data.notes import Note, noted
from custodes.data.panel import label_codes
from custodes.data.preferences import SHOWN_FIRST, Preferences
from custodes.data.study import Study
from custodes.errors import listed
from custodes.evaluate.comparable import is_ordered
from custodes.evaluate.design import Design
from custodes.stats.annotator_models import AnnotatorLabels
from custodes.stats.arrays import Bools, Floats, Ints, Signs

VERDICTS, RATINGS = "verdicts", "ratings"
OUTCOMES = ("win", "tie", "loss")
"""Outcomes of the first system of a comparison."""

MOST_LABELS = 12
"""Maximum number of different scores of a rating scale. With more different scores, ratings count as numeric."""


AnnotatorType = Literal["auto", "persons", "slots"]

MOST_OF_TASKS = 0.9
"""Similarly named raters are slots if each answered at least this proportion of the tasks that any of them answered."""

SLOT = "a slot, which several persons may share"


@dataclass(frozen=True, kw_only=True)
class AnnotatorAnswers:
    """Answers of the annotators under an aspect: `what` is `VERDICTS` or `RATINGS`.

    `raters` are the annotators, and `tasks` (item, system_a, system_b, system) are the tasks in sorted order. `answers`
    has a row per answer, and `value` (n,) is the value of the answer: 1, 0 or -1 for a verdict, otherwise the score.
    `labels` are the possible labels of an answer, and `words` are the names of the labels. The labels have an order
    unless `nominal` is true. `continuous` scores have no labels (all codes are 0).

    Three arrays (tasks,) describe the tasks: `unit` is the block of clusters, `group` is the pair of systems or the
    system, and `item` is the item. `seconds` (workers,) is the median time per answer, NaN if unknown. Four arrays
    describe the decided verdicts with known presentation order: `sided_worker` is the annotator, `sided_pair` is the
    pair of systems, `sign` is the preference, and `order` tells which system was shown first."""

    aspect: str
    what: str
    raters: tuple[str, ...]
    tasks: pl.DataFrame
    answers: AnnotatorLabels
    value: Floats
    labels: tuple[float, ...]
    unit: Ints
    n_units: int
    group: Ints
    item: Ints
    seconds: Floats
    words: tuple[str, ...] = OUTCOMES
    nominal: bool = False
    sided_worker: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    sided_pair: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    sign: Signs = field(default_factory=lambda: np.zeros(0, dtype=np.int8))
    order: Signs = field(default_factory=lambda: np.zeros(0, dtype=np.int8))

    @property
    def continuous(self) -> bool:
        """Whether scores are numeric rather than points of a rating scale."""
        return not self.labels

    @property
    def doubled(self) -> Bools:
        """(tasks,): whether several annotators answered the task."""
        return self.answers.n_votes > 1

    @property
    def clusters(self) -> Ints:
        """(workers,): number of clusters of items in which the annotator shares a task with other annotators."""
        worker, unit = self.answers.worker[self.both], self.unit[self.answers.task[self.both]]
        width = int(unit.max(initial=0)) + 1
        return np.bincount(np.unique(worker * width + unit) // width, minlength=len(self.raters))

    @property
    def both(self) -> Bools:
        """(n,): whether other annotators answered the task of the answer."""
        return np.asarray(self.doubled[self.answers.task])


def annotator_answers(chosen: Study, raters: Sequence[str]) -> tuple[list[AnnotatorAnswers], list[Note]]:
    """Return the answers of `raters` in a selected study for each aspect and type of answer, and notes.

    Second opinions are included. Each rater has one answer per task.
    """
    ours = pl.col("rater").is_in(list(raters))
    first, second = chosen.preferences.asked.where(ours), chosen.second.where(ours)
    both = Preferences(frame=pl.concat([first.frame, second.frame]), missing=pl.concat([first.missing, second.missing]))
    verdicts, order_notes = both.settled("mean")
    rated = pl.concat([chosen.ratings.frame, chosen.second_ratings.frame])
    scores = rated.filter(ours & (pl.col("item") != ""))
    key = ["item", "system", "rater", "aspect"]
    single = scores.group_by(key).agg(pl.col("score").sort_by("repeat").first())
    again = scores.height - single.height
    aspects = pl.concat([verdicts["aspect"], single["aspect"]]).unique(maintain_order=True)
    result = []
    for aspect in sorted(aspects):
        settled = verdicts.filter(pl.col("aspect") == aspect)
        if settled.height:
            result.append(_verdicts(chosen, aspect, settled, both.frame.filter(pl.col("aspect") == aspect)))
        rated = single.filter(pl.col("aspect") == aspect)
        if rated.height:
            result.append(_ratings(chosen, aspect, rated))
    message = f"{again} repeated scores of an output by the same annotator are excluded; the first score counts"
    return result, [*order_notes, *noted(("scored-again", again, message))]


def _verdicts(study: Study, aspect: str, rows: pl.DataFrame, raw: pl.DataFrame) -> AnnotatorAnswers:
    pair = pl.struct("system_a", "system_b")
    raters = tuple(rows["rater"].unique().sort())
    ordered = raw.with_columns(shown=SHOWN_FIRST.cast(pl.Int8))
    ordered = ordered.filter((pl.col("shown") != 0) & (pl.col("preference") != 0))
    seconds = dict(raw.group_by("rater").agg(pl.col("seconds").median()).iter_rows())
    return _answers(
        study,
        rows.with_columns(_value=pl.col("preference").cast(pl.Float64), _label=1 - pl.col("preference").cast(pl.Int64)),
        group=pair,
        n_labels=len(OUTCOMES),
        aspect=aspect,
        what=VERDICTS,
        raters=raters,
        labels=(1.0, 0.0, -1.0),
        seconds=np.array([seconds[name] for name in raters], dtype=np.float64),
        sided_worker=label_codes(ordered["rater"], raters),
        sided_pair=ordered.select(pair.rank("dense") - 1).to_series().to_numpy().astype(np.int64),
        sign=ordered["preference"].to_numpy(),
        order=ordered["shown"].to_numpy(),
    )


def _ratings(study: Study, aspect: str, rows: pl.DataFrame) -> AnnotatorAnswers:
    raters = tuple(rows["rater"].unique().sort())
    points = rows["score"].unique().sort()
    labels = tuple(points) if points.len() <= MOST_LABELS else ()
    code = points.search_sorted(rows["score"]) if labels else pl.lit(0)
    scale = study.labels.get(aspect)
    return _answers(
        study,
        rows.with_columns(system_a=pl.lit(""), system_b=pl.lit(""), _value="score", _label=code),
        group=pl.col("system"),
        n_labels=max(1, len(labels)),
        aspect=aspect,
        what=RATINGS,
        raters=raters,
        labels=labels,
        seconds=np.full(len(raters), np.nan),
        words=tuple(scale.words[int(code)] if scale else f"{code:g}" for code in labels),
        nominal=not is_ordered(study, aspect),
    )


def _answers(
    study: Study, rows: pl.DataFrame, *, group: pl.Expr, n_labels: int, raters: tuple[str, ...], **columns: Any
) -> AnnotatorAnswers:
    """Return the answers in `rows` (with `_value` and `_label`), with codes for tasks, annotators and clusters."""
    names = [name for name in ("item", "system_a", "system_b", "system") if name in rows.columns]
    tasks = rows.select(names).unique().sort(names).with_row_index("_task")
    worker = pl.Series(label_codes(rows["rater"], raters))
    placed = rows.with_columns(_worker=worker).join(tasks, on=names, how="left").sort("_task", "_worker", "_label")
    items = tuple(tasks["item"].unique().sort())
    design = Design.of(study, items=items, systems=()).in_blocks()
    item = label_codes(tasks["item"], items)
    codes = (placed[name].to_numpy() for name in ("_task", "_worker", "_label"))
    return AnnotatorAnswers(
        raters=raters,
        tasks=tasks.drop("_task"),
        answers=AnnotatorLabels.of(*codes, n_tasks=tasks.height, n_workers=len(raters), n_labels=n_labels),
        value=placed["_value"].to_numpy(),
        unit=design.units[item],
        n_units=design.n_units,
        group=tasks.select(group.rank("dense") - 1).to_series().to_numpy().astype(np.int64),
        item=item,
        **columns,
    )


def persons(study: Study, raters: Sequence[str], annotator_type: AnnotatorType) -> tuple[frozenset[str], list[Note]]:
    """Return the raters that are single persons, and notes on how this was determined.

    With 'auto', a rater is a person if the raters table says so. Any other rater is a slot if the name is numbered
    (`annotator2`, `human_b`) and if all raters with similar names answered nearly the same tasks, as in files with one
    column per slot.
    """
    if annotator_type != "auto":
        return frozenset(raters if annotator_type == "persons" else ()), []
    names = study.raters.frame.filter(pl.col("person"))["rater"]
    declared = frozenset(raters) & frozenset(names)
    slots = _slots(study, [name for name in raters if name not in declared])
    assumed = sorted(frozenset(raters) - declared - slots)
    how = "declare this with annotator_type='persons' or 'slots', or in the column 'person' of a raters table"
    return frozenset(raters) - slots, noted(
        (
            "slots",
            len(slots),
            f"{listed(sorted(slots))} answered the same tasks and were read as slots that several persons "
            f"share. Slots are not evaluated one by one; {how}",
        ),
        (
            "assumed-persons",
            len(assumed),
            f"{listed(assumed, limit=3)}: each rater is read as one person; if a rater is a slot, {how}",
        ),
    )


def is_numbered(name: str) -> bool:
    """Whether a name is generic: it has only common words for annotators, and single letters or numbers.

    >>> is_numbered("annotator2"), is_numbered("human_b"), is_numbered("beatrix"), is_numbered("A2X9QK")
    (True, True, False, False)
    """
    return all(word in HUMAN or len(word) <= 1 for word in map(stem, parts(name)))


def _slots(study: Study, raters: Sequence[str]) -> frozenset[str]:
    """Return the raters with numbered names that answered nearly the same tasks as all similarly named raters."""
    likely = [name for name in raters if is_numbered(name)]
    ours = pl.col("rater").is_in(likely)
    scores, verdicts = study.ratings.frame.filter(ours), study.preferences.frame.filter(ours)
    rows = pl.concat(
        [
            scores.select("rater", "aspect", "item", "system", system_b=pl.lit("")),
            verdicts.select("rater", "aspect", "item", "system_b", system="system_a").select(
                "rater", "aspect", "item", "system", "system_b"
            ),
        ]
    ).unique()
    names = {name: "_".join(stem(part) for part in parts(name) if len(stem(part)) > 1) for name in likely}
    rows = rows.with_columns(like=pl.col("rater").replace_strict(names, return_dtype=pl.String))
    tasks = rows.select(pl.exclude("rater")).unique().group_by("like").len("tasks")
    numbers = rows.group_by("like", "rater").len("own").join(tasks, on="like")
    several = numbers.filter(pl.len().over("like") > 1)
    whole = several.filter((pl.col("own") >= MOST_OF_TASKS * pl.col("tasks")).all().over("like"))
    return frozenset(whole["rater"])
