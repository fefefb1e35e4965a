"""Tests of LLM judges: position bias, repeatability, length bias, self-preference, failures and calibration."""

from __future__ import annotations

from functools import partial
from typing import Any, Unpack

import numpy as np
import polars as pl

from custodes.answers.question import Rng, question
from custodes.answers.result import Result, result
from custodes.answers.shared_arguments import PreferenceOptions, selection_arguments, settings
from custodes.answers.tables import count, difference, label, labels, p_value, points, score, share, table
from custodes.data.notes import Note, build_notes
from custodes.data.study import Study
from custodes.data.ties_and_orders import HALF_RULE
from custodes.errors import join_labels
from custodes.evaluate.consistency.aspect_preferences import AspectPreferences, aspect_preferences
from custodes.evaluate.consistency.committee import panel_columns
from custodes.evaluate.consistency.confidence import confidence_rows
from custodes.evaluate.consistency.findings import SAID, Finding, finding_rows
from custodes.evaluate.consistency.missing import ALL, REASON, missing_columns
from custodes.evaluate.consistency.orders import order_columns
from custodes.evaluate.consistency.preference_biases import length_rows, self_preference
from custodes.evaluate.consistency.probes import probe_columns
from custodes.evaluate.consistency.repeats import label_agreement_rows, ratios_of, repeat_columns
from custodes.evaluate.decision_graph import CELLS
from custodes.evaluate.parallel import map_parts
from custodes.evaluate.partiality_table import INCONCLUSIVE
from custodes.evaluate.rater_scores import few_clusters_notes
from custodes.evaluate.slices import BY, slice_columns, slice_notes, slice_table, slices_of_items
from custodes.progress import Progress, silent

RATER = label("rater", "a judge, a metric or an annotator")


