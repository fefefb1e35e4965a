"""Similarity of the rankings of metrics and annotators: are many metrics redundant?"""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np
import polars as pl
from numpy.typing import NDArray

from custodes.answers.question import Rng, question
from custodes.answers.result import Result, result
from custodes.answers.shared_arguments import Selection
from custodes.answers.tables import Column, count, label, score, share, table, with_interval
from custodes.data.notes import Note, build_notes
from custodes.data.patterns import Patterns
from custodes.data.study import Study
from custodes.errors import InputError, join_labels
from custodes.evaluate.complementarity.distances import (
    KINDS,
    Distances,
    Level,
    Rankings,
    defined_sums,
)
from custodes.evaluate.complementarity.rater_space import rater_columns, space_columns
from custodes.evaluate.parallel import limit_blas_threads
from custodes.evaluate.rater_scores import METRIC, HumanRaters, few_clusters_notes, rater_scores
from custodes.progress import Progress, silent
from custodes.stats import intervals, rank_distance
from custodes.stats.arrays import Floats
from custodes.stats.ratios import ratio

MANY, CLOSEST = 30, 15
"""With more than `MANY` raters, a table displays the `CLOSEST` metrics whose rankings are closest to human rankings."""

GAPS = {
    "kinds_a": ["human-metric", "human-metric", "metric-metric"],
    "kinds_b": ["metric-metric", "human-human", "human-human"],
}


def _closest_rows(answer: Complementarity) -> pl.DataFrame:
    """Return the rows of the human raters and of the metrics whose rankings are closest to human rankings."""
    if answer.raters.height <= MANY:
        return answer.raters
    return answer.raters.filter(
        (pl.col("kind") != METRIC)
        | pl.col("rater").is_in(
            answer.raters.filter(kind=METRIC)
            .sort("with_humans", nulls_last=True, maintain_order=True)["rater"]
            .head(CLOSEST)
            .to_list()
        )
    )


def _rater_identity_columns(suffix: str = "") -> tuple[Column, Column]:
    """Return the declarations of the columns that identify a rater (see `rater_columns`)."""
    return (
        label(f"rater{suffix}", "a rater: a metric, or an aspect of the annotators", f"Rater {suffix[1:]}".strip()),
        label(f"kind{suffix}", "`human` or `metric`"),
    )


@result
class Complementarity(Result):
    """Distances between the rankings of annotators and metrics. See `complementarity`."""

    BY, PICTURE = "", "complementarity_averages"

    pairs: pl.DataFrame = table(
        "One row per pair of raters: the complementarity of the two raters.",
        *_rater_identity_columns("_a"),
        *_rater_identity_columns("_b"),
        score(
            "complementarity",
            "mean distance between the rankings of the two raters: 0 for the same order, 1 for the opposite order; "
            "null if no distance is defined",
            interval=True,
        ),
        count(
            "n",
            "number of rankings with a defined distance: items, or systems at the utterance level",
            "n",
        ),
        essential=False,
    )
    averages: pl.DataFrame = table(
        "Mean complementarity within annotators, within metrics, and between annotators and metrics.",
        label("kinds", "`human-human`, `human-metric` or `metric-metric`"),
        score("complementarity", "mean distance over pairs of raters", interval=True),
        score(
            "mean_with_diagonal",
            "mean over the cells of this part of the distance matrix, including the zeros of the diagonal, as in "
            "section 3 of the paper (finding 1). Because of the zeros, this mean depends on the number of raters",
            essential=False,
        ),
        count("pairs", "pairs of raters with a defined distance"),
    )
    gaps: pl.DataFrame = table(
        "Differences between averages, with intervals.",
        label("kinds_a", "a row of `averages`"),
        label("kinds_b", "another row of `averages`"),
        score("difference", "average of kinds_a minus average of kinds_b, from the same resamples", interval=True),
    )
    raters: pl.DataFrame = table(
        "One row per rater: mean complementarity with annotators and with metrics.",
        *_rater_identity_columns(),
        score("with_humans", "mean complementarity with other human raters", "With human raters", interval=True),
        score("with_metrics", "mean complementarity with other metrics", interval=True),
        rows=_closest_rows,
    )
    rules: pl.DataFrame = table(
        "The averages of the table `averages` under every tie rule. The table shows how much the averages depend on "
        "the rule.",
        label("distance", "a tie rule: `tau-b`, `strict`, `half`", "Ties"),
        label("kinds", "as in `averages`"),
        score("complementarity", "the average under this rule"),
        essential=False,
    )
    components: pl.DataFrame = table(
        "Principal components of the raters' ranks.",
        count("component", "number of the component, from 1"),
        share("explained_variance", "proportion of the variance"),
        share("cumulative", "cumulative proportion of the variance"),
        share(
            "null_cumulative",
            "cumulative proportion of the variance if the ranks of each rater are shuffled, mean of 200 shuffles",
        ),
        essential=False,
    )
    coordinates: pl.DataFrame = table(
        "Coordinates of each rater on the first two principal components, and communities of similar raters. The table "
        "is empty with fewer than four raters.",
        *_rater_identity_columns(),
        score("x", "first coordinate, in units of sums of ranks; null if the components exclude the rater"),
        score("y", "second coordinate"),
        count(
            "cluster",
            "number of the community of the rater, from 1: a group of raters with similar rankings. An undefined "
            "distance is replaced by the average; null if the rater ranked nothing in common with other raters",
        ),
        count(
            "rank_sum_cluster",
            "group of raters with correlated sums of ranks (Louvain communities, appendix B.2 of the paper); null if "
            "the rater is not part of the table `components`",
        ),
        essential=False,
    )
    left_out: pl.DataFrame = table(
        "Raters that are excluded, and why.",
        label("rater", "a selected rater that is excluded from all tables, or from components", "Left out"),
        label("reason", "why the rater is excluded", "Why"),
    )


