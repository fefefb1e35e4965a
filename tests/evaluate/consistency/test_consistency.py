from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.data.joining import join
from custodes.data.preferences import Preferences
from custodes.data.study import Study
from custodes.errors import InputError, OptionError
from custodes.evaluate.consistency.consistency import Consistency
from custodes.evaluate.consistency.orders import ONE_ORDER
from custodes.stats.annotator_models import AnnotatorLabels
from custodes.stats.reliability import alpha, coincidences
from tests.simulation.planted_judges import PLANTED, World, planted

INCONCLUSIVE = "inconclusive"


def battles(*rows: tuple[object, ...], **more: Any) -> Study:
    """Return rows of item, order, preference, and repeat if there are four values."""
    names = ["item", "order", "preference", "repeat"][: len(rows[0])]
    frame = pl.DataFrame([list(row) for row in rows], schema=names, orient="row")
    base = {"system_a": "A", "system_b": "B", "rater": "judge", "kind": "metric"} | more
    return cu.read(frame.with_columns(**{name: pl.lit(value) for name, value in base.items() if name not in names}))


def consistency_of(study: Study, **options: Any) -> Consistency:
    return cu.consistency(study, **{"resamples": 0} | options)


def named(result: Consistency) -> set[tuple[str, str, str]]:
    rows = result.findings.filter(~pl.col("finding").is_in(["", INCONCLUSIVE]))
    return set(rows.select("rater", "kind", "finding").rows())


def margins(result: Consistency) -> dict[str, float]:
    return dict(result.findings.filter(kind="position").select("rater", "estimate").iter_rows())


def test_flips_margin_and_confusion_by_hand() -> None:
    # 3 of 10 comparisons prefer the first slot in either order, 1 the second, 4 are consistent, 2 change from a win to
    # a tie.
    rows = [(k, "ab", 1) for k in range(3)] + [(k, "ba", -1) for k in range(3)]
    rows += [(3, "ab", -1), (3, "ba", 1)]
    rows += [(k, order, 1 if k % 2 else -1) for k in range(4, 8) for order in ("ab", "ba")]
    rows += [(k, order, won) for k in (8, 9) for order, won in (("ab", 1), ("ba", 0))]
    result = consistency_of(battles(*rows))
    row = result.orders.row(0, named=True)
    assert (row["n_both_orders"], row["consistency"], row["flip_rate"]) == (10, 0.4, 0.4)
    # points: (3 x 2 - 2 + 2 x 1) / 2 over 10 comparisons
    assert margins(result)["judge"] == pytest.approx(30)
    assert row["first_rate"] == pytest.approx((3 * 2 + 4 + 2) / 18)
    confusion = result.confusion.row(0, named=True)
    assert (confusion["win_loss"], confusion["loss_win"], confusion["win_tie"]) == (3, 1, 2)
    assert (confusion["win_win"], confusion["loss_loss"]) == (2, 2)


def test_names_of_systems_and_sides_of_rows_do_not_matter() -> None:
    study = planted(PLANTED[:3], World(items=12), 3)
    frame = study.preferences.frame
    turn = {"ab": "ba", "ba": "ab", "": ""}
    sides = frame.rename({"system_a": "system_b", "system_b": "system_a"}).with_columns(
        preference=-pl.col("preference"), order=pl.col("order").replace(turn)
    )
    reversed_study = replace(study, preferences=Preferences.make(sides)[0])
    first, second = consistency_of(study), consistency_of(reversed_study)
    assert margins(second) == pytest.approx(margins(first))
    new_names = {f"s{k}": f"t{9 - k}" for k in range(6)}
    swapped = frame.with_columns(pl.col("system_a", "system_b").replace(new_names))
    renamed_result = consistency_of(
        replace(study, preferences=Preferences.make(swapped)[0]), human="p0", metrics="position,fair"
    )
    assert margins(renamed_result) == pytest.approx({rater: margins(first)[rater] for rater in ("fair", "position")})


