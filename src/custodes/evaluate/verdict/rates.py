"""Sentences on rates of labels: rates, errors of the judge, differences between systems and slices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from custodes.answers.result import Result
from custodes.answers.wording import estimate_with_interval, interval, names, p_value_phrase, percent, plural
from custodes.data.comparisons import HUMAN
from custodes.evaluate.verdict.view import MOST_NAMED, Row


def rate_sentences(result: Result, aspect: str) -> Iterator[tuple[str, str]]:
    """Yield the kind and the text of each sentence on one aspect."""
    rows, judges, differences, slices = (
        result.to_frame(name).filter(aspect=aspect) for name in ("rates", "judges", "differences", "slices")
    )
    labels = rows["label"].unique(maintain_order=True).to_list()
    best_judge = _best_judge(judges)
    best_judge_rows = rows.filter(pl.col("metric") == best_judge).to_dicts()
    for row in best_judge_rows[: 2 * MOST_NAMED]:
        yield "rates", _rate(row, has_several_systems=len({one["system"] for one in rows.to_dicts()}) > 1)
    for row in judges.to_dicts()[: 2 * MOST_NAMED]:
        if row["accuracy"] is not None:
            yield "trust", _trust(row)
    yield from (("trust", text) for text in _replacement(result.to_frame("replacement").filter(aspect=aspect)))
    yield from (("best", text) for text in _differences(differences.filter(pl.col("metric") == best_judge)))
    yield from (("favours", text) for text in _favoritism_sentences(differences))
    yield from (("slices", text) for text in _slices(slices))
    if len(labels) == 1:
        yield from (("labels", text) for text in _saved_labels(best_judge_rows))


def _best_judge(judges: pl.DataFrame) -> str:
    """Return the judge with the highest chance-corrected agreement, whose corrected rates are reported.

    If there is no judge, return `human`.
    """
    # judges without labels in common with the annotators come last
    agreement = pl.when(pl.col("accuracy").is_not_null()).then(pl.col("kappa").fill_null(-1.0))
    ranked_judges = judges.sort(agreement, descending=True, nulls_last=True, maintain_order=True)
    return str(ranked_judges["metric"][0]) if judges.height else HUMAN


def _rate(row: Row, *, has_several_systems: bool) -> str:
    system_text = f" of {row['system']}" if has_several_systems else ""
    if row["metric"] == HUMAN:
        return (
            f"About {estimate_with_interval(row, 'human_rate', write=percent)} of the outputs{system_text} are "
            f"{row['label']} by human judgement ({plural(row['n_labelled'], 'human label')})."
        )
    if row["corrected_rate"] is None:
        if row["n_labelled"]:
            return f"The corrected rate of {row['label']}{system_text} is undefined: {row['reason']}."
        return (
            f"{row['metric']} labels {estimate_with_interval(row, 'judge_rate', write=percent)} of the "
            f"outputs{system_text} as "
            f"{row['label']}. Without human labels the true rate is unknown."
        )
    source_texts = (
        [f"{row['metric']} alone gives {percent(row['judge_rate'])}"] if row["judge_rate"] is not None else []
    )
    if row["human_rate"] is not None:
        source_texts.append(f"human labels alone give {estimate_with_interval(row, 'human_rate', write=percent)}")
    return (
        f"About {estimate_with_interval(row, 'corrected_rate', write=percent)} of the outputs{system_text} are "
        f"{row['label']} by human judgement ({'; '.join(source_texts)}; {plural(row['n_labelled'], 'human label')})."
    )


def _trust(row: Row) -> str:
    kappa = estimate_with_interval(row, "kappa")
    if row["tpr"] is None:
        return (
            f"{row['metric']} gives the human label in {estimate_with_interval(row, 'accuracy', write=percent)} of "
            f"cases (kappa {kappa})."
        )
    return (
        f"{row['metric']} recognises {estimate_with_interval(row, 'tpr', write=percent)} of the outputs that are "
        f"{row['label']} by human judgement (TPR) and {estimate_with_interval(row, 'tnr', write=percent)} of the "
        f"other outputs (TNR); kappa {kappa}, {plural(row['n_labelled'], 'human label')}."
    )


def _replacement(rows: pl.DataFrame) -> Iterator[str]:
    """Yield sentences on judges that pass the alternative annotator test, and on judges that do not pass it."""
    tested = rows.filter(pl.col("may_replace").is_not_null())
    if tested.is_empty():
        return
    row = tested.to_dicts()[0]
    test_text = f"alternative annotator test, {plural(row['annotators'], 'annotator')}, epsilon {row['epsilon']:g}"
    for is_passed, result_text in (
        (True, "may replace an annotator"),
        (False, "not shown to be able to replace an annotator"),
    ):
        judge_rows = tested.filter(may_replace=is_passed).sort("winning_rate", descending=True, maintain_order=True)
        if judge_rows.height:
            judges_text = names(
                [f"{one['metric']} ({percent(one['winning_rate'])})" for one in judge_rows.to_dicts()],
                limit=2 * MOST_NAMED,
            )
            verb_text = "" if is_passed else "is " if judge_rows.height == 1 else "are "
            yield (
                f"{judges_text} {verb_text}{result_text} ({test_text}; winning rate in brackets; at least 50 % is "
                "needed)."
            )


def _differences(rows: pl.DataFrame) -> Iterator[str]:
    significant = rows.filter(pl.col("decision").is_in(["+", "-"]))
    for row in significant.to_dicts()[:MOST_NAMED]:
        sign = 1 if row["decision"] == "+" else -1
        better, worse = (row["system_a"], row["system_b"])[::sign]
        estimate_and_bounds = [row[f"corrected_difference{bound}"] * sign for bound in ("", "_low", "_high")]
        low, high = sorted(estimate_and_bounds[1:])
        yield (
            f"{better} has a significantly higher rate of {row['label']} than {worse}: by "
            f"{interval(estimate_and_bounds[0] * 100, low * 100, high * 100, digits=0)} percentage points "
            f"({p_value_phrase(row['p_adjusted'])}, all pairs tested together)."
        )
    undecided = rows.filter(decision="=").to_dicts()
    pairs_text = ", all pairs tested together" if rows.height > 1 else ""
    n_named = 1 if significant.height else MOST_NAMED
    for row in undecided[:n_named]:
        yield (
            f"{row['system_a']} and {row['system_b']} do not differ significantly in the rate of {row['label']} "
            f"(difference {_points(row, 'corrected_difference')}, {p_value_phrase(row['p_adjusted'])}{pairs_text})."
        )
    if len(undecided) > n_named or significant.height > MOST_NAMED:
        yield (
            f"In all, {plural(significant.height, 'pair')} of systems differ significantly, and {len(undecided)} do "
            "not."
        )


def _saved_labels(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a sentence on the human labels that the judge saves, for each of the first systems."""
    saving_rows = [row for row in rows if row["labels_saved"]]
    if len(rows) == 1 and saving_rows:
        (row,) = rows
        yield (
            f"With {row['metric']}, {plural(row['n_labelled'], 'human label')} give an interval as narrow as about "
            f"{row['n_labelled'] + row['labels_saved']} human labels alone."
        )
    elif saving_rows:
        number_texts = [
            f"{row['n_labelled']} instead of about {row['n_labelled'] + row['labels_saved']} for {row['system']}"
            for row in saving_rows[: 2 * MOST_NAMED]
        ]
        yield (
            f"With {saving_rows[0]['metric']}, fewer human labels give equally narrow intervals: "
            f"{', '.join(number_texts)}."
        )


