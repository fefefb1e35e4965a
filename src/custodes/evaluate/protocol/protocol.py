"""Replay of an annotation protocol: decisions and their errors by number of annotations."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Unpack

import numpy as np
import polars as pl
from numpy.typing import NDArray

from custodes.answers.question import Rng, question
from custodes.answers.result import Result, result
from custodes.answers.shared_arguments import NONE, PreferenceOptions
from custodes.answers.tables import Column, count, difference, label, score, share, table, with_sd
from custodes.data.notes import Note, build_notes
from custodes.data.study import Study
from custodes.evaluate.clusters import not_random_note, random_part_p_values
from custodes.evaluate.comparable import label_of
from custodes.evaluate.parallel import map_parts
from custodes.evaluate.protocol.annotations import (
    IDEAL,
    RatedPairs,
    comparisons_of,
    decide_by_counts,
    order_answers,
    permute_systems,
    rated_pairs,
    simulate_ideal_metric,
)
from custodes.evaluate.protocol.stopping import USUAL, Stopping, select_estimators_and_rules
from custodes.evaluate.rater_comparison import RaterComparison
from custodes.memory import check_memory
from custodes.progress import Progress, silent
from custodes.stats import ABSENT, bootstrap
from custodes.stats.arrays import chunks
from custodes.stats.correction.dirichlet import HUMAN
from custodes.stats.correction.estimator import Estimator
from custodes.stats.decision_errors import error_types
from custodes.stats.stopping.replay import Answers, decide_fixed_design, mean_kld, replay

ERRORS = ("correct", "inversion", "omission", "insertion")
"""Types of decisions, as names of columns, in the order of the result of `error_types`."""


def error_columns(*docs: str, sd: bool = False) -> tuple[Column, ...]:
    """Return the declarations of the columns `ERRORS` with the descriptions `docs`. If `sd` is true, `correct` has a
    standard deviation."""
    correct_doc, *error_docs = docs
    return (
        share(ERRORS[0], correct_doc, sd=sd, best="high"),
        *(
            share(column_name, column_doc, best="low")
            for column_name, column_doc in zip(ERRORS[1:], error_docs, strict=True)
        ),
    )


def errors_of(reference_decisions: NDArray[Any], decisions: NDArray[Any]) -> dict[str, NDArray[np.float64]]:
    """Return the values (...) of the columns `ERRORS`, from decisions (..., pairs) and reference decisions."""
    return dict(zip(ERRORS, np.moveaxis(error_types(reference_decisions, decisions), -1, 0), strict=True))


_NUMBERS = 10
"""Number of values in memory for each pair and each resample of the human decisions."""
ESTIMATOR = label("estimator", "estimator of theta, the probability that p_win is greater than p_loss")
STOPPING = label("stopping", "stopping rule, and the fields of `Stopping` that differ from the default", "Stopping")


@result
class Protocol(Result):
    """An annotation protocol replayed on an annotated study. See `protocol`."""

    PICTURE = "budget_curve"

    protocol: pl.DataFrame = table(
        "One row per metric, estimator and `Stopping`: means and standard deviations over replications. The rule of "
        "the paper without a metric is always included.",
        label("metric", "the metric used, `none`, or `ideal`"),
        ESTIMATOR,
        STOPPING,
        share(
            "share",
            "annotations used, as a proportion of the available annotations; mean over pairs",
            "Annotations used",
            sd=True,
            best="low",
        ),
        *error_columns(
            "proportion of pairs with the same decision as with all annotations",
            "proportion of pairs that are decided for one system, although all annotations decide for the other system",
            "proportion of pairs that the protocol leaves undecided, although all annotations decide them",
            "proportion of pairs that the protocol decides, although all annotations leave them undecided",
            sd=True,
        ),
        difference(
            "gain",
            "`correct` of this protocol minus `correct` of a fixed design. The fixed design divides the same number "
            "of annotations equally among pairs and analyses each pair once. If the value is below 0, the fixed "
            "design is better",
            "Gain over fixed",
            sd=True,
            best="high",
        ),
        score(
            "kld",
            "Kullback-Leibler divergence between the outcome rates in all annotations and the rates that the "
            "protocol estimates, averaged over pairs. Null for estimators that give only a margin",
            "KLD (nats)",
            best="low",
        ),
        score(
            "kld_mode",
            "like `kld`, but computed from the posterior mode of all annotations (rates without smoothing), as in "
            "the paper. Infinite if a pair has an outcome that annotators never chose",
            "KLD of the mode",
            best="low",
            essential=False,
        ),
        share(
            "null_error",
            "proportion of pairs with a false decision if all systems are equal; null if not requested",
            "False if equal",
            sd=True,
        ),
    )
    reference: pl.DataFrame = table(
        "The reference decisions, which use all annotations.",
        count("pairs", "number of pairs that annotators rated"),
        count("annotations", "number of all annotations"),
        share("decided", "proportion of pairs decided with all annotations"),
        share(
            "self_agreement",
            "proportion of pairs with the same decision after the clusters of all annotations are resampled; a "
            "ceiling for `correct`",
            "Self-agreement",
        ),
    )
    curve: pl.DataFrame = table(
        "One row per round of each row of `protocol`.",
        label("metric", "the metric used"),
        ESTIMATOR,
        STOPPING,
        count("round", "number of the round, from 1"),
        score("annotations", "number of annotations so far"),
        share("correct", "value of `correct` in `protocol` if the study ended after this round"),
        score("kld", "value of `kld` in `protocol` if the study ended after this round", "KLD (nats)"),
        essential=False,
    )


@question(
    "custodes protocol demo --looks 10,20,40 --boundary pocock --null",
    estimator="Estimators, as in correction (default: human; with metrics, mixture). Comma list or repeated.",
    null="Also estimate the rate of false decisions, with systems permuted within clusters.",
    ideal="Number of items rated by a simulated ideal metric; 0: no ideal metric.",
)
def protocol(
    study: Study,
    *,
    estimator: str | Sequence[str] | None = None,
    stopping: Stopping | Sequence[Stopping] = USUAL,
    replications: int = 20,
    null: bool = False,
    ideal: int = 0,
    resamples: int = 1000,
    rng: Rng = 0,
    progress: Progress = silent,
    **setting: Unpack[PreferenceOptions],
) -> Protocol:
    """Replay an annotation protocol on a fully annotated study: decisions and errors by number of annotations.

    Notes
    -----
    All pairs of systems start undecided. Each round adds annotations to each undecided pair. The order of the items is
    drawn for each pair and replication. A pair is decided when theta = P(p_win > p_loss) exceeds 1 - gamma/2 or falls
    below gamma/2. The protocol ends when every pair is decided, or when the items or the budget are used up. `stopping`
    sets these rules; each rule has a row in the table `protocol`. The reference decisions use annotators alone, with
    the same threshold gamma and all annotations. Each row also reports a fixed design with the same number of
    annotations, divided equally among pairs and analysed once. The protocol takes one item from every cluster
    (document) before it takes a second item from any cluster. Annotations that share a cluster have less weight.

    With `metrics` 'none' (the default), only annotators are used. `ideal` simulates a metric with the confusion matrix
    of the paper. `null` permutes the systems within each cluster (or item).

    References
    ----------
    Deriu et al. 2023, Algorithm 2, Tables 3 to 5, Appendix E.

    Examples
    --------
    >>> import custodes as cu
    >>> result = cu.protocol(cu.read("demo"), replications=5, resamples=50)
    >>> result.protocol["share"].is_between(0, 1).all()
    True
    """
    is_without_metric = setting["metrics"] in (None, NONE) and not ideal
    estimators, rules = select_estimators_and_rules(estimator, stopping, is_without_metric=is_without_metric)
    generator = np.random.default_rng(rng)
    root_seed = int(generator.integers(2**63))
    comparisons = comparisons_of(study, setting)
    paper_estimator_and_rule = (HUMAN, replace(USUAL, gamma=rules[0].gamma))
    task_list = [
        (
            comparison,
            metric,
            list(dict.fromkeys([*estimator_rule_pairs, *[paper_estimator_and_rule] * (metric == NONE)])),
        )
        for comparison in comparisons
        for metric in dict.fromkeys((NONE, *comparison.metrics, *[IDEAL] * (ideal > 0)))
        if (
            estimator_rule_pairs := [
                (single_estimator, rule)
                for single_estimator in estimators
                if single_estimator.uses_metric == (metric != NONE)
                for rule in rules
            ]
        )
        or metric == NONE
    ]

    def answer_task(
        task: tuple[RaterComparison, str, list[tuple[Estimator, Stopping]]], _: np.random.Generator
    ) -> list[dict[str, pl.DataFrame]]:
        comparison, metric, estimators_and_rules = task
        task_rated_pairs = rated_pairs(comparison, NONE if metric == IDEAL else metric)
        if metric == IDEAL:
            task_rated_pairs = simulate_ideal_metric(task_rated_pairs, ideal, _rng(root_seed, comparison, 3))
        # The memory holds position, outcome and counts of each annotation, for the data and for the null hypothesis.
        check_memory("replications", replications, 4.0 * (1 + null) * replications * task_rated_pairs.human.size)
        # Each replication has a seed: additional replications do not change the first ones, and all rows of the table
        # use the same orders of items.
        replication_seeds = _rng(root_seed, comparison, 0).integers(2**63, size=replications).tolist()
        replicates_of_scenarios = [[task_rated_pairs] * replications]
        if null:
            null_rngs = (np.random.default_rng([replication_seed, 1]) for replication_seed in replication_seeds)
            replicates_of_scenarios.append([permute_systems(task_rated_pairs, null_rng) for null_rng in null_rngs])
        answers_of_scenarios = [order_answers(replicates, replication_seeds) for replicates in replicates_of_scenarios]
        estimator_seed = int(_rng(root_seed, comparison, 1).integers(2**63))
        return [
            Protocol.part(
                comparison.aspect,
                **_row(metric, estimator, rule, estimator_seed, task_rated_pairs, answers_of_scenarios),
            )
            for estimator, rule in estimators_and_rules
        ]

    tables_by_task = map_parts(
        answer_task, task_list, rng=generator, progress=progress, desc="protocol", label=lambda task: task[1]
    )
    all_tables = [frame_of_table for tables_of_task in tables_by_task for frame_of_table in tables_of_task]
    all_tables += [_reference(comparison, root_seed, rules[0].gamma, resamples) for comparison in comparisons]
    notes = [note for comparison in comparisons for note in _study_notes(comparison)]
    max_n_pairs = max(len(comparison.design.pairs) for comparison in comparisons)
    return Protocol.from_parts(all_tables, [*notes, *_notes(estimators, rules, max_n_pairs)])


def _rng(root_seed: int, comparison: RaterComparison, purpose: int) -> np.random.Generator:
    """Return a generator that is derived from an aspect and a purpose, so that results do not depend on other aspects
    or on threads."""
    return np.random.default_rng([root_seed, zlib.crc32(comparison.aspect.encode()), purpose])


def _row(
    metric: str,
    estimator: Estimator,
    stopping: Stopping,
    estimator_seed: int,
    pairs: RatedPairs,
    answers_of_scenarios: Sequence[Answers],
) -> dict[str, dict[str, Any]]:
    """Return a row of `protocol` and the rows of `curve`.

    `answers_of_scenarios` are the answers of the study and, if the null is simulated, answers for equal systems.
    """
    reference_decisions, available_annotation_counts = (
        pairs.reference(stopping.gamma),
        answers_of_scenarios[0].available,
    )
    rule = stopping.rule(
        estimator,
        max_annotations=max(int(scenario_answers.available.max()) for scenario_answers in answers_of_scenarios),
        seed=estimator_seed,
    )
    study_replay, *null_replays = [
        replay(scenario_answers, rule, reference_decisions=reference_decisions, reference_proportions=pairs.truth)
        for scenario_answers in answers_of_scenarios
    ]
    fixed_decisions = decide_fixed_design(answers_of_scenarios[0], rule, n_total=study_replay.n.sum(axis=1))
    key_columns = {"metric": metric, "estimator": estimator.name, "stopping": str(stopping)}
    rates_of_decision_type = errors_of(reference_decisions, study_replay.decision)
    false_decision_rates = [(null_replay.decision != 0).mean(axis=1) for null_replay in null_replays]
    return {
        "protocol": {
            **key_columns,
            **{
                decision_type: decision_rates.mean() for decision_type, decision_rates in rates_of_decision_type.items()
            },
            **with_sd("share", (study_replay.n / available_annotation_counts).mean(axis=1)),
            **with_sd("correct", rates_of_decision_type["correct"]),
            **with_sd(
                "gain", rates_of_decision_type["correct"] - errors_of(reference_decisions, fixed_decisions)["correct"]
            ),
            "kld": study_replay.kld[-1].mean(),
            "kld_mode": mean_kld(study_replay.outcome_proportions, pairs.mode).mean(),
            **with_sd("null_error", *(false_decision_rates or [np.full(len(study_replay.n), np.nan)])),
        },
        "curve": {
            **key_columns,
            "round": np.arange(1, len(rule.looks) + 1),
            **{
                curve_column: getattr(study_replay, curve_column).mean(axis=1)
                for curve_column in ("annotations", "correct", "kld")
            },
        },
    }


def _reference(comparison: RaterComparison, root_seed: int, gamma: float, resamples: int) -> dict[str, pl.DataFrame]:
    """Return the row of `reference`, with the replication rate of human decisions on resampled clusters.

    The replication rate is a ceiling for `correct`.
    """
    pairs, design = rated_pairs(comparison, NONE), comparison.design
    reference_decisions = pairs.reference(gamma)
    win_loss_indicators = np.stack([pairs.human == outcome_sign for outcome_sign in (1, -1)], axis=1).astype(np.float64)
    cluster_weights = design.draw_weights(resamples, _rng(root_seed, comparison, 2))[1:]
    win_loss_counts_of_cluster = bootstrap.unit_sums(win_loss_indicators, units=design.units, n_units=design.n_units)
    design_effects = pairs.effect[:, np.newaxis]
    correct_shares = np.full(len(cluster_weights) or 2, np.nan)
    for resample_slice in chunks(len(cluster_weights), _NUMBERS * len(reference_decisions)):
        resampled_counts = bootstrap.weighted_sums(cluster_weights[resample_slice], win_loss_counts_of_cluster)
        resampled_decisions = decide_by_counts(resampled_counts / design_effects, gamma)
        correct_shares[resample_slice] = errors_of(reference_decisions, resampled_decisions)["correct"]
    reference_columns = {
        "pairs": len(reference_decisions),
        "annotations": int(pairs.outcome.sum()),
        "decided": (reference_decisions != 0).mean(),
        "self_agreement": correct_shares.mean(),
    }
    return Protocol.part(comparison.aspect, reference=reference_columns)


def _study_notes(comparison: RaterComparison) -> list[Note]:
    """Return the notes of the comparison; notes on metrics are left out if no metric is used."""
    human_note_rules = ("items-without-annotators", "all-ties", "one-item", "verdicts-vote", "annotators-not-selected")
    notes = [note for note in comparison.notes if comparison.metrics or note.rule in human_note_rules]
    n_unrated_pairs = int((comparison.human_signs == ABSENT).all(axis=1).sum())
    message = (
        f"{n_unrated_pairs} pairs of systems have no human-rated item{label_of(comparison.aspect)} and are excluded"
    )
    return [
        *notes,
        *build_notes(("pairs-without-annotators", n_unrated_pairs, message), aspect=comparison.aspect),
        *not_random_note(
            comparison.metrics,
            random_part_p_values(comparison),
            "so the results may differ from results for items that are drawn at random",
            aspect=comparison.aspect,
        ),
    ]


def _notes(estimators: Sequence[Estimator], rules: Sequence[Stopping], n_pairs: int) -> list[Note]:
    """Return notes on the interpretation of the error rates."""
    gamma = rules[0].gamma
    paper_rule = replace(USUAL, gamma=gamma)
    insufficient_budgets = dict.fromkeys(
        rule.budget for rule in rules if rule.budget is not None and rule.budget < n_pairs
    )
    return [
        *build_notes(
            (
                "of-this-data",
                True,
                "the results describe the stopping rules on these systems, items and annotators, not in general; use "
                "plan to forecast results from a pilot",
            ),
            (
                "paper-rule",
                paper_rule not in rules or HUMAN not in estimators,
                f"the row of estimator={HUMAN.name!r} with stopping={str(paper_rule)!r} is the rule of the paper "
                "without a metric, which is always included for comparison",
            ),
            (
                "repeated-looks",
                any(rule.boundary == USUAL.boundary for rule in rules),
                f"every interim analysis decides at gamma={gamma:g} as if it were the only analysis, so false "
                "decisions are more frequent. With null=True, the column null_error is the rate of false decisions; "
                "use boundary='pocock' to keep the level",
            ),
            *(
                (
                    "pairs-never-annotated",
                    n_pairs - budget,
                    f"a budget of {budget} annotations leaves some of {n_pairs} pairs without annotations; increase "
                    "the budget",
                )
                for budget in insufficient_budgets
            ),
        ),
        *(Note(**vars(estimator.assumes)) for estimator in estimators if estimator.assumes),
    ]
