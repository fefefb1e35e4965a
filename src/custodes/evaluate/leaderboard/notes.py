"""Notes on fitted models and on the comparisons that they are fitted to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import compress, count, pairwise
from math import comb

import numpy as np

from custodes.answers.wording import plural
from custodes.data.comparisons import HUMAN
from custodes.data.notes import Note, build_notes
from custodes.data.outcome_counts import OutcomeCounts
from custodes.errors import join_labels
from custodes.evaluate.comparable import label_of
from custodes.evaluate.leaderboard.bradley_terry import NOT_RANDOM, CorrectedModel, FittedModel, Options
from custodes.evaluate.leaderboard.tables import is_testable, parts
from custodes.evaluate.rater_scores import FEW, few_clusters_notes
from custodes.stats.arrays import Bools
from custodes.stats.bootstrap import smallest_p_value


def notes_on(
    aspect: str,
    model_of_rater: Mapping[str, FittedModel],
    corrected_models: Sequence[CorrectedModel],
    *,
    systems: Sequence[str],
    note_rules: Sequence[str],
    options: Options,
) -> list[Note]:
    """Return the notes of one aspect on the model of each rater; `note_rules` are the rules of earlier notes."""
    aspect_text = label_of(aspect)
    raters_of_rule_and_message = defaultdict[tuple[str, str], list[str]](list)  # by rule and message
    for rater, model in model_of_rater.items():
        for rule, message in _messages(systems, model, options.confidence):
            raters_of_rule_and_message[rule, message].append(rater)
    for corrected_model in corrected_models:
        if corrected_model.reason:
            message = f"there is no correction, because {corrected_model.reason}"
            if corrected_model.p_random < NOT_RANDOM:
                message += "; the ranking by annotators holds only for the comparisons that annotators rated"
            raters_of_rule_and_message["not-corrected", message].append(corrected_model.metric)
        elif corrected_model.order_averaged:
            message = (
                "annotators and metric saw outputs in different orders. The effect of the order is averaged out, "
                "because annotators saw the two systems of a pair first about equally often (no significant "
                "difference)"
            )
            raters_of_rule_and_message["order-averaged", message].append(corrected_model.metric)
    notes = [
        Note(rule=rule, message=f"{join_labels(rater_names, limit=4)}{aspect_text}: {message}", aspect=aspect)
        for (rule, message), rater_names in raters_of_rule_and_message.items()
    ]
    if (
        HUMAN in model_of_rater
        and "sides" not in note_rules
        and len(systems) == 2
        and (model_of_rater[HUMAN].rates[0] == 1).any()
    ):
        message = (
            f"annotators always prefer {_list_systems(systems, model_of_rater[HUMAN].rates[0] == 1)}{aspect_text}; if "
            "the two systems are only sides of a pair (chosen, rejected), a leaderboard has no meaning"
        )
        notes += build_notes(("one-sided-annotators", True, message), aspect=aspect)
    if HUMAN in model_of_rater and (pair_tests := model_of_rater[HUMAN].direct) is not None:
        message = (
            f"strengths by human ratings do not fit {pair_tests.misfit.sum()} of "
            f"{plural(len(pair_tests.misfit), 'pair')} of systems{aspect_text}: the win rate differs significantly"
            " from the expected win rate (column p_fit of the table pairs)"
        )
        notes += build_notes(("misfit", bool(pair_tests.misfit.any()), message), aspect=aspect)
    min_n_clusters = min((model.strengths.clusters for model in model_of_rater.values()), default=FEW)
    notes += few_clusters_notes(min_n_clusters, options.resamples, aspect=aspect)
    return [
        *notes,
        *build_notes(
            (
                "one-item",
                min_n_clusters < 2,
                f"there are no intervals{aspect_text}, because there is only one item or cluster to resample",
            ),
            aspect=aspect,
        ),
    ]


def uncorrected_notes(counts: OutcomeCounts) -> list[Note]:
    """Return the note on metrics that could correct human ratings if the study were given instead of counts."""
    correctable_metrics = list(
        compress(counts.metrics, counts.metric_only.sum(axis=(0, 2)) * counts.paired.sum(axis=(0, 2, 3)) > 0)
    )
    message = (
        f"{join_labels(correctable_metrics, limit=4)}: counts do not record which comparisons annotators and a metric "
        "share, so human ratings are not corrected by metrics; for the correction, give the study instead of counts"
    )
    return build_notes(("counts-not-corrected", len(correctable_metrics), message))


def _messages(systems: Sequence[str], model: FittedModel, confidence: float) -> list[tuple[str, str]]:
    """Return the rules and messages of the notes on one model."""
    component_of_system, is_unknown_system, pair_rates = parts(model), model.unknown, model.pairs
    component_texts = [
        _list_systems(systems, (component_of_system == component_number) & ~is_unknown_system)
        for component_number in np.unique(component_of_system[~is_unknown_system])
    ]
    components_text = f"systems that are not connected by comparisons cannot be compared: {' | '.join(component_texts)}"
    has_only_ties = pair_rates is not None and not pair_rates.outcomes[:, [0, 2]].any()
    unbounded_text = "" if has_only_ties else _unbounded_message(systems, model)
    n_clusters, n_effective_clusters = model.strengths.clusters, model.strengths.n_units
    clusters_text = f"{n_clusters} clusters of items" + (
        f" (like {n_effective_clusters:.1f} equal clusters)" if n_effective_clusters < n_clusters - 0.05 else ""
    )
    n_clusters_needed = next(
        n_equal_clusters for n_equal_clusters in count(2) if smallest_p_value(n_equal_clusters) <= 1 - confidence
    )
    cycle_texts_and_win_rates = [
        (
            ", ".join(
                f"{systems[winner]} beats {systems[loser]}"
                for winner, loser in pairwise([*system_cycle, system_cycle[0]])
            ),
            smallest_win_rate,
        )
        for system_cycle, smallest_win_rate, _ in model.cycles
    ]
    candidate_notes = [
        (
            "no-test",
            len(model.strengths.draws) > 1 and model.strengths.n_units > 1 and not is_testable(model, confidence),
            f"with {clusters_text}, no difference between systems can be significant at a confidence of "
            f"{confidence:g}, so there are no tests; {n_clusters_needed} clusters of equal size are the minimum",
        ),
        (
            "no-battle",
            is_unknown_system.any() and pair_rates is not None,
            f"there are no comparisons of {_list_systems(systems, is_unknown_system)}, so their strengths cannot be "
            "estimated",
        ),
        ("split", len(component_texts) > 1, f"{components_text}. Ranks and groups hold within each part"),
        ("all-ties", has_only_ties, "every comparison is a tie, so systems do not differ"),
        ("unbeaten", unbounded_text, unbounded_text),
        (
            "not-all-met",
            pair_rates is not None and len(pair_rates.first) < comb((~is_unknown_system).sum(), 2),
            "not all pairs of systems were compared, so win rates are against different opponents; the ranking uses "
            "strengths, which account for the opponents",
        ),
        *(
            (
                "cycle",
                True,
                f"{cycle_text} (each significantly, with at least {smallest_win_rate:.0%} of the points), so no "
                "ranking describes these systems; read the table pairs instead of the strengths",
            )
            for cycle_text, smallest_win_rate in cycle_texts_and_win_rates
        ),
        *(
            (
                "unvaried",
                True,
                f"{covariate_name} does not vary within systems, so strengths are not adjusted for {covariate_name}",
            )
            for covariate_name in model.unvaried
        ),
        (
            "no-covariate",
            model.missing > 0,
            f"{model.missing} comparisons are excluded, because the value of a covariate is missing",
        ),
    ]
    return [(rule, message) for rule, is_needed, message in candidate_notes if is_needed]


def _unbounded_message(systems: Sequence[str], model: FittedModel) -> str:
    """Return the message on systems whose strength is finite only because of a penalty; empty without such systems."""
    is_unbounded_system, win_rates = ~model.strengths.bounded & ~model.unknown, model.rates[0]
    group_texts = [
        f"{_list_systems(systems, is_unbounded_system & is_system_of_kind)} {kind_text}"
        for is_system_of_kind, kind_text in (
            (win_rates == 1, "won every comparison"),
            (win_rates == 0, "lost every comparison"),
            (~np.isin(win_rates, [0, 1]), "belonged to a group that won, or lost, every comparison with other systems"),
        )
        if (is_unbounded_system & is_system_of_kind).any()
    ]
    if not group_texts:
        return ""
    possessive_text = "its strength" if is_unbounded_system.sum() == 1 else "their strengths"
    return f"{', '.join(group_texts)}, so the interval of {possessive_text} has only one known bound"


def _list_systems(systems: Sequence[str], is_listed: Bools) -> str:
    return join_labels(list(compress(systems, is_listed)), limit=6)