@question(
    "custodes complementarity ratings.csv --raters raters.csv --distance half",
    level="system ranks the systems within each item; utterance ranks the items within each system.",
    distance="Distance between two rankings; the rules differ in how ties count.",
    human_raters="Human raters: one per aspect, or each annotator.",
    variants="Metrics to average, as a comma list of globs; the metrics that match one glob become one metric.",
)
def complementarity(
    study: Study,
    *,
    level: Level = "system",
    distance: rank_distance.Rule = "tau-b",
    human_raters: HumanRaters = "aspects",
    variants: Patterns = None,
    confidence: float = 0.95,
    resamples: int = 1000,
    rng: Rng = 0,
    progress: Progress = silent,
    **selection: Unpack[Selection],
) -> Complementarity:
    """Distance between the rankings of every two raters (metrics or annotators): 0 for equal, 1 for opposite rankings.

    Notes
    -----
    `level` 'system' ranks the systems within each item and averages over items (Equation 3 of the paper);
    'utterance' ranks the items within each system and averages over systems. `distance` sets how ties count: 'tau-b'
    is (1 - tau_b) / 2, 'strict' is the proportion of opposite pairs, and 'half' counts a tie as half an opposite pair.
    With `human_raters` 'aspects', each aspect is a rater (mean over annotators); with 'annotators', each annotator is a
    rater. Metrics declared as lower is better are negated. `variants` replaces the metrics that match a glob by the
    mean of their standardised scores. The name of the mean is the glob without `*` ('rouge-*' becomes 'rouge').

    Intervals are Student's t intervals over resampled clusters of items. At the utterance level, the values in
    resamples are first-order approximations from the influence of each item. A constant rater has no ranking: the
    values of the rater are null, averages exclude the rater, and `left_out` names the rater.

    References
    ----------
    Colombo et al. 2023 (glass ceiling), Equations 1 to 4, Appendix B.

    Examples
    --------
    >>> import custodes as cu
    >>> result = cu.complementarity(cu.read("demo"), resamples=0)
    >>> result.averages["kinds"].to_list()
    ['human-human', 'human-metric', 'metric-metric']
    """
    rankings = Rankings.from_rater_scores(
        rater_scores(study, human_raters=human_raters, one_side=True, variants=variants, **selection), level
    )
    raters, rng = rankings.rater_scores, np.random.default_rng(rng)
    distances = Distances.from_rankings(
        rankings, distance, raters.design.draw_weights(resamples, rng), confidence, progress
    )
    is_defined_pair = np.isfinite(distances.columns["complementarity"])
    if not is_defined_pair.any():
        raise InputError(
            f"{study.name}: no two raters rank the same two outputs; select raters whose scores vary on common outputs"
        )
    with limit_blas_threads():
        # A separate generator: estimates do not depend on the number of resamples.
        columns_of_space_tables, raters_left_out_of_space, space_notes = space_columns(
            rankings, distances.columns["complementarity"], rng.spawn(1)[0]
        )
    first_kind_indices, second_kind_indices = (
        [KINDS.index(rater_pair_kind) for rater_pair_kind in compared_pair_kinds]
        for compared_pair_kinds in GAPS.values()
    )
    table_of_name = Complementarity.part(
        "",
        pairs=rater_columns(raters, rankings.pairs[0], "_a")
        | rater_columns(raters, rankings.pairs[1], "_b")
        | distances.columns,
        averages={
            "kinds": KINDS,
            **with_interval(
                "complementarity",
                distances.kinds,
                confidence,
                clusters=distances.kind_clusters,
                bounds=intervals.SHARE,
            ),
            "mean_with_diagonal": _means_with_diagonal(rankings, distances.kinds[0], is_defined_pair),
            "pairs": np.bincount(rankings.kind[is_defined_pair], minlength=len(KINDS)),
        },
        gaps={
            **GAPS,
            **with_interval(
                "difference",
                distances.kinds[:, first_kind_indices] - distances.kinds[:, second_kind_indices],
                confidence,
                clusters=np.minimum(
                    distances.kind_clusters[first_kind_indices], distances.kind_clusters[second_kind_indices]
                ),
                bounds=intervals.ANY,
            ),
        }
        if len(raters.select_kind("human"))
        else {},
        raters={
            **rater_columns(raters, range(len(raters.names))),
            **{
                column_name: column_values
                for average_index, average_name in enumerate(("with_humans", "with_metrics"))
                for column_name, column_values in with_interval(
                    average_name,
                    distances.raters[:, :, average_index],
                    confidence,
                    clusters=distances.rater_clusters[:, average_index],
                    bounds=intervals.SHARE,
                ).items()
            },
        },
        rules=_rule_columns(rankings),
        left_out=raters.left_out_rows(raters_left_out_of_space),
        **columns_of_space_tables,
    )
    return Complementarity.from_parts(
        [table_of_name],
        [
            *raters.notes,
            *_notes(rankings, table_of_name, distance, human_raters),
            *few_clusters_notes(raters.design.n_units, resamples),
            *space_notes,
        ],
    )


