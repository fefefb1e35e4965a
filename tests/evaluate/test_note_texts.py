"""Whole texts of notes and of refusals: small studies, each with several shortcomings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.data.study import Study
from custodes.errors import CustodesError
from custodes.evaluate.rater_comparison import compare
from custodes.evaluate.rater_scores import rater_scores
from tests.evaluate.judged_studies import drawn, judged
from tests.evaluate.studies import GOLDEN, counts_of, grid, rated, scores_of, study_of, verdicts
from tests.messages import exactly

KINDS = {"ann": "human", "m1": "metric", "m2": "metric"}
COUNTS, TWO_METRICS = counts_of([GOLDEN[4][0]]), counts_of([GOLDEN[4][0]] * 2)
PEOPLE = {("ann", "style"): drawn(1, 6, 3), ("bob", "style"): drawn(2, 6, 3)}
METRICS = {("bleu", ""): drawn(4, 6, 3), ("m2", ""): drawn(5, 6, 3)}
SINGLE = (("ann", "style"), *METRICS)
ONE_CLUSTER = pl.DataFrame({"item": [f"i{k}" for k in range(4)], "cluster": "c"})
HALVES = pl.DataFrame({"item": [f"i{k}" for k in range(30)], "group": ["a", "b"] * 15})
OF_60_GROUPS = pl.DataFrame({"item": [f"i{k}" for k in range(60)], "group": [f"g{k}" for k in range(60)]})
NO_CLUSTERS = (
    "counts do not record which items share a document, so items are treated as independent. If items share documents, "
    "p-values are too small and intervals too narrow; give the study with its clusters instead"
)


def awkward() -> Study:
    """Return ratings of tone with unequal probabilities, a metric without common items and a system without people."""
    strangers = [("i9", "S0", "m2", "tone", 1.0), ("i9", "S1", "m2", "tone", 2.0), ("i0", "S2", "m1", "tone", 2.0)]
    rows = [*grid("ann", "tone", [[1, 2], [2, 1], [1, 3]]), *grid("m1", "tone", [[1, 2], [2, 1], [3, 3]]), *strangers]
    items = {"item": ["i0", "i1", "i2", "i9"], "weight": [2.0, 1, 1, 1], "probability": [0.5, 0.2, 0.5, 0.5]}
    return rated(rows, KINDS).describe(items=pl.DataFrame(items))


def with_system_score() -> Study:
    """Return ratings of three systems: a system score by m1, no scores by m2 on an item, a human tie on an item."""
    by_human = grid("ann", "tone", [[1, 2, 3], [1, 1, 1], [2, 1, 2]])
    by_metrics = [*grid("m1", "tone", [[1, 2, 3], [3, 1, 3], [2, 1, 3]]), *grid("m2", "tone", [[1, 2, 3], [2, 1, 3]])]
    return rated([*by_human, *by_metrics, ("", "S0", "m1", "tone", 2.0)], KINDS)


def in_clusters(study: Study, clusters: str) -> Study:
    """Return the study with the clusters of its items in order, and with unequal weights."""
    items = sorted(study.item_labels())
    weights = [2.0, *[1.0] * (len(items) - 1)]
    return study.describe(items=pl.DataFrame({"item": items, "cluster": list(clusters), "weight": weights}))


NOTES: dict[str, tuple[Callable[[], Any], dict[str, str]]] = {
    "comparison": (
        lambda: compare(awkward())[0],
        {
            "no-overlap": "annotators share no pair of outputs with m2 for aspect 'tone', so statistics are undefined",
            "systems-without-annotators": "annotators compared no output of S2 for aspect 'tone', so nothing can be "
            "estimated for these systems",
            "item-weights": "item weights apply to statistics of agreement; counts of wins, ties and losses "
            "(favoritism, ranking, correction, protocol) count every item once",
            "unequal-selection": "items were selected for human ratings with different probabilities for aspect "
            "'tone'; only leaderboard and rates adjust for these probabilities, so this result describes the items "
            "with human ratings "
            "and not all items",
            "items-without-annotators": "1 of 4 items have no human comparison of two outputs for aspect 'tone'",
        },
    ),
    "one item with a tie": (
        lambda: compare(rated([*grid("ann", "tone", [[1, 1]]), *grid("m1", "tone", [[1, 2]])], KINDS))[0],
        {
            "all-ties": "human ratings tie on every pair for aspect 'tone', so correlations and decisions are "
            "undefined",
            "one-item": "there are no intervals for aspect 'tone', because there is only one item or cluster to "
            "resample",
        },
    ),
    "human verdicts": (
        lambda: compare(verdicts([(item, "A", "B", rater, "", 1) for item in "xy" for rater in "hj"]))[0],
        {
            "verdicts-only": "human ratings are verdicts, not scores, so correlations, pairwise accuracy, acc_eq and "
            "spa are undefined",
        },
    ),
    "agreement on three items": (
        lambda: cu.agreement(with_system_score(), resamples=20),
        {
            "coverage-differs": "metrics rated different outputs for aspect 'tone': each pair of metrics is compared "
            "on the outputs that both metrics rated",
            "few-clusters": "there are only 3 clusters of items for aspect 'tone', so there are no intervals, because "
            "their coverage would be too low",
            "system-scores-given": "system scores for aspect 'tone' are the system-level scores of the file if "
            "present, otherwise means over items",
            # Two metrics rated the item with constant human ratings.
            "undefined-item-correlations": "2 item correlations for aspect 'tone' are excluded from the means, because "
            "human ratings or metric scores are constant on the item",
        },
    ),
    "agreement on one system": (
        lambda: cu.agreement(rated([*grid("ann", "t", [[1], [2]]), *grid("m1", "t", [[1], [2]])], KINDS), resamples=0),
        {"one-system": "there is only one system for aspect 't', so only statistics over all outputs are defined"},
    ),
    "favoritism of counts": (
        lambda: cu.favoritism(COUNTS, resamples=0),
        {
            "counts-without-clusters": NO_CLUSTERS,
            "partiality-counts": "counts do not record which comparisons share an item, so partiality cannot be "
            "tested; give the study",
        },
    ),
    "correction of counts": (
        lambda: cu.correction(replace(TWO_METRICS, paired=TWO_METRICS.paired * np.array([1, 0])[:, None, None])),
        {
            "counts-without-clusters": NO_CLUSTERS,
            "no-overlap": "annotators rated no item that m1 rated, so correction is not possible",
        },
    ),
    "leaderboard of counts": (
        lambda: cu.leaderboard(replace(COUNTS, metric_only=np.ones_like(COUNTS.metric_only)), resamples=20),
        {
            "counts-share-items": "human, m0: counts do not record which comparisons share an item, so there are no "
            "intervals and no tests; for intervals and tests, give the study instead of counts",
            "counts-not-corrected": "m0: counts do not record which comparisons annotators and a metric share, so "
            "human ratings are not corrected by metrics; for the correction, give the study instead of counts",
        },
    ),
    "ranking of one cluster": (
        lambda: cu.ranking(study_of(scores_of(0, items=4, systems=3)).describe(items=ONE_CLUSTER), resamples=0),
        {
            "one-item": "there are no intervals, because there is only one item or cluster to resample",
            "one-cluster": "3 pairs of systems have ratings in only one cluster, so the variance cannot be estimated",
        },
    ),
    "distances of metrics": (
        lambda: cu.complementarity(judged(METRICS), resamples=0),
        {"no-annotators": "there are no human ratings, so metrics are compared only with one another"},
    ),
    "distances of a metric of items": (
        lambda: cu.complementarity(judged(PEOPLE | METRICS | {("flat", ""): np.tile(np.arange(6.0), (3, 1)).T})),
        {
            "constant-rater": "flat: excluded, because the rater rates all systems of every item equally (scores "
            "differ only between items)",
            "no-pairs": "there are no two raters to compare for human-human; human_raters='annotators' compares the "
            "annotators one by one",
            "few-clusters": "there are only 6 clusters of items, so intervals are unreliable; in simulations with so "
            "few clusters, coverage was below 85 %",
        },
    ),
    "distances in one cluster": (
        lambda: cu.complementarity(in_clusters(judged(PEOPLE | METRICS), "a" * 6), level="utterance", resamples=0),
        {
            "no-pairs": "there are no two raters to compare for human-human; human_raters='annotators' compares the "
            "annotators one by one",
            "one-item": "there are no intervals, because there is only one item or cluster to resample",
            "weights-unused": "item weights affect the components, but not utterance-level distances",
        },
    ),
    "prediction of two clusters": (
        lambda: cu.ceiling(in_clusters(judged(PEOPLE | METRICS), "aaabbb"), resamples=20, steps=1),
        {
            "few-clusters": "there are only 2 clusters of items, so intervals are unreliable; in simulations with so "
            "few clusters, coverage was below 85 %",
            "one-aspect": "annotators rated only one aspect, so the features `humans` and `both` and the table "
            "`information` are left out",
            "two-clusters": "annotators rated only two items or clusters; the forward path needs at least three, so it "
            "has no values",
            "weights-unused": "item weights do not affect predictions",
        },
    ),
    "prediction of seven systems": (
        lambda: cu.ceiling(judged({key: drawn(k, 6, 7) for k, key in enumerate(SINGLE)}), level="system", resamples=20),
        {
            "few-systems": "7 systems: intervals are unreliable",
            "one-aspect": "annotators rated only one aspect, so the features `humans` and `both` and the table "
            "`information` are left out",
            "one-annotator": "only one annotator gave ratings, so agreement between annotators is unknown (no rows in "
            "the tables annotators and halo)",
        },
    ),
    "consistency of scores in slices": (
        lambda: cu.consistency(study_of(scores_of(0)).describe(items=HALVES), by="group", resamples=0),
        {
            "slices-not-compared": "slices are not compared: no rater has verdicts in both orders, repeated verdicts "
            "or labels, or failures",
            "no-texts": "there are no texts of outputs, so length bias cannot be tested; add a file of outputs",
        },
    ),
}


@pytest.mark.parametrize("case", NOTES)
def test_notes(case: str) -> None:
    make_answer, texts = NOTES[case]
    assert {note.rule: note.message for note in make_answer().notes} == texts


REFUSALS: dict[str, tuple[Callable[[], Any], str]] = {
    "no pair": (
        lambda: compare(rated([("i", "A", "ann", "t", 1.0), ("i", "B", "m1", "t", 1.0)], KINDS)),
        "no item has human ratings of two systems for aspect 't', so no preference can be derived; give ratings of two "
        "systems per item, or use rates, which compares whole-number scores on different items",
    ),
    "nothing in common": (
        lambda: compare(
            rated([*grid("ann", "t", [[1, 2]]), ("j", "S0", "m1", "t", 1), ("j", "S1", "m1", "t", 1)], KINDS)
        ),
        "annotators and metrics have no pair of outputs and no scores of systems in common for aspect 't' (annotators "
        "ann; metrics m1); use the same item and system labels in both files",
    ),
    "one system": (
        lambda: compare(study_of(scores_of(0, systems=1))),
        "study: only 1 system (S0); systems cannot be compared; with metrics, use agreement, which compares outputs; "
        "for rates of labels or of whole-number scores, use rates, which needs only one system",
    ),
    "slices of counts": (
        lambda: cu.favoritism(COUNTS, by="group"),
        "by: counts do not record items, so they have no slices; give the study instead",
    ),
    "many slices": (
        lambda: cu.agreement(study_of(scores_of(0, items=60)).describe(items=OF_60_GROUPS), by="group", resamples=0),
        "by='group': the column has 60 different values, but at most 50 slices are allowed; give a column with fewer "
        "values",
    ),
    "no columns": (
        lambda: cu.agreement(study_of(scores_of(0)), by="topic", resamples=0),
        "by='topic': no such column; columns: none; if the file has this column, read the file with "
        "--column group=topic and set by='group'",
    ),
    "variants": (
        lambda: rater_scores(judged(PEOPLE | METRICS), variants="*"),
        "variants='*': the pattern without '*' must be a name that no other rater has, and a metric can match only one "
        "pattern; give patterns such as 'rouge*,bleu*'",
    ),
    "nothing to examine": (
        lambda: cu.consistency(study_of(scores_of(0, items=1, systems=1))),
        "study: there is nothing to compare, because the study has no verdicts, no item with scores of two outputs, "
        "and no output that a rater labelled several times; give verdicts, scores or repeated labels (judge --repeats "
        "3)",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals(case: str) -> None:
    make_answer, message = REFUSALS[case]
    with pytest.raises(CustodesError, match=exactly(message)):
        make_answer()
