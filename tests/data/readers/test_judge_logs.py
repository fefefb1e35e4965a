"""Logs of judges: MT-bench (pairwise and single) and Arena-Hard, in the layouts of their programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import custodes as cu
from custodes.data.reading import read
from custodes.errors import InputError
from tests.data.input_errors import reading_error
from tests.data.study_parts import note_counts, note_messages
from tests.messages import exactly


def jsonl(path: Path, records: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def pair(question: int, first: str, second: str, *, turn: int = 1, **more: object) -> dict[str, object]:
    """Return a line of gpt-4_pair.jsonl as FastChat's llm_judge/common.py writes it."""
    return {
        "question_id": question,
        "model_1": "Birch",
        "model_2": "Aster",
        "g1_winner": first,
        "g2_winner": second,
        "judge": ["gpt-4", "pair-v2" if turn == 1 else "pair-v2-multi-turn"],
        "g1_user_prompt": "…",
        "g1_judgment": "[[A]]",
        "g2_user_prompt": "…",
        "g2_judgment": "[[B]]",
        "turn": turn,
        "tstamp": 1.5,
        **more,
    }


def test_mt_bench_pairs_have_both_orders(tmp_path: Path) -> None:
    path = jsonl(
        tmp_path / "gpt-4_pair.jsonl",
        [pair(81, "model_1", "model_1"), pair(81, "model_1", "model_2", turn=2), pair(82, "tie", "model_2")],
    )
    study = read(path)
    # Aster < Birch, so model_1 = Birch is system_b, and the first game displayed it first
    assert study.preferences.frame.sort("item", "order").select("item", "rater", "order", "preference").rows() == [
        ("81/turn 1", "gpt-4", "ab", -1),
        ("81/turn 1", "gpt-4", "ba", -1),
        ("81/turn 2", "gpt-4", "ab", 1),
        ("81/turn 2", "gpt-4", "ba", -1),
        ("82/turn 1", "gpt-4", "ab", 1),
        ("82/turn 1", "gpt-4", "ba", 0),
    ]
    assert study.raters.kind == {"gpt-4": "metric"}
    assert study.items.frame["cluster"].to_list() == ["81", "81", "82"]
    orders = cu.consistency(study, resamples=0).orders.row(0, named=True)
    assert orders["n_both_orders"] == 3
    assert (orders["consistency"], orders["flip_rate"]) == (pytest.approx(1 / 3), pytest.approx(1 / 3))


def test_a_judge_that_failed_is_told_of_and_an_unknown_word_refused(tmp_path: Path) -> None:
    study = read(jsonl(tmp_path / "gpt-4_pair.jsonl", [pair(7, "model_1", "error"), pair(8, "tie", "tie")]))
    assert study.preferences.missing.select("item", "why").rows() == [("7/turn 1", "unreadable")]
    assert [note.message for note in study.notes] == [
        ("gpt-4_pair.jsonl: 1 replies of judges could not be parsed and count as not rated (gpt-4 1)")
    ]
    with pytest.raises(
        InputError,
        match=exactly(
            "x.jsonl: 1 of 2 verdicts cannot be read ('Birch' in row 1); allowed: model_1, model_2, tie, "
            "error, or empty; that is 50.0 % of the file, but invalid='drop' allows at most 5 % per file and "
            "rater; correct these verdicts, or drop all of them with --invalid force (in Python "
            "invalid='force')"
        ),
    ):
        read(jsonl(tmp_path / "x.jsonl", [pair(7, "model_1", "Birch")]))


def test_scores_that_were_compared_have_no_order(tmp_path: Path) -> None:
    record = pair(81, "model_1", "model_1", m1_score=8, m2_score=6.5)
    assert read(jsonl(tmp_path / "x.jsonl", [record])).preferences.frame["order"].to_list() == [""]


def single(question: int, model: str, score: float, turn: int = 1) -> dict[str, object]:
    """Return a line of gpt-4_single.jsonl as FastChat's llm_judge/common.py writes it."""
    prompt = "single-v1" if turn == 1 else "single-v1-multi-turn"
    record = {"question_id": question, "model": model, "judge": ["gpt-4", prompt], "user_prompt": "…"}
    return record | {"judgment": "…", "score": score, "turn": turn, "tstamp": 2.5}


