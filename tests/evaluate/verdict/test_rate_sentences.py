"""Sentences on rates of labels state the numbers of constructed tables."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from custodes.evaluate.verdict.rates import rate_sentences
from custodes.evaluate.verdict.view import grouped
from tests.evaluate.verdict.estimates import estimate


def rate_row(system: str, **columns: Any) -> dict[str, Any]:
    return {
        "aspect": "",
        "metric": "judge",
        "system": system,
        "label": "pass",
        "n_labelled": 40,
        "labels_saved": None,
        "reason": None,
        **estimate("judge_rate", 0.5, 0.4, 0.6),
        **estimate("human_rate", 0.4, 0.3, 0.5),
        **estimate("corrected_rate", 0.45, 0.4, 0.5),
        **columns,
    }


def difference_row(system_a: str, system_b: str, decision: str, **columns: Any) -> dict[str, Any]:
    row = {"aspect": "", "metric": "judge", "system_a": system_a, "system_b": system_b, "decision": decision}
    tests = {"p_adjusted": 0.02, "favoured": "", "p_tpr": None, "p_tnr": None}
    return {
        **row,
        **tests,
        "label": "pass",
        **estimate("corrected_difference", -0.2, -0.3, -0.1),
        **estimate("tpr_difference", 0.1, 0.05, 0.15),
        **estimate("tnr_difference", -0.25, -0.4, -0.1),
        **columns,
    }


def slice_row(slice_name: str, finding: str, metric: str = "judge") -> dict[str, Any]:
    rates = [estimate(name, rate, rate - 0.1, rate + 0.1) for name, rate in (("tpr", 0.8), ("tnr", 0.7))]
    row = {"aspect": "", "slice": slice_name, "metric": metric, "finding": finding}
    return row | rates[0] | rates[1] | estimate("corrected_rate", 0.45, 0.4, 0.5)


def sentences(**tables: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Return the sentences of each kind about tables of `rates`."""
    empty = {
        "rates": rate_row(""),
        "judges": {"aspect": "", "metric": "judge", "accuracy": 0.9, "label": "pass", "n_labelled": 40}
        | estimate("kappa", 0.8, 0.7, 0.9)
        | estimate("tpr", 0.8, 0.7, 0.9)
        | estimate("tnr", 0.6, 0.5, 0.7),
        "differences": difference_row("", "", ""),
        "slices": slice_row("", ""),
        "replacement": {"aspect": "", "metric": "", "may_replace": None, "winning_rate": 0.5, "annotators": 3},
    }
    frames = {
        name: pl.DataFrame(tables[name], infer_schema_length=None) if tables.get(name) else pl.DataFrame([row]).clear()
        for name, row in empty.items()
    }
    check_columns = {"aspect": "", "severity": "", "rule": "", "message": "", "examples": [""], "rater": ""}
    empty_frame = pl.DataFrame([check_columns]).clear()
    results: Any = {
        "check": SimpleNamespace(to_frame=lambda name: empty_frame),
        "rates": SimpleNamespace(to_frame=lambda name: frames[name]),
    }
    return grouped((kind, text) for kind, texts in rate_sentences(results, "") for text in texts)


def test_slices_of_labels_name_human_and_judge_findings_and_the_further_slices() -> None:
    rows = [slice_row("length short", "higher rate", "human"), slice_row("topic a", "lower TPR"), slice_row("x", "")]
    human, judge = sentences(slices=rows)["slices"]
    assert human == "On length short, human labels show a significantly higher rate than elsewhere (45 % [40 %, 50 %])."
    assert judge == (
        "On topic a, judge labels show a significantly lower TPR than elsewhere (TPR 80 % [70 %, 90 %], TNR 70 % [60 "
        "%, 80 %], corrected rate 45 % [40 %, 50 %])."
    )
    many = [slice_row(f"s{k}", "lower TPR") for k in range(5)]
    assert len(sentences(slices=many[:3])["slices"]) == 3
    assert sentences(slices=many)["slices"][3:] == ["Further slices differ significantly: s3 and s4."]


