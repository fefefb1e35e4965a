"""Win rates of systems from metric ratings, corrected with a small number of human annotations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

import numpy as np
import polars as pl
from numpy.typing import NDArray

from custodes.answers.question import Rng, question
from custodes.answers.result import Result, result
from custodes.answers.shared_arguments import PreferenceOptions
from custodes.answers.tables import AT_THRESHOLD, View, count, difference, flag, label, probability, score, share, table
from custodes.answers.views import number, split_by_aspect, title_with_aspect
from custodes.answers.wording import column_digits, estimate_text
from custodes.arguments import check_one_of, value_list
from custodes.data.notes import Note, build_notes
from custodes.data.outcome_counts import OutcomeCounts
from custodes.data.study import Study
from custodes.errors import InputError, OptionError, join_labels
from custodes.evaluate.clusters import (
    AspectCounts,
    cluster_notes,
    counts_by_aspect,
    has_clusters,
    margin_effects,
    table_effects,
)
from custodes.evaluate.comparable import label_of
from custodes.evaluate.decision_graph import PAIR, cycle_notes, format_decisions, ranking_edges
from custodes.evaluate.parallel import merge_parts
from custodes.progress import Progress, silent
from custodes.stats.clusters import DesignEffect
from custodes.stats.correction.dirichlet import HUMAN, NAIVE
from custodes.stats.correction.estimator import Counts, Estimate, Estimator, PairItems, Remark, decide
from custodes.stats.correction.estimators import ESTIMATORS

BESIDE = (NAIVE.name, HUMAN.name)
"""Estimators that are always included for reference: the uncorrected metric, and human annotations alone."""

FEW_ANNOTATIONS = 30
"""With fewer human annotations of a pair than this number, the coverage of its intervals may be below nominal."""

FEW_DRAWS = 1000
"""With fewer effective draws than this number, a Monte Carlo interval is not reliable."""

SIGNS = {"+": ">", "=": "=", "-": "<"}

CORRECTED = (
    "margin: proportion of wins minus proportion of losses of the first system; n: annotations; theta: P(margin > 0)"
)


def _margin_views(pairs: pl.DataFrame) -> Iterable[View]:
    """Return a view for each metric and estimator: decision, and corrected, naive and human margin of each pair."""
    views = []
    for (aspect, metric), rows in pairs.group_by("aspect", "metric", maintain_order=True):
        rows_of_estimator = {
            estimator: estimator_rows.rows(named=True)
            for estimator, estimator_rows in split_by_aspect(rows, "estimator")
        }
        for estimator in [estimator for estimator in rows_of_estimator if estimator not in BESIDE] or [HUMAN.name]:
            estimates = rows_of_estimator[estimator]
            cells = {
                "decision": [f"{row['system_a']} {SIGNS[row['decision']]} {row['system_b']}" for row in estimates],
                "n": [str(row["n_paired"] + row["n_human_only"]) for row in estimates],
                NAIVE.name: [number(row["margin"], digits=2) for row in rows_of_estimator[NAIVE.name]],
                HUMAN.name: _margins(rows_of_estimator[HUMAN.name]),
                estimator: _margins(estimates),
                "theta": [number(row["theta"], digits=2) for row in estimates],
            }
            views.append(
                View(
                    title=title_with_aspect(f"margins by {metric}, {estimator}", str(aspect)),
                    header=tuple(cells),
                    rows=tuple(zip(*cells.values(), strict=True)),
                    numeric=(False, *[True] * (len(cells) - 1)),
                )
            )
    return [*views[:-1], *(replace(last_view, more=CORRECTED) for last_view in views[-1:])]


def _margins(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    estimates_and_bounds = [(row["margin"], row["margin_low"], row["margin_high"]) for row in rows]
    digits = column_digits(estimates_and_bounds, least=2)
    return [estimate_text(*margin, digits=digits, write=number) for margin in estimates_and_bounds]


@result
class Correction(Result):
    """Outcomes of pairs of systems, corrected with human annotations. See `correction`."""

    PICTURE = "correction_margins"

    pairs: pl.DataFrame = table(
        "One row per metric, pair of systems and estimator.",
        label("metric", "name of the metric"),
        label("estimator", f"`{BESIDE[0]}`, `{BESIDE[1]}` or a requested estimator"),
        *PAIR,
        count("n_paired", "items that both annotators and metric rated", "Both"),
        count("n_metric", "items rated by the metric only", "Metric only"),
        count("n_human_only", "items rated by annotators only", "Human ratings only"),
        share(
            "p_win",
            "human win rate of system_a (ties count as 0); null for estimators that give only a margin",
            "A better",
            interval=True,
        ),
        share("p_tie", "rate of human ties", "Tie", interval=True),
        share("p_loss", "human win rate of system_b (ties count as 0)", "B better", interval=True),
        difference("margin", "p_win − p_loss, from −1 to 1", interval=True),
        probability("theta", "probability that p_win > p_loss", "P(A ahead)"),
        label(
            "decision",
            "`+` if theta > 1 − gamma/2, `-` if theta < gamma/2, otherwise `=`; `=` if the note is `at the threshold`",
        ),
        score(
            "design_effect",
            "design effect: variance of the estimate with clusters divided by its variance with "
            "independent items, at least 1. The counts are divided by it (with few clusters by a larger number, so "
            "that the interval is as wide as a t interval). Null without clusters, and for estimators that handle "
            "clusters themselves",
            "Design effect",
            essential=False,
        ),
        score("effective_draws", "effective number of Monte Carlo draws; null without draws"),
        flag(
            "equivalent",
            "whether the interval of the margin lies within ± `--equivalence`; null if this option is not set",
        ),
        label(
            "note",
            "empty, or one or more of `at the threshold` (other random numbers might change the decision), `few "
            "annotations`, `never annotated`, `never rated by the metric`",
        ),
        view=_margin_views,
    )
    edges: pl.DataFrame = table(
        "The ranking graph of the decisions: one row per edge that is not implied by other edges.",
        label("metric", "name of the metric"),
        label("estimator", "name of the estimator"),
        label("winner", "the winning system; `A ~ B` stands for systems whose wins form a cycle"),
        label("loser", "the losing system"),
        essential=False,
    )


@question(
    "custodes correction partly_annotated.csv --metrics judge --format csv",
    estimator=f"Estimators: {', '.join(ESTIMATORS)}; comma list or repeated.",
    equivalence="Mark pairs for which the whole interval of the margin lies within ± this value.",
)
def correction(
    study: Study | OutcomeCounts,
    *,
    estimator: str | Sequence[str] = next(iter(ESTIMATORS)),
    gamma: float = 0.05,
    equivalence: float | None = None,
    confidence: float = 0.95,
    rng: Rng = 0,
    progress: Progress = silent,
    **setting: Unpack[PreferenceOptions],
) -> Correction:
    """Estimate the outcome of each pair of systems from few human ratings and many metric ratings.

    Notes
    -----
    A pair without annotations is estimated from the metric and the prior, and the column `note` marks the pair. Counts
    (`count_pairs`) can replace the study for all estimators except pooled; counts have no clusters. All estimators
    assume that the annotated items are a random sample. The estimators mixture and inversion also assume that the
    metric's errors depend only on the human label. Clusters reduce the effective number of annotations; see the column
    `design_effect`.

    References
    ----------
    Deriu et al. 2023, Algorithm 1; Angelopoulos et al. 2023 (PPI++).

    Examples
    --------
    >>> import custodes as cu
    >>> result = cu.correction(cu.read("demo"), estimator="ppi", metrics="learned", aspect="fluency")
    >>> result.pairs["estimator"].unique().sort().to_list()
    ['human', 'naive', 'ppi']
    """
    estimator_names = value_list("estimator", estimator)
    if not estimator_names:
        raise OptionError(f"estimator: the list is empty; give at least one of {', '.join(ESTIMATORS)}")
    estimators = [
        ESTIMATORS[check_one_of("estimator", name, ESTIMATORS)] for name in dict.fromkeys((*BESIDE, *estimator_names))
    ]
    if isinstance(study, OutcomeCounts):
        _check_counts(study, estimators)
    # estimators that use all pairs jointly come last
    ordered_estimators = sorted(estimators, key=lambda method: method.needs_items)
    answer = partial(
        _answer, estimators=ordered_estimators, gamma=gamma, equivalence=equivalence, confidence=confidence
    )
    return merge_parts(Correction, answer, counts_by_aspect(study, setting), rng=rng, progress=progress, desc="correct")


def _estimate(
    estimator: Estimator,
    aspect_counts: AspectCounts,
    rng: np.random.Generator,
    design_effect: DesignEffect | None,
    *,
    gamma: float,
    confidence: float,
) -> Estimate:
    """Return the estimates of all pairs and metrics by one estimator.

    The shape is (pairs, metrics), or (pairs,) for an estimator that uses all pairs jointly.
    """
    options = {"confidence": confidence, "gamma": gamma, "rng": rng}
    if estimator.needs_items and aspect_counts.comparison is not None:
        design = aspect_counts.comparison.design
        items = PairItems(human=aspect_counts.comparison.human_signs, systems=design.pairs, units=design.units)
        return estimator.estimate(items, **options)
    counts = Counts(aspect_counts.counts.paired, aspect_counts.counts.metric_only, aspect_counts.counts.human_only)
    if design_effect is not None:
        counts = counts.effective(design_effect.divisor(max(confidence, 1 - gamma)))
    return estimator.estimate(counts, **options)


def _check_counts(counts: OutcomeCounts, estimators: Iterable[Estimator]) -> None:
    for name in ("paired", "metric_only", "human_only"):
        values = getattr(counts, name)
        is_wrong = ~np.isfinite(values) | (values < 0) | (values != np.rint(values))
        if is_wrong.any():
            raise InputError(f"counts.{name} contains {values[is_wrong][0]}; give whole numbers of at least 0")
    if items := next((estimator.name for estimator in estimators if estimator.needs_items), None):
        raise OptionError(
            f"estimator={items!r} needs the ratings of items, which counts do not contain; give the study instead"
        )


def _answer(
    aspect_counts: AspectCounts,
    rng: np.random.Generator,
    *,
    estimators: Sequence[Estimator],
    gamma: float,
    equivalence: float | None,
    confidence: float,
) -> tuple[dict[str, pl.DataFrame], Sequence[Note]]:
    counts, names = aspect_counts.counts, [method.name for method in estimators]
    effect_of_estimator = {}
    if has_clusters(aspect_counts):
        count_estimators = [method for method in estimators if not method.needs_items]
        effect_of_estimator = dict(
            zip(
                count_estimators,
                table_effects(aspect_counts, *(method.point for method in count_estimators)),
                strict=True,
            )
        )
    estimates = {
        method: _estimate(
            method, aspect_counts, rng, effect_of_estimator.get(method), gamma=gamma, confidence=confidence
        )
        for method in estimators
    }

    def stack_field(name: str) -> NDArray[Any]:
        """Return the values of all estimators, (metrics, pairs, estimators, ...).

        The values are ordered so that the estimators of one pair are adjacent.
        """
        return stack_estimates(getattr(estimate, name) for estimate in estimates.values())

    def stack_estimates(values: Iterable[NDArray[Any]]) -> NDArray[Any]:
        values_of_metrics = (
            np.broadcast_to(array, (len(counts.metrics), *array.shape)) if method.needs_items else array.swapaxes(0, 1)
            for method, array in zip(estimates, values, strict=True)
        )
        return np.stack(list(values_of_metrics), axis=2)

    undefined_effect = np.full(counts.paired.shape[:2], np.nan)
    design_effects = np.stack(
        [
            (effect_of_estimator[method].effect if method in effect_of_estimator else undefined_effect).T
            for method in estimates
        ],
        axis=2,
    )
    low, high, theta = stack_field("margin_low"), stack_field("margin_high"), stack_field("theta")
    is_at_threshold = stack_estimates(estimate.at_threshold(gamma=gamma) for estimate in estimates.values())
    decisions = np.where(is_at_threshold, 0, decide(theta, gamma=gamma))
    metric_index, pair_index, estimator_index = np.indices(decisions.shape).reshape(3, -1)
    uses_people, n_annotated = (
        np.array([method.uses_people for method in estimates])[estimator_index],
        counts.human.sum(axis=1)[pair_index],
    )
    n_judged = counts.metric.sum(axis=2)[pair_index, metric_index]
    condition_of_note = {
        "": ~uses_people & (n_judged > 0),
        "never rated by the metric": ~uses_people,
        "never annotated": n_annotated == 0,
        "few annotations": n_annotated < FEW_ANNOTATIONS,
    }
    notes_of_estimates = np.select(list(condition_of_note.values()), list(condition_of_note), "")
    threshold_notes = np.strings.add(f"{AT_THRESHOLD}; ", notes_of_estimates)
    edges, cyclic_raters = [], []
    for m, e in np.ndindex(len(counts.metrics), len(names)):
        rater_edges, is_cyclic = ranking_edges(counts, decisions[m, :, e])
        edges += [(counts.metrics[m], names[e], *edge) for edge in rater_edges]
        cyclic_raters += [f"{counts.metrics[m]} ({names[e]})"] * is_cyclic
    tables = Correction.part(
        aspect_counts.aspect,
        pairs={
            "metric": np.take(counts.metrics, metric_index),
            "estimator": np.take(names, estimator_index),
            "system_a": np.take(counts.system_a, pair_index),
            "system_b": np.take(counts.system_b, pair_index),
            "n_paired": counts.paired.sum(axis=(2, 3))[pair_index, metric_index],
            "n_metric": counts.metric_only.sum(axis=2)[pair_index, metric_index],
            "n_human_only": counts.human_only.sum(axis=2)[pair_index, metric_index],
            **{
                f"p_{outcome}{suffix}": stack_field(f"p{suffix}")[..., i]
                for i, outcome in enumerate(("win", "tie", "loss"))
                for suffix in ("", "_low", "_high")
            },
            "margin": stack_field("margin"),
            "margin_low": low,
            "margin_high": high,
            "theta": theta,
            "decision": format_decisions(decisions),
            "design_effect": np.where(np.isfinite(design_effects), design_effects, np.nan),
            "effective_draws": stack_field("effective_draws"),
            "equivalent": None if equivalence is None else (low > -equivalence) & (high < equivalence),
            "note": np.where(
                is_at_threshold.ravel(),
                np.where(notes_of_estimates == "", AT_THRESHOLD, threshold_notes),
                notes_of_estimates,
            ),
        },
        edges=dict(zip(("metric", "estimator", "winner", "loser"), zip(*edges, strict=True), strict=False)),
    )
    remarks = _estimate_remarks(estimates, label_of(aspect_counts.aspect), gamma=gamma)
    notes = [*cluster_notes(aspect_counts, margin_effects(aspect_counts, 1)[0]), *_annotation_notes(aspect_counts)]
    notes += [Note(**vars(remark), aspect=aspect_counts.aspect) for remark in remarks]
    return tables, [*aspect_counts.notes, *notes, *cycle_notes(aspect_counts.aspect, cyclic_raters)]


def _annotation_notes(aspect_counts: AspectCounts) -> list[Note]:
    counts, aspect_suffix = aspect_counts.counts, label_of(aspect_counts.aspect)
    n_annotated, n_shared = counts.human.sum(axis=1), counts.paired.sum(axis=(0, 2, 3))
    never_annotated = [
        f"{a} - {b}" for a, b, n in zip(counts.system_a, counts.system_b, n_annotated, strict=True) if not n
    ]
    n_few = int(((n_annotated > 0) & (n_annotated < FEW_ANNOTATIONS)).sum())
    unmatched_metrics = [name for name, n in zip(counts.metrics, n_shared, strict=True) if not n]
    return build_notes(
        (
            "never-annotated",
            len(never_annotated),
            (
                f"annotators compared none of the pairs {join_labels(never_annotated)}{aspect_suffix}, so only the "
                "metric and the prior estimate these pairs"
            ),
        ),
        (
            "few-annotations",
            n_few,
            f"{n_few} of {len(n_annotated)} pairs have fewer than {FEW_ANNOTATIONS} human "
            f"annotations{aspect_suffix}, so the coverage of their intervals may be below nominal (in simulations "
            "with 10 annotations, 95 % intervals had a coverage of 87 % with ppi and of at least 90 % with other "
            "estimators)",
        ),
        (
            "no-overlap",
            0 if aspect_counts.comparison else len(unmatched_metrics),
            f"annotators rated no item that {join_labels(unmatched_metrics)} rated, so correction is not possible",
        ),
        aspect=aspect_counts.aspect,
    )


def _estimate_remarks(estimates: Mapping[Estimator, Estimate], aspect_suffix: str, *, gamma: float) -> Iterator[Remark]:
    for estimator, estimate in estimates.items():
        yield from estimator.remarks(estimate, aspect_suffix)
        if n_low := int((estimate.effective_draws < FEW_DRAWS).sum()):
            message = (
                f"{estimator.name}: {n_low} of {estimate.theta.size} estimates have fewer than {FEW_DRAWS} "
                f"effective draws{aspect_suffix}, so their intervals are inaccurate"
            )
            yield Remark("few-draws", message, n_low)
        if n_at_threshold := int(estimate.at_threshold(gamma=gamma).sum()):
            message = (
                f"{estimator.name}: in {n_at_threshold} of {estimate.theta.size} estimates{aspect_suffix}, theta is "
                f"within four Monte Carlo errors of {number(gamma / 2, digits=3)} or "
                f"{number(1 - gamma / 2, digits=3)}; these decisions count as `=` and are marked `{AT_THRESHOLD}`"
            )
            yield Remark("at-the-threshold", message, n_at_threshold)
