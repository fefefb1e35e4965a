"""Column mappings: roles, patterns, item metadata, several inputs and errors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import custodes as cu
from custodes.data.mapping.columns import Columns, MappingResult
from custodes.data.mapping.pattern import UnfitError
from custodes.data.reading import read
from custodes.errors import CustodesError, InputError
from tests.data.mapping.tables import as_text, half, wide
from tests.messages import exactly

OUTPUT = {"item": "doc_id", "system": "model"}
BOTH = ["human_{aspect}_{rater}", "metric:{rater}"]
TWO_ASPECTS = ("human_coherence_ann1", "human_coherence_ann2", "human_fluency_ann1", "human_fluency_ann2", "bleu")


def test_a_wide_table_of_two_aspects() -> None:
    frame = wide(*TWO_ASPECTS)
    before = frame.clone()
    study = read(frame, columns={**OUTPUT, "score": BOTH})
    assert frame.equals(before)
    assert (study.humans, study.metrics, study.aspects) == (("ann1", "ann2"), ("bleu",), ("coherence", "fluency"))
    # reference: the same scores, melted one column at a time
    scores = study.ratings.frame
    for name, rater, aspect in (("human_fluency_ann2", "ann2", "fluency"), ("bleu", "bleu", "")):
        assert scores.filter(rater=rater, aspect=aspect)["score"].to_list() == frame[name].cast(pl.Float64).to_list()
    assert scores.height == 5 * frame.height
    assert [(note.rule, note.message) for note in study.notes] == [
        ("text-columns", "table: columns matched by a pattern hold text, not scores: output")
    ]


def test_names_of_a_table_of_verdicts() -> None:
    frame = pl.DataFrame({"q": [1, 2], "left": ["A", "B"], "right": ["B", "A"], "better": ["1", "-1"], "who": "ann"})
    columns = {"item": "q", "system_a": "left", "system_b": "right", "preference": "better", "rater": "who"}
    assert read(frame, columns=columns).preferences.frame["preference"].to_list() == [1, 1]


LONG = half("rating", rater="worker").with_columns(question=pl.lit("style"), type=pl.lit("human"))
BY_WORKER = {**OUTPUT, "rater": "worker", "score": "rating", "aspect": "question", "kind": "type"}
BLEU = wide("bleu", item="item", system="system", text=False)
LONG_BLEU = BLEU.select("item", "system", rater=pl.lit("bleu"), kind=pl.lit("metric"), score="bleu")
WORKERS = {"w0": "human", "w1": "human"}
MAPPED: list[tuple[list[pl.DataFrame], dict[str, Any], dict[str, str]]] = [
    # the first pattern that matches a column gives its labels
    ([wide("human_style", "human_depth", "bleu")], {"score": ["human_{aspect}", "metric:bleu"]}, {"human": "human"}),
    ([wide("human:ann", "bleu")], {"score": ["human:{rater}", "metric:{rater}"]}, {"ann": "human"}),
    ([wide("human_ann", "bleu")], {"score": ["human_{rater}", "metric:{rater}"]}, {"ann": "human"}),
    ([wide("human_style_m", "human_style_max", "bleu")], {"score": BOTH}, {"m": "human", "max": "human"}),
    ([wide("human_style_score", "bleu")], {"score": BOTH}, {"score": "human"}),
    # the kind in a pattern takes precedence over that of the row
    (
        [wide("human_ann", "metric_bleu", text=False).with_columns(type=pl.lit("metric"))],
        *({"score": "{kind}_{rater}", "kind": "type"}, {"ann": "human"}),
    ),
    # a long table, and a column of raters with a column for each aspect
    ([LONG, LONG_BLEU], BY_WORKER, WORKERS),
    ([half("coherence", "fluency"), LONG_BLEU], {"rater": "annotator", "score": "human:{aspect}"}, WORKERS),
    # several inputs: a mapping applies to each input that has the columns
    ([wide("human_style_ann1"), BLEU], {"score": BOTH}, {"ann1": "human"}),
    ([wide("human_style_ann1"), LONG_BLEU], {"score": BOTH[0]}, {"ann1": "human"}),
    # empty columns are annotators without ratings
    (
        [wide("bleu", text=False).with_columns(human_style_ann=pl.lit(""), human_style_bob=pl.lit("3"))],
        *({"score": BOTH}, {"ann": "human", "bob": "human"}),
    ),
]


@pytest.mark.parametrize(("frames", "columns", "kinds"), MAPPED, ids=range(len(MAPPED)))
def test_raters_of_a_mapping(frames: list[pl.DataFrame], columns: dict[str, Any], kinds: dict[str, str]) -> None:
    study = read(frames, columns={**OUTPUT, **columns})
    assert study.raters.kind == {**kinds, "bleu": "metric"}
    if columns is BY_WORKER:
        assert study.aspects == ("style",)
        scores = study.ratings.frame.filter(pl.col("rater") != "bleu")["score"]
        assert scores.to_list() == LONG["rating"].cast(pl.Float64).to_list()
    if "annotator" in columns.values():
        assert study.aspects == ("coherence", "fluency")


def test_columns_can_be_swapped() -> None:
    frame = wide("ann", "bleu", item="system", system="item", text=False)
    assert read(frame, columns={"item": "system", "system": "item"}).systems == ("Aster", "Birch", "Cedar")


def test_the_mapped_column_wins_and_the_other_is_noted() -> None:
    frame = wide("ann", "bleu", text=False).with_columns(item=pl.lit("line"), system=pl.lit("run"))
    study = read(frame, columns=OUTPUT)
    assert study.systems == ("Aster", "Birch", "Cedar")
    assert study.notes[0].message == (
        "table: columns not used: 'item' (item='doc_id' is used), 'system' (system='model' is used)"
    )


def test_facts_of_items() -> None:
    frame = wide("ann", "bleu", text=False).with_columns(
        domain=pl.when(pl.col("doc_id") < "d4").then(pl.lit("news")).otherwise(None), document=pl.col("doc_id"), w=2
    )
    study = read(frame, columns={**OUTPUT, "group": "domain", "cluster": "document", "weight": "w"})
    assert study.items.frame.select("item", "cluster", "group", "weight").rows()[3:5] == [
        ("d3", "d3", "news", 2.0),
        ("d4", "d4", "", 2.0),
    ]
    assert study.metrics == ()
    assert list(study.raters.kind) == ["ann", "bleu"]


def test_columns_of_systems_with_true_and_false_are_scores() -> None:
    frame = pl.DataFrame({"task": ["a", "b", "c"], "gpt": ["True", "", "false"], "claude": ["0", "1", "1"]})
    study = read(frame, columns={"item": "task", "score": ["metric:{system}"]})
    assert study.ratings.frame.select("item", "system", "score").sort("system", "item").rows() == [
        *(("a", "claude", 0.0), ("b", "claude", 1.0), ("c", "claude", 1.0), ("a", "gpt", 1.0), ("c", "gpt", 0.0))
    ]
    with pytest.raises(
        cu.InputError,
        match=exactly("table: no column matched by the patterns holds a number (gpt); name the score columns"),
    ):
        read(
            frame.with_columns(pl.col("gpt").replace("", "maybe")).drop("claude"),
            columns={"item": "task", "score": ["metric:{system}"]},
        )


def test_the_digest_tells_mappings_apart(tmp_path: Path) -> None:
    wide("human_style_ann1", "bleu", text=False).write_csv(tmp_path / "a.csv")
    first, second = (
        read(tmp_path / "a.csv", columns={**OUTPUT, "score": score}) for score in (BOTH, ["human_{rater}", BOTH[1]])
    )
    assert first.digest != second.digest


def test_people_in_no_pattern_are_told() -> None:
    frame = wide("human_style_ann1", "expert_2", "bleu", text=False)
    study = read(frame, columns={**OUTPUT, "score": ["human_{aspect}_{rater}", "metric:bleu"]})
    assert {note.rule: note.message for note in study.notes}["unused-annotators"] == (
        "table: columns that look like human ratings are not used: expert_2; name them in columns"
    )
    long = half("rating", rater="rater", item="item", system="system").with_columns(expert=pl.lit(3))
    rules = [note.rule for note in read(long, columns={"score": "rating"}).notes]
    assert rules == ["unused-columns", "unused-annotators"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"itm": "doc_id"},
            "columns: 'itm' is not a role (did you mean 'item'?); roles: item, system, rater, score, aspect, kind, "
            "repeat, system_a, system_b, winner, preference, order, cluster, group, dataset, weight, probability, "
            "n_outputs, phrase, text, source, references, context, images, messages, output_a, output_b",
        ),
        (
            {"item": "docid"},
            "columns: item='docid': no such column (did you mean 'doc_id'?); columns: doc_id, model, output, "
            "human_coherence_ann1, human_coherence_ann2, human_fluency_ann1, human_fluency_ann2, bleu",
        ),
        ({"item": 3}, "columns: item=3; the name of a column must be text"),
        ({"item": ""}, "columns: item=''; the name of a column must be text"),
        ({"score": []}, "columns: score is empty; leave score out, or give at least one column or pattern"),
        ({"score": [3]}, "columns: score=3; the name of a column must be text"),
        (
            {**OUTPUT, "score": "person_{aspect}_{rater}"},
            "columns: pattern 'person_{aspect}_{rater}' matches no column that is still without a role; columns: "
            "output, human_coherence_ann1, human_coherence_ann2, human_fluency_ann1, human_fluency_ann2, bleu",
        ),
        (
            {**OUTPUT, "score": [*BOTH, "metric:bleu"]},
            "columns: pattern 'metric:bleu' matches no column that is still without a role (did you mean 'bleu'?); "
            "columns: output, human_coherence_ann1, human_coherence_ann2, human_fluency_ann1, human_fluency_ann2, "
            "bleu",
        ),
        (
            {**OUTPUT, "winner": "output", "score": "metric:x"},
            "columns: pattern 'metric:x' is not used, because the table already has verdicts (column winner or "
            "preference) or scores (columns rater and score); remove the pattern, or rename that column",
        ),
        (
            {**OUTPUT, "score": "{aspect:bleu}"},
            "columns: '{aspect:bleu}' gives no rater; add {rater}, or map rater to a column",
        ),
        (
            {**OUTPUT, "score": "human_{aspect}_ann{repeat}", "aspect": "output"},
            "columns: the aspect is given twice, by the pattern 'human_{aspect}_ann{repeat}' and by a column; "
            "remove {aspect} from the pattern, or map no column to aspect",
        ),
        ({**OUTPUT, "score": "human_{rater}_ann{aspect:1}"}, ""),
        (
            {"item": "doc_id", "score": BOTH},
            "table: the patterns match score columns, but no column has the role system; map one, as in "
            "system=NAME. Columns: item, model, output, human_coherence_ann1, human_coherence_ann2, "
            "human_fluency_ann1, human_fluency_ann2, bleu; try --column item=doc_id --column system=model --column "
            "text=output --columns 'human_{aspect}_{rater}' --columns 'metric:{rater}' (in Python columns={'item': "
            "'doc_id', 'system': 'model', 'text': 'output', 'score': ['human_{aspect}_{rater}', 'metric:{rater}']})",
        ),
        (
            {**OUTPUT, "score": "metric:output"},
            "table: no column matched by the patterns holds a number (output); name the score columns",
        ),
        (
            {**OUTPUT, "group": "bleu"},
            "table: item 'd0' has several values of group ('0.965', '0.358', '0.14'); give each item one group",
        ),
        (
            {"system": "model", "group": "model"},
            "columns: group describes items, but table has no column of items; map item",
        ),
        (
            {**OUTPUT, "score": ["human:{rater}_coherence_{aspect:ann1}", "metric:{rater}_coherence_{aspect}"]},
            "table: rater 'human' has columns of several kinds: 'human_coherence_ann1' (human), 'human_coherence_ann2' "
            "(metric); give each rater one kind",
        ),
        ({**OUTPUT, "score": ["human_{aspect}_ann1", "human_{aspect}_ann2"]}, ""),
        (
            {**OUTPUT, "score": ["human_coherence_{rater}", "human_fluency_{rater}"]},
            "table: columns 'human_coherence_ann1' and 'human_fluency_ann1' have the same rater, aspect and repeat; "
            "distinguish them by {rater}, {aspect} or {repeat}",
        ),
        *(
            (
                {**OUTPUT, "score": patterns},
                f"table: rater 'human' has columns of several kinds: 'human_coherence_ann1' ({first}), "
                f"'human_coherence_ann2' ({second}); give each rater one kind",
            )
            for first, second, patterns in (
                ("unknown", "metric", ["{rater}_coherence_{aspect:ann1}", "metric:{rater}_coherence_{aspect}"]),
                ("metric", "unknown", ["metric:{rater}_coherence_{aspect:ann1}", "{rater}_coherence_{aspect}"]),
            )
        ),
        (
            {**OUTPUT, "rater": "output", "score": ["human:human_coherence_ann1", "human:human_fluency_ann1"]},
            "table: columns 'human_coherence_ann1' and 'human_fluency_ann1' have the same rater, aspect and repeat; "
            "distinguish them by {rater}, {aspect} or {repeat}",
        ),
        *(
            (
                {**OUTPUT, "winner": pattern},
                f"columns: winner={pattern!r}: a pattern of verdicts needs {{rater}} or {{order}} and must not have "
                "{system}",
            )
            for pattern in ("{aspect}_choice", "{rater}_{system}")
        ),
        (
            {**OUTPUT, "score": ["{rater}", "{order}_x"]},
            "columns: pattern '{order}_x': {order} is only allowed in a pattern for winner",
        ),
        ("doc_id", "columns='doc_id': give a mapping of role to column, such as {'item': 'doc_id', 'system': 'model'}"),
    ],
    ids=str,
)
def test_a_mapping_is_checked(columns: Any, message: str) -> None:
    frame = wide(*TWO_ASPECTS)
    for table in (frame, as_text(frame)):
        if not message:
            assert read(table, columns=columns).ratings.frame.height
            continue
        with pytest.raises(CustodesError, match=exactly(message)):
            read(table, columns=columns)


def test_a_row_of_the_wide_table_is_named() -> None:
    frame = as_text(wide(*TWO_ASPECTS))
    broken = frame.with_columns(bleu=pl.when(pl.int_range(frame.height) == 4).then(pl.lit("high")).otherwise("bleu"))
    with pytest.raises(cu.InputError, match="table: bleu 'high' in row 5 is not a number"):
        read(broken, columns={**OUTPUT, "score": BOTH})
    twice = pl.concat([frame, frame[:1]])
    with pytest.raises(
        cu.InputError, match=r"the same output occurs twice, in rows 1, 25 \(item 'd0', system 'Aster'\)"
    ):
        read(twice, columns={**OUTPUT, "score": BOTH})


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (
            "demo",
            {"columns": OUTPUT},
            "columns: a mapping applies only to tables, and no input is a table; leave columns out",
        ),
        (
            wide("ann"),
            {"columns": {**OUTPUT, "group": "doc_id"}, "items": pl.DataFrame({"item": ["d0"], "group": ["x"]})},
            "items: columns and the items table both give group; remove one source",
        ),
        (
            wide(*TWO_ASPECTS),
            {"columns": {**OUTPUT, "score": BOTH}, "reader": "battles"},
            "reader='battles' does not support patterns of columns; map single columns instead of patterns",
        ),
    ],
)
def test_a_mapping_that_is_of_no_use_is_refused(source: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(cu.OptionError, match=exactly(message)):
        read(source, **options)


@pytest.mark.parametrize("odd", ["bert_score", "rouge_l", "style_mean", "style_score"])
def test_no_metric_and_no_average_becomes_a_person(odd: str) -> None:
    frame = wide("style_a1", "style_a2", "depth_a1", "depth_a3", "style_a4", odd)
    aspect, rater = odd.split("_")
    message = (
        f"table: pattern 'human:{{aspect}}_{{rater}}' reads column {odd!r} as aspect {aspect!r} rated by annotator "
        f"{rater!r}; if {odd!r} is a metric or an average, list the annotators, as in {{rater:a1,a2,a3}} (a comma list "
        "of globs)"
    )
    with pytest.raises(cu.InputError, match=exactly(message)):
        cu.read(frame, columns={**OUTPUT, "score": ["human:{aspect}_{rater}", "metric:{rater}"]})
    study = cu.read(frame, columns={**OUTPUT, "score": ["human:{aspect}_{rater:a?}", "metric:{rater}"]})
    assert (study.humans, study.metrics) == (("a1", "a2", "a3", "a4"), (odd,))


def apply(columns: dict[str, Any], **mapping: Any) -> MappingResult:
    return Columns.make(mapping).apply(pl.DataFrame(columns), where="folder/t.v1.csv")


def messages(result: MappingResult) -> list[tuple[str, str]]:
    return [(note.rule, note.message) for note in result.notes]


TEXTS = {"id": [1, 2], "out_A": ["x", "y"], "out_B": ["u", "v"], "n": [1, 2], "latency": [1, 2], "word": ["a", "b"]}


def test_a_table_of_texts_has_no_ratings() -> None:
    result = apply(TEXTS, item="id", text="out_{system}", group="word")
    assert (result.frame, result.wide) == (None, False)
    assert result.texts is not None
    assert result.texts.rows() == [("1", "A", "x"), ("2", "A", "y"), ("1", "B", "u"), ("2", "B", "v")]
    assert result.items is not None
    assert result.items.select("item", "group").rows() == [("1", "a"), ("2", "b")]
    assert messages(result) == [("unused-columns", "folder/t.v1.csv: columns not used: n, latency")]
    with pytest.raises(
        UnfitError,
        match=exactly("folder/t.v1.csv: no pattern matches the columns that hold numbers (n); add a pattern"),
    ):
        apply(TEXTS, item="id", text="out_{system}", score="metric:chrf")


def test_rows_without_an_item_do_not_describe_items() -> None:
    columns = {"id": ["a", None, "b", ""], "system": list("xyxy"), "word": ["n", "m", "", "k"], "score": [1, 2, 3, 4]}
    result = apply({**columns, "rater": "r"}, item="id", group="word")
    assert result.items is not None
    assert result.items.select("item", "group").rows() == [("a", "n"), ("b", None)]


def test_systems_without_a_name() -> None:
    pairs = {"id": [1, 2], "x": ["p", "q"], "y": ["r", "s"], "better": ["A", "B"]}
    result = apply(pairs, item="id", output_a="x", output_b="y", winner="better")
    assert result.frame is not None
    assert result.frame.rows() == [(1, "A", "a", "b"), (2, "B", "a", "b")]
    assert messages(result) == [
        (
            "nameless-systems",
            "folder/t.v1.csv: no column names the two systems of a pair, so the systems are called a and b",
        )
    ]
    named = apply(
        {**pairs, "model_a": ["m", "n"], "model_b": "o"}, item="id", output_a="x", output_b="y", winner="better"
    )
    assert (messages(named), named.frame is not None and "system_a" in named.frame) == ([], False)
    note = (
        "system-of-file",
        "folder/t.v1.csv: no column names the system, so all rows are of one system, called t unless another file "
        "names the system",
    )
    scores = {"id": [1, 2], "bleu": [0.5, 0.25]}
    result = apply(scores, item="id", score="metric:{rater}")
    assert (messages(result), result.wide) == ([note], True)
    assert result.frame is not None
    assert result.frame.select("item", "system", "rater", "kind", "score").rows() == [
        ("1", "t", "bleu", "metric", 0.5),
        ("2", "t", "bleu", "metric", 0.25),
    ]
    long = {"id": [1, 1], "rater": ["p", "q"], "score": [1, 2]}
    assert messages(apply(long, item="id")) == [note]
    assert messages(apply({**long, "rater": "p"}, item="id")) == []  # rows repeat, so there are several systems
    assert messages(apply({**long, "system": "s"}, item="id")) == []
    with pytest.raises(UnfitError, match="no column has the role system"):
        apply({**scores, "id": [1, 1]}, item="id", score="metric:{rater}")


def verdict_rows(columns: dict[str, Any], **mapping: Any) -> list[dict[str, Any]]:
    return Columns.make(mapping).verdict_rows(pl.DataFrame(columns), where="t.csv").to_dicts()


def test_a_pattern_of_verdicts_gives_a_row_for_each_column() -> None:
    verdicts = {"id": [1], "ann_AB": [1], "gpt4_BA": ["b"], "zoe_AB": ["tie"]}
    rows = verdict_rows(verdicts, item="id", winner="{rater}_{order}")
    assert rows == [
        {"id": 1, "rater": rater, "order": order, "kind": kind, "winner": winner}
        for rater, order, kind, winner in (
            ("ann", "AB", "human", "1"),
            ("gpt4", "BA", "metric", "b"),
            ("zoe", "AB", "metric", "tie"),
        )
    ]
    kinds = verdict_rows({"id": [1], "human.zoe": ["a"]}, item="id", winner="{kind}.{rater}")
    assert kinds == [{"id": 1, "kind": "human", "rater": "zoe", "winner": "a"}]
    orders = verdict_rows({"id": [1], "rater": ["x"], "AB": ["a"]}, item="id", winner="{order:AB}")
    assert orders == [{"id": 1, "rater": "x", "order": "AB", "winner": "a"}]
    assert verdict_rows({"id": [1], "w": ["a"]}, item="id", winner="w") == [{"id": 1, "w": "a"}]
    for role, noun in (("rater", "raters"), ("order", "presentation orders")):
        message = (
            f"t.csv: the {noun} are named twice, by the pattern for `winner` and by the column for `{role}`; remove "
            "one of them"
        )
        for columns, mapping in (({**verdicts, role: ["x"]}, {}), ({**verdicts, "y": ["x"]}, {role: "y"})):
            with pytest.raises(cu.OptionError, match=exactly(message)):
                verdict_rows(columns, winner="{rater}_{order}", **mapping)


def test_properties_of_items_are_named_like_their_role() -> None:
    table = {"item": ["a", "a", "b"], "system": list("xyx"), "cluster": ["c", "c", "d"], "group": list("ggg")}
    table |= {"dataset": list("xyz")}  # two values of an item
    for columns, mapping, added in (
        (table, {}, ["cluster", "group"]),
        ({name: cells for name, cells in table.items() if name != "system"}, {}, []),
        ({"model_a" if name == "system" else name: cells for name, cells in table.items()}, {}, ["cluster", "group"]),
        ({"doc" if name == "item" else name: cells for name, cells in table.items()}, {}, []),
        (
            {"doc" if name == "item" else name: cells for name, cells in table.items()},
            {"item": "doc"},
            ["cluster", "group"],
        ),
        (table, {"weight": "cluster"}, ["group"]),
    ):
        found = Columns.make(mapping).with_named_properties(pl.DataFrame(columns))
        assert found.roles == mapping | {name: name for name in added}


REVIEWS = pl.DataFrame(
    {
        "item": ["1", "1", "1", "2"],
        "system": ["X", "X", "Y", "X"],
        "rater": ["ann", "bob", "ann", "bob"],
        "score": [4, 5, 3, 2],
        "bleu": [0.5, 0.5, 0.25, 0.75],
    }
)
REVIEW_PATTERNS = {"score": ["human:score", "metric:{rater}"]}


def test_metric_scores_in_every_review_of_an_output_are_read_once() -> None:
    ratings = cu.read(REVIEWS, columns=REVIEW_PATTERNS).ratings.frame
    rows = ratings.select("item", "system", "rater", "score").rows()
    assert sorted(rows) == sorted(
        [
            *REVIEWS.select("item", "system", "rater", "score").rows(),
            ("1", "X", "bleu", 0.5),
            ("1", "Y", "bleu", 0.25),
            ("2", "X", "bleu", 0.75),
        ]
    )
    study = cu.read(REVIEWS, columns=REVIEW_PATTERNS)
    assert (study.humans, study.metrics) == (("ann", "bob"), ("bleu",))


@pytest.mark.parametrize(
    "cells", [[None, 0.5, 0.25, 0.75], [0.5, float("nan"), 0.25, 0.75], ["NA", "0.5", "0.25", "0.75"]]
)
def test_a_metric_score_in_one_review_of_an_output_is_sufficient(cells: list[float | str | None]) -> None:
    ratings = cu.read(REVIEWS.with_columns(bleu=pl.Series(cells)), columns=REVIEW_PATTERNS).ratings.frame
    assert ratings.filter(rater="bleu").sort("item", "system")["score"].to_list() == [0.5, 0.25, 0.75]


def test_different_metric_scores_in_reviews_of_an_output_are_refused() -> None:
    different = REVIEWS.with_columns(bleu=pl.Series([0.5, 0.6, 0.25, 0.75]))
    message = (
        "table: rows of one output (item '1', system 'X') have different values in the columns of metrics (bleu); "
        "give one value of a metric per output, in one or all rows of the output"
    )
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        cu.read(different, columns=REVIEW_PATTERNS)


def test_unused_metrics_of_a_long_table_are_named() -> None:
    (note,) = (note for note in cu.read(REVIEWS).notes if note.rule == "unused-metrics")
    assert note.message == (
        "table: columns that look like metrics are not used: bleu; if each row repeats the metric scores of its "
        "output, give --columns human:score --columns 'metric:{rater:NAMES}'"
    )
