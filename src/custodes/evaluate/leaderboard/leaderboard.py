"""Strengths, ranks and groups of systems, by annotators, by metrics, and by annotators with a metric correction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

import numpy as np
import polars as pl

from custodes.answers.question import Rng, question
from custodes.answers.result import Result, result
from custodes.answers.shared_arguments import PreferenceOptions, selection_arguments, settings
from custodes.answers.tables import AT_THRESHOLD, count, difference, flag, label, letters, p_value, score, share, table
from custodes.arguments import value_list
from custodes.data.comparisons import HUMAN
from custodes.data.interim_analyses import SEQUENTIAL_RULE
from custodes.data.notes import Note, build_notes
from custodes.data.outcome_counts import OutcomeCounts
from custodes.data.study import Study
from custodes.errors import OptionError, join_labels
from custodes.evaluate.comparable import NotComparableError, too_few
from custodes.evaluate.decision_graph import PAIR
from custodes.evaluate.leaderboard.bradley_terry import (
    CorrectedModel,
    Model,
    Options,
    fit_comparisons,
    fit_corrected,
    match_comparisons,
)
from custodes.evaluate.leaderboard.counts import check_counts, models_of_counts
from custodes.evaluate.leaderboard.covariates import SHOWN_FIRST, Covariate, check_names, covariate
from custodes.evaluate.leaderboard.notes import notes_on
from custodes.evaluate.leaderboard.reference import reference_rows
from custodes.evaluate.leaderboard.tables import interim_rows, rows_of_model
from custodes.evaluate.parallel import map_parts
from custodes.evaluate.rater_comparison import NO_COMPARISON, RaterComparison, compare_any_raters
from custodes.progress import Progress, silent
from custodes.stats.strength.more_battles import MOST_GAIN, MOST_PAIRS
from custodes.stats.strength.strengths import TieModel

CORRECTED = "corrected:"
"""Prefix of the names of raters that stand for human comparisons; the name of the correcting metric follows."""

FEW_RATERS = 3
"""Up to this number of raters, the leaderboard displays all raters by default. With more raters, the leaderboard
displays only the annotators and the best correction."""


def best_corrected(board: Leaderboard) -> pl.DataFrame:
    """Return the row of `corrected` with the largest saving in each aspect; no row for aspects without a correction."""
    return (
        board.corrected.filter(reason="")
        .sort("saving", descending=True, nulls_last=True, maintain_order=True)
        .unique("aspect", keep="first", maintain_order=True)
    )


def main_rows(board: Leaderboard, table: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of the annotators, uncorrected and with the correction that replaces most human comparisons.
    Return all rows if there are few raters, or no annotators.
    """
    rater_series = board.systems["rater"]
    if rater_series.n_unique() <= FEW_RATERS or HUMAN not in rater_series:
        return table
    return table.join(
        pl.concat(
            [
                board.systems.filter(rater=HUMAN).select("aspect", "rater").unique(),
                best_corrected(board).select("aspect", rater=CORRECTED + pl.col("metric")),
            ]
        ),
        on=["aspect", "rater"],
        how="semi",
        maintain_order="left",
    )