def test_planted_judges_are_named_as_they_are_and_nobody_else() -> None:
    result = consistency_of(planted(PLANTED, World(items=100, gap=1.0), 5))
    assert named(result) == {
        ("position", "position", "prefers what is shown first"),
        ("length", "length", "prefers longer outputs"),
        ("own", "own systems", "prefers its own systems"),
        ("failing", "failures", "fails unevenly"),
    }
    assert result.findings.filter(rater="fair")["p_adjusted"].min() > 0.05


def test_a_fair_judge_is_not_accused_where_noisy_people_leave_quality_in_the_slope() -> None:
    result = consistency_of(planted(PLANTED[:1], World(items=80, noise=2.0, rho=0.8), 1))
    assert result.length.filter(rater="fair")["raw_effect_low"].item() > 0
    assert result.findings.filter(rater="fair", kind="length")["p_value"].item() > 0.05


def test_the_other_slot_and_shorter_outputs_are_named_too() -> None:
    second = replace(PLANTED[1], slot=-0.5)
    shorter = replace(PLANTED[2], length=-0.8)
    assert named(consistency_of(planted((second, shorter), World(items=80), 2))) == {
        ("position", "position", "prefers what is shown second"),
        ("length", "length", "prefers shorter outputs"),
    }


def test_one_order_dealt_at_random_tells_the_margin_and_a_fixed_one_does_not() -> None:
    study = planted(PLANTED[:2], World(items=80, both=False), 4)
    result = consistency_of(study)
    assert result.orders["n_both_orders"].to_list() == [0, 0]
    assert ("position", "position", "prefers what is shown first") in named(result)
    assert "one-order" in {note.rule for note in result.notes}
    fixed = battles(*[(k, "ab", 1) for k in range(30)])
    row = consistency_of(fixed).findings.row(0, named=True)
    assert (row["finding"], row["reason"], row["p_value"]) == (INCONCLUSIVE, ONE_ORDER, None)


def test_an_order_that_goes_with_the_pair_is_no_margin() -> None:
    # Every pair has mostly one order, and its better system is mostly shown first.
    rng = np.random.default_rng(0)
    rows = []
    for item in range(600):
        first = rng.random() < 0.8
        won = 1 if rng.random() < 0.8 else -1
        rows.append((item, "ab" if first else "ba", won))
    result = consistency_of(battles(*rows))
    assert result.orders["first_rate"].item() > 0.6
    assert result.findings["p_value"].item() > 0.05


def test_noise_is_told_from_what_the_order_does() -> None:
    rng = np.random.default_rng(1)
    noisy, steady = [], []
    for item in range(200):
        for order, sign in (("ab", 1), ("ba", -1)):
            for run in range(3):
                noisy.append((item, order, int(rng.choice([1, -1])), run))
                steady.append((item, order, sign if item % 2 else 1, run))
    first, second = (consistency_of(battles(*rows)).repeats.row(0, named=True) for rows in (noisy, steady))
    assert first["comparisons"] == 200
    assert first["agreement_within_order"] == pytest.approx(0.5, abs=0.05)
    assert first["agreement_across_orders"] == pytest.approx(0.5, abs=0.05)
    assert (second["agreement_within_order"], second["agreement_across_orders"]) == (1, 0.5)


def test_scores_given_twice_have_repeats() -> None:
    rng = np.random.default_rng(2)
    rows = [
        {"item": i, "system": s, "rater": "judge", "kind": "metric", "repeat": run, "score": k + 0.7 * rng.normal()}
        for i in range(40)
        for k, s in enumerate("ABC")
        for run in range(2)
    ]
    result = consistency_of(cu.read(pl.DataFrame(rows)))
    row = result.repeats.row(0, named=True)
    assert (row["comparisons"], row["agreement_across_orders"]) == (120, None)
    assert 0.6 < row["agreement_within_order"] < 1


