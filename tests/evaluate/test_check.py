"""Checks: summaries of data, raters and problems; studies of annotators or metrics alone; names that look alike."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.data.notes import Note
from custodes.data.raters import missing_code
from custodes.data.study import Study
from custodes.data.writing import write_table
from custodes.errors import InputError
from custodes.evaluate.check.check import check
from custodes.evaluate.check.rules import merge_aspects
from tests.data.mapping.tables import wide
from tests.evaluate.studies import problems_of, rated, scores_of, study_of, verdicts
from tests.messages import exactly


def rules(result: object) -> dict[str, str]:
    return dict(result.problems.select("rule", "severity").rows())  # type: ignore[attr-defined]


def test_a_clean_study_has_no_problem() -> None:
    result = check(study_of(scores_of(0, items=50)))
    assert result.problems.height == 0
    summary = result.summary.row(0, named=True)
    assert (summary["items"], summary["systems"], summary["humans"], summary["metrics"]) == (50, 4, 1, 2)
    assert (summary["coverage"], summary["ratings"]) == (1.0, 600)


def test_missing_cells_and_ties_are_counted() -> None:
    scores = scores_of(1, items=50)
    scores[1, :10, 0] = np.nan
    result = check(study_of(scores))
    row = result.raters.row(1, named=True)
    assert (row["rater"], round(row["coverage"], 12)) == ("m1", 0.95)
    a, b = np.triu_indices(4, 1)
    ties = (scores[0][:, a] == scores[0][:, b]).mean()
    assert result.summary["ties"][0] == result.raters["ties"][0] == ties


def test_a_reversed_metric_a_constant_and_a_twin_are_found() -> None:
    scores = scores_of(2, raters=5, items=50)
    scores[2] = -scores[1]
    scores[3] = 4.0
    scores[4] = 3 * scores[1]
    result = check(study_of(scores))
    problems = rules(result)
    assert problems["negative-agreement"] == problems["constant-metric"] == "warning"
    assert problems["near-duplicates"] == "info"
    against = result.problems.filter(pl.col("rule") == "negative-agreement").row(0, named=True)
    assert against["examples"] == ["m2"]
    assert "higher_is_better" in against["message"]


def test_a_metric_that_is_declared_a_distance_is_not_told_to_be_declared_one() -> None:
    scores = scores_of(2, raters=4, items=50)
    scores[3] = scores[2]
    scores[2] = -scores[1]
    down = pl.DataFrame({"rater": ["m3"], "higher_is_better": [False]})
    problems = check(study_of(scores).describe(raters=down)).problems.filter(rule="negative-agreement")
    assert problems["examples"].to_list() == [["m2"], ["m3"]]
    assert problems["message"].str.contains(
        "if lower values of these metrics are better, declare", literal=True
    ).to_list() == [True, False]
    assert (
        "). The raters file declares higher_is_better = false for these metrics; if higher is better"
        in problems["message"][1]
    )


def test_a_verdict_covers_two_outputs() -> None:
    rows = [("x", "A", "B", "h", "", 1), ("x", "A", "C", "h", "", 1), ("x", "A", "B", "j", "", 1)]
    result = check(verdicts(rows))
    assert result.raters.select("rater", "coverage").rows() == [("h", 1.0), ("j", 2 / 3)]


def test_few_items_and_one_sided_people() -> None:
    rows = [(f"x{i}", "A", "B", rater, "", 1) for i in range(10) for rater in ("h", "j")]
    assert {"few-items", "one-sided-annotators"} <= set(rules(check(verdicts(rows))))


def test_scores_beyond_declared_bounds_are_found_up_to_rounding() -> None:
    scores = scores_of(3, items=50)
    scores[1], scores[2] = 100.00000000000004, 100.001  # the first is sacrebleu's score of a text compared with itself
    bounds = pl.DataFrame({"rater": ["m1", "m2"], "low": [0.0] * 2, "high": [100.0] * 2})
    problem = problems_of(study_of(scores).describe(raters=bounds))["beyond-declared"]
    assert (problem["severity"], problem["examples"]) == ("warning", ["m2"])


SCORES = pl.DataFrame(
    [
        {"item": str(i), "system": s, "rater": r, "score": float((7 * i + ord(s) * len(r)) % 11)}
        for i in range(40)
        for s in "ABC"
        for r in ("ann", "ter", "bertscore")
    ]
)
RATERS = pl.DataFrame(
    {
        "rater": ["ann", "ter", "bertscore"],
        "kind": ["human", "metric", "metric"],
        "higher_is_better": [True, False, True],
        "low": [None, 0.0, 0.0],
        "high": [None, None, 1.0],
        "cost": [None, 0.5, 2.0],
        "cost_unit": [None, "cpu-s", "usd"],
        "signature": [None, "ter | sacrebleu 2.6.0", "bertscore | onnxruntime 1.31"],
        "truncated": [None, 0.0, 0.25],
    }
)


def test_the_table_of_raters_has_directions_and_signatures() -> None:
    result = cu.check(cu.read(SCORES, raters=RATERS)).raters
    assert result.select("rater", "kind", "higher_is_better", "signature").rows() == [
        ("ann", "human", True, ""),
        ("ter", "metric", False, "ter | sacrebleu 2.6.0"),
        ("bertscore", "metric", True, "bertscore | onnxruntime 1.31"),
    ]


def test_the_report_shows_signatures_and_leaves_out_what_nobody_said() -> None:
    from custodes.reporting.section import Context
    from custodes.reporting.sections.agreement import AGREEMENT
    from custodes.reporting.sections.check import CHECK

    for raters, is_shown in ((RATERS, True), (RATERS.drop("signature", "truncated", "cost", "cost_unit"), False)):
        study = cu.read(SCORES, raters=raters)
        result = Context(study=study, options={"resamples": 20, "confidence": 0.95, "alpha": 0.05, "rng": 0})
        for section in (CHECK, AGREEMENT):
            section.answer(result)
        html = CHECK.html(result, *CHECK.build_content(result))
        assert ("ter | sacrebleu 2.6.0" in html) == is_shown


def test_texts_that_were_cut_are_a_warning() -> None:
    problem = problems_of(cu.read(SCORES, raters=RATERS))["truncated"]
    assert problem["severity"] == "warning"
    assert "bertscore (25% of outputs)" in str(problem["message"])
    assert "truncated" not in problems_of(cu.read(SCORES, raters=RATERS.with_columns(truncated=0.0)))


def test_one_signature_under_two_names_is_one_rater() -> None:
    same = RATERS.with_columns(signature=pl.when(pl.col("kind") == "metric").then(pl.lit("ter | sacrebleu 2.6.0")))
    problem = problems_of(cu.read(SCORES, raters=same))["same-signature"]
    assert problem["severity"] == "warning"
    assert str(problem["message"]).startswith("ter, bertscore were read with the same signature, so one rater")
    assert "same-signature" not in problems_of(cu.read(SCORES, raters=RATERS))


def test_one_name_with_two_signatures_is_told_where_files_are_joined(tmp_path: Path) -> None:
    for name, item, version in (("one", "", "v1"), ("two", "x", "v2")):
        ratings = SCORES.with_columns(item=item + pl.col("item"))
        write_table(ratings if name == "one" else ratings.filter(pl.col("rater") == "ter"), tmp_path / f"{name}.csv")
        raters = RATERS if name == "one" else RATERS.filter(pl.col("rater") == "ter")
        write_table(raters.with_columns(signature=pl.lit(version)), tmp_path / f"{name}.raters.csv")
    problem = problems_of(cu.read(tmp_path / "one.csv", tmp_path / "two.csv"))["signatures-differ"]
    assert problem["severity"] == "warning"
    assert "ter (v1, v2)" in str(problem["message"])


@pytest.mark.parametrize("share", [1.5, -0.1])
def test_a_share_is_a_share(share: float) -> None:
    with pytest.raises(InputError, match=r"raters: truncated .* in row 1; allowed: a proportion from 0 to 1"):
        cu.read(SCORES, raters=pl.DataFrame({"rater": ["ter"], "truncated": [share]}))


def test_what_a_study_brings_of_cut_texts_is_a_warning_too() -> None:
    study = cu.read(SCORES, raters=RATERS.drop("truncated"))
    note = Note(rule="truncated", message="bertscore: 3 of 120 outputs were scored by texts that were cut", count=3)
    problem = problems_of(replace(study, notes=(*study.notes, note)))["truncated"]
    assert (problem["severity"], problem["message"]) == ("warning", note.message)


def battles(rater: str = "human", kind: str = "human", *, systems: tuple[str, ...] = ("A", "B", "C")) -> pl.DataFrame:
    """Return verdicts of one rater on 40 items; every fourth is a tie."""
    pairs = [(a, b) for i, a in enumerate(systems) for b in systems[i + 1 :]]
    rows = [
        {
            "item": f"x{i}",
            "system_a": a,
            "system_b": b,
            "rater": rater,
            "kind": kind,
            "preference": (1, -1, 1, 0)[i % 4],
        }
        for i in range(40)
        for a, b in pairs
    ]
    return pl.DataFrame(rows)


def scored(**columns: np.ndarray) -> pl.DataFrame:
    """Return a wide table of 40 items and 3 systems."""
    shape = {"item": np.repeat(np.arange(40), 3), "system": np.tile(["A", "B", "C"], 40)}
    return pl.DataFrame(shape | columns)


def marks(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(1, 6, 120).astype(float)


def test_people_alone_are_told_what_they_hold() -> None:
    result = cu.check(cu.read(battles()))
    row = result.summary.row(0, named=True)
    counts = {"items": 40, "systems": 3, "humans": 1, "metrics": 0, "ratings": 0, "verdicts": 120, "ties": 0.25}
    assert {name: row[name] for name in counts} == counts
    assert result.raters.select("rater", "kind", "verdicts", "ties").rows() == [("human", "human", 120, 0.25)]
    assert result.problems.select("severity", "rule").rows() == [("warning", "no-metrics")]
    assert "leaderboard and consistency" in result.problems["message"][0]
    assert result.status == 1


def test_metrics_alone_are_told_what_they_hold() -> None:
    result = cu.check(cu.read(battles("gpt", "metric")))
    assert result.summary.select("humans", "metrics", "verdicts", "ties").rows() == [(0, 1, 120, None)]
    assert result.raters.select("rater", "kind", "ties").rows() == [("gpt", "metric", 0.25)]
    assert result.problems.select("severity", "rule").rows() == [("info", "no-human-ratings")]
    assert "custodes annotate new" in result.problems["message"][0]
    assert result.status == 0


def test_judges_alone_are_told_of_orders_twins_and_few_items() -> None:
    m = marks(0)
    study = cu.read(scored(m1=m, m2=2 * m, m3=marks(1)).head(60))
    assert {"near-duplicates", "few-items", "no-annotators"} <= set(problems_of(study))
    ordered = battles("gpt", "metric").with_columns(order=pl.lit("ab"))
    assert "one-order" in problems_of(cu.read(ordered))


@pytest.mark.parametrize(
    ("human", "advice"),
    [
        ("a*", "so their ratings count twice; leave it out of the option human"),
        ("a1,a2,a3", "with whom metrics are compared; leave it out of the option metrics"),
    ],
)
@pytest.mark.parametrize("digits", [1, 12])
def test_a_mean_of_people_is_no_judge(human: str, advice: str, digits: int) -> None:
    annotators = {f"a{k}": marks(k) for k in (1, 2, 3)}
    mean = np.mean(list(annotators.values()), axis=0).round(digits)
    problem = problems_of(cu.read(scored(**annotators, a_mean=mean, bleu=marks(9))), human=human)["mean-of-others"]
    assert (problem["severity"], problem["examples"]) == ("warning", ["a_mean"])
    assert problem["message"] == f"'a_mean' is the mean of the annotators a1, a2, a3, {advice}"


def test_a_mean_of_metrics_is_told_and_agreement_is_no_mean() -> None:
    m1, m2, a = marks(1), marks(2), marks(3)
    frame = scored(ann=a, m1=m1, m2=m2, ensemble=(m1 + m2) / 2)
    problem = problems_of(cu.read(frame), human="ann")["mean-of-others"]
    assert problem["examples"] == ["ensemble"]
    assert problem["message"] == "'ensemble' is the mean of the metrics m1, m2, so it adds no information"
    same = scored(a1=a, a2=a, a3=a, bleu=m1)
    assert "mean-of-others" not in problems_of(cu.read(same), human="a*")
    near = scored(a1=a, a2=m1, judge=(a + m1) / 2 + np.random.default_rng(0).normal(0, 0.2, 120))
    assert "mean-of-others" not in problems_of(cu.read(near), human="a*")


@pytest.mark.parametrize(
    ("code", "rest"), [(-1, range(1, 6)), (-99, range(-3, 4)), (99, range(1, 6)), (999, range(101))]
)
def test_a_code_for_missing_is_told(code: int, rest: range) -> None:
    scores = np.array([*rest, *rest, *rest, *rest, *rest, code, code], float)
    assert missing_code(scores) == f"{code} occurs 2 times among scores from {rest[0]} to {rest[-1]}"


@pytest.mark.parametrize(
    "scale",
    [range(6), range(1, 6), (1, 5), (1, 4, 5), range(-1, 2), range(-25, 1), range(101), (-1, 0, 1, 2), (1, 2, 4)],
)
def test_a_scale_holds_no_code(scale: range | tuple[int, ...]) -> None:
    assert missing_code(np.array([*scale] * 20, float)) == ""


def test_check_names_a_code_that_all_people_use() -> None:
    human = {f"ann{k}": np.where(np.arange(120) % 10, marks(k), -1) for k in (1, 2)}
    problem = problems_of(cu.read(scored(**human, bleu=marks(9))), human="ann*")["missing-code"]
    assert (problem["severity"], problem["examples"]) == ("warning", ["ann1", "ann2"])
    assert (
        "ann1: -1 occurs 12 times among scores from 1 to 5, ann2: -1 occurs 12 times among scores from 1 to 5. "
        "If the value means missing, leave the cell empty"
    ) in str(problem["message"])


def test_a_code_is_suggested_where_scales_differ() -> None:
    study = cu.read(scored(ann1=np.where(np.arange(120) % 10, marks(1), -99), ann2=marks(2), bleu=marks(3)))
    with pytest.raises(
        cu.OptionError,
        match=exactly(
            "'ann1' (-99 to 5) and 'ann2' (1 to 5) use different scales, so their scores cannot be averaged; "
            "if a value means missing, leave the cell empty; otherwise select annotators with human='ann1'"
        ),
    ) as error:
        cu.agreement(study, human="ann*", resamples=20)
    assert "choose people" not in str(error.value)


TWO_ASPECTS = ("human_coherence_ann1", "human_coherence_ann2", "human_fluency_ann1", "human_fluency_ann2", "bleu")


def pooled() -> Study:
    return cu.read(wide(*TWO_ASPECTS, text=False).rename({"doc_id": "item", "model": "system"}))


def test_people_who_become_metrics_are_told_in_every_question() -> None:
    study = pooled()
    message = "raters that look human are read as metrics: human_fluency_ann1, human_fluency_ann2; name them in human"
    for question in (cu.agreement, cu.favoritism, cu.ranking, cu.leaderboard):
        notes = question(study, human="human_coherence*", resamples=20).notes  # type: ignore[operator]
        assert [note.message[: len(message)] for note in notes if note.rule == "annotators-as-metrics"] == [message]
    problem = problems_of(study, human="human_coherence*")["annotators-as-metrics"]
    assert (problem["severity"], problem["examples"]) == ("warning", ["human_fluency_ann1", "human_fluency_ann2"])


def test_who_is_selected_or_left_out_is_told_no_more() -> None:
    study = pooled()
    assert "annotators-as-metrics" not in problems_of(study, human="human_*")
    assert "annotators-as-metrics" not in problems_of(study, human="human_coherence*", metrics="bleu")


def test_a_declared_metric_with_a_name_of_people_is_only_in_check() -> None:
    frame = wide("human_style", "human_judge", "bleu", text=False)
    columns = {"item": "doc_id", "system": "model", "score": ["{rater:human_style}", "metric:{rater}"]}
    study = cu.read(frame, columns=columns)
    assert study.raters.kind["human_judge"] == "metric"
    assert problems_of(study, human="human_style")["annotators-as-metrics"]["examples"] == ["human_judge"]
    assert "annotators-as-metrics" not in {note.rule for note in cu.ranking(study, human="human_style").notes}


def test_people_of_several_aspects_are_told() -> None:
    problem = problems_of(pooled(), human="human_*")["pooled-aspects"]
    assert problem["severity"] == "warning"
    assert str(problem["message"]).startswith(
        "ratings of several aspects (coherence, fluency) are combined as if each aspect were an annotator (human_"
    )
    study = cu.read(
        wide(*TWO_ASPECTS, text=False),
        columns={"item": "doc_id", "system": "model", "score": ["human_{aspect}_{rater}", "metric:{rater}"]},
    )
    assert "pooled-aspects" not in problems_of(study)


def test_columns_of_people_that_nothing_names_are_a_warning() -> None:
    columns = {"item": "doc_id", "system": "model", "score": ["human_{aspect}_{rater:ann1}", "metric:bleu"]}
    problem = problems_of(cu.read(wide(*TWO_ASPECTS, text=False), columns=columns))["unused-annotators"]
    assert problem["severity"] == "warning"
    assert "human_coherence_ann2, human_fluency_ann2" in str(problem["message"])


@pytest.mark.parametrize("twin", ["ASTER", "\u0410ster", "As\u200bter"])
def test_systems_that_look_alike_are_named(twin: str) -> None:
    problem = problems_of(study_of(scores_of(0, items=40), systems=["Aster", twin, "Birch", "Cedar"]))["look-alikes"]
    assert problem["severity"] == "warning"
    assert set(problem["examples"]) == {"Aster", twin}  # type: ignore[arg-type]
    assert str(problem["message"]).startswith("some systems have names that look equal but count as different: ")
    assert str(problem["message"]).isascii()  # Invisible characters are escaped.


def test_aspects_that_look_alike_are_named() -> None:
    columns = {
        "system": ["A", "A", "B", "B"] * 20,
        "aspect": ["tone", "to\u200bne"] * 40,
        "human": [1, 2, 3, 4, 2] * 16,
    }
    table = pl.DataFrame({"item": [k // 4 for k in range(80)], **columns})
    (message,) = cu.check(cu.read(table)).problems.filter(rule="look-alikes")["message"].unique()
    assert (
        message
        == "some aspects have names that look equal but count as different: 'tone' = 'to\\u200bne'; use one spelling"
    )


def test_a_wide_table_without_kinds_names_the_raters_that_look_human() -> None:
    with pytest.raises(cu.OptionError) as error:
        cu.agreement(pooled())
    message = str(error.value)
    assert message.startswith(
        "no rater is known to be human; name the annotators with human='PATTERN' (or give a "
        "column or raters file with 'kind'). Raters:"
    )
    assert "these look human: human_coherence" in message
    assert ". The names contain aspects: map the columns by --columns 'human_{aspect" in message
    ratings = pl.DataFrame({"item": [1, 1], "system": ["A", "B"], "rater": "bob", "score": [1.0, None]})
    with pytest.raises(cu.OptionError) as error:
        cu.agreement(cu.read(ratings))  # A missing score is noted, but does not explain the error.
    assert str(error.value).endswith("Raters: bob (leaderboard and consistency need no annotators)")
    columns = {"score": ["human_{aspect}_{rater}", "metric:{rater}"]}
    frame = wide(*TWO_ASPECTS, text=False).rename({"doc_id": "item", "model": "system"})
    assert cu.read(frame, columns=columns).aspects == ("coherence", "fluency")  # type: ignore[arg-type]


@pytest.mark.parametrize("extra", [{"aspect": "x"}, {}])
def test_people_without_aspects_in_their_names_are_told_nothing(extra: dict[str, str]) -> None:
    names = TWO_ASPECTS if extra else ("expert_1", "expert_2", "turker_1", "turker_2", "bleu")
    frame = wide(*names, text=False).rename({"doc_id": "item", "model": "system"})
    study = cu.read(frame.with_columns(**{name: pl.lit(value) for name, value in extra.items()}))
    assert study.notes == ()


def test_annotators_of_an_aspect_that_was_not_chosen_are_told_of() -> None:
    names = ("coherence_alice", "coherence_bob", "fluency_alice", "fluency_bob", "bleu")
    rows = [
        {"item": str(i), "system": system, **{name: (i + j + at) % 5 for at, name in enumerate(names)}}
        for i in range(6)
        for j, system in enumerate("ABC")
    ]
    notes = {
        note.rule: note.message for note in cu.agreement(pl.DataFrame(rows), human="coherence_*", resamples=0).notes
    }
    assert "fluency_alice, fluency_bob;" in notes["annotators-as-metrics"]


def test_problems_that_differ_in_the_aspect_name_the_aspects_in_order() -> None:
    problems = pl.DataFrame(
        {"severity": "info", "rule": "r", "aspect": list("cabfed"), "message": "m", "examples": [["x"]] * 6}
    )
    assert merge_aspects(problems)["aspect"].to_list() == ["c, a, b, f, e, d"]
    for unchanged in (problems.drop("aspect").head(1), problems.clear()):
        assert merge_aspects(unchanged).equals(unchanged)


def test_the_problems_of_each_aspect_have_a_view() -> None:
    rows = [
        (f"i{i}", system, rater, aspect, float((i + k) % 2))
        for aspect, n_items in (("tone", 40), ("wit", 2))
        for i in range(n_items)
        for k, system in enumerate("AB")
        for rater in ("ann", "m1")
    ]
    views = [view for view in check(rated(rows, {"ann": "human", "m1": "metric"})).views() if "problems" in view.title]
    message = "annotators compared outputs of only 2 items; with fewer than 30 items, intervals are approximate"
    assert [(view.title, view.header, view.labels, view.rows) for view in views] == [
        (
            "problems (wit)",
            ("severity", "rule", "message"),
            ("Severity", "Rule", "What"),
            (("warning", "few-items", message),),
        )
    ]
