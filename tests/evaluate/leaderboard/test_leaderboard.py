from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import custodes as cu
from custodes.errors import InputError, OptionError
from custodes.evaluate.leaderboard.leaderboard import Leaderboard, best_corrected, main_rows
from custodes.stats.arrays import Floats
from custodes.stats.information_gain import information_gain
from custodes.stats.strength import more_battles

QUICK = {"resamples": 200}
NAMES = np.array(list("ABCDEFGHIJKLMNOP"))


def battles(
    rng: np.random.Generator,
    *,
    strength: Sequence[float] = (1.0, 0.5, 0.0, -0.5, -1.0),
    n: int = 1500,
    ties: float = 0.15,
    first: float = 0.0,
) -> pl.DataFrame:
    """Return battles of random pairs, one per item; the system in the first place gains `first` in log odds."""
    strengths, k = np.array(strength), len(strength)
    a = rng.integers(0, k, n)
    b = (a + rng.integers(1, k, n)) % k
    won = rng.random(n) < 1 / (1 + np.exp(strengths[b] - strengths[a] - first))
    preference = np.where(rng.random(n) < ties, 0, np.where(won, 1, -1))
    columns = {"item": np.arange(n), "system_a": NAMES[a], "system_b": NAMES[b], "preference": preference}
    return pl.DataFrame(columns).with_columns(order=pl.lit("ab"))


def by(table: pl.DataFrame, rater: str, kind: str) -> pl.DataFrame:
    return table.with_columns(rater=pl.lit(rater), kind=pl.lit(kind))


def of(board: Leaderboard, rater: str = "human", table: str = "systems") -> dict[str, dict[str, Any]]:
    """Return the rows of a rater by system."""
    return {row["system"]: row for row in board.to_frame(table).filter(rater=rater).iter_rows(named=True)}


def rules(board: Leaderboard) -> list[str]:
    return [note.rule for note in board.notes]


def test_strengths_order_ranks_and_groups() -> None:
    board = cu.leaderboard(cu.read(by(battles(np.random.default_rng(0)), "ann", "human")), **QUICK)
    rows = of(board)
    assert list(rows) == list("ABCDE")  # the strongest first
    for system, truth in zip("ABCDE", (1.0, 0.5, 0.0, -0.5, -1.0), strict=True):
        row = rows[system]
        assert row["strength_low"] < truth < row["strength_high"]
        assert row["rank_low"] <= row["rank"] <= row["rank_high"]
        assert row["elo"] == pytest.approx(1000 + 400 / np.log(10) * row["strength"])
        assert (row["part"], row["opponents"]) == (1, 4)
        assert row["may_be_first"] is (row["rank_low"] == 1)
    assert sum(row["strength"] for row in rows.values()) == pytest.approx(0)
    assert sum(row["battles"] for row in rows.values()) == 2 * 1500
    assert rows["A"]["rank"] == 1
    assert not set(rows["A"]["group"]) & set(rows["C"]["group"])
    pairs = board.pairs.filter(rater="human")
    assert pairs.height == 10
    assert (pairs["wins"] + pairs["ties"] + pairs["losses"] == pairs["battles"]).all()
    for row in pairs.iter_rows(named=True):
        share_letter = set(rows[row["system_a"]]["group"]) & set(rows[row["system_b"]]["group"])
        assert (row["decision"] == "=") is bool(share_letter)
        assert row["difference"] == pytest.approx(rows[row["system_a"]]["strength"] - rows[row["system_b"]]["strength"])
        assert row["win_rate"] == pytest.approx((row["wins"] + row["ties"] / 2) / row["battles"])
        assert row["win_rate_low"] <= row["win_rate"] <= row["win_rate_high"]
        assert abs(row["expected"] - row["win_rate"]) < 0.15