def test_failures_are_counted_by_system_order_and_reason() -> None:
    rows = pl.DataFrame({"item": range(40), "model_a": "A", "model_b": ["B", "C"] * 20, "rater": "j", "kind": "metric"})
    winner = ["garbage" if k % 2 else "" if k == 0 else "tie" if k < 8 else "model_a" for k in range(40)]
    study = cu.read(rows.with_columns(winner=pl.Series(winner), order=pl.lit("ab")), invalid="force")
    # The 20 verdicts on C are unreadable and one on B is empty, so system C does not appear in any verdict.
    result = consistency_of(study)
    rates = {(row["factor"], row["level"]): (row["queried"], row["failure_rate"]) for row in result.missing.to_dicts()}
    assert rates["all", ""] == (40, 21 / 40)
    assert (rates["reason", "unreadable"], rates["reason", "empty"]) == ((40, 0.5), (40, 1 / 40))
    assert "order" not in set(result.missing["factor"])  # all verdicts have one order
    assert rates["system", "C"] == (20, 1)
    finding = result.findings.filter(kind="failures").row(0, named=True)
    assert finding["factor"] == "system"
    assert finding["p_value"] < 0.001


def own_reasons(result: Consistency) -> dict[str, str]:
    return dict(result.findings.filter(kind="own systems").select("rater", "reason").iter_rows())


def test_own_systems_need_people_and_systems_enough() -> None:
    study = planted(PLANTED[3:4], World(items=40), 1)
    few = consistency_of(study, systems="s1,s2,s3")
    assert own_reasons(few) == {"own": "fewer than 5 systems to fit the curve"}
    without = consistency_of(planted(PLANTED[3:4], World(items=40, people=0), 1))
    assert "no item has human ratings of two systems" in own_reasons(without)["own"]
    reason = "no annotator (other than the rater) rated which output is better"
    assert set(without.findings.filter(kind="length")["reason"]) == {reason}


def test_one_person_cannot_tell_length_from_quality() -> None:
    result = consistency_of(planted(PLANTED[:1], World(items=80, people=1), 1))
    reasons = dict(result.findings.filter(kind="length").select("rater", "reason").iter_rows())
    assert (
        reasons["fair"] == "there is only one annotator, but the noise of human ratings is estimated from two or more"
    )
    assert result.length.filter(rater="fair")["raw_effect"].item() > 0
    assert reasons["p0"] == "no annotator (other than the rater) rated which output is better"
    random_answers = consistency_of(planted(PLANTED[:1], World(items=80, people=2, noise=60.0), 1))
    (reason,) = random_answers.findings.filter(rater="fair", kind="length")["reason"]
    assert reason.endswith("annotators hardly agree with each other beyond the effect of length")


def test_judges_alone_and_people_alone() -> None:
    study = planted(PLANTED[:2], World(items=40, people=2, verdicts=True), 1)
    judges = replace(study, raters=study.raters.select_raters(["fair", "position"]))
    alone = consistency_of(cu.read(_long(study, ["fair", "position"])))
    assert ("position", "position", "prefers what is shown first") in named(alone)
    assert alone.panels.is_empty()
    assert judges.metrics == ("fair", "position")
    ratings = pl.DataFrame({"item": [1, 1], "system": ["A", "B"], "rater": "ann", "kind": "human", "score": [1.0, 2.0]})
    assert [note.rule for note in consistency_of(cu.read(ratings)).notes] == ["nothing-examined"]
    as_humans = consistency_of(cu.read(_long(study, ["fair", "position"]).with_columns(kind=pl.lit("human"))))
    assert ("position", "position", "prefers what is shown first") in named(as_humans)


def _long(study: Study, raters: list[str]) -> pl.DataFrame:
    frame = study.preferences.frame.filter(pl.col("rater").is_in(raters))
    return frame.with_columns(kind=pl.lit("metric"))