def test_rates_with_missing_parts_name_only_the_defined_parts() -> None:
    nothing = estimate("corrected_rate", None, None, None)
    undefined = rate_row("A", reason="TPR is unknown", **nothing)
    unlabelled = rate_row("B", n_labelled=0, **nothing)
    no_human = rate_row("C", **estimate("human_rate", None, None, None))
    no_judge = rate_row("D", **estimate("judge_rate", None, None, None))
    assert sentences(rates=[undefined, unlabelled, no_human, no_judge], judges=[JUDGE])["rates"] == [
        "The corrected rate of pass of A is undefined: TPR is unknown.",
        "judge labels 50 % [40 %, 60 %] of the outputs of B as pass. Without human labels the true rate is unknown.",
        "Annotators would label about 45 % [40 %, 50 %] of the outputs of C as pass (judge alone gives 50 %; 40 "
        "human labels).",
        "Annotators would label about 45 % [40 %, 50 %] of the outputs of D as pass (human labels alone give 40 % "
        "[30 %, 50 %]; 40 human labels).",
    ]
    (human,) = sentences(rates=[rate_row("A", metric="human", n_labelled=1)])["rates"]
    assert human == "Annotators would label about 40 % [30 %, 50 %] of the outputs as pass (1 human label)."
    systems = [rate_row(f"s{k}") for k in range(7)]
    assert len(sentences(rates=systems, judges=[JUDGE])["rates"]) == 6
    assert len(sentences(judges=[JUDGE | {"metric": f"j{k}"} for k in range(7)])["trust"]) == 6


JUDGE = (
    {"aspect": "", "metric": "judge", "accuracy": 0.9, "label": "pass", "n_labelled": 40}
    | estimate("accuracy", 0.9, 0.8, 1.0)
    | estimate("kappa", 0.8, 0.7, 0.9)
    | estimate("tpr", 0.8, 0.7, 0.9)
    | estimate("tnr", 0.6, 0.5, 0.7)
)


def test_rates_are_of_the_judge_with_the_highest_kappa() -> None:
    kappas = {"none": None, "low": -0.5, "high": 0.4, "equal": 0.4, "unlabelled": 0.9}
    judges = [JUDGE | {"metric": name, "kappa": kappa} for name, kappa in kappas.items()]
    judges[-1]["accuracy"] = None  # no labels in common with the annotators
    rates = [rate_row("A", metric=name) for name in kappas]
    texts = sentences(rates=rates, judges=judges)
    assert [text.split("(")[1].split(" ")[0] for text in texts["rates"]] == ["high"]
    assert len(texts["trust"]) == 4
    no_label = JUDGE | estimate("tpr", None, None, None)
    assert sentences(judges=[no_label])["trust"] == [
        "judge gives the human label in 90 % [80 %, 100 %] of cases (kappa 0.80 [0.70, 0.90])."
    ]


def test_pairs_that_differ_and_pairs_that_do_not_are_counted() -> None:
    pairs = [difference_row("A", "B", "+", **estimate("corrected_difference", 0.2, 0.1, 0.3))]
    pairs += [difference_row("A", "C", "-"), difference_row("B", "C", "=", p_adjusted=0.4)]
    texts = sentences(differences=pairs, judges=[JUDGE])["best"]
    assert texts == [
        "A has a significantly higher rate of pass than B: by 20 [10, 30] percentage points (p = .020, all pairs "
        "tested together).",
        "C has a significantly higher rate of pass than A: by 20 [10, 30] percentage points (p = .020, all pairs "
        "tested together).",
        "B and C do not differ significantly in the rate of pass (difference −20 [−30, −10] percentage points, p = "
        ".400, all pairs tested together).",
    ]
    undecided = [difference_row("A", f"B{k}", "=") for k in range(4)]
    assert len(sentences(differences=undecided[:3], judges=[JUDGE])["best"]) == 3
    total = "In all, {} of systems differ significantly, and {} do not."
    assert sentences(differences=undecided, judges=[JUDGE])["best"][3:] == [total.format("0 pairs", 4)]
    different = [difference_row("A", f"B{k}", "-") for k in range(4)]
    assert sentences(differences=different, judges=[JUDGE])["best"][3:] == [total.format("4 pairs", 0)]
    mixed = sentences(differences=[*different[:1], *undecided[:2]], judges=[JUDGE])["best"]
    assert mixed[2:] == [total.format("1 pair", 2)]
    assert len(sentences(differences=[*different[:1], *undecided[:1]], judges=[JUDGE])["best"]) == 2


