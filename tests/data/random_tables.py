"""Random tables in the layouts of the readers, and a check that reading gives a study or a one-line error."""

from __future__ import annotations

from typing import Any

import polars as pl
from hypothesis import strategies as st

from custodes.data.preferences import Preferences
from custodes.data.reading import read
from custodes.data.study import Study
from custodes.errors import CustodesError

WORDS = [
    *(
        *("", " ", "0", "1", "2", "-1", "0.5", "1.5", "1e308", "nan", "NaN", "inf", "null", "A", "B", "x"),
        *("Aster", "gpt-4"),
    ),
    *("human", "metric", "model_a", "model_b", "tie", "both_bad", "left", "first", "win", "[[B]]", "A>>B", "error"),
    *("ab", "ba", "swapped", "original", "true", "unknown", '{"A": "x"}', '{"A": 1}', "[", "[]", '["r"]', "[3]", "{}"),
    *("\u2028", "é\n", "\x1b[2J", "\ud7ff"),
]
CELLS = st.none() | st.sampled_from(WORDS) | st.text(max_size=3)
TYPED = [
    CELLS,
    st.none() | st.integers(-2, 3),
    st.none() | st.floats(width=32),
    st.booleans(),
    st.lists(st.integers(0, 1), max_size=2),
    st.fixed_dictionaries({"A": CELLS}),
    st.binary(max_size=2),
    st.dates(),
]

LABELS = st.sampled_from(["a", "b", "c", "1", "2"])
NUMBERS = st.sampled_from(["1", "2.5", "-3", "", None, "nan", "-0.0"])
TALK = st.sampled_from(
    [
        '[{"role": "user", "content": "q"}, {"content": [{"type": "text", "text": "a"}]}]',
        '["a", null]',
        *("text", "", "[3"),
    ]
)
GAMES = st.sampled_from(['[{"score": "A>B"}, {"score": "B>>A"}]', '[{"score": null}, null]', '[{"judgment": 1}]', "[]"])
FITTING: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(["score", "ann", "model"], NUMBERS),
    **dict.fromkeys(["model_a", "system_a", "model_1", "generator_1"], st.sampled_from(["A", "A", "B", "gpt-4", "1"])),
    **dict.fromkeys(["model_b", "system_b", "model_2", "generator_2", "baseline"], st.sampled_from("BBC")),
    "rater": st.sampled_from(["ann", "bleu", "b*", "x"]),
    "judge": st.sampled_from(["ann", "gpt-4", '["gpt-4", "v1"]', "arena_user_1"]),
    **dict.fromkeys(["higher_is_better", "person"], st.sampled_from(["yes", "no", "", None])),
    **dict.fromkeys(["low", "high", "weight"], st.sampled_from(["1", "2", ""])),
    "winner": st.sampled_from(["model_a", "model_b", "tie", "both_bad", "left", "A", "B", "", "garbage"]),
    "preference": st.sampled_from(["1", "0", "-1", "1.5", "2", ""]),
    **dict.fromkeys(["g1_winner", "g2_winner"], st.sampled_from(["model_1", "model_2", "tie", "error"])),
    **dict.fromkeys(
        ["winner_model_a", "winner_model_b", "winner_tie", "m1_score"], st.sampled_from(["0", "1", "", "x"])
    ),
    **dict.fromkeys(["conversation_a", "conversation_b", "response_a", "response_b"], TALK),
    "games": GAMES,
    "kind": st.sampled_from(["human", "metric", ""]),
    "order": st.sampled_from(["ab", "ba", "swapped", "original", "0", "1", "", "unknown", "A"]),
    **dict.fromkeys(["repeat", "turn", "language"], st.sampled_from(["1", "2", "3", ""])),
    "gold": st.just("1"),
    **dict.fromkeys(["winner_original_order", "winner_swapped_order"], st.sampled_from(["1", "2", "", "tie"])),
    "ref": st.sampled_from(["1", "0"]),
    "subset": st.just("x"),
    "outputs": st.sampled_from(['{"A": "x"}', '{"A": "x", "B": true}']),
    **dict.fromkeys(["references", "image", "images"], st.sampled_from(["r", '["r", "s"]', "", None])),
    "meta": st.sampled_from(['{"a": 1}', "", None]),
    "invalid": st.sampled_from(["", "", "refusal", None]),
    **dict.fromkeys(["p_a", "p_b"], st.sampled_from(["0.5", "0.25", "", None])),
    "p_tie": st.sampled_from(["0", "0.5", "", None]),
    "role": st.sampled_from(["primary", "second", "", None, "crowd"]),
    "seconds": st.sampled_from(["0", "3.5", "", None, "-1", "inf", "fast"]),
}
"""Cells that are mostly valid for their column, so that some tables give whole studies."""