def test_one_comparison_says_nothing_and_no_comparison_is_one_line() -> None:
    result = consistency_of(battles((1, "ab", 1), (1, "ba", -1)), resamples=20)
    assert result.orders["flip_rate"].item() == 1
    assert result.orders["flip_rate_low"].item() is None
    assert result.findings["finding"].item() == ""
    single_rating = pl.DataFrame({"item": [1], "system": ["A"], "rater": ["j"], "kind": ["metric"], "score": [1.0]})
    with pytest.raises(
        InputError, match="there is nothing to compare, because the study has no verdicts, no item with"
    ):
        consistency_of(cu.read(single_rating))
    with pytest.raises(OptionError, match="judgee"):
        consistency_of(battles((1, "ab", 1)), metrics="judgee")


def test_judges_outside_the_committee_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("custodes.evaluate.consistency.committee.MOST_JUDGES", 2)
    study = cu.read("demo").select(aspect="fluency", metrics=["learned", "selfeval", "judge"])
    learned = study.ratings.frame.filter(rater="learned")
    elsewhere = learned.with_columns(rater=pl.lit("other"), aspect=pl.lit("style"), kind=pl.lit("metric"))
    result = consistency_of(join([study, cu.read(elsewhere)]), aspect="fluency")
    assert result.panels["panel"].to_list()[3:] == ["learned", "judge"]  # the judge has scores for the aspect
    (note,) = (note for note in result.notes if note.rule == "not-in-committee")
    assert note.message == (
        "the table panels excludes selfeval for aspect 'fluency'; the table has at most 2 judges and metrics with "
        "enough comparisons, and prefers those with scores for the aspect"
    )
    monkeypatch.undo()
    assert "not-in-committee" not in {note.rule for note in consistency_of(study).notes}


def test_committees_by_hand() -> None:
    truth = np.array([1, -1] * 30)
    views = {
        "a": np.where(np.arange(60) < 12, -truth, truth),
        "b": np.where((np.arange(60) >= 12) & (np.arange(60) < 24), -truth, truth),
        "c": np.where((np.arange(60) >= 24) & (np.arange(60) < 36), -truth, truth),
    }
    base = pl.DataFrame({"item": range(60), "system_a": "A", "system_b": "B"})
    judges = [
        base.with_columns(rater=pl.lit(r), kind=pl.lit("metric"), preference=pl.Series(v)) for r, v in views.items()
    ]
    person = base.with_columns(rater=pl.lit("ann"), kind=pl.lit("human"), preference=pl.Series(truth))
    result = consistency_of(cu.read(pl.concat([*judges, person])), resamples=50)
    panels = {panel["panel"]: panel for panel in result.panels.iter_rows(named=True)}
    assert (panels["all"]["accuracy"], panels["a"]["accuracy"], panels["all"]["comparisons"]) == (1, 0.8, 60)
    assert panels["best majority"]["judges"] == ["a", "b", "c"]
    assert panels["best majority"]["gain"] == pytest.approx(0.2, abs=0.1)
    single = consistency_of(cu.read(pl.concat([judges[0], person]))).panels
    assert single["panel"].to_list() == ["a"]  # one judge is no committee
    # The name of the combined annotators may be the name of an annotator.
    human = person.with_columns(rater=pl.lit("human"))
    as_human = consistency_of(cu.read(pl.concat([*judges, human])), resamples=50)
    assert as_human.panels.equals(result.panels)