def _means_with_diagonal(
    rankings: Rankings, mean_distance_of_kind: Floats, is_defined_pair: NDArray[np.bool_]
) -> Floats:
    """Means of the blocks of the distance matrix, including the zero distances on the diagonal: (kinds,)."""
    n_pairs_of_kind = np.bincount(rankings.kind[is_defined_pair], minlength=len(KINDS))
    n_diagonal_cells_of_kind = [
        0
        if rater_pair_kind == "human-metric"
        else len(np.unique(rankings.pairs[:, is_defined_pair & (rankings.kind == rater_pair_kind_index)]))
        for rater_pair_kind_index, rater_pair_kind in enumerate(KINDS)
    ]
    return mean_distance_of_kind * ratio(2 * n_pairs_of_kind, 2 * n_pairs_of_kind + n_diagonal_cells_of_kind)


def _rule_columns(rankings: Rankings) -> dict[str, Any]:
    distance_rules = rank_distance.RULES
    sums_and_counts_of_kind = np.zeros((2, len(distance_rules), len(KINDS)))
    for pair_slice in rankings.blocks(1):
        sums_and_counts_of_kind += defined_sums(
            np.concatenate(
                [
                    rankings.mean(distances, np.ones((1, rankings.rater_scores.design.n_units)))
                    for distances in rank_distance.rank_distances(
                        rankings.values, *rankings.pairs[:, pair_slice], rules=distance_rules
                    )
                ]
            ),
            [rankings.kind[pair_slice]],
            len(KINDS),
        )
    return {
        "distance": [distance_rule for distance_rule in distance_rules for _ in KINDS],
        "kinds": KINDS * len(distance_rules),
        "complementarity": ratio(*sums_and_counts_of_kind),
    }


def _notes(
    rankings: Rankings, table_of_name: dict[str, pl.DataFrame], distance_rule: str, human_raters: HumanRaters
) -> list[Note]:
    """Return notes on values that are missing or uncertain, and on averages that mix two kinds of agreement."""
    raters, n_rankings = rankings.rater_scores, rankings.values.shape[1]
    human_positions = raters.select_kind("human")
    n_undefined_distances = int(
        (n_rankings - table_of_name["pairs"]["n"].to_numpy()[raters.varies[rankings.pairs].all(axis=0)]).sum()
    )
    empty_kinds = table_of_name["averages"].filter(pl.col("complementarity").is_null())["kinds"].to_list()
    hint_text = (
        "; human_raters='annotators' compares the annotators one by one"
        if (np.isfinite(raters.annotators).any(axis=(2, 3)).sum() > len(human_positions)) and KINDS[0] in empty_kinds
        else ""
    )
    has_no_humans = not len(human_positions)
    opposite_metric_names = table_of_name["raters"].filter(pl.col("kind") == METRIC, pl.col("with_humans_low") > 0.5)[
        "rater"
    ]
    return build_notes(
        (
            "undefined-distances",
            n_undefined_distances,
            f"the means exclude {n_undefined_distances} undefined distances between two rankings ({distance_rule}). "
            f"On the {rankings.unit}, one of the two raters gave equal scores, or the raters rated fewer than two "
            "common outputs",
        ),
        ("no-annotators", has_no_humans, "there are no human ratings, so metrics are compared only with one another"),
        (
            "no-pairs",
            bool(empty_kinds) and not has_no_humans,
            f"there are no two raters to compare for {', '.join(empty_kinds)}{hint_text}",
        ),
        (
            "negative-agreement",
            len(opposite_metric_names),
            f"{join_labels(opposite_metric_names)} gave rankings opposite to those of the annotators. If lower "
            "scores are "
            "better, declare it in the raters file (higher_is_better = false); without the declaration, the distances "
            "of these metrics mislead",
        ),
        (
            "one-item",
            1 if raters.design.n_units < 2 else 0,
            "there are no intervals, because there is only one item or cluster to resample",
        ),
        (
            "weights-unused",
            rankings.level == "utterance" and raters.design.has_item_weights,
            "item weights affect the components, but not utterance-level distances",
        ),
        (
            "mixed-human-pairs",
            human_raters == "annotators"
            and all(
                len({names_of_raters[human_position] for human_position in human_positions}) > 1
                for names_of_raters in (raters.raters, raters.rater_aspects)
            ),
            "the average human-human mixes pairs of annotators on one aspect, pairs of aspects of one annotator, and "
            "pairs that differ in annotator and aspect; to see the agreement between annotators, select one aspect",
        ),
    )
