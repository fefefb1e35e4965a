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
from custodes.evaluate.verdict.slices import slices
from custodes.evaluate.verdict.systems import _odds, interim
from custodes.evaluate.verdict.view import rated_systems
from tests.evaluate.verdict.estimates import BOUNDS, estimate


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
    assert text == "No finding in a slice is significant (number of tests: agreement 2, consistency 1)."
    (partiality,) = slices(slice_view(agreement=[("", None), ("", None)], favoritism=[("", 0.5), ("", 0.9)]))
    assert partiality == "No finding in a slice is significant (number of tests: partiality 2)."
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