def test_check_tells_of_orders() -> None:
    rows = [(k, order, 1 if k % 2 else -1) for k in range(40) for order in ("ab", "ba")]
    person = cu.read(
        pl.DataFrame(
            {
                "item": range(40),
                "system_a": "A",
                "system_b": "B",
                "rater": "ann",
                "kind": "human",
                "preference": [1, -1] * 20,
            }
        )
    )

    def rules(*verdict_rows: tuple[object, ...]) -> dict[str, str]:
        return dict(cu.check(join([person, battles(*verdict_rows)])).problems.select("rule", "message").rows())

    assert not {"one-order", "half-judged", "one-of-two-orders"} & rules(*rows).keys()
    assert "judge" in rules(*[row for row in rows if row[1] == "ab"])["one-order"]
    assert "judge (5)" in rules(*rows[:70], *[row for row in rows[70:] if row[1] == "ab"])["one-of-two-orders"]
    lost = [(*row[:2], None, *row[3:]) if row[1] == "ba" else row for row in rows[70:]]
    found_rules = rules(*rows[:70], *lost)
    assert "one-of-two-orders" not in found_rules
    assert (
        "5 comparisons are excluded because they were queried in both orders and have a verdict in only one order "
        "(judge 5). With a verdict in only one order, the position preference of the rater does not cancel."
    ) in found_rules["half-judged"]


def test_failures_are_told_by_the_reasons_that_the_file_gives() -> None:
    reasons = ["refusal"] * 3 + ["label"] * 2 + [""]
    rows = [(k, "ab", None if k < 6 else 1) for k in range(40)]
    frame = pl.DataFrame(rows, schema=["item", "order", "preference"], orient="row").with_columns(
        invalid=pl.Series([*reasons, *[""] * 34]), system_a=pl.lit("A"), system_b=pl.lit("B"), rater=pl.lit("j")
    )
    result = consistency_of(cu.read(frame))
    visible = (
        result.missing.filter(pl.col("factor").is_in(["all", "reason"]))
        .select("factor", "level", "queried", "failure_rate")
        .rows()
    )
    assert visible == [
        ("all", "", 40, 6 / 40),
        *(("reason", name, 40, n / 40) for name, n in (("refusal", 3), ("label", 2), ("empty", 1))),
    ]
    without_reasons = consistency_of(cu.read(frame.drop("invalid"))).missing.filter(factor="reason")
    assert without_reasons.select("level", "failure_rate").rows() == [("empty", 6 / 40)]


WORDS = np.array(["bug", "praise", "refund"])


def repeated(n: int = 60, runs: int = 3, n_words: int = 3) -> tuple[pl.DataFrame, np.ndarray]:
    """Return labels of a judge, run by run, and their codes (outputs, runs)."""
    rng = np.random.default_rng(20_260_220)
    first = rng.integers(n_words, size=n)
    codes = np.where(rng.random((n, runs)) < 0.75, first[:, None], rng.integers(n_words, size=(n, runs)))
    rows = {
        "id": np.repeat(np.arange(n), runs),
        "run": np.tile(np.arange(runs), n),
        "human_label": WORDS[np.repeat(first, runs)],
        "judge_label": WORDS[codes.ravel()],
    }
    return pl.DataFrame(rows), codes


def test_repeats_are_compared_output_by_output() -> None:
    frame, codes = repeated()
    row = cu.consistency(frame).repeated_labels.row(0, named=True)
    pairs = [codes[:, i] == codes[:, j] for i in range(3) for j in range(3) if i != j]
    assert row["rater"] == "judge_label"
    assert row["outputs"] == 60
    assert row["agreement"] == pytest.approx(np.mean(pairs))
    task, run = np.indices(codes.shape).reshape(2, -1)
    labels = AnnotatorLabels.from_labels(task, run, codes.ravel(), n_tasks=60, n_workers=3, n_labels=3)
    counts = coincidences(labels, units=np.zeros(60, dtype=int), n_units=1)[0]
    assert row["alpha"] == pytest.approx(float(alpha(counts, scale="nominal")))
    assert row["agreement_low"] < row["agreement"] < row["agreement_high"]


def test_a_human_label_beside_every_run_was_given_once() -> None:
    frame, _ = repeated()
    study = cu.read(frame)
    assert study.ratings.frame.filter(rater="human_label").height == 60
    assert cu.consistency(study).repeated_labels["rater"].to_list() == ["judge_label"]
    assert cu.rates(study, positive="refund").rates["n"].to_list() == [60]


