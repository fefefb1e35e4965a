"""Combined metrics: the model file, which is readable text, and predictions for new scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl

from custodes.arguments import argument, check_arguments
from custodes.combining.kinds import Calibration
from custodes.combining.methods import BEST, Formula, TrainingData
from custodes.combining.methods.method import add_kind_shifts
from custodes.combining.normalise import Normalisation, Source
from custodes.combining.task import Task, aspect_of
from custodes.data.loading import check_exists, read_file_bytes
from custodes.data.notes import Note, build_notes
from custodes.data.panel import Panel
from custodes.data.patterns import Patterns
from custodes.data.study import Study
from custodes.errors import InputError, join_labels, reject, short_repr, suggestion
from custodes.evaluate.rater_scores import METRIC, name_of
from custodes.files import write_atomically
from custodes.stats.arrays import Floats, Ints
from custodes.stats.learning.boost import Trees
from custodes.strict_json import decode, digest

FORMAT = "custodes-combination"
VERSION = 1
NAME = "combined"


class MetricColumn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A metric of the combination.

    Raw scores are oriented so that higher is better, then clipped to `low` and `high`, scaled to [0, 1], and weighted.
    `fill` replaces a missing value. `scale` names the source of the bounds, and `importance` is the proportion of the
    gain of the trees that is due to this metric.
    """

    metric: str
    aspect: str
    higher_is_better: bool
    low: float
    high: float
    scale: Source
    weight: float
    importance: float
    fill: float

    @property
    def label(self) -> str:
        """Name of the metric, with the aspect if there is one."""
        return name_of(self.metric, self.aspect)


def best_single_metric(task: Task, training: TrainingData) -> dict[str, Any]:
    """Return the metric that was best on the training data, in the form of the model file."""
    (best_index,) = BEST.fit(training).used_positions
    return {
        "metric": task.metrics.raters[best_index],
        "aspect": task.metrics.rater_aspects[best_index],
        "higher_is_better": bool(task.directions[best_index] > 0),
    }


class _Head(msgspec.Struct):
    """Fields that every version of the file has."""

    format: str = ""
    version: int = 0


