"""Leaderboards whose human comparisons are extended by those of a metric."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import custodes as cu
from custodes.evaluate.leaderboard.bradley_terry import sampling_mismatch
from custodes.evaluate.leaderboard.leaderboard import best_corrected, main_rows
from tests.evaluate.leaderboard.boards import QUICK, battles, by, of, rules


def test_people_corrected_by_a_biased_metric() -> None:
    """The metric over-rates A; annotators labelled 300 of 3,000 battles. The target is human preference over all
    battles."""
    rng = np.random.default_rng(5)
    strength = np.array([0.0, 0.6, 0.2, -0.2, -0.6])
    all_of_people = battles(rng, strength=strength.tolist(), n=3000, ties=0.1)
    likes = (all_of_people["system_a"] == "A").cast(int) - (all_of_people["system_b"] == "A").cast(int)
    reversed_rows = (rng.random(3000) < 0.15) & (likes.to_numpy() != 0)
    metric = np.where(reversed_rows, likes.to_numpy(), all_of_people["preference"].to_numpy())
    annotated = rng.permutation(3000)[:300]
    table = pl.concat(
        [
            by(all_of_people.with_columns(preference=metric), "judge", "metric"),
            by(all_of_people[annotated], "ann", "human"),
        ]
    )
    board = cu.leaderboard(cu.read(table), **QUICK)
    (row,) = board.corrected.iter_rows(named=True)
    assert (row["metric"], row["labels"], row["battles"], row["reason"]) == ("judge", 300, 3000, "")
    assert row["saving"] > 0.4
    assert row["p_random"] > 0.01
    human, corrected = of(board), of(board, "corrected:judge")
    whole = of(cu.leaderboard(cu.read(by(all_of_people, "ann", "human")), resamples=0))
    for system, values in corrected.items():
        assert values["strength_low"] < whole[system]["strength"] < values["strength_high"]
        width = values["strength_high"] - values["strength_low"]
        assert width < 0.85 * (human[system]["strength_high"] - human[system]["strength_low"])
        assert values["win_rate"] is None
    assert of(board, "judge")["A"]["strength_low"] > 0.1
    assert best_corrected(board)["metric"].to_list() == ["judge"]
    assert main_rows(board, board.effects).equals(board.effects)  # With few raters all rows are printed.


def chosen_by(wins: bool) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return a metric's battles and human battles that depend on a system (A) or on the metric's winner."""
    rng = np.random.default_rng(6)
    table = battles(rng, n=2000, ties=0.1)
    metric = table.with_columns(
        preference=pl.when(pl.Series(rng.random(2000) < 0.8)).then("preference").otherwise(-pl.col("preference"))
    )
    won = (metric["preference"] == 1) & (metric["system_a"] < metric["system_b"])
    beats = won if wins else table["system_a"] == "A"
    selected = beats.to_numpy() & (rng.random(2000) < 0.5) | (rng.random(2000) < 0.05)
    return metric, table.filter(pl.Series(selected))


@pytest.mark.parametrize("wins", [True, False])
def test_nothing_is_corrected_where_people_did_not_judge_a_random_part(wins: bool) -> None:
    metric, human = chosen_by(wins)
    board = cu.leaderboard(cu.read(pl.concat([by(metric, "judge", "metric"), by(human, "ann", "human")])), **QUICK)
    (row,) = board.corrected.iter_rows(named=True)
    assert row["p_random"] < 0.01
    assert row["reason"] == "the human comparisons are not a random part of the metric's comparisons"
    assert row["saving"] is None
    assert "corrected:judge" not in board.systems["rater"]
    assert [note.message for note in board.notes if note.rule == "not-corrected"] == [
        f"judge: there is no correction, because {row['reason']}; the ranking by annotators holds only for the "
        "comparisons that annotators rated"
    ]


