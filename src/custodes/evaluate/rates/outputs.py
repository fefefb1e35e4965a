"""Labels for one aspect as arrays: human labels, and labels or scores by judges, of each output."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
import polars as pl

from custodes.arguments import check_one_of
from custodes.data.labels import MOST_STEPS, POLARITY, LabelScale
from custodes.data.notes import Note, build_notes
from custodes.data.study import Study, select_aspect_rows
from custodes.errors import InputError, OptionError, join_labels, suggestion
from custodes.stats.annotator_models import UNKNOWN, AnnotatorLabels, dawid_skene, majority_label, vote_shares
from custodes.stats.arrays import Bools, Floats, Ints
from custodes.stats.ratios import ratio
from custodes.stats.reliability import alpha, coincidences

Consensus = Literal["vote", "dawid-skene", "kept"]
"""Methods to combine the labels of several annotators: majority vote (a tie gives no label), most probable label of
the Dawid-Skene model, or proportion of annotators for each label."""

KEY = ["item", "system"]
DAWID_SKENE_ITERATIONS = 200


@dataclass(frozen=True, kw_only=True)
class LabelledOutputs:
    """Outputs with labels for one aspect.

    Attributes
    ----------
    aspect : str
    words : tuple of str
        Labels in the order of their codes.
    ordered : bool
        Whether the labels have an order.
    systems, metrics, annotators : tuple of str
        Names of systems, metrics and annotators.
    system, unit : int arrays of shape (n,)
        Position of the system, and of the cluster, of each output.
    gold : array of shape (n, labels)
        Human label as the proportion of annotators for each label; all NaN if the output has no human label.
    annotated : array of shape (annotators, n)
        Code of the label by each annotator; NaN if there is none. `binarise_labels` does not change these codes.
    judged : array of shape (metrics, n)
        Code or score by each metric; NaN if there is none.
    is_score : bool array of shape (metrics,)
        Whether a metric gives scores.
    weight : array of shape (n,)
        Inverse inclusion probability; 1 if no probability is given.
    number : array of shape (n,)
        Number of equal outputs that a row stands for. It is the same for all rows of a cluster, and 1 if the row has a
        human label.
    table : DataFrame
        Item and system of each output.
    human_agreement, human_alpha : float
        Probability that two annotators of an output give the same label, and Krippendorff's alpha; NaN if no output has
        labels of two annotators.
    notes : list of Note
    """

    aspect: str
    words: tuple[str, ...]
    ordered: bool
    systems: tuple[str, ...]
    metrics: tuple[str, ...]
    annotators: tuple[str, ...]
    system: Ints
    unit: Ints
    gold: Floats
    annotated: Floats
    judged: Floats
    is_score: Bools
    weight: Floats
    number: Floats
    table: pl.DataFrame
    human_agreement: float
    human_alpha: float
    notes: list[Note]

    @cached_property
    def has_human_label(self) -> Bools:
        """Whether an output has a human label, (n,)."""
        return ~np.isnan(self.gold[:, 0])

    @cached_property
    def has_clusters(self) -> bool:
        """Whether outputs share clusters."""
        return bool(np.bincount(self.unit).max(initial=0) > 1)

    def only(self, rows: Bools) -> LabelledOutputs:
        """Return the outputs for which `rows` (n,) is true."""
        if rows.all():
            return self
        return replace(
            self,
            system=self.system[rows],
            unit=self.unit[rows],
            gold=self.gold[rows],
            annotated=self.annotated[:, rows],
            judged=self.judged[:, rows],
            weight=self.weight[rows],
            number=self.number[rows],
            table=self.table.filter(pl.Series(rows)),
        )

    def binarise_labels(self, positive: str) -> LabelledOutputs:
        """Return the outputs with two labels: the positive label, and one label for all other labels.

        `positive` is a label or, for ordered labels, a rule such as '>=4'.
        """
        is_positive = _positive_codes(self, positive)
        gold = np.stack([self.gold[:, ~is_positive].sum(axis=1), self.gold[:, is_positive].sum(axis=1)], axis=1)
        judged = self.judged.copy()
        for k in np.flatnonzero(~self.is_score):
            has_label = ~np.isnan(judged[k])
            judged[k, has_label] = is_positive[judged[k, has_label].astype(np.intp)]
        negative_words = [word for word, is_chosen in zip(self.words, is_positive, strict=True) if not is_chosen]
        negative_name = negative_words[0] if len(negative_words) == 1 else f"not {positive}"
        return replace(self, words=(negative_name, positive), ordered=False, gold=gold, judged=judged)


def _positive_codes(outputs: LabelledOutputs, positive: str) -> Bools:
    labels = outputs.words
    rule_match = re.fullmatch(r"(>=|<=|>|<)\s*(-?\d+(?:\.\d+)?)", positive.strip())
    if rule_match and outputs.ordered:
        values, cutoff = np.array([float(label) for label in labels]), float(rule_match[2])
        is_positive = {">=": values >= cutoff, "<=": values <= cutoff, ">": values > cutoff, "<": values < cutoff}[
            rule_match[1]
        ]
    else:
        is_positive = np.array([label == positive.strip().lower() for label in labels])
    if not is_positive.any() or is_positive.all():
        allowed_text = f"a label ({join_labels(labels)})" + (", or a rule such as '>=4'" if outputs.ordered else "")
        raise OptionError(
            f"positive={positive!r} selects {'no' if not is_positive.any() else 'every'} label; allowed: {allowed_text}"
            f"{suggestion(positive, labels)}"
        )
    return np.asarray(is_positive)


def binary_outputs(outputs: LabelledOutputs, positive: str | None, *, verb: str) -> LabelledOutputs:
    """Return the outputs with two labels; raise `OptionError` if there are more labels and `positive` is None."""
    if positive is None and len(outputs.words) != 2:
        raise OptionError(
            f"{verb} needs two labels, not {len(outputs.words)}; name one of {join_labels(outputs.words)} with "
            "positive=LABEL"
        )
    return outputs.binarise_labels(positive) if positive else outputs


def judge_position(outputs: LabelledOutputs, metric: str | None, *, verb: str) -> int:
    """Return the position of the metric with this name or, by default, of the only metric that gives labels."""
    names = [name for name, is_score in zip(outputs.metrics, outputs.is_score, strict=True) if not is_score]
    if not names:
        raise InputError(
            f"{verb} needs a metric that gives labels; without one, label a random part of the outputs and use rates"
        )
    if metric is None and len(names) > 1:
        raise OptionError(f"{verb}: several metrics give labels; name one with metric=NAME: {join_labels(names)}")
    if metric is not None:
        check_one_of("metric", metric, names)
    return outputs.metrics.index(metric or names[0])


def labelled_outputs(study: Study, *, consensus: Consensus) -> list[LabelledOutputs]:
    """Return the outputs of each aspect of a selected study.

    Raises
    ------
    InputError
        If no rater gave labels.
    """
    if study.ratings.frame.is_empty():
        raise InputError(f"{study.name}: the study has no labels or scores of outputs, which rates needs")
    return [_aspect_outputs(study, aspect, consensus) for aspect in study.aspects]


def _aspect_outputs(study: Study, aspect: str, consensus: Consensus) -> LabelledOutputs:
    rows = select_aspect_rows(study.ratings.frame, aspect).filter(pl.col("item") != "")
    scale = study.labels.get(aspect)
    if scale is None:
        scale, rows = _numeric_scale(study, rows, aspect)
    outputs = rows.select(KEY).unique(maintain_order=True)
    numbered_rows = rows.select(KEY).join(outputs.with_row_index("row"), on=KEY, how="left", maintain_order="left")
    output_of_row = numbered_rows["row"].to_numpy().astype(np.intp)
    codes_of_rater = {
        name: _aggregate_repeats(
            rows["score"].to_numpy()[is_of_rater], output_of_row[is_of_rater], len(outputs), name in scale.scores
        )
        for name in study.raters.kind
        for is_of_rater in [(rows["rater"] == name).to_numpy()]
    }
    annotators, metrics = (
        [name for name in raters if not np.isnan(codes_of_rater[name]).all()]
        for raters in (study.humans, study.metrics)
    )
    annotated, judged = (
        np.array([codes_of_rater[name] for name in raters]).reshape(len(raters), outputs.height)
        for raters in (annotators, metrics)
    )
    item_facts = study.items.item_rows(outputs["item"])
    cluster_label = pl.when(pl.col("cluster") == "").then("item " + pl.col("item")).otherwise("cluster")
    unit: Ints = item_facts.select(cluster_label).to_series().rank("dense").to_numpy().astype(np.intp) - 1
    probability, number = (item_facts[name].fill_null(1.0).to_numpy() for name in ("probability", "n_outputs"))
    if study.items.has_equal_outputs:
        row_index, unit, number = _split_labelled_clusters(unit, number, ~np.isnan(annotated).all(axis=0))
        annotated, judged, probability, outputs = (
            annotated[:, row_index],
            judged[:, row_index],
            probability[row_index],
            outputs[row_index],
        )
    gold, agreement, reliability, n_undecided = _gold(annotated, scale, consensus)
    systems = outputs["system"].unique().sort()
    notes = build_notes(
        (
            "annotators-undecided",
            n_undecided,
            f"{n_undecided} outputs have no majority among annotators, so they count as outputs without a human label",
        ),
        aspect=aspect,
    )
    return LabelledOutputs(
        aspect=aspect,
        words=scale.words,
        ordered=scale.ordered,
        systems=tuple(systems),
        metrics=tuple(metrics),
        annotators=tuple(annotators),
        system=outputs["system"].cast(pl.Enum(systems)).to_physical().to_numpy().astype(np.intp),
        unit=unit,
        gold=gold,
        annotated=annotated,
        judged=judged,
        is_score=np.array([name in scale.scores for name in metrics], dtype=bool),
        weight=1 / probability,
        number=number,
        table=outputs,
        human_agreement=agreement,
        human_alpha=reliability,
        notes=notes,
    )


def _split_labelled_clusters(unit: Ints, number: Floats, is_labelled: Bools) -> tuple[Ints, Ints, Floats]:
    """Repeat the rows of clusters with a human label, so that no such cluster represents several equal clusters.

    A cluster without a human label is not repeated and keeps its `number` of equal clusters. Returns the position of
    the original row, the cluster and the number of each new row.

    >>> _split_labelled_clusters(np.array([0, 1]), np.array([2.0, 5.0]), np.array([True, False]))
    (array([0, 0, 1]), array([0, 1, 2]), array([1., 1., 5.]))
    """
    has_label = np.bincount(unit, weights=is_labelled)[unit] > 0
    n_copies = np.where(has_label, number, 1).astype(np.intp)
    source_row = np.repeat(np.arange(len(unit)), n_copies)
    copy_index = np.arange(len(source_row)) - np.repeat(np.cumsum(n_copies) - n_copies, n_copies)
    _, units = np.unique(np.stack([unit[source_row], copy_index]), axis=1, return_inverse=True)
    return source_row, units.ravel(), np.where(has_label, 1.0, number)[source_row]


def _aggregate_repeats(values: Floats, output_of_value: Ints, n_outputs: int, is_score: bool) -> Floats:
    """Return the code or score of each output; repeats give the mean score or the most frequent label (NaN if tied).

    >>> _aggregate_repeats(np.array([1.0, 0, 0, 1, 0]), np.array([0, 0, 0, 2, 2]), 3, False)
    array([ 0., nan, nan])
    """
    n_values = np.bincount(output_of_value, minlength=n_outputs)
    if is_score or n_values.max(initial=0) <= 1:
        return ratio(np.bincount(output_of_value, weights=values, minlength=n_outputs), n_values)
    votes = np.zeros((n_outputs, int(values.max()) + 1))
    np.add.at(votes, (output_of_value, values.astype(np.intp)), 1)
    label = majority_label(votes)
    return np.where((n_values > 0) & (label != UNKNOWN), label, np.nan)


def _numeric_scale(study: Study, rows: pl.DataFrame, aspect: str) -> tuple[LabelScale, pl.DataFrame]:
    """Return the scale of numeric ratings, which must have few distinct whole numbers, and the rows with codes."""
    scale_raters = study.humans or study.metrics
    values = rows.filter(pl.col("rater").is_in(list(scale_raters)))["score"].unique().sort()
    if not values.len() or (values != values.round()).any() or values.len() > MOST_STEPS:
        study_text = f"{study.name}{f' ({aspect})' if aspect else ''}"
        raise InputError(
            f"{study_text}: ratings are scores with {values.len()} different values, but rates needs labels, or at "
            f"most {MOST_STEPS} different whole numbers; for scores, use leaderboard or agreement"
        )
    steps = [0, 1] if set(values) <= {0, 1} else [int(value) for value in values]
    scores_of_rater = rows.group_by("rater", maintain_order=True).agg(pl.col("score").unique())
    score_raters = {rater for rater, rater_scores in scores_of_rater.iter_rows() if not set(rater_scores) <= set(steps)}
    code_of_step = {float(step): float(code) for code, step in enumerate(steps)}
    code_column = pl.col("score").replace_strict(code_of_step, default=None)
    rows = rows.with_columns(
        score=pl.when(pl.col("rater").is_in(list(score_raters))).then("score").otherwise(code_column)
    )
    return LabelScale(words=tuple(map(str, steps)), ordered=len(steps) > 2, scores=frozenset(score_raters)), rows


def _gold(labels: Floats, scale: LabelScale, consensus: Consensus) -> tuple[Floats, float, float, int]:
    """Return human labels (n, labels) as proportions, computed from codes (annotators, n).

    Also returns the agreement of annotators, the alpha of annotators, and the number of outputs without a majority.
    """
    n_outputs, n_labels = labels.shape[1], len(scale.words)
    annotator_index, output_index = np.nonzero(~np.isnan(labels))
    if not len(output_index):
        return np.full((n_outputs, n_labels), np.nan), np.nan, np.nan, 0
    annotator_labels = AnnotatorLabels.from_labels(
        output_index,
        annotator_index,
        labels[annotator_index, output_index].astype(np.int64),
        n_tasks=n_outputs,
        n_workers=len(labels),
        n_labels=n_labels,
    )
    shares, n_multiply_rated = vote_shares(annotator_labels), int((annotator_labels.n_votes > 1).sum())
    if not n_multiply_rated:
        return shares, np.nan, np.nan, 0
    pairs = coincidences(annotator_labels, units=np.zeros(n_outputs, dtype=np.intp), n_units=1)[0]
    agreement = float(ratio(np.trace(pairs), pairs.sum()))
    reliability = float(alpha(pairs, scale="ordinal" if scale.ordered else "nominal"))
    if consensus == "kept":
        return shares, agreement, reliability, 0
    votes = (
        dawid_skene(annotator_labels, iterations=DAWID_SKENE_ITERATIONS).posterior
        if consensus == "dawid-skene"
        else annotator_labels.votes
    )
    votes = np.where(annotator_labels.n_votes[:, None] > 0, votes, 0.0)
    majority_labels = np.where(annotator_labels.n_votes > 0, majority_label(votes), UNKNOWN)
    gold = np.full((n_outputs, n_labels), np.nan)
    gold[majority_labels != UNKNOWN] = np.eye(n_labels)[majority_labels[majority_labels != UNKNOWN]]
    return gold, agreement, reliability, int(((majority_labels == UNKNOWN) & (annotator_labels.n_votes > 0)).sum())


def has_known_positive(labels: tuple[str, ...]) -> bool:
    """Return whether both labels are known words, so that it is known which label is positive."""
    return len(labels) == 2 and set(labels) <= POLARITY.keys()