@pytest.mark.parametrize("tie_model", ["davidson", "half"])
def test_expected_points_add_up_to_those_that_were_won(tie_model: Any) -> None:
    """By the score equations of both models, each system's points over all battles equal its expected points."""
    table = battles(np.random.default_rng(1)).drop("order")
    board = cu.leaderboard(cu.read(by(table, "ann", "human")), tie_model=tie_model, resamples=0)
    pairs = board.pairs.with_columns(gap=(pl.col("expected") - pl.col("win_rate")) * pl.col("battles"))
    for system in "ABCDE":
        total = pairs.filter(system_a=system)["gap"].sum() - pairs.filter(system_b=system)["gap"].sum()
        assert total == pytest.approx(0, abs=1e-6)
    assert board.effects["effect"].to_list() == (["ties"] if tie_model == "davidson" else [])


def test_the_first_place_is_held_equal() -> None:
    """A is mostly shown first and the first place wins, so A would rank above B without the adjustment for order."""
    rng = np.random.default_rng(3)
    n = 3000
    a_first = rng.random(n) < 0.8
    won = rng.random(n) < 1 / (1 + np.exp(-np.where(a_first, 1.0, -1.0)))
    table = pl.DataFrame(
        {
            "item": np.arange(n),
            "system_a": "A",
            "system_b": "B",
            "preference": np.where(won, 1, -1),
            "order": np.where(a_first, "ab", "ba"),
        }
    )
    board = cu.leaderboard(cu.read(by(table, "judge", "metric")), **QUICK)
    (effect,) = board.effects.iter_rows(named=True)
    assert effect["effect"] == "shown first"
    assert effect["value_low"] < 1.0 < effect["value_high"]
    assert effect["p_value"] < 0.01
    rows = of(board, "judge")
    assert rows["A"]["strength_low"] < 0 < rows["A"]["strength_high"]
    assert rows["A"]["win_rate_low"] > 0.6
    # With a constant order there is no adjustment.
    always = by(table.with_columns(order=pl.lit("ab")), "judge", "metric")
    assert cu.leaderboard(cu.read(always), resamples=0).effects.height == 0


def longer(rng: np.random.Generator, table: pl.DataFrame, log_odds: float) -> tuple[list[Any], pl.DataFrame]:
    """Return texts, long for E and short for A, and battles with `log_odds` per unit of log length ratio."""
    items, systems = table["item"].to_list(), sorted({*table["system_a"], *table["system_b"]})
    words = {(i, s): int(rng.integers(5, 40)) * (1 + systems.index(s)) for i in items for s in systems}
    texts = [{"item": str(i), "outputs": {s: "word " * words[i, s] for s in systems}} for i in items]
    battle_rows = table.select("item", "system_a", "system_b").rows()
    ratio = np.array([np.log(words[i, a] / words[i, b]) for i, a, b in battle_rows])
    won = rng.random(len(items)) < 1 / (1 + np.exp(-log_odds * ratio))
    return texts, table.with_columns(preference=np.where(won, 1, -1))