@result
class Leaderboard(Result):
    """Which system is best, with intervals and tests. See `leaderboard`.

    Examples
    --------
    >>> import custodes as cu
    >>> result = cu.leaderboard(cu.read("demo"), aspect="fluency", resamples=20)
    >>> result.systems.select("rater", "system", "rank").row(0)
    ('human', 'Birch', 1)
    """

    PICTURE = "leaderboard_strengths"

    systems: pl.DataFrame = table(
        "One row per rater and system, with the strongest system first.",
        label(
            "rater",
            f"`{HUMAN}` (combined annotators), a metric, or `{CORRECTED}METRIC` (annotators, corrected by the metric)",
        ),
        label("system", "name of the system"),
        count("battles", "number of comparisons with other systems, each on one item"),
        share(
            "win_rate",
            "proportion of points against an opponent, averaged over opponents; a tie counts half a point",
            interval=True,
        ),
        score(
            "strength",
            "log odds of a win to a loss against a system of strength 0; the mean over all systems is 0. A bound of "
            "the interval is null if the data do not determine the bound",
            unit="log odds",
            interval=True,
        ),
        count("rank", "rank by strength, from 1; the interval holds for all systems jointly", interval=True),
        letters("group", "systems of one rater that share a letter do not differ significantly; null without a test"),
        flag(
            "may_be_first",
            "whether no other system of the same connected part (see `part`) is significantly stronger",
            "May be first",
        ),
        count(
            "part",
            "number of the connected part (1: largest); systems of different parts cannot be compared, not even "
            "through other systems",
            essential=False,
        ),
        rows=lambda board: main_rows(board, board.systems),
    )
    pairs: pl.DataFrame = table(
        "One row per rater and pair of compared systems.",
        label("rater", "as in `systems`"),
        *PAIR,
        count("wins", "number of wins of system_a", "A better"),
        count("ties", "number of ties between the two systems"),
        count("losses", "number of losses of system_a", "B better"),
        share("win_rate", "win rate of system_a; a tie counts half a win", interval=True),
        share("expected", "win rate expected from the strengths, at equal covariates", "Expected win rate"),
        p_value(
            "p_adjusted",
            "p-value of the test that both systems have equal strengths, adjusted for all pairs of the rater",
            "p, all tested",
        ),
        label(
            "decision",
            "`+`: system_a is significantly stronger, `-`: system_b is significantly stronger, `=`: no significant "
            "difference. Null without a test",
            "Decision (all pairs together)",
        ),
        label(
            "note",
            f"empty, or `{AT_THRESHOLD}`: the significance level lies within the Monte Carlo error of `p_adjusted`, "
            "and the decision is `=`",
        ),
        p_value(
            "p_direct",
            "p-value of the test that both systems win equally often in the comparisons between them (exact binomial "
            "test, Holm over the pairs). Null if the number of comparisons depended on outcomes",
            essential=False,
        ),
        p_value(
            "p_fit",
            "p-value of the test that system_a wins as often as the strengths predict (exact binomial "
            "test, Holm over the pairs)",
            essential=False,
        ),
        count(
            "more_comparisons",
            "number of further comparisons (ties included), each in a new cluster, that give the joint test 50 % "
            "power if the true difference equals the observed difference. Null for four reasons: the pair is "
            f"decided or not tested; the data would have to grow by a factor above {MOST_GAIN:.0f}; a cluster has "
            f"several comparisons of the pair; there are more than {MOST_PAIRS:,} pairs",
            essential=False,
        ),
        essential=False,
    )
    cycles: pl.DataFrame = table(
        "One row per rater and group of systems that beat one another in a cycle, such as A > B > C > A. Only wins "
        "that are significant by `p_direct` of the table `pairs` count.",
        label("rater", "as in `systems`"),
        label(
            "cycle",
            "systems of the cycle: each system is significantly better than the next system. If the group has "
            "several cycles, this is the cycle with the largest value of `win_rate`",
        ),
        share("win_rate", "smallest of the win rates of the systems of the cycle against the next system"),
        p_value("p_direct", "largest of the p-values of the pairs of the cycle, adjusted for all pairs"),
    )
    interim: pl.DataFrame = table(
        "Last completed interim analysis of each pair, if the study was annotated with interim analyses.",
        *PAIR,
        count("n", "answers in the last interim analysis, including answers of annotators who were excluded later"),
        label(
            "decision",
            "`+`: system_a is better, `-`: system_b is better, `=`: no decision. Each pair is tested separately",
        ),
        difference(
            "margin",
            "proportion of wins minus proportion of losses of system_a; adjusted for interim analyses if "
            "the annotation of the pair has ended",
            interval=True,
        ),
        essential=False,
    )
    leaders: pl.DataFrame = table(
        "How few comparisons determine which system is strongest. The table has one row for human ratings, or, "
        "without human ratings, one row per metric.",
        label("rater", "as in `systems`"),
        label("leader", "the system with the greatest strength"),
        label("successor", "the system that leads after the smallest set of comparisons is removed (see `removals`)"),
        count(
            "removals",
            "number of comparisons in the smallest set found whose removal changes the leader. Null if the data do "
            f"not bound the strength of the leader, or if there are more than {MOST_PAIRS:,} pairs",
        ),
        essential=False,
    )
    effects: pl.DataFrame = table(
        "One row per rater and effect on the outcome of a comparison; strengths are not included.",
        label("rater", "as in `systems`"),
        label(
            "effect",
            f"`ties`: tie parameter of the Davidson model, if there are ties; `{SHOWN_FIRST}`: effect of being shown "
            "first; otherwise the name of a covariate",
        ),
        score("value", "effect in log odds; for ties, the tie parameter", interval=True),
        label("unit", "unit of `value`"),
        p_value("p_value", "p-value of the test that a covariate has no effect", "p"),
        rows=lambda board: main_rows(board, board.effects),
    )
    reference: pl.DataFrame = table(
        "One row per rater and system, if the rater compared all systems with one reference system.",
        label("rater", "as in `systems`"),
        label("system", "name of the system"),
        label("reference", "the system that all other systems were compared with"),
        count("n", "comparisons with the reference", "n"),
        share(
            "win_rate",
            "mean probability of winning according to the judge (AlpacaEval's win rate); without probabilities, the "
            "discrete win rate",
            interval=True,
        ),
        share(
            "discrete_win_rate",
            "proportion of comparisons won; a tie counts half a win",
            "Discrete win rate",
            interval=True,
        ),
        share(
            "length_controlled_win_rate",
            "win rate at equal lengths: logistic regression on tanh of the standardised difference of lengths, as in"
            " Dubois et al. 2024, but without instruction effects",
            "Win rate at equal length",
            interval=True,
        ),
        label("reason", "why there is no win rate at equal length", essential=False),
    )
    corrected: pl.DataFrame = table(
        "One row per metric that rated comparisons without human ratings.",
        label("metric", "name of the metric"),
        count("labels", "comparisons that both annotators and metric rated"),
        count("battles", "comparisons rated by the metric, between systems with human comparisons"),
        share(
            "saving",
            "proportion of human comparisons that the metric replaces: 1 - variance of strengths with correction / "
            "variance without correction. Null if a strength is not finite without the correction",
        ),
        p_value(
            "p_random",
            "p-value of the test that the human comparisons are a random part of all comparisons, as the correction "
            "assumes. Null if the study drew the human comparisons at random, or if their probabilities are known",
            "p, random part",
        ),
        label("reason", "why there is no correction; otherwise empty"),
    )