class CombinedMetric(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A combined metric, which can be saved, loaded elsewhere, and applied to outputs with scores of its metrics.

    `name` is the name of the combined metric as a rater. `digest` is a hash of all fields except `name`.
    """

    format: str
    version: int
    name: str
    target: str
    method: str
    objective: str
    columns: tuple[MetricColumn, ...]
    intercept: float
    trees: Trees | None
    share: float
    validation: dict[str, Any]
    provenance: dict[str, Any]
    digest: str
    calibration: Calibration | None = None

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
    ) -> CombinedMetric:
        """Return the combined metric of a fitted formula, still without a digest.

        The model contains only metrics that affect the prediction, or all metrics if no metric affects it.
        """
        n_metrics, scale_widths = len(of.metrics.names), scales.high - scales.low
        clip_low, clip_high = scales.low + formula.low * scale_widths, scales.low + formula.high * scale_widths
        importances = np.broadcast_to(formula.importance, n_metrics)
        used_metric_indices = formula.used_positions if len(formula.used_positions) else np.arange(n_metrics)
        column_of_metric_index = {
            metric_index: column_index for column_index, metric_index in enumerate(used_metric_indices.tolist())
        }
        return cls(
            format=FORMAT,
            version=VERSION,
            name=NAME,
            target=of.target,
            method=method,
            objective=objective,
            columns=tuple(
                MetricColumn(
                    metric=of.metrics.raters[metric_index],
                    aspect=of.metrics.rater_aspects[metric_index],
                    higher_is_better=bool(of.directions[metric_index] > 0),
                    low=float(clip_low[metric_index]),
                    high=float(clip_high[metric_index]),
                    scale=scales.source[metric_index],
                    weight=float(formula.weights[metric_index]),
                    importance=float(importances[metric_index]),
                    fill=float(formula.fill[metric_index]),
                )
                for metric_index in used_metric_indices
            ),
            intercept=float(formula.intercept),
            trees=formula.trees and formula.trees.renumber_columns(column_of_metric_index),
            share=float(formula.share),
            validation=dict(validation),
            provenance={"outputs": int(of.rated.sum()), "items": int(of.rated.any(axis=1).sum())},
            digest="",
            calibration=of.kinds and of.kinds.calibration(np.broadcast_to(formula.shifts, len(of.kinds.names))),
        )

    def with_provenance(self, digest: str, provenance_text: str, group: Patterns = None) -> CombinedMetric:
        """Return a copy with the digest of the study, the provenance of the fit as text, and the groups of items."""
        study_provenance = {"digest": digest, "made": provenance_text} | ({} if group is None else {"group": group})
        model = msgspec.structs.replace(self, provenance={**study_provenance, **self.provenance})
        return msgspec.structs.replace(model, digest=model._computed_digest())

    def _computed_digest(self) -> str:
        return digest(msgspec.structs.replace(self, name="", digest=""))

    def save(self, path: str | Path) -> Path:
        """Write the model file atomically and return its path; raises `OptionError` if the file cannot be written."""
        return write_atomically(path, msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n")

    @classmethod
    def load(cls, path: str | Path) -> CombinedMetric:
        """Read a file that `save` has written. No content of the file is executed.

        Raises `InputError` if the file does not exist, has another format or version, or has a missing, invalid or
        infinite value, invalid trees or a repeated metric. The same error is raised if anything except the name was
        changed by hand. The message gives the reason.

        """
        model_path = Path(argument("path", path, str | Path))
        check_exists(model_path)
        file_bytes = read_file_bytes(model_path)
        try:
            file_header = decode(file_bytes, _HEAD)
            reject(
                (file_header.format != FORMAT, f"the format is {short_repr(file_header.format)}, not {FORMAT!r}"),
                (
                    file_header.version != VERSION,
                    f"the file has version {file_header.version} of the format, but {VERSION} is required",
                ),
                error=InputError,
            )
            model = decode(file_bytes, _MODEL)
            reject(
                (
                    model.digest != model._computed_digest(),
                    "edited by hand: the content of the file does not match its digest (only the field `name` may be "
                    "edited)",
                ),
                (not model.name.strip(), "the field name is empty"),
                error=InputError,
            )
        except InputError as problem:
            raise InputError(f"{model_path.name}: not a valid combined metric: {problem}; fit it again") from None
        return model

    def kinds(self, study: Study, items: Sequence[str], systems: Sequence[str]) -> Ints | None:
        """Return the kind (items * systems,) of each output, -1 if the kind is unknown.

        The result is None if the model has no calibration.
        """
        return None if self.calibration is None else self.calibration.positions(study, items, systems)

    def predict(self, scores: Floats, kinds: Ints | None = None) -> Floats:
        """Return ratings (rows,), given scores (rows, columns) and the kind (rows,) of each output.

        Scores are oriented so that higher is better; missing scores are NaN.
        """
        normalisation = Normalisation(
            low=self._numbers("low"),
            high=self._numbers("high"),
            source=tuple(metric_column.scale for metric_column in self.columns),
        )
        kind_shifts = np.array(self.calibration.shifts) if self.calibration else 0.0
        return add_kind_shifts(self._formula().predict(normalisation.apply(scores)), kind_shifts, kinds)

    def _numbers(self, field_name: str) -> Floats:
        """Return the values of a field for all columns."""
        return np.array([getattr(metric_column, field_name) for metric_column in self.columns])

    def _formula(self) -> Formula:
        return Formula(
            weights=self._numbers("weight"),
            fill=self._numbers("fill"),
            importance=self._numbers("importance"),
            share=self.share,
            intercept=self.intercept,
            trees=self.trees,
        )

    @check_arguments
    def score(self, study: Study, *, name: str | None = None) -> tuple[pl.DataFrame, tuple[Note, ...]]:
        """Return ratings of all outputs by the combined metric, as a long table that `read` accepts, and notes.

        `name` is the name of the metric in the table (default: the name in the file). Outputs without any metric score
        get no rating. Other missing scores are handled as in training, and scores outside the bounds are
        clipped. Notes count these cases. Raises `InputError` if a metric of the combination is not in the study.

        >>> import custodes as cu
        >>> study = cu.read("demo")
        >>> made = cu.combine(study, target="fluency", method="ridge", repeats=1, resamples=0, unseen="none").model
        >>> ratings, notes = made.score(study)
        >>> ratings.columns
        ['item', 'system', 'rater', 'kind', 'aspect', 'score']
        """
        items = tuple(study.ratings.frame.filter(pl.col("item") != "")["item"].unique(maintain_order=True))
        metric_scores = self.rows(study, items, study.systems)
        has_any_score = np.isfinite(metric_scores).any(axis=1)
        kind_of_output = self.kinds(study, items, study.systems)
        label_series_of_column = {
            "item": pl.Series([item for item in items for _ in study.systems], dtype=pl.String),
            "system": pl.Series(list(study.systems) * len(items), dtype=pl.String),
        }
        rating_frame = (
            pl.DataFrame(label_series_of_column)
            .filter(pl.Series(has_any_score))
            .with_columns(
                rater=pl.lit(name or self.name),
                kind=pl.lit(METRIC),
                aspect=pl.lit(aspect_of(self.target)),
                score=pl.Series(
                    self.predict(
                        metric_scores[has_any_score],
                        None if kind_of_output is None else kind_of_output[has_any_score],
                    )
                ),
            )
        )
        n_outputs_without_kind = 0 if kind_of_output is None else int((kind_of_output[has_any_score] < 0).sum())
        message_text = (
            f"{n_outputs_without_kind} outputs belong to no kind for which the model is calibrated, so their "
            "predictions are not shifted"
        )
        return rating_frame, (
            *self.notes_on(study, metric_scores, items),
            *build_notes(("kind-unknown", n_outputs_without_kind, message_text)),
        )

    def rows(self, study: Study, items: Sequence[str], systems: Sequence[str]) -> Floats:
        """Return the scores (items * systems, columns) in a study, oriented by the directions in the model file.

        Raises `InputError` if a metric of the combination is not in the study.
        """
        scores_of_columns = [
            raw_scores(study, metric_column.metric, metric_column.aspect, items, systems)
            for metric_column in self.columns
        ]
        missing_columns = [
            metric_column
            for metric_column, scores_of_column in zip(self.columns, scores_of_columns, strict=True)
            if scores_of_column is None
        ]
        if missing_columns:
            direction_of_rater = study.raters.direction
            raise InputError(
                f"{study.name}: the combined metric needs scores of "
                f"{join_labels(repr(metric_column.label) for metric_column in missing_columns)}, which are missing; "
                f"raters: {join_labels(direction_of_rater)}"
                f"{suggestion(missing_columns[0].metric, direction_of_rater)}"
            )
        return np.stack(
            [
                (1.0 if metric_column.higher_is_better else -1.0) * scores_of_column.ravel()
                for metric_column, scores_of_column in zip(self.columns, scores_of_columns, strict=True)
                if scores_of_column is not None
            ],
            axis=-1,
        )

    def notes_on(self, study: Study, metric_scores: Floats, items: Sequence[str]) -> list[Note]:
        """Return notes on excluded outputs, filled or clipped scores, and ratings to which the model was fitted.

        `metric_scores` (outputs, columns) are the scores.
        """
        is_scored_output = np.isfinite(metric_scores).any(axis=1)
        n_unscored_outputs, metric_scores = int((~is_scored_output).sum()), metric_scores[is_scored_output]
        training_group_patterns = self.provenance.get("group")
        has_training_items = study.fingerprint() == self.provenance.get("digest") and (
            training_group_patterns is None
            or not set(study.select(group=training_group_patterns, one_side=True).item_labels()).isdisjoint(items)
        )
        n_missing_of_column = dict(zip(self.columns, np.isnan(metric_scores).sum(axis=0).tolist(), strict=True))
        missing_texts = [
            f"{metric_column.label} {n_missing} of {len(metric_scores)}"
            for metric_column, n_missing in sorted(
                n_missing_of_column.items(), key=lambda column_and_count: -column_and_count[1]
            )
            if n_missing
        ]
        handling_text = (
            " and are replaced by the training mean of the metric"
            if self._numbers("weight").any()
            else "; the trees can handle missing scores"
        )
        n_clipped_of_column = ((metric_scores < self._numbers("low")) | (metric_scores > self._numbers("high"))).sum(
            axis=0
        )
        clipped_metric_labels = [
            metric_column.label
            for metric_column, n_clipped in zip(self.columns, n_clipped_of_column, strict=True)
            if n_clipped
        ]
        total_missing_scores, total_clipped_scores = sum(n_missing_of_column.values()), int(n_clipped_of_column.sum())
        return build_notes(
            (
                "not-scored",
                n_unscored_outputs,
                f"{n_unscored_outputs} outputs are not rated, because they have no score by any metric of the "
                "combined metric",
            ),
            (
                "missing-scores",
                total_missing_scores,
                f"{total_missing_scores} scores are missing ({join_labels(missing_texts)}){handling_text}",
            ),
            (
                "clipped",
                total_clipped_scores,
                f"{total_clipped_scores} scores of {join_labels(clipped_metric_labels)} outside the bounds of the "
                "model are clipped",
            ),
            (
                "fitted-on",
                has_training_items,
                "the model was fitted to ratings of this study, so agreement with these ratings is overestimated; use "
                "the held-out ratings",
            ),
        )


def raw_scores(study: Study, metric: str, aspect: str, items: Sequence[str], systems: Sequence[str]) -> Floats | None:
    """Return the scores (items, systems) of a metric in the units of the metric; None if there are no scores."""
    direction_of_rater = study.raters.direction
    if metric not in direction_of_rater:
        return None
    (metric_scores,) = Panel.from_study(study, raters=[metric], aspect=aspect, items=items, systems=systems).values
    return np.asarray(metric_scores * direction_of_rater[metric]) if np.isfinite(metric_scores).any() else None


# Created at import, not on first use: concurrent first lookups by several threads can crash the process.
_HEAD = msgspec.json.Decoder(_Head)
_MODEL = msgspec.json.Decoder(CombinedMetric)