def test_mt_bench_single_scores(tmp_path: Path) -> None:
    records = [single(81, "Aster", 9), single(81, "Birch", 7.5), single(81, "Aster", 8, 2), single(82, "Aster", -1)]
    study = read(jsonl(tmp_path / "gpt-4_single.jsonl", [*records, single(81, "Aster", 8)]))
    assert study.ratings.frame.select("item", "system", "rater", "repeat", "score").rows() == [
        ("81/turn 1", "Aster", "gpt-4", "0", 9),
        ("81/turn 1", "Birch", "gpt-4", "0", 7.5),
        ("81/turn 2", "Aster", "gpt-4", "0", 8),
        ("81/turn 1", "Aster", "gpt-4", "1", 8),
    ]
    assert note_messages(study) == {
        "judge-failed": "1 scores are -1 (the judge's reply had no score) and count as not rated",
        "repeats": "1 further scores of the same rater and output are read as repeats",
    }


def judgment(question: str, *scores: str | None, **more: object) -> dict[str, object]:
    """Return a line of Arena-Hard 0.1: the baseline is A in the first game (gen_judgment.py swaps in the second)."""
    games = [{"user_prompt": "…", "judgment": "…", "score": score} for score in scores]
    return {"question_id": question, "model": "Aster", "judge": "gpt-4-1106-preview", "games": games, **more}


def test_arena_hard(tmp_path: Path) -> None:
    lines = [judgment("q1", "B>>A", "A>B"), judgment("q2", "A>B", "A=B"), judgment("q3", "A<<B", "B<A")]
    study = read(jsonl(tmp_path / "Aster.jsonl", lines))
    # Aster < baseline: "ab" displays Aster first, as in the second game
    assert study.preferences.frame.select("item", "system_b", "order", "preference").rows() == [
        ("q1", "baseline", "ba", 1),
        ("q1", "baseline", "ab", 1),
        ("q2", "baseline", "ba", -1),
        ("q2", "baseline", "ab", 0),
        ("q3", "baseline", "ba", 1),
        ("q3", "baseline", "ab", 1),
    ]
    assert study.raters.kind == {"gpt-4-1106-preview": "metric"}
    assert note_messages(study) == {
        "baseline-unnamed": "the log does not name the baseline (gpt-4-0314 by default), which is called 'baseline' "
        "here"
    }
    assert cu.leaderboard(study, resamples=0).systems.height == 2


def test_arena_hard_2_names_its_baseline_and_category(tmp_path: Path) -> None:
    line = judgment("", "A>B", None, uid="u1", category="hard_prompt", baseline="o3-mini")
    del line["question_id"]
    lines = [line, *(line | {"uid": f"u{k}", "games": [{"score": "A>B"}, {"score": "B>A"}]} for k in range(2, 22))]
    lines.append(line | {"uid": "u22", "games": [None, {"score": "[[B>>A]]"}]})
    path = jsonl(tmp_path / "Aster.jsonl", lines)
    study = read(path)
    assert note_counts(study) == {"missing-verdict": 1, "judge-failed": 1}
    assert study.systems == ("Aster", "o3-mini")
    assert set(study.items.frame["group"]) == {"hard_prompt"}
    assert study.preferences.frame.filter(item="u22")["preference"].to_list() == [-1]


@pytest.mark.parametrize(
    ("games", "message"),
    [
        ("3", "x.jsonl: games of row 1 are not a list of objects with 'score'"),
        ([{"winner": "A"}], "x.jsonl: game 1 of row 1 has no 'score'; keys: winner"),
        ([], "x.jsonl: no row has a game; give a file of judgments with 'games'"),
        (
            [{"score": 7}],
            "x.jsonl: 1 of 1 verdicts cannot be read ('7' in row 1); allowed: A>>B, A>B, A=B, B>A, B>>A, null, "
            "or empty; that is 100.0 % of the file, but invalid='drop' allows at most 5 % per file and rater; "
            "correct these verdicts, or drop all of them with --invalid force (in Python invalid='force')",
        ),
    ],
)
def test_broken_games_are_one_line(tmp_path: Path, games: object, message: str) -> None:
    path = jsonl(tmp_path / "x.jsonl", [judgment("q1") | {"games": games}])
    assert reading_error(path) == message