@result
class Consistency(Result):
    """Biases and consistency of each judge. See `consistency`."""

    PICTURE = "judge_faults"

    findings: pl.DataFrame = table(
        "One row per rater and kind of fault that was tested.",
        RATER,
        label("kind", f"`{'`, `'.join(SAID)}`"),
        label(
            "factor",
            "subject of the test: own system of the judge, probe, or factor on which missing verdicts depend "
            "(`system`, `order` or `length`)",
        ),
        points(
            "estimate",
            "estimated effect in points, which depends on `kind`: margin of the output shown first; margin of the "
            "longer output, adjusted for human preference; part of the win rate of the judge's own system that "
            "quality does not explain; mean confidence minus accuracy; effect of a probe. Null for failures",
            interval=True,
        ),
        p_value("p_value", "p-value of this test alone", "p", essential=False),
        p_value(
            "p_adjusted", "p-value adjusted for all raters, kinds and aspects of the study (Holm)", "p, all tested"
        ),
        label(
            "finding",
            f"text of the finding if `p_adjusted` is at most alpha. `{INCONCLUSIVE}` if there is no test. Otherwise "
            "empty",
        ),
        label("reason", "reason for an inconclusive result", essential=False),
    )
    orders: pl.DataFrame = table(
        "One row per rater with verdicts: does the verdict depend on the presentation order?",
        RATER,
        count("n_both_orders", "comparisons with verdicts in both orders", "Both orders"),
        count(
            "n_half_answered",
            "comparisons that were queried in both orders, but for which the rater gave a verdict in only one order. "
            "They are excluded from statistics that combine both orders into one verdict",
            essential=False,
        ),
        share(
            "consistency",
            "among comparisons with verdicts in both orders, the proportion with equal verdicts",
            "Same verdict",
            interval=True,
            best="high",
        ),
        share(
            "flip_rate",
            "among comparisons with verdicts in both orders, the proportion with two opposite winners",
            "Flips",
            interval=True,
            best="low",
        ),
        score(
            "alpha",
            "Krippendorff's alpha (nominal) between the orders: 1 if verdicts are always the same, 0 at chance level",
            "Alpha",
            interval=True,
            best="high",
        ),
        share(
            "first_rate",
            "proportion of decided verdicts (no ties) that prefer the output shown first",
            "First wins",
            interval=True,
        ),
    )
    confusion: pl.DataFrame = table(
        "One row per rater: counts of comparisons by the outcome of the first system when shown "
        "first and when shown second.",
        RATER,
        *(count(cell, "{} if shown first, {} if shown second".format(*cell.split("_"))) for cell in CELLS),
        essential=False,
    )
    repeats: pl.DataFrame = table(
        "One row per rater with repeated verdicts: noise of verdicts, and the effect of the presentation order.",
        RATER,
        count("comparisons", "comparisons with several verdicts in one order"),
        share(
            "agreement_within_order",
            "probability that two runs in one order agree",
            "Same in one order",
            interval=True,
            best="high",
        ),
        share(
            "agreement_across_orders",
            "probability that two runs in different orders agree",
            "Same in both orders",
            interval=True,
        ),
    )
    repeated_labels: pl.DataFrame = table(
        "One row per rater with repeated labels of outputs, or with repeated scores that are only a few whole "
        "numbers: do labels change?",
        RATER,
        count("outputs", "outputs with several labels by this rater", "Outputs"),
        share(
            "agreement", "probability that two labels of an output are equal", "Same label", interval=True, best="high"
        ),
        score(
            "alpha",
            "Krippendorff's alpha between runs (ordinal if labels have an order): 1 if labels are always the same, 0 "
            "at chance level",
            "Alpha",
            interval=True,
            best="high",
        ),
    )
    slices: pl.DataFrame = slice_table(
        "rater",
        "One row per rater, statistic and slice, if `by` is set.",
        "`consistency`, `first_rate` (table orders), `agreement_within_order` (repeats), `agreement` "
        "(repeated_labels) or `failure_rate` (missing)",
    )
    missing: pl.DataFrame = table(
        "Rates of empty and unreadable verdicts of each rater: overall, and by reason, system, order and length.",
        RATER,
        label(
            "factor", "`all`, `reason`, `system`, `order` or `length` (ten classes of the total length of both outputs)"
        ),
        label(
            "level", "value of the factor: a reason, a system, an order, or a class of length from 1 (shortest) to 10"
        ),
        count("queried", "number of queried verdicts"),
        share(
            "failure_rate",
            "proportion of queried verdicts that failed (empty or unreadable); with factor `reason`, proportion that "
            "failed for this reason",
            "Failed",
            interval=True,
        ),
        rows=lambda result: result.missing.filter(pl.col("factor").is_in([ALL, REASON])),
    )
    length: pl.DataFrame = table(
        "One row per rater of outputs with texts: does the rater prefer longer outputs?",
        RATER,
        count(
            "comparisons",
            "comparisons in which both outputs have texts; comparisons with the rater's own systems are excluded",
        ),
        share("longer_win_rate", "win rate of the longer output; a tie is half a win", "Longer wins"),
        score("raw_effect", "logit slope of verdicts on the log ratio of words", "Raw slope (log odds)", interval=True),
        p_value("raw_p_value", "p-value for a raw slope of 0; not adjusted for the number of raters", essential=False),
    )
    probes: pl.DataFrame = table(
        "One row per rater and probe (`judge --probe`): does another form of the same output change the outcome?",
        RATER,
        label("probe", "`length`, `format`, `name: SYSTEM` or a file of rewritten outputs"),
        count("n", "questions answered in both forms"),
        share("change_rate", "proportion of outcomes that differ between the forms", "Differ", interval=True),
    )
    confidence: pl.DataFrame = table(
        "One row per judge that gives outcome probabilities (`p_a`, `p_tie`, `p_b`); only "
        "comparisons with human verdicts are used.",
        RATER,
        count("comparisons", "comparisons that have both outcome probabilities of the judge and a human verdict"),
        score(
            "brier",
            "Brier score for the joint human verdict, from 0 (best) to 2 (worst); the probabilities are averaged over "
            "the verdicts on a comparison",
            "Brier score",
            interval=True,
            best="low",
        ),
        score(
            "brier_skill",
            "1 - `brier` / Brier score of a constant forecast. This forecast is the human rate of ties, with equal "
            "probabilities for both systems. At 0 or less, the judge is no better than this forecast",
            "Brier skill",
            interval=True,
            best="high",
        ),
        share("mean_confidence", "mean probability of the most likely outcome of a verdict", "Mean confidence"),
        share("accuracy", "proportion of verdicts whose most likely outcome is the human verdict", "Accuracy"),
        share(
            "ece",
            "expected calibration error: mean distance of accuracy and confidence in bins of similar confidence",
            "Calibration error",
            best="low",
        ),
        share(
            "expected_ece",
            "approximate value of `ece` that a calibrated judge would have by chance; compare `ece` with this value",
            "Expected if calibrated",
        ),
    )
    reliability: pl.DataFrame = table(
        "The reliability curve: one row per judge and bin of confidence.",
        RATER,
        count("verdicts", "verdicts in the bin; bins have similar numbers of verdicts"),
        share("mean_confidence", "mean probability of the most likely outcome"),
        share("accuracy", "proportion of verdicts whose most likely outcome is the human verdict", interval=True),
        essential=False,
    )
    panels: pl.DataFrame = table(
        "Accuracy of each judge and of majority votes of several judges.",
        label("panel", "`all`, `best majority`, `best single judge` or the name of a judge"),
        count("comparisons", "comparisons on which annotators and all judges of the table gave verdicts"),
        share(
            "accuracy",
            "proportion of comparisons that the panel and the annotators decide equally; a tie against a decision "
            "counts half. A best panel is chosen on one part of the items, and evaluated on another part",
            interval=True,
            best="high",
        ),
        difference("gain", "accuracy minus the accuracy of `best single judge`", "Gain over the best", interval=True),
        labels("judges", "members of the panel; the members of a best panel are chosen on all items", "Members"),
        essential=False,
    )


