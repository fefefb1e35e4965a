"""Sentences on rates of labels: rates, errors of the judge, differences between systems and slices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from custodes.answers.result import Result
from custodes.answers.wording import estimate_with_interval, interval, names, p_value_phrase, percent, plural
from custodes.data.comparisons import HUMAN
from custodes.evaluate.verdict.view import MOST_NAMED, Row, Statements, applicable

LEAST_SAVING = 0.05
"""Smallest proportion of saved human labels that is reported."""


def rate_sentences(result: Result, aspect: str) -> Statements:
    """Return the sentences on one aspect, by kind."""
    rate_rows, judge_rows, system_difference_rows, slice_rows, replacement_rows = (
        result.to_frame(table_name).filter(aspect=aspect)
        for table_name in ("rates", "judges", "differences", "slices", "replacement")
    )
    best_judge, has_several_systems = _best_judge(judge_rows), rate_rows["system"].n_unique() > 1
    best_judge_rate_rows = rate_rows.filter(pl.col("metric") == best_judge).to_dicts()
    leading_judge_rows = judge_rows.to_dicts()[: 2 * MOST_NAMED]
    return [
        (
            "rates",
            [
                _rate(rate_row, has_several_systems=has_several_systems)
                for rate_row in best_judge_rate_rows[: 2 * MOST_NAMED]
            ],
        ),
        ("trust", [_trust(judge_row) for judge_row in leading_judge_rows if judge_row["accuracy"] is not None]),
        ("trust", _replacement(replacement_rows)),
        ("best", _differences(system_difference_rows.filter(pl.col("metric") == best_judge))),
        ("favours", _favoritism_sentences(system_difference_rows)),
        ("slices", _slices(slice_rows)),
        ("labels", _saved_labels(best_judge_rate_rows) if rate_rows["label"].n_unique() == 1 else ()),
    ]


def _best_judge(judge_rows: pl.DataFrame) -> str:
    """Return the judge with the highest chance-corrected agreement, whose corrected rates are reported.

    If there is no judge, return `human`.
    """
    # judges without labels in common with the annotators come last
    kappa_expression = pl.when(pl.col("accuracy").is_not_null()).then(pl.col("kappa").fill_null(-1.0))
    ranked_judge_rows = judge_rows.sort(kappa_expression, descending=True, nulls_last=True, maintain_order=True)
    return str(ranked_judge_rows["metric"][0]) if judge_rows.height else HUMAN


def _rate(rate_row: Row, *, has_several_systems: bool) -> str:
    system_text = f" of {rate_row['system']}" if has_several_systems else ""
    if rate_row["metric"] == HUMAN:
        return (
            f"About {estimate_with_interval(rate_row, 'human_rate', write=percent)} of the outputs{system_text} are "
            f"{rate_row['label']} by human judgement ({plural(rate_row['n_labelled'], 'human label')})."
        )
    if rate_row["corrected_rate"] is None:
        if rate_row["n_labelled"]:
            return f"The corrected rate of {rate_row['label']}{system_text} is undefined: {rate_row['reason']}."
        return (
            f"{rate_row['metric']} labels {estimate_with_interval(rate_row, 'judge_rate', write=percent)} of the "
            f"outputs{system_text} as "
            f"{rate_row['label']}. Without human labels the true rate is unknown."
        )
    source_texts = applicable(
        (
            rate_row["judge_rate"] is not None,
            f"{rate_row['metric']} alone gives {percent(rate_row['judge_rate'])}",
        ),
        (
            rate_row["human_rate"] is not None,
            f"human labels alone give {estimate_with_interval(rate_row, 'human_rate', write=percent)}",
        ),
        (True, plural(rate_row["n_labelled"], "human label")),
    )
    return (
        f"About {estimate_with_interval(rate_row, 'corrected_rate', write=percent)} of the outputs{system_text} are "
        f"{rate_row['label']} by human judgement ({'; '.join(source_texts)})."
    )


def _trust(judge_row: Row) -> str:
    kappa = estimate_with_interval(judge_row, "kappa")
    if judge_row["tpr"] is None:
        return (
            f"{judge_row['metric']} gives the human label in "
            f"{estimate_with_interval(judge_row, 'accuracy', write=percent)} of cases (kappa {kappa})."
        )
    return (
        f"{judge_row['metric']} recognises {estimate_with_interval(judge_row, 'tpr', write=percent)} of the outputs "
        f"that are {judge_row['label']} by human judgement (TPR) and "
        f"{estimate_with_interval(judge_row, 'tnr', write=percent)} of the other outputs (TNR); kappa {kappa}, "
        f"{plural(judge_row['n_labelled'], 'human label')}."
    )


def _replacement(replacement_rows: pl.DataFrame) -> Iterator[str]:
    """Yield sentences on judges that pass the alternative annotator test, and on judges that do not pass it."""
    tested_rows = replacement_rows.filter(pl.col("may_replace").is_not_null())
    if tested_rows.is_empty():
        return
    first_tested_row = tested_rows.row(0, named=True)
    test_text = (
        f"(alternative annotator test, {plural(first_tested_row['annotators'], 'annotator')}, epsilon "
        f"{first_tested_row['epsilon']:g}; winning rate in brackets; at least 50 % is needed)"
    )
    rows_by_winning_rate = tested_rows.sort("winning_rate", descending=True, maintain_order=True).to_dicts()
    for is_passed, one_judge_text, several_judges_text in (
        (True, "may replace an annotator", "may replace an annotator"),
        (
            False,
            "is not shown to be able to replace an annotator",
            "are not shown to be able to replace an annotator",
        ),
    ):
        judge_texts = [
            f"{judge_row['metric']} ({percent(judge_row['winning_rate'])})"
            for judge_row in rows_by_winning_rate
            if judge_row["may_replace"] is is_passed
        ]
        if judge_texts:
            result_text = one_judge_text if len(judge_texts) == 1 else several_judges_text
            yield f"{names(judge_texts, limit=2 * MOST_NAMED)} {result_text} {test_text}."


def _differences(system_difference_rows: pl.DataFrame) -> Iterator[str]:
    significant_rows = system_difference_rows.filter(pl.col("decision").is_in(["+", "-"]))
    for difference_row in significant_rows.to_dicts()[:MOST_NAMED]:
        direction = 1 if difference_row["decision"] == "+" else -1
        better_system, worse_system = (difference_row["system_a"], difference_row["system_b"])[::direction]
        low, estimate, high = sorted(
            100 * direction * difference_row[f"corrected_difference{suffix}"] for suffix in ("_low", "", "_high")
        )
        yield (
            f"{better_system} has a significantly higher rate of {difference_row['label']} than {worse_system}: by "
            f"{interval(estimate, low, high, digits=0)} percentage points "
            f"({p_value_phrase(difference_row['p_adjusted'])}, all pairs tested together)."
        )
    undecided_rows = system_difference_rows.filter(decision="=").to_dicts()
    joint_test_text = ", all pairs tested together" if system_difference_rows.height > 1 else ""
    n_named_pairs = 1 if significant_rows.height else MOST_NAMED
    for difference_row in undecided_rows[:n_named_pairs]:
        yield (
            f"{difference_row['system_a']} and {difference_row['system_b']} do not differ significantly in the rate of "
            f"{difference_row['label']} (difference {_points(difference_row, 'corrected_difference')}, "
            f"{p_value_phrase(difference_row['p_adjusted'])}{joint_test_text})."
        )
    if len(undecided_rows) > n_named_pairs or significant_rows.height > MOST_NAMED:
        yield (
            f"In all, {plural(significant_rows.height, 'pair')} of systems differ significantly, and "
            f"{len(undecided_rows)} do not."
        )


def _saved_labels(rate_rows: Sequence[Row]) -> Iterator[str]:
    """Yield a sentence on the human labels that the judge saves, for each of the first systems."""
    saving_rows = [
        rate_row
        for rate_row in rate_rows
        if rate_row["labels_saved"] and rate_row["labels_saved"] >= LEAST_SAVING * rate_row["n_labelled"]
    ]
    if len(rate_rows) == 1 and saving_rows:
        (rate_row,) = rate_rows
        yield (
            f"With {rate_row['metric']}, {plural(rate_row['n_labelled'], 'human label')} give an interval as narrow as "
            f"about {rate_row['n_labelled'] + rate_row['labels_saved']} human labels alone."
        )
    elif saving_rows:
        label_count_texts = [
            f"{rate_row['n_labelled']} instead of about {rate_row['n_labelled'] + rate_row['labels_saved']} for "
            f"{rate_row['system']}"
            for rate_row in saving_rows[: 2 * MOST_NAMED]
        ]
        yield (
            f"With {saving_rows[0]['metric']}, fewer human labels give equally narrow intervals: "
            f"{', '.join(label_count_texts)}."
        )


def _points(difference_row: Row, column: str) -> str:
    """Return a difference of rates in percentage points."""
    estimate_and_bounds = (
        None if difference_row[column_name] is None else 100 * difference_row[column_name]
        for column_name in (column, f"{column}_low", f"{column}_high")
    )
    return f"{interval(*estimate_and_bounds, digits=0)} percentage points"


def _favoritism_sentences(system_difference_rows: pl.DataFrame) -> Iterator[str]:
    has_several_labels = system_difference_rows["label"].n_unique() > 1
    for difference_row in system_difference_rows.filter(pl.col("favoured") != "").to_dicts()[:MOST_NAMED]:
        label_text = f" in the rate of {difference_row['label']}" if has_several_labels else ""
        other_system = (
            difference_row["system_b"]
            if difference_row["favoured"] == difference_row["system_a"]
            else difference_row["system_a"]
        )
        error_rate_tests = (
            ("TPR", difference_row["p_tpr"], "tpr_difference"),
            ("TNR", difference_row["p_tnr"], "tnr_difference"),
        )
        rate_name, p_value, difference_column = min(
            (error_rate_test for error_rate_test in error_rate_tests if error_rate_test[1] is not None),
            key=lambda error_rate_test: error_rate_test[1],
        )
        yield (
            f"{difference_row['metric']} over-rates {difference_row['favoured']} relative to "
            f"{other_system}{label_text}: its {rate_name} differs between {difference_row['system_a']} and "
            f"{difference_row['system_b']} by {_points(difference_row, difference_column)} "
            f"({p_value_phrase(p_value)}). Do not compare systems by the labels of {difference_row['metric']} alone."
        )


def _slices(slice_rows: pl.DataFrame) -> Iterator[str]:
    finding_rows = slice_rows.filter(pl.col("finding") != "")
    for finding_row in finding_rows.to_dicts()[:MOST_NAMED]:
        if finding_row["metric"] == HUMAN:
            yield (
                f"On {finding_row['slice']}, the outputs have a significantly {finding_row['finding']} than elsewhere "
                f"({estimate_with_interval(finding_row, 'corrected_rate', write=percent)})."
            )
            continue
        yield (
            f"On {finding_row['slice']}, {finding_row['metric']} has a significantly {finding_row['finding']} than "
            f"elsewhere (TPR {estimate_with_interval(finding_row, 'tpr', write=percent)}, TNR "
            f"{estimate_with_interval(finding_row, 'tnr', write=percent)}, corrected rate "
            f"{estimate_with_interval(finding_row, 'corrected_rate', write=percent)})."
        )
    if finding_rows.height > MOST_NAMED:
        further_slices = finding_rows["slice"].to_list()[MOST_NAMED:]
        yield f"Further slices differ significantly: {names(further_slices, limit=MOST_NAMED)}."