def test_known_probabilities_need_no_test() -> None:
    metric, _ = chosen_by(False)
    rng = np.random.default_rng(7)
    chance = np.where(metric["system_a"] == "A", 0.6, 0.1)
    human = battles(np.random.default_rng(6), n=2000, ties=0.1).filter(pl.Series(rng.random(2000) < chance))
    items = pl.DataFrame({"item": metric["item"], "probability": chance})
    table = pl.concat([by(metric, "judge", "metric"), by(human, "ann", "human")])
    board = cu.leaderboard(cu.read(table, items=items), **QUICK)
    (row,) = board.corrected.iter_rows(named=True)
    assert (row["p_random"], row["reason"]) == (None, "")
    for system, truth in zip("ABCDE", (1.0, 0.5, 0.0, -0.5, -1.0), strict=True):
        values = of(board, "corrected:judge")[system]
        assert values["strength_low"] - 0.2 < truth < values["strength_high"] + 0.2
    gaps = items.with_columns(probability=pl.when(pl.col("item") > 10).then("probability"))
    (row,) = cu.leaderboard(cu.read(table, items=gaps), **QUICK).corrected.iter_rows(named=True)
    assert row["reason"].startswith("the items table gives no probability for 11 items")


def test_human_comparisons_count_by_the_inverse_of_their_probability() -> None:
    """Comparisons of A are six times as likely to be annotated; weights of items give the same estimate."""
    rng = np.random.default_rng(7)
    table = battles(np.random.default_rng(6), n=2000, ties=0.1)
    chance = np.where((table["system_a"] == "A") & (table["preference"] > 0), 0.6, 0.1)
    human = by(table.filter(pl.Series(rng.random(2000) < chance)), "ann", "human")
    items = pl.DataFrame({"item": table["item"], "probability": chance, "weight": 1 / chance})
    columns = ["system", "strength", "strength_low", "strength_high", "win_rate", "rank"]
    answers = [
        cu.leaderboard(cu.read(human, items=items.select("item", name)), **QUICK).systems.select(columns)
        for name in ("probability", "weight")
    ]
    assert_frame_equal(*answers)
    study = cu.read(pl.concat([human, by(table, "judge", "metric")]), items=items.select("item", "probability"))
    assert "unequal-selection" in rules(cu.favoritism(study, resamples=0))


@pytest.mark.parametrize("shift", [0.3, 3.0])
def test_known_probabilities_must_fit_how_many_were_judged(shift: float) -> None:
    """400 of 2,000 items are annotated with probability .2; the table says a third of it, or three times as much."""
    rng = np.random.default_rng(14)
    table = battles(rng, n=2000)
    metric, human = noisy(rng, table), table.filter(pl.Series(rng.random(2000) < 0.2))
    joint = pl.concat([by(metric, "judge", "metric"), by(human, "ann", "human")])
    for chance, refused in ((0.2, False), (0.2 * shift, True)):
        items = pl.DataFrame({"item": table["item"], "probability": chance})
        (row,) = cu.leaderboard(cu.read(joint, items=items), **QUICK).corrected.iter_rows(named=True)
        message = f"annotators rated {human.height} of 2000 items, but the probabilities in the items table add up to"
        assert row["reason"].startswith(message) if refused else row["reason"] == ""
        assert (row["saving"] is None) is refused