@question("custodes consistency battles.csv --invalid drop --format csv --table orders", by=BY)
def consistency(
    study: Study,
    *,
    by: str | None = None,
    confidence: float = 0.95,
    resamples: int = 1000,
    alpha: float = 0.05,
    rng: Rng = 0,
    progress: Progress = silent,
    **setting: Unpack[PreferenceOptions],
) -> Consistency:
    """Test LLM judges: position bias, repeatability, length bias, self-preference, failures, calibration, majorities.

    Notes
    -----
    All raters with verdicts or scores are examined, including annotators. Human ratings are needed only for four kinds
    of result: length bias adjusted for human preference, self-preference, confidence and panels. The table `findings`
    has a row for each test. A finding is significant if its p-value is at most `alpha`. The p-value is adjusted for all
    tests of the study (Holm). Intervals are Student's t intervals over resampled clusters of items. The intervals in
    `findings` are derived from the tests instead.

    For labels (pass or fail, categories), the table `repeated_labels` compares repeated labels of the same output. If
    `by` is set, the table `slices` compares each slice of items with all other slices, by permutation of items.

    References
    ----------
    Zheng et al. 2023 (position bias); von Däniken et al. 2024, Figure 7 (alpha between orders). The tests of length
    and failures are new.

    Examples
    --------
    >>> import custodes as cu
    >>> result = cu.consistency(cu.read("demo"), aspect="fluency", resamples=50)
    >>> result.panels["panel"].to_list()[:3]
    ['all', 'best majority', 'best single judge']
    """
    full_setting = settings(setting)
    selected_study = study.select(**selection_arguments(full_setting), one_side=True)
    own_system_findings = self_preference(study, selected_study, full_setting, alpha=alpha, confidence=confidence)
    preferences_of_aspects = aspect_preferences(selected_study, full_setting)
    answers_of_aspects = list(
        map_parts(
            partial(
                _answer,
                selected_study,
                own_system_findings,
                setting=full_setting,
                by=by,
                alpha=alpha,
                confidence=confidence,
                resamples=resamples,
            ),
            preferences_of_aspects,
            rng=np.random.default_rng(rng),
            progress=progress,
            desc="consistency",
        )
    )
    finding_dicts = finding_rows(
        [finding for _, aspect_findings, _ in answers_of_aspects for finding in aspect_findings], alpha=alpha
    )
    tables_of_aspects = [
        Consistency.part(
            preferences.aspect,
            **columns_of_table,
            findings=[finding_dict for finding_dict in finding_dicts if finding_dict["aspect"] == preferences.aspect],
        )
        for preferences, (columns_of_table, _, _) in zip(preferences_of_aspects, answers_of_aspects, strict=True)
    ]
    n_excluded_ties = selected_study.preferences.frame.height - selected_study.preferences.queried_verdicts.frame.height
    notes = [*selected_study.notes, *(note for *_, aspect_notes in answers_of_aspects for note in aspect_notes)]
    notes += build_notes(
        (
            "not-asked",
            n_excluded_ties,
            (
                f"{n_excluded_ties} comparisons of identical outputs are excluded, because the judge was not queried "
                "about these comparisons"
            ),
        )
    )
    return Consistency.from_parts(
        tables_of_aspects, [*notes, *_notes(Consistency.from_parts(tables_of_aspects, notes), study)]
    )