@pytest.mark.parametrize(
    ("p_tpr", "p_tnr", "expected"),
    [
        (0.01, 0.03, "TPR differs by 10 [5, 15] percentage points (p = .010)"),
        (0.03, 0.01, "TNR differs by −25 [−40, −10] percentage points (p = .010)"),
        (None, 0.04, "TNR differs by −25 [−40, −10] percentage points (p = .040)"),
    ],
)
def test_favoritism_by_labels_names_the_rate_with_the_smaller_p_value(
    p_tpr: float | None, p_tnr: float, expected: str
) -> None:
    for favoured in "AB":
        row = difference_row("A", "B", "=", favoured=favoured, p_tpr=p_tpr, p_tnr=p_tnr)
        (text,) = sentences(differences=[row, difference_row("A", "C", "=")])["favours"]
        assert text.startswith(
            f"judge over-rates {favoured} in the comparison of A and B by the rate of pass: its {expected}. Do not"
        )
    assert len(sentences(differences=[row] * 5)["favours"]) == 3


def test_saved_labels_are_a_sum_for_each_system() -> None:
    (alone,) = sentences(rates=[rate_row("A", labels_saved=25)], judges=[JUDGE])["labels"]
    assert alone == "With judge, fewer human labels give equally narrow intervals: 40 instead of about 65."
    rows = [rate_row("A", labels_saved=25), rate_row("B", labels_saved=1), rate_row("C", labels_saved=2)]
    (several,) = sentences(rates=rows, judges=[JUDGE])["labels"]
    assert several.endswith("equally narrow intervals: 40 instead of about 65 for A and 40 instead of about 42 for C.")
    assert "labels" not in sentences(rates=[rate_row("A", labels_saved=1)], judges=[JUDGE])
    unlabelled = [rate_row(system, n_labelled=0, **estimate("human_rate", None, None, None)) for system in "AB"]
    assert "labels" not in sentences(rates=unlabelled[:1], judges=[JUDGE])
    (other,) = sentences(rates=[*unlabelled, rate_row("C", labels_saved=25)], judges=[JUDGE])["labels"]
    assert other.endswith("narrow intervals: 40 instead of about 65 for C.")
    assert "labels" not in sentences(rates=[*rows, rate_row("A", label="fail", labels_saved=5)], judges=[JUDGE])


def test_judges_that_may_replace_an_annotator_come_by_winning_rate() -> None:
    rates = {"weak": (0.3, False), "good": (0.6, True), "best": (0.8, True), "untested": (0.9, None)}
    rows = [
        {"aspect": "", "metric": name, "may_replace": passed, "winning_rate": rate, "annotators": 3, "epsilon": 0.2}
        for name, (rate, passed) in rates.items()
    ]
    test = "(alternative annotator test, 3 annotators, epsilon 0.2; winning rate in brackets; at least 50 % is needed)."
    failure = "Judges that are not shown to be able to replace an annotator:"
    assert sentences(replacement=rows)["trust"] == [
        f"Judges that may replace an annotator: best (80 %) and good (60 %) {test}",
        f"{failure} weak (30 %) {test}",
    ]
    failed = [row | {"may_replace": False} for row in rows]
    assert sentences(replacement=failed)["trust"] == [
        f"{failure} untested (90 %), best (80 %), good (60 %) and weak (30 %) {test}"
    ]
    assert "trust" not in sentences(replacement=rows[3:])
