"""Sentences on rates of labels: rates, errors of the judge, differences between systems and slices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from custodes.answers.result import Result
from custodes.answers.wording import estimate_with_interval, interval, names, p_value_phrase, percent, plural
from custodes.data.comparisons import HUMAN
from custodes.evaluate.verdict.metrics import serious
from custodes.evaluate.verdict.view import MOST_NAMED, Row, Statements, applicable, grouped

LEAST_SAVING = 0.05
"""Smallest proportion of saved human labels that is reported."""
MOST_LISTED = 2 * MOST_NAMED


def rate_sentences(results: Mapping[str, Result], aspect: str) -> Statements:
    """Return the sentences on one aspect, by kind; `results` has `check` and `rates`."""
    problem_rows, rater_rows = (
        results["check"].to_frame(table_name).filter(aspect=aspect) for table_name in ("problems", "raters")
    )
    rate_rows, judge_rows, system_difference_rows, slice_rows, replacement_rows = (
        results["rates"].to_frame(table_name).filter(aspect=aspect)
        for table_name in ("rates", "judges", "differences", "slices", "replacement")
    )
    best_judge, has_several_systems = _best_judge(judge_rows), rate_rows["system"].n_unique() > 1
    best_judge_rate_rows = rate_rows.filter(pl.col("metric") == best_judge).to_dicts()
    common_judge_rows = judge_rows.head(MOST_LISTED).filter(pl.col("accuracy").is_not_null())
    return [
        ("design", serious(problem_rows.filter(pl.col("rule") != "nothing-compared"), rater_rows["rater"])),
        ("rates", [_rate(row, has_several_systems=has_several_systems) for row in best_judge_rate_rows[:MOST_LISTED]]),
        ("trust", map(_trust, common_judge_rows.to_dicts())),
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
    judge_text, human_text, corrected_text = (
        estimate_with_interval(rate_row, column_name, write=percent)
        for column_name in ("judge_rate", "human_rate", "corrected_rate")
    )
    if rate_row["corrected_rate"] is None:
        if rate_row["n_labelled"]:
            return f"The corrected rate of {rate_row['label']}{system_text} is undefined: {rate_row['reason']}."
        return (
            f"{rate_row['metric']} labels {judge_text} of the outputs{system_text} as {rate_row['label']}. Without "
            "human labels the true rate is unknown."
        )
    has_judge = rate_row["metric"] != HUMAN
    source_texts = applicable(
        (
            has_judge and rate_row["judge_rate"] is not None,
            f"{rate_row['metric']} alone gives {percent(rate_row['judge_rate'])}",
        ),
        (has_judge and rate_row["human_rate"] is not None, f"human labels alone give {human_text}"),
        (True, plural(rate_row["n_labelled"], "human label")),
    )
    return (
        f"Annotators would label about {corrected_text if has_judge else human_text} of the outputs{system_text} as "
        f"{rate_row['label']} ({'; '.join(source_texts)})."
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
        f"that annotators label as {judge_row['label']} (TPR) and "
        f"{estimate_with_interval(judge_row, 'tnr', write=percent)} of the other outputs (TNR); kappa {kappa}, "
        f"{plural(judge_row['n_labelled'], 'human label')}."
    )


def _replacement(replacement_rows: pl.DataFrame) -> Iterator[str]:
    """Yield sentences on judges that pass the alternative annotator test, and on judges that do not pass it."""
    tested_rows = replacement_rows.filter(pl.col("may_replace").is_not_null())
    rows_by_winning_rate = tested_rows.sort("winning_rate", descending=True, maintain_order=True).to_dicts()
    texts_by_result = grouped(
        (row["may_replace"], f"{row['metric']} ({percent(row['winning_rate'])})") for row in rows_by_winning_rate
    )
    for is_passed, judge_texts in texts_by_result.items():
        result_text = "Judges that may" if is_passed else "Judges that are not shown to be able to"
        yield (
            f"{result_text} replace an annotator: {names(judge_texts)} (alternative annotator test, "
            f"{plural(rows_by_winning_rate[0]['annotators'], 'annotator')}, epsilon "
            f"{rows_by_winning_rate[0]['epsilon']:g}; winning rate in brackets; at least 50 % is needed)."
        )


def _differences(system_difference_rows: pl.DataFrame) -> Iterator[str]:
    significant_rows = system_difference_rows.filter(pl.col("decision").is_in(["+", "-"]))
    undecided_rows = system_difference_rows.filter(decision="=")
    for difference_row in significant_rows.head(MOST_NAMED).to_dicts():
        sign = 1 if difference_row["decision"] == "+" else -1
        better_system, worse_system = (difference_row["system_a"], difference_row["system_b"])[::sign]
        yield (
            f"{better_system} has a significantly higher rate of {difference_row['label']} than {worse_system}: by "
            f"{_points(difference_row, 'corrected_difference', sign=sign)} "
            f"({p_value_phrase(difference_row['p_adjusted'])}, all pairs tested together)."
        )
    n_named_pairs = 1 if significant_rows.height else MOST_NAMED
    for difference_row in undecided_rows.head(n_named_pairs).to_dicts():
        yield (
            f"{difference_row['system_a']} and {difference_row['system_b']} do not differ significantly in the rate of "
            f"{difference_row['label']} (difference {_points(difference_row, 'corrected_difference')}, "
            f"{p_value_phrase(difference_row['p_adjusted'])}, all pairs tested together)."
        )
    if undecided_rows.height > n_named_pairs or significant_rows.height > MOST_NAMED:
        yield (
            f"In all, {plural(significant_rows.height, 'pair')} of systems differ significantly, and "
            f"{undecided_rows.height} do not."
        )


def _saved_labels(rate_rows: Sequence[Row]) -> Iterator[str]:
    """Yield a sentence on the human labels that the judge saves, for each of the first systems."""
    label_count_texts = [
        f"{row['n_labelled']} instead of about {row['n_labelled'] + row['labels_saved']}"
        + (f" for {row['system']}" if len(rate_rows) > 1 else "")
        for row in rate_rows
        if row["labels_saved"] and row["labels_saved"] >= LEAST_SAVING * row["n_labelled"]
    ]
    if label_count_texts:
        yield (
            f"With {rate_rows[0]['metric']}, fewer human labels give equally narrow intervals: "
            f"{names(label_count_texts)}."
        )


def _points(difference_row: Row, column: str, *, sign: int = 1) -> str:
    """Return a difference of rates in percentage points, multiplied by `sign`."""
    bounds = [difference_row[f"{column}{suffix}"] for suffix in ("_low", "_high")][::sign]
    estimate_and_bounds = (None if value is None else 100 * sign * value for value in (difference_row[column], *bounds))
    return f"{interval(*estimate_and_bounds, digits=0)} percentage points"


def _favoritism_sentences(system_difference_rows: pl.DataFrame) -> Iterator[str]:
    for difference_row in system_difference_rows.filter(pl.col("favoured") != "").to_dicts()[:MOST_NAMED]:
        system_a, system_b = difference_row["system_a"], difference_row["system_b"]
        error_rates = [rate_name for rate_name in ("tpr", "tnr") if difference_row[f"p_{rate_name}"] is not None]
        rate_name = min(error_rates, key=lambda rate_name: difference_row[f"p_{rate_name}"])
        yield (
            f"{difference_row['metric']} over-rates {difference_row['favoured']} in the comparison of {system_a} and "
            f"{system_b} by the rate of {difference_row['label']}: its {rate_name.upper()} differs by "
            f"{_points(difference_row, f'{rate_name}_difference')} "
            f"({p_value_phrase(difference_row[f'p_{rate_name}'])}). Do not compare systems by the labels of "
            f"{difference_row['metric']} alone."
        )


def _slices(slice_rows: pl.DataFrame) -> Iterator[str]:
    finding_rows = slice_rows.filter(pl.col("finding") != "")
    for finding_row in finding_rows.to_dicts()[:MOST_NAMED]:
        tpr_text, tnr_text, rate_text = (
            estimate_with_interval(finding_row, column_name, write=percent)
            for column_name in ("tpr", "tnr", "corrected_rate")
        )
        rates_text = f"TPR {tpr_text}, TNR {tnr_text}, corrected rate " if finding_row["metric"] != HUMAN else ""
        yield (
            f"On {finding_row['slice']}, {finding_row['metric']} labels show a significantly {finding_row['finding']} "
            f"than elsewhere ({rates_text}{rate_text})."
        )
    if finding_rows.height > MOST_NAMED:
        further_slices = finding_rows["slice"].to_list()[MOST_NAMED:]
        yield f"Further slices differ significantly: {names(further_slices, limit=MOST_NAMED)}."
