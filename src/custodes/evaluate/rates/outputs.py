"""Labels for one aspect as arrays: human labels, and labels or scores by judges, of each output."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
import polars as pl

from custodes.arguments import check_one_of
from custodes.data.labels import MOST_STEPS, POLARITY, LabelScale, label_words
from custodes.data.mapping.column_vocabulary import CONFIDENCES, split_name
from custodes.data.notes import Note, build_notes
from custodes.data.study import Study, select_aspect_rows
from custodes.errors import InputError, OptionError, join_labels, reject, suggestion
from custodes.stats.annotator_models import UNKNOWN, AnnotatorLabels, dawid_skene, majority_label, vote_shares
from custodes.stats.arrays import Bools, Floats, Ints
from custodes.stats.ratios import ratio
from custodes.stats.reliability import alpha, coincidences

Consensus = Literal["vote", "dawid-skene", "kept"]
"""Methods to combine the labels of several annotators: majority vote (tied labels count equally), most probable label
of the Dawid-Skene model, or proportion of annotators for each label."""

KEY = ["item", "system"]
DAWID_SKENE_ITERATIONS = 200

ROUNDING = 1e-9
"""Rounding error of votes and posterior probabilities."""


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
        Number of equal outputs that a row stands for. The number is the same for all rows of a cluster, and 1 if the
        row has a human label.
    table : DataFrame
        Item and system of each output.
    human_agreement, human_alpha : float
        Probability that two annotators of an output give the same label, and Krippendorff's alpha; NaN if no output has
        labels of two annotators.
    consensus : {'vote', 'dawid-skene', 'kept'}
        How the labels of several annotators are combined.
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
    consensus: Consensus
    notes: list[Note]

    @cached_property
    def has_human_label(self) -> Bools:
        """Whether an output has a human label, (n,)."""
        return ~np.isnan(self.gold[:, 0])

    @cached_property
    def has_decided_label(self) -> Bools:
        """Whether an output has a human label without a tie of annotators, (n,)."""
        return np.asarray(self.gold.max(axis=1) > 0.5)

    @cached_property
    def has_clusters(self) -> bool:
        """Whether outputs share clusters."""
        return bool(np.bincount(self.unit).max(initial=0) > 1)

    def only(self, is_selected_output: Bools) -> LabelledOutputs:
        """Return the outputs for which `is_selected_output` (n,) is true."""
        if is_selected_output.all():
            return self
        return replace(
            self,
            system=self.system[is_selected_output],
            unit=self.unit[is_selected_output],
            gold=self.gold[is_selected_output],
            annotated=self.annotated[:, is_selected_output],
            judged=self.judged[:, is_selected_output],
            weight=self.weight[is_selected_output],
            number=self.number[is_selected_output],
            table=self.table.filter(pl.Series(is_selected_output)),
        )

    def drop_scores(self) -> LabelledOutputs:
        """Return the outputs with only the metrics that give labels."""
        return replace(
            self,
            metrics=tuple(metric for metric, is_score in zip(self.metrics, self.is_score, strict=True) if not is_score),
            judged=self.judged[~self.is_score],
            is_score=self.is_score[~self.is_score],
        )

    def binarise_labels(self, positive: str) -> LabelledOutputs:
        """Return the outputs with two labels: the positive label, and one label for all other labels.

        `positive` is a label, several labels with commas between them or, for ordered labels, a rule such as '>=4'. The
        labels of several annotators are not combined again.
        """
        is_positive_code = _positive_codes(self, positive)
        binary_gold_proportions = np.stack(
            [self.gold[:, ~is_positive_code].sum(axis=1), self.gold[:, is_positive_code].sum(axis=1)], axis=1
        )
        binary_judge_codes = self.judged.copy()
        binary_judge_codes[~self.is_score] = values_of_codes(self.judged[~self.is_score], is_positive_code)
        negative_words = [
            word for word, is_positive_word in zip(self.words, is_positive_code, strict=True) if not is_positive_word
        ]
        negative_name = negative_words[0] if len(negative_words) == 1 else f"not {positive}"
        return replace(
            self,
            words=(negative_name, positive),
            ordered=False,
            gold=binary_gold_proportions,
            judged=binary_judge_codes,
        )


def values_of_codes(label_codes: Floats, value_of_code: Bools | Floats) -> Floats:
    """Return the value of each label code (...), NaN if there is no label."""
    return np.where(np.isnan(label_codes), np.nan, value_of_code[np.nan_to_num(label_codes).astype(np.intp)])


def _positive_codes(outputs: LabelledOutputs, positive: str) -> Bools:
    label_names = outputs.words
    rule_match = re.fullmatch(r"(>=|<=|>|<)\s*(-?\d+(?:\.\d+)?)", positive.strip())
    if rule_match and outputs.ordered:
        numeric_labels, cutoff = np.array([float(label) for label in label_names]), float(rule_match[2])
        is_positive_code = {
            ">=": numeric_labels >= cutoff,
            "<=": numeric_labels <= cutoff,
            ">": numeric_labels > cutoff,
            "<": numeric_labels < cutoff,
        }[rule_match[1]]
    else:
        positive_words = label_words(pl.Series([positive, *positive.split(",")])).fill_null("").to_list()
        positive_words = positive_words[:1] if positive_words[0] in label_names else positive_words[1:]
        is_positive_code = np.isin(label_names, positive_words) & (set(positive_words) <= set(label_names))
    if not is_positive_code.any() or is_positive_code.all():
        allowed_text = f"a label ({join_labels(label_names)})" + (
            ", or a rule such as '>=4'" if outputs.ordered else ""
        )
        raise OptionError(
            f"positive={positive!r} selects {'no' if not is_positive_code.any() else 'every'} label; allowed: "
            f"{allowed_text}{suggestion(positive, label_names)}"
        )
    return np.asarray(is_positive_code)


def _combine_binary_labels(outputs: LabelledOutputs, positive: str) -> LabelledOutputs:
    """Return the outputs with two labels. The labels of each annotator become positive or not before the annotators are
    combined: for instance, the labels 4 and 5 of two annotators agree if `positive` is '>=4'."""
    binary_outputs = outputs.binarise_labels(positive)
    binary_codes = values_of_codes(outputs.annotated, _positive_codes(outputs, positive))
    gold_label_shares, human_agreement, human_alpha, notes = _gold(
        binary_codes, LabelScale(words=binary_outputs.words), outputs.consensus, outputs.aspect
    )
    return replace(
        binary_outputs,
        gold=gold_label_shares,
        human_agreement=human_agreement,
        human_alpha=human_alpha,
        notes=notes,
    )


def view_of_positive(outputs: LabelledOutputs, positive: str | None) -> LabelledOutputs:
    """Return the outputs with two labels if `positive` is given; otherwise, check that raters have common labels.

    Raises
    ------
    InputError
        If there are more than two labels without an order, and a judge has no label in common with the annotators.
    """
    if positive:
        return _combine_binary_labels(outputs, positive)
    if len(outputs.words) > 2 and not outputs.ordered:
        human_words = _words_of_codes(outputs, np.flatnonzero(np.nansum(outputs.gold, axis=0)))
        for metric, judge_codes, is_score in zip(outputs.metrics, outputs.judged, outputs.is_score, strict=True):
            judge_words = [] if is_score else _words_of_codes(outputs, np.unique(judge_codes[~np.isnan(judge_codes)]))
            if human_words and judge_words and not set(human_words) & set(judge_words):
                raise InputError(
                    f"{metric} and the annotators have no label in common (labels of {metric}: "
                    f"{join_labels(judge_words)}; of annotators: {join_labels(human_words)}); replace them by the same "
                    f"words, or give rates and gate the positive labels of both, with a comma: "
                    "positive='LABEL,LABEL'"
                )
    return outputs


def draw_within_strata(
    outputs: LabelledOutputs, strata: Ints, n_drawn_by_stratum: Ints, rng: np.random.Generator
) -> Bools:
    """Return which outputs (n,) without a human label are drawn at random, given the number to draw in each stratum.

    Outputs with a negative stratum are not drawn. The order of the rows has no effect.
    """
    is_drawn = np.zeros(len(strata), dtype=bool)
    key_rank_of_output = outputs.table.select(pl.struct(KEY).rank("ordinal")).to_series().to_numpy()
    for stratum_code, n_to_draw in enumerate(n_drawn_by_stratum):
        unlabelled_indices = np.flatnonzero((strata == stratum_code) & ~outputs.has_human_label)
        unlabelled_indices = unlabelled_indices[np.argsort(key_rank_of_output[unlabelled_indices])]
        is_drawn[rng.permutation(unlabelled_indices)[:n_to_draw]] = True
    return is_drawn


def _words_of_codes(outputs: LabelledOutputs, codes: Floats | Ints) -> list[str]:
    return [outputs.words[int(code)] for code in codes]


def is_confidence(metric: str) -> bool:
    """Return whether the name of a metric says that its scores are the confidence of a judge in its label."""
    return not CONFIDENCES.isdisjoint(split_name(metric))


def binary_outputs(outputs: LabelledOutputs, positive: str | None, *, verb: str) -> LabelledOutputs:
    """Return the outputs with two labels; raise `OptionError` if there are more labels and `positive` is None."""
    if positive is None and len(outputs.words) != 2:
        raise OptionError(
            f"{verb} needs two labels, not {len(outputs.words)}; name one of {join_labels(outputs.words)} with "
            "positive=LABEL"
        )
    return _combine_binary_labels(outputs, positive) if positive else outputs


def judge_position(outputs: LabelledOutputs, metric: str | None, *, verb: str) -> int:
    """Return the position of the metric with this name or, by default, of the only metric that gives labels."""
    label_metrics = [
        metric_name for metric_name, is_score in zip(outputs.metrics, outputs.is_score, strict=True) if not is_score
    ]
    reject(
        (
            not outputs.metrics,
            f"{verb} needs a metric that gives labels; without one, label a random part of the outputs and use rates",
        ),
        (
            not label_metrics,
            f"{verb} needs a metric that gives labels, but {join_labels(outputs.metrics)} gives scores; add a column "
            "with its labels, such as pass if the score is at least 0.5",
        ),
        error=InputError,
    )
    if metric is None and len(label_metrics) > 1:
        raise OptionError(
            f"{verb}: several metrics give labels; name one with metric=NAME: {join_labels(label_metrics)}"
        )
    if metric is not None:
        check_one_of("metric", metric, label_metrics)
    return outputs.metrics.index(metric or label_metrics[0])


def labelled_outputs(study: Study, *, consensus: Consensus, aspects: tuple[str, ...] = ()) -> list[LabelledOutputs]:
    """Return the outputs of each of these aspects (default: all) of a selected study.

    Raises
    ------
    InputError
        If no rater gave labels.
    """
    if study.ratings.frame.is_empty():
        raise InputError(f"{study.name}: the study has no labels or scores of outputs, which rates needs")
    return [_aspect_outputs(study, aspect, consensus) for aspect in aspects or study.aspects]


def _aspect_outputs(study: Study, aspect: str, consensus: Consensus) -> LabelledOutputs:
    rating_rows = select_aspect_rows(study.ratings.frame, aspect).filter(pl.col("item") != "")
    label_scale = study.labels.get(aspect)
    if label_scale is None:
        label_scale, rating_rows = _numeric_scale(study, rating_rows, aspect)
    unlabelled_rows = study.unlabelled.filter(
        pl.col("aspect") == aspect, pl.col("system").is_in(rating_rows["system"].unique().implode())
    )
    output_table = pl.concat([rating_rows.select(KEY), unlabelled_rows.select(KEY)]).unique(maintain_order=True)
    if study.attributes is not None:  # these are in the order of the input, but ratings are in the order of raters
        output_table = pl.concat(
            [study.attributes.select(KEY).join(output_table, on=KEY, how="semi", maintain_order="left"), output_table]
        ).unique(maintain_order=True)
    output_of_row = (
        rating_rows.select(KEY)
        .join(output_table.with_row_index("row"), on=KEY, how="left", maintain_order="left")["row"]
        .to_numpy()
        .astype(np.intp)
    )
    codes_or_scores_of_rater = {
        rater: _aggregate_repeats(
            rating_rows["score"].to_numpy()[is_of_rater],
            output_of_row[is_of_rater],
            len(output_table),
            rater in label_scale.scores,
        )
        for rater in study.raters.kind
        for is_of_rater in [(rating_rows["rater"] == rater).to_numpy()]
    }
    annotator_names, metric_names = (
        [rater for rater in rater_names if not np.isnan(codes_or_scores_of_rater[rater]).all()]
        for rater_names in (study.humans, study.metrics)
    )
    annotator_codes, metric_codes = (
        np.array([codes_or_scores_of_rater[rater] for rater in rater_names]).reshape(
            len(rater_names), output_table.height
        )
        for rater_names in (annotator_names, metric_names)
    )
    item_table = study.items.item_rows(output_table["item"])
    cluster_expression = pl.when(pl.col("cluster") == "").then("item " + pl.col("item")).otherwise("cluster")
    cluster_codes: Ints = item_table.select(cluster_expression).to_series().rank("dense").to_numpy().astype(np.intp) - 1
    inclusion_probabilities, cluster_multiplicities = (
        item_table[column_name].fill_null(1.0).to_numpy() for column_name in ("probability", "n_outputs")
    )
    if study.items.has_equal_outputs:
        source_row_indices, cluster_codes, cluster_multiplicities = _split_labelled_clusters(
            cluster_codes, cluster_multiplicities, ~np.isnan(annotator_codes).all(axis=0)
        )
        annotator_codes, metric_codes, inclusion_probabilities, output_table = (
            annotator_codes[:, source_row_indices],
            metric_codes[:, source_row_indices],
            inclusion_probabilities[source_row_indices],
            output_table[source_row_indices],
        )
    gold_label_shares, human_agreement, human_alpha, notes = _gold(annotator_codes, label_scale, consensus, aspect)
    system_names = output_table["system"].unique().sort()
    return LabelledOutputs(
        aspect=aspect,
        words=label_scale.words,
        ordered=label_scale.ordered,
        systems=tuple(system_names),
        metrics=tuple(metric_names),
        annotators=tuple(annotator_names),
        system=output_table["system"].cast(pl.Enum(system_names)).to_physical().to_numpy().astype(np.intp),
        unit=cluster_codes,
        gold=gold_label_shares,
        annotated=annotator_codes,
        judged=metric_codes,
        is_score=np.array([rater in label_scale.scores for rater in metric_names], dtype=bool),
        weight=1 / inclusion_probabilities,
        number=cluster_multiplicities,
        table=output_table,
        human_agreement=human_agreement,
        human_alpha=human_alpha,
        consensus=consensus,
        notes=notes,
    )


def _split_labelled_clusters(
    cluster_codes: Ints, cluster_multiplicities: Floats, has_human_label: Bools
) -> tuple[Ints, Ints, Floats]:
    """Repeat the rows of clusters with a human label, so that no such cluster represents several equal clusters.

    A cluster without a human label is not repeated and keeps its number of equal clusters. Returns for each new row:
    the position of the original row, the cluster, and the number of equal clusters.

    >>> _split_labelled_clusters(np.array([0, 1]), np.array([2.0, 5.0]), np.array([True, False]))
    (array([0, 0, 1]), array([0, 1, 2]), array([1., 1., 5.]))
    """
    is_labelled_cluster = np.bincount(cluster_codes, weights=has_human_label)[cluster_codes] > 0
    n_copies_of_row = np.where(is_labelled_cluster, cluster_multiplicities, 1).astype(np.intp)
    source_row_indices = np.repeat(np.arange(len(cluster_codes)), n_copies_of_row)
    copy_indices = np.arange(len(source_row_indices)) - np.repeat(
        np.cumsum(n_copies_of_row) - n_copies_of_row, n_copies_of_row
    )
    _, split_cluster_codes = np.unique(
        np.stack([cluster_codes[source_row_indices], copy_indices]), axis=1, return_inverse=True
    )
    return (
        source_row_indices,
        split_cluster_codes.ravel(),
        np.where(is_labelled_cluster, 1.0, cluster_multiplicities)[source_row_indices],
    )


def _aggregate_repeats(codes_or_scores: Floats, output_of_value: Ints, n_outputs: int, is_score: bool) -> Floats:
    """Return the code or score of each output; repeats give the mean score or the most frequent label (NaN if tied).

    >>> _aggregate_repeats(np.array([1.0, 0, 0, 1, 0]), np.array([0, 0, 0, 2, 2]), 3, False)
    array([ 0., nan, nan])
    """
    n_values_of_output = np.bincount(output_of_value, minlength=n_outputs)
    if is_score or n_values_of_output.max(initial=0) <= 1:
        return ratio(np.bincount(output_of_value, weights=codes_or_scores, minlength=n_outputs), n_values_of_output)
    vote_counts = np.zeros((n_outputs, int(codes_or_scores.max()) + 1))
    np.add.at(vote_counts, (output_of_value, codes_or_scores.astype(np.intp)), 1)
    majority_codes = majority_label(vote_counts)
    return np.where((n_values_of_output > 0) & (majority_codes != UNKNOWN), majority_codes, np.nan)


def _numeric_scale(study: Study, rating_rows: pl.DataFrame, aspect: str) -> tuple[LabelScale, pl.DataFrame]:
    """Return the scale of numeric ratings, which must have few distinct whole numbers, and the rows with codes."""
    scale_raters = study.humans or study.metrics
    distinct_scores = rating_rows.filter(pl.col("rater").is_in(list(scale_raters)))["score"].unique().sort()
    if (
        not distinct_scores.len()
        or (distinct_scores != distinct_scores.round()).any()
        or distinct_scores.len() > MOST_STEPS
    ):
        study_and_aspect_text = f"{study.name}{f' ({aspect})' if aspect else ''}"
        raise InputError(
            f"{study_and_aspect_text}: ratings are scores with {distinct_scores.len()} different values, but rates "
            f"needs labels, or at most {MOST_STEPS} different whole numbers; replace the scores by labels, such as "
            "pass if the score is at least 0.5, or use leaderboard or agreement"
        )
    scale_steps = [0, 1] if set(distinct_scores) <= {0, 1} else [int(score) for score in distinct_scores]
    code_of_step = {float(step): float(code) for code, step in enumerate(scale_steps)}
    raters_with_other_scores = set(rating_rows.filter(~pl.col("score").is_in([*code_of_step]))["rater"])
    code_expression = pl.col("score").replace_strict(code_of_step, default=None)
    rating_rows = rating_rows.with_columns(
        score=pl.when(pl.col("rater").is_in(list(raters_with_other_scores))).then("score").otherwise(code_expression)
    )
    return LabelScale(
        words=tuple(map(str, scale_steps)), ordered=len(scale_steps) > 2, scores=frozenset(raters_with_other_scores)
    ), rating_rows


def _gold(
    annotator_codes: Floats, scale: LabelScale, consensus: Consensus, aspect: str
) -> tuple[Floats, float, float, list[Note]]:
    """Return human labels (n, labels) as proportions, computed from codes (annotators, n).

    Also returns the agreement of annotators, the alpha of annotators, and a note on outputs without a majority.
    """
    n_outputs, n_distinct_labels = annotator_codes.shape[1], len(scale.words)
    annotator_indices, output_indices = np.nonzero(~np.isnan(annotator_codes))
    if not len(output_indices):
        return np.full((n_outputs, n_distinct_labels), np.nan), np.nan, np.nan, []
    annotator_labels = AnnotatorLabels.from_labels(
        output_indices,
        annotator_indices,
        annotator_codes[annotator_indices, output_indices].astype(np.int64),
        n_tasks=n_outputs,
        n_workers=len(annotator_codes),
        n_labels=n_distinct_labels,
    )
    label_shares, n_multiply_labelled = vote_shares(annotator_labels), int((annotator_labels.n_votes > 1).sum())
    if not n_multiply_labelled:
        return label_shares, np.nan, np.nan, []
    coincidence_matrix = coincidences(annotator_labels, units=np.zeros(n_outputs, dtype=np.intp), n_units=1)[0]
    agreement = float(ratio(np.trace(coincidence_matrix), coincidence_matrix.sum()))
    krippendorff_alpha = float(alpha(coincidence_matrix, scale="ordinal" if scale.ordered else "nominal"))
    if consensus == "kept":
        return label_shares, agreement, krippendorff_alpha, []
    votes_or_posterior = (
        dawid_skene(annotator_labels, iterations=DAWID_SKENE_ITERATIONS)
        if consensus == "dawid-skene"
        else annotator_labels.votes
    )
    is_most_voted = votes_or_posterior >= votes_or_posterior.max(axis=1, keepdims=True) - ROUNDING
    consensus_label_shares = np.where(
        annotator_labels.n_votes[:, np.newaxis] > 0, is_most_voted / is_most_voted.sum(axis=1, keepdims=True), np.nan
    )
    n_undecided = int(((is_most_voted.sum(axis=1) > 1) & (annotator_labels.n_votes > 0)).sum())
    undecided_message = (
        f"{n_undecided} outputs have no majority among annotators; each of the labels with the most votes counts as an "
        "equal part of a human label"
    )
    notes = build_notes(("annotators-undecided", n_undecided, undecided_message), aspect=aspect)
    return consensus_label_shares, agreement, krippendorff_alpha, notes


def has_known_positive(labels: tuple[str, ...]) -> bool:
    """Return whether both labels are known words, so that it is known which label is positive."""
    return len(labels) == 2 and set(labels) <= POLARITY.keys()
