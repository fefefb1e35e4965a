"""Sentences of the verdict state the numbers of constructed tables."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from custodes.data.notes import Note
from custodes.evaluate.consistency.missing import ALL, REASON
from custodes.evaluate.slices import NOT_COMPARED
from custodes.evaluate.verdict import annotators, overall
from custodes.evaluate.verdict.faults import _failure_sentences, faults
from custodes.evaluate.verdict.metrics import _best, trust
from custodes.evaluate.verdict.rates import rate_sentences
from custodes.evaluate.verdict.slices import slices
from custodes.evaluate.verdict.systems import _odds, interim
from custodes.evaluate.verdict.view import grouped, rated_systems

BOUNDS = ("", "_low", "_high")


def estimate(name: str, *values: float | None) -> dict[str, float | None]:
    return {name + suffix: value for suffix, value in zip(BOUNDS, values, strict=True)}


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


def view_of(tables: dict[tuple[str, str], pl.DataFrame], /, *, agreement: Any = (), **attributes: Any) -> Any:
    """Return a view with these tables by question and name, and these notes of agreement."""
    notes = [Note(rule=NOT_COMPARED, message=message, aspect="") for message in agreement]
    results = {question: SimpleNamespace(notes=notes if question == "agreement" else ()) for question, _ in tables}
    rows = {"rows": lambda question, table: tables[question, table]}
    return SimpleNamespace(**rows, results=results, aspect="", **attributes)


def slice_view(notes: tuple[str, ...] = (), **findings: list[tuple[str, float | None]]) -> Any:
    """Return tables of slices with a slice for each finding and p-value."""
    frames = {}
    for question in ("agreement", "consistency", "favoritism"):
        rows = [
            {"slice": f"s{k}", "metric": "m", "rater": "r", "system": "A", "finding": finding, "p_adjusted": p}
            | {"value": 0.2, "other": 0.4, "difference": -0.2, "statistic": "first_rate"}
            | estimate("partiality", 12.0, 4.0, 20.0)
            for k, (finding, p) in enumerate(findings.get(question, []))
        ]
        schema = {"slice": pl.String, "finding": pl.String, "p_adjusted": pl.Float64}
        frames[question] = (
            pl.DataFrame(rows, schema_overrides={"p_adjusted": pl.Float64}) if rows else pl.DataFrame(schema=schema)
        )
    return view_of({(question, "slices"): frame for question, frame in frames.items()}, agreement=notes)


def test_findings_in_slices_come_by_p_value_and_are_counted() -> None:
    view = slice_view(
        agreement=[("worse", 0.04), ("worse", 0.01), ("", 0.5)],
        consistency=[("more", 0.01), ("inconclusive", None)],
        favoritism=[("favoured", 0.02)],
    )
    assert list(slices(view)) == [
        "On s1, m agrees significantly worse with the annotators: in 20 % of cases, elsewhere in 40 %.",
        "On s0, m agrees significantly worse with the annotators: in 20 % of cases, elsewhere in 40 %.",
        "On s0, r prefers the output shown first significantly less often: in 20 % of cases, elsewhere in 40 %.",
        "On s0, m over-rates A (partiality 12 [4, 20] points of win rate).",
    ]
    three, four = ([*slices(slice_view(agreement=[("worse", 0.01)] * n))] for n in (3, 4))
    assert (len(three), four[3:]) == (3, ["In all, the table slices of agreement has 4 significant findings."])


def test_slices_without_findings_say_how_many_were_tested() -> None:
    view = slice_view(agreement=[("", 0.5), ("", None), ("", 0.7)], consistency=[("", 0.5)])
    (text,) = slices(view)
    assert text == "No finding in a slice is significant (3 tests of agreement, consistency and partiality)."
    assert [*slices(slice_view(("few items", "few items", "no column")))] == ["Few items.", "No column."]


def test_odds_beyond_a_hundred_to_one_are_only_bounded() -> None:
    odds = (None, 0.0099, 0.01, 2.5, 100.0, 100.1)
    assert [_odds(value, digits=1) for value in odds][1:] == ["under 0.01", "0.010", "2.5", "100.0", "over 100"]


@pytest.mark.parametrize("accuracy", [0.9, 0.8])
def test_the_metric_with_a_higher_accuracy_is_named(accuracy: float) -> None:
    accuracies = {"judge": (0.8, 0.7, 0.9), "learned": (accuracy, 0.7, 1.0), "overlap": (None, None, None)}
    standing = [
        {"metric": name, "statistic": "kendall_item", "may_be_best": None}
        | estimate("value", 0.5, 0.4, 0.6)
        | estimate("pairwise_accuracy", *values)
        for name, values in accuracies.items()
    ]
    above = {"metrics_on_side": lambda *sides: ["judge"], "leaders": ["judge"]}
    _, text = trust(view_of({}, standing=standing, bounded=True, ordered=True, **above))
    assert text == (
        "At system level, judge orders 80 % [70 %, 90 %] of the pairs of systems as the annotators do (pairwise "
        "accuracy; chance level 50 %)." + (" learned has the highest accuracy, 90 %." if accuracy == 0.9 else "")
    )


def ranked(rater: str, systems: str, n_top: int, groups: str, **columns: Any) -> list[dict[str, Any]]:
    """Return rows of systems by rank, of which the first ones are in the top group."""
    return [
        {"rater": rater, "system": system, "rank": rank, "rank_high": 1 if n_top == 1 else 2, "group": group, "part": 1}
        | {"may_be_first": rank <= n_top}
        | estimate("win_rate", 0.8 - rank / 10, 0.7 - rank / 10, 0.9 - rank / 10)
        | columns
        for rank, (system, group) in enumerate(zip(systems, groups, strict=True), start=1)
    ]


WRONG = (
    "A ranks first, but gave the same text for all items. Do not trust this ranking: read the outputs, and rank the "
    "other systems alone (--systems '!A')."
)
AHEAD = "A ranks first: significantly ahead of every other system."


@pytest.mark.parametrize(
    ("systems", "constant", "texts"),
    [
        (
            [("m1", "ABC", 1, "abc"), ("m2", "ACB", 1, "abc"), ("m3", "ABC", 1, "abc")],
            "",
            [f"By m1, m2 and m3, {AHEAD}"],
        ),
        (
            [("m1", "ABC", 2, "aab"), ("m2", "ABC", 1, "abc"), ("m3", "ABC", 1, "abc")],
            "",
            [f"By m2 and m3, {AHEAD}", "By m1, it is undecided which of A and B ranks first."],
        ),
        (
            [("m1", "AB", 1, "ab")],
            "",
            [
                "By m1, A ranks first (win rate 70 % [60 %, 80 %]; a tie counts half): significantly ahead of every "
                "other system."
            ],
        ),
        ([("m1", "AB", 0, "ab")], "", []),
        ([("m1", "AB", 1, "ab")], "A", [f"By m1, {WRONG}"]),
        (
            [("m1", "ABC", 1, "abc"), ("m2", "BCA", 1, "abc")],
            "A",
            [f"By m1, {WRONG}", "By m2, B ranks first: significantly ahead of every other system."],
        ),
    ],
)
def test_the_best_systems_by_each_metric(systems: list[Any], constant: str, texts: list[str]) -> None:
    rows = pl.DataFrame([row for metric in systems for row in ranked(*metric)])
    decisions = [("A", "B", "+"), ("A", "C", "+"), ("B", "C", "+")]
    pairs = [(f"m{k}", *pair) for k in range(1, len(systems) + 1) for pair in decisions] + [("m1", "C", "D", "=")]
    if len(systems) == 3:
        pairs[5:] = [("m2", "B", "C", "-"), ("m3", "A", "B", "+"), ("m3", "A", "C", "=")]
    columns = ["rater", "system_a", "system_b", "decision"]
    tables = {
        ("leaderboard", "cycles"): pl.DataFrame(schema={"rater": pl.String, "cycle": pl.String}),
        ("leaderboard", "pairs"): pl.DataFrame(pairs, schema=columns, orient="row"),
    }
    found = [*_best(view_of(tables), rows, {*constant})]
    if len(systems) > 1:
        n_pairs, n_agreed, n_contradicted = (3, 1, "1 pair") if len(systems) == 3 else (4, 3, "0 pairs")
        assert found.pop() == (
            f"Of {n_pairs} pairs of systems, all metrics decide {n_agreed} equally. Two metrics contradict each other "
            f"significantly on {n_contradicted} (each metric tested separately)."
        )
    assert found == texts


def test_faults_of_many_raters_are_counted_and_leaders_come_first() -> None:
    findings = [
        {"rater": f"r{k}", "kind": "position", "finding": "prefers what is shown first", "factor": ""}
        | {"p_adjusted": 0.01 * k, "p_value": 0.01 * k}
        | estimate("estimate", 10.0 + k, 5.0, 20.0)
        for k in range(5)
    ]
    orders = pl.DataFrame(
        {"rater": ["r1", "r2"], "n_both_orders": [0, 6], "n_half_answered": [0, 0], "flip_rate": [None, 0.5]}
        | {"flip_rate_low": [None, 0.4], "flip_rate_high": [None, 0.6], "consistency": [None, 0.5]}
    )
    tables = {
        ("consistency", "orders"): orders,
        ("consistency", "repeats"): pl.DataFrame({"rater": ["r2"], "agreement_within_order": [0.9]}),
        ("consistency", "missing"): pl.DataFrame(
            schema={"factor": pl.String, "failure_rate": pl.Float64, "rater": pl.String, "level": pl.String}
        ),
        ("consistency", "findings"): pl.DataFrame(findings),
    }
    view = view_of(tables, leaders=["r4"], standing=[])
    flip, *texts = faults(view)
    reversal = (
        "r2 reverses its preference in 50 % [40 %, 60 %] of 6 comparisons when the presentation order is reversed (a "
        "change from or to a tie is not counted)."
    )
    repeats = " When a query is repeated in the same order, 90 % of the verdicts agree."
    assert flip == reversal + repeats
    assert [text.split(" ")[0] for text in texts] == ["r4", "r0", "r1", "In"]
    assert "14 [5, 20] points" in texts[0]
    assert texts[0].endswith("assuming random orders.")
    assert texts[2].endswith("assuming random orders.")  # 0 comparisons in both orders
    assert texts[3] == "In all, 5 faults were found, in 5 of 5 raters."
    view.leaders, tables["consistency", "findings"] = ["r2"], pl.DataFrame(findings[:3])
    tables["consistency", "repeats"] = tables["consistency", "repeats"].clear()
    flip, *texts = faults(view)
    assert flip == reversal
    assert [text.split(" ")[0] for text in texts] == ["r2", "r0", "r1"]
    assert not texts[0].endswith("assuming random orders.")


def test_failures_of_one_percent_are_reported() -> None:
    rates = {"a": 0.01, "b": 0.009, "c": 0.3, "d": 0.0, "e": 0.02}
    columns = {"factor": ALL, "level": "", "queried": 100}
    rows = [columns | {"rater": rater} | estimate("failure_rate", rate, 0.0, 1.0) for rater, rate in rates.items()]
    rows += [rows[2] | {"factor": REASON, "level": level, "failure_rate": 0.1} for level in ("refusal", "label")]
    missing = pl.DataFrame(rows, schema_overrides={f"failure_rate{end}": pl.Float64 for end in BOUNDS})
    assert [*_failure_sentences(view_of({("consistency", "missing"): missing}))] == [
        "c gave no verdict in 30 % [0 %, 100 %] of 100 questions (refusal 10 %, label 10 %).",
        "e gave no verdict in 2 % [0 %, 100 %] of 100 questions.",
        "a gave no verdict in 1 % [0 %, 100 %] of 100 questions.",
    ]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (-0.2, 0.0, annotators.BY_CHANCE),
        (-0.2, 0.001, annotators.UNCLEAR),
        (0.0, 0.5, annotators.UNCLEAR),
        (-0.1, 0.667, "The data do not show whether single human ratings are reliable."),
        (
            0.001,
            0.666,
            "A single human rating is not reliable, so conclusions need means over many items or annotators.",
        ),
        (0.1, 0.667, "The data do not show whether single human ratings are reliable."),
        (0.667, 0.9, "Single human ratings are reliable enough for tentative conclusions."),
        (0.8, 0.9, "Single human ratings are reliable."),
        (0.799, 0.9, "Single human ratings are reliable enough for tentative conclusions."),
        (None, None, "Without an interval, the agreement of the annotators cannot be judged."),
    ],
)
@pytest.mark.parametrize("scale", ["ordinal", "nominal"])
def test_the_agreement_of_annotators_is_graded_by_both_bounds(
    low: float | None, high: float | None, expected: str, scale: str
) -> None:
    other = "nominal" if scale == "ordinal" else "ordinal"
    row = {"answer_type": "scores", "annotators": 1} | estimate(f"alpha_{scale}", 0.5, low, high)
    row |= estimate(f"alpha_{other}", None if other == "ordinal" else 0.1, 0.05, 0.15)
    undefined = {"answer_type": "labels"} | estimate("alpha_ordinal", None, None, None)
    undefined |= estimate("alpha_nominal", None, None, None)
    view = view_of({("annotators", "agreement"): pl.DataFrame([undefined, row])})
    (text,) = annotators.reliability(view)
    assert annotators.grades(view) == [expected]
    assert text.startswith(f"{expected[0].upper()}{expected[1:]} Krippendorff's α of the scores is 0.50")
    assert text.endswith(f" ({scale}; 1: perfect agreement, 0: agreement by chance; 1 annotator).")


def aspect_view(aspect: str, best: str, others: str = "", **changes: Any) -> Any:
    """Return a view with systems of the top group and others (one letter each), and metrics from best to worst."""
    board = [{"system": system, "group": "a" if system in best else "b"} for system in best + others]
    metrics = changes.pop("metrics", ["m1", "m2", "m3"])
    sides = changes.pop("sides", {})
    partial, p_adjusted = changes.pop("partial", []), changes.pop("p_adjusted", 0.001)
    view = SimpleNamespace(
        aspect=aspect,
        board=board,
        top=list(best),
        alpha=0.05,
        sided=False,
        split=[],
        not_random=None,
        leaders=metrics[:1],
        standing=[{"metric": metric, "value": 0.5 - 0.1 * k} for k, metric in enumerate(metrics)],
        ordered=True,
        partial=[
            dict(zip(("metric", "finding", "system", "partiality", "p_adjusted", "near_copies"), row, strict=True))
            for row in ((*finding, p_adjusted, []) for finding in partial)
        ],
        metrics_on_side=lambda *wanted: [metric for metric in metrics if sides.get(metric, "above") in wanted],
        is_undecided=lambda one, other: one["group"] == other["group"],
    )
    vars(view).update(changes)
    return view


@pytest.mark.parametrize(
    ("views", "texts"),
    [
        ([("x", "A", "BC"), ("y", "A", "B")], ["A is best on both aspects."]),
        ([("x", "A", "B"), ("y", "A"), ("z", "A")], ["A is best on all 3 aspects."]),
        (
            [("x", "A", "BC"), ("y", "BA", "C")],
            [
                "A ranks first on x; B ranks first on y. Only A is in the top group (not significantly worse than any "
                "other system) on both aspects.",
                "Which system is best is undecided on y (2 candidates).",
            ],
        ),
        (
            [("x", "AB", "C"), ("y", "ABC")],
            [
                "A ranks first on both aspects. A and B are in the top group (not significantly worse than any other "
                "system) on both aspects.",
                "Which system is best is undecided on x (2 candidates) and y (3 candidates).",
            ],
        ),
        (
            [("x", "A", "BC"), ("y", "BC", "A")],
            [
                "A ranks first on x; B ranks first on y. No system is in the top group (not significantly worse than "
                "any other system) on both aspects.",
                "Which system is best is undecided on y (2 candidates).",
            ],
        ),
        (
            [("x", "A", "B"), ("y", "B", "A")],
            [
                "A ranks first on x; B ranks first on y. No system is in the top group (not significantly worse than "
                "any other system) on both aspects."
            ],
        ),
    ],
)
def test_the_best_systems_of_all_aspects(views: list[tuple[str, ...]], texts: list[str]) -> None:
    assert [*overall.best([aspect_view(*view) for view in views])] == texts
    silent = {"sided": True}, {"split": [["A"], ["B"]]}, {"not_random": {"labels": 1}}, {"top": []}
    for change in silent:
        changed = [aspect_view(*views[0], **change), *(aspect_view(*view) for view in views[1:])]
        assert [*overall.best(changed)] == []


def test_the_metric_for_all_aspects_has_the_best_mean_rank_and_no_partiality_if_possible() -> None:
    first = {"metrics": ["m1", "m2", "m3"], "leaders": ["m1", "m2", "m3"]}
    second = {"metrics": ["m2", "m3", "m1"], "leaders": ["m2", "m3", "m1"]}
    views = [aspect_view("x", "A", "B", **first), aspect_view("y", "A", "B", **second)]
    assert overall.leaders_everywhere(views) == ["m2", "m1", "m3"]  # mean ranks 1, 2 and 3 of both
    assert overall.candidate(views) == "m2"
    assert [*overall.trust(views)] == [
        "On both aspects, m2, m1 and m3 are significantly better than chance and not significantly worse than any "
        "other metric.",
        "If one metric is needed for both aspects, use m2: it has the best mean rank of these metrics without "
        "significant partiality.",
        "For m2, Kendall's τ within items is 0.40 to 0.50, depending on the aspect (0: chance, 1: the order of the "
        "annotators).",
        "On single aspects, the metrics with the highest agreement are m1 on x and m2 on y.",
    ]
    partial = [aspect_view("x", "A", "B", **first, partial=[("m2", "favoured", "A", 9.0)]), views[1]]
    assert overall.candidate(partial) == "m1"
    for p_adjusted, metric in ((0.025, "m1"), (0.026, "m2")):  # two aspects: half of the level .05
        bounded = aspect_view("x", "A", "B", **first, partial=[("m2", "favoured", "A", 9.0)], p_adjusted=p_adjusted)
        assert overall.candidate([bounded, views[1]]) == metric
    assert "use m1: it has the best mean rank of these metrics without significant" in [*overall.trust(partial)][1]
    every = [("m1", "favoured", "A", 9.0), ("m2", "favoured", "A", 9.0), ("m3", "favoured", "A", 9.0)]
    lines = [*overall.trust([aspect_view("x", "A", "B", **first, partial=every), views[1]])]
    assert lines[1].endswith("use m2: it has the best mean rank of these metrics.")
    below = [views[0], aspect_view("y", "A", "B", **second, sides={"m2": "unclear", "m3": "below"})]
    assert overall.leaders_everywhere(below) == ["m1"]
    lines = [*overall.trust(below)]
    assert lines[0].startswith("On both aspects, m1 is significantly better than chance")
    assert lines[0].endswith("than any other metric.")
    assert lines[1] == "If one metric is needed for both aspects, use m1."
    nowhere = [aspect_view("x", "A", leaders=["m1"]), aspect_view("y", "A", leaders=["m2"])]
    assert [*overall.trust(nowhere)] == [
        "No metric is in the top group and better than chance on every aspect.",
        "On single aspects, the metrics with the highest agreement are m1 on x and m2 on y.",
    ]
    assert overall.candidate(nowhere) == ""


def test_systems_that_a_metric_over_rates_and_under_rates_are_named_by_verb() -> None:
    findings = [
        {"system": "A", "finding": "favoured"},
        {"system": "B", "finding": "disfavoured"},
        {"system": "C", "finding": "disfavoured"},
    ]
    assert rated_systems(findings) == "over-rates A and under-rates B and C"


def test_interim_decisions_name_the_better_system() -> None:
    rows = [{"system_a": "A", "system_b": b, "decision": decision} for b, decision in zip("BCD", "+-=", strict=True)]
    tables = [pl.DataFrame(rows, orient="row") for rows in (rows[:0], rows[:1], rows[:2], rows, rows[2:])]
    *texts, text = (" ".join(interim(view_of({("leaderboard", "interim"): table}))) for table in tables)
    assert texts[0] == ""
    assert texts[1] == (
        "The interim analyses found A better than B. These analyses test each pair separately, and their decisions "
        "hold only for these annotators."
    )
    assert texts[2].startswith("The interim analyses found A better than B and C better than A. These analyses test")
    assert texts[3].startswith("The interim analyses found A better than B and C better than A; 1 pair is undecided.")
    assert text.startswith("The interim analyses decided no pair. These analyses test")