def shown_first(rng: np.random.Generator, *, n: int = 2000) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return battles of equal systems by a judge and 400 by annotators, who both prefer the first place; the first
    system of a pair takes it in .8 of battles."""
    table = battles(rng, strength=(0.0, 0.0, 0.0), n=n, ties=0)
    first = rng.random(n) < np.where(table["system_a"] < table["system_b"], 0.8, 0.2)
    view = np.where(first, 1.0, -1.0) + rng.normal(0, 0.7, n)
    preferences = [np.where(rng.random(n) < 1 / (1 + np.exp(-view)), 1, -1) for _ in range(2)]
    table = table.with_columns(order=pl.Series(np.where(first, "ab", "ba")))
    judge, human = (table.with_columns(preference=preference) for preference in preferences)
    return judge, human[rng.permutation(n)[:400]]


def test_the_order_is_held_equal_in_what_is_corrected() -> None:
    """Without adjustment the first system of the pair is called best, in 20 of 20 such studies."""
    judge, human = shown_first(np.random.default_rng(0))
    study = cu.read(pl.concat([by(judge, "judge", "metric"), by(human, "ann", "human")]))
    board = cu.leaderboard(study, resamples=100)
    assert board.systems.filter(rater="corrected:judge")["may_be_first"].to_list() == [True] * 3
    assert board.effects.filter(rater="corrected:judge", effect="shown first")["value_low"][0] > 0


@pytest.mark.parametrize(
    ("of_judge", "of_people", "reason"),
    [
        (pl.col("order"), pl.lit(None, pl.String), ""),
        (pl.lit(None, pl.String), pl.col("order"), "annotators saw one system of a pair first more often than"),
        (pl.col("order"), pl.col("order").reverse(), ""),
        (pl.lit(None, pl.String), pl.lit(None, pl.String), ""),
    ],
)
def test_nothing_is_corrected_where_annotators_saw_one_system_first(of_judge: Any, of_people: Any, reason: str) -> None:
    judge, human = shown_first(np.random.default_rng(0))
    tables = [
        by(judge.with_columns(order=of_judge), "judge", "metric"),
        by(human.with_columns(order=of_people), "ann", "human"),
    ]
    board = cu.leaderboard(cu.read(pl.concat(tables)), **QUICK)
    (row,) = board.corrected.iter_rows(named=True)
    assert row["reason"].startswith(reason)
    assert bool(row["reason"]) is bool(reason)
    assert ("corrected:judge" in board.systems["rater"]) is not bool(reason)


def random_places(rng: np.random.Generator, design: str, *, useless: bool = False, items: int = 300) -> pl.DataFrame:
    """Return verdicts of annotators on a fifth of the items and of a judge. Annotators see the systems in random order
    and prefer the first place; the judge sees both orders or one, or gives scores."""
    quality = np.array([0.6, 0.1, -0.7]) + rng.normal(0, 0.8, (items, 3))
    tables = []
    for a, b in ((0, 1), (0, 2), (1, 2)):
        gap = quality[:, a] - quality[:, b]
        pair = {"item": [f"i{k}" for k in range(items)], "system_a": "abc"[a], "system_b": "abc"[b]}
        place = rng.choice([-1, 1], items)
        view = gap + 0.6 * place + rng.logistic(size=items)
        human = pl.DataFrame(pair | {"order": np.where(place > 0, "ab", "ba"), "preference": np.sign(view).astype(int)})
        opinion = rng.normal(0, 2, items) if useless else gap + rng.normal(size=items)
        orders = {"both": ["ab", "ba"], "one": ["ab"], "scores": [""]}[design]
        judge = [
            pl.DataFrame(pair | {"order": order, "preference": np.sign(opinion + effect).astype(int)})
            for order in orders
            for effect in [{"ab": 1.0, "ba": -1.0, "": 0.0}[order]]
        ]
        tables += [by(human, "ann", "human"), by(pl.concat(judge), "judge", "metric")]
    rows_of_all = pl.concat(tables)
    annotated = rows_of_all["item"].unique().sort().gather(np.flatnonzero(rng.random(items) < 0.2))
    return rows_of_all.filter((pl.col("kind") == "metric") | pl.col("item").is_in(annotated.implode()))


@pytest.mark.parametrize("design", ["both", "one", "scores"])
def test_random_places_of_annotators_are_averaged_out(design: str) -> None:
    board = cu.leaderboard(cu.read(random_places(np.random.default_rng(4), design)), **QUICK)
    rows = board.systems.filter(rater="corrected:judge")
    assert rows["system"].to_list() == ["a", "b", "c"]
    assert [note.message for note in board.notes if note.rule == "order-averaged"] == [
        "judge: annotators and metric saw outputs in different orders. The effect of the order is averaged out, "
        "because annotators saw the two systems of a pair first about equally often (no significant difference)"
    ]
    assert "shown first" not in board.effects.filter(rater="corrected:judge")["effect"]


@pytest.mark.slow
@pytest.mark.parametrize("design", ["both", "one", "scores"])
@pytest.mark.parametrize("useless", [False, True])
def test_coverage_where_places_are_averaged_out(design: str, useless: bool) -> None:
    """The truth is the strength by human verdicts on very many items; widths are compared with those of human verdicts
    alone."""
    rng = np.random.default_rng(7)
    many = random_places(rng, "scores", items=60_000).filter(kind="human").with_columns(order=pl.lit(""))
    truth = dict(cu.leaderboard(cu.read(many), resamples=0).systems.select("system", "strength").iter_rows())
    covered, widths = [], []
    for _ in range(100):
        study = cu.read(random_places(rng, design, useless=useless))
        rows = cu.leaderboard(study, resamples=200).systems.filter(rater="corrected:judge")
        human = study.preferences.frame.filter(rater="ann").with_columns(order=pl.lit(""), kind=pl.lit("human"))
        human_alone = cu.leaderboard(cu.read(human.drop("p_a", "p_tie", "p_b", "seconds")), resamples=200).systems
        for corrected, uncorrected in zip(
            rows.sort("system").to_dicts(), human_alone.sort("system").to_dicts(), strict=False
        ):
            covered.append(corrected["strength_low"] <= truth[corrected["system"]] <= corrected["strength_high"])
            widths.append(
                (corrected["strength_high"] - corrected["strength_low"])
                / (uncorrected["strength_high"] - uncorrected["strength_low"])
            )
    assert len(covered) >= 285  # The test of a random part rejects in .01 of studies.
    assert 0.9 <= np.mean(covered) <= 0.99
    assert np.mean(widths) <= 1.02


@pytest.mark.parametrize(("different", "n"), [(0, 60), (4, 60), (5, 60)])
def test_how_a_metric_errs_must_have_been_seen(different: int, n: int) -> None:
    """Where humans and the metric hardly differ, intervals would be far too short."""
    table = battles(np.random.default_rng(16), n=1000, ties=0)
    wrong = pl.col("item").lt(different) | (pl.col("item").ge(n) & (pl.col("item") % 7 == 0))
    metric = table.with_columns(preference=pl.when(wrong).then(-pl.col("preference")).otherwise("preference"))
    board = cu.leaderboard(cu.read(pl.concat([by(metric, "judge", "metric"), by(table[:n], "ann", "human")])), **QUICK)
    (row,) = board.corrected.iter_rows(named=True)
    if different < 5:
        assert row["reason"].startswith(f"annotators and metric differ on only {different} of {n} comparisons")
        assert row["saving"] is None
        assert "corrected:judge" not in board.systems["rater"]
    else:
        assert row["reason"] == ""


def test_no_saving_where_people_alone_have_somebody_unbeaten() -> None:
    table = battles(np.random.default_rng(17), n=600, ties=0)
    e_wins = pl.when(system_a="E").then(1).when(system_b="E").then(-1).otherwise("preference")
    human = table.with_columns(preference=e_wins)[:100]
    metric = noisy(np.random.default_rng(18), table)
    board = cu.leaderboard(cu.read(pl.concat([by(metric, "judge", "metric"), by(human, "ann", "human")])), **QUICK)
    (row,) = board.corrected.iter_rows(named=True)
    assert (row["reason"], row["saving"]) == ("", None)
    assert best_corrected(board)["metric"].to_list() == ["judge"]


def noisy(rng: np.random.Generator, table: pl.DataFrame) -> pl.DataFrame:
    """Return battles with a fifth of the preferences reversed."""
    reversed_rows = pl.Series(rng.random(table.height) < 0.2)
    return table.with_columns(preference=pl.when(reversed_rows).then(-pl.col("preference")).otherwise("preference"))


@pytest.mark.parametrize("n", [0, 2, 12])
def test_hardly_any_people(n: int) -> None:
    """Without labels nothing is corrected; a few labels raise no error and are too few to estimate the metric's
    errors."""
    table = battles(np.random.default_rng(12), n=400)
    other_items = table[:3].with_columns(item=pl.col("item") + 1000)
    human = pl.concat([table[:n], other_items[: 3 if n == 0 else 0]])
    reversed_rows = pl.when(pl.col("item") % 2 == 0).then(-pl.col("preference")).otherwise("preference")
    metric = table.with_columns(preference=reversed_rows)
    board = cu.leaderboard(cu.read(pl.concat([by(metric, "judge", "metric"), by(human, "ann", "human")])), **QUICK)
    (row,) = board.corrected.iter_rows(named=True)
    assert row["labels"] == n
    if n == 0:
        assert row["reason"] == "annotators rated none of the comparisons of the metric"
    elif n < 12:
        assert "differ on only" in row["reason"]
    for rows in (of(board), of(board, "corrected:judge")):
        assert all(row["rank_high"] is None or row["rank_high"] > 1 for row in rows.values())


def test_systems_that_people_never_judged_are_left_out_of_the_correction() -> None:
    rng = np.random.default_rng(13)
    table = battles(rng, n=2000)
    human = table.filter(pl.col("system_a") != "E", pl.col("system_b") != "E")
    labelled = human[rng.permutation(human.height)[:200]]
    metric = noisy(rng, table)
    board = cu.leaderboard(cu.read(pl.concat([by(metric, "judge", "metric"), by(labelled, "ann", "human")])), **QUICK)
    (row,) = board.corrected.iter_rows(named=True)
    assert (row["reason"], row["labels"], row["battles"]) == ("", 200, human.height)
    assert of(board, "corrected:judge")["E"]["strength"] is None
    assert of(board, "judge")["E"]["strength"] is not None
    complete = cu.leaderboard(cu.read(pl.concat([by(metric, "judge", "metric"), by(human, "ann", "human")])), **QUICK)
    assert complete.corrected["reason"].to_list() == ["annotators rated all of the comparisons of the metric"]


@pytest.mark.parametrize(("n_labelled", "is_mismatch"), [(62, False), (63, True), (38, False), (37, True)])
def test_numbers_of_annotated_items_are_compared_with_their_binomial_distribution(
    n_labelled: int, *, is_mismatch: bool
) -> None:
    # 100 items with probability .5 and standard error 5: z = 2.4 and 2.6, two-sided p = .016 and .009.
    message = sampling_mismatch(
        np.full(100, 0.5), np.arange(100) < n_labelled, item_codes=np.arange(100), cluster_of_item=np.arange(100)
    )
    assert bool(message) is is_mismatch


def test_with_many_raters_the_annotators_and_the_best_correction_are_shown() -> None:
    rng = np.random.default_rng(5)
    table = battles(rng, n=900)
    metrics = [by(noisy(rng, table), "noisy", "metric"), by(noisy(rng, noisy(rng, table)), "noisier", "metric")]
    study = cu.read(pl.concat([by(table[:250], "ann", "human"), *metrics]))
    board = cu.leaderboard(study, resamples=50)
    savings = dict(board.corrected.select("metric", "saving").iter_rows())
    assert savings["noisy"] > savings["noisier"]
    assert best_corrected(board)["metric"].to_list() == ["noisy"]
    for rows in (board.systems, board.effects):
        assert set(rows["rater"]) == {"human", "noisy", "noisier", "corrected:noisy", "corrected:noisier"}
        assert set(main_rows(board, rows)["rater"]) == {"human", "corrected:noisy"}
    without = cu.leaderboard(cu.read(pl.concat([frame.with_columns(kind=pl.lit("metric")) for frame in metrics])))
    assert main_rows(without, without.systems).equals(without.systems)
    few = cu.leaderboard(study, metrics="noisy", resamples=50)
    assert main_rows(few, few.systems).equals(few.systems)  # three raters