def _answer(
    study: Study,
    own_findings_of_aspect: dict[str, list[Finding]],
    preferences: AspectPreferences,
    rng: np.random.Generator,
    *,
    setting: PreferenceOptions,
    by: str | None,
    alpha: float,
    confidence: float,
    resamples: int,
) -> tuple[dict[str, Any], list[Finding], list[Note]]:
    bootstrap_weights = preferences.design.draw_weights(resamples, rng)
    order_table, confusion_table, findings = order_columns(study, preferences, bootstrap_weights, confidence)
    missing_rng, length_rng = rng.spawn(2)  # estimates must not depend on the number of resamples
    missing_table, failure_findings = missing_columns(preferences, bootstrap_weights, confidence, missing_rng)
    own_system_findings = own_findings_of_aspect.get(preferences.aspect, [])
    length_table, length_findings = length_rows(preferences, own_system_findings, confidence, length_rng)
    panel_table, panel_notes = panel_columns(study, preferences, bootstrap_weights, confidence)
    confidence_table, reliability_table, confidence_findings = confidence_rows(
        study, preferences, setting, bootstrap_weights, confidence
    )
    probe_table, probe_findings = probe_columns(study, preferences, bootstrap_weights, confidence)
    findings += [*length_findings, *own_system_findings, *failure_findings, *confidence_findings, *probe_findings]
    tables: dict[str, Any] = {
        "orders": order_table,
        "confusion": confusion_table,
        "repeats": repeat_columns(preferences, bootstrap_weights, confidence),
        "repeated_labels": label_agreement_rows(study, preferences, bootstrap_weights, confidence),
        "missing": missing_table,
        "length": length_table,
        "probes": probe_table,
        "confidence": confidence_table,
        "reliability": reliability_table,
        "panels": panel_table,
    }
    notes = [*few_clusters_notes(preferences.n_units, resamples, aspect=preferences.aspect), *panel_notes]
    if by:
        ratios, item_slices = ratios_of(study, preferences), slices_of_items(study, preferences.design.items, by)
        tables["slices"] = slice_columns("rater", ratios, item_slices, confidence=confidence, alpha=alpha)
        notes += slice_notes(by, ratios, item_slices, preferences.aspect)
    notes += build_notes(
        (
            "item-weights",
            preferences.design.has_item_weights,
            "item weights have no effect on this question, in which every item counts once",
        )
    )
    return tables, findings, notes


def _notes(answer: Consistency, study: Study) -> list[Note]:
    """Return the notes on properties of judges that could not be examined."""
    one_order_raters = answer.orders.filter(pl.col("n_both_orders") == 0)["rater"].unique(maintain_order=True)
    half_answered_rows = answer.orders.filter(pl.col("n_half_answered") > 0)
    inconclusive_rows = answer.findings.filter(pl.col("finding") == INCONCLUSIVE)
    is_all_empty = all(table.is_empty() for table in answer.tables().values())
    return build_notes(
        (
            "nothing-examined",
            is_all_empty,
            "there is nothing to examine, because each output has only one score by each rater, there are no texts, "
            "and there are no two judges to compare with annotators. Add one of these: verdicts in both orders, "
            "repeated ratings, texts of outputs, human ratings",
        ),
        (
            "one-order",
            one_order_raters.len(),
            f"{join_labels(one_order_raters)} judged no comparison in both orders, so the flip rate is unknown; show "
            "some comparisons in both orders",
        ),
        (
            HALF_RULE,
            int(half_answered_rows["n_half_answered"].sum()),
            f"{half_answered_rows['n_half_answered'].sum()} comparisons were queried in both orders, but "
            f"{join_labels(half_answered_rows['rater'].unique(maintain_order=True))} gave a verdict in only one order; "
            "these comparisons are excluded if both orders are combined into one verdict",
        ),
        (
            "no-texts",
            study.outputs is None and not is_all_empty and len(study.systems) > 1,
            "there are no texts of outputs, so length bias cannot be tested; add a file of outputs",
        ),
        (
            "inconclusive",
            inconclusive_rows.height,
            f"inconclusive tests: {inconclusive_rows.height} of {answer.findings.height} "
            f"({join_labels(inconclusive_rows['reason'].unique(maintain_order=True), limit=3)})",
        ),
    )