FAMILIES = [
    "item system rater score | kind aspect repeat role",
    "item system ann | aspect repeat",
    "item model_a model_b winner | rater judge order repeat aspect kind",
    "item system_a system_b preference rater order | invalid p_a p_tie p_b role seconds",
    "instruction generator_1 generator_2 preference | annotator output_1 output_2 dataset input",
    "instruction output_1 output_2 preference | annotator_index dataset",
    "question_id model_a model_b winner turn | judge language conversation_a conversation_b order",
    "id model_a model_b winner_model_a winner_model_b winner_tie | prompt response_a response_b",
    "question_id model_1 model_2 g1_winner g2_winner | judge turn m1_score",
    "question_id model judge score | turn",
    "question_id model judge games | category baseline",
    "ref subset model |",
    "dataset item judge prompt gold winner_original_order winner_swapped_order | repeat",
    *("item outputs | references image context meta", "item system text | source images meta"),
    "id subset prompt chosen rejected |",
]
"""Required and optional columns of each layout."""


def check(study: Study) -> None:
    """Check the invariants of the central types."""
    raters = study.raters.frame
    check_rows(study.ratings.frame, study.preferences, raters)
    check_rows(study.second_ratings.frame, study.second, raters)
    assert raters["rater"].is_unique().all()
    assert study.items.frame["item"].is_unique().all()
    if study.outputs is not None:
        assert not study.outputs.texts.select("item", "system").is_duplicated().any()
        assert study.outputs.sources["item"].is_unique().all()
        assert study.outputs.sources.null_count().sum_horizontal().item() == 0
    assert len(study.fingerprint()) == 16


def check_rows(scores: pl.DataFrame, preferences: Preferences, raters: pl.DataFrame) -> None:
    verdicts = preferences.frame
    assert scores.null_count().sum_horizontal().item() == 0
    chances = verdicts.select("p_a", "p_tie", "p_b")
    assert verdicts.drop(*chances.columns, "seconds").null_count().sum_horizontal().item() == 0
    assert all(None in row or (min(row) >= 0 and abs(sum(row) - 1) <= 1.1e-3) for row in chances.rows())
    assert verdicts.filter(pl.col("seconds") < 0).is_empty()
    assert set(preferences.missing["why"]).isdisjoint({"", None})
    assert scores["score"].is_finite().all()
    assert not scores.drop("score").is_duplicated().any()
    assert not verdicts.drop("preference", "seconds", *chances.columns).is_duplicated().any()
    assert (verdicts["system_a"] < verdicts["system_b"]).all()
    assert set(verdicts["preference"]) <= {1, 0, -1}
    assert set(verdicts["order"]) <= {"ab", "ba", ""}
    assert set(scores["rater"]) | set(verdicts["rater"]) <= set(raters["rater"])
    assert set(raters["kind"]) <= {"human", "metric", ""}
    for frame in (scores, verdicts, raters):
        labels = frame.select("rater", *(name for name in frame.columns if name.startswith("system")))
        assert not (labels == "").select(pl.any_horizontal(pl.all())).to_series().any()


def try_reading(source: object, **options: Any) -> None:
    """Read a source, check the study if there is one, and check that a frame is not modified."""
    before = source.clone() if isinstance(source, pl.DataFrame) else None
    try:
        study = read(source, **options)
    except CustodesError as error:
        lines = str(error).splitlines()
    else:
        check(study)
        lines = ["read"]
    assert len(lines) == 1
    assert before is None or before.equals(source)  # type: ignore[arg-type]


@st.composite
def tables(draw: st.DrawFn, families: list[str] = FAMILIES) -> pl.DataFrame:
    """Draw a table of one layout, with missing columns, perhaps an unexpected one, and some invalid cells."""
    needed, _, more = draw(st.sampled_from(families)).partition("|")
    names = [name for name in needed.split() if draw(st.integers(0, 19))]
    names += draw(st.lists(st.sampled_from(more.split() or ["item"]), max_size=3))
    names += draw(st.lists(st.sampled_from([*FITTING, ""]), max_size=1)) if not draw(st.integers(0, 3)) else []
    height = draw(st.sampled_from([1, 2, 2, 3, 3, 4, 4, 0]))
    columns = {}
    for name in dict.fromkeys(names):
        kind = draw(st.integers(0, 19))
        cells = draw(st.sampled_from(TYPED)) if kind == 0 else CELLS if kind == 1 else FITTING.get(name, LABELS)
        if name in ("item", "instruction", "question_id", "id") and kind > 2 and draw(st.booleans()):
            columns[name] = pl.Series(name, range(height))
            continue
        columns[name] = pl.Series(name, draw(st.lists(cells, min_size=height, max_size=height)), strict=False)
    return pl.DataFrame(columns)