def test_labels_once_are_refused_in_one_line() -> None:
    frame, _ = repeated()
    with pytest.raises(cu.CustodesError, match="no output that a rater labelled several times; give verdicts, scores"):
        cu.consistency(frame.filter(run=0))


def test_categories_are_not_compared_as_numbers() -> None:
    frame, _ = repeated(n=40)
    two = pl.concat([frame.with_columns(system=pl.lit(name)) for name in ("a", "b")])
    answer = cu.consistency(two)
    assert answer.repeats.is_empty()
    assert answer.repeated_labels["outputs"].to_list() == [80]


def test_repeated_scores_of_few_whole_numbers_are_labels() -> None:
    rng = np.random.default_rng(20_260_221)
    scores = {"item": np.repeat(np.arange(40), 2), "repeat": [0, 1] * 40, "system": "a", "rater": "j", "kind": "metric"}
    whole = pl.DataFrame(scores | {"score": rng.integers(1, 6, 80)})
    row = cu.consistency(whole).repeated_labels.row(0, named=True)
    values = whole["score"].to_numpy().reshape(40, 2)
    assert row["agreement"] == pytest.approx(np.mean(values[:, 0] == values[:, 1]))
    with pytest.raises(cu.CustodesError, match="no verdicts"):
        cu.consistency(pl.DataFrame(scores | {"score": rng.normal(size=80)}))


def repeated_verdicts(seed: int) -> pl.DataFrame:
    """Return up to three verdicts of two judges in each order of 40 comparisons; a tenth is unanswered."""
    rng = np.random.default_rng(seed)
    rows = [
        (item, judge, order, repeat, int(rng.choice([-1, 0, 1], p=[0.2, 0.2, 0.6])), rng.random() < 0.1)
        for item in range(40)
        for judge in ("j", "k")
        for order in ("ab", "ba")
        for repeat in range(int(rng.integers(0, 4)))
    ]
    frame = pl.DataFrame(rows, schema=["item", "rater", "order", "repeat", "preference", "lost"], orient="row")
    return frame.with_columns(
        preference=pl.when(~pl.col("lost")).then("preference"),
        invalid=pl.when("lost").then(pl.lit("label")).otherwise(pl.lit("")),
        system_a=pl.lit("A"),
        system_b=pl.lit("B"),
        kind=pl.lit("metric"),
        group=pl.when(pl.col("item") < 15).then(pl.lit("low")).otherwise(pl.lit("high")),
    ).drop("lost")


@pytest.mark.parametrize("seed", range(3))
def test_repetitions_and_slices_are_proportions_of_equal_pairs_of_verdicts(seed: int) -> None:
    frame = repeated_verdicts(seed)
    items = frame.select("item", "group").unique()
    result = cu.consistency(cu.read(frame.drop("group"), items=items), by="group", resamples=30)
    slices = {(r["slice"], r["rater"], r["statistic"]): r["value"] for r in result.slices.to_dicts()}
    for judge in ("j", "k"):
        within, across, by_item = [], [], {}
        for (item,), part in frame.filter(rater=judge).partition_by("item", as_dict=True).items():
            signs = {o: part.filter(order=o)["preference"].drop_nulls().to_list() for o in ("ab", "ba")}
            equal = [np.mean([a == b for a, b in permutations(s, 2)]) for s in signs.values() if len(s) > 1]
            within += [np.mean(equal)] if equal else []
            if all(signs.values()) and equal:
                across.append(np.mean([a == b for a in signs["ab"] for b in signs["ba"]]))
            by_item[item] = (np.mean(equal) if equal else np.nan, part["preference"].is_null().mean(), part.height)
        row = result.repeats.filter(rater=judge).row(0, named=True)
        assert row["comparisons"] == len(within)
        assert row["agreement_within_order"] == pytest.approx(np.mean(within))
        assert row["agreement_across_orders"] == pytest.approx(np.mean(across))
        for name, chosen in (("low", range(15)), ("high", range(15, 40))):
            values = [by_item[item] for item in chosen if item in by_item]
            expected = np.nanmean([value[0] for value in values])
            assert slices[name, judge, "agreement_within_order"] == pytest.approx(expected)
            lost, asked = sum(v[1] * v[2] for v in values), sum(v[2] for v in values)
            assert slices[name, judge, "failure_rate"] == pytest.approx(lost / asked)