@question(
    "custodes leaderboard demo --metrics judge --aspect fluency",
    covariates="Covariates to adjust for: length (of texts), or a rater with scores; comma list or repeated.",
    tie_model="How ties count: as a third outcome (davidson), or as half a win for each system (half).",
)
def leaderboard(
    study: Study | OutcomeCounts,
    *,
    covariates: Sequence[str] = (),
    tie_model: TieModel = "davidson",
    confidence: float = 0.95,
    resamples: int = 1000,
    rng: Rng = 0,
    progress: Progress = silent,
    **setting: Unpack[PreferenceOptions],
) -> Leaderboard:
    """Rank the systems by annotators, by each metric, and by annotators with a metric correction, with intervals.

    Notes
    -----
    A comparison consists of two outputs of one item that a rater scored or compared; scores are compared by the tie
    rule. `strength` follows the Bradley-Terry model with ties by Davidson: if the strengths of two systems differ by d,
    the odds of a win to a loss are exp(d). The model adjusts for the presentation order if the order is known and
    varies. The model also adjusts for each of `covariates`. A covariate is 'length' (log ratio of the numbers of words
    of two texts) or a rater (the scores in standard deviations). Intervals treat clusters of items as independent.
    Intervals of ranks, groups and decisions hold jointly for all systems of a rater.

    The combined annotators are 'human'. A metric may have rated comparisons that have no human ratings. Then the rater
    'corrected:METRIC' has human strengths that are estimated from the human ratings and the ratings of the metric. The
    correction assumes that the annotated comparisons are a random sample, or that the items table gives their
    `probability`. If a test rejects this assumption, or if the errors of the metric cannot be estimated, the corrected
    values are null. Studies with annotators only or with metrics only are allowed. Counts (`count_battles`,
    `count_pairs`) can replace the study. Counts have no clusters, so they have intervals only if no two comparisons
    share an item.

    References
    ----------
    Bradley and Terry 1952; Davidson 1970; Mogstad et al. 2024 (ranks); Dubois et al. 2024 (win
    rates at equal length); Angelopoulos et al. 2023 (correction).

    Examples
    --------
    >>> import custodes as cu
    >>> board = cu.leaderboard(cu.read("demo"), aspect="fluency", metrics="judge", resamples=200)
    >>> board.systems.filter(rater="human")["system"][0]
    'Birch'
    """
    rater_names = tuple(study.raters.direction) if isinstance(study, Study) else ()
    covariate_names = tuple(dict.fromkeys(value_list("covariates", covariates, labels=rater_names)))
    make_options = partial(Options, tie_model=tie_model, confidence=confidence, resamples=resamples)
    reference_rows_of_aspect, interim_rows_of_aspect = dict[str, Any](), dict[str, Any]()
    if isinstance(study, Study):
        check_names(covariate_names, study)
        selected_study = study.select(**selection_arguments(setting), one_side=True)
        systems, aspects = selected_study.systems, selected_study.aspects
        if len(systems) < 2:
            raise NotComparableError(too_few(selected_study, "a leaderboard needs two or more systems"))
        comparisons = [compare_any_raters(selected_study, aspect, setting) for aspect in aspects]
        if not any(len(comparison.preferences) for comparison in comparisons):
            raise NotComparableError(f"{selected_study.name}: {NO_COMPARISON}")
        reference_rows_of_aspect = {
            aspect: reference_rows(selected_study, aspect, confidence=confidence) for aspect in aspects
        }
        has_interim_analyses = not selected_study.looks.is_empty()
        if has_interim_analyses and len(study.preferences.frame):
            interim_rows_of_aspect[study.preferences.frame["aspect"][0]] = interim_rows(selected_study.looks)
        options = make_options(
            n_systems=len(systems),
            test_pairs=SEQUENTIAL_RULE not in {note.rule for note in selected_study.notes},
            by_pair=has_interim_analyses,
        )
        model_specs = _models(
            comparisons,
            {
                aspect: [covariate(covariate_name, study, aspect=aspect) for covariate_name in covariate_names]
                for aspect in aspects
            },
            shares_overall_models=settings(setting)["ties"] != "calibrated" and not covariate_names,
            options=options,
        )
        notes = [*selected_study.notes, *(note for comparison in comparisons for note in comparison.notes)]
    else:
        check_counts(study.systems, covariate_names, setting)
        systems, comparisons, aspects = study.systems, [], ("",)
        options = make_options(n_systems=len(systems))
        model_specs, count_notes = models_of_counts(study, options)
        notes = [*study.notes, *count_notes]
    # A model that is fitted to overall scores occurs once for each aspect.
    fitter_of_label = {label: fitter for _, _, label, fitter in reversed(model_specs)}
    fitted_models = map_parts(
        lambda label, generator: fitter_of_label[label](generator),
        list(fitter_of_label),
        rng=np.random.default_rng(rng),
        progress=progress,
        desc="leaderboard",
        label=str,
    )
    fit_of_label = dict(zip(fitter_of_label, fitted_models, strict=True))
    model_of_label = {
        label: model
        for label, fit in fit_of_label.items()
        if (model := fit.model if isinstance(fit, CorrectedModel) else fit) is not None
    }
    tables_of_label = {
        label: Leaderboard.part("", **rows_of_model(rater, model_of_label[label], systems, confidence=confidence))
        for label, rater in {label: rater for _, rater, label, _ in model_specs}.items()
        if label in model_of_label
    }
    for covariate_name in covariate_names:
        if all(covariate_name in model.unvaried for model in model_of_label.values()):
            raise OptionError(
                f"covariates={covariate_name!r}: the covariate does not vary within systems, so its effect cannot be "
                "separated from the strengths; omit this covariate"
            )
    note_rules, tables_of_aspects, model_notes = [note.rule for note in notes], [], list[Note]()
    for aspect in aspects:
        label_of_rater = {rater: label for model_aspect, rater, label, _ in model_specs if model_aspect == aspect}
        corrected_models = [
            fit for label in label_of_rater.values() if isinstance(fit := fit_of_label[label], CorrectedModel)
        ]
        model_of_rater = {
            rater: model_of_label[label] for rater, label in label_of_rater.items() if label in model_of_label
        }
        aspect_tables = Leaderboard.part(
            corrected=[
                {
                    "metric": corrected_model.metric,
                    "labels": corrected_model.labels,
                    "battles": corrected_model.battles,
                    "saving": corrected_model.saving,
                    "p_random": corrected_model.p_random,
                    "reason": corrected_model.reason,
                }
                for corrected_model in corrected_models
            ],
            reference=reference_rows_of_aspect.get(aspect, ()),
            interim=interim_rows_of_aspect.get(aspect, ()),
        )
        for table_name in aspect_tables:
            model_tables = [tables_of_label[label_of_rater[rater]][table_name] for rater in model_of_rater]
            if table_name == "leaders" and HUMAN in model_of_rater:
                model_tables = [tables_of_label[label_of_rater[HUMAN]][table_name]]
            aspect_tables[table_name] = pl.concat([*model_tables, aspect_tables[table_name]]).with_columns(
                pl.lit(aspect).alias(Leaderboard.BY)
            )
        tables_of_aspects.append(aspect_tables)
        model_notes += notes_on(
            aspect, model_of_rater, corrected_models, systems=systems, note_rules=note_rules, options=options
        )
    preference_raters = {rater for comparison in comparisons for rater in comparison.preferences.active_raters}
    rater_covariate_names = [rater for rater in covariate_names if rater in preference_raters]
    message = f"the model adjusts for {join_labels(rater_covariate_names)}, so there is no ranking by these raters"
    return Leaderboard.from_parts(
        tables_of_aspects,
        [
            *notes,
            *build_notes(("rater-held-equal", len(rater_covariate_names), message)),
            *model_notes,
        ],
    )