def test_a_length_is_held_equal(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    texts, table = longer(rng, battles(rng, n=800, ties=0).drop("order"), 1.0)
    lines = [json.dumps(row) for row in texts]
    (tmp_path / "outputs.jsonl").write_text("\n".join(lines))
    by(table, "judge", "metric").write_csv(tmp_path / "battles.csv")
    study = cu.read(tmp_path / "battles.csv", tmp_path / "outputs.jsonl")
    plain, controlled = (cu.leaderboard(study, covariates=covariates, **QUICK) for covariates in ((), "length"))
    assert of(plain, "judge")["E"]["strength_low"] > 0.2  # E writes the longest texts.
    assert of(controlled, "judge")["E"]["strength_low"] < 0 < of(controlled, "judge")["E"]["strength_high"]
    (effect,) = controlled.effects.iter_rows(named=True)
    assert effect["value_low"] < 1.0 < effect["value_high"]


def test_a_score_is_held_equal_and_is_no_rater_then() -> None:
    board = cu.leaderboard(cu.read("demo"), aspect="fluency", metrics="judge,learned", covariates=["learned"], **QUICK)
    (note,) = [note for note in board.notes if note.rule == "rater-held-equal"]
    assert (note.count, note.message) == (
        1,
        "the model adjusts for learned, so there is no ranking by these raters",
    )
    assert board.systems["rater"].unique(maintain_order=True).to_list() == ["human", "judge"]
    effect = board.effects.filter(rater="human", effect="learned").row(0, named=True)
    assert effect["value_low"] > 0  # Annotators prefer the outputs that `learned` prefers.


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
    assert "not-corrected" in rules(board)


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
    false, decided = 0, 0
    for seed in range(10):
        judge, human = shown_first(np.random.default_rng(seed))
        study = cu.read(pl.concat([by(judge, "judge", "metric"), by(human, "ann", "human")]))
        board = cu.leaderboard(study, resamples=100)
        rows = board.systems.filter(rater="corrected:judge")
        if rows.is_empty():  # The test of a random part rejects in .01 of studies.
            continue
        decided += 1
        false += rows["may_be_first"].sum() < 3
        assert board.effects.filter(rater="corrected:judge", effect="shown first")["value_low"][0] > 0
    assert decided >= 8
    assert false <= 2  # A larger number has a probability of .01.


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
    assert "order-averaged" in {note.rule for note in board.notes}
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
        assert row["power"] is row["saving"] is None
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
    assert row["power"] is not None
    assert best_corrected(board)["metric"].to_list() == ["judge"]


def noisy(rng: np.random.Generator, table: pl.DataFrame) -> pl.DataFrame:
    """Return battles with a fifth of the preferences reversed."""
    reversed_rows = pl.Series(rng.random(table.height) < 0.2)
    return table.with_columns(preference=pl.when(reversed_rows).then(-pl.col("preference")).otherwise("preference"))


@pytest.mark.parametrize("n", [0, 1, 2, 5, 12])
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


def test_parts_that_never_met_are_named_and_ranked_apart() -> None:
    rng = np.random.default_rng(8)
    start = battles(rng, strength=(0.5, 0.0, -0.5), n=600)
    right = battles(rng, strength=(0.8, -0.8), n=300)
    names = {"A": "D", "B": "E"}
    right = right.with_columns(pl.col("system_a", "system_b").replace(names), item=pl.col("item") + 1000)
    board = cu.leaderboard(cu.read(by(pl.concat([start, right]), "ann", "human")), **QUICK)
    rows = of(board)
    assert list(rows) == list("ABCDE")
    assert [row["part"] for row in rows.values()] == [1, 1, 1, 2, 2]
    assert [row["rank"] for row in rows.values()] == [1, 2, 3, 1, 2]
    assert {row["group"][0] for row in rows.values()} == {"1", "2"}
    assert rows["D"]["rank_high"] <= 2
    (note,) = [note for note in board.notes if note.rule == "split"]
    assert "A, B, C | D, E" in note.message
    assert board.pairs.height == 4
    assert not board.systems["may_be_first"].null_count()


def test_who_won_everything_is_finite_and_one_end_is_open() -> None:
    table = battles(np.random.default_rng(9), n=300, ties=0)
    unbeaten = table.with_columns(
        preference=pl.when(pl.col("system_a") == "E")
        .then(1)
        .when(pl.col("system_b") == "E")
        .then(-1)
        .otherwise("preference")
    )
    board = cu.leaderboard(cu.read(by(unbeaten, "ann", "human")), **QUICK)
    rows = of(board)
    assert next(iter(rows)) == "E"
    assert np.isfinite(rows["E"]["strength"])
    assert rows["E"]["strength_high"] is None
    assert rows["E"]["strength_low"] > 0
    assert rows["E"]["win_rate"] == 1
    assert rows["E"]["win_rate_low"] < 1
    (note,) = [note for note in board.notes if note.rule == "unbeaten"]
    assert "E won every comparison: one bound of the interval is unknown" in note.message


def test_nothing_but_ties() -> None:
    ties = by(battles(np.random.default_rng(10), n=60, ties=1.0), "ann", "human").with_columns(preference=pl.lit("tie"))
    board = cu.leaderboard(cu.read(ties), **QUICK)
    assert board.systems["strength"].abs().max() < 1e-6
    assert board.systems["group"].unique().to_list() == ["a"]
    assert rules(board)[-1] == "all-ties"


def test_without_resamples_nothing_is_claimed() -> None:
    board = cu.leaderboard(cu.read("demo"), aspect="fluency", metrics="judge", resamples=0)
    ends = [name for name in board.systems.columns if name.endswith(("_low", "_high"))]
    assert len(ends) == 6
    assert board.systems.select(ends).null_count().sum_horizontal()[0] == 6 * board.systems.height
    assert board.systems["may_be_first"].null_count() == board.systems["group"].null_count() == board.systems.height
    assert board.pairs["decision"].null_count() == board.pairs.height


def test_clusters_and_weights() -> None:
    table = by(battles(np.random.default_rng(11), n=300), "ann", "human")
    twice = pl.concat([table, table.with_columns(item=pl.col("item") + 1000)])
    items = twice.select("item", cluster=pl.col("item") % 1000)
    once, doubled, claimed = (
        of(cu.leaderboard(cu.read(data, **more), resamples=400))
        for data, more in ((table, {}), (twice, {"items": items}), (twice, {}))
    )
    for system, row in once.items():
        width = row["strength_high"] - row["strength_low"]
        assert doubled[system]["strength"] == pytest.approx(row["strength"], abs=1e-7)
        assert doubled[system]["strength_high"] - doubled[system]["strength_low"] == pytest.approx(width, rel=0.05)
        assert claimed[system]["strength_high"] - claimed[system]["strength_low"] < 0.8 * width
    weights = table.select("item", weight=pl.when(pl.col("item") < 100).then(2.0).otherwise(1.0))
    more = pl.concat([table, table.filter(pl.col("item") < 100).with_columns(item=pl.col("item") + 1000)])
    weighed, written_out = (
        of(cu.leaderboard(data, resamples=0)) for data in (cu.read(table, items=weights), cu.read(more))
    )
    for system, row in weighed.items():
        for name in ("strength", "win_rate"):
            assert row[name] == pytest.approx(written_out[system][name], abs=1e-7)


def test_a_metric_of_whole_outputs_says_the_same_on_every_aspect(monkeypatch: pytest.MonkeyPatch) -> None:
    forecasts = []

    def gain(z: Floats, information: Floats, *, critical: float) -> Floats:
        forecasts.append(critical)
        return information_gain(z, information, critical=critical)

    monkeypatch.setattr(more_battles, "information_gain", gain)
    board = cu.leaderboard(cu.read("demo"), metrics="overlap", **QUICK)
    for table in (board.systems, board.pairs):
        coherence, fluency = (
            table.filter(rater="overlap", aspect=row).drop("aspect") for row in ("coherence", "fluency")
        )
        assert coherence.equals(fluency)
    assert len(forecasts) == 3  # human ratings on two aspects, metric scores on one


def test_sides_are_no_systems() -> None:
    table = pl.DataFrame({"item": range(20), "system_a": "chosen", "system_b": "rejected", "preference": 1})
    board = cu.leaderboard(cu.read(by(table, "ann", "human")), **QUICK)
    assert "one-sided-annotators" in rules(board)


def one_system() -> pl.DataFrame:
    return pl.DataFrame({"item": ["1", "2"], "system": "A", "rater": "ann", "kind": "human", "score": [1.0, 2.0]})


def strangers() -> pl.DataFrame:
    rows = {"item": ["1", "2"], "system": ["A", "B"], "score": [1.0, 2.0]}
    return by(pl.DataFrame(rows), "ann", "human")


@pytest.mark.parametrize(
    ("table", "options", "error", "message"),
    [
        (one_system, {}, InputError, "only 1 system (A); a leaderboard needs two or more systems"),
        (
            strangers,
            {},
            InputError,
            (
                "table: no rater compared two systems on the same item; a comparison needs two rated "
                "outputs of one item, or a verdict"
            ),
        ),
        (None, {"tie_model": "rao"}, OptionError, "tie_model='rao'; allowed: davidson, half"),
        (None, {"covariates": "length"}, OptionError, "demo has no texts whose words could be counted"),
        (None, {"covariates": "lenght"}, OptionError, "did you mean 'length'?"),
        (None, {"covariates": ["lerned"]}, OptionError, "did you mean 'learned'?"),
        (None, {"confidence": 1}, OptionError, "confidence=1: must lie between 0 and 1"),
        (None, {"human": "x"}, OptionError, "human='x'"),
    ],
)
def test_bad_input_is_one_line(table: Any, options: dict[str, Any], error: type[Exception], message: str) -> None:
    study = cu.read("demo") if table is None else cu.read(table())
    with pytest.raises(error) as raised:
        cu.leaderboard(study, **options)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_covariate_that_does_not_vary_is_refused() -> None:
    demo = cu.read("demo")
    rows = demo.ratings.frame.filter(rater="learned").select("item", "system").unique()
    for score, name in ((pl.lit(1.0), "flat"), (pl.col("system").rank("dense").cast(float), "by-system")):
        table = rows.with_columns(score=score, rater=pl.lit(name), kind=pl.lit("metric"))
        human = demo.ratings.frame.filter(rater="learned").with_columns(kind=pl.lit("human")).select(table.columns)
        with pytest.raises(
            OptionError,
            match=(
                f"covariates='{name}': the covariate does not vary within systems, so its effect cannot be "
                "separated from the strengths; omit this covariate"
            ),
        ):
            cu.leaderboard(cu.read(pl.concat([table, human])), covariates=name)


def test_thresholds_cannot_be_calibrated_without_people() -> None:
    table = strangers().with_columns(kind=pl.lit("metric"), item=pl.lit("1"))
    with pytest.raises(
        OptionError, match="ties='calibrated': .* has no human scores to which tie thresholds could be fitted"
    ):
        cu.leaderboard(cu.read(table), ties="calibrated")


def test_counts_say_what_the_study_says_where_each_battle_is_of_its_own_item() -> None:
    """With one battle per item the sandwich over items is a sum over kinds of battles, so effects and intervals are
    equal."""
    rng = np.random.default_rng(4)
    n, systems = 400, np.array(["M", "N", "O", "P"])
    first = rng.integers(4, size=n)
    second = (first + rng.integers(1, 4, size=n)) % 4
    chance = 1 / (1 + np.exp(-(first - second) / 2 - 0.3))
    frame = pl.DataFrame(
        {
            "item": [f"i{k}" for k in range(n)],
            "model_a": systems[first],
            "model_b": systems[second],
            "winner": np.where(rng.random(n) < 0.2, "tie", np.where(rng.random(n) < chance, "model_a", "model_b")),
            "order": np.where(rng.random(n) < 0.1, "", "ab"),
        }
    )
    whole, counted = cu.leaderboard(frame), cu.leaderboard(cu.count_battles(frame))
    assert {note.rule for note in counted.notes} == {note.rule for note in whole.notes} - {"rater-assumed"}
    assert counted.effects["effect"].to_list() == ["ties", "shown first"]
    for name, table in whole.tables().items():
        assert_frame_equal(counted.tables()[name], table, check_exact=False, rel_tol=1e-9, abs_tol=1e-9)


def test_counts_of_battles_that_share_items_have_no_intervals() -> None:
    frame = pl.DataFrame(
        {"item": ["1", "1", "2"], "model_a": ["M", "N", "M"], "model_b": ["N", "O", "O"], "winner": ["M", "N", "O"]}
    )
    result = cu.leaderboard(cu.count_battles(frame))
    assert result.notes[0].rule == "counts-share-items"
    assert result.systems["strength"].null_count() == 0
    for column in ("strength_low", "win_rate_low", "rank_low", "may_be_first", "group"):
        assert result.systems[column].null_count() == 3
    assert result.pairs["win_rate_low"].null_count() == result.pairs["decision"].null_count() == 3
    with pytest.raises(OptionError, match="counts contain no texts and no scores; give the study instead of counts"):
        cu.leaderboard(cu.count_battles(frame), covariates="length")


def test_no_decision_depends_on_the_seed_or_on_the_number_of_resamples() -> None:
    """Sixteen equal systems and a few better ones give many p-values close to the level."""
    rng = np.random.default_rng(8)
    strength = rng.normal(0, 0.35, 16).tolist()
    study = cu.read(by(battles(rng, strength=strength, n=2500), "ann", "human"))
    boards = [cu.leaderboard(study, rng=seed, resamples=n) for seed, n in ((0, 1000), (1, 1000), (2, 200), (3, 20))]
    decided = ["rank", "rank_low", "rank_high", "group", "may_be_first"]
    for board in boards[1:]:
        assert board.systems.select(decided).equals(boards[0].systems.select(decided))
        assert board.pairs["decision"].equals(boards[0].pairs["decision"])
        np.testing.assert_allclose(board.pairs["p_adjusted"], boards[0].pairs["p_adjusted"], rtol=1e-9)
        np.testing.assert_allclose(board.systems["strength_low"], boards[0].systems["strength_low"], rtol=1e-9)


def test_a_pair_at_the_threshold_is_not_decided_and_says_so() -> None:
    """With the level at the p-value itself no number of draws decides the pair."""
    rng = np.random.default_rng(8)
    study = cu.read(by(battles(rng, strength=rng.normal(0, 0.35, 8).tolist(), n=1500), "ann", "human"))
    level = 0.05
    for _ in range(3):  # the p-value at this level, with the draws that the level requires
        pairs = cu.leaderboard(study, confidence=1 - level).pairs
        level = min(pairs["p_adjusted"], key=lambda p: abs(p - level))
    close = cu.leaderboard(study, confidence=1 - level).pairs.filter(pl.col("note") == "at the threshold")
    assert close.height
    assert set(close["decision"]) == {"="}
    assert set(pairs["note"]) <= {"", "at the threshold"}


def in_a_cycle(wins: int, n: int) -> pl.DataFrame:
    """Return three systems, each of which wins so many of n comparisons against the next; D loses nearly all."""
    rows = [
        (f"{a}{b}{item}", a, b, 1 if item < won else -1)
        for a, b, won in (("A", "B", wins), ("B", "C", wins), ("C", "A", wins), *((s, "D", n - 5) for s in "ABC"))
        for item in range(n)
    ]
    return pl.DataFrame(rows, schema=["item", "system_a", "system_b", "preference"], orient="row")


def test_a_cycle_is_named_and_its_pairs_are_decided_by_their_own_comparisons() -> None:
    study = cu.read(by(in_a_cycle(160, 200), "ann", "human"))
    board = cu.leaderboard(study, **QUICK)
    assert board.cycles.select("rater", "cycle", "win_rate", "systems").rows() == [("human", "A > B > C > A", 0.8, 3)]
    assert board.cycles["p_direct"][0] < 1e-9
    pairs = {(row["system_a"], row["system_b"]): row for row in board.pairs.iter_rows(named=True)}
    assert [pairs[pair]["decision"] for pair in (("A", "B"), ("A", "C"), ("B", "C"))] == ["=", "=", "="]
    assert [pairs[pair]["direct"] for pair in (("A", "B"), ("A", "C"), ("B", "C"))] == ["+", "-", "+"]
    assert pairs["A", "D"]["decision"] == pairs["A", "D"]["direct"] == "+"
    assert {"cycle", "misfit"} <= {*rules(board)}
    sentences = cu.verdict(study, **QUICK).to_frame()["text"].to_list()
    assert "A beats B, which beats C, which beats A" in " ".join(sentences)
    assert not any("undecided" in sentence for sentence in sentences)


def test_without_a_cycle_nothing_is_said_of_one() -> None:
    board = cu.leaderboard(cu.read(by(battles(np.random.default_rng(0)), "ann", "human")), **QUICK)
    assert board.cycles.is_empty()
    assert not {"cycle", "misfit"} & {*rules(board)}
    (row,) = board.leaders.rows(named=True)
    assert row["leader"] == "A"
    assert row["removals"] / 1500 == pytest.approx(row["proportion"])


def test_counts_have_cycles_where_every_comparison_is_of_an_item_of_its_own() -> None:
    study = cu.read(by(in_a_cycle(160, 200), "ann", "human"))
    board = cu.leaderboard(cu.count_battles(study.preferences.frame.join(study.raters.frame, on="rater")), **QUICK)
    assert board.cycles["cycle"].to_list() == ["A > B > C > A"]