def _points(row: Row, column: str) -> str:
    """Return a difference of rates in percentage points."""
    estimate_and_bounds = (
        None if row[name] is None else 100 * row[name] for name in (column, f"{column}_low", f"{column}_high")
    )
    return f"{interval(*estimate_and_bounds, digits=0)} percentage points"


def _favoritism_sentences(rows: pl.DataFrame) -> Iterator[str]:
    has_several_labels = rows["label"].n_unique() > 1
    for row in rows.filter(pl.col("favoured") != "").to_dicts()[:MOST_NAMED]:
        label_text = f" in the rate of {row['label']}" if has_several_labels else ""
        other_system = row["system_b"] if row["favoured"] == row["system_a"] else row["system_a"]
        error_rate_tests = (("TPR", row["p_tpr"], "tpr_difference"), ("TNR", row["p_tnr"], "tnr_difference"))
        measure_name, p, column = min(
            (error_rate_test for error_rate_test in error_rate_tests if error_rate_test[1] is not None),
            key=lambda error_rate_test: error_rate_test[1],
        )
        yield (
            f"{row['metric']} over-rates {row['favoured']} relative to {other_system}{label_text}: its {measure_name} "
            f"differs between {row['system_a']} and {row['system_b']} by {_points(row, column)} "
            f"({p_value_phrase(p)}). Do not compare systems by the labels of {row['metric']} alone."
        )


def _slices(rows: pl.DataFrame) -> Iterator[str]:
    findings = rows.filter(pl.col("finding") != "")
    for row in findings.to_dicts()[:MOST_NAMED]:
        if row["metric"] == HUMAN:
            yield (
                f"On {row['slice']}, the outputs have a significantly {row['finding']} than elsewhere "
                f"({estimate_with_interval(row, 'corrected_rate', write=percent)})."
            )
            continue
        yield (
            f"On {row['slice']}, {row['metric']} has a significantly {row['finding']} than elsewhere "
            f"(TPR {estimate_with_interval(row, 'tpr', write=percent)}, TNR "
            f"{estimate_with_interval(row, 'tnr', write=percent)}, corrected rate "
            f"{estimate_with_interval(row, 'corrected_rate', write=percent)})."
        )
    if findings.height > MOST_NAMED:
        further_slices = findings["slice"].to_list()[MOST_NAMED:]
        yield f"Further slices differ significantly: {names(further_slices, limit=MOST_NAMED)}."