def test_repeated_labels_agree_as_often_as_pairs_of_runs() -> None:
    rng = np.random.default_rng(0)
    rows = [
        (item, repeat, int(np.clip(item % 4 + rng.integers(-1, 2), 0, 3)))
        for item in range(30)
        for repeat in range(int(rng.integers(1, 5)))
    ]
    frame = pl.DataFrame(rows, schema=["item", "repeat", "score"], orient="row").with_columns(
        system=pl.lit("A"), rater=pl.lit("judge"), kind=pl.lit("metric")
    )
    row = cu.consistency(cu.read(frame), resamples=30).repeated_labels.row(0, named=True)
    parts = [part["score"].to_list() for part in frame.partition_by("item") if part.height > 1]
    n = sum(map(len, parts))
    pairs = np.zeros((4, 4))
    for part in parts:
        for a, b in permutations(part, 2):
            pairs[a, b] += 1 / (len(part) - 1)
    assert row["outputs"] == len(parts)
    assert row["agreement"] == pytest.approx(np.trace(pairs) / n)
    total = pairs.sum(axis=0)
    ranks = total.cumsum() - total / 2
    distance = (ranks[:, None] - ranks) ** 2
    expected = (np.outer(total, total) - np.diag(total)) / (n - 1)
    assert row["alpha"] == pytest.approx(1 - (pairs * distance).sum() / (expected * distance).sum())


def test_panels_are_majorities_and_the_best_judge_is_chosen_on_other_folds() -> None:
    rng = np.random.default_rng(1)
    human = rng.choice([-1, 1], 60)
    signs = np.array([np.where(rng.random(60) < p, human, -human) for p in (0.6, 0.7, 0.75)])
    signs[0, ::9] = 0
    tables = [
        pl.DataFrame({"item": range(60), "preference": sign}).with_columns(rater=pl.lit(name), kind=pl.lit(kind))
        for name, kind, sign in (*zip("abc", ["metric"] * 3, signs, strict=True), ("person", "human", human))
    ]
    study = cu.read(pl.concat(tables).with_columns(system_a=pl.lit("A"), system_b=pl.lit("B")))
    panels = {row["panel"]: row for row in consistency_of(study).panels.to_dicts()}
    correct = np.where(signs == 0, 0.5, signs == human)
    vote = np.sign(signs.sum(axis=0))
    assert panels["all"]["accuracy"] == pytest.approx(np.where(vote == 0, 0.5, vote == human).mean())
    for name, values in zip("abc", correct, strict=True):
        assert panels[name]["accuracy"] == pytest.approx(values.mean())
    fold, held_out = np.arange(60) % 5, np.empty(60)
    for k in range(5):
        best = correct[:, fold != k].mean(axis=1).round(12).argmax()
        held_out[fold == k] = correct[best, fold == k]
    single = panels["best single judge"]
    assert single["accuracy"] == pytest.approx(held_out.mean())
    assert single["judges"] == ["abc"[correct.mean(axis=1).argmax()]]
    assert single["gain"] is None
    for name in ("all", "best majority", "a"):
        assert panels[name]["gain"] == pytest.approx(panels[name]["accuracy"] - single["accuracy"])
    assert {row["comparisons"] for row in panels.values()} == {60}
