"""Combination: a combined metric as a readable file, and what it says of new scores."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl

from custodes.combine.methods import METHODS, Formula
from custodes.combine.normalise import Normalisation, Source
from custodes.combine.task import Task, aspect_of
from custodes.data.notes import Note
from custodes.data.panel import Floats, Panel
from custodes.data.readers.tables import check_exists, file_bytes
from custodes.data.study import Study
from custodes.errors import InputError, listed, suggestion
from custodes.evaluate.judges import METRIC, name_of
from custodes.files import write_atomically
from custodes.stats.learning import boost

FORMAT = "custodes-combination"
VERSION = 1
NAME = "combined"


class Column(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A metric of the combination: its raw scores are turned so that higher is better, clipped to `low` to `high`
    (after turning), scaled to [0, 1], and weighted; `fill` stands in for a missing value. `scale` says where the bounds
    come from, `importance` the share of the trees' gain."""

    metric: str
    aspect: str
    higher_is_better: bool
    low: float
    high: float
    scale: Source
    weight: float
    importance: float
    fill: float


class _Head(msgspec.Struct):
    """What every version of the file has."""

    format: str = ""
    version: int = 0


class Combination(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A combined metric: save it, load it elsewhere, and score outputs of which its metrics are known.

    `digest` covers everything but `name`, which is what the metric is called in ratings.
    """

    format: str
    version: int
    name: str
    target: str
    method: str
    objective: str
    columns: tuple[Column, ...]
    intercept: float
    trees: str | None
    share: float
    validation: dict[str, Any]
    provenance: dict[str, Any]
    digest: str

    @classmethod
    def make(
        cls,
        formula: Formula,
        *,
        of: Task,
        scales: Normalisation,
        method: str,
        objective: str,
        validation: Mapping[str, Any],
        provenance: Mapping[str, Any],
    ) -> Combination:
        """The combination of a formula learnt from a task; it keeps the metrics that matter to it."""
        used = formula.used if len(formula.used) else np.arange(len(of.names))
        span = scales.high - scales.low
        low, high = scales.low + formula.low * span, scales.low + formula.high * span
        made = cls(
            format=FORMAT,
            version=VERSION,
            name=NAME,
            target=of.target,
            method=method,
            objective=objective,
            columns=tuple(
                Column(
                    metric=of.raters[i],
                    aspect=of.aspects[i],
                    higher_is_better=bool(of.directions[i] > 0),
                    low=float(low[i]),
                    high=float(high[i]),
                    scale=scales.source[i],
                    weight=float(formula.weights[i]),
                    importance=float(formula.importance[i]),
                    fill=float(formula.fill[i]),
                )
                for i in used
            ),
            intercept=float(formula.intercept),
            trees=None if formula.trees is None else formula.trees.decode(),
            share=float(formula.share),
            validation=dict(validation),
            provenance=dict(provenance),
            digest="",
        )
        return msgspec.structs.replace(made, digest=made._computed_digest())

    def _computed_digest(self) -> str:
        content = msgspec.structs.replace(self, name="", digest="")
        return hashlib.sha256(msgspec.json.encode(content)).hexdigest()

    def save(self, path: str | Path) -> Path:
        """Write the file, whole or not at all; raises `OptionError` where it cannot be written."""
        return write_atomically(path, msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n")

    @classmethod
    def load(cls, path: str | Path) -> Combination:
        """Read a file that `save` wrote; nothing in it is ever executed.

        Raises `InputError` with the reason: no such file, another format or a newer version, a value that is missing,
        of the wrong kind or not finite, trees that are none, a metric named twice, or anything but the name changed by
        hand.
        """
        where = Path(path)
        check_exists(where)
        try:
            content = file_bytes(where)
            head = msgspec.json.decode(content, type=_Head)
            if head.format != FORMAT:
                raise InputError(f"{where.name}: no combination: format {head.format!r} is not {FORMAT!r}")
            if head.version != VERSION:
                raise InputError(f"{where.name}: version {head.version} of the format; this custodes reads {VERSION}")
            made = msgspec.json.decode(content, type=cls)
        except msgspec.ValidationError as problem:
            raise InputError(f"{where.name}: no combination that can be used: {problem}; fit it again") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
            raise InputError(f"{where.name}: not the JSON of a combination ({problem})") from None
        reason = made._fault()
        if reason:
            raise InputError(f"{where.name}: {reason}")
        return made

    def _fault(self) -> str:
        """Why this must not be used, or nothing."""
        if self.method not in METHODS:
            return f"method {self.method!r} is none of {', '.join(METHODS)}"
        if not self.name.strip():
            return "it has no name"
        if not self.columns:
            return "it has no columns"
        labels = [name_of(column.metric, column.aspect) for column in self.columns]
        for label, column in zip(labels, self.columns, strict=True):
            if labels.count(label) > 1:
                return f"the metric {label!r} is named twice"
            if not column.low <= column.high:
                return f"column {label!r}: low {column.low:g} is above high {column.high:g}"
            if not 0 <= column.fill <= 1:
                return f"column {label!r}: fill {column.fill:g} is not between 0 and 1"
            numbers = (column.low, column.high, column.weight, column.importance)
            if not all(map(math.isfinite, numbers)):
                return f"column {label!r}: a number is not finite"
        if not (math.isfinite(self.intercept) and math.isfinite(self.share)):
            return "intercept or share is not finite"
        if self.trees is not None:
            try:
                boost.trees_of(self.trees.encode(), p=len(self._formula().used))
            except (ValueError, UnicodeEncodeError) as problem:
                return f"its trees are none: {problem}"
        if self.digest != self._computed_digest():
            return "edited by hand: its content does not fit its digest (only the name may change); fit it again"
        return ""

    def predict(self, scores: Floats) -> Floats:
        """Ratings from scores (rows, columns) that are already turned so that higher is better; NaN = missing."""
        scales = Normalisation(
            low=np.array([column.low for column in self.columns]),
            high=np.array([column.high for column in self.columns]),
            source=tuple(column.scale for column in self.columns),
        )
        return self._formula().predict(scales.apply(scores))

    def _formula(self) -> Formula:
        return Formula(
            weights=np.array([column.weight for column in self.columns]),
            fill=np.array([column.fill for column in self.columns]),
            low=np.zeros(len(self.columns)),
            high=np.ones(len(self.columns)),
            importance=np.array([column.importance for column in self.columns]),
            share=self.share,
            intercept=self.intercept,
            trees=None if self.trees is None else self.trees.encode(),
        )

    def score(self, study: Study, *, name: str | None = None) -> tuple[pl.DataFrame, tuple[Note, ...]]:
        """Ratings of every output by the combined metric: a long table that every reader takes, and notes.

        `name` is what the metric is called (default: that of the file). An output that no metric scored gets no rating
        and is counted; some missing scores are filled as in training, and counted, as are scores beyond the bounds.
        Raises `InputError` where a metric of the combination is not in the study.

        >>> import custodes as cu
        >>> study = cu.read("demo")
        >>> made = cu.combine_fit(study, target="fluency", method="ridge", repeats=1, resamples=0).model
        >>> ratings, notes = made.score(study)
        >>> ratings.columns
        ['item', 'system', 'rater', 'kind', 'aspect', 'score']
        """
        items = tuple(study.ratings.frame.filter(pl.col("item") != "")["item"].unique(maintain_order=True))
        scores = np.stack([self._raw(study, column, items) for column in self.columns], axis=-1)
        rows = scores.reshape(-1, len(self.columns))
        known = np.isfinite(rows)
        scored = known.any(axis=1)
        cells = pl.DataFrame(
            {
                "item": pl.Series([item for item in items for _ in study.systems], dtype=pl.String),
                "system": pl.Series(list(study.systems) * len(items), dtype=pl.String),
            }
        ).filter(pl.Series(scored))
        ratings = cells.with_columns(
            rater=pl.lit(name or self.name),
            kind=pl.lit(METRIC),
            aspect=pl.lit(aspect_of(self.target)),
            score=pl.Series(self.predict(rows[scored])),
        )
        notes = self._score_notes(rows[scored], int((~scored).sum()))
        if study.fingerprint() == self.provenance.get("digest"):
            message = "these ratings were fitted on: the combination looks better here than it is; see held-out ratings"
            notes = (*notes, Note(rule="fitted-on", message=message))
        return ratings, notes

    def _raw(self, study: Study, column: Column, items: tuple[str, ...]) -> Floats:
        """Scores (items, systems) of a column, turned by what the file says of its direction."""
        label = name_of(column.metric, column.aspect)
        direction = study.raters.direction
        if column.metric in direction:
            panel = Panel.from_study(
                study, raters=[column.metric], aspect=column.aspect, items=items, systems=study.systems
            )
            values = panel.values[0]
            if np.isfinite(values).any():
                return np.asarray(values * direction[column.metric] * (1.0 if column.higher_is_better else -1.0))
        raise InputError(
            f"{study.name}: the combination needs scores of the metric {label!r}, which is not here; raters:"
            f" {listed(direction)}{suggestion(column.metric, direction)}"
        )

    def _score_notes(self, rows: Floats, without: int) -> tuple[Note, ...]:
        notes = []
        if without:
            message = f"{without} outputs have no score of any metric of the combination: not rated"
            notes.append(Note(rule="not-scored", message=message, count=without))
        missing = np.isnan(rows).sum(axis=0)
        if missing.any():
            linear = any(column.weight for column in self.columns)
            how = "taken at their mean in training" if linear else "left to the trees"
            most = [
                f"{name_of(column.metric, column.aspect)} ({n} of {len(rows)})"
                for column, n in sorted(zip(self.columns, missing, strict=True), key=lambda pair: -int(pair[1]))
                if n
            ]
            message = f"{int(missing.sum())} scores are missing, {how}: {listed(most)}"
            notes.append(Note(rule="missing-scores", message=message, count=int(missing.sum())))
        low = np.array([column.low for column in self.columns])
        high = np.array([column.high for column in self.columns])
        beyond = ((rows < low) | (rows > high)).sum(axis=0)
        if beyond.any():
            names = [name_of(c.metric, c.aspect) for c, n in zip(self.columns, beyond, strict=True) if n]
            message = f"{int(beyond.sum())} scores lie beyond the bounds of the file and are clipped: {listed(names)}"
            notes.append(Note(rule="clipped", message=message, count=int(beyond.sum())))
        return tuple(notes)