def _models(
    comparisons: Sequence[RaterComparison],
    covariates_of_aspect: Mapping[str, Sequence[Covariate]],
    *,
    shares_overall_models: bool,
    options: Options,
) -> list[Model]:
    """Return the models of all aspects, human ratings first.

    Raters used as covariates are left out. If `shares_overall_models` is true, a metric that rates outputs as a whole
    has one model for all aspects.
    """
    model_specs: list[Model] = []
    for comparison in comparisons:
        aspect, all_rater_comparisons = comparison.aspect, comparison.preferences
        covariate_names = {covariate_of_aspect.name for covariate_of_aspect in covariates_of_aspect[aspect]}
        comparisons_of_rater = {
            rater: all_rater_comparisons.select_rater(all_rater_comparisons.raters.index(rater))
            for rater in all_rater_comparisons.active_raters
            if rater not in covariate_names
        }
        fit_rater = partial(
            fit_comparisons, design=comparison.design, options=options, covariates=covariates_of_aspect[aspect]
        )
        human_comparisons = comparisons_of_rater.pop(HUMAN, None)
        # In studies with annotators, metrics have no search for removals, because the search refits many models.
        fit_metric = partial(fit_rater, options=replace(options, search_removal=human_comparisons is None))
        if human_comparisons is not None:
            model_specs.append(
                (
                    aspect,
                    HUMAN,
                    f"{aspect}|{HUMAN}",
                    partial(fit_rater, human_comparisons, design=comparison.design.weighted_by_selection),
                )
            )
            model_specs += [
                (
                    aspect,
                    CORRECTED + rater,
                    f"{aspect}|{CORRECTED}{rater}",
                    partial(fit_corrected, metric_comparisons, human=human_comparisons, **fit_rater.keywords),
                )
                for rater, metric_comparisons in comparisons_of_rater.items()
                if not match_comparisons(human_comparisons, metric_comparisons)[1].all()
            ]
        overall_metrics = comparison.overall if shares_overall_models else ()
        model_specs += [
            (
                aspect,
                rater,
                f"{'' if rater in overall_metrics else aspect}|{rater}",
                partial(fit_metric, rater_comparisons),
            )
            for rater, rater_comparisons in comparisons_of_rater.items()
        ]
    return model_specs
