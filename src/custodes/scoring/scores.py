"""Result of `score`: its tables and notes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import field, replace
from typing import ClassVar

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
from custodes.scoring.raters import LACKS, Rater

COST_UNIT = "cpu-s"
NO_OUTPUT = "the system has no output of this item"

FAILED = "metric-failed"
UNSCORED = "not-scored"
"""Codes of the notes on an incomplete result."""


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
        "One row per score. The table `raters` states for which metrics lower is better, so the questions need both "
        "tables, or study().",
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
        ratings = self.ratings.with_columns(aspect=pl.lit(""), repeat=pl.lit("0"))
        raters = Raters.infer(dict.fromkeys(self.raters["rater"], "metric"))
        described_raters, _ = raters.merge_side_table(self.raters, where="raters")
        scores = Study(
            ratings=Ratings(frame=ratings.select(list(Ratings.empty().frame.columns))),
            raters=described_raters,
            name="scores",
        )
        texts = replace(self.scored, notes=(*self.scored.notes, *self.notes))
        return join([texts, scores])

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
        count("to_score", "number of scores to compute (raters that differ only in the rule share scores)"),
        score(
            "seconds",
            "CPU seconds for the scores to compute, estimated from cached scores; null without an estimate",
        ),
    )


def rater_rows(rater: Rater, column: RuleScores, corpus: Corpus) -> dict[str, pl.DataFrame]:
    """Return the table rows of one rater."""
    traits, name, (scores, reasons, seconds, truncated) = rater.traits, rater.asked.name, column
    if traits.systems:
        items, systems = [""] * len(corpus.systems), list(corpus.systems)
    else:
        texts = corpus.texts
        items = [corpus.items[texts.item[output]] for output in rater.computation.used]
        systems = [corpus.systems[texts.system[output]] for output in rater.computation.used]
    skipped_outputs = [
        (items[i], systems[i], reasons[i]) for i in range(len(reasons)) if reasons[i]
    ] + _skipped_outputs(rater, corpus)
    defined_rows = [i for i in range(len(reasons)) if not reasons[i]]
    return Scores.part(
        raters={
            "rater": [name],
            "kind": ["metric"],
            "higher_is_better": [traits.higher_is_better],
            "low": [traits.low],
            "high": [traits.high],
            "cost": [float(seconds.mean())],
            "cost_unit": [COST_UNIT],
            "truncated": [sum(truncated) / len(truncated)],
            "signature": [rater.computation.scorer.signature + (f" references={rater.rule}" if rater.rule else "")],
        },
        ratings={
            "item": [items[i] for i in defined_rows],
            "system": [systems[i] for i in defined_rows],
            "rater": [name] * len(defined_rows),
            "score": scores[defined_rows],
        },
        skipped={
            "item": [item for item, _, _ in skipped_outputs],
            "system": [system for _, system, _ in skipped_outputs],
            "rater": [name] * len(skipped_outputs),
            "why": [reason for _, _, reason in skipped_outputs],
        },
    )


def _skipped_outputs(rater: Rater, corpus: Corpus) -> list[tuple[str, str, str]]:
    """Return the item, the system and the reason of each output that is not given to a metric."""
    if rater.traits.systems:
        return []
    texts, scored_outputs = corpus.texts, set(rater.computation.used)
    lacking_items = {need: corpus.lacks_input(need) for need in rater.traits.needs}
    skipped_outputs = []
    for output in range(len(texts.outputs)) if len(scored_outputs) < len(texts.outputs) else ():
        if output not in scored_outputs:
            item = int(texts.item[output])
            why = next(LACKS[need] for need, lacks_need in lacking_items.items() if lacks_need[item])
            skipped_outputs.append((corpus.items[item], corpus.systems[texts.system[output]], why))
    return skipped_outputs + [(corpus.items[item], corpus.systems[system], NO_OUTPUT) for item, system in corpus.absent]


def rater_notes(rater: Rater, column: RuleScores) -> list[Note]:
    """Return notes on missing scores and on scores of truncated texts."""
    name, reasons = rater.asked.name, Counter(filter(None, column.why))
    noun = "systems" if rater.traits.systems else "outputs"
    n_truncated, n_values = sum(column.truncated), len(column.truncated)
    return build_notes(
        (
            "truncated",
            n_truncated,
            f"{name}: for {n_truncated} of {n_values} {noun}, a text was truncated to fit the model",
        ),
        *((UNSCORED, n, f"{name}: {n} of {n_values} {noun} have no score: {reason}") for reason, n in reasons.items()),
    )


def omission_notes(raters: Sequence[Rater], corpus: Corpus) -> list[Note]:
    """Return notes on outputs that lack an input of a metric, missing outputs, and systems that copy references."""
    names_of_message: dict[str, list[str]] = {}
    for rater in raters:
        for need in rater.traits.needs:
            if n := int(corpus.lacks_input(need).sum()):
                message = f"{n} of {len(corpus.items)} items have {LACKS[need]}, so their outputs are not scored by"
                names_of_message.setdefault(message, []).append(rater.asked.name)
    reference_metric_names = [rater.asked.name for rater in raters if "references" in rater.traits.needs]
    copying_systems = corpus.reference_systems if reference_metric_names else []
    n_absent, n_complete = len(corpus.absent), int(corpus.complete.sum())
    system_metric_names = [rater.asked.name for rater in raters if rater.traits.systems]
    return build_notes(
        *(("not-asked", 1, f"{message} {join_labels(names)}") for message, names in names_of_message.items()),
        (
            "own-reference",
            len(copying_systems),
            f"every output of {join_labels(copying_systems)} is a reference of its item, so the scores by "
            f"{join_labels(reference_metric_names)} carry no information; exclude these systems",
        ),
        ("no-output", n_absent, f"{n_absent} of {len(corpus.items) * len(corpus.systems)} outputs are missing"),
        (
            "items-of-all",
            n_absent and bool(system_metric_names),
            f"systems are scored by {join_labels(system_metric_names)} on the {n_complete} of {len(corpus.items)} "
            "items that have an output of every system",
        ),
    )
