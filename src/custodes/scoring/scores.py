"""Result of `score`: its tables and notes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import field, replace
from typing import ClassVar

import numpy as np
import polars as pl

from custodes.answers.result import Result, result
from custodes.answers.tables import count, flag, label, score, share, table
from custodes.data.joining import join
from custodes.data.notes import Note, build_notes
from custodes.data.raters import Raters
from custodes.data.ratings import Ratings
from custodes.data.study import Study
from custodes.errors import join_labels
from custodes.scoring.computation import Corpus, RuleScores
from custodes.scoring.raters import Rater
from custodes.stats.arrays import Ints

COST_UNIT = "cpu-s"
NO_OUTPUT = "the system has no output of this item"

FAILED = "metric-failed"
UNSCORED = "not-scored"


@result
class Scores(Result):
    """Scores by metrics; see `score`. `status` is 1 if a metric failed or did not score an output."""

    BY: ClassVar[str] = ""

    raters: pl.DataFrame = table(
        "One row per metric and rule for references.",
        label("rater", "name of the rater: METRIC with parameters and rule as given, or NAME if NAME=METRIC was given"),
        label("kind", "always `metric`", essential=False),
        flag("higher_is_better", "whether a higher score is better"),
        score("low", "lowest possible score; null if there is no bound"),
        score("high", "highest possible score; null if there is no bound"),
        score("cost", "measured CPU seconds per output"),
        label("cost_unit", "always `cpu-s`", essential=False),
        share("truncated", "proportion of outputs for which a text was truncated to fit the model", essential=False),
        label("signature", "everything that determines a score: library, version, parameters, rule for references"),
    )
    ratings: pl.DataFrame = table(
        "One row per score. An analysis also needs the table `raters`, which states for which metrics lower is "
        "better; study() has both tables.",
        label("item", "item; empty for a score of the system over all items"),
        label("system", "the system"),
        label("rater", "the metric"),
        score("score", "score of the output, or of the system"),
        essential=False,
    )
    skipped: pl.DataFrame = table(
        "One row per missing score.",
        label("item", "item; empty for a missing score of the whole system"),
        label("system", "the system"),
        label("rater", "the metric"),
        label("why", "reason why there is no score"),
        essential=False,
    )
    scored: Study = field(default_factory=lambda: Study(raters=Raters.infer({})))

    def study(self) -> Study:
        """Return the scored study with these scores, which every question accepts as input."""
        rating_rows = self.ratings.with_columns(aspect=pl.lit(""), repeat=pl.lit("0"))
        described_raters, _ = Raters.infer(dict.fromkeys(self.raters["rater"], "metric")).merge_side_table(
            self.raters, where="raters"
        )
        return join(
            [
                replace(self.scored, notes=(*self.scored.notes, *self.notes)),
                Study(
                    ratings=Ratings(frame=rating_rows.select(Ratings().frame.columns)),
                    raters=described_raters,
                    name="scores",
                ),
            ]
        )

    @property
    def status(self) -> int:
        """1 if a metric failed or did not score an output, otherwise 0."""
        return int(any(note.rule in (FAILED, UNSCORED) for note in self.notes))


@result
class ScoringPlan(Result):
    """Plan of `score`: the number of values to compute and the estimated time."""

    BY: ClassVar[str] = ""

    raters: pl.DataFrame = table(
        "One row per metric and rule for references.",
        label("rater", "name of the rater: METRIC with parameters and rule as given, or NAME if NAME=METRIC was given"),
        count("outputs", "number of outputs (or systems) to score"),
        count("distinct", "number of distinct combinations of output and references", essential=False),
        count("kept", "number of distinct combinations whose score is cached"),
        count(
            "to_score",
            "number of scores to compute. Scores that raters share, because they differ only in the "
            "rule for references, are counted once",
        ),
        score(
            "seconds",
            "CPU seconds for the scores to compute, estimated from cached scores; null without an estimate",
        ),
    )


def rater_rows(rater: Rater, rule_scores: RuleScores, corpus: Corpus) -> dict[str, pl.DataFrame]:
    """Return the table rows of one rater."""
    traits, used_output_indices = rater.traits, rater.computation.used
    if traits.systems:
        score_rows, skipped_output_tables = pl.DataFrame({"item": "", "system": corpus.systems}), []
    else:
        score_rows = _output_labels(
            corpus, corpus.texts.item[used_output_indices], corpus.texts.system[used_output_indices]
        )
        skipped_output_tables = _skipped_outputs(rater, corpus)
    score_rows = score_rows.with_columns(
        rater=pl.lit(rater.spec.name), score=rule_scores.scores, why=pl.Series(rule_scores.why, dtype=pl.String)
    )
    skipped_rows = pl.concat(
        [score_rows.filter(pl.col("why") != "").drop("score"), *skipped_output_tables], how="diagonal"
    )
    return Scores.part(
        raters={
            "rater": rater.spec.name,
            "kind": "metric",
            "higher_is_better": traits.higher_is_better,
            "low": traits.low,
            "high": traits.high,
            "cost": float(rule_scores.seconds.mean()),
            "cost_unit": COST_UNIT,
            "truncated": sum(rule_scores.truncated) / len(rule_scores.truncated),
            "signature": rater.computation.scorer.signature + (f" references={rater.rule}" if rater.rule else ""),
        },
        ratings=score_rows.filter(why="").drop("why").to_dict(),
        skipped=skipped_rows.select("item", "system", pl.lit(rater.spec.name).alias("rater"), "why").to_dict(),
    )


def _output_labels(corpus: Corpus, item_indices: Ints, system_indices: Ints) -> pl.DataFrame:
    """Return the names of items and systems of outputs, given the positions."""
    return pl.DataFrame({"item": corpus.items}).select(
        pl.col("item").gather(item_indices), system=pl.Series(corpus.systems, dtype=pl.String).gather(system_indices)
    )


def _skipped_outputs(rater: Rater, corpus: Corpus) -> list[pl.DataFrame]:
    """Return the item, the system and the reason (`why`) of each output that is not given to a metric."""
    reason_of_item = np.full(len(corpus.items), "", dtype=object)
    for need in reversed(rater.traits.needs):
        reason_of_item[corpus.lacks_input(need)] = f"no {need}"
    output_reason_rows = _output_labels(corpus, corpus.texts.item, corpus.texts.system).with_columns(
        why=pl.Series(reason_of_item[corpus.texts.item], dtype=pl.String)
    )
    return [
        output_reason_rows.filter(pl.col("why") != ""),
        _output_labels(corpus, *np.array(corpus.absent, dtype=np.int64).reshape(-1, 2).T).with_columns(
            why=pl.lit(NO_OUTPUT)
        ),
    ]


def rater_notes(rater: Rater, rule_scores: RuleScores) -> list[Note]:
    """Return notes on missing scores and on scores of truncated texts."""
    rater_name, n_outputs_of_reason = rater.spec.name, Counter(filter(None, rule_scores.why))
    noun = "systems" if rater.traits.systems else "outputs"
    n_truncated, n_scores = sum(rule_scores.truncated), len(rule_scores.truncated)
    return build_notes(
        (
            "truncated",
            n_truncated,
            f"{rater_name}: for {n_truncated} of {n_scores} {noun}, a text was truncated to fit the model",
        ),
        *(
            (UNSCORED, n_unscored, f"{rater_name}: {n_unscored} of {n_scores} {noun} have no score: {reason}")
            for reason, n_unscored in n_outputs_of_reason.items()
        ),
    )


def omission_notes(raters: Sequence[Rater], corpus: Corpus) -> list[Note]:
    """Return notes on outputs that lack an input of a metric, missing outputs, and systems that copy references."""
    metric_names_of_message: dict[str, list[str]] = {}
    for rater in raters:
        for need in rater.traits.needs:
            if n_items := int(corpus.lacks_input(need).sum()):
                message_start = (
                    f"{n_items} of {len(corpus.items)} items have no {need}, so their outputs are not scored by"
                )
                metric_names_of_message.setdefault(message_start, []).append(rater.spec.name)
    reference_metric_names = [rater.spec.name for rater in raters if "references" in rater.traits.needs]
    copying_systems = corpus.reference_systems if reference_metric_names else []
    n_missing_outputs, n_complete_items = len(corpus.absent), int(corpus.complete.sum())
    system_metric_names = [rater.spec.name for rater in raters if rater.traits.systems]
    return build_notes(
        *(
            ("not-asked", 1, f"{message_start} {join_labels(metric_names)}")
            for message_start, metric_names in metric_names_of_message.items()
        ),
        (
            "own-reference",
            len(copying_systems),
            f"every output of {join_labels(copying_systems)} is a reference of its item, so the scores by "
            f"{join_labels(reference_metric_names)} carry no information; exclude these systems",
        ),
        (
            "no-output",
            n_missing_outputs,
            f"{n_missing_outputs} of {len(corpus.items) * len(corpus.systems)} outputs are missing",
        ),
        (
            "items-of-all",
            n_missing_outputs and bool(system_metric_names),
            f"systems are scored by {join_labels(system_metric_names)} on the {n_complete_items} of "
            f"{len(corpus.items)} items that have an output of every system",
        ),
    )
